//go:build e2e

package gitops_test

import (
	"encoding/json"
	"fmt"
	"path/filepath"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	v1 "github.com/droverhq/drover/api/v1"
	"github.com/droverhq/drover/test/argocd"
	"github.com/droverhq/drover/test/drover"
	"github.com/droverhq/drover/test/kubernetes"
	"github.com/droverhq/drover/test/postgres"
)

// Two servers on one PostgreSQL follow the same custom resources. Each intent is
// written down once, whoever of them is killed meanwhile.
func TestReplicas(t *testing.T) {
	w := prepare(t, kubernetes.Start(t, kubernetes.WithControllers()),
		"--database", postgres.Database(t), "--master-key-file", filepath.Join(t.TempDir(), "master.key"))
	other := &drover.Server{Mode: "server", DataDir: t.TempDir(), Listen: drover.FreeAddress(t), Args: w.s.Args, Env: w.s.Env}
	begin(t, "the other server", other)
	w.run(t, "create", "cluster", "edge", "--provider", "metal", "--region", "north")
	w.edge = w.join(t, "edge", w.k.Kubeconfig(), "--runtime", "kubernetes")

	const many = 10
	ns := w.namespace(t)
	repo := w.git.Repo(t, ns)
	tree := files{}
	for i := range 3 * many {
		tree[fmt.Sprintf("d%d/a.yaml", i)] = configMap(fmt.Sprint("a", i), "1")
		tree[fmt.Sprintf("e%d/a.yaml", i)] = configMap(fmt.Sprint("a", i), "2")
	}
	commit := repo.Commit(t, "main", tree)
	orders := map[string]map[string]int{} // by UID and verb
	expect := func(uid, verb string) {
		if orders[uid] == nil {
			orders[uid] = map[string]int{}
		}
		orders[uid][verb]++
	}
	uids := map[int]string{}
	wish := func(i int, path string) {
		t.Helper()
		verb := "update"
		if uids[i] == "" {
			verb = "create"
		}
		uids[i] = w.deploy(t, ns, fmt.Sprint("shop-", i), at(repo.URL, fmt.Sprint(path, i)))
		expect(uids[i], verb)
	}
	drop := func(i int) {
		t.Helper()
		w.remove(t, deployments, ns, fmt.Sprint("shop-", i))
		expect(uids[i], "delete")
	}
	is := func(i int, value string) {
		t.Helper()
		w.value(t, ns, fmt.Sprint("a", i), value)
		if value != "none" {
			w.synced(t, ns, fmt.Sprint("shop-", i), commit)
		}
	}

	for i := range many { // both are there
		wish(i, "d")
	}
	for i := range many {
		is(i, "1")
	}
	for i := many; i < 2*many; i++ { // one is killed on the way
		if wish(i, "d"); i == many+3 {
			other.Kill()
		}
	}
	for i := range 3 {
		wish(i, "e")
		drop(9 - i)
	}
	for i := many; i < 2*many; i++ {
		is(i, "1")
	}
	for i := range 3 {
		is(i, "2")
		is(9-i, "none")
	}
	// The other one comes back, and the first one is killed with what it had just
	// heard of.
	other.Start(t)
	for i := 2 * many; i < 3*many; i++ {
		if wish(i, "d"); i == 2*many+3 {
			w.s.Kill()
		}
	}
	for i := range 3 {
		wish(many+i, "e")
		drop(2*many - 1 - i)
	}
	told := func() (out map[string]map[string]int, running int) {
		stdout, stderr, code := other.Run("get", "operations", "--size", "1000", "-o", "json")
		if code != 0 {
			t.Fatalf("operations: %s", stderr)
		}
		out = map[string]map[string]int{}
		for _, o := range decode[struct{ Items []v1.Object }](t, stdout).Items {
			var spec struct {
				Verb    string
				Subject struct{ Kind, ID string }
			}
			if json.Unmarshal(o.Spec, &spec) != nil || spec.Subject.Kind != "deployment" {
				continue
			}
			if out[spec.Subject.ID] == nil {
				out[spec.Subject.ID] = map[string]int{}
			}
			out[spec.Subject.ID][spec.Verb]++
			if o.Phase == "running" {
				running++
			}
		}
		return out, running
	}
	until(t, "the one that is left to have written down all", func() bool { got, _ := told(); return sum(got) >= sum(orders) })
	w.s.Start(t) // with it the agent is told
	for i := 2 * many; i < 3*many; i++ {
		is(i, "1")
	}
	for i := range 3 {
		is(many+i, "2")
		is(2*many-1-i, "none")
	}
	until(t, "all to have ended", func() bool { _, running := told(); return running == 0 })
	got, _ := told()
	for uid, want := range orders {
		if fmt.Sprint(got[uid]) != fmt.Sprint(want) {
			t.Errorf("%s: %v was written down, %v was asked for", uid, got[uid], want)
		}
	}
	if len(got) != len(orders) {
		t.Errorf("%d deployments have operations, %d were asked for", len(got), len(orders))
	}
	// Nothing of those that stayed went.
	left, err := w.in(configMaps, ns).List(t.Context(), metav1.ListOptions{})
	if err != nil {
		t.Fatal(err)
	}
	n := 0
	for _, o := range left.Items {
		if argocd.Field(&o, "data.value") != "" {
			n++
		}
	}
	if n != 3*many-6 {
		t.Errorf("%d of %d are there", n, 3*many-6)
	}
}

func sum(of map[string]map[string]int) (n int) {
	for _, verbs := range of {
		for _, k := range verbs {
			n += k
		}
	}
	return n
}
