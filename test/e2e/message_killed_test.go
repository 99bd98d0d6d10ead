package e2e

import (
	"fmt"
	"testing"

	amqp "github.com/rabbitmq/amqp091-go"

	"github.com/droverhq/drover/api/client"
	"github.com/droverhq/drover/test/drover"
	"github.com/droverhq/drover/test/rabbitmq"
)

// orders sends commands that make an environment each, and returns once the broker has
// confirmed all of them.
func (b *broker) orders(t *testing.T, token string, ids []string) {
	t.Helper()
	b.post(t, token, ids)()
}

// post is orders that waits for the broker when it is told to.
func (b *broker) post(t *testing.T, token string, ids []string) (confirmed func()) {
	t.Helper()
	var bodies [][]byte
	for _, id := range ids {
		bodies = append(bodies, request(id, "environment.create", "", fmt.Sprintf(`{"name":%q,"template":"booth"}`, id)))
	}
	return b.ship(t, token, bodies)
}

// ship sends commands, one right after the other.
func (b *broker) ship(t *testing.T, token string, bodies [][]byte) (confirmed func()) {
	t.Helper()
	ch := rabbitmq.Channel(t, b.URL)
	if err := ch.Confirm(false); err != nil {
		t.Fatal(err)
	}
	var sent []*amqp.DeferredConfirmation
	publish := func(body []byte) *amqp.DeferredConfirmation {
		t.Helper()
		sure, err := ch.PublishWithDeferredConfirm("", "drover.commands", false, false, amqp.Publishing{
			ReplyTo: b.reply, Body: body, DeliveryMode: amqp.Persistent, Headers: amqp.Table{"authorization": "Bearer " + token}})
		if err != nil {
			t.Fatal(err)
		}
		return sure
	}
	for _, body := range bodies {
		sent = append(sent, publish(body))
	}
	return func() {
		t.Helper()
		for i, sure := range sent {
			if !sure.Wait() { // a queue that was just made may refuse at first
				drover.Until(t, "the broker to keep a command", func() bool { return publish(bodies[i]).Wait() })
			}
		}
	}
}

// exactly holds that there are so many environments and commands, and no more.
func (b *broker) exactly(t *testing.T, n int, more ...int) {
	t.Helper()
	for _, resource := range []string{"environments", "commands"} {
		n := n
		if resource == "commands" {
			for _, m := range more {
				n += m
			}
		}
		page, err := b.s.Client(t).List(t.Context(), resource, client.ListOptions{Size: 1})
		if err != nil || int(page.Total) != n {
			t.Errorf("there are %d %s of %d, %v", page.Total, resource, n, err)
		}
	}
}

// numbered are ids.
func numbered(prefix string, n int) (ids []string) {
	for i := range n {
		ids = append(ids, fmt.Sprintf("%s-%03d", prefix, i))
	}
	return ids
}

// The broker is killed while hundreds of commands that it has confirmed are under way,
// and so is the server a moment after it is back: each is done once, and its sender
// hears so.
func TestTheBrokerIsKilledAmongCommands(t *testing.T) {
	b := onBroker(t)
	goes(t, b.s, "template", "add", put(t, t.TempDir(), map[string]string{"template.yaml": booth, "ring.sh": "#!/bin/sh\n"}))
	admin, err := b.s.AdminToken()
	if err != nil {
		t.Fatal(err)
	}
	in := b.inbox(t, "answers-of-admin")
	b.reply = in.queue
	b.ready(t)
	const many = 200
	var ids []string
	for open := 0; open == 0; { // until the kill meets some that are not taken yet
		more := numbered(fmt.Sprintf("env-%d", len(ids)/many), many)
		if ids = append(ids, more...); len(ids) > 5*many {
			t.Fatal("all commands are taken before the broker can be killed: that shows nothing")
		}
		b.KillAfter(t, func() {
			b.orders(t, admin, more)
			in.some(t, "accepted", more, 5)
		})
		open = len(in.missing(more, "accepted"))
		t.Logf("%d of %d commands were not known to be taken when the broker was killed", open, many)
		b.Server.Start(t)
		in.listen(t, b.URL)
	}
	in.some(t, "accepted", ids[len(ids)-many:], many/4)
	b.s.Kill()
	t.Logf("%d commands were not known to be done when the server was killed", len(in.missing(ids, "done")))
	b.s.Start(t)
	in.hear(t, "done", ids...)
	b.exactly(t, len(ids))
	for _, id := range ids[:3] {
		awaitEnvironment(t, b.s.Client(t), id, "Deployed-OK")
	}
	if out, _, _ := b.s.Run("bus", "dlq", "list"); len(in.missing(ids, "rejected")) < len(ids) {
		t.Errorf("some were refused\n%s", out)
	}
	drover.Until(t, "the queue to be empty", func() bool {
		q, err := rabbitmq.Channel(t, b.URL).QueueDeclarePassive("drover.commands", true, false, false, false, nil)
		return err == nil && q.Messages == 0
	})
}
