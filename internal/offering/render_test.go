package offering_test

import (
	"encoding/json"
	"fmt"
	"reflect"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/droverhq/drover/internal/fault"
	"github.com/droverhq/drover/internal/offering"
	"github.com/droverhq/drover/offerings"
)

var born = time.Date(2026, 11, 15, 4, 0, 0, 0, time.UTC)

func sameJSON(t *testing.T, reason, want string, got json.RawMessage) {
	t.Helper()
	var a, b any
	if err := json.Unmarshal([]byte(want), &a); err != nil {
		t.Fatal(err)
	}
	if err := json.Unmarshal(got, &b); err != nil {
		t.Fatalf("%s: %v in %s", reason, err, got)
	}
	if diff := cmp.Diff(a, b); diff != "" {
		t.Errorf("%s: -want +got\n%s", reason, diff)
	}
}

func dinosaur(t testing.TB) (*offering.Offering, offering.Facts) {
	t.Helper()
	data, err := offerings.FS.ReadFile("dinosaur.yaml")
	if err != nil {
		t.Fatal(err)
	}
	o := parse(t, data)
	parameters, err := o.Validate(nil)
	if err != nil {
		t.Fatal(err)
	}
	return o, offering.Facts{
		ID: "abc", Name: "rex", Owner: "alice", Org: "acme", Phase: "provisioning", Provider: "local", Region: "local",
		Type: "standard", Size: "x1", Version: "1.0.0", Cluster: "c1", Namespace: "dinosaur-abc", Placement: "p1",
		Host: "rex.dinosaurs.localhost", Parameters: parameters, Created: born,
	}
}

func TestDinosaurSpeaksTheOldContract(t *testing.T) {
	o, facts := dinosaur(t)
	got, err := o.Desired(t.Context(), facts, offering.Surroundings{})
	if err != nil {
		t.Fatal(err)
	}
	sameJSON(t, "a ManagedDinosaur, and beside it what the process runtime reads", `{
		"metadata": {"name": "rex", "namespace": "dinosaur-abc", "annotations": {"mas/id": "abc", "mas/placementId": "p1"}},
		"spec": {
			"owners": ["alice"], "endpoint": {"host": "rex.dinosaurs.localhost"}, "versions": {"dinosaur": "1.0.0"},
			"deleted": false, "suspended": false,
			"process": {"command": ["drover", "dinosaur"], "health": "/healthz", "env": {
				"DINOSAUR_NAME": "rex", "DINOSAUR_SPECIES": "Tyrannosaurus", "DINOSAUR_BORN": "2026-11-15T04:00:00Z"}}
		}}`, got)
	got, err = o.Present(t.Context(), facts)
	if err != nil {
		t.Fatal(err)
	}
	sameJSON(t, "what a DinosaurRequest has beyond the common fields; no failed_reason without a reason",
		`{"host": "rex.dinosaurs.localhost", "version": "1.0.0", "instance_type": "standard"}`, got)
	facts.Actual, facts.Reason = map[string]string{"dinosaur": "0.9.0"}, "no room"
	got, err = o.Present(t.Context(), facts)
	if err != nil {
		t.Fatal(err)
	}
	sameJSON(t, "the version that the agent reports, and why it failed",
		`{"host": "rex.dinosaurs.localhost", "version": "0.9.0", "instance_type": "standard", "failed_reason": "no room"}`, got)
	routes, err := o.Routes(t.Context(), facts)
	if diff := cmp.Diff([]offering.RouteHost{{Name: "web", Host: "rex.dinosaurs.localhost"}}, routes); err != nil || diff != "" {
		t.Errorf("%v %s", err, diff)
	}
}

func TestLargerDocuments(t *testing.T) {
	o := parse(t, teapot(t))
	parameters, err := o.Validate(map[string]any{"cups": 2, "note": "hot"})
	if err != nil {
		t.Fatal(err)
	}
	facts := offering.Facts{ID: "i1", Name: "Earl", Type: "standard", Size: "x2", Version: "1.0.0", Parameters: parameters, Expires: born, Host: "h"}
	got, err := o.Desired(t.Context(), facts, offering.Surroundings{})
	if err != nil {
		t.Fatal(err)
	}
	sameJSON(t, "conditionals, lists, maps, objects and text", `{
		"metadata": {"name": "Earl", "labels": {"tea/type": "standard", "tea/size": "x2", "tea/offering": "teapots"}},
		"spec": {"capacity": 2, "litres": 2, "lifespan": "0s", "refills": 40, "cups": ["Earl-cup-0", "Earl-cup-1"], "sweet": true,
			"tray": {"width": 30, "handles": false}, "wide": false, "note": "hot",
			"steps": ["boil", "steep green for ${minutes}"], "deleted": false}}`, got)
	got, err = o.Present(t.Context(), facts)
	if err != nil {
		t.Fatal(err)
	}
	sameJSON(t, "null and empty text are left out at any depth", `{
		"host": "h", "plan": "standard.x2", "leaves": "green", "note": "hot", "expires_at": "2026-11-15T04:00:00Z",
		"version": "1.0.0", "limits": {"litres": 2, "refills": 20}, "empty": {}}`, got)
	routes, err := o.Routes(t.Context(), facts)
	want := []offering.RouteHost{{Name: "spout", Host: "earl-i1.tea.example.org"}, {Name: "lid", Host: "lid.earl.tea.example.org"}}
	if diff := cmp.Diff(want, routes); err != nil || diff != "" {
		t.Errorf("hosts are lower-case: %v -want +got\n%s", err, diff)
	}
	facts.Type, facts.Size = "trial", "x1"
	if routes, err := o.Routes(t.Context(), facts); err != nil || len(routes) != 1 {
		t.Errorf("a route without host is left out, got %v, %v", routes, err)
	}
}

