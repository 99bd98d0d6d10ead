//go:build e2e

package site

import (
	"encoding/json"
	"strings"
	"testing"
	"time"

	amqp "github.com/rabbitmq/amqp091-go"

	v1 "github.com/droverhq/drover/api/v1"
	"github.com/droverhq/drover/test/drover"
	"github.com/droverhq/drover/test/rabbitmq"
	"github.com/droverhq/drover/test/toxiproxy"
)

// The sites cannot ask each other, and both reach a broker: the old primary is fenced by the
// signal of the other's promotion alone. Signals that nobody vouches for change nothing.
func TestSignalFencesTheOldPrimary(t *testing.T) {
	mq, bad := rabbitmq.Start(t), toxiproxy.Start(t)
	front := drover.FreeAddress(t)
	toSecondary := bad.Proxy(t, front)
	var toPrimary *toxiproxy.Proxy
	w := pair(t, given{
		listen: front,
		args: func(site string) []string {
			more := []string{"--site-bus-options", "url=" + mq.URL}
			if site == "west" {
				more = append(more, "--public-url", "http://"+toSecondary.Addr)
			}
			return more
		},
		primary: func(url string) string {
			toPrimary = bad.Proxy(t, strings.TrimPrefix(url, "http://"))
			return "http://" + toPrimary.Addr
		},
	})
	drover.Until(t, "the primary's signal", func() bool {
		return strings.Contains(w.b.Log(), `msg="a signal of the other site" kind=epoch site=east epoch=1`)
	})
	ch := rabbitmq.Channel(t, mq.URL)
	for _, body := range []string{
		`{"kind":"promotion","site":"west","to":"east","epoch":99}`,
		`{"kind":"promote","site":"west","to":"east","epoch":99}`,
		"nothing",
	} {
		if err := ch.Publish("", "drover.site.east", true, false, amqp.Publishing{Body: []byte(body), MessageId: body, Headers: amqp.Table{"authorization": "Bearer e30.e30.x"}}); err != nil {
			t.Fatal(err)
		}
	}
	drover.Until(t, "the primary to refuse what nobody vouches for", func() bool {
		return strings.Count(w.a.Log(), "a signal was refused") == 3
	})
	if at := awaitState(t, w.a, "leading"); at.Epoch != 1 {
		t.Errorf("the primary is %+v", at)
	}
	if err := order(t.Context(), call(t, w.a), "rex"); err != nil {
		t.Errorf("the primary takes no writes: %v", err)
	}

	for _, way := range []*toxiproxy.Proxy{toPrimary, toSecondary} {
		way.Down(t)
	}
	if _, stderr, code := w.b.Run("dr", "promote", "--primary-is-gone"); code != 0 {
		t.Fatalf("drover dr promote: %d %s", code, stderr)
	}
	saying(t, w.a, "fenced", "epoch 2")
	if !strings.Contains(w.a.Log(), `msg="a signal of the other site" kind=promotion site=west epoch=2`) {
		t.Errorf("it was not the signal:\n%s", w.a.Log())
	}
	awaitState(t, w.b, "leading")
	if code := w.b.Stop(); code != 0 {
		t.Errorf("it ends with %d", code)
	}
	drover.Until(t, "the signal of the end", func() bool { return strings.Contains(w.a.Log(), "kind=drain site=west epoch=2") })
}

// The primary is stopped in order while the secondary listens: who asks the secondary is told
// so, and when, also after that was started again; until the primary works again, or a later
// epoch has begun.
func TestDrainIsKnownAtTheSecondary(t *testing.T) {
	mq := rabbitmq.Start(t)
	w := pair(t, given{args: func(string) []string { return []string{"--site-bus-options", "url=" + mq.URL} }})
	drover.Until(t, "the primary's signal", func() bool { return strings.Contains(w.b.Log(), "kind=epoch site=east epoch=1") })
	status := func() (shown string, drained *time.Time) {
		t.Helper()
		shown, stderr, _ := w.b.Run("dr", "status")
		text, _, _ := w.b.Run("dr", "status", "-o", "json")
		var both []v1.Site
		if err := json.Unmarshal([]byte(text), &both); err != nil || len(both) == 0 || both[0].Peer == nil {
			t.Fatalf("drover dr status: %v: %s%s%s", err, text, shown, stderr)
		}
		return shown, both[0].Peer.Drained
	}
	if shown, at := status(); at != nil || strings.Contains(shown, "drained") {
		t.Errorf("the primary works, and is shown as drained at %v:\n%s", at, shown)
	}
	before := time.Now()
	if code := w.a.Stop(); code != 0 {
		t.Errorf("it ends with %d", code)
	}
	after := time.Now()
	for _, again := range []bool{false, true} {
		if again {
			w.b.Kill()
			w.b.Start(t)
		}
		var shown string
		var at *time.Time
		drover.Until(t, "the secondary to say that the primary was drained", func() bool { shown, at = status(); return at != nil && strings.Contains(shown, "drained") })
		if at.Before(before) || at.After(after) || !strings.Contains(shown, "it was drained at "+at.Local().Format(time.RFC3339)) {
			t.Errorf("it was drained at %s, not between %s and %s:\n%s", at, before, after, shown)
		}
	}
	works := func() bool {
		shown, at := status()
		return at == nil && !strings.Contains(shown, "drained")
	}
	heard := strings.Count(w.b.Log(), "kind=epoch")
	w.a.Start(t)
	drover.Until(t, "the secondary to say that it works again", works)
	// Who has not reached its broker has nobody to tell that it ends.
	drover.Until(t, "another signal of the primary", func() bool { return strings.Count(w.b.Log(), "kind=epoch") > heard })
	if code := w.a.Stop(); code != 0 {
		t.Errorf("it ends with %d", code)
	}
	drover.Until(t, "the secondary to say that it was drained again", func() bool { return !works() })
	if _, stderr, code := w.b.Run("dr", "promote", "--primary-is-gone"); code != 0 {
		t.Fatalf("drover dr promote: %d %s", code, stderr)
	}
	if shown, at := status(); at != nil {
		t.Errorf("somebody else leads since, and it is shown as drained at %s:\n%s", at, shown)
	}
}
