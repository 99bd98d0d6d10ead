package manifest_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"github.com/droverhq/drover/internal/manifest"
)

func TestDifference(t *testing.T) {
	thing := func(kind string, data map[string]any, more ...string) map[string]any {
		meta := map[string]any{"name": "a"}
		if len(more) > 0 {
			meta["annotations"] = map[string]any{more[0]: more[1]}
		}
		return map[string]any{"apiVersion": "v1", "kind": kind, "metadata": meta, "data": data}
	}
	noise := thing("ConfigMap", map[string]any{"x": "1"}, "kubectl.kubernetes.io/last-applied-configuration", "{}")
	noise["status"] = map[string]any{"phase": "Active"}
	noise["metadata"].(map[string]any)["resourceVersion"] = "7"
	noise["metadata"].(map[string]any)["labels"] = map[string]any{manifest.OwnerLabel: "o"}
	for _, tc := range []struct {
		reason        string
		there, wanted map[string]any
		want          string
	}{
		{"the same", thing("ConfigMap", map[string]any{"x": "1"}), thing("ConfigMap", map[string]any{"x": "1"}), ""},
		{"what the cluster and we write does not count", noise, thing("ConfigMap", map[string]any{"x": "1"}), ""},
		{"a whole number is one however it was read", thing("ConfigMap", map[string]any{"x": int64(1)}), thing("ConfigMap", map[string]any{"x": 1.0}), ""},
		{"a value is another", thing("ConfigMap", map[string]any{"x": "1"}), thing("ConfigMap", map[string]any{"x": "2"}),
			"@@ -1,6 +1,6 @@\n apiVersion: v1\n data:\n-  x: \"1\"\n+  x: \"2\"\n kind: ConfigMap\n metadata:\n   name: a"},
		{"it is not there", nil, thing("ConfigMap", map[string]any{"x": "2"}),
			"@@ -0,0 +1,6 @@\n+apiVersion: v1\n+data:\n+  x: \"2\"\n+kind: ConfigMap\n+metadata:\n+  name: a"},
		{"a Secret's value only differs", thing("Secret", map[string]any{"p": "b2xk", "u": "c2FtZQ=="}), thing("Secret", map[string]any{"p": "bmV3", "u": "c2FtZQ==", "z": "bmV3"}),
			"@@ -1,7 +1,8 @@\n apiVersion: v1\n data:\n-  p: (hidden)\n+  p: (hidden, and another one)\n   u: (hidden)\n+  z: (hidden)\n kind: Secret\n metadata:\n   name: a"},
		{"a Secret that is new", nil, thing("Secret", map[string]any{"x": "b2xk"}),
			"@@ -0,0 +1,6 @@\n+apiVersion: v1\n+data:\n+  x: (hidden)\n+kind: Secret\n+metadata:\n+  name: a"},
	} {
		t.Run(tc.reason, func(t *testing.T) {
			if d := cmp.Diff(tc.want, manifest.Difference(tc.there, tc.wanted, 4096)); d != "" {
				t.Error(d)
			}
		})
	}
}

// Whatever two objects are: applying the lines to the one gives the other, nothing
// is said where nothing differs, and no bound is passed.
func TestDifferenceIsTrue(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		value := rapid.SampledFrom([]string{"a", "b", "c"})
		data := rapid.MapOfN(rapid.StringMatching("k[0-9]{1,2}"), value, 0, 40)
		make := func(m map[string]string) map[string]any {
			out := map[string]any{}
			for k, v := range m {
				out[k] = v
			}
			return map[string]any{"apiVersion": "v1", "kind": "ConfigMap", "data": out}
		}
		x, y := make(data.Draw(t, "x")), make(data.Draw(t, "y"))
		text := manifest.Difference(x, y, 1<<20)
		if same := cmp.Equal(x, y); same != (text == "") {
			t.Fatalf("the same: %v, and it says %q", same, text)
		}
		removed, added := 0, 0
		for line := range strings.Lines(text) {
			key, v, _ := strings.Cut(strings.TrimSpace(strings.TrimLeft(line, "+- ")), ": ")
			switch {
			case strings.HasPrefix(line, "-  k"):
				removed++
				if fmt.Sprint(x["data"].(map[string]any)[key]) != v {
					t.Fatalf("%q is not there", line)
				}
			case strings.HasPrefix(line, "+  k"):
				added++
				if fmt.Sprint(y["data"].(map[string]any)[key]) != v {
					t.Fatalf("%q is not wanted", line)
				}
			}
		}
		if was, will := len(x["data"].(map[string]any)), len(y["data"].(map[string]any)); was-removed+added != will {
			t.Fatalf("%d lines less %d and %d more are not %d", was, removed, added, will)
		}
		limit := rapid.IntRange(40, 400).Draw(t, "limit")
		if got := manifest.Difference(x, y, limit); len(got) > limit {
			t.Fatalf("%d bytes of %d", len(got), limit)
		}
	})
}

func TestDifferenceHidesSecrets(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		field := rapid.SampledFrom([]string{"data", "stringData"})
		object := func(name string) map[string]any {
			o := map[string]any{"apiVersion": "v1", "kind": "Secret", "metadata": map[string]any{"name": "s",
				"annotations": map[string]any{"kubectl.kubernetes.io/last-applied-configuration": `{"stringData":{"p":"TOPSECRET"}}`}}}
			switch rapid.IntRange(0, 2).Draw(t, name) {
			case 0:
				o[field.Draw(t, name+"field")] = map[string]any{"p": "TOPSECRET" + rapid.StringMatching("[a-z]{0,3}").Draw(t, name+"value")}
			case 1:
				o[field.Draw(t, name+"field")] = "TOPSECRET"
			default:
				return nil
			}
			return o
		}
		if text := manifest.Difference(object("there"), object("wanted"), 1<<20); strings.Contains(text, "TOPSECRET") {
			t.Fatal(text)
		}
	})
}
