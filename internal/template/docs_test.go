package template_test

import (
	"os"
	"reflect"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/droverhq/drover/internal/template"
)

func guide(t *testing.T) string {
	t.Helper()
	page, err := os.ReadFile("../../docs/add/template.md")
	if err != nil {
		t.Fatal(err)
	}
	return string(page)
}

func TestTheGuidesExampleIsATemplate(t *testing.T) {
	page := guide(t)
	_, rest, found := strings.Cut(page, "```yaml\n")
	example, _, closed := strings.Cut(rest, "```")
	if !found || !closed {
		t.Fatal("the guide has an example")
	}
	tm, err := template.Parse(t.Context(), tree(map[string]string{"template.yaml": example}), "notes", real())
	if err != nil {
		t.Fatal(err)
	}
	l := expand(t, tm, map[string]any{"notes": 1})
	if got, want := edges(l), "note[0]; page < note[0]"; got != want {
		t.Errorf("got %s, want %s", got, want)
	}
	in, err := l.Inputs(t.Context(), "page", known(map[string]map[string]any{"note[0]": {"path": "/n0"}}))
	if err != nil || in["content"] != "/n0\n(no footer)\n" {
		t.Errorf("got %v, %v", in, err)
	}
	verdicts, err := tm.Judge(t.Context(), template.PlanFacts{}, []template.ChangeFacts{{Address: "note[0]", Action: "destroy"}, {Address: "page", Action: "destroy"}})
	if err != nil || len(verdicts) != 1 {
		t.Errorf("got %v, %v", verdicts, err)
	}

	// The mistake that the guide shows is the one that is reported.
	_, err = template.Parse(t.Context(), tree(map[string]string{"template.yaml": strings.Replace(example, "n.outputs.path", "n.outputs.pth", 1)}), "notes", real())
	if err == nil || !strings.Contains(page, ": "+err.Error()+"\n") {
		t.Errorf("the guide shows another message than\n%v", err)
	}
}

// The tables have every field of every type, and no other.
func TestTheGuideKnowsEveryField(t *testing.T) {
	page := guide(t)
	row := regexp.MustCompile("(?m)^\\| `([A-Za-z0-9]+)` \\|")
	for _, typ := range []reflect.Type{
		reflect.TypeFor[template.File](), reflect.TypeFor[template.Spec](), reflect.TypeFor[template.Resource](), reflect.TypeFor[template.External](),
		reflect.TypeFor[template.Group](), reflect.TypeFor[template.Output](), reflect.TypeFor[template.Check](), reflect.TypeFor[template.Action](),
		reflect.TypeFor[template.App](), reflect.TypeFor[template.Permissions](), reflect.TypeFor[template.Who](), reflect.TypeFor[template.Policy](),
	} {
		_, section, found := strings.Cut(page, "\n### "+typ.Name()+"\n")
		if !found {
			t.Errorf("the guide has no table of %s", typ.Name())
			continue
		}
		section, _, _ = strings.Cut(section, "\n##")
		var told, want []string
		for _, m := range row.FindAllStringSubmatch(section, -1) {
			told = append(told, m[1])
		}
		for i := range typ.NumField() {
			name, _, _ := strings.Cut(typ.Field(i).Tag.Get("json"), ",")
			want = append(want, name)
		}
		if !slices.Equal(told, want) {
			t.Errorf("%s: the guide has %v, the type %v", typ.Name(), told, want)
		}
	}
}
