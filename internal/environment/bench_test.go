package environment_test

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"log/slog"
	"path/filepath"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/droverhq/drover/internal/environment"
	"github.com/droverhq/drover/internal/executor"
	"github.com/droverhq/drover/internal/ledger"
	"github.com/droverhq/drover/internal/operation"
	"github.com/droverhq/drover/internal/reconcile"
	"github.com/droverhq/drover/internal/sqlledger"
	"github.com/droverhq/drover/internal/template"
)

// idle is an executor that does nothing.
type idle struct{}

func (idle) Describe() executor.Description { return executor.Description{AtOnce: 64} }
func (idle) Plan(context.Context, executor.Resource) (executor.Change, error) {
	return executor.Change{Action: executor.Create, Mark: "nothing"}, nil
}
func (idle) Apply(context.Context, executor.Resource) (executor.Result, error) {
	return executor.Result{Done: true}, nil
}
func (idle) Observe(context.Context, executor.Resource) (executor.Observation, error) {
	return executor.Observation{Exists: true}, nil
}
func (idle) Destroy(context.Context, executor.Resource) (executor.Result, error) {
	return executor.Result{Done: true}, nil
}

// counted counts what is written.
type counted struct {
	*sqlledger.Ledger
	sets, puts atomic.Int64
}

func (c *counted) Commit(ctx context.Context, set ledger.Set) (ledger.Result, error) {
	c.sets.Add(1)
	c.puts.Add(int64(len(set.Puts)))
	return c.Ledger.Commit(ctx, set)
}

// graphs of so many resources: fifty layers or more, ten chains, or one that all
// need, and one that needs all.
var graphs = map[string]func(many int) []template.Node{
	"chains": func(many int) []template.Node {
		var texts []string
		for i := range many {
			text := fmt.Sprint("r", i)
			if i >= 10 {
				text += fmt.Sprintf("<r%d", i-10)
			}
			texts = append(texts, text)
		}
		return chain(texts...)
	},
	"layers": func(many int) []template.Node {
		var texts []string
		for i := range many {
			text := fmt.Sprint("r", i)
			if i >= 100 {
				text += fmt.Sprintf("<r%d,r%d", i-100, i-100+(i+1)%100-i%100)
			}
			texts = append(texts, text)
		}
		return chain(texts...)
	},
	"fan": func(many int) []template.Node {
		texts, last := []string{"first"}, "last<"
		for i := range many - 2 {
			texts, last = append(texts, fmt.Sprintf("r%d<first", i)), last+fmt.Sprintf("r%d,", i)
		}
		return chain(append(texts, last[:len(last)-1])...)
	},
}

// BenchmarkWalk plans and makes an environment of 5,000 resources that cost nothing,
// and compares that with writing as many objects once, in the order of the graph.
func BenchmarkWalk(b *testing.B) {
	for _, name := range []string{"layers", "fan"} {
		for _, many := range []int{1250, 5000} { // four times as many must not take more than four times as long
			b.Run(fmt.Sprint(name, "-", many), func(b *testing.B) {
				nodes := graphs[name](many)
				for b.Loop() {
					walk(b, nodes)
				}
			})
		}
	}
}

func openCounted(b testing.TB) *counted {
	l, err := sqlledger.Open(b.Context(), sqlledger.Config{URL: filepath.Join(b.TempDir(), "l.db"), Key: bytes.Repeat([]byte{7}, 32),
		Kinds: slices.Concat(environment.Kinds(), []ledger.Kind{operation.Kind}, template.Kinds())})
	if err != nil {
		b.Fatal(err)
	}
	b.Cleanup(func() { l.Close() })
	return &counted{Ledger: l}
}

func walk(b *testing.B, nodes []template.Node) {
	store := openCounted(b)
	st := &stencil{id: "shop@1", silent: true, name: "shop", spec: template.Spec{AtOnce: 64}, nodes: func(map[string]any) []template.Node { return nodes }}
	s := environment.NewService(environment.Config{Store: store, Keeper: store, Templates: stencils{"shop": st, "shop@1": st},
		Executors: map[string]executor.Executor{"forge": idle{}}})
	loop := reconcile.New(reconcile.Config{Ledger: store, Reconcilers: s.Reconcilers(), Workers: 64, Logger: slog.New(slog.NewTextHandler(io.Discard, nil))})
	ctx, stop := context.WithCancel(b.Context())
	var ended sync.WaitGroup
	ended.Go(func() { _ = loop.Run(ctx) })
	start := time.Now()
	o, op, err := s.Create(alice, environment.PlanOrder{Environment: "big", Template: "shop"})
	if err != nil {
		b.Fatal(err)
	}
	phase := ""
	for hints := store.Hints(ctx); phase != operation.Succeeded; {
		<-hints
		got, err := store.Get(ctx, ledger.Ref{Kind: operation.Kind.Name, ID: op})
		if err != nil {
			b.Fatal(err)
		}
		if phase = got.Phase; phase == operation.Failed {
			e, _ := store.Get(ctx, o.Ref)
			b.Fatalf("%s", e.Status)
		}
	}
	took := time.Since(start)
	stop()
	ended.Wait()
	bare, many := bareWalk(b, nodes), float64(len(nodes))
	b.ReportMetric(float64(store.puts.Load())/many, "writes/resource")
	b.ReportMetric(float64(store.sets.Load())/many, "commits/resource")
	b.ReportMetric(many/took.Seconds(), "resources/s")
	b.ReportMetric(took.Seconds()/bare.Seconds(), "x-bare")
}

// bareWalk writes each resource once, those that need nobody at the same time.
func bareWalk(b *testing.B, nodes []template.Node) time.Duration {
	store := openCounted(b)
	depth, waves := map[string]int{}, [][]string{}
	for _, n := range nodes {
		d := 0
		for _, need := range n.Needs {
			d = max(d, depth[need]+1)
		}
		depth[n.Address] = d
		for len(waves) <= d {
			waves = append(waves, nil)
		}
		waves[d] = append(waves[d], n.Address)
	}
	start := time.Now()
	for _, wave := range waves {
		next := make(chan string)
		var writers sync.WaitGroup
		for range 64 {
			writers.Go(func() {
				for address := range next {
					_, err := store.Commit(b.Context(), ledger.Set{Actor: "system", Cause: "schedule:bench", Puts: []ledger.Put{{Op: "create", Object: ledger.Object{
						Ref: ledger.Ref{Kind: "resource", ID: ledger.NewID()}, Org: "acme", Name: address, Phase: "ready", Parent: "big", Spec: []byte(`{}`)}}}})
					if err != nil {
						b.Error(err)
					}
				}
			})
		}
		for _, address := range wave {
			next <- address
		}
		close(next)
		writers.Wait()
	}
	return time.Since(start)
}
