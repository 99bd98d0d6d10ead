package vault_test

import (
	"context"
	"io"
	"maps"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/droverhq/drover/internal/executor"
	"github.com/droverhq/drover/internal/executor/executortest"
	"github.com/droverhq/drover/internal/executor/vault"
	"github.com/droverhq/drover/internal/fault"
)

func TestContract(t *testing.T) {
	run := func(name string, make func(*executortest.Front, hands) executortest.Config) {
		t.Run(name, func(t *testing.T) {
			f := newFake()
			executortest.Run(t, make(executortest.NewFront(t, f), hands{executortest.NewFront(t, f).URL, "root"}))
		})
	}
	run("given", func(f *executortest.Front, h hands) executortest.Config { return secrets(f, h, false) })
	run("generated", func(f *executortest.Front, h hands) executortest.Config { return secrets(f, h, true) })
	run("policies", policies)
}

// keeper is a caller who records what an executor says.
type keeper struct {
	e executor.Executor
	r executor.Resource
}

func newKeeper(e executor.Executor, c executor.Connection, in map[string]any) *keeper {
	k := &keeper{e: e}
	k.r = executor.Resource{ID: "res-1", Address: "db", Connection: c, Inputs: in, Log: io.Discard}
	k.r.Save = func(_ context.Context, state []byte) error { k.r.State = state; return nil }
	return k
}

func (k *keeper) apply(t testing.TB) map[string]any {
	t.Helper()
	res, err := k.e.Apply(t.Context(), k.r)
	if err != nil {
		t.Fatalf("cannot apply: %v", err)
	}
	k.r.Outputs = res.Outputs
	values, _ := executor.Reveal(res.Outputs["values"]).(map[string]any)
	return values
}

func generate(rotation string) map[string]any {
	return map[string]any{
		"path": "shop/db", "data": map[string]any{"user": "ann"},
		"generate": map[string]any{
			"password": map[string]any{"length": int64(40), "charset": "symbols", "rotation": rotation},
			"pin":      map[string]any{"length": int64(8), "charset": "digits"},
		},
	}
}

// generated checks that values are made up once, kept, and made up anew only when
// that is asked for.
func generated(t *testing.T, url, token string) {
	k := newKeeper(vault.New(impatient()), connection(url, token), generate("1"))
	first := k.apply(t)
	password, _ := first["password"].(string)
	pin, _ := first["pin"].(string)
	if len(password) != 40 || len(pin) != 8 || strings.Trim(pin, "0123456789") != "" || first["user"] != "ann" {
		t.Fatalf("made up were %d and %d characters", len(password), len(pin))
	}
	if again := k.apply(t); !maps.Equal(again, first) {
		t.Error("to apply again has changed the values")
	}
	k.r.Inputs["data"] = map[string]any{"user": "bob"}
	if next := k.apply(t); next["password"] != password || next["pin"] != pin || next["user"] != "bob" {
		t.Error("to change one value has changed another")
	}
	k.r.Inputs = generate("2")
	c, err := k.e.Plan(t.Context(), k.r)
	if err != nil || c.Action != executor.Update || executor.Whole(c.Outputs["values"]) {
		t.Errorf("the plan of a rotation is %+v, %v", c, err)
	}
	if strings.Contains(c.Why, password) {
		t.Error("the plan tells the password")
	}
	next := k.apply(t)
	if next["password"] == password || next["pin"] != pin {
		t.Error("the rotation has not changed what it is of, or something else")
	}
	// A caller that was killed after a rotation does not rotate again.
	k.r.Inputs = generate("3")
	was := k.r.Outputs
	third := k.apply(t)
	k.r.Outputs = was
	if again := k.apply(t); !maps.Equal(again, third) {
		t.Error("after a crash it was made up again")
	}
	if _, err := k.e.Destroy(t.Context(), k.r); err != nil {
		t.Error(err)
	}
}

func TestGenerated(t *testing.T) {
	generated(t, executortest.NewFront(t, newFake()).URL, "root")
}

