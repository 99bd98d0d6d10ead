package connection_test

import (
	"context"
	"errors"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/droverhq/drover/internal/connection"
	"github.com/droverhq/drover/internal/executor"
	"github.com/droverhq/drover/internal/fault"
)

const good = `
apiVersion: drover.dev/v1
kind: Connection
metadata: {name: default}
spec:
  executor: consul
  options: {address: "https://consul.test:8501", tokenFile: token, caFile: ca.pem}
  for: {orgs: [acme]}
---
apiVersion: drover.dev/v1
kind: Connection
metadata: {name: default}
spec:
  executor: vault
  options: {address: "https://bao.test:8200", tokenEnv: DROVER_TEST_TOKEN}
  for: {orgs: ["*"], templates: [shop]}
---
apiVersion: drover.dev/v1
kind: Connection
metadata: {name: house}
spec: {executor: vault, options: {address: "http://bao.test:8200", plaintext: true, namespace: }}
`

func book(t *testing.T, content string) (*connection.Book, string) {
	t.Helper()
	dir := t.TempDir()
	for name, data := range map[string]string{"connections.yaml": content, "token": "t0ken\n", "ca.pem": "PEM", "empty": "\n"} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(data), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	return connection.New(connection.Config{
		Paths: []string{filepath.Join(dir, "connections.yaml")}, Log: slog.New(slog.DiscardHandler),
		Own: []connection.Connection{{Name: "default", Executor: "file", Options: map[string]string{"directory": "/data"}, For: connection.For{Orgs: []string{"*"}}}},
	}), dir
}

func TestOpen(t *testing.T) {
	t.Setenv("DROVER_TEST_TOKEN", "from the environment")
	b, _ := book(t, good)
	if err := b.Load(); err != nil {
		t.Fatal(err)
	}
	for _, tc := range []struct {
		reason, executor, name string
		whose                  connection.Whose
		want                   executor.Connection
		kind                   fault.Kind
	}{
		{reason: "secrets are read from beside the file", executor: "consul", name: "default", whose: connection.Whose{Org: "acme"},
			want: executor.Connection{"address": "https://consul.test:8501", "token": "t0ken", "ca": "PEM"}},
		{reason: "no name is the default", executor: "consul", whose: connection.Whose{Org: "acme"},
			want: executor.Connection{"address": "https://consul.test:8501", "token": "t0ken", "ca": "PEM"}},
		{reason: "it is not for others", executor: "consul", name: "default", whose: connection.Whose{Org: "evil"}, kind: fault.Denied},
		{reason: "nor for one without an organisation", executor: "consul", name: "default", kind: fault.Denied},
		{reason: "operators may use all", executor: "consul", name: "default", whose: connection.Whose{Operator: true},
			want: executor.Connection{"address": "https://consul.test:8501", "token": "t0ken", "ca": "PEM"}},
		{reason: "a secret of the environment", executor: "vault", name: "default", whose: connection.Whose{Org: "x", Template: "shop"},
			want: executor.Connection{"address": "https://bao.test:8200", "token": "from the environment"}},
		{reason: "other templates may not", executor: "vault", name: "default", whose: connection.Whose{Org: "x", Template: "other"}, kind: fault.Denied},
		{reason: "what says nothing is for operators", executor: "vault", name: "house", whose: connection.Whose{Org: "acme", Template: "shop"}, kind: fault.Denied},
		{reason: "true without quotes, and a key without a value", executor: "vault", name: "house", whose: connection.Whose{Operator: true},
			want: executor.Connection{"address": "http://bao.test:8200", "plaintext": "true", "namespace": ""}},
		{reason: "the server's own", executor: "file", name: "default", want: executor.Connection{"directory": "/data"}},
		{reason: "there is none", executor: "vault", name: "none", kind: fault.Invalid},
		{reason: "another executor's is none", executor: "file", name: "house", kind: fault.Invalid},
	} {
		got, err := b.Open(t.Context(), tc.executor, tc.name, tc.whose)
		if (err == nil) != (tc.want != nil) || err != nil && fault.Of(err) != tc.kind {
			t.Errorf("%s: got %v", tc.reason, err)
		}
		if d := cmp.Diff(tc.want, got); d != "" {
			t.Errorf("%s: %s", tc.reason, d)
		}
	}
}

