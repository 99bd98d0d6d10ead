package kubernetes_test

import (
	"encoding/json"
	"testing"
	"time"

	"github.com/droverhq/drover/internal/manifest"
	"github.com/droverhq/drover/internal/runtime/kubernetes"
)

// A sync run that fails is tried five more times within a minute, with a growing pause
// that nobody shortens, and is over then.
func TestTriesOfASyncRun(t *testing.T) {
	body := func(run string) json.RawMessage {
		return json.RawMessage(`{"manifests":[],"deployment":{"uid":"u","commit":"c1","namespace":"shop","manual":true,"retries":5,"run":"` + run + `"}}`)
	}
	at := time.Date(2026, 1, 2, 12, 0, 0, 0, time.UTC)
	var s kubernetes.Syncs
	began := at
	for i, want := range []time.Duration{time.Second, 2 * time.Second, 4 * time.Second, 8 * time.Second, 16 * time.Second, 0} {
		if got := s.Try(body("r1"), "no right", at); got != want {
			t.Fatalf("try %d: a pause of %s, want %s", i+1, got, want)
		}
		r := s.Ran(body("r1"))
		if over := want == 0; r.ID != "r1" || r.Message != "no right" || r.Revision != "c1" || !r.Started.Equal(began) || (r.Phase == "Failed") != over || r.Finished.IsZero() == over {
			t.Fatalf("try %d: %+v", i+1, r)
		}
		if rest := s.Rests(body("r1"), at.Add(want/2)); rest != want-want/2 {
			t.Errorf("try %d: whoever wakes it waits for %s", i+1, rest)
		}
		at = at.Add(want)
	}
	if r := s.Ran(body("r1")); r.Retries != 5 || at.Sub(began) > time.Minute {
		t.Errorf("after %s: %+v", at.Sub(began), r)
	}
	if s.Rests(body("r2"), at) != 0 || s.Ran(body("r2")) != nil || s.Ran(body("")) != nil {
		t.Error("the one behind it has to do with it")
	}
	s.Try(body("r2"), "no right", at)
	line := manifest.ID{Kind: "ConfigMap", Namespace: "shop", Name: "a"}.String()
	s.Apply(body("r2"), at, "", manifest.Result{Inventory: []string{line}, Created: []string{line}})
	r := s.Ran(body("r2"))
	if r.Phase != "Succeeded" || r.Retries != 1 || r.Finished.IsZero() || len(r.Resources) != 1 || r.Resources[0].Message != "configmap/a created" {
		t.Errorf("it works the second time: %+v", r)
	}
}
