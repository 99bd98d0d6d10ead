package kubernetes_test

import (
	"encoding/json"
	"fmt"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/droverhq/drover/internal/manifest"
	"github.com/droverhq/drover/internal/runtime"
	"github.com/droverhq/drover/internal/runtime/kubernetes"
)

func TestDeployed(t *testing.T) {
	body := json.RawMessage(`{"manifests":[],"deployment":{"uid":"u","repository":"https://git/shop","path":"k8s","revision":"main","commit":"c1","namespace":"shop"}}`)
	config := func(state string, there bool) manifest.Object {
		o := manifest.Object{ID: manifest.ID{Kind: "ConfigMap", Namespace: "shop", Name: "b"}, State: state, Message: "b: " + state}
		if there {
			o.Content = map[string]any{"apiVersion": "v1"}
		}
		return o
	}
	web := manifest.Object{ID: manifest.ID{Group: "apps", Kind: "Deployment", Namespace: "shop", Name: "web"}, State: "Current", Content: map[string]any{"apiVersion": "apps/v1"}}
	for _, tc := range []struct {
		reason       string
		objects      []manifest.Object
		sync, health string
	}{
		{"nothing is fine", nil, "Synced", "Healthy"},
		{"all is there", []manifest.Object{web, config("Current", true)}, "Synced", "Healthy"},
		{"one is on its way", []manifest.Object{web, config("InProgress", true)}, "Synced", "Progressing"},
		{"one has failed", []manifest.Object{config("Failed", true), web}, "Synced", "Degraded"},
		{"one is missing", []manifest.Object{web, config("NotFound", false)}, "OutOfSync", "Missing"},
		{"one is going", []manifest.Object{web, config("Terminating", true)}, "OutOfSync", "Progressing"},
	} {
		t.Run(tc.reason, func(t *testing.T) {
			b, err := kubernetes.Deployed(body, manifest.Health{Objects: tc.objects})
			var got runtime.Deployed
			if err != nil || json.Unmarshal(b, &got) != nil {
				t.Fatal(err)
			}
			if got.Sync.Status != tc.sync || got.Health.Status != tc.health || got.Sync.Revision != "c1" || len(got.Resources) != len(tc.objects) {
				t.Errorf("got %s", b)
			}
			want := &runtime.Compared{Repository: "https://git/shop", Path: "k8s", Revision: "main", Namespace: "shop"}
			if diff := cmp.Diff(want, got.Compared); diff != "" {
				t.Error(diff)
			}
			for _, r := range got.Resources {
				if r.Kind == "Deployment" && (r.Version != "v1" || r.Health.Status != "Healthy" || r.Health.Message != "") {
					t.Errorf("got %+v", r)
				}
			}
		})
	}
}

// What is in trouble is told, however many there are that are not, and wherever its name
// comes.
func TestDeployedTellsWhatIsInTrouble(t *testing.T) {
	var h manifest.Health
	for i := range 2500 {
		h.Objects = append(h.Objects, manifest.Object{ID: manifest.ID{Kind: "ConfigMap", Namespace: "shop", Name: fmt.Sprintf("a-%04d", i)}, State: "Current", Content: map[string]any{"apiVersion": "v1"}})
	}
	h.Objects = append(h.Objects, manifest.Object{ID: manifest.ID{Group: "apps", Kind: "StatefulSet", Namespace: "shop", Name: "z"}, State: "Failed", Content: map[string]any{"apiVersion": "apps/v1"}})
	b, err := kubernetes.Deployed(json.RawMessage(`{"manifests":[]}`), h)
	var got runtime.Deployed
	if err != nil || json.Unmarshal(b, &got) != nil {
		t.Fatal(err)
	}
	if n := len(got.Resources); n != 2000 || got.More != 501 || got.Resources[n-1].Name != "z" {
		t.Errorf("%d are told, the last one is %+v, of %d more", n, got.Resources[n-1], got.More)
	}
}
