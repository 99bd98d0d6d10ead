package argocd

import (
	"maps"
	"slices"
	"sync"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/droverhq/drover/internal/runtime"
	"github.com/droverhq/drover/internal/runtime/keep"
)

// needs knows what all items need of what they share. What a change costs depends
// on how many different things its project has to allow, not on how many items do.
type needs struct {
	cfg Config

	mu       sync.Mutex
	items    map[string]*need
	apps     map[string]string // names of Applications to ids
	projects map[string]*shared
	stale    map[string]bool            // projects whose scope is to be derived anew
	secrets  map[string]map[string]bool // names of Secrets to the projects that want them
}

// need of one item: what it is to be, and what it was made of last.
type need struct {
	now   *runtime.Deployment // that is wanted; nil: none
	parts [2]*part            // of either; nil: nothing
	apps  [2]string
	live  bool // it was told in this shift, so it can be woken
}

// The two that a need has.
const isWanted, wasMade = 0, 1

// part is what a deployment needs of its project. Many have the same.
type part struct {
	project, key string
	of           runtime.Deployment // without what is its own
	holders      [2]int             // needs that have it
}

// shared is what items of one project have in common.
type shared struct {
	work  sync.Mutex // held by whoever writes it
	ids   map[string]bool
	parts map[string]*part
	scope *scope // as it was last derived
	made  *scope // that was last made so, unless somebody has changed it since
	tidy  bool   // and nothing else is there
}

func newNeeds(cfg Config) *needs {
	return &needs{cfg: cfg, items: map[string]*need{}, apps: map[string]string{}, projects: map[string]*shared{},
		stale: map[string]bool{}, secrets: map[string]map[string]bool{}}
}

// needOf is what an item needs by its record: what it is to be, and what it was made of.
// One that is let go of needs nothing. It is pure.
func needOf(rec keep.Record) (now, last *runtime.Deployment) {
	d, err := read(rec.Body)
	m := remember(rec.Own)
	switch wanted := err == nil && !rec.Delete; {
	case wanted && !d.Kept:
		return &d, m.last()
	case wanted || m.Kept:
		return nil, nil
	}
	return nil, m.last()
}

// set says what an item needs from now on; both nil: nothing.
func (n *needs) set(id string, wanted, made *runtime.Deployment, live bool) {
	n.mu.Lock()
	defer n.mu.Unlock()
	before := n.items[id]
	next := &need{now: wanted, live: live || before != nil && before.live}
	// Taken before what was is given back: what stays is not derived anew.
	for i, d := range [...]*runtime.Deployment{isWanted: wanted, wasMade: made} {
		if d != nil {
			next.parts[i], next.apps[i] = n.hold(i, *d), applicationName(d.UID)
		}
	}
	if before != nil {
		n.leave(id, before)
	}
	delete(n.items, id)
	if wanted != nil || made != nil {
		n.items[id] = next
	}
	for i, p := range next.parts {
		if p != nil {
			n.projects[p.project].ids[id], n.apps[next.apps[i]] = true, id
		}
	}
}

// leave gives back what an item needed.
func (n *needs) leave(id string, before *need) {
	for i, p := range before.parts {
		if p == nil {
			continue
		}
		s := n.projects[p.project]
		delete(s.ids, id)
		if n.apps[before.apps[i]] == id {
			delete(n.apps, before.apps[i])
		}
		if p.holders[i]--; p.holders[i] > 0 {
			continue
		}
		if i == isWanted || p.holders[isWanted] == 0 {
			n.stale[p.project] = true
		}
		if p.holders == [2]int{} {
			delete(s.parts, p.key)
		}
	}
}

// hold returns the part of its project that a deployment needs.
func (n *needs) hold(i int, d runtime.Deployment) *part {
	project := projectName(d)
	d = runtime.Deployment{ // all that matters to what is shared
		Workspace: d.Workspace, Namespaces: d.Namespaces, ClusterResources: d.ClusterResources, Repository: d.Repository,
		Credential: d.Credential, Target: d.Target, Detached: d.Detached, Kept: d.Kept,
	}
	s, key := n.project(project), digest(object{"d": d})
	p := s.parts[key]
	if p == nil {
		p = &part{project: project, key: key, of: d}
		s.parts[key] = p
	}
	// What is wanted counts before what was made: so it matters who has it first.
	if p.holders[i]++; p.holders[i] == 1 && (i == isWanted || p.holders[isWanted] == 0) {
		n.stale[project] = true
	}
	return p
}

// project of a name; the mutex is held.
func (n *needs) project(name string) *shared {
	s := n.projects[name]
	if s == nil {
		s = &shared{ids: map[string]bool{}, parts: map[string]*part{}}
		n.projects[name] = s
		n.stale[name] = true
	}
	return s
}

