package environment_test

import (
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/droverhq/drover/internal/environment"
	"github.com/droverhq/drover/internal/executor"
	"github.com/droverhq/drover/internal/fault"
	"github.com/droverhq/drover/internal/source"
	"github.com/droverhq/drover/internal/template"
)

const written = `apiVersion: drover.dev/v1
kind: Template
metadata: {name: shop}
spec:
  version: VERSION
  parameters:
    type: object
    additionalProperties: false
    properties:
      size: {type: string, enum: [small, large], default: small}
      webs: {type: integer, minimum: 1, maximum: 5, default: 2}
  ttl: 8h
  resources:
    - name: db
      executor: forge
      tags: [data]
      with: {size: "${params.size}", of: "${env.name}"}
    - name: lb
      executor: forge
      external: [{name: dns/shop.example.org}]
      with: {targets: "${front.web[0].outputs.url}", size: "${params.size}"}
  groups:
    - name: front
      tags: [public]
      resources:
        - name: web
          executor: forge
          count: "${params.webs}"
          with: {password: "${db.outputs.token}", index: "${index}"}
          links: [{rel: console, url: "https://console.example.org/${env.name}"}]
  outputs:
    - {name: url, value: "${lb.outputs.url}", entry: true}
    - {name: password, value: "${db.outputs.token}"}
  policies:
    - {name: keep-data, when: 'change.action == "destroy" && "data" in change.tags', effect: deny, message: the database holds data}
`

// A template as people write it, from its plan to its end.
func TestWrittenTemplate(t *testing.T) {
	w := begin(t)
	templates := template.NewService(template.Config{Store: w.store.Ledger, Files: w.store.Ledger,
		Executors: map[string]executor.Description{"forge": w.forge.Describe()}, Now: func() time.Time { return w.clock }})
	w.configs = append(w.configs, func(c *environment.Config) { c.Templates = environment.Drawings{Service: templates} })
	w.start()
	templates.Users = w.s
	add := func(version, commit, text string) {
		t.Helper()
		tree := source.Tree{Commit: strings.Repeat(commit, 40), Files: map[string]source.File{"template.yaml": {Data: []byte(strings.Replace(text, "VERSION", version, 1))}}}
		if _, _, err := templates.AddTree(operator, tree, "test"); err != nil {
			t.Fatal(err)
		}
	}
	add("1.0.0", "a", written)
	if _, err := w.s.Plan(alice, environment.PlanOrder{Environment: "staging", Template: "shop", Parameters: map[string]any{"size": "huge", "other": 1}}); !fault.Is(err, fault.Invalid) {
		t.Errorf("parameters that do not fit: %v", err)
	}
	planned, err := w.s.Plan(alice, environment.PlanOrder{Environment: "staging", Template: "shop@1.0.0", Parameters: map[string]any{"webs": 3}, Tags: []string{"demo"}})
	w.must(err)
	w.work(time.Second)
	p := w.plan(planned)
	if p.Phase != environment.Planned || p.Status.Creates != 5 {
		t.Fatalf("%s %+v", p.Phase, p.Status)
	}
	changes, err := w.s.Changes(alice, p.Object)
	w.must(err)
	unknown := map[string]bool{}
	for _, c := range changes {
		unknown[c.Address] = c.Unknown
	}
	if diff := cmp.Diff(map[string]bool{"db": false, "front.web[0]": true, "front.web[1]": true, "front.web[2]": true, "lb": true}, unknown); diff != "" {
		t.Errorf("what is known before: %s", diff)
	}
	o, op, err := w.s.Apply(alice, environment.ApplyOrder{Environment: "staging", Plan: p.Status.Hash})
	w.must(err)
	w.work(time.Minute)
	if phase, reason := w.operation(op); phase != "succeeded" {
		t.Fatalf("%s %s", phase, reason)
	}
	e := w.env(o.ID)
	if len(e.Status.Groups) != 1 || e.Status.Groups[0].Status != environment.OK || e.Status.Groups[0].Counts.Ready != 3 {
		t.Errorf("groups %+v", e.Status.Groups)
	}
	if len(e.Status.Entries) != 1 || e.Status.Entries[0].URL != "http://lb" || e.Spec.Ends.Sub(w.clock) > 8*time.Hour || e.Spec.Ends.IsZero() {
		t.Errorf("entries %+v, ends %s", e.Status.Entries, e.Spec.Ends)
	}
	all := w.resources(e.ID)
	if got := all["front.web[1]"]; got.Spec.Group != "front" || len(got.Status.Links) != 1 || got.Status.Links[0].URL != "https://console.example.org/staging" || got.Status.Sealed == "" {
		t.Errorf("%+v %+v", got.Spec, got.Status)
	}
	if diff := cmp.Diff([]string{"resource/" + all["front.web[0]"].ID, "external/dns/shop.example.org"}, all["lb"].Links); diff != "" {
		t.Errorf("links: %s", diff)
	}
	if n, err := templates.Users.Used(t.Context(), "shop"); err != nil || n != 1 {
		t.Errorf("used by %d, %v", n, err)
	}
	// A later version changes nothing by itself.
	add("2.0.0", "b", strings.Replace(written, "ttl: 8h", "ttl: 9h", 1))
	w.work(time.Minute)
	if now := w.env(e.ID); now.Spec.Version != e.Spec.Version || now.Version != e.Version {
		t.Errorf("%s", now.Spec.Version)
	}
	again, err := w.s.Plan(alice, environment.PlanOrder{Environment: "staging", Template: "shop", Keep: true})
	w.must(err)
	w.work(time.Second)
	if s := w.plan(again); s.Status.Same != 5 || s.Phase != environment.Planned {
		t.Errorf("%s %+v", s.Phase, s.Status)
	}
	_, op, err = w.s.Destroy(alice, "staging", "")
	w.must(err)
	w.work(time.Minute)
	if phase, reason := w.operation(op); phase != "failed" || !strings.Contains(reason, "the database holds data") {
		t.Errorf("%s %s", phase, reason)
	}
	w.hidesSecrets()
}
