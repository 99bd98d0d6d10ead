package rabbitmq_test

import (
	"context"
	"crypto/rand"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	amqp "github.com/rabbitmq/amqp091-go"

	"github.com/droverhq/drover/internal/bus"
	"github.com/droverhq/drover/internal/bus/bustest"
	"github.com/droverhq/drover/internal/bus/rabbitmq"
	"github.com/droverhq/drover/internal/fault"
	broker "github.com/droverhq/drover/test/rabbitmq"
)

func file(t testing.TB, text string) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "file")
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

func TestSettings(t *testing.T) {
	const secret = "s3cret"
	t.Setenv("DROVER_TEST_EMPTY", "")
	for _, tc := range []struct {
		reason  string
		options bus.Options
		ok      bool
	}{
		{"a URL is enough", bus.Options{"url": "amqp://localhost"}, true},
		{"several brokers", bus.Options{"url": "amqp://one:5672 amqp://two:5672"}, true},
		{"a password in it is taken, though a file is better", bus.Options{"url": "amqp://u:" + secret + "@localhost"}, true},
		{"by reference", bus.Options{"url": "amqp://localhost", "username": "u", "password-file": file(t, secret+"\n")}, true},
		{"no URL", bus.Options{}, false},
		{"another protocol", bus.Options{"url": "http://u:" + secret + "@localhost"}, false},
		{"a broken URL does not show its password", bus.Options{"url": "amqp://u:" + secret + "@local host:x"}, false},
		{"a setting that nobody reads", bus.Options{"url": "amqp://localhost", "pasword-file": "x"}, false},
		{"two passwords", bus.Options{"url": "amqp://localhost", "password-file": file(t, secret), "password-env": "HOME"}, false},
		{"an empty password", bus.Options{"url": "amqp://localhost", "password-file": file(t, " \n")}, false},
		{"an empty variable", bus.Options{"url": "amqp://localhost", "password-env": "DROVER_TEST_EMPTY"}, false},
		{"a file that is not there", bus.Options{"url": "amqp://localhost", "username-file": "/nowhere"}, false},
		{"a certificate without its key", bus.Options{"url": "amqps://localhost", "certificate": file(t, "x")}, false},
		{"what is no certificate", bus.Options{"url": "amqps://localhost", "ca": file(t, "x")}, false},
		{"an authority without TLS", bus.Options{"url": "amqp://localhost", "ca": file(t, "x")}, false},
		{"a prefix of the broker's own", bus.Options{"url": "amqp://localhost", "prefix": "amq."}, false},
	} {
		b, err := rabbitmq.Open(tc.options)
		if tc.ok != (err == nil) || err != nil && !fault.Is(err, fault.Invalid) {
			t.Errorf("%s: got %v", tc.reason, err)
		}
		if err != nil && strings.Contains(err.Error(), secret) {
			t.Errorf("%s: the secret is in %q", tc.reason, err)
		}
		if b != nil {
			b.Close()
		}
	}
}

// troubled waits until the trouble of a bus says a word, or until ctx ends.
func troubled(ctx context.Context, b *rabbitmq.Bus, word string) {
	for ctx.Err() == nil {
		if err := b.Trouble(); err != nil && strings.Contains(err.Error(), word) {
			return
		}
		time.Sleep(10 * time.Millisecond) // a bus has no signal of it
	}
}

func TestTLS(t *testing.T) {
	w := open(t)
	password := file(t, w.Password)
	t.Setenv("DROVER_TEST_PASSWORD", w.Password)
	for _, tc := range []struct {
		reason   string
		settings []string
		refusal  string // a word of it
	}{
		{"with a password from a file", []string{"ca", w.Files.CA, "username", broker.User, "password-file", password}, ""},
		{"from the environment", []string{"ca", w.Files.CA, "username", broker.User, "password-env", "DROVER_TEST_PASSWORD"}, ""},
		{"with a certificate, and a password", []string{"ca", w.Files.CA, "certificate", w.Files.Certificate, "key", w.Files.Key, "username", broker.User, "password-file", password}, ""},
		{"with a certificate alone", []string{"ca", w.Files.CA, "certificate", w.Files.Certificate, "key", w.Files.Key}, ""},
		{"of an authority that nobody knows", []string{"username", broker.User, "password-file", password}, "certificate"},
		{"with another password", []string{"ca", w.Files.CA, "username", broker.User, "password-file", file(t, "0ther")}, "username or password not allowed"},
		{"to a vhost that is not there", []string{"ca", w.Files.CA, "username", broker.User, "password-file", password, "vhost", "nowhere"}, "cannot be reached"},
	} {
		t.Run(tc.reason, func(t *testing.T) {
			b := w.bus(t, append(tc.settings, "url", w.TLS)...)
			ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
			defer cancel()
			// The broker answers wrong passwords late, and a busy machine later: who is refused
			// leaves once the reason is known.
			if tc.refusal != "" {
				go func() {
					troubled(ctx, b, tc.refusal)
					cancel()
				}()
			}
			err := b.Publish(ctx, bus.Message{ID: "1"})
			if tc.refusal == "" {
				if err != nil {
					t.Errorf("got %v", err)
				}
				return
			}
			if !fault.Is(err, fault.Unavailable) || !strings.Contains(err.Error(), tc.refusal) {
				t.Errorf("got %v", err)
			}
			if err := b.Trouble(); !fault.Is(err, fault.Unavailable) {
				t.Errorf("trouble is %v", err)
			}
			for _, e := range []error{err, b.Trouble()} {
				if e != nil && (strings.Contains(e.Error(), w.Password) || strings.Contains(e.Error(), "0ther")) {
					t.Errorf("the secret is in %q", e)
				}
			}
		})
	}
}

