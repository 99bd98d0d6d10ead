//go:build e2e

package kubernetes_test

import (
	"encoding/json"
	"strings"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/droverhq/drover/internal/runtime"
	testkube "github.com/droverhq/drover/test/kubernetes"
)

func seenOf(o runtime.Observed) (d runtime.Deployed) {
	_ = json.Unmarshal(o.Detail, &d)
	return d
}

// told is a part of an operationState.
type told struct {
	Phase, Message string
	Operation      struct{ InitiatedBy struct{ Username string } }
	SyncResult     struct {
		Revision  string
		Resources []struct{ Name, Status string }
	}
	StartedAt, FinishedAt metav1.Time
}

func operationOf(o runtime.Observed) (out told) {
	_ = json.Unmarshal(seenOf(o).Operation, &out)
	return out
}

func difference(o runtime.Observed, kind, name string) runtime.ResourceDifference {
	for _, x := range seenOf(o).Diff {
		if x.Kind == kind && x.Name == name {
			return x
		}
	}
	return runtime.ResourceDifference{}
}

func secret(value string) object {
	return object{"apiVersion": "v1", "kind": "Secret", "metadata": object{"name": "s"}, "stringData": object{"password": value}}
}

// value of a ConfigMap; "none": it is not there.
func value(t *testing.T, namespace, name string) string {
	t.Helper()
	m, err := client(t).CoreV1().ConfigMaps(namespace).Get(t.Context(), name, metav1.GetOptions{})
	if err != nil {
		return "none"
	}
	return m.Data["k"]
}

