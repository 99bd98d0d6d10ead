package template_test

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/droverhq/drover/internal/executor"
	"github.com/droverhq/drover/internal/expr"
	"github.com/droverhq/drover/internal/fault"
)

const secretWord = "s3cr3t-w0rd"

// secrets lists the paths of a tree that are secret.
func secrets(v any, path string) []string {
	var out []string
	switch x := v.(type) {
	case executor.Secret:
		return []string{path}
	case map[string]any:
		for k, v := range x {
			out = append(out, secrets(v, path+"."+k)...)
		}
	case []any:
		for i, v := range x {
			out = append(out, secrets(v, fmt.Sprint(path, "[", i, "]"))...)
		}
	}
	return out
}

func TestSecretsStaySecret(t *testing.T) {
	cases := []struct {
		reason, input string
		secret        bool
	}{
		{"itself", "${db.outputs.password}", true},
		{"in text", "x ${db.outputs.password} y", true},
		{"a part of it", "${db.outputs.password.substring(0, 3)}", true},
		{"its length", "${string(size(db.outputs.password))}", true},
		{"a decision", `${db.outputs.password == "x" ? "a" : "b"}`, true},
		{"a decision that is made without it", `${false && db.outputs.password == "x" ? "a" : "b"}`, false},
		{"the branch that is not taken", `${params.on ? db.outputs.password : "b"}`, false},
		{"what is beside it", "${db.outputs.path}", false},
		{"through an alias", "${cel.bind(d, db, d.outputs.password)}", true},
		{"through a list", "${[db][0].outputs.password}", true},
		{"through a loop", `${[db.outputs.password].map(p, p + "x").join("")}`, true},
		{"through a map", `${{"a": db.outputs.password}["a"]}`, true},
		{"through an encoding", "${base64.encode(bytes(db.outputs.password))}", true},
		{"one of many", `${many.map(m, m.outputs.password).join("")}`, true},
		{"one of many by index", "${many[1].outputs.password}", true},
		{"beside one of many", "${many[1].outputs.path}", false},
		{"what the template says is secret", "${said.outputs.path}", true},
		{"what the executor has wrapped", "${free.outputs.token}", true},
		{"what the executor has not", "${free.outputs.id}", false},
		{"deep in what is open", "${free.outputs.deep.list[0].key}", true},
		{"whether it is there at all", `${has(db.outputs) ? db.outputs.path : "none"}`, false},
		{"how many there are", "${string(size(many))}", false},
		{"what is beside it, of all", `${many.map(m, m.outputs.path).join(",")}`, false},
		{"an optional", `${free.outputs.?token.orValue("none")}`, true},
	}
	for _, c := range cases {
		quoted, _ := json.Marshal(c.input)
		tm := must(t, `
  parameters: {properties: {on: {type: boolean, default: false}}}
  resources:
    - {name: db, executor: vault}
    - {name: many, executor: vault, count: 2}
    - {name: said, executor: file, secret: [path], with: {path: a}}
    - {name: free, executor: open}
    - {name: user, executor: file, with: {path: p, content: `+string(quoted)+`}}`)
		l := expand(t, tm, nil)
		word := map[string]any{"path": "p", "password": secretWord}
		got, err := l.Inputs(t.Context(), "user", known(map[string]map[string]any{
			"db": word, "many[0]": word, "many[1]": word, "said": {"path": secretWord},
			"free": {"id": "i", "token": executor.NewSecret(secretWord), "deep": map[string]any{"list": []any{map[string]any{"key": executor.NewSecret(secretWord)}}}},
		}))
		if err != nil {
			t.Errorf("%s: %v", c.reason, err)
			continue
		}
		if _, secret := got["content"].(executor.Secret); secret != c.secret || got["path"] != "p" {
			t.Errorf("%s: got %#v", c.reason, got)
		}
		if strings.Contains(fmt.Sprintf("%+v %#v", got, got), secretWord) {
			t.Errorf("%s: the secret is printed", c.reason)
		}
		// Before the resources are there, nothing of them is known.
		if before, err := l.Inputs(t.Context(), "user", nil); err != nil || len(secrets(before, "")) > 0 {
			t.Errorf("%s: before: %v, %v", c.reason, before, err)
		}
	}
}

