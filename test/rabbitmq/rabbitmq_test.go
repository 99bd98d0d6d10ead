package rabbitmq_test

import (
	"testing"
	"time"

	amqp "github.com/rabbitmq/amqp091-go"

	"github.com/droverhq/drover/test/rabbitmq"
)

func TestNodeKeepsItsMessagesWhenKilled(t *testing.T) {
	s := rabbitmq.Own(t)
	ch := rabbitmq.Channel(t, s.URL)
	if _, err := ch.QueueDeclare("kept", true, false, false, false, amqp.Table{"x-queue-type": "quorum"}); err != nil {
		t.Fatal(err)
	}
	if err := ch.Confirm(false); err != nil {
		t.Fatal(err)
	}
	sure, err := ch.PublishWithDeferredConfirm("", "kept", false, false, amqp.Publishing{Body: []byte("here"), DeliveryMode: amqp.Persistent})
	if err != nil || !sure.Wait() {
		t.Fatalf("not confirmed: %v", err)
	}
	s.Kill(t)
	if c, err := amqp.Dial(s.URL); err == nil {
		c.Close()
		t.Fatal("the killed node answers")
	}
	s.Start(t)
	// Not by a get, which does not wait until the queue has a leader again.
	in, err := rabbitmq.Channel(t, s.URL).Consume("kept", "", true, false, false, false, nil)
	if err != nil {
		t.Fatal(err)
	}
	if got := <-in; string(got.Body) != "here" {
		t.Fatalf("got %q", got.Body)
	}
	s.DeleteQueue(t, "kept")
	if _, err := rabbitmq.Channel(t, s.URL).QueueDeclarePassive("kept", true, false, false, false, nil); err == nil {
		t.Error("the deleted queue is there")
	}
}

func TestAlarmBlocksWhoPublishes(t *testing.T) {
	s := rabbitmq.Own(t)
	c, err := amqp.Dial(s.URL)
	if err != nil {
		t.Fatal("the broker cannot be reached")
	}
	defer c.CloseDeadline(time.Now().Add(time.Second))
	blocked := c.NotifyBlocked(make(chan amqp.Blocking, 2))
	ch, err := c.Channel()
	if err != nil {
		t.Fatal(err)
	}
	s.Alarm(t)
	// Connections hear of an alarm a moment after the operator, and tell who publishes then.
	for len(blocked) == 0 {
		if err := ch.Publish("", "nowhere", false, false, amqp.Publishing{}); err != nil {
			t.Fatal(err)
		}
		time.Sleep(10 * time.Millisecond)
	}
	if b := <-blocked; !b.Active {
		t.Error("not blocked")
	}
	s.Calm(t)
	if b := <-blocked; b.Active {
		t.Error("still blocked")
	}
}
