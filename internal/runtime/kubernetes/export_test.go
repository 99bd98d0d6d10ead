package kubernetes

import (
	"encoding/json"
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/droverhq/drover/internal/manifest"
	"github.com/droverhq/drover/internal/runtime"
	"github.com/droverhq/drover/internal/runtime/keep"
)

// Read is read, and tells how many objects there are.
func Read(body json.RawMessage) (int, error) {
	d, err := read(body)
	return len(d.Manifests), err
}

// Units is units.
func Units(have, reserve, unit corev1.ResourceList) int64 { return units(have, reserve, unit) }

// Assess is assess.
func Assess(r keep.Record, body json.RawMessage, h manifest.Health) (runtime.Observed, error) {
	d, err := read(body)
	return assess(r, d, h), err
}

// Deployed is deployed.
func Deployed(body json.RawMessage, h manifest.Health, differs ...runtime.ResourceDifference) (json.RawMessage, error) {
	d, err := read(body)
	if err != nil {
		return nil, err
	}
	return deployed(d, h, differs, memory{})
}

// Spec of a route on a cluster that carries hosts like that.
func Spec(kind string, cfg Config, host, service string, port int64, tls string) (map[string]any, error) {
	cfg.Routes = kind
	r := &Runtime{cfg: cfg.defaults()}
	rt := route{Host: host, Service: service, Port: port, TLS: tls}
	if err := rt.check(); err != nil {
		return nil, err
	}
	all, err := r.carriers("id", "ns", []route{rt})
	if err != nil {
		return nil, err
	}
	return all[0].object["spec"].(map[string]any), nil
}

// Reserve is reserve, for a deployment that has these namespaces by their names.
func Reserve(own string, named, lines []string) error {
	return reserve(own, &deployment{Named: named}, lines)
}

// Repair is a memory of what is put right.
type Repair struct{ m memory }

// Begin is heals.
func (r *Repair) Begin(rec keep.Record, will manifest.Result, now time.Time) bool {
	return r.m.heals(rec, will, now)
}

// Healing is what is being put right; empty: nothing.
func (r *Repair) Healing() string {
	if r.m.Healing == nil {
		return ""
	}
	return r.m.Healing.What
}

// Made says that a body was applied as a whole.
func (r *Repair) Made(body json.RawMessage) { r.m.Made = digest(body) }

// Syncs is a memory of the last sync of a deployment.
type Syncs struct{ m memory }

// Apply is what is remembered of an attempt to apply a body: it worked, or failed with a
// message; false: it was no sync.
func (s *Syncs) Apply(body json.RawMessage, at time.Time, message string, wrote manifest.Result, pruned ...string) bool {
	doc, err := read(body)
	if err != nil || !s.m.asked(doc) {
		return false
	}
	if message != "" {
		s.m.fails(doc, message, at, at.Add(time.Second))
		return true
	}
	sync := doc.manual() || s.m.unsynced(body)
	if s.m.Made = digest(body); sync {
		s.m.Operation = operationOf(doc, succeeded, "successfully synced", at, at.Add(time.Second))
		s.m.Operation.did(doc, wrote, pruned)
	}
	if doc.manual() {
		s.m.succeeds(doc, at, at.Add(time.Second))
	}
	return sync
}

// Told is told.
func (s *Syncs) Told() json.RawMessage { return s.m.told() }

// Try is tries.
func (s *Syncs) Try(body json.RawMessage, message string, at time.Time) time.Duration {
	doc, _ := read(body)
	return s.m.tries(doc, message, at, at)
}

// Rests is rests.
func (s *Syncs) Rests(body json.RawMessage, now time.Time) time.Duration {
	doc, _ := read(body)
	return s.m.rests(doc, now)
}

// Ran is ran.
func (s *Syncs) Ran(body json.RawMessage) *runtime.SyncRun {
	doc, _ := read(body)
	return s.m.ran(doc)
}
