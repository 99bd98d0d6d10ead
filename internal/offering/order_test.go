package offering_test

import (
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"github.com/droverhq/drover/internal/fault"
	"github.com/droverhq/drover/internal/offering"
)

func TestPlan(t *testing.T) {
	o := parse(t, teapot(t))
	for name, c := range map[string]struct{ reason, in, want, fault string }{
		"Default":  {"nothing said is the first size of the first type", "", "standard.x1", ""},
		"Said":     {"a plan is type and size", "trial.x1", "trial.x1", ""},
		"Type":     {"an unknown type", "royal.x1", "", "type"},
		"Size":     {"a size that the type does not have", "trial.x2", "", "plan"},
		"Half":     {"half a plan", "standard", "", "plan"},
		"NoSize":   {"a plan without size", "standard.", "", "plan"},
		"NoType":   {"a plan without type", ".x1", "", "plan"},
		"Trailing": {"too much", "standard.x1.y", "", "plan"},
	} {
		t.Run(name, func(t *testing.T) {
			typ, size, err := o.Plan(c.in)
			if c.fault != "" {
				if !fault.Is(err, fault.Invalid) || fault.Reason(err) != c.fault {
					t.Errorf("%s: got %v", c.reason, err)
				}
				return
			}
			if err != nil || typ.Name+"."+size.Name != c.want {
				t.Errorf("%s: got %s.%s, %v", c.reason, typ.Name, size.Name, err)
			}
		})
	}
}

func TestPlace(t *testing.T) {
	o := parse(t, teapot(t))
	for name, c := range map[string]struct{ reason, provider, region, want, fault string }{
		"Default":       {"the first region that is not disabled", "", "", "kitchen/hob-2", ""},
		"Provider":      {"the first region of a provider", "garden", "", "garden/table", ""},
		"Region":        {"a region of the first provider", "", "hob-3", "kitchen/hob-3", ""},
		"Disabled":      {"a disabled region is as good as none", "", "hob-1", "", "region"},
		"WrongProvider": {"an unknown provider", "cellar", "table", "", "provider"},
		"Foreign":       {"a region of another provider", "garden", "hob-2", "", "region"},
	} {
		t.Run(name, func(t *testing.T) {
			p, r, err := o.Place(c.provider, c.region)
			if c.fault != "" {
				if !fault.Is(err, fault.Invalid) || fault.Reason(err) != c.fault {
					t.Errorf("%s: got %v", c.reason, err)
				}
				return
			}
			if err != nil || p.Name+"/"+r.Name != c.want {
				t.Errorf("%s: got %s/%s, %v", c.reason, p.Name, r.Name, err)
			}
		})
	}
	if _, r, _ := o.Place("kitchen", "hob-3"); r.Sells("standard") || !r.Sells("trial") {
		t.Error("a region that lists types sells only these")
	}
	if _, r, _ := o.Place("", ""); !r.Sells("standard") {
		t.Error("a region that lists none sells all")
	}
}

func TestVersion(t *testing.T) {
	o := parse(t, teapot(t))
	if v, err := o.Version("teapot", ""); v != "1.1.0" || err != nil {
		t.Errorf("the last one is the default, got %q, %v", v, err)
	}
	if v, err := o.Version("teapot", "1.0.0"); v != "1.0.0" || err != nil {
		t.Errorf("an older one can be ordered, got %q, %v", v, err)
	}
	if _, err := o.Version("teapot", "2.0.0"); !fault.Is(err, fault.Invalid) || fault.Reason(err) != "version" {
		t.Errorf("an unknown one cannot, got %v", err)
	}
}

func TestHooks(t *testing.T) {
	o := parse(t, teapot(t))
	want := []offering.Hook{{Phase: "preparing", URL: "https://tea.example.org/prepare", Timeout: offering.Duration(5 * time.Second)}}
	if diff := cmp.Diff(want, o.Hooks("preparing")); diff != "" {
		t.Errorf("the default timeout is filled in: -want +got\n%s", diff)
	}
	if len(o.Hooks("ready")) != 0 || o.Hooks("deleting")[0].Timeout != offering.Duration(2*time.Second) {
		t.Error("a hook stands at its phase only, with its own timeout")
	}
}