// Errors say which expression failed, and nothing of the values.
func TestErrorsHoldNoSecret(t *testing.T) {
	l := expand(t, must(t, `
  resources:
    - {name: db, executor: vault}
    - {name: user, executor: file, with: {path: p, mode: '${int(db.outputs.password)}'}}`), nil)
	_, err := l.Inputs(t.Context(), "user", known(map[string]map[string]any{"db": {"password": secretWord}}))
	if !fault.Is(err, fault.Invalid) || strings.Contains(err.Error(), secretWord) {
		t.Errorf("got %v", err)
	}
}

func TestComposedInputs(t *testing.T) {
	l := expand(t, composed(t), nil)
	values := map[string]map[string]any{
		"db": {"path": "dbhost", "password": "x"}, "part.key": {"path": "k", "password": secretWord}, "second.key": {"path": "k", "password": "y"},
		"part.app[0]": {"path": "/app0", "size": 3.0}, "part.app[1]": {"path": "/app1", "size": json.Number("4")}, "part.plain": {"path": "plain"}, "second.plain": {"path": "plain"},
	}
	for address, want := range map[string]map[string]any{
		"part.app[1]":   {"path": "x", "content": "at dbhost"},
		"user":          {"path": "/app0"},
		"second.app[0]": {"path": "x", "content": executor.NewSecret("at key=" + secretWord)},
		"keyed":         {"path": "k", "content": executor.NewSecret("key=" + secretWord), "mode": int64(4)},
	} {
		got, err := l.Inputs(t.Context(), address, known(values))
		if err != nil {
			t.Errorf("%s: %v", address, err)
			continue
		}
		if diff := cmp.Diff(executor.Reveal(want), executor.Reveal(got)); diff != "" {
			t.Errorf("%s: %s", address, diff)
		}
		if diff := cmp.Diff(secrets(want, ""), secrets(got, "")); diff != "" {
			t.Errorf("%s: %s", address, diff)
		}
	}
	got, err := l.Outputs(t.Context(), known(values))
	if err != nil || len(got) != 2 {
		t.Fatalf("got %v, %v", got, err)
	}
	if _, secret := got[0].Value.(executor.Secret); !secret || got[1].Value != "/app0" {
		t.Errorf("got %v", got)
	}
	checks, err := l.Checks(t.Context(), "part", known(values))
	if err != nil || len(checks) != 1 || checks[0].HTTP != "http://x/plain" || checks[0].Passes != 1 || checks[0].Name != "check" {
		t.Errorf("got %+v, %v", checks, err)
	}
	// Without what it depends on, only what depends on it is unknown.
	delete(values, "db")
	in, err := l.Inputs(t.Context(), "part.app[1]", known(values))
	if diff := cmp.Diff(map[string]any{"path": "x", "content": expr.Unknown{}}, in); diff != "" || err != nil {
		t.Errorf("%v %s", err, diff)
	}
	if _, err := l.Inputs(t.Context(), "nobody", nil); !fault.Is(err, fault.NotFound) {
		t.Errorf("got %v", err)
	}
}

// What only shows itself when it is evaluated is refused then.
func TestSecretsOfOpenExecutorsAreNotShown(t *testing.T) {
	l := expand(t, must(t, `
  resources: [{name: free, executor: open, links: [{rel: a, url: 'https://x/${free.outputs.token}'}]}]
  checks: [{http: 'http://${free.outputs.token}/'}]
  outputs: [{name: url, entry: true, value: '${free.outputs.token}'}]`), nil)
	values := known(map[string]map[string]any{"free": {"token": executor.NewSecret(secretWord)}})
	if _, err := l.Checks(t.Context(), "", values); !fault.Is(err, fault.Invalid) {
		t.Errorf("check: %v", err)
	}
	if _, err := l.Links(t.Context(), "free", values); !fault.Is(err, fault.Invalid) {
		t.Errorf("link: %v", err)
	}
	if out, err := l.Outputs(t.Context(), values); !fault.Is(err, fault.Invalid) || out[0].Value != any(expr.Unknown{}) {
		t.Errorf("entry: %v, %v", out, err)
	}
	plain := known(map[string]map[string]any{"free": {"token": "host"}})
	if links, err := l.Links(t.Context(), "free", plain); err != nil || len(links) != 1 || links[0].URL != "https://x/host" {
		t.Errorf("got %v, %v", links, err)
	}
	if links, err := l.Links(t.Context(), "free", known(nil)); err != nil || len(links) != 0 {
		t.Errorf("what is not known yet is left out: %v, %v", links, err)
	}
	if _, err := l.Checks(t.Context(), "", known(nil)); !fault.Is(err, fault.Unavailable) {
		t.Errorf("got %v", err)
	}
}
