// Package e2e uses the built binary as its users do: the command line, raw HTTP,
// several processes on one database.
//
// It must not know the rooms inside; only what users and operators can see
// counts here.
package e2e

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"os"
	"strings"
	"testing"

	"github.com/droverhq/drover/api/client"
	v1 "github.com/droverhq/drover/api/v1"
	"github.com/droverhq/drover/test/drover"
)

func TestMain(m *testing.M) {
	for _, v := range os.Environ() { // the settings of whoever runs the tests are not theirs
		if name, _, _ := strings.Cut(v, "="); strings.HasPrefix(name, "DROVER_") && !strings.HasPrefix(name, "DROVER_TEST_") {
			os.Unsetenv(name)
		}
	}
	code := m.Run()
	endKeycloak()
	os.Exit(code)
}

// phase of an instance, or what kept it from being read.
func phase(c *client.Client, name string) string {
	o, err := c.Get(context.Background(), "dinosaurs", name, "")
	if err != nil {
		return fmt.Sprintf("status %d: %v", client.Status(err), err)
	}
	return o.Phase
}

func awaitPhase(t *testing.T, c *client.Client, name, want string) {
	t.Helper()
	got := ""
	drover.Until(t, name+" to be "+want, func() bool {
		if p := phase(c, name); p != got {
			got = p
			t.Logf("%s: %s", name, got)
		}
		return got == want
	})
}

// order creates an instance and says whether it was acknowledged.
func order(c *client.Client, name string) error {
	_, err := c.Create(context.Background(), "dinosaurs", v1.CreateInstance{Name: name})
	return err
}

func mustOrder(t *testing.T, c *client.Client, name string) {
	t.Helper()
	if err := order(c, name); err != nil {
		t.Fatalf("cannot create %s: %v", name, err)
	}
}

func head(t *testing.T, c *client.Client) v1.Ledger {
	t.Helper()
	l, err := c.Ledger(context.Background())
	if err != nil {
		t.Fatalf("cannot read the ledger's head: %v", err)
	}
	return l
}

// atRest waits until a server that runs a data plane itself has made that one
// ready and has nothing left to do, and returns where its log ends. Among what it
// does then is a change that no API shows: the account of the agent, as the
// built-in issuer keeps it.
func atRest(t *testing.T, s *drover.Server, c *client.Client) int64 {
	t.Helper()
	awaitCluster(t, s, "local")
	drover.Until(t, "the log to rest", func() bool {
		for _, b := range head(t, c).Backlog {
			if b.Due+b.Running > 0 {
				return false
			}
		}
		return true
	})
	return head(t, c).Seq
}

// unmoved checks that no request has changed anything since, audit entries aside:
// who asked is on record, whatever came of it. What agents report is no request.
// What nobody can see must not be there at all.
func unmoved(t *testing.T, c *client.Client, since int64) {
	t.Helper()
	now := head(t, c).Seq
	changes, err := c.Changes(t.Context(), client.ChangeOptions{After: since, Limit: 1000})
	if err != nil {
		t.Fatal(err)
	}
	hidden := now - since
	for _, change := range changes.Items {
		if change.Seq <= now {
			hidden--
		}
		if strings.HasPrefix(change.Cause, "request:") && change.Object.Resource != "audits" {
			t.Errorf("a refused request left %s of %s %q in the log", change.Op, change.Object.Resource, change.Object.Name)
		}
	}
	if hidden > 0 {
		t.Errorf("there are %d changes that nobody can see", hidden)
	}
}

func host(name string) string { return name + ".dinosaurs.localhost" }

// token makes a user's token as an admin does.
func token(t *testing.T, s *drover.Server, args ...string) string {
	t.Helper()
	stdout, stderr, code := s.Run(append([]string{"token"}, args...)...)
	if code != 0 {
		t.Fatalf("cannot make a token: %s", stderr)
	}
	return strings.TrimSpace(stdout)
}

func dial(t *testing.T, server, token string) *client.Client {
	t.Helper()
	c, err := client.New(client.Config{Server: server, Token: token})
	if err != nil {
		t.Fatal(err)
	}
	return c
}

func admin(t *testing.T, s *drover.Server) string {
	t.Helper()
	token, err := s.AdminToken()
	if err != nil {
		t.Fatal(err)
	}
	return token
}

// get reads a URL without a token and decodes its JSON.
func get(t *testing.T, url string, into any) {
	t.Helper()
	a := drover.Must(t, drover.Request{Method: http.MethodGet, URL: url})
	if a.Status != http.StatusOK {
		t.Fatalf("GET %s: status %d: %s", url, a.Status, a.Body)
	}
	if err := json.Unmarshal(a.Body, into); err != nil {
		t.Fatalf("GET %s: %v", url, err)
	}
}

func decode(t *testing.T, a drover.Answer, into any) {
	t.Helper()
	if err := json.Unmarshal(a.Body, into); err != nil {
		t.Fatalf("status %d: %v: %s", a.Status, err, a.Body)
	}
}
