package offering_test

import (
	"os"
	"reflect"
	"regexp"
	"strings"
	"testing"

	"github.com/droverhq/drover/internal/offering"
)

func TestTheGuidesExampleIsAnOffering(t *testing.T) {
	page, err := os.ReadFile("../../docs/add/offering.md")
	if err != nil {
		t.Fatal(err)
	}
	_, rest, found := strings.Cut(string(page), "```yaml\n")
	example, _, closed := strings.Cut(rest, "```")
	if !found || !closed {
		t.Fatal("the guide has an example")
	}
	o, err := offering.Parse("notice.yaml", []byte(example))
	if err != nil {
		t.Fatal(err)
	}
	parameters, err := o.Validate(map[string]any{"copies": 2, "text": "Hi"})
	if err != nil {
		t.Fatal(err)
	}
	_, size, err := o.Plan("trial.x1")
	if err != nil {
		t.Fatal(err)
	}
	parameters = size.Fill(parameters)
	got, err := o.Desired(t.Context(), offering.Facts{Name: "board", Type: "trial", Size: "x1", Parameters: parameters}, offering.Surroundings{})
	if err != nil || !strings.Contains(string(got), `"TEXT":"Hi Hi"`) || !strings.Contains(string(got), `"CLIENT_SECRET":"`+offering.Secret("keeper")+`"`) {
		t.Errorf("got %s, %v", got, err)
	}
	facts := offering.Facts{Name: "board", Org: "acme", Type: "trial", Size: "x1", Billing: "plain", Parameters: parameters}
	view, err := o.PresentAdmin(t.Context(), facts, offering.Surroundings{})
	if err != nil || string(view) != `{"disk":"100Mi","organisation_id":"acme"}` {
		t.Errorf("got %s, %v", view, err)
	}
	if err := o.Allowed(t.Context(), o.Spec.Admin.Changes["disk"], "100Mi", "1Mi"); err == nil {
		t.Error("a disk only grows")
	}

	// The mistake that the guide shows is the one that is reported.
	_, err = offering.Parse("notice.yaml", []byte(strings.Replace(example, "name: ${instance.name}", "name: ${instance.nmae}", 1)))
	if err == nil || !strings.Contains(string(page), ": "+err.Error()+"\n") {
		t.Errorf("the guide shows another message than\n%v", err)
	}
}

// A field that nobody can look up does not exist.
func TestTheGuideKnowsEveryField(t *testing.T) {
	page, err := os.ReadFile("../../docs/add/offering.md")
	if err != nil {
		t.Fatal(err)
	}
	seen := map[reflect.Type]bool{}
	var walk func(typ reflect.Type)
	walk = func(typ reflect.Type) {
		switch typ.Kind() {
		case reflect.Pointer, reflect.Slice, reflect.Map:
			walk(typ.Elem())
		case reflect.Struct:
			if seen[typ] {
				return
			}
			seen[typ] = true
			for i := range typ.NumField() {
				name, _, _ := strings.Cut(typ.Field(i).Tag.Get("json"), ",")
				if !regexp.MustCompile(`\b` + name + `\b`).Match(page) {
					t.Errorf("the guide does not say what %s.%s is", typ.Name(), name)
				}
				walk(typ.Field(i).Type)
			}
		}
	}
	walk(reflect.TypeFor[offering.Document]())
	walk(reflect.TypeFor[offering.Facts]())
	walk(reflect.TypeFor[offering.Surroundings]())
}
