package rabbitmq_test

import (
	"encoding/json"
	"strings"
	"testing"
	"time"

	amqp "github.com/rabbitmq/amqp091-go"
	"pgregory.net/rapid"

	"github.com/droverhq/drover/internal/bus"
	"github.com/droverhq/drover/internal/bus/rabbitmq"
	"github.com/droverhq/drover/internal/fault"
)

func TestPlaces(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		prefix := rapid.SampledFrom([]string{"", "a.", "drover.", "drover"}).Draw(t, "prefix")
		own := "drover." + rapid.String().Draw(t, "name")
		place := rabbitmq.Place(prefix, own)
		if place != prefix+own {
			t.Fatalf("%q is at %q", own, place)
		}
		if prefix == "" || !strings.HasPrefix(own, prefix) {
			if back := rabbitmq.Name(prefix, place); back != own {
				t.Fatalf("%q is at %q, which is %q", own, place, back)
			}
		}
		if other := "x" + own; rabbitmq.Place(prefix, other) != other {
			t.Fatalf("%q is another's, and was moved", other)
		}
	})
}

// An address for answers that is our own is seen as that, whatever our prefix is, and
// nobody else's is taken for it.
func TestOurOwnAddressesAreKnown(t *testing.T) {
	for _, c := range []struct{ prefix, reply, want string }{
		{"", "drover.commands", "drover.commands"},
		{"staging.", "staging.drover.commands", "drover.commands"},
		{"staging.", "drover.commands", "drover.commands"},
		{"", "my-drover.answers", "my-drover.answers"},
		{"staging.", "prod.drover.answers", "prod.drover.answers"},
		{"staging.", "staging.answers", "staging.answers"},
	} {
		if got := rabbitmq.UnpackAt(c.prefix, amqp.Delivery{ReplyTo: c.reply}).ReplyTo; got != c.want {
			t.Errorf("with the prefix %q, %s is %s", c.prefix, c.reply, got)
		}
	}
}

// Whatever a stranger's headers are: nothing breaks, and nothing of the broker's is
// shown as theirs.
func FuzzHeaders(f *testing.F) {
	for _, seed := range []string{
		`{}`, `{"a":"b","n":1,"deep":{"a":["b",null,true]}}`,
		`{"x-death":[{"queue":"q","reason":"expired","time":"no","exchange":""}],"x-first-death-queue":"q"}`,
		`{"x-death":"none"}`, `{"x-death":[]}`, `{"x-death":[1]}`, `{"x-death":[{}]}`,
		`{"x-drover-aside-key":1,"x-drover-aside-queue":{},"x-drover-aside-at":"yesterday"}`, "{\"\xff\":\"\xfe\"}",
	} {
		f.Add([]byte(seed), "drover.dead", "", []byte("body"))
	}
	b, err := rabbitmq.New(bus.Options{"url": "amqp://localhost"})
	if err != nil {
		f.Fatal(err)
	}
	f.Cleanup(func() { b.Close() })
	f.Fuzz(func(t *testing.T, headers []byte, key, exchange string, body []byte) {
		var values map[string]any
		if json.Unmarshal(headers, &values) != nil {
			return
		}
		d := amqp.Delivery{Headers: table(values), RoutingKey: key, Exchange: exchange, Body: body, Timestamp: time.Unix(1, 0)}
		m := rabbitmq.Unpack(d)
		for name := range m.Headers {
			if strings.HasPrefix(name, "x-drover-aside-") || name == "x-death" || name == "CC" {
				t.Errorf("%q is shown", name)
			}
		}
		if r, again := b.Read(d), b.Read(d); r.Key == "" || r.Key != again.Key {
			t.Errorf("keys are %q and %q", r.Key, again.Key)
		}
	})
}

func table(values map[string]any) amqp.Table {
	out := amqp.Table{}
	for name, v := range values {
		out[name] = field(v)
	}
	return out
}

func field(v any) any {
	switch v := v.(type) {
	case map[string]any:
		return table(v)
	case []any:
		for i := range v {
			v[i] = field(v[i])
		}
	}
	return v
}

// Whatever somebody writes for a URL, the password in it is not repeated.
func FuzzURL(f *testing.F) {
	for _, seed := range []string{"amqp://u:%s@h", "amqp://u:%s@h:x", "http://u:%s@h", "amqp://u:%s@h,amqp://u:%s@:", "u:%s@h", "amqps://u:%s@[::1]:5671/v%%2f"} {
		f.Add(strings.ReplaceAll(seed, "%s", "s3cret"))
	}
	f.Fuzz(func(t *testing.T, url string) {
		b, err := rabbitmq.New(bus.Options{"url": url})
		if err == nil {
			b.Close()
			return
		}
		if !fault.Is(err, fault.Invalid) || strings.Contains(err.Error(), "s3cret") {
			t.Errorf("got %v", err)
		}
	})
}
