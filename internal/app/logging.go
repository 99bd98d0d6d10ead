package app

import (
	"context"
	"encoding/json"
	"log/slog"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/droverhq/drover/internal/ledger"
	"github.com/droverhq/drover/internal/operation"
	"github.com/droverhq/drover/internal/reconcile"
	"github.com/droverhq/drover/internal/trace"
)

// knowing adds to every line what its context knows: the request that it was
// written for, or what else caused it, and whose it is. A line that says so itself
// is left alone.
type knowing struct {
	slog.Handler
	given []string // what a logger says in all of its lines
}

// Handle implements slog.Handler.
func (h knowing) Handle(ctx context.Context, r slog.Record) error {
	has := func(key string) (found bool) {
		r.Attrs(func(a slog.Attr) bool { found = a.Key == key; return !found })
		return found || slices.Contains(h.given, key)
	}
	for _, a := range about(ctx) {
		if !has(a.Key) {
			r.AddAttrs(a)
		}
	}
	return h.Handler.Handle(ctx, r)
}

// WithAttrs implements slog.Handler.
func (h knowing) WithAttrs(attrs []slog.Attr) slog.Handler {
	given := slices.Clone(h.given)
	for _, a := range attrs {
		given = append(given, a.Key)
	}
	return knowing{h.Handler.WithAttrs(attrs), given}
}

// WithGroup implements slog.Handler.
func (h knowing) WithGroup(name string) slog.Handler {
	return knowing{h.Handler.WithGroup(name), h.given}
}

// about is what a context tells a line.
func about(ctx context.Context) (out []slog.Attr) {
	if cause, ok := ledger.KnownCause(ctx); ok {
		if id, request := cause.Request(); request {
			out = append(out, slog.String("request", id))
		} else {
			out = append(out, slog.String("cause", string(cause)))
		}
	}
	if org := ledger.OrgOf(ctx); org != "" {
		out = append(out, slog.String("org", org))
	}
	if id := trace.ID(ctx); id != "" {
		out = append(out, slog.String("trace", id))
	}
	return out
}

// requests finds the requests that causes go back to. Work is caused by changes,
// and those by earlier ones; the first is often what somebody asked for.
type requests struct {
	log   ledger.Log
	mu    sync.Mutex
	known map[ledger.Cause]string
}

const (
	// How far it is followed: what began longer ago is found with `drover describe`.
	causeObjects, causeChanges = 4, 64
	causeTime                  = 500 * time.Millisecond
	causesKnown                = 1024
)

// of returns the id of the request, empty if there is none, or none can be found now.
// What is found is kept: a cause does not change.
func (q *requests) of(ctx context.Context, cause ledger.Cause) string {
	if id, ok := cause.Request(); ok {
		return id
	}
	q.mu.Lock()
	id, ok := q.known[cause]
	q.mu.Unlock()
	if ok {
		return id
	}
	ctx, cancel := context.WithTimeout(ctx, causeTime)
	defer cancel()
	id, err := q.follow(ctx, cause)
	if err != nil {
		return ""
	}
	q.mu.Lock()
	defer q.mu.Unlock()
	if len(q.known) >= causesKnown || q.known == nil {
		q.known = map[ledger.Cause]string{}
	}
	q.known[cause] = id
	return id
}

// follow goes back from change to change. Those of one object are read at once.
func (q *requests) follow(ctx context.Context, cause ledger.Cause) (string, error) {
	for moved, left := true, causeObjects; moved && left > 0; left-- {
		ref, version, ok := cause.Change()
		if !ok {
			break
		}
		moved = false
		changes, err := q.log.Changes(ctx, ledger.ChangeQuery{Kind: ref.Kind, ID: ref.ID, Reverse: true, Left: true, Limit: causeChanges})
		if err != nil {
			return "", err
		}
		for i := range changes {
			if c := &changes[i]; c.Object.Version == version {
				cause, moved = c.Cause, true
				if ref, version, ok = cause.Change(); !ok || ref != c.Object.Ref {
					break
				}
			}
		}
	}
	id, _ := cause.Request()
	return id, nil
}

// outcomes is the loop's ledger, with an eye on operations that end: a request that
// was answered long ago has come to its end there, and not in a failed run.
type outcomes struct {
	reconcile.Ledger
	log *slog.Logger
}

// Commit implements reconcile.Ledger.
func (l outcomes) Commit(ctx context.Context, set ledger.Set) (ledger.Result, error) {
	result, err := l.Ledger.Commit(ctx, set)
	if err == nil {
		for i := range set.Puts {
			if p := &set.Puts[i]; p.Object.Kind == operation.Kind.Name && (p.Op == operation.Failed || p.Op == operation.Succeeded) {
				l.ended(ctx, &p.Object, p.Op)
			}
		}
	}
	return result, err
}

// ended tells how an operation ended. That it went well is said on level debug alone:
// under load it is most of what happens.
func (l outcomes) ended(ctx context.Context, o *ledger.Object, phase string) {
	level := slog.LevelDebug
	if phase == operation.Failed {
		level = slog.LevelWarn
	}
	if !l.log.Enabled(ctx, level) {
		return
	}
	var spec operation.Spec
	var status operation.Status
	if json.Unmarshal(o.Spec, &spec) != nil || json.Unmarshal(o.Status, &status) != nil {
		return
	}
	attrs := []slog.Attr{slog.String("operation", o.ID), slog.String("verb", spec.Verb), slog.String("kind", spec.Subject.Kind),
		slog.String("id", spec.Subject.ID), slog.String("name", spec.Name)}
	if id, ok := spec.Cause.Request(); ok {
		attrs = append(attrs, slog.String("request", id))
	}
	if status.Reason != "" {
		attrs = append(attrs, slog.String("reason", strings.ToValidUTF8(status.Reason[:min(len(status.Reason), maxReason)], "")))
	}
	l.log.LogAttrs(ctx, level, "operation "+phase, attrs...)
}

// maxReason is how much of a reason is said; the operation has all of it.
const maxReason = 1024
