//go:build e2e

package kubeapi_test

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"log/slog"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/droverhq/drover/internal/fault"
	"github.com/droverhq/drover/internal/gitops"
	"github.com/droverhq/drover/internal/kubeapi"
	"github.com/droverhq/drover/internal/kubeapi/v1alpha1"
	"github.com/droverhq/drover/internal/ledger"
	"github.com/droverhq/drover/internal/operation"
	"github.com/droverhq/drover/internal/reconcile"
	"github.com/droverhq/drover/internal/runtime"
	"github.com/droverhq/drover/internal/sqlledger"
)

// hub is the one engine there is.
type hub struct{}

func (hub) Engine(_ context.Context, id string) (gitops.Engine, error) {
	if id != "hub" {
		return gitops.Engine{}, fault.New(fault.NotFound, "there is no cluster %s", id)
	}
	return gitops.Engine{ID: "hub", Runtime: "argocd", Ready: true}, nil
}

func (h hub) Engines(ctx context.Context) ([]gitops.Engine, error) {
	e, err := h.Engine(ctx, "hub")
	return []gitops.Engine{e}, err
}

// plane is a control plane: ledger, loop, service and controllers.
type plane struct {
	*world
	store *sqlledger.Ledger
	s     *gitops.Service
}

// figures are what a registry tells of the gauges without labels of their own.
func figures(t *testing.T, c prometheus.Collector) map[string]float64 {
	t.Helper()
	registry := prometheus.NewPedanticRegistry()
	registry.MustRegister(c)
	families, err := registry.Gather()
	if err != nil {
		t.Fatal(err)
	}
	out := map[string]float64{}
	for _, f := range families {
		for _, m := range f.GetMetric() {
			out[f.GetName()] += m.GetGauge().GetValue() + m.GetCounter().GetValue()
		}
	}
	return out
}

// plane is a control plane; sweep is how often it compares, 0: as seldom as ever.
func (w *world) plane(t *testing.T, sweep time.Duration) *plane {
	t.Helper()
	store, err := sqlledger.Open(t.Context(), sqlledger.Config{
		URL: filepath.Join(t.TempDir(), "drover.db"), Key: bytes.Repeat([]byte{7}, 32), Kinds: append(gitops.Kinds(), operation.Kind),
	})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { store.Close() })
	home := w.home(t, nil)
	p := &plane{w, store, gitops.NewService(gitops.Config{Store: store, Keeper: store, Engines: hub{}, Mirror: home})}
	loop := reconcile.New(reconcile.Config{Ledger: store, Reconcilers: p.s.Reconcilers(), Logger: slog.New(slog.DiscardHandler)})
	ctx, cancel := context.WithCancel(context.Background())
	var running sync.WaitGroup
	running.Go(func() { _ = loop.Run(ctx) })
	t.Cleanup(func() { cancel(); running.Wait() })
	w.follow(t, kubeapi.Config{
		Home: home, Service: p.s, Tally: store, Engine: func(string) string { return "hub" }, Mend: 100 * time.Millisecond, Sweep: sweep,
		Admit: func(ctx context.Context, id string) error { return p.s.AdmitHome(ctx, "home", id) },
	})
	return p
}

// until waits for something that comes to be by the work of several.
func until(t *testing.T, what string, is func() bool) {
	t.Helper()
	for deadline := time.Now().Add(patience); !is(); {
		if time.Now().After(deadline) {
			t.Fatalf("it never comes to this: %s", what)
		}
		<-time.After(10 * time.Millisecond) // there is no one signal
	}
}

// item is what the agent must have of a deployment.
func (p *plane) item(uid string) (it gitops.Item, ok bool) {
	o, err := p.store.Get(context.Background(), ledger.Ref{Kind: "deployment", ID: uid})
	if err != nil {
		return it, false
	}
	for _, it := range gitops.DesiredItems(o) {
		if it.Cluster == "hub" {
			return it, true
		}
	}
	return it, false
}

