package sqlledger

import (
	"context"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"github.com/droverhq/drover/internal/fault"
	"github.com/droverhq/drover/internal/ledger"
)

// Config says where the ledger is and how it behaves.
type Config struct {
	// URL is "postgres://...", "sqlite:///path/to/file.db" or just a path.
	URL string
	// Login opens a PostgreSQL database, in place of what the URL says. Default: the URL.
	Login Login
	// Lookup finds the host of a PostgreSQL database: addresses, or addresses with a
	// port that is better than the URL's. Default: the machine's resolver.
	Lookup func(ctx context.Context, host string) ([]string, error)
	// Kinds are the kinds of objects; they may grow, and gain fields.
	Kinds []ledger.Kind
	// Key is the master key of ledger.KeySize bytes. Without it, blobs and
	// secrets are refused.
	Key []byte
	// Now is the clock where the program's is used (SQLite). Default time.Now.
	Now func() time.Time
	// MaxBatch bounds the rows that share one commit. Default 1024.
	MaxBatch int
	// Timeout bounds a call whose context has no deadline. Default 5 s.
	Timeout time.Duration
	// Epoch that the ledger is in at least. Whoever restores a backup gives one
	// that is higher than any before, so that readers of what was lost can tell.
	// Default: the one that it is in.
	Epoch int64
	// Site that begins the epoch by a promotion, where it is not there yet. Default: none.
	Site string
	// ReadOnly has the ledger looked at as it lies there: no database is made or
	// prepared, one that a server of another version has prepared is refused, and
	// so is every write. Default: it is brought up to date.
	ReadOnly bool
	// Observer is told of commits and warnings. Default: nobody.
	Observer Observer
}

// Observer sees what the ledger does. It is called from the committer and must
// not wait.
type Observer interface {
	// Committed is called after each try to commit a batch.
	Committed(requests, changes int, d time.Duration, err error)
	// Warned is called for what an operator should know, such as a missing
	// database extension.
	Warned(text string)
}

// Ledger implements ledger.Ledger.
type Ledger struct {
	config  Config
	dialect *dialect
	engine  engine
	stores  map[string]*store
	kinds   map[string]ledger.Kind
	vault   *ledger.Vault
	lanes   ledger.Lanes // the committer's alone
	head    *headRow     // as last committed, nil if that is not certain; the committer's alone
	queue   chan *request
	hints   hub
	totals  chan struct{} // room for filtered totals
	epochs  atomic.Pointer[[]ledger.Began]

	sweeping sync.Mutex // one sweep at a time
	swept    string     // the last blob that it looked at; guarded by sweeping

	closing  chan struct{}
	once     sync.Once
	finished chan struct{} // the committer has ended
}

var _ ledger.Ledger = (*Ledger)(nil)

// Open connects, brings the schema up to date and starts the committer, which
// Close stops; unless it is only to be read.
func Open(ctx context.Context, c Config) (*Ledger, error) {
	if c.Now == nil {
		c.Now = time.Now
	}
	if c.MaxBatch <= 0 {
		c.MaxBatch = 1024
	}
	if c.Timeout <= 0 {
		c.Timeout = 5 * time.Second
	}
	if c.Observer == nil {
		c.Observer = nobody{}
	}
	l := &Ledger{
		config: c, stores: map[string]*store{}, kinds: map[string]ledger.Kind{},
		queue: make(chan *request, 4096), totals: make(chan struct{}, 4),
		closing: make(chan struct{}), finished: make(chan struct{}),
	}
	if c.Key != nil {
		var err error
		if l.vault, err = ledger.NewVault(c.Key); err != nil {
			return nil, err
		}
	}
	for _, k := range c.Kinds {
		s, err := newStore(k)
		if err != nil {
			return nil, err
		}
		if l.stores[k.Name] != nil {
			return nil, fault.New(fault.Invalid, "kind %s is declared twice", k.Name)
		}
		l.stores[k.Name], l.kinds[k.Name] = s, k
	}
	var err error
	if l.engine, l.dialect, err = connect(ctx, c, l.hints.signal); err != nil {
		return nil, whereabouts(c.URL, err)
	}
	if c.ReadOnly {
		if err := l.inspect(ctx); err != nil {
			l.engine.close()
			return nil, whereabouts(c.URL, err)
		}
		close(l.finished) // there is no committer
		return l, nil
	}
	if err := l.setUp(ctx); err != nil {
		l.engine.close()
		return nil, whereabouts(c.URL, err)
	}
	go l.work()
	return l, nil
}

func (l *Ledger) setUp(ctx context.Context) error {
	if err := l.migrate(ctx); err != nil {
		return fmt.Errorf("cannot prepare the database: %w", err)
	}
	for _, k := range l.config.Kinds {
		if err := l.prepare(ctx, l.stores[k.Name]); err != nil {
			return fmt.Errorf("cannot prepare kind %s: %w", k.Name, err)
		}
	}
	return l.checkKey(ctx)
}

// Close ends the committer after its present batch, answers whoever waits, and
// disconnects.
func (l *Ledger) Close() error {
	l.once.Do(func() {
		close(l.closing)
		<-l.finished
		l.engine.close()
		l.hints.close()
	})
	return nil
}

// store returns the tables of a kind.
func (l *Ledger) store(kind string) (*store, error) {
	if s := l.stores[kind]; s != nil {
		return s, nil
	}
	return nil, fault.New(fault.Invalid, "%q is not a known kind", kind)
}

// patient gives a context without a deadline the default one.
func (l *Ledger) patient(ctx context.Context) (context.Context, context.CancelFunc) {
	if _, ok := ctx.Deadline(); ok {
		return ctx, func() {}
	}
	return context.WithTimeout(ctx, l.config.Timeout)
}

type nobody struct{}

func (nobody) Committed(int, int, time.Duration, error) {}
func (nobody) Warned(string)                            {}
