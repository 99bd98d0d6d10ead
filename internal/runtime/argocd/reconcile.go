package argocd

import (
	"context"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/droverhq/drover/internal/fault"
	"github.com/droverhq/drover/internal/manifest"
	"github.com/droverhq/drover/internal/runtime"
	"github.com/droverhq/drover/internal/runtime/keep"
)

// Reconcile implements keep.Worker. It never waits for Argo CD to get on with
// something: the watch tells.
func (s *shift) Reconcile(ctx context.Context, e *keep.Entry) (again time.Duration, err error) {
	defer func() { s.met(e.Record.ID, err) }()
	if e.Record.Gone {
		return 0, nil
	}
	s.mu.Lock()
	s.looked[e.Record.ID] = s.r.cfg.Now()
	if e.Record.Delete {
		delete(s.fails, e.Record.ID)
	}
	s.mu.Unlock()
	if e.Record.Delete {
		s.attend(e.Record.ID, nil)
		return s.remove(ctx, e)
	}
	m := remember(e.Record.Own)
	seen, again, err := s.install(ctx, e, &m)
	if ctx.Err() != nil {
		return 0, ctx.Err()
	}
	if fault.Reason(err) == "fenced" {
		return 0, err // what is there is another's to tell
	}
	if err != nil {
		e.Applied = false
		seen = keep.Failed(e.Record, err)
		if fault.Reason(err) != "changed-meanwhile" {
			s.Complain(e, err)
		}
	} else {
		s.Content(e)
	}
	if err := s.settle(ctx, e, m, seen); err != nil {
		return 0, err
	}
	return again, err
}

// Sweep implements keep.Worker.
func (s *shift) Sweep(ctx context.Context) {
	s.needs.doubt()
	s.ops.sweep(ctx)
}

// install has Argo CD know what is wanted, and looks at what it makes of it.
func (s *shift) install(ctx context.Context, e *keep.Entry, m *memory) (seen runtime.Observed, again time.Duration, err error) {
	d, err := read(e.Record.Body)
	s.announce(d, m, e.Applied)
	if err != nil {
		s.needs.set(e.Record.ID, nil, m.last(), true)
	} else {
		seen, again, err = s.make(ctx, e, d, m)
	}
	if err != nil || seen.State == runtime.Ready {
		s.conclude(d, m, err)
	}
	return seen, again, err
}

func (s *shift) make(ctx context.Context, e *keep.Entry, d runtime.Deployment, m *memory) (runtime.Observed, time.Duration, error) {
	var none runtime.Observed
	w := &writer{s: s, e: e, memory: m}
	if d.Kept {
		return s.letGo(ctx, w, d)
	}
	m.Kept = false
	if !e.Applied {
		if going, err := s.leave(ctx, w, d, m); err != nil || going != "" {
			return s.leaving(e, going), removeAgain, err
		}
		if err := s.enforce(ctx, w, d, m); err != nil {
			return none, 0, err
		}
		s.opened(d)
		e.Applied = true
	}
	app, err := s.cached(ctx, applications, applicationName(d.UID))
	if err != nil {
		return none, 0, err
	}
	if app == nil { // the watch has not told yet
		app = w.made
	}
	if app == nil {
		if app, err = s.r.live(ctx, applications, applicationName(d.UID)); err != nil {
			return none, 0, err
		}
	}
	again := time.Duration(0)
	if app != nil {
		if again, err = s.carry(ctx, w, d, m, app); err != nil {
			return none, 0, err
		}
	}
	var later time.Duration
	if m.diff, m.noDiff, later = s.diffs.of(e.Record.ID, d.Automated, app); later > 0 && (again == 0 || later < again) {
		again = later
	}
	m.shared = s.warned(app)
	seen := runtime.Observed{ID: e.Record.ID, Kind: e.Record.Kind, Generation: e.Record.Generation, State: runtime.Ready}
	if seen.Detail, err = detail(app, *m); err != nil {
		return none, 0, err
	}
	return seen, again, nil
}

// leaving is what is told while what was deployed elsewhere goes.
func (s *shift) leaving(e *keep.Entry, going string) runtime.Observed {
	return runtime.Observed{ID: e.Record.ID, Kind: e.Record.Kind, Generation: e.Record.Generation, State: runtime.Installing,
		Message: "it goes somewhere else, and what was deployed before is removed first: " + going, Detail: e.Record.Seen.Detail}
}