// A password that was changed on both sides is used from the next connection on.
func TestRotation(t *testing.T) {
	w := open(t)
	p := newProxy(t, w.Addr)
	path, old := file(t, w.Password), w.Password
	b := w.bus(t, "url", "amqp://"+p.addr, "username", broker.User, "password-file", path)
	got, _ := bustest.Collect(t, b, "drover.rotation")
	fresh := rand.Text()
	if err := os.WriteFile(path, []byte(fresh), 0o600); err != nil {
		t.Fatal(err)
	}
	w.ChangePassword(t, fresh)
	t.Cleanup(func() { w.ChangePassword(t, old) })
	bustest.Send(t, b, "drover.rotation", bus.Message{ID: "still"})
	bustest.Receive(t, got)
	p.cut()
	bustest.Send(t, b, "drover.rotation", bus.Message{ID: "again"})
	for bustest.Receive(t, got).ID != "again" {
	}
}

// Several control planes share a broker by prefixes, and strangers' addresses are
// taken as they are.
func TestNames(t *testing.T) {
	w := open(t)
	one, two := w.bus(t, "prefix", w.prefix+"one."), w.bus(t, "prefix", w.prefix+"two.")
	theirs, _ := bustest.Collect(t, two, "drover.commands")
	ours, _ := bustest.Collect(t, one, "drover.commands")
	bustest.Send(t, one, "drover.commands", bus.Message{ID: "1"})
	if d := bustest.Receive(t, ours); d.Topic != "drover.commands" {
		t.Errorf("it came to %s", d.Topic)
	}
	// By its whole name, it is an address like any other.
	bustest.Send(t, one, w.prefix+"two.drover.commands", bus.Message{ID: "2"})
	if d := bustest.Receive(t, theirs); d.ID != "2" || d.Topic != "drover.commands" {
		t.Errorf("got %s at %s", d.ID, d.Topic)
	}
	ch := broker.Channel(t, w.URL)
	q, err := ch.QueueDeclare("", false, true, true, false, nil)
	if err != nil {
		t.Fatal(err)
	}
	bustest.Send(t, one, q.Name, bus.Message{ID: "answer"})
	if err := func() error { _, err := ch.QueueDelete(q.Name, false, false, false); return err }(); err != nil {
		t.Fatal(err)
	}
	if err := one.Send(t.Context(), q.Name, bus.Message{ID: "answer"}); !fault.Is(err, fault.NotFound) {
		t.Errorf("who has gone away: %v", err)
	}
}

// Somebody else's queue with a name of ours is trouble, and not the end: once it is gone,
// messages come.
func TestNameIsTaken(t *testing.T) {
	w := open(t)
	b, queue := w.bus(t), bustest.Name()
	ch := broker.Channel(t, w.URL)
	if _, err := ch.QueueDeclare(w.prefix+queue, true, false, false, false, amqp.Table{"x-max-length": 1}); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	got, ended := make(chan bus.Delivery, 1), make(chan error, 1)
	go func() { // ends with ctx
		ended <- b.Consume(ctx, queue, func(_ context.Context, d bus.Delivery) error {
			got <- d
			return nil
		})
	}()
	const taken = "something else called"
	troubled(ctx, b, taken)
	if err := b.Trouble(); err == nil || !strings.Contains(err.Error(), taken) {
		t.Errorf("trouble is %v", err)
	}
	if _, err := ch.QueueDelete(w.prefix+queue, false, false, false); err != nil {
		t.Fatal(err)
	}
	err := b.Send(ctx, queue, bus.Message{ID: "1"})
	for ; (fault.Is(err, fault.NotFound) || fault.Reason(err) == bus.ReasonFull) && len(ended) == 0; err = b.Send(ctx, queue, bus.Message{ID: "1"}) {
	}
	if err != nil {
		t.Fatal(err)
	}
	if d := bustest.Receive(t, got); d.ID != "1" {
		t.Errorf("got %s", d.ID)
	}
	if err := b.Trouble(); err != nil {
		t.Errorf("trouble is over, but: %v", err)
	}
	cancel()
	if err := bustest.Receive(t, ended); err != nil {
		t.Errorf("consuming ended with %v", err)
	}
}
