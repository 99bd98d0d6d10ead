package kubernetes_test

import (
	"encoding/json"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"

	"github.com/droverhq/drover/internal/fault"
	"github.com/droverhq/drover/internal/manifest"
	"github.com/droverhq/drover/internal/runtime"
	"github.com/droverhq/drover/internal/runtime/keep"
	"github.com/droverhq/drover/internal/runtime/kubernetes"
)

func TestOptions(t *testing.T) {
	got, err := kubernetes.Options([]string{"unit=cpu=500m", "memory=1Gi", "capacity=40", "routes=gateway", "gateway=a/b", "reserve=cpu=1", "resync=5m", "lease=none", "home=h"}, kubernetes.Config{Lease: "x"})
	if err != nil {
		t.Fatal(err)
	}
	cpu, memory := got.Unit["cpu"], got.Unit["memory"]
	if cpu.String() != "500m" || memory.String() != "1Gi" || got.Capacity != 40 || got.Routes != "gateway" || got.Gateway != "a/b" || got.Resync != 5*time.Minute || got.Lease != "" || got.Home != "h" || len(got.Reserve) != 1 {
		t.Errorf("got %+v", got)
	}
	for _, tc := range []struct{ reason, option string }{
		{"nobody knows it", "colour=blue"},
		{"no value", "capacity="},
		{"no pair", "capacity"},
		{"no number", "capacity=many"},
		{"less than nothing", "capacity=-1"},
		{"no quantity", "unit=cpu=lots"},
		{"nothing at all", "unit=cpu=0"},
		{"no such kind", "routes=pigeon"},
		{"no namespace", "gateway=b"},
		{"no time", "resync=soon"},
		{"nobody works", "workers=0"},
		{"no file", "kubeconfig=/there/is/no/such/file"},
	} {
		t.Run(tc.reason, func(t *testing.T) {
			if _, err := kubernetes.Options([]string{tc.option}, kubernetes.Config{}); !fault.Is(err, fault.Invalid) {
				t.Errorf("got %v", err)
			}
		})
	}
}

func FuzzRead(f *testing.F) {
	f.Add([]byte(`{"manifests":[{"apiVersion":"v1","kind":"ConfigMap"},null],"ready":"true","routes":[{"host":"A.b.","service":"s","port":1}]}`))
	f.Add([]byte(`{"apiVersion":"a/v1","kind":"K","routes":7}`))
	f.Add([]byte(`{"apiVersion":"a/v1","kind":"K","spec":{"versions":{"a":"b"}}}`))
	f.Add([]byte(`{} {}`))
	f.Fuzz(func(t *testing.T, b []byte) {
		if n, err := kubernetes.Read(b); err != nil && !fault.Is(err, fault.Invalid) || err == nil && n < 0 {
			t.Errorf("got %d, %v", n, err)
		}
	})
}

