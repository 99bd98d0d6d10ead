package sqlledger

import (
	"context"
	"crypto/rand"
	"sync"
	"time"

	"github.com/jackc/pgx/v5"
)

// notifier carries hints between replicas. It runs two goroutines with a
// connection each: one sends at most one NOTIFY at a time, whatever was
// committed meanwhile; the other listens. NOTIFY in the write transaction
// itself would take a lock over all databases at commit.
type notifier struct {
	config  *pgx.ConnConfig
	connect func(context.Context, *pgx.ConnConfig) (*pgx.Conn, error)
	self    string // tells our own notifications from the others'
	dirty   chan struct{}
	heard   func()
	cancel  context.CancelFunc
	wg      sync.WaitGroup

	mu    sync.Mutex
	turns map[*context.CancelFunc]bool // of the connections there are
}

const notifyChannel = "drover_ledger"

func startNotifier(config *pgx.ConnConfig, connect func(context.Context, *pgx.ConnConfig) (*pgx.Conn, error), heard func()) *notifier {
	ctx, cancel := context.WithCancel(context.Background())
	config = config.Copy()
	delete(config.RuntimeParams, "statement_timeout")
	config.RuntimeParams["synchronous_commit"] = "off" // a hint need not survive a crash
	n := &notifier{config: config, connect: connect, self: rand.Text(), dirty: make(chan struct{}, 1), heard: heard, cancel: cancel}
	n.wg.Go(func() { n.keep(ctx, n.send) })
	n.wg.Go(func() { n.keep(ctx, n.listen) })
	return n
}

func (n *notifier) stop() {
	n.cancel()
	n.wg.Wait()
}

// turn is of one connection: it ends with ctx, or when there is to be another.
func (n *notifier) turn(ctx context.Context) (context.Context, context.CancelFunc) {
	n.mu.Lock()
	defer n.mu.Unlock()
	ctx, cancel := context.WithCancel(ctx)
	if n.turns == nil {
		n.turns = map[*context.CancelFunc]bool{}
	}
	n.turns[&cancel] = true
	return ctx, func() {
		n.mu.Lock()
		defer n.mu.Unlock()
		delete(n.turns, &cancel)
		cancel()
	}
}

// renew replaces both connections. What is not sent yet, or not heard, is then.
func (n *notifier) renew() {
	n.mu.Lock()
	defer n.mu.Unlock()
	for cancel := range n.turns {
		(*cancel)()
	}
}

func (n *notifier) notify() {
	select {
	case n.dirty <- struct{}{}:
	default:
	}
}

// keep connects again and again until stopped, with a growing pause.
func (n *notifier) keep(ctx context.Context, use func(context.Context, *pgx.Conn) error) {
	pause := time.NewTimer(0)
	defer pause.Stop()
	for wait := 10 * time.Millisecond; ctx.Err() == nil; wait = min(2*wait, time.Second) {
		turn, over := n.turn(ctx) // before the login is asked for
		if conn, err := n.connect(ctx, n.config); err == nil {
			wait = 10 * time.Millisecond
			use(turn, conn)                        //nolint:errcheck // a lost connection is made again
			conn.Close(context.WithoutCancel(ctx)) //nolint:errcheck // likewise
		}
		over()
		pause.Reset(wait)
		select {
		case <-pause.C:
		case <-ctx.Done():
		}
	}
}

func (n *notifier) send(ctx context.Context, conn *pgx.Conn) error {
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-n.dirty:
		}
		limited, cancel := context.WithTimeout(ctx, 5*time.Second)
		_, err := conn.Exec(limited, "SELECT pg_notify($1, $2)", notifyChannel, n.self)
		cancel()
		if err != nil {
			n.notify() // once there is a connection again
			return err
		}
	}
}

func (n *notifier) listen(ctx context.Context, conn *pgx.Conn) error {
	if _, err := conn.Exec(ctx, "LISTEN "+notifyChannel); err != nil {
		return err
	}
	n.heard() // something may have been missed until now
	for {
		hint, err := conn.WaitForNotification(ctx)
		if err != nil {
			return err
		}
		if hint.Payload != n.self {
			n.heard()
		}
	}
}