// enforce makes the Application and what it shares with others: first all that it
// needs besides what it needed, then the Application, then without what it
// needed. What is made is written down before.
func (s *shift) enforce(ctx context.Context, w *writer, d runtime.Deployment, m *memory) error {
	e, id := w.e, w.e.Record.ID
	lines := s.lines(d)
	if m.Last == nil {
		m.Last = e.Record.Body
	}
	if err := w.memorize(ctx, *m, manifest.Union(e.Record.Inventory, lines)); err != nil {
		return err
	}
	last := m.last()
	s.needs.set(id, &d, last, true)
	s.attend(id, &d)
	if err := s.share(ctx, w, projectName(d), false); err != nil {
		return err
	}
	if err := s.secure(ctx, w, d); err != nil {
		return err
	}
	if err := s.home(ctx, w, d); err != nil {
		return err
	}
	if last != nil && last.UID != d.UID {
		return fault.New(fault.Invalid, "the deployment of an item cannot become another one")
	}
	want := application(s.r.cfg.ArgoCD, d)
	if err := s.revive(ctx, w, want); err != nil {
		return err
	}
	if err := w.ensure(ctx, applications, want, map[string]string{refreshedMark: d.Refresh}); err != nil {
		return err
	}
	if last != nil && projectName(*last) != projectName(d) && !s.r.told.whole() {
		// Nobody looks at what it shared there once it is forgotten that it did: it stays on
		// record, and is looked at when the agent was told of all.
		m.mended()
		return nil
	}
	s.needs.set(id, &d, &d, true)
	m.Last = e.Record.Body
	projectsThen := []string{projectName(d)}
	if last != nil && projectName(*last) != projectName(d) {
		projectsThen = append(projectsThen, projectName(*last))
	}
	for _, p := range projectsThen {
		if err := s.share(ctx, w, p, true); err != nil {
			return err
		}
	}
	m.mended()
	return w.shorten(ctx, *m, lines)
}

// share makes what the items of a project share as it should be, and removes what
// none of them needs any more where that is asked for.
func (s *shift) share(ctx context.Context, w *writer, project string, tidy bool) error {
	defer s.needs.lock([]string{project})()
	want, needed := s.needs.scope(project)
	whole := s.r.told.whole()
	if tidy = tidy && whole; needed && s.needs.made(project, want, tidy) {
		return nil
	}
	if needed {
		allowed := want.project
		if !whole {
			var err error
			if allowed, err = s.besidesThose(ctx, allowed); err != nil {
				return err
			}
		}
		if err := w.ensure(ctx, projects, allowed, nil); err != nil {
			return err
		}
		for _, secret := range want.secrets {
			if err := w.ensure(ctx, secrets, secret, nil); err != nil {
				return err
			}
		}
	}
	if !tidy || s.damaged { // somebody whose record cannot be read may need them
		s.needs.make(project, want, false)
		return nil
	}
	there, err := s.secretsOf(ctx, project)
	if err == nil {
		there, err = s.untold(ctx, w, project, there, want)
	}
	if err != nil {
		return err
	}
	for _, o := range there {
		if want.secrets[o.GetName()] == nil {
			if err := w.erase(ctx, secrets, o); err != nil {
				return err
			}
		}
	}
	if needed {
		s.needs.make(project, want, true)
		return nil
	}
	o, err := s.r.live(ctx, projects, project)
	if err != nil || o == nil || o.GetLabels()[managedLabel] != managedBy {
		return err
	}
	return w.erase(ctx, projects, o)
}

var namespaces = kind{kind: "Namespace"}

// home makes the namespace of a deployment that wants it made, where its project
// may not: a workspace that could write its own Namespace could lift what bounds
// it there.
func (s *shift) home(ctx context.Context, w *writer, d runtime.Deployment) error {
	if !s.r.cfg.makesHome(d) {
		return nil
	}
	id := manifest.ID{Kind: "Namespace", Name: d.Namespace}
	there, err := s.r.cluster.Look(ctx, id)
	if err != nil {
		return err
	}
	if there != nil {
		s.known(namespaces, d.Namespace)
		return nil
	}
	if err := w.fence(ctx); err != nil {
		return err
	}
	before, err := w.notice(ctx, namespaces, d.Namespace, "deleted", true)
	if err != nil {
		return err
	}
	call, stop := context.WithTimeout(ctx, keep.CallTimeout)
	defer stop()
	err = s.r.cluster.Kube().Create(call, &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: d.Namespace}})
	if apierrors.IsAlreadyExists(err) {
		w.unsay(before)
		return nil
	}
	if err == nil && s.known(namespaces, d.Namespace) {
		return w.heal(namespaces, d.Namespace, "deleted")
	}
	return manifest.Explain(err, id)
}

// revive lets go of an Application that somebody deletes, if it can before Argo CD
// takes away what it has deployed: it is made again when it is gone.
func (s *shift) revive(ctx context.Context, w *writer, want *unstructured.Unstructured) error {
	now, err := s.cached(ctx, applications, want.GetName())
	if err != nil || now == nil || now.GetDeletionTimestamp() == nil {
		return err
	}
	s.known(applications, want.GetName())
	if now, err = s.r.live(ctx, applications, want.GetName()); err != nil || now == nil {
		return err
	}
	if now.GetDeletionTimestamp() != nil && len(now.GetFinalizers()) > 0 {
		next := now.DeepCopy()
		next.SetFinalizers(nil)
		if err := w.patch(ctx, applications, now, next); err != nil && !apierrors.IsNotFound(err) {
			return s.r.explain(err, applications, want.GetName())
		}
	}
	return nil
}
