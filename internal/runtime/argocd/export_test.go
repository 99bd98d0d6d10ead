package argocd

import (
	"bufio"
	"bytes"
	"encoding/json"
	"slices"
	"time"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/droverhq/drover/internal/runtime"
	"github.com/droverhq/drover/internal/runtime/keep"
)

// Read is read.
func Read(body json.RawMessage) (runtime.Deployment, error) { return read(body) }

// Application is application.
func Application(namespace string, d runtime.Deployment) *unstructured.Unstructured {
	return application(namespace, d)
}

// ProjectName is projectName.
func ProjectName(d runtime.Deployment) string { return projectName(d) }

// Scopes is what items share, by the names of projects.
func Scopes(cfg Config, items map[string]runtime.Deployment) (projects map[string]*unstructured.Unstructured, secrets map[string]map[string]*unstructured.Unstructured) {
	n := newNeeds(cfg.defaults())
	for id, d := range items {
		n.set(id, &d, nil, true)
	}
	projects, secrets = map[string]*unstructured.Unstructured{}, map[string]map[string]*unstructured.Unstructured{}
	for name := range n.projects {
		sc, _ := n.scope(name)
		projects[name], secrets[name] = sc.project, sc.secrets
	}
	return projects, secrets
}

// Amend is amend.
func Amend(now, want *unstructured.Unstructured) (*unstructured.Unstructured, bool) {
	return amend(now, want)
}

// Detail is detail.
func Detail(app *unstructured.Unstructured, run *runtime.SyncRun) (json.RawMessage, error) {
	return detail(app, memory{Run: run})
}

// Warnings is what is told to an Application of those of others.
func Warnings(app *unstructured.Unstructured, others ...*unstructured.Unstructured) []runtime.DeployedCondition {
	return warnings(app, others)
}

// Sharers is sharers.
func Sharers(app *unstructured.Unstructured) []string {
	names, _ := sharers(app)
	return names
}

// Moves is moves.
func Moves(last, d runtime.Deployment) bool { return moves(last, d) }

// Parting is parting.
func Parting(app *unstructured.Unstructured, detached bool, now time.Time) (*unstructured.Unstructured, bool) {
	return parting(app, detached, now)
}

// Unheard reports whether Argo CD is to be reminded of a sync.
func Unheard(app *unstructured.Unstructured, sync string, now time.Time) bool {
	s := syncing{refreshing: app.GetAnnotations()[refreshMark] != "", behind: behind(app), app: view(app)}
	if sync != "" {
		s.want = &runtime.SyncRequest{ID: sync}
	}
	return s.unheard() && late(app, now)
}

// Stuck is stuck.
func Stuck(app *unstructured.Unstructured, now time.Time) string { return stuck(app, now) }

// Syncing is a sync with an Argo CD that does as it is told, one step at a time.
type Syncing struct {
	Marks  map[string]string
	App    map[string]any // operation and status
	Run    *runtime.SyncRun
	Begun  string // as it is remembered
	Forget bool   // the memory of the last step is lost, as by a crash
}

// Step decides, and does the move to the Application.
func (s *Syncing) Step(d runtime.Deployment) string {
	app := &unstructured.Unstructured{Object: s.App}
	now := syncing{want: d.Sync, run: s.Run, compared: s.Marks[comparedMark], refreshing: s.Marks[refreshMark] != "", app: view(app)}
	now.begun = d.Sync != nil && (s.Marks[begunMark] == d.Sync.ID || s.Begun == d.Sync.ID)
	do, run := step(now)
	switch do {
	case look:
		s.Marks[refreshMark], s.Marks[comparedMark] = "normal", d.Sync.ID
	case begin:
		s.App["operation"], s.Marks[begunMark] = request(d), d.Sync.ID
	case terminate:
		_ = unstructured.SetNestedField(s.App, "Terminating", "status", "operationState", "phase")
	case withdraw:
		delete(s.App, "operation")
		run = &runtime.SyncRun{ID: d.Sync.ID, Phase: "Terminated"}
	}
	if s.Forget {
		s.Forget = false
		return string(do)
	}
	if s.Run = run; do == begin {
		s.Begun = d.Sync.ID
	}
	return string(do)
}

// Trust is trust.
func Trust(file string, all []runtime.Deployment, whole bool) string { return trust(file, all, whole) }

// Old is old.
func Old(o *unstructured.Unstructured, works bool, now time.Time) bool { return old(o, works, now) }

// Differing is differing.
func Differing(raw []byte) ([]runtime.ResourceDifference, error) { return differing(raw) }

// Reply is reply.
func Reply(raw []byte) ([]byte, bool, error) { return reply(bufio.NewReader(bytes.NewReader(raw))) }

// Needs are the needs of items that come, change and go.
type Needs struct{ n *needs }

// NewNeeds makes some of nobody.
func NewNeeds() Needs { return Needs{newNeeds(Config{}.defaults())} }

// Set says what an item needs; nil: nothing.
func (n Needs) Set(id string, now, last *runtime.Deployment) { n.n.set(id, now, last, true) }

// NeedOf is needOf, of a memory that says so.
func NeedOf(rec keep.Record, made *runtime.Deployment, kept bool) (now, last *runtime.Deployment) {
	m := memory{Kept: kept}
	if made != nil {
		m.Last, _ = json.Marshal(made)
	}
	rec.Own, _ = m.pack()
	return needOf(rec)
}

// Marks tell what each project that somebody needs is to be: its own mark and those
// of its Secrets.
func (n Needs) Marks() map[string][]string {
	out := map[string][]string{}
	for name := range n.n.projects {
		if sc, needed := n.n.scope(name); needed {
			for _, o := range sc.secrets {
				out[name] = append(out[name], o.GetName()+" "+o.GetAnnotations()[digestMark])
			}
			slices.Sort(out[name])
			out[name] = append(out[name], sc.project.GetAnnotations()[digestMark])
		}
	}
	return out
}

// Concerned tells for each Secret that somebody needs whether somebody is woken when
// it goes.
func (n Needs) Concerned() map[string]bool {
	out := map[string]bool{}
	for name := range n.n.projects {
		sc, _ := n.n.scope(name)
		for secret := range sc.secrets {
			out[secret] = n.n.wronged(secrets, secret, nil) != ""
		}
	}
	return out
}

// Made notes that a project is as it should be; Asked tells whether it is to be looked
// at again.
func (n Needs) Made(project string) { sc, _ := n.n.scope(project); n.n.make(project, sc, true) }

// Asked is what Made says.
func (n Needs) Asked(project string) bool {
	sc, needed := n.n.scope(project)
	return !needed || !n.n.made(project, sc, true)
}
