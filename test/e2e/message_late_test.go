package e2e

import (
	"net/http"
	"strings"
	"testing"

	"github.com/droverhq/drover/api/client"
	"github.com/droverhq/drover/test/drover"
)

// Messages come late, twice and in another order than they were sent in: each does what
// it says to what there is then, and what was done once is not done again.
func TestLateMessages(t *testing.T) {
	b := onBroker(t)
	alice := token(t, b.s, "--org", "acme", "--user", "alice")
	there := func() int {
		t.Helper()
		all, err := dial(t, b.s.URL(), alice).List(t.Context(), "dinosaurs", client.ListOptions{})
		if err != nil {
			t.Fatal(err)
		}
		return len(all.Items)
	}
	create, remove := request("create", "instance.create", "dinosaurs", `{"name":"rex"}`), request("remove", "instance.delete", "dinosaurs/rex", "null")

	b.send(t, alice, request("early", "instance.delete", "dinosaurs/rex", "null"))
	if a := b.refused(t, "early"); !strings.Contains(a.Reason, "rex") {
		t.Errorf("a removal that overtook what it removes: %+v", a)
	}
	b.send(t, alice, create)
	b.hear(t, "create", "done")
	b.send(t, alice, request("early", "instance.delete", "dinosaurs/rex", "null"))
	if a := b.refused(t, "early"); !strings.Contains(a.Reason, "rex") || there() != 1 {
		t.Errorf("what was refused once was done later: %+v, %d", a, there())
	}
	b.send(t, alice, remove)
	b.hear(t, "remove", "done")
	drover.Until(t, "it to be gone", func() bool { return there() == 0 })
	b.send(t, alice, create)
	b.hear(t, "create", "done")
	if n := there(); n != 0 {
		t.Errorf("an order that was delivered once more after the removal: %d dinosaurs", n)
	}

	short := token(t, b.s, "--org", "acme", "--user", "alice", "--ttl", "1s")
	drover.Until(t, "the token to expire", func() bool {
		a, err := drover.Ask(drover.Request{URL: b.s.URL() + "/api/v1/whoami", Token: short})
		return err == nil && a.Status == http.StatusUnauthorized
	})
	b.send(t, short, request("expired", "instance.create", "dinosaurs", `{"name":"late"}`))
	if a := b.refused(t, "expired"); !strings.Contains(a.Reason, "token") || there() != 0 {
		t.Errorf("a token that has expired: %+v, %d", a, there())
	}
	if log := b.s.Log(); !strings.Contains(log, `msg="message refused" outcome=denied message=expired`) || strings.Contains(log, short) {
		t.Error("the token that has expired is not in the log as it should be")
	}
}
