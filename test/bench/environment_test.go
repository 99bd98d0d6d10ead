//go:build bench

package bench

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"log/slog"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/droverhq/drover/internal/access"
	"github.com/droverhq/drover/internal/environment"
	"github.com/droverhq/drover/internal/executor"
	"github.com/droverhq/drover/internal/executor/executortest"
	"github.com/droverhq/drover/internal/ledger"
	"github.com/droverhq/drover/internal/operation"
	"github.com/droverhq/drover/internal/reconcile"
	"github.com/droverhq/drover/internal/sqlledger"
	"github.com/droverhq/drover/internal/template"
	"github.com/droverhq/drover/test/tofu"
)

// TestGraph plans and makes an environment of 5,000 resources that cost nothing:
// fifty layers of a hundred, each needing one of the layer before. It is compared
// with the writes that a walk which survives a crash cannot do without (see
// bareWalk), with writing each object but once, and with OpenTofu applying a
// thousand terraform_data: of more it applies fewer per second (5,000 were not
// done after six minutes).
func TestGraph(t *testing.T) {
	n := setting("DROVER_BENCH_RESOURCES", 5_000)
	layers := n / 100
	few := min(layers, 10)
	theirs := float64(few*100) / tofuWalk(t, few).Seconds()
	each(t, func(t *testing.T, e engine) {
		store := openLedger(t, e)
		ours := walk(t, store, layers)
		like := written(t, store)
		bare := bareWalk(t, openLedger(t, e), layers, like)
		once := bareWalk(t, openLedger(t, e), layers, like[1:])
		many := float64(layers * 100)
		report(fmt.Sprintf("plan and walk %d resources, no-op executor", layers*100), e.name,
			fmt.Sprintf("%.2f s (%.0f/s), %.2f x of a bare walk's writes (%.2f s), %.2f x of one write per resource (%.2f s), %.0f x OpenTofu's resources per second (%.0f/s); load %s",
				ours.Seconds(), many/ours.Seconds(), ours.Seconds()/bare.Seconds(), bare.Seconds(), ours.Seconds()/once.Seconds(), once.Seconds(),
				many/ours.Seconds()/theirs, theirs, load1()),
			"<= 2 x, >= 10 x")
	})
}

func openLedger(t *testing.T, e engine) *sqlledger.Ledger {
	t.Helper()
	url := filepath.Join(t.TempDir(), "l.db")
	if args := e.args(t); len(args) > 0 {
		url = args[1]
	}
	l, err := sqlledger.Open(t.Context(), sqlledger.Config{URL: url, Key: bytes.Repeat([]byte{7}, ledger.KeySize),
		Kinds: slices.Concat(environment.Kinds(), template.Kinds(), []ledger.Kind{operation.Kind})})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { l.Close() })
	return l
}

// layered is the template of the graph.
func layered(layers int) string {
	var sb strings.Builder
	sb.WriteString("apiVersion: drover.dev/v1\nkind: Template\nmetadata: {name: big}\nspec:\n  version: 1.0.0\n  atOnce: 64\n  resources:\n")
	for i := range layers {
		fmt.Fprintf(&sb, "    - {name: l%d, executor: noop, count: 100, with: {value: %d}", i, i)
		if i > 0 {
			fmt.Fprintf(&sb, ", needs: [\"l%d[${index}]\"]", i-1)
		}
		sb.WriteString("}\n")
	}
	return sb.String()
}

// walk is the time from the order to the end of its operation.
func walk(t *testing.T, store *sqlledger.Ledger, layers int) time.Duration {
	noop := executortest.Noop{}
	templates := template.NewService(template.Config{Store: store, Files: store, Executors: map[string]executor.Description{"noop": noop.Describe()}})
	s := environment.NewService(environment.Config{Store: store, Keeper: store, Finder: store, Templates: environment.Drawings{Service: templates},
		Executors: map[string]executor.Executor{"noop": noop}})
	ctx, stop := context.WithCancel(access.With(t.Context(), access.Principal{User: "root", Admin: true}))
	defer stop()
	if _, _, err := templates.Add(ctx, template.Addition{Files: map[string][]byte{template.FileName: []byte(layered(layers))}}); err != nil {
		t.Fatal(err)
	}
	loop := reconcile.New(reconcile.Config{Ledger: store, Reconcilers: s.Reconcilers(), Workers: 64, Logger: slog.New(slog.NewTextHandler(io.Discard, nil))})
	var ended sync.WaitGroup
	ended.Go(func() { _ = loop.Run(ctx) })
	began := time.Now()
	_, op, err := s.Create(ctx, environment.PlanOrder{Environment: "big", Template: "big"})
	if err != nil {
		t.Fatal(err)
	}
	for range store.Hints(ctx) {
		got, err := store.Get(ctx, ledger.Ref{Kind: operation.Kind.Name, ID: op})
		if err != nil || got.Phase == operation.Failed {
			t.Fatalf("%s %s: %v", got.Phase, got.Status, err)
		}
		if got.Phase == operation.Succeeded {
			break
		}
	}
	took := time.Since(began)
	stop()
	ended.Wait()
	return took
}