func TestSecretsAreReadEachTime(t *testing.T) {
	b, dir := book(t, good)
	if err := b.Load(); err != nil {
		t.Fatal(err)
	}
	who := connection.Whose{Org: "acme"}
	if err := os.WriteFile(filepath.Join(dir, "token"), []byte("renewed"), 0o600); err != nil {
		t.Fatal(err)
	}
	if c, err := b.Open(t.Context(), "consul", "", who); err != nil || c["token"] != "renewed" {
		t.Errorf("after it was renewed: %v", err)
	}
	for _, do := range []func(string) error{os.Remove, func(p string) error { return os.WriteFile(p, nil, 0o600) }} {
		if err := do(filepath.Join(dir, "token")); err != nil {
			t.Fatal(err)
		}
		if _, err := b.Open(t.Context(), "consul", "", who); !fault.Is(err, fault.Unavailable) || !strings.Contains(err.Error(), "tokenFile") {
			t.Errorf("without its secret: %v", err)
		}
	}
}

func TestMistakes(t *testing.T) {
	head := "apiVersion: drover.dev/v1\nkind: Connection\nmetadata: {name: a}\n"
	for _, tc := range []struct{ reason, file, want string }{
		{"a secret in the file", head + "spec: {executor: vault, options: {token: hush-hush}}", "tokenFile or tokenEnv"},
		{"twice", head + "spec: {executor: vault, options: {tokenFile: a, tokenEnv: B}}", "given twice"},
		{"no executor", head + "spec: {options: {a: b}}", "names its executor"},
		{"a misspelt field", head + "spec: {executor: vault, option: {a: b}}", "option"},
		{"no name", "apiVersion: drover.dev/v1\nkind: Connection\nspec: {executor: vault}", "a name of small letters"},
		{"another kind", "apiVersion: drover.dev/v1\nkind: Quota\nmetadata: {name: a}\nspec: {executor: vault}", "kind is Connection"},
		{"the same twice", head + "spec: {executor: vault}\n---\n" + head + "spec: {executor: vault}", "two connections"},
		{"a number", head + "spec: {executor: vault, options: {address: 7}}", "an option is text, true or false"},
		{"no YAML", "{", ""},
	} {
		_, err := connection.Parse("c.yaml", []byte(tc.file))
		if !fault.Is(err, fault.Invalid) || !strings.Contains(err.Error(), tc.want) || strings.Contains(err.Error(), "hush-hush") {
			t.Errorf("%s: got %v", tc.reason, err)
		}
	}
}

// What a file no longer has is gone; what is broken or gone takes nothing away.
func TestWatch(t *testing.T) {
	b, dir := book(t, good)
	file := filepath.Join(dir, "connections.yaml")
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() { ended <- b.Watch(ctx) }()
	count := func(want int) {
		t.Helper()
		for limit := time.After(2 * time.Minute); len(b.List()) != want; {
			select {
			case <-limit:
				t.Fatalf("there are %d connections, want %d", len(b.List()), want)
			case <-time.After(5 * time.Millisecond):
			}
		}
	}
	count(4)
	first, _, _ := strings.Cut(good, "---")
	if err := os.WriteFile(file, []byte(first), 0o600); err != nil {
		t.Fatal(err)
	}
	count(2)
	if err := os.WriteFile(file, []byte("broken: ["), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := b.Load(); !fault.Is(err, fault.Invalid) {
		t.Errorf("a broken file: %v", err)
	}
	count(2)
	if err := os.Remove(file); err != nil {
		t.Fatal(err)
	}
	if err := b.Load(); err == nil {
		t.Error("a file that is gone is none")
	}
	count(2)
	cancel()
	if err := <-ended; err != nil && !errors.Is(err, context.Canceled) {
		t.Error(err)
	}
}

func FuzzParse(f *testing.F) {
	f.Add(good)
	f.Add("{}")
	f.Add("apiVersion: drover.dev/v1\nkind: Connection\nmetadata: {name: a}\nspec: {executor: e, options: {token: x, File: y, Env: z}}")
	f.Add("- - -\n---\n")
	f.Fuzz(func(t *testing.T, data string) {
		all, err := connection.Parse("f.yaml", []byte(data))
		if err != nil && !fault.Is(err, fault.Invalid) {
			t.Errorf("not the file's fault: %v", err)
		}
		for _, c := range all {
			if _, inline := c.Options["token"]; inline || c.Name == "" || c.Executor == "" {
				t.Errorf("let through: %+v", c)
			}
		}
	})
}
