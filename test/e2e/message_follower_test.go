package e2e

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	amqp "github.com/rabbitmq/amqp091-go"

	"github.com/droverhq/drover/api/client"
	v1 "github.com/droverhq/drover/api/v1"
	"github.com/droverhq/drover/test/drover"
	"github.com/droverhq/drover/test/rabbitmq"
	"github.com/droverhq/drover/test/toxiproxy"
)

// follower is a queue of all events that outlives broker and server, and what came there.
type follower struct {
	queue string

	mu    sync.Mutex
	seen  map[string]bool    // ids
	told  map[int64]told     // by sequence
	order map[string][]int64 // of each subject, as they came for the first time
	twice int
	odd   []string
	came  chan struct{}
}

// follower makes one and listens.
func (b *broker) follower(t *testing.T, queue, kind string) *follower {
	t.Helper()
	f := &follower{queue: queue, seen: map[string]bool{}, told: map[int64]told{}, order: map[string][]int64{}, came: make(chan struct{}, 1)}
	ch := rabbitmq.Channel(t, b.URL)
	if _, err := ch.QueueDeclare(queue, true, false, false, false, amqp.Table{"x-queue-type": kind}); err != nil {
		t.Fatal(err)
	}
	if err := ch.QueueBind(queue, "#", "drover.events", false, nil); err != nil {
		t.Fatal(err)
	}
	f.listen(t, b.URL)
	return f
}

// listen takes what comes until the connection ends: once more after the broker was
// killed.
func (f *follower) listen(t *testing.T, url string) {
	t.Helper()
	ch := rabbitmq.Channel(t, url)
	if err := ch.Qos(500, 0, false); err != nil {
		t.Fatal(err)
	}
	all, err := ch.Consume(f.queue, "", false, false, false, false, nil)
	if err != nil {
		t.Fatal(err)
	}
	go func() { // ends with the connection
		for d := range all {
			f.take(d)
			_ = d.Ack(false) // else it comes again, and is known
		}
	}()
}

func (f *follower) take(d amqp.Delivery) {
	f.mu.Lock()
	defer f.mu.Unlock()
	var e told
	err := json.Unmarshal(d.Body, &e)
	seq, bad := strconv.ParseInt(e.Sequence, 10, 64)
	if err != nil || bad != nil || d.MessageId != e.ID || !strings.HasSuffix(e.ID, "-"+e.Sequence) {
		f.odd = append(f.odd, string(d.Body))
		return
	}
	if f.seen[e.ID] {
		f.twice++
		return
	}
	f.seen[e.ID] = true
	f.told[seq] = e
	f.order[e.Subject] = append(f.order[e.Subject], seq)
	select {
	case f.came <- struct{}{}:
	default:
	}
}

// events is how many there were.
func (f *follower) events() int {
	f.mu.Lock()
	defer f.mu.Unlock()
	return len(f.told)
}

// more waits for so many further events.
func (f *follower) more(t *testing.T, n int) {
	t.Helper()
	want := f.events() + n
	for deadline := time.After(drover.Patience); f.events() < want; {
		select {
		case <-f.came:
		case <-deadline:
			t.Fatalf("%s has %d events, and waits for %d", f.queue, f.events(), want)
		}
	}
}

// untold are those of some changes that were not told.
func (f *follower) untold(changes []v1.Change) (out []v1.Change) {
	f.mu.Lock()
	defer f.mu.Unlock()
	for _, c := range changes {
		if _, is := f.told[c.Seq]; !is {
			out = append(out, c)
		}
	}
	return out
}