// What is unchanged by its version is not read.
func TestValuesAreNotRead(t *testing.T) {
	f := newFake()
	k := newKeeper(vault.New(impatient()), connection(executortest.NewFront(t, f).URL, "root"), generate("1"))
	k.apply(t)
	before := f.reads
	for range 3 {
		if o, err := k.e.Observe(t.Context(), k.r); err != nil || !o.Exists || len(o.Drift) > 0 {
			t.Fatalf("%+v, %v", o, err)
		}
		if c, err := k.e.Plan(t.Context(), k.r); err != nil || c.Action != executor.None {
			t.Fatalf("%+v, %v", c, err)
		}
	}
	if f.reads != before {
		t.Errorf("the values were read %d times", f.reads-before)
	}
}

// One who comes between reading and writing is not overwritten.
func TestSomebodyIsFaster(t *testing.T) {
	f := newFake()
	url := executortest.NewFront(t, f).URL
	h := hands{url, "root"}
	k := newKeeper(vault.New(impatient()), connection(url, "root"), generate("1"))
	save := k.r.Save
	k.r.Save = func(ctx context.Context, state []byte) error {
		h.ask(t, http.MethodPost, "secret/data/shop/db", map[string]any{"data": map[string]any{"theirs": "x"}})
		return save(ctx, state)
	}
	for range 2 {
		if _, err := k.e.Apply(t.Context(), k.r); fault.Reason(err) != "not-ours" {
			t.Errorf("got %v", err)
		}
	}
	if _, err := k.e.Destroy(t.Context(), k.r); err != nil {
		t.Error(err)
	}
	if got := h.ask(t, http.MethodGet, "secret/data/shop/db", nil)["data"].(map[string]any); got["theirs"] != "x" {
		t.Errorf("theirs is %v", got)
	}
}

func TestRefusals(t *testing.T) {
	for _, tc := range []struct {
		reason, said string
		status       int
		kind         fault.Kind
		why, next    string
	}{
		{"sealed", "Vault is sealed", 503, fault.Unavailable, "sealed", "unseal it"},
		{"just mounted", "Upgrading from non-versioned to versioned data. This backend will be unavailable for a brief period and will resume service shortly.", 400, fault.Unavailable, "mounting", "tried again by itself"},
		{"something broke", "internal error", 500, fault.Unavailable, "", "by itself"},
		{"too many requests", "rate limited", 429, fault.Unavailable, "", "by itself"},
		{"nothing is mounted, which is not an absence", "no handler for route \"secret/\"", 404, fault.Invalid, "no-mount", "mount it there"},
	} {
		t.Run(tc.reason, func(t *testing.T) {
			f := newFake()
			f.refuse = func(r *http.Request) (int, string) {
				if strings.Contains(r.URL.Path, "lookup-self") && tc.status == 404 {
					return 0, ""
				}
				return tc.status, tc.said
			}
			k := newKeeper(vault.New(impatient()), connection(executortest.NewFront(t, f).URL, "root"), generate("1"))
			_, err := k.e.Apply(t.Context(), k.r)
			if !fault.Is(err, tc.kind) || fault.Reason(err) != tc.why || !strings.Contains(err.Error(), tc.next) {
				t.Errorf("apply: %v (%v, %q)", err, fault.Of(err), fault.Reason(err))
			}
			if o, err := k.e.Observe(t.Context(), k.r); !fault.Is(err, tc.kind) {
				t.Errorf("observe: %+v, %v", o, err)
			}
			if _, err := k.e.Destroy(t.Context(), k.r); !fault.Is(err, tc.kind) {
				t.Errorf("destroy: %v", err)
			}
		})
	}
}

