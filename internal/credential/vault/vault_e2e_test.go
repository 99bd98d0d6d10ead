//go:build e2e

package vault_test

import (
	"net/http"
	"net/url"
	"testing"
	"time"

	"github.com/droverhq/drover/internal/credential"
	"github.com/droverhq/drover/internal/credential/credentialtest"
	source "github.com/droverhq/drover/internal/credential/vault"
	"github.com/droverhq/drover/internal/fault"
	"github.com/droverhq/drover/internal/resilience"
	"github.com/droverhq/drover/internal/transport"
	"github.com/droverhq/drover/internal/vault"
	"github.com/droverhq/drover/test/openbao"
	"github.com/droverhq/drover/test/postgres"
)

func ask(t *testing.T, s *openbao.Server, path string, in any) {
	t.Helper()
	if err := s.API().Ask(t.Context(), http.MethodPost, "/v1/"+path, in, nil); err != nil {
		t.Fatal(err)
	}
}

// login makes a client that logs in by a method, with what it shows.
func login(t *testing.T, s *openbao.Server, method string, shown map[string]string) *vault.Client {
	t.Helper()
	c, err := vault.New(vault.Config{
		Way: transport.Config{Address: s.URL}, Auth: method, Who: "Drover", Where: "the test",
		Show:       func(what string) (string, error) { return shown[what], nil },
		Resilience: resilience.Config{Rest: 100 * time.Millisecond, Timeout: 2 * time.Second},
	})
	if err != nil {
		t.Fatal(err)
	}
	return c
}

func sealed(s *openbao.Server) func(t *testing.T) func() {
	return func(t *testing.T) func() {
		if err := s.Seal(); err != nil {
			t.Fatal(err)
		}
		return func() {
			if err := s.Unseal(); err != nil {
				t.Fatal(err)
			}
		}
	}
}

// database has users of it made that live for some seconds.
func database(t *testing.T, s *openbao.Server, ttl, most int) {
	t.Helper()
	u, err := url.Parse(postgres.Database(t))
	if err != nil {
		t.Fatal(err)
	}
	password, _ := u.User.Password()
	ask(t, s, "sys/mounts/database", map[string]string{"type": "database"})
	ask(t, s, "database/config/db", map[string]any{
		"plugin_name": "postgresql-database-plugin", "allowed_roles": "*", "username": u.User.Username(), "password": password,
		"connection_url": "postgresql://{{username}}:{{password}}@" + u.Host + u.Path + "?sslmode=disable",
	})
	ask(t, s, "database/roles/drover", map[string]any{
		"db_name": "db", "default_ttl": ttl, "max_ttl": most,
		"creation_statements":   `CREATE ROLE "{{name}}" LOGIN PASSWORD '{{password}}' VALID UNTIL '{{expiration}}';`,
		"renew_statements":      `ALTER ROLE "{{name}}" VALID UNTIL '{{expiration}}';`,
		"revocation_statements": `DROP ROLE IF EXISTS "{{name}}";`,
	})
}

func TestContractOnOpenBao(t *testing.T) {
	t.Run("KV", func(t *testing.T) {
		s := openbao.Start(t, openbao.WithData())
		ask(t, s, "sys/mounts/kv", map[string]any{"type": "kv", "options": map[string]string{"version": "1"}})
		for path, wrap := range map[string]func(map[string]string) any{
			"secret/data/drover/db": func(in map[string]string) any { return map[string]any{"data": in} },
			"kv/drover/db":          func(in map[string]string) any { return in },
		} {
			t.Run(path, func(t *testing.T) {
				c := login(t, s, "token", map[string]string{"token": s.Token})
				credentialtest.Run(t, credentialtest.Place{
					Open: func(*testing.T) credential.Source {
						return source.New(source.Config{Client: c, Path: path, Refresh: 50 * time.Millisecond, Pause: 50 * time.Millisecond})
					},
					Put: func(t *testing.T, username, password string) {
						ask(t, s, path, wrap(map[string]string{"username": username, "password": password}))
					},
					Break: sealed(s),
				})
			})
		}
	})
	t.Run("leases", func(t *testing.T) {
		s := openbao.Start(t, openbao.WithData())
		database(t, s, 3, 5)
		c := login(t, s, "token", map[string]string{"token": s.Token})
		credentialtest.Run(t, credentialtest.Place{
			Open: func(*testing.T) credential.Source {
				return source.New(source.Config{Client: c, Path: "database/creds/drover", Pause: 50 * time.Millisecond})
			},
			Break: sealed(s),
		})
	})
}