func TestManualDeploymentIsCompared(t *testing.T) {
	home, sys := testkube.Shared(t).Namespace(t), system(t)
	rt, id := open(t, sys), unique("d")
	wish := func(generation int64, run string, prune bool, all ...object) runtime.Item {
		return runtime.Item{ID: id, Kind: runtime.KindDeployment, Generation: generation, Token: generation, Body: body(t, object{
			"metadata": object{"namespace": home}, "manifests": all,
			"deployment": object{"uid": id, "commit": "c" + itoa(int(generation)), "namespace": home, "manual": true, "run": run, "prune": prune},
		})}
	}
	at := func(generation int64, sync string) func(runtime.Observed) bool {
		return func(o runtime.Observed) bool {
			return o.Generation == generation && o.State == runtime.Ready && seenOf(o).Sync.Status == sync
		}
	}
	patch := func(kind, name, data string) {
		t.Helper()
		c, err := client(t).CoreV1(), error(nil)
		if kind == "Secret" {
			_, err = c.Secrets(home).Patch(t.Context(), name, types.MergePatchType, []byte(data), metav1.PatchOptions{FieldManager: "kubectl-edit"})
		} else {
			_, err = c.ConfigMaps(home).Patch(t.Context(), name, types.MergePatchType, []byte(data), metav1.PatchOptions{FieldManager: "kubectl-edit"})
		}
		if err != nil {
			t.Fatal(err)
		}
	}

	apply(t, rt, wish(1, "", false, configMap("a", "1"), configMap("b", "1"), secret("TOPSECRET1")))
	o := await(t, rt, id, at(1, "OutOfSync"))
	if d := seenOf(o); d.Health.Status != "Missing" || len(d.Resources) != 3 || len(d.Diff) != 3 || value(t, home, "a") != "none" {
		t.Errorf("before the first sync: %s", o.Detail)
	}
	if x := difference(o, "ConfigMap", "a"); x.Change != runtime.ToCreate || !strings.Contains(x.Text, "+  k: \"1\"") {
		t.Errorf("what is to be made: %+v", x)
	}
	apply(t, rt, wish(2, "r1", false, configMap("a", "1"), configMap("b", "1"), secret("TOPSECRET1")))
	if op := operationOf(o); op.Phase != "" {
		t.Errorf("nothing was synced yet: %+v", op)
	}
	o = await(t, rt, id, at(2, "Synced"))
	if op := operationOf(o); op.Phase != "Succeeded" || op.SyncResult.Revision != "c2" || op.Operation.InitiatedBy.Username != "drover:r1" || len(op.SyncResult.Resources) != 3 || op.StartedAt.IsZero() || value(t, home, "a") != "1" {
		t.Errorf("the sync is told as %+v", op)
	}

	// By hand, with the sync still being what was asked for last; and over a restart.
	patch("ConfigMap", "a", `{"data":{"k":"by hand"}}`)
	patch("Secret", "s", `{"data":{"password":"VE9QU0VDUkVUMg=="}}`)
	o = await(t, rt, id, func(o runtime.Observed) bool { return len(seenOf(o).Diff) == 2 })
	rt.Close()
	rt = open(t, sys)
	again := wish(3, "", false, configMap("a", "1"), configMap("b", "1"), secret("TOPSECRET1"))
	apply(t, rt, again)
	o = await(t, rt, id, func(o runtime.Observed) bool { return at(3, "OutOfSync")(o) && len(seenOf(o).Diff) == 2 })
	if x := difference(o, "ConfigMap", "a"); x.Change != runtime.ToChange || !strings.Contains(x.Text, "-  k: by hand\n+  k: \"1\"") || value(t, home, "a") != "by hand" {
		t.Errorf("by hand: %+v", x)
	}
	if x := difference(o, "Secret", "s"); !strings.Contains(x.Text, "-  password: (hidden)\n+  password: (hidden, and another one)") || strings.Contains(string(o.Detail), "VE9QU") || strings.Contains(string(o.Detail), "TOPSECRET") {
		t.Errorf("a Secret: %+v", x)
	}

	// A commit without b: first compared, then synced without prune, then with it.
	apply(t, rt, wish(4, "", false, configMap("a", "2"), secret("TOPSECRET1")))
	o = await(t, rt, id, at(4, "OutOfSync"))
	if x := difference(o, "ConfigMap", "b"); x.Change != runtime.ToRemove || x.Text != "" {
		t.Errorf("what Git has no longer: %+v", x)
	}
	apply(t, rt, wish(5, "r2", false, configMap("a", "2"), secret("TOPSECRET1")))
	o = await(t, rt, id, at(5, "OutOfSync"))
	if d := seenOf(o); len(d.Diff) != 1 || d.Diff[0].Name != "b" || value(t, home, "a") != "2" || value(t, home, "b") != "1" {
		t.Errorf("without prune: %s", o.Detail)
	}
	apply(t, rt, wish(6, "r3", true, configMap("a", "2"), secret("TOPSECRET1")))
	o = await(t, rt, id, at(6, "Synced"))
	if len(seenOf(o).Diff) != 0 || value(t, home, "b") != "none" {
		t.Errorf("with prune: %s", o.Detail)
	}
	if op := operationOf(o); op.SyncResult.Revision != "c6" || !strings.Contains(string(seenOf(o).Operation), `"name":"b","status":"Pruned"`) {
		t.Errorf("the last sync is told as %s", seenOf(o).Operation)
	}
	apply(t, rt, runtime.Item{ID: id, Kind: runtime.KindDeployment, Generation: 7, Token: 7, Delete: true})
	await(t, rt, id, is(7, runtime.Deleted))
	if value(t, home, "a") != "none" {
		t.Error("it is left behind")
	}
}

func TestWhatIsPutRightIsTold(t *testing.T) {
	home := testkube.Shared(t).Namespace(t)
	rt, id := open(t, system(t)), unique("d")
	apply(t, rt, runtime.Item{ID: id, Kind: runtime.KindDeployment, Generation: 1, Token: 1, Body: body(t, object{
		"metadata": object{"namespace": home}, "manifests": []object{configMap("a", "1")}, "deployment": object{"uid": id, "namespace": home},
	})})
	if o := await(t, rt, id, is(1, runtime.Ready)); seenOf(o).Healed != nil {
		t.Errorf("nobody has done anything: %s", o.Detail)
	}
	c := client(t).CoreV1().ConfigMaps(home)
	if _, err := c.Patch(t.Context(), "a", types.MergePatchType, []byte(`{"data":{"k":"by hand"}}`), metav1.PatchOptions{FieldManager: "kubectl-edit"}); err != nil {
		t.Fatal(err)
	}
	await(t, rt, id, func(o runtime.Observed) bool {
		h := seenOf(o).Healed
		return h != nil && h.What == "the ConfigMap "+home+"/a was changed" && !h.At.IsZero()
	})
	if err := c.Delete(t.Context(), "a", metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	await(t, rt, id, func(o runtime.Observed) bool {
		h := seenOf(o).Healed
		return h != nil && h.What == "the ConfigMap "+home+"/a was deleted"
	})
	if value(t, home, "a") != "1" {
		t.Error("it is not there again")
	}
}
