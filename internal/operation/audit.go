package operation

import (
	"encoding/json"
	"time"

	"github.com/droverhq/drover/internal/ledger"
)

// Phases of an audit entry: how an operator's call ended.
const (
	AuditStarted = "started" // a change was about to be made; how that ended is not known
	AuditDone    = "done"
	AuditRefused = "refused" // it could not be done as it was asked
	AuditHidden  = "hidden"  // the caller had no right to know that there is anything
	AuditFailed  = "failed"
)

// AuditKind declares audit entries to the ledger: one for every call of an
// operators' API, and for every change that somebody was refused. They are written and never removed.
var AuditKind = ledger.Kind{
	Name: "audit",
	Fields: []ledger.Field{
		{Name: "method", Type: ledger.Text},
		{Name: "path", Type: ledger.Text},
		{Name: "status", Type: ledger.Int},
		{Name: "remote", Type: ledger.Text},
	},
	Totals: [][]string{{}},
}

// Audit is what an entry says of a call. Bodies and queries are not in it: they
// may hold secrets. What a change did is found in the log by its request.
type Audit struct {
	User      string   `json:"user"`
	Org       string   `json:"org,omitempty"`    // of a tenant
	Issuer    string   `json:"issuer,omitempty"` // of the token
	Roles     []string `json:"roles,omitempty"`
	Method    string   `json:"method"`
	Path      string   `json:"path"`
	Remote    string   `json:"remote"`              // address of the peer
	Forwarded string   `json:"forwarded,omitempty"` // what the caller, or a proxy, says of itself
	Request   string   `json:"request"`
}

// AuditStatus is how the call ended.
type AuditStatus struct {
	Status   int       `json:"status"`          // of HTTP
	About    string    `json:"about,omitempty"` // whom it was about, where nothing else in the log tells
	Finished time.Time `json:"finished"`
}

// AuditPhase tells an outcome by its status.
func AuditPhase(status int) string {
	switch {
	case status >= 500:
		return AuditFailed
	case status >= 400:
		return AuditRefused
	}
	return AuditDone
}

// Entry returns the put that writes an entry: in the phase started without an
// outcome, in any other with one.
func (a Audit) Entry(phase string, status int, now time.Time) (ledger.Put, error) {
	spec, err := json.Marshal(a)
	if err != nil {
		return ledger.Put{}, err
	}
	o := ledger.Object{
		Ref:  ledger.Ref{Kind: AuditKind.Name, ID: ledger.NewID()},
		Name: a.Method + " " + a.Path, Org: a.Org, Owner: a.User, Spec: spec,
		Fields: ledger.Fields{"method": a.Method, "path": a.Path, "remote": a.Remote},
	}
	if phase == AuditStarted {
		o.Phase = phase
		return ledger.Put{Object: o, Op: phase}, nil
	}
	return Conclude(o, phase, AuditStatus{Status: status, Finished: now})
}

// Conclude returns the put that says how a call ended.
func Conclude(entry ledger.Object, phase string, s AuditStatus) (ledger.Put, error) {
	s.Finished = s.Finished.UTC()
	var err error
	if entry.Status, err = json.Marshal(s); err != nil {
		return ledger.Put{}, err
	}
	entry.Phase = phase
	entry.Fields["status"] = int64(s.Status)
	return ledger.Put{Object: entry, Expect: entry.Version, Op: phase}, nil
}