func TestValidate(t *testing.T) {
	o := parse(t, teapot(t))
	got, err := o.Validate(map[string]any{"cups": float64(3), "tray": map[string]any{"handles": true}})
	want := map[string]any{"leaves": "green", "cups": int64(3), "sugar": 0.5, "tray": map[string]any{"width": int64(30), "handles": true}}
	if diff := cmp.Diff(want, got); err != nil || diff != "" {
		t.Errorf("defaults are filled in: %v -want +got\n%s", err, diff)
	}
	_, err = o.Validate(map[string]any{"cups": "SECRET", "nptes": "SECRET", "tray": map[string]any{"width": "SECRET"}})
	if !fault.Is(err, fault.Invalid) || fault.Reason(err) != "parameters" || strings.Contains(err.Error(), "SECRET") {
		t.Fatalf("got %v", err)
	}
	if got, want := err.Error(), "cups: must be integer, not string; nptes: is not a known parameter; tray.width: must be integer, not string"; got != want {
		t.Errorf("got %s", got)
	}
	plain := parse(t, []byte(strings.Replace(minimal, "name: minimal", "name: plain", 1)))
	if _, err := plain.Validate(map[string]any{"a": 1}); fault.Reason(err) != "parameters" {
		t.Errorf("an offering without parameters takes none, got %v", err)
	}
	if got, err := plain.Validate(nil); err != nil || got == nil {
		t.Errorf("and is content with none, got %v %v", got, err)
	}
}

// minimal is the shortest file that is an offering.
const minimal = `apiVersion: drover.dev/v1
kind: Offering
metadata: {name: minimal}
spec:
  names: {kind: Minimal, singular: minimal, plural: minimals}
  api: {group: minimals_mgmt, version: v1, errorPrefix: MINIMALS-MGMT}
  types: [{name: standard, sizes: [{name: x1, capacity: 1, quota: 1}]}]
  providers: [{name: local, regions: [{name: local}]}]
  components: [{name: x, versions: ["1"]}]
  desired: {name: "${instance.name}"}
`

func TestWhatIsOrderedCanBeMade(t *testing.T) {
	o := parse(t, teapot(t))
	words := []string{"", "standard.x1", "standard.x2", "trial.x1", "trial.x2", "royal.x1", ".", "a.b.c"}
	places := []string{"", "kitchen", "garden", "hob-1", "hob-2", "hob-3", "table", "moon"}
	rapid.Check(t, func(t *rapid.T) {
		typ, size, err := o.Plan(rapid.SampledFrom(words).Draw(t, "plan"))
		if err != nil {
			return
		}
		provider, region, err := o.Place(rapid.SampledFrom(places).Draw(t, "provider"), rapid.SampledFrom(places).Draw(t, "region"))
		if err != nil {
			return
		}
		if region.Disabled {
			t.Fatal("nobody is placed in a disabled region")
		}
		in := map[string]any{}
		if rapid.Bool().Draw(t, "cups?") {
			in["cups"] = float64(rapid.IntRange(-1, 14).Draw(t, "cups"))
		}
		if rapid.Bool().Draw(t, "sugar?") {
			in["sugar"] = rapid.Float64Range(0, 3).Draw(t, "sugar")
		}
		if rapid.Bool().Draw(t, "note?") {
			in["note"] = rapid.String().Draw(t, "note")
		}
		if rapid.Bool().Draw(t, "extras?") {
			in["extras"] = map[string]any{"deep": []any{1.5, "x", map[string]any{"n": 2.0}}}
		}
		parameters, err := o.Validate(in)
		if err != nil {
			return
		}
		facts := offering.Facts{
			ID: "id1", Name: "earl-grey", Type: typ.Name, Size: size.Name, Provider: provider.Name, Region: region.Name,
			Version: "1.0.0", Parameters: parameters, Host: "h.example.org",
		}
		if _, err := o.Routes(t.Context(), facts); err != nil {
			t.Fatal(err)
		}
		first, err := o.Desired(t.Context(), facts, offering.Surroundings{})
		if err != nil {
			t.Fatal(err)
		}
		second, err := o.Desired(t.Context(), facts, offering.Surroundings{})
		if err != nil || string(first) != string(second) {
			t.Fatalf("the same facts give the same bytes: %v", err)
		}
		if _, err := o.Present(t.Context(), facts); err != nil {
			t.Fatal(err)
		}
	})
}
