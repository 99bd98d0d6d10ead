package rabbitmq_test

import (
	"context"
	"crypto/rand"
	"fmt"
	"net"
	"net/url"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/droverhq/drover/internal/bus"
	"github.com/droverhq/drover/internal/bus/bustest"
	"github.com/droverhq/drover/internal/bus/rabbitmq"
	"github.com/droverhq/drover/internal/fault"
)

// login is what a test says it is.
type login struct {
	mu             sync.Mutex
	name, password string
	err            error
	changed        chan struct{}
	refused        chan string
}

func newLogin() *login {
	return &login{changed: make(chan struct{}), refused: make(chan string, 1)}
}

func (l *login) Get(context.Context) (string, string, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.name, l.password, l.err
}

func (l *login) Changed() <-chan struct{} {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.changed
}

func (l *login) Refused(name, _ string) {
	select {
	case l.refused <- name:
	default:
	}
}

func (l *login) change(name, password string, err error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.name, l.password, l.err = name, password, err
	close(l.changed)
	l.changed = make(chan struct{})
}

// user makes an account as Vault would.
func (w world) user(t *testing.T) (name, password string) {
	name, password = "user-"+rand.Text(), rand.Text()
	w.Grant(t, name, password, ".*", ".*", ".*")
	return name, password
}

func (w world) as(t *testing.T, who *login) bus.Bus {
	t.Helper()
	u, err := url.Parse(w.URL)
	if err != nil {
		t.Fatal(err)
	}
	at := u.Host
	u.User, u.Host = nil, "rabbit.service.consul:0"
	b, err := rabbitmq.Connect(bus.Options{"url": u.String(), "prefix": w.prefix}, rabbitmq.Outside{
		Login: who,
		Dial: func(ctx context.Context, network, addr string) (net.Conn, error) {
			if addr != u.Host {
				return nil, fmt.Errorf("asked for %s", addr)
			}
			return (&net.Dialer{}).DialContext(ctx, network, at)
		},
	})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { b.Close() })
	return b
}

// Accounts come and go under load: each message arrives once, none of them twice, and
// nothing is left of the accounts that went.
func TestLoginChangesUnderLoad(t *testing.T) {
	w, who := open(t), newLogin()
	name, password := w.user(t)
	who.change(name, password, nil)
	b, queue := w.as(t, who), bustest.Name()
	var mu sync.Mutex
	handled, sent := map[string]int{}, map[string]bool{}
	bustest.Consume(t, b, queue, func(_ context.Context, d bus.Delivery) error {
		time.Sleep(2 * time.Millisecond) // so that some are under way at every moment
		mu.Lock()
		defer mu.Unlock()
		handled[d.ID]++
		return nil
	})
	stop := make(chan struct{})
	var wg sync.WaitGroup
	halt := sync.OnceFunc(func() { close(stop); wg.Wait() })
	t.Cleanup(halt)
	for s := range 4 {
		wg.Go(func() {
			for n := 0; ; n++ {
				select {
				case <-stop:
					return
				default:
				}
				id := fmt.Sprintf("%d-%d", s, n)
				ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
				err := b.Send(ctx, queue, bus.Message{ID: id})
				cancel()
				if err != nil {
					t.Errorf("a message was not sent: %v", err)
					return
				}
				mu.Lock()
				sent[id] = true
				mu.Unlock()
			}
		})
	}
	bustest.Send(t, b, queue, bus.Message{ID: "first"}) // the queue is there
	for range 4 {
		old := name
		name, password = w.user(t)
		who.change(name, password, nil)
		until(t, "the old account has no connection", func() bool { return !slices.Contains(w.Users(t), old) })
		w.Revoke(t, old)
	}
	halt()
	until(t, "all has arrived", func() bool {
		mu.Lock()
		defer mu.Unlock()
		return len(handled) >= len(sent)+1
	})
	mu.Lock()
	defer mu.Unlock()
	for id := range sent {
		if handled[id] != 1 {
			t.Errorf("%s was handled %d times", id, handled[id])
		}
	}
	if len(sent) < 20 {
		t.Errorf("only %d were sent", len(sent))
	}
}

func until(t *testing.T, what string, ok func() bool) {
	t.Helper()
	for end := time.Now().Add(2 * time.Minute); !ok(); time.Sleep(10 * time.Millisecond) {
		if time.Now().After(end) {
			t.Fatalf("it does not come about that %s", what)
		}
	}
}

// What is open goes on while there is nothing, or nothing that works, to open more with.
func TestLoginThatIsNoUse(t *testing.T) {
	w, who := open(t), newLogin()
	who.err = fault.New(fault.Unavailable, "the vault is sealed")
	b := w.as(t, who)
	ctx, cancel := context.WithTimeout(t.Context(), time.Second)
	defer cancel()
	if err := b.Publish(ctx, bus.Message{ID: "1"}); !fault.Is(err, fault.Unavailable) || !strings.Contains(err.Error(), "sealed") {
		t.Fatalf("nothing is known, and it says %v", err)
	}
	name, password := w.user(t)
	who.change(name, password, nil)
	publish := func() {
		t.Helper()
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		if err := b.Publish(ctx, bus.Message{ID: rand.Text()}); err != nil {
			t.Fatal(err)
		}
	}
	publish()
	who.change(name, "wrong", nil)
	if bustest.Receive(t, who.refused) != name {
		t.Error("somebody else was refused")
	}
	publish()
	who.change("", "", fault.New(fault.Unavailable, "the vault is sealed"))
	publish()
	next, secret := w.user(t)
	who.change(next, secret, nil)
	until(t, "the right one takes over", func() bool { return !slices.Contains(w.Users(t), name) })
	publish()
}
