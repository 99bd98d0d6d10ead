package cluster_test

import (
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/droverhq/drover/internal/access"
	"github.com/droverhq/drover/internal/cluster"
	"github.com/droverhq/drover/internal/fault"
	"github.com/droverhq/drover/internal/ledger"
	"github.com/droverhq/drover/internal/operation"
	"github.com/droverhq/drover/internal/provider"
	"github.com/droverhq/drover/internal/reconcile"
	"github.com/droverhq/drover/internal/sqlledger"
)

var operator = access.Principal{User: "ops", Admin: true}

func openAll(t *testing.T) *sqlledger.Ledger {
	t.Helper()
	l, err := sqlledger.Open(t.Context(), sqlledger.Config{
		URL: filepath.Join(t.TempDir(), "l.db"), Key: make([]byte, 32), Kinds: []ledger.Kind{cluster.Kind, cluster.KindProfile, operation.Kind},
	})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { l.Close() })
	return l
}

// crashed is the panic that stands for kill -9.
type crashed struct{}

// fate ends the process before or after one of its effects.
type fate struct {
	at      []int // effects until the next crash, one by one
	crashes int
	effects int
}

// around lets an effect happen, or the process end before or after it.
func (f *fate) around(effect func()) {
	f.tick()
	effect()
	f.tick()
}

func (f *fate) tick() {
	f.effects++
	if len(f.at) == 0 {
		return
	}
	if f.at[0]--; f.at[0] < 0 {
		f.at, f.crashes = f.at[1:], f.crashes+1
		panic(crashed{})
	}
}

// fragile is a ledger whose user may be killed.
type fragile struct {
	*sqlledger.Ledger
	*fate
	sealed map[string]bool
}

func (f *fragile) Commit(ctx context.Context, set ledger.Set) (r ledger.Result, err error) {
	f.around(func() { r, err = f.Ledger.Commit(ctx, set) })
	return r, err
}

func (f *fragile) Seal(ctx context.Context, plain []byte) (ref string, err error) {
	f.around(func() {
		if ref, err = f.Ledger.Seal(ctx, plain); err == nil {
			f.sealed[ref] = true
		}
	})
	return ref, err
}

func (f *fragile) Shred(ctx context.Context, ref string) (err error) {
	f.around(func() {
		err = f.Ledger.Shred(ctx, ref)
		delete(f.sealed, ref)
	})
	return err
}

// cloud makes clusters, each in a few calls. It finds its work again by the name
// that it has saved before it begins.
type cloud struct {
	*fate
	made    map[string]int // by name: calls since
	objects map[string]bool
	next    int
}

func (c *cloud) Ensure(ctx context.Context, want provider.Cluster) (provider.Progress, error) {
	name := string(want.State)
	if name == "" {
		c.next++
		name = fmt.Sprintf("%s-%d", want.ID, c.next)
		if err := want.Save(ctx, []byte(name)); err != nil {
			return provider.Progress{}, err
		}
	}
	c.around(func() { c.made[name]++ })
	if c.made[name] < 3 {
		return provider.Progress{Message: "machines start", After: time.Second}, nil
	}
	return provider.Progress{Done: true, Kubeconfig: []byte("kubeconfig of " + name), Domain: name + ".example.org"}, nil
}

func (c *cloud) Remove(_ context.Context, want provider.Cluster) (provider.Progress, error) {
	c.around(func() {
		delete(c.made, string(want.State))
		clear(c.objects)
	})
	return provider.Progress{Done: true}, nil
}

// hands apply steps to what the cloud has made.
type hands struct{ *cloud }

func named(step cluster.StepItem) (out []string) {
	var body struct {
		Manifests []struct {
			Metadata struct{ Name string }
		}
	}
	if err := json.Unmarshal(step.Body, &body); err != nil {
		panic(err)
	}
	for _, m := range body.Manifests {
		out = append(out, m.Metadata.Name)
	}
	return out
}

func (h hands) Inventory(_ context.Context, _ []byte, step cluster.StepItem) ([]string, error) {
	return named(step), nil
}

