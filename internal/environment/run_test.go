package environment_test

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"log/slog"
	"regexp"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/droverhq/drover/internal/environment"
	"github.com/droverhq/drover/internal/executor"
	"github.com/droverhq/drover/internal/ledger"
	"github.com/droverhq/drover/internal/reconcile"
	"github.com/droverhq/drover/internal/template"
)

// patient is an executor that works until it is told to stop or let go.
type patient struct {
	idle
	began chan executor.Resource
	let   chan struct{}
}

func (p *patient) Apply(ctx context.Context, r executor.Resource) (executor.Result, error) {
	fmt.Fprintln(r.Log, "it begins")
	fmt.Fprint(r.Log, "half a line") // is not read before its end
	p.began <- r
	select {
	case <-ctx.Done():
		return executor.Result{}, ctx.Err()
	case <-p.let:
		return executor.Result{Done: true}, nil
	}
}

// A call that takes long is told as under way, its log is read meanwhile, and it
// ends when something else is wanted.
func TestLongCall(t *testing.T) {
	store := openCounted(t)
	p := &patient{began: make(chan executor.Resource), let: make(chan struct{})}
	st := &stencil{id: "shop@1", name: "shop", silent: true, nodes: func(map[string]any) []template.Node { return chain("a") }}
	s := environment.NewService(environment.Config{Store: store, Keeper: store, Templates: stencils{"shop": st, "shop@1": st},
		Executors: map[string]executor.Executor{"forge": p}})
	s.SetPatience(time.Millisecond, time.Millisecond)
	loop := reconcile.New(reconcile.Config{Ledger: store, Reconcilers: s.Reconcilers(), Logger: slog.New(slog.NewTextHandler(io.Discard, nil))})
	ctx, stop := context.WithCancel(t.Context())
	var ended sync.WaitGroup
	ended.Go(func() { _ = loop.Run(ctx) })
	defer ended.Wait()
	defer stop()
	hints := store.Hints(ctx)
	until := func(what string, holds func() bool) {
		t.Helper()
		for !holds() {
			select {
			case <-hints:
			case <-time.After(2 * time.Minute):
				t.Fatal("it never happens: " + what)
			}
		}
	}
	phase := func(kind, id string) string {
		o, err := store.Get(ctx, ledger.Ref{Kind: kind, ID: id})
		if err != nil {
			return ""
		}
		return o.Phase
	}
	e, _, err := s.Create(ledger.WithCause(alice, ledger.ByRequest("r-1")), environment.PlanOrder{Environment: "x", Template: "shop"})
	if err != nil {
		t.Fatal(err)
	}
	// Whoever reads what an executor says finds the request that it was called for.
	said := regexp.MustCompile(`^-- of environment x, operation [0-9a-v]+, request:r-1\nit begins\n$`)
	r := <-p.began
	until("it is told", func() bool { return phase("resource", r.ID) == environment.Applying })
	if tail, err := s.Log(alice, "x", "a", 0); err != nil || !said.Match(tail.Text) || !tail.Running || tail.Next != int64(len(tail.Text)) {
		t.Errorf("%q %+v, %v", tail.Text, tail, err)
	}
	until("its log is kept", func() bool {
		o, err := store.Get(ctx, ledger.Ref{Kind: "resource", ID: r.ID})
		kept, _ := environment.DecodeResource(o)
		if err != nil || kept.Status.Log == "" {
			return false
		}
		text, err := store.Blob(ctx, kept.Status.Log)
		return err == nil && said.Match(text)
	})
	if _, _, err := s.Destroy(alice, "x", ""); err != nil {
		t.Fatal(err)
	}
	until("nobody waits for what is not wanted", func() bool { return phase("environment", e.ID) == environment.Destroyed })
	if got := phase("resource", r.ID); got != environment.ResourceGone {
		t.Errorf("the resource is %s", got)
	}
}

// A resource that stands for something which needs its own environment is refused.
func TestCircleAcrossKinds(t *testing.T) {
	w := begin(t)
	w.add("1", shop("cluster", "app<cluster"))
	e := w.up("inner", nil)
	// An object of another kind that needs the environment's own resource.
	made := w.resources(e.ID)["app"]
	put := ledger.Put{Op: "create", Object: ledger.Object{Ref: ledger.Ref{Kind: "resource", ID: "made-of-it"}, Parent: "nobody", Spec: []byte(`{}`), Links: []string{made.Ref.String()}}}
	if _, err := w.store.Ledger.Commit(t.Context(), ledger.Set{Actor: "test", Cause: "schedule:test", Puts: []ledger.Put{put}}); err != nil {
		t.Fatal(err)
	}
	w.forge.links = map[string]string{"app": "resource/made-of-it"}
	_, op, err := w.s.Change(alice, environment.PlanOrder{Environment: "inner", Parameters: map[string]any{"size": "large"}})
	w.must(err)
	w.work(time.Minute)
	if phase, reason := w.operation(op); phase != "failed" || !strings.Contains(reason, "needs this environment itself") {
		t.Errorf("%s %q", phase, reason)
	}
}

// However a log is written, and however long it is, its end is kept by whole lines.
func TestBoundedLog(t *testing.T) {
	w := begin(t)
	w.add("1", shop("a"))
	w.configs = append(w.configs, func(c *environment.Config) { c.Executors = map[string]executor.Executor{"forge": &talker{}} })
	w.start()
	w.up("x", nil)
	tail, err := w.s.Log(alice, "x", "a", 0)
	w.must(err)
	if len(tail.Text) > 256<<10 || tail.From == 0 || !bytes.HasPrefix(tail.Text, []byte("line ")) || !bytes.HasSuffix(tail.Text, []byte("line 39999\nthe end\n")) {
		t.Errorf("%d bytes from %d: %q ... %q", len(tail.Text), tail.From, tail.Text[:20], tail.Text[len(tail.Text)-20:])
	}
	rest, err := w.s.Log(alice, "x", "a", tail.Next-8)
	if err != nil || string(rest.Text) != "the end\n" || rest.Running {
		t.Errorf("%q, %v", rest.Text, err)
	}
}

type talker struct{ idle }

func (talker) Apply(_ context.Context, r executor.Resource) (executor.Result, error) {
	for i := range 40_000 {
		fmt.Fprintf(r.Log, "line %d\n", i)
	}
	fmt.Fprint(r.Log, "the end")
	return executor.Result{Done: true}, nil
}
