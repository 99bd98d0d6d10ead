package breaker_test

import (
	"bytes"
	"context"
	"path/filepath"
	"sync"
	"testing"
	"time"

	"github.com/droverhq/drover/internal/access"
	"github.com/droverhq/drover/internal/breaker"
	"github.com/droverhq/drover/internal/ledger"
	"github.com/droverhq/drover/internal/sqlledger"
	"github.com/droverhq/drover/test/postgres"
)

var things = ledger.Kind{Name: "thing"}

func open(t *testing.T, url string) *sqlledger.Ledger {
	t.Helper()
	store, err := sqlledger.Open(t.Context(), sqlledger.Config{
		URL: url, Key: bytes.Repeat([]byte{7}, ledger.KeySize), Kinds: append(breaker.Kinds(), things),
	})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = store.Close() })
	return store
}

// databases are the two that a ledger can be kept in.
func databases(t *testing.T, run func(t *testing.T, url string)) {
	t.Run("sqlite", func(t *testing.T) { run(t, filepath.Join(t.TempDir(), "ledger.db")) })
	t.Run("postgres", func(t *testing.T) { run(t, postgres.Database(t)) })
}

// clock is everybody's, and goes where the test wants it.
type clock struct {
	mu  sync.Mutex
	now time.Time
}

func newClock() *clock { return &clock{now: time.Date(2030, 1, 1, 12, 0, 0, 0, time.UTC)} }

func (c *clock) Now() time.Time {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.now
}

func (c *clock) pass(d time.Duration) time.Time {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.now = c.now.Add(d)
	return c.now
}

var operator = access.With(context.Background(), access.Principal{User: "root", Admin: true})

func removal(scope, rule, id string) breaker.Removal {
	return breaker.Removal{Scope: scope, Total: 40, Rule: rule, Object: ledger.Ref{Kind: things.Name, ID: id}}
}

// remove takes something away as a room does: the count is in its commit.
func remove(store *sqlledger.Ledger, guard breaker.Guard, r breaker.Removal) error {
	ctx := context.Background()
	counts, err := guard.Take(ctx, r)
	if err != nil {
		return err
	}
	_, err = store.Commit(ctx, ledger.Set{Actor: "system", Cause: ledger.BySchedule("a rule"), Counts: counts,
		Puts: []ledger.Put{{Object: ledger.Object{Ref: r.Object, Deleted: time.Unix(1, 0)}, Op: "delete"}}})
	return err
}