// A lease lives on for as long as it may, in a session that does; what is taken in a
// session that ends is taken anew in the next.
func TestLeases(t *testing.T) {
	s := openbao.Start(t, openbao.WithData())
	database(t, s, 3, 3600)
	role, secret := s.AppRole(t, "drover", s.Policy(t, `path "database/creds/drover" { capabilities = ["read"] }`))
	limit := func(ttl, most int) {
		ask(t, s, "auth/approle/role/drover", map[string]any{"token_ttl": ttl, "token_max_ttl": most})
	}
	get := func(s credential.Source) credential.Credential {
		t.Helper()
		c, err := s.Get(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		return c
	}
	limit(4, 3600)
	c := login(t, s, "approle", map[string]string{"roleId": role, "secretId": secret})
	src := source.New(source.Config{Client: c, Path: "database/creds/drover", Pause: 50 * time.Millisecond})
	defer src.Close()
	first := get(src)
	end := first.Ends
	for range 3 { // each of which is beyond the life of the one before
		for deadline := time.Now().Add(time.Minute); !get(src).Ends.After(end.Add(time.Second)); time.Sleep(20 * time.Millisecond) {
			if time.Now().After(deadline) {
				t.Fatal("the lease is not renewed")
			}
		}
		end = get(src).Ends
	}
	if !get(src).Same(first) {
		t.Error("one that can be renewed was replaced")
	}

	limit(4, 8)
	short := login(t, s, "approle", map[string]string{"roleId": role, "secretId": secret})
	other := source.New(source.Config{Client: short, Path: "database/creds/drover", Pause: 50 * time.Millisecond})
	defer other.Close()
	changed := other.Changed()
	was := get(other)
	state, err := short.Keep(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	select {
	case <-changed:
	case <-time.After(time.Minute):
		t.Fatal("what was taken in a session that ends stays")
	}
	if next, err := short.Keep(t.Context()); err != nil || next.Number == state.Number {
		t.Errorf("the session is the same, %+v (%v)", next, err)
	}
	if get(other).Same(was) {
		t.Error("it is the same")
	}
	changed, was = other.Changed(), get(other)
	other.Refused(was)
	select {
	case <-changed:
	case <-time.After(time.Minute):
		t.Fatal("one that does not open the door stays")
	}
}

// What is wrong is said with what to do.
func TestTroubles(t *testing.T) {
	s := openbao.Start(t)
	ask(t, s, "secret/data/empty", map[string]any{"data": map[string]string{"user": "ann"}})
	root := map[string]string{"token": s.Token}
	for _, tc := range []struct {
		reason, path string
		shown        map[string]string
		kind         fault.Kind
	}{
		{"nothing is there", "secret/data/nothing", root, fault.NotFound},
		{"there is no password", "secret/data/empty", root, fault.Invalid},
		{"nothing is mounted", "nowhere/creds/x", root, fault.Invalid},
		{"it may not read that", "secret/data/empty", map[string]string{"token": s.TokenOf(t, "")}, fault.Denied},
		{"nobody knows the token", "secret/data/empty", map[string]string{"token": "s.none"}, fault.Denied},
	} {
		src := source.New(source.Config{Client: login(t, s, "token", tc.shown), Path: tc.path})
		if _, err := src.Get(t.Context()); fault.Of(err) != tc.kind {
			t.Errorf("%s: %v", tc.reason, err)
		}
		src.Close()
	}
}