func (p *plane) report(t *testing.T, uid string, state runtime.State, seen *runtime.Deployed) {
	t.Helper()
	it, _ := p.item(uid)
	o := gitops.Observation{ID: uid, Generation: it.Generation, State: string(state), Leaf: it.Seen + 1}
	if seen != nil {
		o.Detail, _ = json.Marshal(seen)
	}
	if out, err := p.s.Observe(t.Context(), "hub", []gitops.Observation{o}); err != nil || len(out.Refused) > 0 {
		t.Fatalf("%+v, %v", out, err)
	}
}

// From kubectl apply to the agent and back, with the ledger in between.
func TestLifeOnTheLedger(t *testing.T) {
	w := enter(t)
	p, ns := w.plane(t, 0), w.Namespace(t)
	d := deployment(ns, "shop")
	d.Finalizers = []string{v1alpha1.Finalizer}
	w.create(t, d)
	uid, key := string(d.UID), client.ObjectKeyFromObject(d)
	read := func() *v1alpha1.GitOpsDeployment {
		var got v1alpha1.GitOpsDeployment
		if err := w.Get(t.Context(), key, &got); err != nil && !apierrors.IsNotFound(err) {
			t.Fatal(err)
		}
		return &got
	}
	until(t, "the agent is told", func() bool { _, ok := p.item(uid); return ok })
	p.report(t, uid, runtime.Ready, &runtime.Deployed{Sync: runtime.SyncStatus{Status: "Synced", Revision: "c1"}, Health: runtime.HealthStatus{Status: "Healthy"}})
	until(t, "the status tells", func() bool {
		got := read().Status
		return got.Sync.Revision == "c1" && got.Health.Status == "Healthy"
	})

	if err := w.Status().Patch(t.Context(), d.DeepCopy(), client.RawPatch("application/merge-patch+json", []byte(`{"status":{"sync":{"status":"Broken"}}}`))); err != nil {
		t.Fatal(err)
	}
	until(t, "a status that somebody changed is put right", func() bool { return read().Status.Sync.Status == "Synced" })
	if err := w.Status().Patch(t.Context(), d.DeepCopy(), client.RawPatch("application/merge-patch+json", []byte(`{"status":null}`))); err != nil {
		t.Fatal(err)
	}
	until(t, "a status that somebody cleared is put right", func() bool { return read().Status.Sync.Status == "Synced" })

	one := kubeapi.New(kubeapi.Config{Home: w.home(t, nil), Service: p.s, Tally: p.store})
	if got := figures(t, one); got["active_gitopsDeployments"] < 1 || got["total_number_of_operationDB_rows"] < 1 {
		t.Errorf("the figures are %v", got)
	}

	path := func(path string) { // whatever is written into the status meanwhile
		t.Helper()
		change := client.RawPatch("application/merge-patch+json", fmt.Appendf(nil, `{"spec":{"source":{"path":%q}}}`, path))
		if err := w.Patch(t.Context(), d.DeepCopy(), change); err != nil {
			t.Fatal(err)
		}
	}
	before, _ := p.item(uid)
	path("")
	until(t, "an intent that cannot be is told", func() bool {
		for _, c := range read().Status.Conditions {
			if c.Type == "ErrorOccurred" && c.Status == "True" && strings.Contains(c.Message, "spec.source.path is a required field and it cannot be empty") {
				return true
			}
		}
		return false
	})
	path("other")
	until(t, "the agent is told of the change", func() bool {
		now, ok := p.item(uid)
		return ok && now.Generation > before.Generation
	})
	until(t, "the trouble is over", func() bool {
		for _, c := range read().Status.Conditions {
			if c.Type == "ErrorOccurred" {
				return c.Status == "False" && c.Reason == "ErrorOccurredResolved"
			}
		}
		return false
	})

	w.delete(t, d)
	until(t, "the agent is told to remove it", func() bool { it, ok := p.item(uid); return ok && it.Delete })
	if read().UID == "" {
		t.Fatal("it went before what it deployed")
	}
	p.report(t, uid, runtime.Deleted, nil)
	until(t, "it goes at last", func() bool { return read().UID == "" })

	again := deployment(ns, "shop")
	w.create(t, again)
	until(t, "the agent is told of another of that name", func() bool { it, ok := p.item(string(again.UID)); return ok && !it.Delete })
}
