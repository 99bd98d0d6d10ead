//go:build e2e

package kubernetes_test

import (
	"testing"
	"time"

	"github.com/droverhq/drover/internal/runtime"
	testkube "github.com/droverhq/drover/test/kubernetes"
)

// A sync run ends with what it has applied, as one of Argo CD does; one that fails is
// tried again a few times, and is over then.
func TestSyncRunsOfManualDeploymentsEnd(t *testing.T) {
	home := testkube.Shared(t).Namespace(t)
	rt, id := open(t, system(t)), unique("d")
	wish := func(generation int64, run string, all ...object) runtime.Item {
		return runtime.Item{ID: id, Kind: runtime.KindDeployment, Generation: generation, Token: generation, Body: body(t, object{
			"metadata": object{"namespace": home}, "manifests": all,
			"deployment": object{"uid": id, "commit": "c" + itoa(int(generation)), "namespace": home, "manual": true, "run": run, "retries": 2},
		})}
	}
	over := func(generation int64, run string) runtime.Observed {
		t.Helper()
		return await(t, rt, id, func(o runtime.Observed) bool {
			r := seenOf(o).Run
			return o.Generation == generation && r != nil && r.ID == run && !r.Finished.IsZero()
		})
	}
	never := object{"apiVersion": "apps/v1", "kind": "StatefulSet", "metadata": object{"name": "db"}, "spec": object{
		"serviceName": "db", "selector": object{"matchLabels": object{"app": "db"}},
		"template": object{"metadata": object{"labels": object{"app": "db"}}, "spec": object{"containers": []object{{"name": "db", "image": "nowhere.invalid/db"}}}},
	}}
	apply(t, rt, wish(1, "r1", never))
	o := over(1, "r1")
	if d := seenOf(o); d.Run.ID != "r1" || d.Run.Phase != "Succeeded" || d.Run.Revision != "c1" || len(d.Run.Resources) != 1 || d.Run.Resources[0].Status != "Synced" || o.State != runtime.Ready || d.Health.Status != "Progressing" {
		t.Errorf("what never becomes ready was applied, and is told as %s: %s", o.State, o.Detail)
	}

	wrong := object{"apiVersion": "v1", "kind": "Service", "metadata": object{"name": "s"}, "spec": object{"ports": []object{{"port": 99999}}}}
	began := time.Now()
	apply(t, rt, wish(2, "r2", never, wrong))
	o = await(t, rt, id, func(o runtime.Observed) bool { return o.Generation == 2 && o.State == runtime.Error })
	if r := seenOf(o).Run; r == nil || r.ID != "r2" || r.Phase == "Succeeded" || r.Message == "" {
		t.Errorf("while it is tried: %s", o.Detail)
	}
	o = over(2, "r2")
	if r := seenOf(o).Run; r.Phase != "Failed" || r.Retries != 2 || time.Since(began) < 3*time.Second {
		t.Errorf("after %s and three tries: %+v", time.Since(began), r)
	}
	right := object{"apiVersion": "v1", "kind": "Service", "metadata": object{"name": "s"}, "spec": object{"ports": []object{{"port": 99}}}}
	apply(t, rt, wish(3, "r3", never, right))
	if r := seenOf(over(3, "r3")).Run; r.ID != "r3" || r.Phase != "Succeeded" || r.Retries != 0 || len(r.Resources) != 2 {
		t.Errorf("the one behind it: %+v", r)
	}
	apply(t, rt, wish(4, "", never, right))
	await(t, rt, id, func(o runtime.Observed) bool { return is(4, runtime.Ready)(o) && seenOf(o).Run == nil })
}