func (h hands) Apply(_ context.Context, kubeconfig []byte, step cluster.StepItem, inventory []string) (cluster.StepResult, error) {
	if !strings.HasPrefix(string(kubeconfig), "kubeconfig of ") {
		return cluster.StepResult{}, fault.New(fault.Invalid, "whose is %q?", kubeconfig)
	}
	now := named(step)
	for _, name := range now {
		h.around(func() { h.objects[name] = true })
	}
	for _, name := range inventory {
		if !slices.Contains(now, name) {
			h.around(func() { delete(h.objects, name) })
		}
	}
	return cluster.StepResult{Ready: true, Inventory: now}, nil
}

func (h hands) Missing(_ context.Context, _ []byte, inventory []string) (out []string, _ error) {
	for _, name := range inventory {
		if !h.objects[name] {
			out = append(out, name)
		}
	}
	return out, nil
}

func (h hands) Remove(_ context.Context, _ []byte, _ cluster.StepItem, inventory []string) error {
	for _, name := range inventory {
		h.around(func() { delete(h.objects, name) })
	}
	return nil
}

const profileOf = `
apiVersion: drover.dev/v1
kind: ClusterProfile
metadata: {name: %s}
spec:
  maker: cloud
  serves: [{provider: aws, regions: [east]}]
  steps: %s
`

func steps(names ...string) string {
	var out []string
	for i, name := range names {
		needs := ""
		if i > 0 {
			needs = "needs: [" + names[i-1] + "], "
		}
		out = append(out, fmt.Sprintf("{name: %s, %smanifests: [{apiVersion: v1, kind: ConfigMap, metadata: {name: %s}}]}", name, needs, name))
	}
	return "[" + strings.Join(out, ", ") + "]"
}

// world is a control plane that is killed and started again.
type world struct {
	*fragile
	*cloud
	s     *cluster.Service
	id    string
	clock time.Time
}

func (w *world) start() {
	if w.clock.IsZero() {
		w.clock = time.Now()
	}
	w.s = cluster.NewService(w.fragile)
	w.s.SetClock(func() time.Time { return w.clock })
	w.s.Keeper, w.s.Makers, w.s.Terraformer = w.fragile, map[string]provider.Provider{"cloud": w.cloud}, hands{w.cloud}
}

// do works until nothing is left to do at once; a kill ends it early.
func (w *world) do(t *rapid.T) (again bool) {
	defer func() {
		if v := recover(); v != nil {
			if _, killed := v.(crashed); !killed {
				panic(v)
			}
			w.start()
			again = true
		}
	}()
	for range 100 {
		r, err := w.s.Reconcile(context.Background(), reconcile.Task{Ref: ledger.Ref{Kind: "cluster", ID: w.id}})
		if err != nil {
			t.Fatalf("reconcile: %v", err)
		}
		if len(r.Write.Puts) > 0 {
			if _, err := w.fragile.Commit(context.Background(), r.Write); err != nil && fault.Reason(err) != "version" {
				t.Fatalf("write: %v", err)
			}
		}
		w.check(t)
		if r.Next {
			w.clock = w.clock.Add(r.After)
			return r.After < 5*time.Minute
		}
		if !r.Again {
			return false
		}
	}
	t.Fatal("it never comes to rest")
	return false
}

// check is what must hold at any moment: at most one cluster was made, and the
// ledger knows it and everything on it.
func (w *world) check(t *rapid.T) {
	o, err := w.fragile.Get(context.Background(), ledger.Ref{Kind: "cluster", ID: w.id})
	if err != nil {
		t.Fatal(err)
	}
	_, status, err := cluster.Decode(o)
	if err != nil {
		t.Fatal(err)
	}
	known := ""
	if status.State != "" {
		plain, err := w.fragile.Unseal(context.Background(), status.State)
		if err != nil {
			t.Fatalf("its state cannot be read in %s: %v", o.Phase, err)
		}
		known = string(plain)
	}
	for name := range w.made {
		if name != known {
			t.Fatalf("%s was made, and the ledger knows %q", name, known)
		}
	}
	var listed []string
	for _, s := range status.Steps {
		listed = append(listed, s.Inventory...)
	}
	for name := range w.objects {
		if !slices.Contains(listed, name) {
			t.Fatalf("%s is on the cluster, and no step lists it", name)
		}
	}
}

