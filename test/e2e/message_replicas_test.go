package e2e

import (
	"fmt"
	"regexp"
	"strconv"
	"testing"

	"github.com/droverhq/drover/api/client"
	"github.com/droverhq/drover/test/drover"
	"github.com/droverhq/drover/test/rabbitmq"
)

var commandsTaken = regexp.MustCompile(`(?m)^drover_commands_total\{[^}]*\} (\d+)`)

// tookOf is how many messages a server has taken since it was started.
func tookOf(t *testing.T, s *drover.Server, token string) (n int) {
	t.Helper()
	a, err := drover.Ask(drover.Request{URL: s.URL() + "/metrics", Token: token})
	if err != nil {
		t.Fatal(err)
	}
	for _, m := range commandsTaken.FindAllStringSubmatch(string(a.Body), -1) {
		one, _ := strconv.Atoi(m[1])
		n += one
	}
	return n
}

// Two servers take commands from one queue, of which copies come at the same time, and
// first one of the servers and then the other is killed among them: each is done once,
// each copy is answered, and every change is told.
func TestTwoServersTakeCommands(t *testing.T) {
	r := rabbitmq.Start(t)
	one, two := pair(t, "--bus", "rabbitmq", "--bus-options", "url="+r.URL)
	b := &broker{Server: r, s: one}
	b.open(t)
	b.ready(t)
	drover.Join(t, two.URL(), "edge", one.Cluster(t, "edge"), "--runtime", "simulated", "--capacity", "10000", "--heartbeat", "1s")
	awaitCluster(t, one, "edge")
	sender := admin(t, one)
	in := b.inbox(t, "answers-of-admin")
	b.reply = in.queue
	f := b.follower(t, "audit", "quorum")
	since := head(t, one.Client(t)).Seq

	const copies = 4
	var made int
	send := func(ids []string) {
		t.Helper()
		var bodies [][]byte
		for _, id := range ids {
			for range copies { // one right after the other: both servers have some of them
				bodies = append(bodies, request(id, "instance.create", "dinosaurs", fmt.Sprintf(`{"name":%q}`, id)))
			}
		}
		made += len(ids)
		b.ship(t, sender, bodies)()
	}
	answered := func(id string) (n int) {
		for _, word := range in.said(id) {
			if word == "accepted" || word == "done" {
				n++
			}
		}
		return n
	}
	calm := numbered("calm", 40)
	send(calm)
	in.hear(t, "done", calm...)
	for _, id := range calm {
		drover.Until(t, "each copy of "+id+" to be answered", func() bool { return answered(id) >= 2+copies-1 })
		if n := answered(id); n != 2+copies-1 { // the log says each once, and every further copy hears one of them
			t.Errorf("of %s is said %v", id, in.said(id))
		}
	}
	drover.Until(t, "all to be counted", func() bool { return tookOf(t, one, sender)+tookOf(t, two, sender) == copies*len(calm) })
	if a, b := tookOf(t, one, sender), tookOf(t, two, sender); a == 0 || b == 0 {
		t.Errorf("one server took %d messages and the other %d: that shows nothing", a, b)
	}

	var ids []string
	for _, killed := range []*drover.Server{one, two} {
		more := numbered(fmt.Sprintf("kill-%d", len(ids)), 100)
		ids = append(ids, more...)
		send(more)
		in.some(t, "accepted", more, 5)
		killed.Kill()
		t.Logf("%d of %d commands were not known to be taken when a server was killed, and %d not to be done",
			len(in.missing(more, "accepted")), len(more), len(in.missing(more, "done")))
		if len(in.missing(more, "done")) == 0 {
			t.Error("all were done before a server could be killed: that shows nothing")
		}
		in.hear(t, "accepted", more...) // the other goes on
		killed.Start(t)
	}
	in.hear(t, "done", ids...)
	for _, id := range ids { // what a server had answered and not acknowledged is answered again
		drover.Until(t, "each copy of "+id+" to be answered", func() bool { return answered(id) >= 2+copies-1 })
	}
	if all := append(calm, ids...); len(in.missing(all, "rejected")) < len(all) || len(in.missing(all, "failed")) < len(all) {
		t.Error("some were refused, or failed")
	}
	c := two.Client(t)
	for _, resource := range []string{"dinosaurs", "commands", "operations"} {
		page, err := c.List(t.Context(), resource, client.ListOptions{Size: 1})
		if err != nil || int(page.Total) != made {
			t.Errorf("there are %d %s of %d, %v", page.Total, resource, made, err)
		}
	}
	for _, queue := range []string{"drover.commands", "drover.commands.later", "drover.dead"} {
		drover.Until(t, queue+" to be empty", func() bool {
			q, err := rabbitmq.Channel(t, b.URL).QueueDeclarePassive(queue, true, false, false, false, nil)
			return err == nil && q.Messages == 0
		})
	}
	f.holds(t, c, since)
}
