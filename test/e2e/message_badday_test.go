package e2e

import (
	"encoding/json"
	"fmt"
	"regexp"
	"strconv"
	"strings"
	"testing"
	"time"

	amqp "github.com/rabbitmq/amqp091-go"

	"github.com/droverhq/drover/api/client"
	v1 "github.com/droverhq/drover/api/v1"
	"github.com/droverhq/drover/test/drover"
	"github.com/droverhq/drover/test/rabbitmq"
	"github.com/droverhq/drover/test/toxiproxy"
)

// badDay is a control plane that reaches its broker through a network that may be bad.
type badDay struct {
	*broker
	proxy *toxiproxy.Proxy
	admin string
	in    *inbox
	made  int // environments that commands have made

	commands int // that have made none
}

// What may happen to a broker, with a control plane that works on it: nothing is lost
// that was confirmed and kept, nothing is done twice, and every sender is told.
func TestBadDaysOfABroker(t *testing.T) {
	r := rabbitmq.Start(t)
	p := toxiproxy.Start(t).Proxy(t, r.Addr)
	d := &badDay{proxy: p, broker: aboveBroker(t, r, func(url string) string { return strings.Replace(url, r.Addr, p.Addr, 1) })}
	goes(t, d.s, "template", "add", put(t, t.TempDir(), map[string]string{"template.yaml": booth, "ring.sh": "#!/bin/sh\n"}))
	var err error
	if d.admin, err = d.s.AdminToken(); err != nil {
		t.Fatal(err)
	}
	d.in = d.inbox(t, "answers-of-admin")
	d.reply = d.in.queue
	d.ready(t)
	for _, day := range []struct {
		reason string
		run    func(*testing.T, *badDay)
	}{
		{"its disk alarm is on", diskAlarm},
		{"the queue of commands is deleted", queueDeleted},
		{"connections are cut in the middle of frames", connectionsCut},
		{"a hundred thousand commands come at once", hundredThousand},
	} {
		t.Run(day.reason, func(t *testing.T) {
			day.run(t, d)
			d.exactly(t, d.made, d.commands)
		})
	}
}

// order sends commands that make an environment each.
func (d *badDay) order(t *testing.T, ids []string) {
	t.Helper()
	d.orders(t, d.admin, ids)
	d.made += len(ids)
}

// While the broker takes nothing, REST goes on and the doctor says so; then all is told.
func diskAlarm(t *testing.T, d *badDay) {
	events := rabbitmq.Follow(t, d.URL, "drover.events", "*.instance.#")
	d.order(t, []string{"before"})
	d.in.hear(t, "done", "before")
	d.Alarm(t)
	defer d.Calm(t)
	goes(t, d.s, "create", "dinosaur", "rex", "--wait", "--timeout", "4m")
	drover.Until(t, "the doctor to say that the broker takes nothing", func() bool {
		out, _, code := d.s.Run("doctor")
		return code == 7 && strings.Contains(out, "CRITICAL  the broker takes no messages")
	})
	confirmed := d.post(t, d.admin, []string{"during"}) // which the broker does not read before the alarm is over
	d.made++
	d.Calm(t)
	confirmed()
	d.in.hear(t, "done", "during")
	for ready := false; !ready; {
		select {
		case e := <-events:
			ready = strings.Contains(string(e.Body), `"phase":"ready"`)
		case <-time.After(drover.Patience):
			t.Fatal("what happened while the alarm was on is not told")
		}
	}
	drover.Until(t, "the doctor to be content with the broker", func() bool {
		out, _, _ := d.s.Run("doctor")
		return !strings.Contains(out, "the broker")
	})
}

// The queue of commands is deleted while they are taken, and while some lie in it: it
// comes back by itself. Those are gone, their sender is told, also where no server ran, and
// sent again they are done, once.
func queueDeleted(t *testing.T, d *badDay) {
	d.order(t, []string{"before-deletion"})
	d.in.hear(t, "done", "before-deletion")
	d.DeleteQueue(t, "drover.commands")
	d.ready(t)
	told := func(times int) {
		drover.Until(t, "the sender to be told", func() bool { return len(d.in.said("")) >= times })
		if n := len(d.in.said("")); n != times {
			t.Errorf("the sender is told %d times of %d", n, times)
		}
		if a := d.in.hear(t, "lost", ""); a.Code != "queue-deleted" || !strings.Contains(a.Reason, "send again, with the same ids") {
			t.Errorf("the sender hears %+v", a)
		}
	}
	told(1)
	drover.Until(t, "whoever runs the server to be told", func() bool {
		out, _, code := d.s.Run("doctor")
		return code == 7 && strings.Contains(out, "the queue drover.commands was not there any more") && strings.Contains(d.s.Log(), "level=WARN") &&
			strings.Contains(d.s.Log(), "queue=drover.commands")
	})
	d.order(t, []string{"after-deletion"})
	d.in.hear(t, "done", "after-deletion")
	known := []string{"known-0", "known-1"}
	d.order(t, known)
	d.in.hear(t, "done", known...)
	d.s.Kill()
	lost := numbered("lost", 3)
	d.orders(t, d.admin, lost)
	d.DeleteQueue(t, "drover.commands")
	d.s.Start(t)
	d.ready(t)
	told(2)
	d.order(t, lost)
	d.orders(t, d.admin, known) // whose sender is not sure either
	d.in.hear(t, "done", lost...)
}

// cuts is how many things are made while connections are cut.
const cuts = 300

