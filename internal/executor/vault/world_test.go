package vault_test

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/droverhq/drover/internal/executor"
	"github.com/droverhq/drover/internal/executor/executortest"
	"github.com/droverhq/drover/internal/executor/vault"
	"github.com/droverhq/drover/internal/resilience"
)

// impatient is a policy that does not make tests wait.
func impatient() vault.Config {
	return vault.Config{Resilience: resilience.Config{Timeout: time.Minute, Pause: time.Millisecond, Rest: time.Millisecond, Failures: 1000}}
}

// hands are those of somebody who uses the server without Drover.
type hands struct{ url, token string }

// ask returns the data of an answer, nil where there is none.
func (h hands) ask(t testing.TB, method, path string, in any) map[string]any {
	t.Helper()
	var body io.Reader
	if in != nil {
		data, err := json.Marshal(in)
		if err != nil {
			t.Fatal(err)
		}
		body = strings.NewReader(string(data))
	}
	req, err := http.NewRequestWithContext(context.WithoutCancel(t.Context()), method, h.url+"/v1/"+path, body)
	if err != nil {
		t.Fatal(err)
	}
	req.Header.Set("X-Vault-Token", h.token)
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	var out struct {
		Data   map[string]any `json:"data"`
		Errors []string       `json:"errors"`
	}
	_ = json.NewDecoder(resp.Body).Decode(&out)
	if resp.StatusCode >= 400 && resp.StatusCode != http.StatusNotFound {
		t.Fatalf("%s %s: %d %v", method, path, resp.StatusCode, out.Errors)
	}
	return out.Data
}

func (h hands) list(t testing.TB, path string) (out []string) {
	t.Helper()
	keys, _ := h.ask(t, http.MethodGet, path+"?list=true", nil)["keys"].([]any)
	for _, k := range keys {
		out = append(out, k.(string))
	}
	return out
}

func connection(url, token string) executor.Connection {
	return executor.Connection{"address": url, "token": token}
}

// secrets is a world of secrets with given values, or with generated ones too.
func secrets(front *executortest.Front, h hands, generated bool) executortest.Config {
	top := "shop"
	if generated {
		top = "made"
	}
	at := func(n int) string { return fmt.Sprintf("%s/%d/db", top, n) }
	edits := 0
	put := func(t testing.TB, path, value string) {
		t.Helper()
		h.ask(t, http.MethodPost, "secret/data/"+path, map[string]any{"data": map[string]any{"password": value}})
	}
	var walk func(t testing.TB, folder string, out map[string]string)
	walk = func(t testing.TB, folder string, out map[string]string) {
		for _, key := range h.list(t, "secret/metadata/"+folder) {
			if strings.HasSuffix(key, "/") {
				walk(t, folder+key, out)
				continue
			}
			meta := h.ask(t, http.MethodGet, "secret/metadata/"+folder+key, nil)
			data, there := h.ask(t, http.MethodGet, "secret/data/"+folder+key, nil)["data"].(map[string]any)
			if there {
				out[folder+key] = fmt.Sprint(data, meta["current_version"], meta["custom_metadata"])
			}
		}
	}
	return executortest.Config{
		Lives: 100, Executor: vault.New(impatient()), Connection: connection(front.URL, h.token),
		Inputs: func(n int, s executortest.Shape) map[string]any {
			where, value := at(n), any("small")
			rotation := "1"
			switch s {
			case executortest.Changed:
				value, rotation = "large", "2"
			case executortest.Moved:
				where = fmt.Sprintf("%s-moved/%d/db", top, n)
			case executortest.Later:
				value = executor.Unknown{}
			case executortest.Veiled:
				value = executor.NewSecret(executortest.Canary)
			}
			in := map[string]any{"path": where, "data": map[string]any{"password": value, "user": "ann"}}
			if generated {
				in["generate"] = map[string]any{"key": map[string]any{"length": int64(20), "charset": "hex", "rotation": rotation}}
			}
			return in
		},
		Look: func(t testing.TB) map[string]string {
			out := map[string]string{}
			walk(t, top+"/", out)
			walk(t, top+"-moved/", out)
			return out
		},
		Take:   func(t testing.TB, n int) { put(t, at(n), "theirs") },
		Edit:   func(t testing.TB, n int) { edits++; put(t, at(n), fmt.Sprint("edit ", edits)) },
		Delete: func(t testing.TB, n int) { h.ask(t, http.MethodDelete, "secret/metadata/"+at(n), nil) },
		Beside: func(t testing.TB, n int) string {
			put(t, fmt.Sprintf("%s/%d/stray", top, n), "theirs")
			return fmt.Sprintf("secret/%s/%d/stray", top, n)
		},
		Down: front.Down, Hang: front.Hang, Cut: front.Cut,
	}
}

// policies is a world of policies.
func policies(front *executortest.Front, h hands) executortest.Config {
	name := func(n int) string { return fmt.Sprintf("shop-%d", n) }
	edits := 0
	put := func(t testing.TB, name, path string) {
		t.Helper()
		h.ask(t, http.MethodPost, "sys/policies/acl/"+name, map[string]any{"policy": rules(path)})
	}
	return executortest.Config{
		Lives: 100, Executor: vault.New(impatient()), Connection: connection(front.URL, h.token),
		Inputs: func(n int, s executortest.Shape) map[string]any {
			in := map[string]any{"policy": name(n), "rules": rules("secret/data/one")}
			switch s {
			case executortest.Changed:
				in["rules"] = rules("secret/data/two")
			case executortest.Moved:
				in["policy"] = "moved-" + name(n)
			case executortest.Later:
				in["rules"] = executor.Unknown{}
			case executortest.Veiled:
				return nil // rules are read by many
			}
			return in
		},
		Look: func(t testing.TB) map[string]string {
			out := map[string]string{}
			for _, name := range h.list(t, "sys/policies/acl") {
				out[name] = fmt.Sprint(h.ask(t, http.MethodGet, "sys/policies/acl/"+name, nil)["policy"])
			}
			return out
		},
		Take:   func(t testing.TB, n int) { put(t, name(n), "secret/data/theirs") },
		Edit:   func(t testing.TB, n int) { edits++; put(t, name(n), fmt.Sprint("secret/data/edit", edits)) },
		Delete: func(t testing.TB, n int) { h.ask(t, http.MethodDelete, "sys/policies/acl/"+name(n), nil) },
		Down:   front.Down, Hang: front.Hang, Cut: front.Cut,
	}
}

func rules(path string) string {
	return fmt.Sprintf("path %q {\n  capabilities = [\"read\"]\n}", path)
}
