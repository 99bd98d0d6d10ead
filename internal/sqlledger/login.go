package sqlledger

import (
	"context"
	"errors"
	"sync/atomic"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"

	"github.com/droverhq/drover/internal/fault"
)

// Login knows who opens the database at the moment. It is asked for every new
// connection.
type Login interface {
	// Get returns a name, which is the URL's if it is empty, and a password.
	Get(ctx context.Context) (name, password string, err error)
	// Changed returns what is closed when there is another. What the last one has
	// opened goes on meanwhile, and is replaced without anybody noticing.
	Changed() <-chan struct{}
	// Refused tells that the database does not know one that Get has returned.
	Refused(name, password string)
}

// opener makes connections as the login says.
type opener struct {
	login Login // nil: as the URL says
	url   string
	given atomic.Pointer[identity]
}

type identity struct{ name, password string }

// identify puts the login into a configuration that is used once.
func (o *opener) identify(ctx context.Context, c *pgx.ConnConfig) error {
	encrypt(&c.Config, o.url)
	if o.login == nil {
		return nil
	}
	name, password, err := o.login.Get(ctx)
	if err != nil {
		return fault.New(fault.Unavailable, "there is nothing to open the database with: %w", err).Because("no-credential")
	}
	if name != "" {
		c.User = name
	}
	c.Password = password
	o.given.Store(&identity{name, password})
	return nil
}

func (o *opener) connect(ctx context.Context, c *pgx.ConnConfig) (*pgx.Conn, error) {
	c = c.Copy()
	if err := o.identify(ctx, c); err != nil {
		return nil, err
	}
	conn, err := pgx.ConnectConfig(ctx, c)
	o.heard(err)
	return conn, err
}

// heard tells the login of an error that means that it is not known.
func (o *opener) heard(err error) {
	var no *pgconn.PgError
	if o.login == nil || !errors.As(err, &no) || no.Code != "28P01" && no.Code != "28000" {
		return
	}
	if i := o.given.Load(); i != nil {
		o.login.Refused(i.name, i.password)
	}
}

// follow replaces connections whenever the login has changed, once it is known that
// the new one opens the database: until then the old ones are better than none. One
// goroutine does, until ctx ends.
func (e *pg) follow(ctx context.Context, changed <-chan struct{}) {
	pause := time.NewTimer(0)
	defer pause.Stop()
	for {
		select {
		case <-changed:
		case <-ctx.Done():
			return
		}
		changed = e.opener.login.Changed() // before it is asked
		for wait := 50 * time.Millisecond; ctx.Err() == nil; wait = min(2*wait, 2*time.Second) {
			if conn, err := e.opener.connect(ctx, e.config); err == nil {
				conn.Close(context.WithoutCancel(ctx)) //nolint:errcheck // it has shown what it was for
				break
			}
			pause.Reset(wait)
			select {
			case <-pause.C:
			case <-ctx.Done():
			}
		}
		if ctx.Err() != nil {
			return
		}
		e.stale.Store(true) // the committer replaces its own between two transactions
		e.pool.Reset()      // those in use end when they are given back
		if e.notifier != nil {
			e.notifier.renew()
		}
	}
}