// described is how often descriptions that begin so were given to environments, by the log
// after a change.
func described(t *testing.T, d *badDay, after int64, begin string) map[string]int {
	t.Helper()
	times, last := map[string]int{}, map[string]int64{}
	for {
		a := drover.Must(t, drover.Request{URL: fmt.Sprintf("%s/api/v1/changes?kind=environment&limit=1000&after=%d", d.s.URL(), after), Token: d.admin})
		var page v1.Changes
		decode(t, a, &page)
		for _, c := range page.Items {
			var spec struct{ Description string }
			if err := json.Unmarshal(c.Object.Spec, &spec); err != nil {
				t.Fatal(err)
			}
			if strings.HasPrefix(spec.Description, begin) && c.Object.Generation != last[c.Object.ID] {
				times[spec.Description]++
			}
			last[c.Object.ID] = c.Object.Generation
		}
		if page.Next <= after {
			return times
		}
		after = page.Next
	}
}

// Every connection of the control plane ends after so many bytes, wherever that is in
// what is said: as many things are made as were ordered, and each sender hears so.
func connectionsCut(t *testing.T, d *badDay) {
	before := d.connected(t)
	remove := d.proxy.Add(t, toxiproxy.Cut(40_001))
	ids := numbered("cut", cuts)
	d.order(t, ids)
	d.in.hear(t, "done", ids...)
	remove()
	if n := d.connected(t) - before; n < 3 {
		t.Errorf("only %d connections were made anew: that shows nothing", n)
	}
}

var toBroker = regexp.MustCompile(`(?m)^drover_call_duration_seconds_count\{[^}]*to="the broker"[^}]*\} (\d+)`)

// connected is how often the control plane has connected to its broker.
func (d *badDay) connected(t *testing.T) (n int) {
	t.Helper()
	a, err := drover.Ask(drover.Request{URL: d.s.URL() + "/metrics", Token: d.admin})
	if err != nil {
		t.Fatal(err)
	}
	for _, m := range toBroker.FindAllStringSubmatch(string(a.Body), -1) {
		one, _ := strconv.Atoi(m[1])
		n += one
	}
	return n
}

// A hundred thousand messages come at once: those that ask for something get it, each once
// although most come twice, and everybody else is told: what nobody may, and what was done
// before.
func hundredThousand(t *testing.T, d *badDay) {
	const (
		all, each = 100_000, 1000 // of so many one makes something, and one came before
		changes   = 30            // of them change something that is there, and as many say the same once more
	)
	begin := head(t, d.s.Client(t)).Seq
	ch := rabbitmq.Channel(t, d.URL)
	q, err := ch.QueueDeclare("flood", true, false, false, false, nil)
	if err != nil {
		t.Fatal(err)
	}
	in := d.inbox(t, q.Name)
	if err := ch.Confirm(false); err != nil {
		t.Fatal(err)
	}
	var news, olds, changed, refused []string
	began := time.Now()
	var sure *amqp.DeferredConfirmation
	for i := range all {
		m := amqp.Publishing{ReplyTo: q.Name, DeliveryMode: amqp.Persistent, Headers: amqp.Table{"authorization": "Bearer " + d.admin}}
		id := fmt.Sprintf("flood-%d", i)
		change := func(n int) { // in turns, so that no two of one thing are under way at a time
			id = fmt.Sprintf("change-%04d", n)
			m.Body = request(id, "environment.extend", fmt.Sprintf("cut-%03d", n%cuts), fmt.Sprintf(`{"description":%q}`, id))
		}
		switch at := i % each; {
		case at == 0:
			news = append(news, id)
		case at == 1:
			id = fmt.Sprintf("cut-%03d", len(olds))
			olds = append(olds, id)
		case at < 2+changes:
			change(len(changed))
			changed = append(changed, id)
		case at < 2+2*changes:
			change(len(changed) - changes + at - 2 - changes)
		default:
			m.Headers["authorization"] = "Bearer nobody's"
			refused = append(refused, id)
		}
		if m.Body == nil {
			m.Body = request(id, "environment.create", "", fmt.Sprintf(`{"name":%q,"template":"booth"}`, id))
		}
		if sure, err = ch.PublishWithDeferredConfirm("", "drover.commands", false, false, m); err != nil {
			t.Fatal(err)
		}
	}
	if !sure.Wait() {
		t.Fatal("the broker did not confirm")
	}
	d.made += len(news)
	t.Logf("sent within %s", time.Since(began).Round(time.Second))
	in.hear(t, "rejected", refused...)
	in.hear(t, "done", olds...)
	in.hear(t, "done", news...)
	in.hear(t, "done", changed...)
	t.Logf("answered within %s", time.Since(began).Round(time.Second))
	d.commands += len(changed)
	drover.Until(t, "nothing to be left in the queue", func() bool {
		q, err := ch.QueueDeclarePassive("drover.commands", true, false, false, false, nil)
		return err == nil && q.Messages == 0
	})
	if got := described(t, d, begin, "change-"); len(got) != len(changed) {
		t.Errorf("%d things were changed of %d", len(got), len(changed))
	} else {
		for id, times := range got {
			if times != 1 {
				t.Errorf("%s was done %d times", id, times)
			}
		}
	}
	if left, err := d.s.Client(t).List(t.Context(), "operations", client.ListOptions{Size: 1, Search: "phase = 'running'"}); err != nil || left.Total > 0 {
		t.Errorf("%d operations are left, %v", left.Total, err)
	}
}
