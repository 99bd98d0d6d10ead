//go:build e2e

package site

import (
	"strings"
	"testing"

	amqp "github.com/rabbitmq/amqp091-go"

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
