//go:build e2e

package keycloak_test

import (
	"os"
	"testing"

	"github.com/droverhq/drover/internal/sso"
	"github.com/droverhq/drover/internal/sso/keycloak"
	"github.com/droverhq/drover/internal/sso/ssotest"
	server "github.com/droverhq/drover/test/keycloak"
)

func TestMain(m *testing.M) {
	code := m.Run()
	server.Stop()
	os.Exit(code)
}

func TestContract(t *testing.T) {
	s := server.Running(t)
	realm := s.Realm(t)
	ssotest.Run(t, func(t testing.TB) sso.Provider { return open(t, config(s, realm)) },
		ssotest.Away(func(t testing.TB) sso.Provider {
			c := config(s, realm)
			c.URL = "http://127.0.0.1:1"
			return open(t, c)
		}))
}

func config(s *server.Server, realm string) keycloak.Config {
	return keycloak.Config{URL: s.URL, Realm: realm, User: s.User, Secret: s.Password, LoginRealm: "master"}
}

func open(t testing.TB, c keycloak.Config) *keycloak.Provider {
	t.Helper()
	p, err := keycloak.New(c)
	if err != nil {
		t.Fatal(err)
	}
	return p
}
