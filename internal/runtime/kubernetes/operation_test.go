package kubernetes_test

import (
	"encoding/json"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/droverhq/drover/internal/manifest"
	"github.com/droverhq/drover/internal/runtime/kubernetes"
)

type tree = map[string]any

func TestOperationStateOfWhatIsAppliedHere(t *testing.T) {
	at := time.Date(2026, 1, 2, 12, 0, 0, 0, time.UTC)
	body := func(commit, more string) json.RawMessage {
		return json.RawMessage(`{"manifests":[{"apiVersion":"apps/v1","kind":"Deployment","metadata":{"name":"web"}}],
			"deployment":{"uid":"u","repository":"https://git/shop","path":"k8s","revision":"main","commit":"` + commit + `","namespace":"shop"` + more + `}}`)
	}
	line := func(group, kind, name string) string {
		return manifest.ID{Group: group, Kind: kind, Namespace: "shop", Name: name}.String()
	}
	web, old := line("apps", "Deployment", "web"), line("", "ConfigMap", "old")
	wrote := manifest.Result{Inventory: []string{web}, Changed: []string{web}}
	source := tree{"repoURL": "https://git/shop", "path": "k8s", "targetRevision": "main"}
	resource := func(how string) tree {
		return tree{"group": "apps", "version": "v1", "kind": "Deployment", "namespace": "shop", "name": "web", "status": "Synced", "message": "deployment/web " + how, "syncPhase": "Sync"}
	}
	by := func(commit string) tree {
		return tree{"sync": tree{"revision": commit, "prune": true}, "initiatedBy": tree{"automated": true}}
	}
	stamp := func(minutes int) (string, string) {
		from := at.Add(time.Duration(minutes) * time.Minute)
		return from.Format(time.RFC3339), from.Add(time.Second).Format(time.RFC3339)
	}
	state := func(operation tree, phase, message, commit string, minutes int, resources ...any) tree {
		began, ended := stamp(minutes)
		result := tree{"revision": commit, "source": source}
		if len(resources) > 0 {
			result["resources"] = resources
		}
		return tree{"operation": operation, "phase": phase, "message": message, "syncResult": result, "startedAt": began, "finishedAt": ended}
	}
	var s kubernetes.Syncs
	for i, tc := range []struct {
		reason  string
		body    json.RawMessage
		failure string
		wrote   manifest.Result
		pruned  []string
		want    tree
	}{
		{"it fails", body("c1", ""), "no right", manifest.Result{}, nil, state(by("c1"), "Failed", "no right", "c1", 0)},
		{"it goes on to fail: that is the same one", body("c1", ""), "no right", manifest.Result{}, nil, state(by("c1"), "Failed", "no right", "c1", 0)},
		{"it works", body("c1", ""), "", manifest.Result{Inventory: []string{web}, Created: []string{web}}, nil, state(by("c1"), "Succeeded", "successfully synced", "c1", 2, resource("created"))},
		{"what is put right is no sync", body("c1", ""), "", wrote, nil, state(by("c1"), "Succeeded", "successfully synced", "c1", 2, resource("created"))},
		{"another commit, which has something no longer", body("c2", ""), "", wrote, []string{old}, state(by("c2"), "Succeeded", "successfully synced", "c2", 4, resource("configured"),
			tree{"group": "", "version": "", "kind": "ConfigMap", "namespace": "shop", "name": "old", "status": "Pruned", "message": "pruned", "syncPhase": "Sync"})},
		{"to put it right fails", body("c2", ""), "no right", wrote, nil, state(by("c2"), "Failed", "no right", "c2", 5)},
		{"and works", body("c2", ""), "", manifest.Result{Inventory: []string{web}}, nil, state(by("c2"), "Succeeded", "successfully synced", "c2", 6, resource("unchanged"))},
		{"a manual one is only compared", body("c3", `,"manual":true`), "no right", wrote, nil, state(by("c2"), "Succeeded", "successfully synced", "c2", 6, resource("unchanged"))},
		{"a sync run", body("c3", `,"manual":true,"run":"r1"`), "", wrote, nil,
			state(tree{"sync": tree{"revision": "c3"}, "initiatedBy": tree{"username": "drover:r1"}}, "Succeeded", "successfully synced", "c3", 8, resource("configured"))},
		{"it is carried out once", body("c3", `,"manual":true,"run":"r1"`), "no right", wrote, nil,
			state(tree{"sync": tree{"revision": "c3"}, "initiatedBy": tree{"username": "drover:r1"}}, "Succeeded", "successfully synced", "c3", 8, resource("configured"))},
	} {
		s.Apply(tc.body, at.Add(time.Duration(i)*time.Minute), tc.failure, tc.wrote, tc.pruned...)
		var got tree
		if err := json.Unmarshal(s.Told(), &got); err != nil {
			t.Fatalf("%s: %v", tc.reason, err)
		}
		if d := cmp.Diff(tc.want, got); d != "" {
			t.Errorf("%s: %s", tc.reason, d)
		}
	}
}