// lock keeps others from writing what projects share, until it is called.
func (n *needs) lock(names []string) (unlock func()) {
	var held []*shared
	for _, name := range slices.Compact(slices.Sorted(slices.Values(names))) {
		n.mu.Lock()
		s := n.project(name)
		n.mu.Unlock()
		s.work.Lock()
		held = append(held, s)
	}
	return func() {
		for _, s := range held {
			s.work.Unlock()
		}
	}
}

// scope of a project; false: nobody needs it.
func (n *needs) scope(project string) (want *scope, needed bool) {
	n.mu.Lock()
	defer n.mu.Unlock()
	s := n.projects[project]
	if s == nil || len(s.ids) == 0 {
		return &scope{}, false
	}
	return n.derived(project), true
}

// derived is the scope of a project. One that comes out the same stays the same.
func (n *needs) derived(project string) *scope {
	s := n.projects[project]
	if !n.stale[project] {
		return s.scope
	}
	delete(n.stale, project)
	wanted, made := s.all()
	fresh := derive(n.cfg, project, wanted, made)
	if s.scope != nil && s.scope.equal(fresh) {
		return s.scope
	}
	if s.scope != nil {
		for name := range s.scope.secrets {
			delete(n.secrets[name], project)
			if len(n.secrets[name]) == 0 {
				delete(n.secrets, name)
			}
		}
	}
	for name := range fresh.secrets {
		if n.secrets[name] == nil {
			n.secrets[name] = map[string]bool{}
		}
		n.secrets[name][project] = true
	}
	s.scope = &fresh
	return s.scope
}

// all that is wanted, and that was made and is not wanted any more: each once, and in an
// order that does not depend on what came first.
func (s *shared) all() (wanted, made []runtime.Deployment) {
	for _, key := range slices.Sorted(maps.Keys(s.parts)) {
		if p := s.parts[key]; p.holders[isWanted] > 0 {
			wanted = append(wanted, p.of)
		} else {
			made = append(made, p.of)
		}
	}
	return wanted, made
}

// equal reports whether two scopes are made of the same objects, which have marks
// of what they are.
func (s *scope) equal(other scope) bool {
	alike := func(a, b *unstructured.Unstructured) bool {
		return a.GetName() == b.GetName() && a.GetAnnotations()[digestMark] == b.GetAnnotations()[digestMark]
	}
	return alike(s.project, other.project) && maps.EqualFunc(s.secrets, other.secrets, alike)
}

// made reports whether a scope is as it should be, as far as is known.
func (n *needs) made(project string, want *scope, tidy bool) bool {
	n.mu.Lock()
	defer n.mu.Unlock()
	s := n.projects[project]
	return s != nil && s.made == want && (s.tidy || !tidy)
}

// make notes that a scope is as it should be.
func (n *needs) make(project string, want *scope, tidy bool) {
	n.mu.Lock()
	defer n.mu.Unlock()
	if s := n.projects[project]; s != nil {
		s.tidy = tidy || s.tidy && s.made == want
		s.made = want
	}
}

// doubt has everything compared again.
func (n *needs) doubt() {
	n.mu.Lock()
	defer n.mu.Unlock()
	for _, s := range n.projects {
		s.made = nil
	}
}

// application returns whose an Application is.
func (n *needs) application(name string) (id string, ours bool) {
	n.mu.Lock()
	defer n.mu.Unlock()
	id, ours = n.apps[name]
	return id, ours
}

// wronged returns an item to wake because a shared object is not as anybody wants
// it; empty: it is, or nobody wants it.
func (n *needs) wronged(k kind, name string, is *unstructured.Unstructured) string {
	n.mu.Lock()
	defer n.mu.Unlock()
	for project := range n.stale {
		n.derived(project)
	}
	concerned := map[string]bool{name: true}
	if k == secrets {
		concerned = n.secrets[name]
	}
	wake := ""
	for project := range concerned {
		s := n.projects[project]
		if s == nil || len(s.ids) == 0 {
			continue
		}
		want := s.scope.project
		if k == secrets {
			want = s.scope.secrets[name]
		}
		if is != nil {
			if _, differs := amend(is, want); !differs {
				return ""
			}
		}
		s.made = nil
		for id := range s.ids {
			if n.items[id].live {
				wake = id
				break
			}
		}
	}
	return wake
}

// all that deployments need or were made of, each once.
func (n *needs) all() []runtime.Deployment {
	n.mu.Lock()
	defer n.mu.Unlock()
	var out []runtime.Deployment
	for _, name := range slices.Sorted(maps.Keys(n.projects)) {
		wanted, made := n.projects[name].all()
		out = append(append(out, wanted...), made...)
	}
	return out
}
