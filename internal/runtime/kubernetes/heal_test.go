package kubernetes_test

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/droverhq/drover/internal/manifest"
	"github.com/droverhq/drover/internal/runtime"
	"github.com/droverhq/drover/internal/runtime/keep"
	"github.com/droverhq/drover/internal/runtime/kubernetes"
)

func TestWhatCountsAsARepair(t *testing.T) {
	lines := func(names ...string) (out []string) {
		for _, n := range names {
			out = append(out, manifest.ID{Kind: "ConfigMap", Namespace: "shop", Name: n}.String())
		}
		return out
	}
	body, other := json.RawMessage(`{"manifests":[]}`), json.RawMessage(`{"manifests":[{}]}`)
	ready := keep.Record{Kind: runtime.KindDeployment, Generation: 2, Body: body, Seen: runtime.Observed{Generation: 2, State: runtime.Ready}}
	installing := ready
	installing.Seen.State = runtime.Installing
	instance := ready
	instance.Kind = "instance"
	for _, tc := range []struct {
		reason string
		record keep.Record
		made   json.RawMessage
		steps  []manifest.Result
		want   string
	}{
		{"what is being made is no repair", installing, nil, []manifest.Result{{Created: lines("a")}}, ""},
		{"of what was all there once, whatever is seen of it by now", installing, body, []manifest.Result{{Created: lines("a")}}, "the ConfigMap shop/a was deleted"},
		{"a new body is no repair of the one before", ready, other, []manifest.Result{{Changed: lines("a")}}, ""},
		{"a record of an agent that did not note what it made", ready, nil, []manifest.Result{{Changed: lines("a")}}, "the ConfigMap shop/a was changed"},
		{"instances do not tell", instance, body, []manifest.Result{{Changed: lines("a")}}, ""},
		{"nothing to do", ready, body, []manifest.Result{{}}, ""},
		{"a second attempt finds the rest", ready, body, []manifest.Result{{Created: lines("b", "a")}, {Created: lines("b")}, {Changed: lines("c")}},
			"the ConfigMap shop/a was deleted, the ConfigMap shop/b was deleted, the ConfigMap shop/c was changed"},
		{"many", ready, body, []manifest.Result{{Created: lines("a", "b", "c", "d", "e", "f", "g")}, {Created: lines("h")}},
			"the ConfigMap shop/a was deleted, the ConfigMap shop/b was deleted, the ConfigMap shop/c was deleted, the ConfigMap shop/d was deleted, the ConfigMap shop/e was deleted, and others"},
	} {
		t.Run(tc.reason, func(t *testing.T) {
			var r kubernetes.Repair
			if tc.made != nil {
				r.Made(tc.made)
			}
			for _, will := range tc.steps {
				r.Begin(tc.record, will, time.Unix(100, 5))
			}
			if got := r.Healing(); got != tc.want {
				t.Errorf("got %q", got)
			}
		})
	}
}

// Whatever is found in however many attempts: what was noted stays noted, each once,
// and what is told stays short.
func TestRepairProperty(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		rec := keep.Record{Kind: runtime.KindDeployment, Body: json.RawMessage(`{}`)}
		var r kubernetes.Repair
		r.Made(rec.Body)
		for range rapid.IntRange(1, 6).Draw(t, "attempts") {
			var will manifest.Result
			for n := range rapid.IntRange(0, 4).Draw(t, "objects") {
				line := manifest.ID{Kind: "Secret", Namespace: "shop", Name: fmt.Sprint(rapid.IntRange(n, n+2).Draw(t, "name"))}.String()
				if rapid.Bool().Draw(t, "gone") {
					will.Created = append(will.Created, line)
				} else {
					will.Changed = append(will.Changed, line)
				}
			}
			before := r.Healing()
			added := r.Begin(rec, will, time.Unix(100, 0))
			all := strings.Split(r.Healing(), ", ")
			if !strings.HasPrefix(r.Healing(), before) || added != (before != r.Healing()) {
				t.Fatalf("%q became %q, added %v", before, r.Healing(), added)
			}
			if some := len(will.Created)+len(will.Changed) > 0; some && r.Healing() == "" {
				t.Fatalf("%+v is not noted", will)
			}
			if sorted := slices.Sorted(slices.Values(all)); len(slices.Compact(sorted)) != len(all) || len(all) > 6 {
				t.Fatalf("told as %q", all)
			}
		}
	})
}
