package e2e

import (
	"fmt"
	"net/http"
	"strings"
	"testing"

	amqp "github.com/rabbitmq/amqp091-go"

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
	drover.Until(t, "the refusal to be in the log", func() bool { // its sender hears of it first
		return strings.Contains(b.s.Log(), `msg="message refused" outcome=denied message=expired`)
	})
	if strings.Contains(b.s.Log(), short) {
		t.Error("the token that has expired is in the log")
	}
}

// Five copies of each message come at the same time: each is done once, and each copy is
// answered.
func TestCopiesAtTheSameTime(t *testing.T) {
	b := onBroker(t)
	alice := token(t, b.s, "--org", "acme", "--user", "alice")
	in := b.inbox(t, "answers-of-alice")
	b.reply = in.queue
	b.ready(t)
	const orders, copies = 20, 5
	var ids []string
	for i := range orders {
		id := fmt.Sprintf("order-%d", i)
		ids = append(ids, id)
		for range copies {
			b.send(t, alice, request(id, "instance.create", "dinosaurs", fmt.Sprintf(`{"name":"dino-%d"}`, i)))
		}
	}
	in.hear(t, "done", ids...)
	for _, id := range ids {
		drover.Until(t, "each copy of "+id+" to be answered", func() bool {
			n := 0
			for _, word := range in.said(id) {
				if word == "accepted" || word == "done" {
					n++
				}
			}
			return n == 2+copies-1 // the log says each once, and every further copy hears one of them
		})
	}
	for _, resource := range []string{"dinosaurs", "commands", "operations"} {
		all, err := dial(t, b.s.URL(), alice).List(t.Context(), resource, client.ListOptions{Size: 100})
		if err != nil || len(all.Items) != orders {
			t.Errorf("there are %d %s, %v", len(all.Items), resource, err)
		}
	}
}

// A command that has expired while no server was there is not done, and its sender hears so
// from the next server; what was sent beside it is done.
func TestAnExpiredCommandIsAnswered(t *testing.T) {
	b := onBroker(t)
	alice := token(t, b.s, "--org", "acme", "--user", "alice")
	b.ready(t)
	b.s.Stop()
	for _, id := range []string{"stale", "fresh"} { // in this order: only what is next in a queue expires
		expires := map[string]string{"stale": "1"}[id]
		m := amqp.Publishing{ReplyTo: b.reply, Body: request(id, "instance.create", "dinosaurs", fmt.Sprintf(`{"name":%q}`, id)), DeliveryMode: amqp.Persistent, Expiration: expires,
			Headers: amqp.Table{"authorization": "Bearer " + alice}}
		sure, err := b.channel.PublishWithDeferredConfirm("", "drover.commands", false, false, m)
		if err != nil || !sure.Wait() {
			t.Fatal(err)
		}
		if expires != "" {
			drover.Until(t, "it to be put aside", func() bool {
				q, err := b.channel.QueueDeclarePassive("drover.dead", true, false, false, false, nil)
				return err == nil && q.Messages == 1
			})
		}
	}
	b.s.Start(t)
	if a := b.refused(t, "stale"); a.Code != "put-aside" || !strings.Contains(a.Reason, "expired") {
		t.Errorf("its sender hears %+v", a)
	}
	c := dial(t, b.s.URL(), alice)
	awaitPhase(t, c, "fresh", "ready")
	if all, err := c.List(t.Context(), "dinosaurs", client.ListOptions{}); err != nil || len(all.Items) != 1 {
		t.Errorf("there are %+v, %v", all.Items, err)
	}
}