// holds holds what was told against the log after a sequence: each change is there as it
// is in the log, and of each subject they came in order.
func (f *follower) holds(t *testing.T, c *client.Client, after int64) {
	t.Helper()
	log, end := changesOf(t, c, after)
	open := log
	for deadline := time.After(drover.Patience); ; {
		if open = f.untold(open); len(open) == 0 {
			break
		}
		select {
		case <-f.came:
			continue
		case <-deadline:
		}
		t.Fatalf("%s: %d changes of %d are not told, such as %d: %s of %s/%s", f.queue, len(open), len(log), open[0].Seq, open[0].Op, open[0].Object.Kind, open[0].Object.ID)
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	known := map[int64]bool{}
	for _, c := range log {
		known[c.Seq] = true
		e := f.told[c.Seq]
		var data v1.Change
		if err := json.Unmarshal(e.Data, &data); err != nil {
			t.Fatal(err)
		}
		if want, got := plainly(t, c), plainly(t, data); e.Subject != c.Object.Kind+"/"+c.Object.ID || e.Org != c.Object.Org || !bytes.Equal(want, got) {
			t.Errorf("%s: change %d is told of %s as\n%s\nand is\n%s", f.queue, c.Seq, e.Subject, got, want)
		}
	}
	for seq, e := range f.told {
		if seq > after && seq <= end && !known[seq] {
			t.Errorf("%s: %s %d is told, and the log has no such change", f.queue, e.Type, seq)
		}
	}
	for subject, order := range f.order {
		if !slices.IsSorted(order) {
			t.Errorf("%s: the changes of %s are told in the order %v", f.queue, subject, order)
		}
	}
	for _, odd := range f.odd {
		t.Errorf("%s: this is no event: %s", f.queue, odd)
	}
	t.Logf("%s: %d changes of %d subjects, and %d events twice", f.queue, len(log), len(f.order), f.twice)
}

// changesOf is the log between a sequence and its end now, but for what nobody is told:
// how far others have read it.
func changesOf(t *testing.T, c *client.Client, after int64) (log []v1.Change, end int64) {
	t.Helper()
	end = head(t, c).Seq
	for at := after; at < end; {
		page, err := c.Changes(t.Context(), client.ChangeOptions{After: at, Limit: 1000})
		if err != nil {
			t.Fatal(err)
		}
		for _, change := range page.Items {
			if change.Seq <= end && !(change.Object.Kind == "subscription" && change.Op == "move") {
				log = append(log, change)
			}
		}
		if page.Next <= at {
			t.Fatalf("the log does not go on after %d, and ends at %d", at, end)
		}
		at = page.Next
	}
	return log, end
}

// plainly writes a change so that two that say the same are the same.
func plainly(t *testing.T, c v1.Change) []byte {
	t.Helper()
	text, err := json.Marshal(c)
	var value any
	if err == nil {
		err = json.Unmarshal(text, &value)
	}
	if err == nil {
		text, err = json.Marshal(value) // with its keys in order
	}
	if err != nil {
		t.Fatal(err)
	}
	return text
}

// traffic is instances that are ordered, some at a time, and taken away once they are
// ready.
type traffic struct {
	names  chan string
	asked  int
	ready  atomic.Int64 // so far
	finish func()       // waits until all that was ordered is ready
}

func drive(t *testing.T, c *client.Client) *traffic {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	d := &traffic{names: make(chan string, 10_000)}
	var watcher, drivers sync.WaitGroup
	d.finish = sync.OnceFunc(func() {
		close(d.names)
		drivers.Wait()
		cancel()
		watcher.Wait()
	})
	t.Cleanup(d.finish)
	t.Cleanup(cancel)
	var awaited sync.Map // a channel for each name
	since := head(t, c).Seq
	watcher.Go(func() {
		for change, err := range c.Watch(ctx, client.WatchOptions{After: since, Resource: "dinosaurs"}) {
			if err != nil {
				return // a driver waits in vain, and says so
			}
			if is, there := awaited.Load(change.Object.Name); there && change.Object.Phase == "ready" {
				awaited.Delete(change.Object.Name)
				close(is.(chan struct{}))
			}
		}
	})
	for range 8 {
		drivers.Go(func() {
			for name := range d.names {
				is := make(chan struct{})
				awaited.Store(name, is)
				if err := order(c, name); err != nil {
					t.Errorf("cannot create %s: %v", name, err)
					return
				}
				select {
				case <-is:
					d.ready.Add(1)
				case <-ctx.Done():
					return
				case <-time.After(drover.Patience):
					t.Errorf("%s is %s", name, phase(c, name))
					return
				}
				if _, err := c.Delete(ctx, "dinosaurs", name); err != nil {
					t.Errorf("cannot delete %s: %v", name, err)
					return
				}
			}
		})
	}
	return d
}

// order has so many more made, and does not wait.
func (d *traffic) order(n int) {
	for range n {
		d.asked++
		d.names <- fmt.Sprintf("dino-%d", d.asked)
	}
}

// rest waits until all that was ordered was ready.
func (d *traffic) rest(t *testing.T) {
	t.Helper()
	drover.Until(t, "instances", func() bool { return int(d.ready.Load()) >= d.asked || t.Failed() })
}

// Instances come and go, the broker is killed again and again, and connections to it are
// cut: a queue of whichever kind that was there has every change of the log in the end, in
// order for each subject.
func TestAFollowerIsToldEverything(t *testing.T) {
	r := rabbitmq.Start(t)
	p := toxiproxy.Start(t).Proxy(t, r.Addr)
	d := &badDay{proxy: p, broker: &broker{Server: r}}
	d.s = drover.Serve(t, "--bus", "rabbitmq", "--bus-options", "url="+strings.Replace(r.URL, r.Addr, p.Addr, 1))
	d.admin = admin(t, d.s)
	d.open(t)
	d.ready(t)
	drover.Join(t, d.s.URL(), "edge", d.s.Cluster(t, "edge"), "--runtime", "simulated", "--capacity", "10000")
	awaitCluster(t, d.s, "edge")
	followers := []*follower{d.follower(t, "classic", "classic"), d.follower(t, "quorum", "quorum")}
	c := d.s.Client(t)
	since := head(t, c).Seq
	load := drive(t, c)
	for round, met := 0, 0; met < 2; round++ {
		if round == 5 {
			t.Fatal("all is told before the broker can be killed: that shows nothing")
		}
		var end int64
		d.KillAfter(t, func() {
			load.order(40)
			followers[0].more(t, 100)
			end = head(t, c).Seq
		})
		log, _ := changesOf(t, c, since)
		log = slices.DeleteFunc(log, func(c v1.Change) bool { return c.Seq > end })
		open := len(followers[0].untold(log))
		t.Logf("when the broker was killed %d changes of %d were not told", open, len(log))
		if open > 0 {
			met++
		}
		load.order(10)
		load.rest(t) // nobody waits for the broker
		d.Server.Start(t)
		for _, f := range followers {
			f.listen(t, d.URL)
		}
	}
	before := d.connected(t)
	remove := p.Add(t, toxiproxy.Cut(40_001))
	load.order(40)
	drover.Until(t, "connections to be cut", func() bool { return d.connected(t)-before >= 5 })
	remove()
	load.finish()
	for _, f := range followers {
		f.holds(t, c, since)
	}
}