func TestSessions(t *testing.T) {
	now := time.Unix(1_800_000_000, 0)
	with := impatient()
	with.Now = func() time.Time { return now }
	f := newFake()
	f.roles["role"] = "s3cret"
	url := executortest.NewFront(t, f).URL
	k := newKeeper(vault.New(with), executor.Connection{"address": url, "auth": "approle", "roleId": "role", "secretId": "s3cret"}, generate("1"))
	k.apply(t)
	k.apply(t)
	if f.logins != 1 || f.renewals != 0 {
		t.Errorf("%d logins, %d renewals at first", f.logins, f.renewals)
	}
	now = now.Add(45 * time.Minute)
	k.apply(t)
	if f.logins != 1 || f.renewals != 1 {
		t.Errorf("%d logins, %d renewals after two thirds of its life", f.logins, f.renewals)
	}
	delete(f.tokens, "session-1")
	k.apply(t)
	if f.logins != 2 {
		t.Errorf("%d logins after the token was revoked", f.logins)
	}
	f.roles["role"] = "another"
	delete(f.tokens, "session-2")
	_, err := k.e.Observe(t.Context(), k.r)
	if !fault.Is(err, fault.Denied) || fault.Reason(err) != "login" || strings.Contains(err.Error(), "s3cret") {
		t.Errorf("after its role was changed: %v", err)
	}

	f.tokens["given"] = true
	k = newKeeper(vault.New(with), connection(url, "given"), generate("1"))
	k.r.ID, k.r.Inputs["path"] = "res-2", "shop/other"
	k.apply(t)
	now = now.Add(45 * time.Minute)
	k.apply(t)
	if f.renewals != 2 {
		t.Errorf("%d renewals of a given token", f.renewals)
	}
	delete(f.tokens, "given")
	_, err = k.e.Observe(t.Context(), k.r)
	if !fault.Is(err, fault.Denied) || fault.Reason(err) != "token" || !strings.Contains(err.Error(), "put a new one") {
		t.Errorf("after a given token was revoked: %v", err)
	}
}

func TestBadInput(t *testing.T) {
	data := map[string]any{"x": "y"}
	for _, tc := range []struct {
		reason string
		in     map[string]any
	}{
		{"a path that leads out", map[string]any{"path": "../sys/policies", "data": data}},
		{"a path with a question", map[string]any{"path": "x?list=true", "data": data}},
		{"a mount that leads out", map[string]any{"mount": "..", "path": "x", "data": data}},
		{"a secret path", map[string]any{"path": executor.NewSecret("x"), "data": data}},
		{"a number", map[string]any{"path": "x", "data": map[string]any{"n": int64(1)}}},
		{"both given and made up", map[string]any{"path": "x", "data": data, "generate": map[string]any{"x": map[string]any{}}}},
		{"too short", map[string]any{"path": "x", "generate": map[string]any{"k": map[string]any{"length": int64(1)}}}},
		{"no charset", map[string]any{"path": "x", "generate": map[string]any{"k": map[string]any{"charset": "runes"}}}},
		{"a policy with a path", map[string]any{"policy": "a/b", "rules": rules("x")}},
		{"rules in JSON", map[string]any{"policy": "p", "rules": "{}"}},
		{"secret rules", map[string]any{"policy": "p", "rules": executor.NewSecret("x")}},
		{"a mount without versions", map[string]any{"mount": "old", "path": "x", "data": data}},
	} {
		k := newKeeper(vault.New(impatient()), connection(executortest.NewFront(t, newFake()).URL, "root"), tc.in)
		if _, err := k.e.Plan(t.Context(), k.r); !fault.Is(err, fault.Invalid) {
			t.Errorf("%s: got %v", tc.reason, err)
		}
	}
}

func TestConnections(t *testing.T) {
	t.Setenv("BAO_TOKEN", "the server's own")
	t.Setenv("VAULT_TOKEN", "the server's own")
	for _, tc := range []struct {
		reason string
		c      executor.Connection
	}{
		{"no address", executor.Connection{"token": "x"}},
		{"no token, whatever the environment says", executor.Connection{"address": "http://127.0.0.1:1"}},
		{"no such method", executor.Connection{"address": "http://127.0.0.1:1", "auth": "magic"}},
		{"a token in the clear to another machine", executor.Connection{"address": "http://vault.invalid:8200", "token": "x"}},
		{"no role", executor.Connection{"address": "http://127.0.0.1:1", "auth": "kubernetes", "jwt": "x"}},
		{"a misspelt option", executor.Connection{"address": "http://127.0.0.1:1", "tokn": "x"}},
	} {
		k := newKeeper(vault.New(impatient()), tc.c, generate("1"))
		if _, err := k.e.Observe(t.Context(), k.r); !fault.Is(err, fault.Invalid) {
			t.Errorf("%s: got %v", tc.reason, err)
		}
	}
}
