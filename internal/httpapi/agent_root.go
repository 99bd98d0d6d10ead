package httpapi

import (
	"strings"

	"github.com/droverhq/drover/internal/ledger"
)

// roots knows which requests the latest changes go back to: work is caused by changes,
// and those by earlier ones. It is read off the feed as it passes, so that nobody asks
// the ledger for it, and belongs to whoever reads that. What it has forgotten stays
// the cause that it is, which the ledger follows further.
type roots struct {
	now, before map[at]string // the request's cause, by change
}

// at is a change.
type at struct {
	ledger.Ref
	version int64
}

// rootsKept is how many changes are remembered, at least.
const rootsKept = 8192

// of returns what a change goes back to: a request if there is one and it is
// remembered, else its own cause.
func (r *roots) of(c *ledger.Change) string {
	cause := string(c.Cause)
	if ref, version, ok := c.Cause.Change(); ok {
		known, ok := r.now[at{ref, version}]
		if !ok {
			known, ok = r.before[at{ref, version}]
		}
		if !ok {
			return cause
		}
		cause = known
	} else if _, ok := c.Cause.Request(); !ok {
		return cause
	} else {
		cause = strings.Clone(cause) // not with all that it was read with
	}
	if r.now == nil || len(r.now) >= rootsKept {
		r.now, r.before = map[at]string{}, r.now
	}
	o := c.Object.Ref
	r.now[at{ledger.Ref{Kind: strings.Clone(o.Kind), ID: strings.Clone(o.ID)}, c.Object.Version}] = cause
	return cause
}