// written are the states that a walk has written of one of its resources.
func written(t *testing.T, store *sqlledger.Ledger) (out []ledger.Object) {
	t.Helper()
	found, err := store.List(t.Context(), ledger.Query{Kind: environment.KindResource.Name, Limit: 1})
	if err != nil || len(found) != 1 {
		t.Fatalf("found %d resources: %v", len(found), err)
	}
	changes, err := store.Changes(t.Context(), ledger.ChangeQuery{Kind: found[0].Kind, ID: found[0].ID})
	if err != nil || len(changes) != 2 {
		t.Fatalf("a resource was written %d times, want twice: %v", len(changes), err)
	}
	for _, c := range changes {
		out = append(out, c.Object)
	}
	return out
}

// bareWalk writes what a walk cannot do without if it is to go on after a crash:
// of each resource what is wanted, before anything is done, and what came of it,
// in an order that the graph allows. They are as large as those of the
// environment's walk, and written as it writes them: the first in sets of 250, the
// second in a set of its own by one of 64 workers, a layer when the one before is
// written. It plans nothing, looks at nothing, and leaves no work: what is due is
// in its memory alone. With one state it writes each resource once, in layers.
func bareWalk(t *testing.T, store *sqlledger.Ledger, layers int, states []ledger.Object) time.Duration {
	t.Helper()
	ids := make([]ledger.Ref, layers*100)
	for i := range ids {
		ids[i] = ledger.Ref{Kind: environment.KindResource.Name, ID: environment.ResourceID("bare-walk", fmt.Sprintf("l%d[%d]", i/100, i%100), "noop", "default")}
	}
	put := func(state, i int) ledger.Put {
		o := states[state]
		o.Ref, o.Parent, o.Name, o.Links, o.Version = ids[i], "bare", fmt.Sprintf("l%d[%d]", i/100, i%100), nil, 0
		if i >= 100 {
			o.Links = []string{ids[i-100].String()}
		}
		return ledger.Put{Object: o, Expect: int64(state), Op: o.Phase}
	}
	commit := func(puts ...ledger.Put) {
		if _, err := store.Commit(t.Context(), ledger.Set{Actor: "bench", Cause: ledger.BySchedule("bench"), Puts: puts}); err != nil {
			t.Error(err)
		}
	}
	began := time.Now()
	for first := 0; len(states) > 1 && first < len(ids); first += 250 {
		var puts []ledger.Put
		for i := first; i < min(first+250, len(ids)); i++ {
			puts = append(puts, put(0, i))
		}
		commit(puts...)
	}
	for layer := range layers {
		next := make(chan int)
		var workers sync.WaitGroup
		for range 64 {
			workers.Go(func() {
				for i := range next {
					commit(put(len(states)-1, i))
				}
			})
		}
		for i := range 100 {
			next <- layer*100 + i
		}
		close(next)
		workers.Wait()
	}
	return time.Since(began)
}

// tofuWalk is the time of OpenTofu's plan and apply of the same graph.
func tofuWalk(t *testing.T, layers int) time.Duration {
	dir := t.TempDir()
	var sb strings.Builder
	for i := range layers {
		input := fmt.Sprint(i)
		if i > 0 {
			input = fmt.Sprintf("terraform_data.l%d[count.index].id", i-1)
		}
		fmt.Fprintf(&sb, "resource \"terraform_data\" \"l%d\" {\n  count = 100\n  input = %s\n}\n", i, input)
	}
	if err := os.WriteFile(filepath.Join(dir, "main.tf"), []byte(sb.String()), 0o600); err != nil {
		t.Fatal(err)
	}
	run := func(args ...string) {
		cmd := exec.CommandContext(t.Context(), tofu.Path(t), args...)
		cmd.Dir = dir
		if out, err := cmd.CombinedOutput(); err != nil {
			t.Fatalf("tofu %v: %v: %.2000s", args, err, out)
		}
	}
	run("init", "-input=false")
	began := time.Now()
	run("apply", "-auto-approve", "-input=false", "-parallelism=64")
	return time.Since(began)
}
