package gitops

import (
	"cmp"
	"encoding/json"
	"slices"
	"strings"

	"github.com/droverhq/drover/internal/fault"
	"github.com/droverhq/drover/internal/ledger"
)

// Decode reads a deployment.
func Decode(o ledger.Object) (Deployment, error) {
	d := Deployment{Object: o}
	return d, decode(o, &d.Spec, &d.Status)
}

// DecodeSyncRun reads a sync run.
func DecodeSyncRun(o ledger.Object) (SyncRun, error) {
	r := SyncRun{Object: o}
	return r, decode(o, &r.Spec, &r.Status)
}

// DecodeWorkspace reads a workspace.
func DecodeWorkspace(o ledger.Object) (Workspace, error) {
	w := Workspace{Object: o}
	return w, decode(o, &w.Spec, nil)
}

func decode(o ledger.Object, spec, status any) error {
	for _, part := range []struct {
		raw  json.RawMessage
		into any
	}{{o.Spec, spec}, {o.Status, status}} {
		if len(part.raw) == 0 || part.into == nil {
			continue
		}
		if err := json.Unmarshal(part.raw, part.into); err != nil {
			return fault.New(fault.Internal, "%s cannot be read: %w", o.Ref, err)
		}
	}
	return nil
}

// documents fills in what an object has as JSON.
func documents(o *ledger.Object, spec, status, view any) (err error) {
	for _, part := range []struct {
		into *json.RawMessage
		from any
	}{{&o.Spec, spec}, {&o.Status, status}, {&o.View, view}} {
		if part.from == nil {
			continue
		}
		if *part.into, err = json.Marshal(part.from); err != nil {
			return err
		}
	}
	return nil
}

// Brief is what lists show of a deployment: its View in the ledger.
type Brief struct {
	Workspace  string `json:"workspace"`
	Repository string `json:"repository"`
	Path       string `json:"path"`
	Revision   string `json:"revision,omitempty"`
	To         To     `json:"to"`
	Automated  bool   `json:"automated"`
	Engine     string `json:"engine,omitempty"`
	Sync       string `json:"sync,omitempty"`
	Health     string `json:"health,omitempty"`
	Commit     string `json:"commit,omitempty"` // that is compared with
	Message    string `json:"message,omitempty"`
}

// workspace is the id of whose it is.
func (d *Deployment) workspace() string { w, _ := d.Fields["workspace"].(string); return w }

// put makes the put of a deployment.
func (d *Deployment) put(op string) (ledger.Put, error) {
	o := d.Object
	seen := d.Status.deployed()
	o.Fields = ledger.Fields{
		"workspace": d.workspace(), "repository": NormaliseRepository(cut(d.Spec.Repository, maxURL)),
		"engine": cmp.Or(d.Status.Engine, d.Status.Wanted), "target": d.Status.Target, "credential": d.Status.Credential,
		"selector": len(d.Spec.To.Selector) > 0, "sync": seen.Sync.Status, "health": seen.Health.Status,
	}
	o.Words = strings.ToValidUTF8(d.Spec.Repository+" "+d.Spec.Path, "")
	o.Links = nil
	for kind, id := range map[string]string{"workspace": d.workspace(), "cluster": d.Status.Engine, KindTarget.Name: d.Status.Target, KindRepository.Name: d.Status.Credential} {
		if id != "" {
			o.Links = append(o.Links, kind+"/"+id)
		}
	}
	slices.Sort(o.Links)
	err := documents(&o, d.Spec, d.Status, Brief{
		Workspace: d.workspace(), Repository: d.Spec.Repository, Path: d.Spec.Path, Revision: d.Spec.Revision, To: d.Spec.To,
		Automated: d.Spec.Automated, Engine: d.Status.Engine, Sync: seen.Sync.Status, Health: seen.Health.Status,
		Commit: seen.Sync.Revision, Message: d.trouble(),
	})
	return ledger.Put{Object: o, Expect: d.Version, Op: op}, err
}

// trouble is the first thing that a user should read of it.
func (d *Deployment) trouble() string {
	if d.Spec.Invalid != "" {
		return d.Spec.Invalid
	}
	if d.Status.Error != "" {
		return d.Status.Error
	}
	for _, c := range d.Status.Conditions {
		if c.Status == "True" {
			return c.Message
		}
	}
	return d.Status.deployed().Health.Message
}

// put makes the put of a sync run.
func (r *SyncRun) put(op string) (ledger.Put, error) {
	o := r.Object
	o.Fields = ledger.Fields{"workspace": r.workspace(), "deployment": r.Spec.Deployment, "made": r.Spec.Made}
	err := documents(&o, r.Spec, r.Status, nil)
	return ledger.Put{Object: o, Expect: r.Version, Op: op}, err
}

func (r *SyncRun) workspace() string { w, _ := r.Fields["workspace"].(string); return w }

// put makes the put of a workspace.
func (w *Workspace) put(op string) (ledger.Put, error) {
	o := w.Object
	o.Fields = ledger.Fields{"home": w.Spec.Home}
	err := documents(&o, w.Spec, nil, nil)
	return ledger.Put{Object: o, Expect: w.Version, Op: op}, err
}

// nameOf is the claim that keeps a name of a workspace to one deployment.
func nameOf(workspace, name string) ledger.Name {
	return ledger.Name{Space: "deployment/" + workspace, Name: name}
}