// Wherever the process is killed, there are never two clusters, and none that
// nobody knows of.
func TestKilledAnywhere(t *testing.T) {
	l := openAll(t)
	n, kills := 0, 0
	rapid.Check(t, func(t *rapid.T) {
		n++
		f := &fate{at: rapid.SliceOfN(rapid.IntRange(0, 30), 0, 6).Draw(t, "kills")}
		late := rapid.IntRange(0, 12).Draw(t, "deleted after")
		w := &world{
			fragile: &fragile{l, f, map[string]bool{}}, id: fmt.Sprintf("c%d", n),
			cloud: &cloud{fate: f, made: map[string]int{}, objects: map[string]bool{}},
		}
		w.start()
		at := f.at
		f.at = nil // the user is not killed
		ctx := access.With(context.Background(), operator)
		profile := fmt.Sprintf("p%d", n)
		if _, _, err := w.s.ApplyProfile(ctx, "p.yaml", fmt.Appendf(nil, profileOf, profile, steps("one", "two", "three"))); err != nil {
			t.Fatal(err)
		}
		if _, err := w.s.Create(ctx, cluster.Request{ID: w.id, Profile: profile}); err != nil {
			t.Fatal(err)
		}
		f.at = at
		for i := 0; w.do(t) && i < 200; i++ {
			if i == late {
				break
			}
		}
		rest := f.at
		f.at = nil
		if rapid.Bool().Draw(t, "profile changes") {
			if _, _, err := w.s.ApplyProfile(ctx, "p.yaml", fmt.Appendf(nil, profileOf, profile, steps("one", "four"))); err != nil {
				t.Fatal(err)
			}
			f.at = rest
			for i := 0; w.do(t) && i < 200; i++ {
			}
			rest, f.at = f.at, nil
			o, _ := w.s.Get(ctx, w.id)
			if got := slices.Sorted(maps.Keys(w.objects)); o.Phase == cluster.Waiting && !slices.Equal(got, []string{"four", "one"}) {
				t.Fatalf("in %s there are %v", o.Phase, got)
			}
		}
		if _, err := w.s.Delete(ctx, w.id); err != nil {
			t.Fatal(err)
		}
		f.at = rest
		for i := 0; i < 200; i++ {
			w.do(t)
			if _, err := w.s.Get(ctx, w.id); fault.Is(err, fault.NotFound) {
				break
			}
		}
		if _, err := w.s.Get(ctx, w.id); !fault.Is(err, fault.NotFound) {
			o, _ := w.s.Get(ctx, w.id)
			t.Fatalf("it never goes: %s %s", o.Phase, o.Status)
		}
		if len(w.made) > 0 {
			t.Fatalf("it is gone, and %v is there", w.made)
		}
		if f.crashes == 0 && len(w.sealed) > 0 {
			t.Fatalf("secrets are left: %v", w.sealed)
		}
		kills += f.crashes
	})
	if kills == 0 {
		t.Error("nobody was killed: this shows nothing")
	}
}

// A worker that has lost its lease begins nothing.
func TestLostLeaseBeginsNothing(t *testing.T) {
	l := openAll(t)
	f := &fate{}
	w := &world{fragile: &fragile{l, f, map[string]bool{}}, id: "c", cloud: &cloud{fate: f, made: map[string]int{}, objects: map[string]bool{}}}
	w.start()
	ctx := access.With(t.Context(), operator)
	if _, _, err := w.s.ApplyProfile(ctx, "p.yaml", fmt.Appendf(nil, profileOf, "p", steps("one"))); err != nil {
		t.Fatal(err)
	}
	if _, err := w.s.Create(ctx, cluster.Request{ID: "c", Profile: "p"}); err != nil {
		t.Fatal(err)
	}
	got, err := l.Claim(ctx, ledger.ClaimRequest{Holder: "a", Kinds: []string{"cluster"}, Limit: 1, Lease: time.Minute})
	if err != nil || len(got.Work) != 1 {
		t.Fatal(got, err)
	}
	task := reconcile.Task{Ref: got.Work[0].Ref, Token: got.Work[0].Token}
	r, err := w.s.Reconcile(ctx, task)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := l.Commit(ctx, r.Write); err != nil {
		t.Fatal(err)
	}
	if err := l.Release(ctx, []ledger.Lease{got.Work[0].Lease}); err != nil {
		t.Fatal(err)
	}
	if _, err := w.s.Reconcile(ctx, task); fault.Reason(err) != "lease-lost" {
		t.Errorf("without its lease: %v", err)
	}
	if len(w.made) != 0 || len(w.sealed) != 0 {
		t.Errorf("%v was made, %d secrets are kept", w.made, len(w.sealed))
	}
}
