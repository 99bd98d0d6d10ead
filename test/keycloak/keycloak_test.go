//go:build e2e

package keycloak_test

import (
	"net/http"
	"os"
	"testing"

	"github.com/droverhq/drover/test/keycloak"
)

func TestMain(m *testing.M) {
	code := m.Run()
	keycloak.Stop()
	os.Exit(code)
}

func TestRealmsAreApart(t *testing.T) {
	s := keycloak.Running(t)
	if again := keycloak.Running(t); again != s {
		t.Fatal("a second server was started")
	}
	one, two := s.Realm(t), s.Realm(t)
	if one == two {
		t.Fatalf("both realms are called %s", one)
	}
	for _, realm := range []string{one, two} {
		res, err := http.Get(s.URL + "/realms/" + realm)
		if err != nil {
			t.Fatal(err)
		}
		res.Body.Close()
		if res.StatusCode != http.StatusOK {
			t.Errorf("realm %s: %s", realm, res.Status)
		}
	}
}
