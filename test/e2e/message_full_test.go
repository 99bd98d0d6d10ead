package e2e

import (
	"encoding/json"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	amqp "github.com/rabbitmq/amqp091-go"

	v1 "github.com/droverhq/drover/api/v1"
	"github.com/droverhq/drover/test/drover"
	"github.com/droverhq/drover/test/rabbitmq"
)

// A follower's queue is full and refuses events: commands are carried out and answered
// all the same. Once it is purged, everything is told in order.
func TestAFollowersQueueIsFull(t *testing.T) {
	b := onBroker(t)
	tenant := token(t, b.s, "--org", "acme", "--user", "alice")
	b.ready(t)
	const most = 1000 // more than there will be events
	ch := rabbitmq.Channel(t, b.URL)
	if _, err := ch.QueueDeclare("full", true, false, false, false, amqp.Table{"x-max-length": most, "x-overflow": "reject-publish"}); err != nil {
		t.Fatal(err)
	}
	if err := ch.Confirm(false); err != nil {
		t.Fatal(err)
	}
	for refused := false; !refused; { // until it takes no more
		var sure *amqp.DeferredConfirmation
		for range most {
			var err error
			if sure, err = ch.PublishWithDeferredConfirm("", "full", false, false, amqp.Publishing{Body: []byte("fodder")}); err != nil {
				t.Fatal(err)
			}
		}
		refused = !sure.Wait()
	}
	if _, err := ch.QueueDeclare("audit", true, false, false, false, nil); err != nil { // which has room
		t.Fatal(err)
	}
	for _, queue := range []string{"full", "audit"} {
		if err := ch.QueueBind(queue, "#", "drover.events", false, nil); err != nil {
			t.Fatal(err)
		}
	}
	in := b.inbox(t, "answers-of-alice")
	b.reply = in.queue
	var ids []string
	for i := range 20 {
		id := fmt.Sprintf("order-%d", i)
		ids = append(ids, id)
		b.send(t, tenant, request(id, "instance.create", "dinosaurs", fmt.Sprintf(`{"name":"dino-%d"}`, i)))
	}
	in.hear(t, "done", ids...)
	for _, id := range ids {
		if said := in.said(id); said[0] != "accepted" || said[len(said)-1] != "done" {
			t.Errorf("of %s is said %v", id, said)
		}
	}
	drover.Until(t, "the doctor to say that events are held up", func() bool {
		out, _, _ := b.s.Run("doctor")
		return strings.Contains(out, "refuses events: all its followers wait")
	})
	bus, err := b.s.Client(t).Get(t.Context(), "subscriptions", "bus", "")
	if err != nil || bus.Phase != "failing" {
		t.Errorf("the subscription is %s, %v", bus.Phase, err)
	}
	if _, err := ch.QueuePurge("full", false); err != nil {
		t.Fatal(err)
	}
	audit, err := rabbitmq.Channel(t, b.URL).Consume("audit", "", true, false, false, false, nil)
	if err != nil {
		t.Fatal(err)
	}
	ready, last := map[string]bool{}, int64(0)
	seen := map[string]bool{}
	for deadline := time.After(drover.Patience); len(ready) < len(ids); {
		var e told
		var change v1.Change
		var d amqp.Delivery
		select {
		case d = <-audit:
		case <-deadline:
			t.Fatalf("of %d instances %d are told to be ready", len(ids), len(ready))
		}
		if err := json.Unmarshal(d.Body, &e); err != nil {
			t.Fatal(err)
		}
		if seen[e.ID] {
			continue // it was refused by the other, and came again
		}
		seen[e.ID] = true
		seq, _ := strconv.ParseInt(e.Sequence, 10, 64)
		if seq <= last {
			t.Errorf("%d came after %d", seq, last)
		}
		last = seq
		if err := json.Unmarshal(e.Data, &change); err != nil {
			t.Fatal(err)
		}
		if change.Object.Kind == "instance" && change.Object.Phase == "ready" {
			ready[change.Object.Name] = true
		}
	}
	drover.Until(t, "the subscription to be active", func() bool {
		bus, err := b.s.Client(t).Get(t.Context(), "subscriptions", "bus", "")
		return err == nil && bus.Phase == "active"
	})
	var full []string // what it has missed is there, too
	for {
		d, ok, err := ch.Get("full", true)
		if err != nil {
			t.Fatal(err)
		}
		if !ok {
			break
		}
		var e told
		if err := json.Unmarshal(d.Body, &e); err != nil {
			t.Fatalf("%v: %s", err, d.Body)
		}
		if e.Type == "dev.drover.command.done" && !slices.Contains(full, e.Subject) {
			full = append(full, e.Subject)
		}
	}
	if len(full) != len(ids) {
		t.Errorf("the queue that was full hears of %d commands of %d", len(full), len(ids))
	}
}
