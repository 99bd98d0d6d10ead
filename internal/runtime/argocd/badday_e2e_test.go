//go:build e2e

package argocd_test

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"net/http"
	"sync"
	"testing"

	"github.com/droverhq/drover/internal/runtime"
	"github.com/droverhq/drover/internal/runtime/argocd"
	testargo "github.com/droverhq/drover/test/argocd"
	"github.com/droverhq/drover/test/gitserver"
)

// moody fails one call in five, half of those after the cluster has heard it.
type moody struct {
	next http.RoundTripper
	mu   *sync.Mutex
	rand *rand.Rand
}

func (m moody) RoundTrip(r *http.Request) (*http.Response, error) {
	m.mu.Lock()
	n := m.rand.IntN(10)
	m.mu.Unlock()
	if n == 0 {
		return nil, errors.New("it has a bad day")
	}
	res, err := m.next.RoundTrip(r)
	if n == 1 && err == nil {
		res.Body.Close()
		return nil, errors.New("it has a bad day")
	}
	return res, err
}

// Whatever fails, each sync happens once, and everything comes and goes.
func TestBadDay(t *testing.T) {
	a, git, home := testargo.Shared(t), gitserver.Start(t), system(t)
	repo, ns := git.Repo(t, "shop"), a.Cluster.Namespace(t)
	const many = 10
	files := map[string]gitserver.Entry{}
	for i := range many { // each its own: two that make the same object at once fail in Argo CD
		files[fmt.Sprintf("k8s-%d/a.yaml", i)] = configMap(fmt.Sprintf("a-%d", i), "1")
	}
	repo.Commit(t, "main", files)
	unwell := func(c *argocd.Config) {
		m := moody{mu: &sync.Mutex{}, rand: rand.New(rand.NewPCG(1, 2))}
		c.Wrap = func(next http.RoundTripper) http.RoundTripper { m.next = next; return m }
	}
	rt := open(t, home, unwell)
	insist := func(it runtime.Item) {
		t.Helper()
		for range 100 {
			if rt.Apply(t.Context(), it) == nil {
				return
			}
		}
		t.Fatal("it is never taken")
	}
	var all []runtime.Deployment
	for i := range many {
		d := deployment(repo.URL, ns)
		d.Path = fmt.Sprintf("k8s-%d", i)
		d.Sync = &runtime.SyncRequest{ID: "run-" + d.UID}
		insist(item(1, d))
		all = append(all, d)
	}
	rt.Close() // and it is started anew in the middle of it
	rt = open(t, home, unwell)
	for _, d := range all {
		insist(item(1, d))
	}
	for _, d := range all {
		got := await(t, rt, d, "synced", func(_ runtime.Observed, d runtime.Deployed) bool {
			return d.Run != nil && d.Run.Phase == "Succeeded" && len(d.History) > 0
		})
		if len(got.History) != 1 || got.Run.ID != "run-"+d.UID {
			t.Errorf("it was synced %d times: %+v", len(got.History), got.Run)
		}
	}
	for _, d := range all {
		insist(gone(2, d))
	}
	for _, d := range all {
		await(t, rt, d, "gone", removed)
	}
	if n := count(t, a, "projects", "app-project-"+all[0].Workspace); n != 0 {
		t.Error("the project is still there")
	}
}
