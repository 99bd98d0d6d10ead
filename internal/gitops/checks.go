package gitops

import (
	"encoding/json"
	"maps"
	"reflect"
	"slices"
	"sync"
	"time"

	"github.com/droverhq/drover/internal/ledger"
)

// checkedEach is how often it is written down that something was checked and found as
// it was: the ledger keeps all that is written.
const checkedEach = time.Hour

// checks is when credentials and targets were last checked, in this process. Losing it
// costs another check.
type checks struct {
	mu sync.Mutex
	by map[ledger.Ref]time.Time
}

const maxChecks = 100_000

// newest is when something was checked last, as far as is known.
func (c *checks) newest(of ledger.Ref, written time.Time) time.Time {
	c.mu.Lock()
	defer c.mu.Unlock()
	if at := c.by[of]; at.After(written) {
		return at
	}
	return written
}

func (c *checks) note(of ledger.Ref, at time.Time) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.by == nil || len(c.by) >= maxChecks {
		c.by = map[ledger.Ref]time.Time{}
	}
	c.by[of] = at
}

// worth reports whether a put says more than that something was checked again. It
// notes when that was.
func (c *checks) worth(read ledger.Object, put ledger.Put, before, now time.Time) bool {
	c.note(read.Ref, now)
	o := put.Object // its phase follows from its status
	return now.Sub(before) >= checkedEach || !reflect.DeepEqual(o.Fields, read.Fields) || !slices.Equal(o.Links, read.Links) ||
		string(o.Spec) != string(read.Spec) || !sameButChecked(o.Status, read.Status)
}

func sameButChecked(a, b json.RawMessage) bool {
	var x, y map[string]json.RawMessage
	if json.Unmarshal(a, &x) != nil || json.Unmarshal(b, &y) != nil {
		return false
	}
	delete(x, "checked")
	delete(y, "checked")
	return maps.EqualFunc(x, y, func(p, q json.RawMessage) bool { return string(p) == string(q) })
}
