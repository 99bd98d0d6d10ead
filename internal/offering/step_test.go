package offering_test

import (
	"encoding/json"
	"os"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/droverhq/drover/internal/offering"
)

// withSteps is a shipped offering with steps behind it.
func withSteps(t *testing.T, steps string) (*offering.Offering, error) {
	t.Helper()
	file, err := os.ReadFile("../../offerings/dinosaur.yaml")
	if err != nil {
		t.Fatal(err)
	}
	return offering.Parse("dinosaur.yaml", append(file, []byte("\n  steps:\n"+steps)...))
}

func TestStepsAreRenderedForACluster(t *testing.T) {
	o, err := withSteps(t, `
    - name: operator
      needs: [space]
      manifests:
        - {apiVersion: apps/v1, kind: Deployment, metadata: {name: operator, namespace: "${cluster.id}"}}
      ready: objects.all(o, o.metadata.name != "")
    - name: space
      manifests:
        - apiVersion: v1
          kind: Secret
          metadata: {name: "${cluster.id}", annotations: null}
          stringData: {password: "${secret('agent')}", issuer: "${sso.issuer}", typed: "drover-secret:agent"}
`)
	if err != nil {
		t.Fatal(err)
	}
	got, err := o.Steps().Render(t.Context(), offering.Surroundings{Cluster: offering.ClusterFacts{ID: "edge"}, SSO: offering.SSOFacts{Issuer: "https://sso.example.org"}})
	if err != nil {
		t.Fatal(err)
	}
	want := []offering.StepBody{
		{Name: "operator", Needs: []string{"space"}, Body: json.RawMessage(`{"manifests":[{"apiVersion":"apps/v1","kind":"Deployment","metadata":{"name":"operator","namespace":"edge"}}],"ready":"objects.all(o, o.metadata.name != \"\")"}`)},
		{Name: "space", Body: json.RawMessage(`{"manifests":[{"apiVersion":"v1","kind":"Secret","metadata":{"name":"edge"},"stringData":{"issuer":"https://sso.example.org","password":"drover-secret:agent","typed":"drover-secret:=drover-secret:agent"}}]}`)},
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
	filled, err := offering.FillSecrets(got[1].Body, func(name string) (string, error) { return "s3cr3t-" + name, nil })
	if err != nil || !strings.Contains(string(filled), `"password":"s3cr3t-agent"`) || !strings.Contains(string(filled), `"typed":"drover-secret:agent"`) {
		t.Errorf("got %s, %v", filled, err)
	}
}

func TestMistakesOfStepsHaveTheirPlaces(t *testing.T) {
	const fine = `{apiVersion: v1, kind: Namespace, metadata: {name: a}}`
	for name, c := range map[string]struct{ reason, steps, path, message string }{
		"cycle":     {"a cycle is printed", "    - {name: a, needs: [b], manifests: [" + fine + "]}\n    - {name: b, needs: [a], manifests: [" + fine + "]}", "spec.steps[1].needs", "a → b → a"},
		"unknown":   {"a need must be there", "    - {name: a, needs: [x], manifests: [" + fine + "]}", "spec.steps[0].needs", `"x", which is not there`},
		"nothing":   {"a step does something", "    - {name: a}", "spec.steps[0].manifests", "at least one"},
		"no object": {"it applies objects", "    - {name: a, manifests: [{kind: Namespace, metadata: {name: a}}]}", "spec.steps[0].manifests[0].apiVersion", "is required"},
		"no name":   {"objects have names", "    - {name: a, manifests: [{apiVersion: v1, kind: Namespace}]}", "spec.steps[0].manifests[0].metadata.name", "is required"},
		"spelling":  {"expressions are checked", `    - {name: a, manifests: [{apiVersion: v1, kind: Namespace, metadata: {name: "${cluster.idd}"}}]}`, "spec.steps[0].manifests[0].metadata.name", "idd"},
		"instance":  {"there is no instance", `    - {name: a, manifests: [{apiVersion: v1, kind: Namespace, metadata: {name: "${instance.id}"}}]}`, "spec.steps[0].manifests[0].metadata.name", "instance"},
		"secret":    {"secrets are known by name", `    - {name: a, manifests: [{apiVersion: v1, kind: Namespace, metadata: {name: "${secret('other')}"}}]}`, "spec.steps[0].manifests[0].metadata.name", "no such secret"},
		"ready":     {"ready is CEL", "    - {name: a, ready: 'objects.al(o, true)', manifests: [" + fine + "]}", "spec.steps[0].ready", ""},
		"marked":    {"without marks around it", "    - {name: a, ready: '${true}', manifests: [" + fine + "]}", "spec.steps[0].ready", ""},
		"two":       {"it is one expression", "    - {name: a, ready: 'true} ${true', manifests: [" + fine + "]}", "spec.steps[0].ready", "one expression"},
	} {
		t.Run(name, func(t *testing.T) {
			_, err := withSteps(t, c.steps)
			if err == nil || !strings.Contains(err.Error(), c.path+":") || !strings.Contains(err.Error(), c.message) {
				t.Errorf("%s: got %v", c.reason, err)
			}
		})
	}
}
