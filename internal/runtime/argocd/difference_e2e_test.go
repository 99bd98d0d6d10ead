//go:build e2e

package argocd_test

import (
	"strings"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/droverhq/drover/internal/runtime"
	"github.com/droverhq/drover/internal/runtime/argocd"
	testargo "github.com/droverhq/drover/test/argocd"
	"github.com/droverhq/drover/test/gitserver"
)

// difference is what is told of one object.
func difference(d runtime.Deployed, kind, name string) runtime.ResourceDifference {
	for _, x := range d.Diff {
		if x.Kind == kind && x.Name == name {
			return x
		}
	}
	return runtime.ResourceDifference{}
}

func secretFile(value string) gitserver.Entry {
	return gitserver.File("apiVersion: v1\nkind: Secret\nmetadata: {name: s}\nstringData: {password: " + value + "}\n")
}

func TestDifferencesAreRead(t *testing.T) {
	a, git := testargo.Shared(t), gitserver.Start(t)
	rt := open(t, system(t), func(c *argocd.Config) { c.Redis = a.RedisAddress })
	repo, ns := git.Repo(t, "shop"), a.Cluster.Namespace(t)
	first := repo.Commit(t, "main", map[string]gitserver.Entry{"k8s/a.yaml": configMap("a", "1"), "k8s/b.yaml": configMap("b", "1"), "k8s/s.yaml": secretFile("TOPSECRET1")})
	d := deployment(repo.URL, ns)
	apply(t, rt, item(1, d))
	got := await(t, rt, d, "to be made", func(_ runtime.Observed, d runtime.Deployed) bool { return len(d.Diff) == 3 })
	if x := difference(got, "ConfigMap", "a"); x.Change != runtime.ToCreate || !strings.Contains(x.Text, "+  value: \"1\"") {
		t.Errorf("before the first sync: %+v", x)
	}
	d.Sync = &runtime.SyncRequest{ID: "run-1"}
	apply(t, rt, item(2, d))
	await(t, rt, d, "synced", synced(first))

	// By hand.
	c := a.Cluster.Client(t).CoreV1()
	if _, err := c.ConfigMaps(ns).Patch(t.Context(), "a", types.MergePatchType, []byte(`{"data":{"value":"by hand"}}`), metav1.PatchOptions{}); err != nil {
		t.Fatal(err)
	}
	if _, err := c.Secrets(ns).Patch(t.Context(), "s", types.MergePatchType, []byte(`{"data":{"password":"VE9QU0VDUkVUMg=="}}`), metav1.PatchOptions{}); err != nil {
		t.Fatal(err)
	}
	got = await(t, rt, d, "changed by hand", func(_ runtime.Observed, d runtime.Deployed) bool { return len(d.Diff) == 2 })
	if x := difference(got, "ConfigMap", "a"); x.Change != runtime.ToChange || !strings.Contains(x.Text, "-  value: by hand\n+  value: \"1\"") {
		t.Errorf("by hand: %+v", x)
	}
	if x := difference(got, "Secret", "s"); x.Change != runtime.ToChange || !strings.Contains(x.Text, "-  password: (hidden)") || strings.Contains(x.Text, "TOPSECRET") || strings.Contains(x.Text, "VE9QU0VDUkVU") {
		t.Errorf("a Secret: %+v", x)
	}

	// A commit.
	repo.Commit(t, "main", map[string]gitserver.Entry{"k8s/a.yaml": configMap("a", "2"), "k8s/b.yaml": gitserver.Gone()})
	d.Refresh = "push-1"
	apply(t, rt, item(3, d))
	got = await(t, rt, d, "without b", func(_ runtime.Observed, d runtime.Deployed) bool {
		return difference(d, "ConfigMap", "b").Change != "" && strings.Contains(difference(d, "ConfigMap", "a").Text, "+  value: \"2\"")
	})
	if x := difference(got, "ConfigMap", "b"); x.Change != runtime.ToRemove || x.Text != "" {
		t.Errorf("what Git has no longer: %+v", x)
	}
	d.Sync = &runtime.SyncRequest{ID: "run-2", Prune: true}
	apply(t, rt, item(4, d))
	got = await(t, rt, d, "in sync", func(o runtime.Observed, d runtime.Deployed) bool {
		return o.State == runtime.Ready && d.Sync.Status == "Synced"
	})
	if len(got.Diff) != 0 {
		t.Errorf("in sync, and this differs: %+v", got.Diff)
	}
}

func TestDifferencesWithoutRedis(t *testing.T) {
	a, git := testargo.Shared(t), gitserver.Start(t)
	for reason, with := range map[string]string{"nobody said where it is": "", "it is not to be read": "off", "nobody is there": "127.0.0.1:1"} {
		t.Run(reason, func(t *testing.T) {
			rt := open(t, system(t), func(c *argocd.Config) { c.Redis = with })
			repo, ns := git.Repo(t, "shop"), a.Cluster.Namespace(t)
			repo.Commit(t, "main", map[string]gitserver.Entry{"k8s/a.yaml": configMap("a", "1")})
			d := deployment(repo.URL, ns)
			apply(t, rt, item(1, d))
			got := await(t, rt, d, "out of sync", func(_ runtime.Observed, d runtime.Deployed) bool {
				return d.Sync.Status == "OutOfSync" && d.NoDiff != ""
			})
			if len(got.Diff) != 0 || len(got.Resources) != 1 || got.Resources[0].Status != "OutOfSync" {
				t.Errorf("it says %+v", got)
			}
		})
	}
}
