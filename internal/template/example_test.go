package template_test

import (
	"os"
	"strings"
	"testing"

	"github.com/droverhq/drover/internal/executor"
	"github.com/droverhq/drover/internal/executor/action"
	"github.com/droverhq/drover/internal/executor/certificate"
	"github.com/droverhq/drover/internal/executor/consul"
	"github.com/droverhq/drover/internal/executor/file"
	"github.com/droverhq/drover/internal/executor/kubernetes"
	"github.com/droverhq/drover/internal/executor/process"
	"github.com/droverhq/drover/internal/executor/secret"
	"github.com/droverhq/drover/internal/executor/terraform"
	"github.com/droverhq/drover/internal/executor/vault"
	"github.com/droverhq/drover/internal/instance"
	"github.com/droverhq/drover/internal/template"
)

// real are the executors as they describe themselves.
func real() template.Surroundings {
	return template.Surroundings{Executors: map[string]executor.Description{
		"file": file.New().Describe(), "consul": consul.New(consul.Config{}).Describe(), "vault": vault.New(vault.Config{}).Describe(), "action": action.Executor{}.Describe(),
		"terraform": (&terraform.Executor{}).Describe(), "instance": (&instance.Executor{}).Describe(),
		"process": process.New().Describe(), "secret": secret.New().Describe(), "certificate": certificate.New().Describe(), "kubernetes": kubernetes.New(kubernetes.Config{}).Describe(),
	}}
}

func TestExamples(t *testing.T) {
	entries, err := os.ReadDir("../../examples")
	if err != nil {
		t.Fatal(err)
	}
	if len(entries) < 2 {
		t.Fatal("there are examples")
	}
	for _, e := range entries {
		if _, err := template.Parse(t.Context(), load(t, "../../examples/"+e.Name()), "examples/"+e.Name(), real()); err != nil {
			t.Error(err)
		}
	}
}

// The templates of the environment that Drover runs in are as right as any.
func TestMetaTemplates(t *testing.T) {
	for _, kind := range []string{"local", "kubernetes"} {
		if _, err := template.Parse(t.Context(), load(t, "../../deploy/meta/"+kind), "deploy/meta/"+kind, real()); err != nil {
			t.Error(err)
		}
	}
}

func TestShop(t *testing.T) {
	tm, err := template.Parse(t.Context(), load(t, "../../examples/shop"), "examples/shop", real())
	if err != nil {
		t.Fatal(err)
	}
	if got, want := edges(expand(t, tm, nil)), "rex; settings < rex; front.page[0] < rex; front.home < front.page[0] settings"; got != want {
		t.Errorf("got %s, want %s", got, want)
	}
	l := expand(t, tm, map[string]any{"size": "large"})
	if got, want := addresses(l), "rex settings front.page[0] front.page[1] front.page[2] front.home"; got != want {
		t.Errorf("got %s, want %s", got, want)
	}
	values := known(map[string]map[string]any{
		"rex": {"url": "http://rex.localhost", "id": "1", "host": "rex.localhost"}, "front.home": {"path": "/x/index.html"},
		"front.page[0]": {"path": "/p0"}, "front.page[1]": {"path": "/p1"}, "front.page[2]": {"path": "/p2"},
	})
	in, err := l.Inputs(t.Context(), "front.page[2]", values)
	if content, _ := in["content"].(string); err != nil || !strings.Contains(content, "<h1>Page 3</h1>") || !strings.Contains(content, "http://rex.localhost") {
		t.Errorf("got %v, %v", in, err)
	}
	out, err := l.Outputs(t.Context(), values)
	if err != nil || out[0].Value != "http://rex.localhost" || !out[0].Entry || len(out[2].Value.([]any)) != 3 {
		t.Errorf("got %v, %v", out, err)
	}
	checks, err := l.Checks(t.Context(), "rex", values)
	if err != nil || len(checks) != 1 || checks[0].HTTP != "http://rex.localhost/healthz" {
		t.Errorf("got %v, %v", checks, err)
	}
	cmd, err := l.Action(t.Context(), "greet", map[string]any{"name": "$(reboot)"}, values)
	if err != nil || strings.Join(cmd.Argv, " ") != "greet" || cmd.Env["NAME"] != "$(reboot)" {
		t.Errorf("got %v, %v", cmd, err)
	}
	verdicts, err := tm.Judge(t.Context(), template.PlanFacts{Destroys: 1}, []template.ChangeFacts{{Address: "rex", Action: "destroy", Tags: []string{"payments", "data"}}})
	if err != nil || len(verdicts) != 1 || verdicts[0].Effect != template.EffectApprove {
		t.Errorf("got %v, %v", verdicts, err)
	}
}

func TestPlatform(t *testing.T) {
	tm, err := template.Parse(t.Context(), load(t, "../../examples/platform"), "examples/platform", real())
	if err != nil {
		t.Fatal(err)
	}
	l := expand(t, tm, map[string]any{"monitored": true})
	values := known(map[string]map[string]any{
		"label":    {"name": "demo-cat"},
		"password": {"path": "secret/platform/demo/app", "version": 1, "values": map[string]any{"password": secretWord}},
	})
	in, err := l.Inputs(t.Context(), "app", values)
	if err != nil {
		t.Fatal(err)
	}
	variables := in["variables"].(map[string]any)
	if _, secret := variables["password"].(executor.Secret); !secret || variables["name"] != "demo-cat" {
		t.Errorf("got %v", variables)
	}
	if in, err := l.Inputs(t.Context(), "settings", values); err != nil || len(secrets(in, "")) > 0 || !executor.Whole(in) {
		t.Errorf("the path of a secret is none: %v, %v", in, err)
	}
	if in, err := l.Inputs(t.Context(), "node[1]", values); err != nil || in["port"] != int64(8081) {
		t.Errorf("got %v, %v", in, err)
	}
}
