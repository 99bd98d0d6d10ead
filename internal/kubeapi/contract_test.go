package kubeapi_test

import (
	"os"
	"strings"
	"testing"

	"sigs.k8s.io/yaml"

	"github.com/droverhq/drover/internal/kubeapi"
)

// property is a part of a definition's schema.
type property struct {
	Type        string
	Description string
	Default     any
	Required    []string
	Properties  map[string]property
	Items       *property
}

type definition struct {
	Kind     string
	Metadata struct{ Name string }
	Spec     struct {
		Scope    string
		Versions []struct {
			Name                     string
			Subresources             map[string]any
			AdditionalPrinterColumns []struct {
				Name, JSONPath string
				Priority       int
			}
			Schema struct{ OpenAPIV3Schema property }
		}
	}
}

func definitions(t *testing.T) map[string]definition {
	t.Helper()
	out := map[string]definition{}
	for doc := range strings.SplitSeq(string(kubeapi.Manifests()), "\n---\n") {
		var d definition
		if err := yaml.Unmarshal([]byte(doc), &d); err != nil {
			t.Fatal(err)
		}
		if name, ok := strings.CutSuffix(d.Metadata.Name, ".managed-gitops.redhat.com"); ok && d.Kind == "CustomResourceDefinition" {
			out[name] = d
		}
	}
	return out
}

// flatten lists the fields of a schema, each with its type and whether it must be there.
func flatten(p property, path string, out map[string]string) {
	for name, field := range p.Properties {
		at := strings.TrimPrefix(path+"."+name, ".")
		out[at] = field.Type
		for _, r := range p.Required {
			if r == name {
				out[at] += " required"
			}
		}
		flatten(field, at, out)
	}
	if p.Items != nil {
		out[path+"[]"] = p.Items.Type
		flatten(*p.Items, path+"[]", out)
	}
}

// Whoever has these custom resources finds every field that they know, of the same
// type, and none that must be given besides. testdata/contract.txt lists them.
func TestFieldsAreThoseOfTheContract(t *testing.T) {
	text, err := os.ReadFile("testdata/contract.txt")
	if err != nil {
		t.Fatal(err)
	}
	all := definitions(t)
	var have map[string]string
	besides := func() {
		for path, is := range have {
			if strings.HasPrefix(path, "spec.") && strings.HasSuffix(is, " required") {
				t.Errorf("%s must be given, and was not known", path)
			}
		}
	}
	for line := range strings.Lines(string(text)) {
		line = strings.TrimSpace(line)
		if name, ok := strings.CutPrefix(line, "# "); ok {
			besides()
			d, ok := all[name]
			if !ok || d.Spec.Scope != "Namespaced" || len(d.Spec.Versions) != 1 || d.Spec.Versions[0].Name != "v1alpha1" || d.Spec.Versions[0].Subresources["status"] == nil {
				t.Fatalf("%s is not there as it was: %+v", name, d.Spec)
			}
			have = map[string]string{}
			flatten(d.Spec.Versions[0].Schema.OpenAPIV3Schema, "", have)
			continue
		}
		path, want, _ := strings.Cut(line, " ")
		got := have[path]
		if path == "spec" { // it says nothing without one
			got = strings.TrimSuffix(got, " required")
		}
		if got != want {
			t.Errorf("%s is %q, and was %q", path, got, want)
		}
		delete(have, path)
	}
	besides()
}

func TestColumnsOfTheContract(t *testing.T) {
	d := definitions(t)["gitopsdeployments"].Spec.Versions[0]
	want := []string{"Sync Status .status.sync.status", "Health Status .status.health.status"}
	for i, c := range d.AdditionalPrinterColumns {
		if i < len(want) {
			if got := c.Name + " " + c.JSONPath; got != want[i] || c.Priority != 0 {
				t.Errorf("column %d is %s", i, got)
			}
		} else if c.Priority == 0 {
			t.Errorf("kubectl get shows %s besides", c.Name)
		}
	}
}

// What a user may write has no default, and says what it is for.
func TestFieldsHaveNoDefaultsAndAWord(t *testing.T) {
	var look func(name string, p property)
	look = func(name string, p property) {
		if p.Default != nil {
			t.Errorf("%s is %v by itself", name, p.Default)
		}
		if p.Description == "" && !strings.HasSuffix(name, "[]") {
			t.Errorf("%s has no description", name)
		}
		for field, q := range p.Properties {
			look(name+"."+field, q)
		}
		if p.Items != nil {
			look(name+"[]", *p.Items)
		}
	}
	for name, d := range definitions(t) {
		schema := d.Spec.Versions[0].Schema.OpenAPIV3Schema
		look(name+".spec", schema.Properties["spec"])
		for field, p := range schema.Properties["status"].Properties {
			if field != "operationState" { // Argo CD's own words
				look(name+".status."+field, p)
			}
		}
	}
}