func TestRoutesRefuseWhatIsNoHost(t *testing.T) {
	o, facts := dinosaur(t)
	for name, c := range map[string]struct{ reason, in string }{
		"Space":  {"a space", "r ex"},
		"Slash":  {"a path", "rex/.."},
		"Dot":    {"an empty label", "rex."},
		"Dash":   {"a label that begins with a dash", "-rex"},
		"Long":   {"a label of 64 letters", strings.Repeat("r", 64)},
		"Longer": {"a name of more than 253 letters", strings.Repeat("rex.", 70) + "rex"},
		"Foul":   {"a wildcard", "*"},
		"Accent": {"letters beyond ASCII", "réx"},
	} {
		t.Run(name, func(t *testing.T) {
			facts.Name = c.in
			if _, err := o.Routes(t.Context(), facts); !fault.Is(err, fault.Invalid) || fault.Reason(err) != "host" {
				t.Errorf("%s: got %v", c.reason, err)
			}
		})
	}
}

func TestAPlanThatIsGoneIsSaid(t *testing.T) {
	o, facts := dinosaur(t)
	facts.Size = "x9"
	if _, err := o.Desired(t.Context(), facts, offering.Surroundings{}); !fault.Is(err, fault.Invalid) || fault.Reason(err) != "plan" {
		t.Errorf("got %v", err)
	}
}

func TestExpressionsSeeEveryFact(t *testing.T) {
	for i := range reflect.TypeFor[offering.Facts]().NumField() {
		name := reflect.TypeFor[offering.Facts]().Field(i).Tag.Get("json")
		if name == "parameters" {
			continue // known by its members
		}
		doc := strings.Replace(minimal, "${instance.name}", fmt.Sprintf("${instance.%s}", name), 1)
		if _, err := offering.Parse(name, []byte(doc)); err != nil {
			t.Errorf("%v", err)
		}
	}
}

func TestEndlessExpressionsDoNotLoad(t *testing.T) {
	loop := "${[0,1,2,3,4,5,6,7,8,9]" + strings.Repeat(".map(a, [0,1,2,3,4,5,6,7,8,9]", 12) + strings.Repeat(")", 12) + "}"
	_, err := offering.Parse("t.yaml", []byte(strings.Replace(minimal, "${instance.name}", loop, 1)))
	if !fault.Is(err, fault.Invalid) || !strings.Contains(err.Error(), "too") {
		t.Errorf("got %v", err)
	}
}

func TestManyRenderAtOnce(t *testing.T) {
	o := parse(t, teapot(t))
	var running sync.WaitGroup
	for i := range 8 {
		running.Go(func() {
			name := fmt.Sprintf("pot-%d", i)
			parameters, err := o.Validate(map[string]any{"note": name})
			for range 50 {
				if err != nil {
					t.Error(err)
					return
				}
				var got json.RawMessage
				got, err = o.Desired(t.Context(), offering.Facts{Name: name, Type: "trial", Size: "x1", Parameters: parameters}, offering.Surroundings{})
				if err == nil && strings.Count(string(got), name) != 4 {
					t.Errorf("each gets its own document, got %s", got)
				}
			}
		})
	}
	running.Wait()
}

func BenchmarkRender(b *testing.B) {
	o, facts := dinosaur(b)
	for name, render := range map[string]func() error{
		"Desired": func() error { _, err := o.Desired(b.Context(), facts, offering.Surroundings{}); return err },
		"Present": func() error { _, err := o.Present(b.Context(), facts); return err },
		"Routes":  func() error { _, err := o.Routes(b.Context(), facts); return err },
	} {
		b.Run(name, func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				if err := render(); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}

func BenchmarkParse(b *testing.B) {
	for _, name := range []string{"dinosaur.yaml", "kafka.yaml"} {
		data, err := offerings.FS.ReadFile(name)
		if err != nil {
			b.Fatal(err)
		}
		b.Run(name, func(b *testing.B) {
			for b.Loop() {
				if _, err := offering.Parse(name, data); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}
