package e2e

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	amqp "github.com/rabbitmq/amqp091-go"

	"github.com/droverhq/drover/api/client"
	v1 "github.com/droverhq/drover/api/v1"
	"github.com/droverhq/drover/test/drover"
	"github.com/droverhq/drover/test/postgres"
	"github.com/droverhq/drover/test/rabbitmq"
)

// A command fails because the database refuses what it writes, and is put aside without
// its token. Once somebody has mended that, it is brought back and done, and nobody can
// have done anything else with what lay there.
func TestWhatWasPutAsideIsDoneLater(t *testing.T) {
	dsn := postgres.Database(t)
	b := onBroker(t, "--database", dsn)
	alice := token(t, b.s, "--org", "acme", "--user", "alice")
	b.ready(t)
	postgres.Exec(t, dsn, `CREATE FUNCTION refuse() RETURNS trigger LANGUAGE plpgsql AS 'BEGIN RAISE EXCEPTION ''no room for %'', NEW.name; END'`)
	postgres.Exec(t, dsn, `CREATE TRIGGER refuse BEFORE INSERT ON object_instance FOR EACH ROW WHEN (NEW.name = 'rex') EXECUTE FUNCTION refuse()`)
	order := request("order-1", "instance.create", "dinosaurs", `{"name":"rex"}`)
	ch := rabbitmq.Channel(t, b.URL)
	send := func(headers amqp.Table, body []byte) {
		t.Helper()
		if err := ch.PublishWithContext(t.Context(), "", "drover.commands", true, false, amqp.Publishing{ReplyTo: b.reply, Body: body, DeliveryMode: amqp.Persistent, Headers: headers}); err != nil {
			t.Fatal(err)
		}
	}
	// It says that it has failed nine times, which would take a minute.
	send(amqp.Table{"authorization": "Bearer " + alice, "x-drover-later-failed": int64(9)}, order)
	if a := b.refused(t, "order-1"); a.Code != "failed" || !strings.Contains(a.Reason, "put aside") || strings.Contains(a.Reason, "room") {
		t.Errorf("its sender hears %+v", a)
	}
	aside := func() (list v1.RejectedMessages) {
		t.Helper()
		if err := json.Unmarshal([]byte(goes(t, b.s, "bus", "dlq", "list", "-o", "json")), &list); err != nil {
			t.Fatal(err)
		}
		return list
	}
	drover.Until(t, "it to be put aside", func() bool { return len(aside().Items) == 1 })
	key := aside().Items[0].Key
	if show := goes(t, b.s, "bus", "dlq", "show", key); strings.Contains(show, alice) || !strings.Contains(show, "order-1") {
		t.Errorf("it is shown as %s", show)
	}

	// Whoever reads the queue has nothing that works beside anything else.
	var sealed any
	drover.Until(t, "nobody else to look at it", func() bool {
		d, there, err := ch.Get("drover.dead", false)
		if err != nil {
			t.Fatal(err)
		}
		if !there {
			return false
		}
		if text := fmt.Sprint(d.Headers) + string(d.Body); strings.Contains(text, alice) {
			t.Errorf("its token is in the queue: %s", text)
		}
		sealed = d.Headers["x-drover-sealed-authorization"]
		if err := d.Nack(false, true); err != nil {
			t.Fatal(err)
		}
		return true
	})
	if text, _ := sealed.(string); text == "" {
		t.Fatalf("its token is sealed as %v", sealed)
	}
	send(amqp.Table{"x-drover-sealed-authorization": sealed}, request("stolen", "instance.create", "dinosaurs", `{"name":"stolen"}`))
	if a := b.refused(t, "stolen"); a.Code != "token" {
		t.Errorf("with a token that is sealed for something else: %+v", a)
	}

	postgres.Exec(t, dsn, `DROP TRIGGER refuse ON object_instance`)
	goes(t, b.s, "bus", "dlq", "retry", key)
	accepted, done := b.hear(t, "order-1", "accepted"), b.hear(t, "order-1", "done")
	if accepted.Object == "" || accepted.Object != done.Object {
		t.Errorf("accepted as %+v, done as %+v", accepted, done)
	}
	if list := aside(); len(list.Items) != 0 {
		t.Errorf("still put aside are %+v", list.Items)
	}
	q, err := rabbitmq.Channel(t, b.URL).QueueDeclarePassive("drover.dead", true, false, false, false, nil)
	if err != nil || q.Messages != 0 {
		t.Errorf("%d messages lie where those are that were put aside, %v", q.Messages, err)
	}
	b.send(t, alice, order) // by its sender, who has not heard of that
	if again := b.hear(t, "order-1", "done"); again.Object != done.Object {
		t.Errorf("the second time it is %+v", again)
	}
	all, err := dial(t, b.s.URL(), alice).List(t.Context(), "dinosaurs", client.ListOptions{})
	if err != nil || len(all.Items) != 1 || all.Items[0].Owner != "alice" || all.Items[0].Phase != "ready" {
		t.Errorf("there are %+v, %v", all.Items, err)
	}
}
