package audit

import (
	"encoding/json"
	"strings"
	"time"

	"github.com/droverhq/drover/internal/ledger"
	"github.com/droverhq/drover/internal/operation"
)

// Record is one thing that was done, or was tried.
type Record struct {
	Seq     int64
	At      time.Time
	Actor   string // who
	From    string // from where: an address
	Verb    string // what
	Kind    string // of what it was done to; empty: nothing in particular
	ID      string
	Name    string
	Org     string
	Version int64
	Outcome string // done, refused, hidden, failed; started: how it ended is not known
	Cause   string
	Request string // id of the request, empty if nobody asked for it
	Call    string // method and path of an operator's call
	Status  int    // what it was answered with
	Erased  bool   // what was changed was erased since
}

// Filter selects records. Zero fields select everything.
type Filter struct {
	Since, Until time.Time // at or after; before
	Org          string
	Actor        string
	Kind         string
	ID           string // an id or a name
	Verb         string
	Outcome      string
	// Asked is for what somebody asked for alone, by a request, a custom resource or a push; what Drover did of its own
	// accord, because of that, is left out.
	Asked bool
}

// Done is the outcome of a change, but of those in ends: what was refused has left none.
const Done = operation.AuditDone

// ends are the phases of what somebody asked for that tell that it was not to be had.
var ends = map[string]map[string]string{
	operation.Kind.Name: {operation.Failed: operation.AuditFailed},
	"command":           {"rejected": operation.AuditRefused, "failed": operation.AuditFailed},
}

const (
	requested = "request:"
	pushed    = "push:"     // by a Git server: its request is a signed one of nobody that has a token
	resourced = "resource:" // by a custom resource: there is no request of ours, but somebody who wrote it
)

// RecordOf reads a change.
func RecordOf(c *ledger.Change) Record {
	o := &c.Object
	r := Record{
		Seq: c.Seq, At: c.At, Actor: c.Actor, From: c.From, Verb: c.Op, Kind: o.Kind, ID: o.ID, Name: o.Name, Org: o.Org,
		Version: o.Version, Outcome: Done, Cause: string(c.Cause), Erased: o.Created.IsZero(),
	}
	if id, ok := strings.CutPrefix(r.Cause, requested); ok {
		r.Request = id
	}
	if outcome := ends[o.Kind][o.Phase]; outcome != "" && c.Op == o.Phase {
		r.Outcome = outcome
		var spec operation.Spec // of a command: none of it
		if json.Unmarshal(o.Spec, &spec) == nil {
			if id, ok := spec.Cause.Request(); ok {
				r.Request = id // somebody asked for what has failed
			}
		}
	}
	if o.Kind != operation.AuditKind.Name {
		return r
	}
	// An entry about a call: the call is what was done, and not the entry.
	r.Kind, r.ID, r.Name, r.Verb, r.Outcome = "", "", "", "call", o.Phase
	var call operation.Audit
	var end operation.AuditStatus
	if json.Unmarshal(o.Spec, &call) == nil {
		r.Actor, r.Call, r.Request = call.User, call.Method+" "+call.Path, call.Request
		if r.From == "" {
			r.From = call.Remote
		}
	}
	if len(o.Status) > 0 && json.Unmarshal(o.Status, &end) == nil {
		r.Status = end.Status
		if end.About != "" {
			r.Name = end.About
		}
	}
	return r
}

// Picks reports whether a record is asked for.
func (f Filter) Picks(r *Record) bool {
	is := func(want, got string) bool { return want == "" || want == got }
	return is(f.Org, r.Org) && is(f.Actor, r.Actor) && is(f.Kind, r.Kind) && is(f.Verb, r.Verb) && is(f.Outcome, r.Outcome) &&
		(f.ID == "" || f.ID == r.ID || f.ID == r.Name) && (!f.Asked || r.asked()) &&
		(f.Since.IsZero() || !r.At.Before(f.Since)) && (f.Until.IsZero() || r.At.Before(f.Until))
}

// asked reports whether somebody wanted just this, by a request, a custom resource or a push.
func (r *Record) asked() bool {
	return r.Request != "" || r.Call != "" || strings.HasPrefix(r.Cause, resourced) || strings.HasPrefix(r.Cause, pushed)
}