func TestAssess(t *testing.T) {
	bare := json.RawMessage(`{"apiVersion":"example.com/v1","kind":"Herd","metadata":{"name":"h"}}`)
	status := func(s string) manifest.Health {
		o := map[string]any{"apiVersion": "example.com/v1", "kind": "Herd"}
		var st map[string]any
		if err := json.Unmarshal([]byte(s), &st); err != nil {
			t.Fatal(err)
		}
		o["status"] = st
		return manifest.Health{Ready: true, Objects: []manifest.Object{{State: "Current", Content: o}}}
	}
	for _, tc := range []struct {
		reason string
		body   json.RawMessage
		health manifest.Health
		want   runtime.State
	}{
		{"manifests that are fine", json.RawMessage(`{"manifests":[]}`), manifest.Health{Ready: true}, runtime.Ready},
		{"suspended ones too", json.RawMessage(`{"manifests":[],"suspended":true}`), manifest.Health{Ready: true}, runtime.Suspended},
		{"on their way", json.RawMessage(`{"manifests":[]}`), manifest.Health{Message: "soon"}, runtime.Installing},
		{"failed", json.RawMessage(`{"manifests":[]}`), manifest.Health{Failed: true}, runtime.Error},
		{"an operator that has not looked", bare, status(`{}`), runtime.Installing},
		{"that is at it", bare, status(`{"conditions":[{"type":"Ready","status":"False","reason":"Installing"}]}`), runtime.Installing},
		{"that does not know", bare, status(`{"conditions":[{"type":"Ready","status":"Unknown"}]}`), runtime.Installing},
		{"that failed", bare, status(`{"conditions":[{"type":"Ready","status":"False","reason":"Error"}]}`), runtime.Error},
		{"that has no room", bare, status(`{"conditions":[{"type":"Ready","status":"False","reason":"RejectedClusterFull"}]}`), runtime.Rejected},
		{"that rests", bare, status(`{"conditions":[{"type":"Ready","status":"False","reason":"Suspended"}]}`), runtime.Suspended},
		{"that is done", bare, status(`{"conditions":[{"type":"Ready","status":"True"}]}`), runtime.Ready},
	} {
		t.Run(tc.reason, func(t *testing.T) {
			got, err := kubernetes.Assess(keep.Record{ID: "a", Generation: 3}, tc.body, tc.health)
			if err != nil || got.State != tc.want || got.Generation != 3 || got.State == runtime.Ready && got.Message != "" {
				t.Errorf("got %+v, %v", got, err)
			}
		})
	}
}

func TestUnits(t *testing.T) {
	list := func(cpu, memory string) corev1.ResourceList {
		return corev1.ResourceList{"cpu": resource.MustParse(cpu), "memory": resource.MustParse(memory)}
	}
	for _, tc := range []struct {
		reason              string
		have, reserve, unit corev1.ResourceList
		want                int64
	}{
		{"the scarcest decides", list("8", "4Gi"), nil, list("500m", "1Gi"), 4},
		{"less the reserve", list("8", "64Gi"), list("1", "1Gi"), list("500m", "1Gi"), 14},
		{"more reserved than there is", list("1", "1Gi"), list("2", "1Gi"), list("500m", "1Gi"), 0},
		{"no such resource", list("8", "4Gi"), nil, corev1.ResourceList{"gpu": resource.MustParse("1")}, 0},
		{"thirds", list("300m", "4Gi"), nil, list("100m", "1Mi"), 3},
	} {
		t.Run(tc.reason, func(t *testing.T) {
			if got := kubernetes.Units(tc.have, tc.reserve, tc.unit); got != tc.want {
				t.Errorf("got %d, want %d", got, tc.want)
			}
		})
	}
}

func TestRouteSpecs(t *testing.T) {
	for _, tc := range []struct {
		reason, kind, tls string
		has               []string
		refused           bool
	}{
		{"OpenShift", "route", "", []string{`"host":"a.example.com"`, `"termination":"edge"`, `"name":"web"`}, false},
		{"OpenShift passes TLS through", "route", "passthrough", []string{`"termination":"passthrough"`}, false},
		{"a gateway", "gateway", "", []string{`"hostnames":["a.example.com"]`, `"namespace":"drover-system"`, `"port":8080`}, false},
		{"an ingress", "ingress", "", []string{`"host":"a.example.com"`, `"number":8080`, `"tls"`}, false},
		{"without TLS", "ingress", "none", []string{`"host":"a.example.com"`}, false},
		{"what an ingress cannot", "ingress", "passthrough", nil, true},
		{"what nobody can", "ingress", "magic", nil, true},
	} {
		t.Run(tc.reason, func(t *testing.T) {
			got, err := kubernetes.Spec(tc.kind, kubernetes.Config{}, "A.example.com.", "web", 8080, tc.tls)
			if tc.refused != fault.Is(err, fault.Invalid) {
				t.Fatalf("got %v", err)
			}
			b, _ := json.Marshal(got)
			for _, want := range tc.has {
				if !strings.Contains(string(b), want) {
					t.Errorf("%s has no %s", b, want)
				}
			}
		})
	}
}
