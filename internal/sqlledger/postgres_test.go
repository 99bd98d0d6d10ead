package sqlledger_test

import (
	"context"
	"fmt"
	"net/url"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/droverhq/drover/internal/fault"
	"github.com/droverhq/drover/internal/ledger"
	"github.com/droverhq/drover/internal/sqlledger"
	"github.com/droverhq/drover/test/postgres"
)

// TestServerGoesAway stops and kills the server under load. Whoever commits is
// answered in time, what was acknowledged is there afterwards, what was refused
// is not, and the ledger goes on by itself.
func TestServerGoesAway(t *testing.T) {
	server := postgres.Start(t)
	l := open(t, sqlledger.Config{URL: postgres.Fresh(t, server.URL("postgres")), Kinds: things})
	for round, end := range []func(){server.Stop, server.Kill} {
		var mu sync.Mutex
		acknowledged, refused := map[string]bool{}, map[string]bool{}
		away := make(chan struct{}, 64)
		stop := make(chan struct{})
		var wg sync.WaitGroup
		for w := range 8 {
			wg.Go(func() {
				for n := 0; ; n++ {
					select {
					case <-stop:
						return
					default:
					}
					id := fmt.Sprintf("r%d-w%d-%d", round, w, n)
					start := time.Now()
					_, err := l.Commit(context.Background(), put(id, "acme", "accepted", 0))
					if d := time.Since(start); d > 8*time.Second {
						t.Errorf("a commit took %v", d)
					}
					mu.Lock()
					switch {
					case err == nil:
						acknowledged[id] = true
					case !fault.Is(err, fault.Unavailable):
						t.Errorf("a server that is away gave %v, want unavailable", err)
					case fault.Reason(err) != "outcome-unknown":
						refused[id] = true
					}
					mu.Unlock()
					if err != nil {
						away <- struct{}{}
						<-time.After(time.Millisecond) // do not fill the disk with refused ids
					}
				}
			})
		}
		go func() {
			<-away
			for range away {
			}
		}()
		commit(t, l, put(fmt.Sprintf("before-%d", round), "acme", "accepted", 0))
		end()
		ctx, cancel := context.WithTimeout(context.Background(), time.Second)
		if _, err := l.Get(ctx, ledger.Ref{Kind: "thing", ID: "before-0"}); !fault.Is(err, fault.Unavailable) {
			t.Errorf("a read without a server gave %v, want unavailable", err)
		}
		cancel()
		server.Start(t)
		deadline := time.Now().Add(20 * time.Second)
		for n := 0; ; n++ {
			_, err := l.Commit(context.Background(), put(fmt.Sprintf("after-%d-%d", round, n), "acme", "accepted", 0))
			if err == nil {
				break
			}
			if time.Now().After(deadline) {
				t.Fatalf("the ledger does not come back: %v", err)
			}
			<-time.After(5 * time.Millisecond)
		}
		close(stop)
		wg.Wait()
		close(away)
		for id := range acknowledged {
			if _, err := l.Get(t.Context(), ledger.Ref{Kind: "thing", ID: id}); err != nil {
				t.Errorf("%s was acknowledged: %v", id, err)
			}
		}
		for id := range refused {
			if _, err := l.Get(t.Context(), ledger.Ref{Kind: "thing", ID: id}); !fault.Is(err, fault.NotFound) {
				t.Errorf("%s was refused and is there: %v", id, err)
			}
		}
		if len(acknowledged) == 0 {
			t.Error("nothing was committed under load")
		}
	}
	dense(t, l)
}

// dense checks that the log has every sequence once.
func dense(t *testing.T, l *sqlledger.Ledger) {
	t.Helper()
	head, err := l.Head(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	var last int64
	for last < head.Seq {
		changes, err := l.Changes(t.Context(), ledger.ChangeQuery{After: last, Until: head.Seq})
		if err != nil || len(changes) == 0 {
			t.Fatalf("the log ends at %d of %d: %v", last, head.Seq, err)
		}
		for _, c := range changes {
			if c.Seq != last+1 {
				t.Fatalf("sequence %d follows %d", c.Seq, last)
			}
			last = c.Seq
		}
	}
}

func TestHintsReachOtherReplicas(t *testing.T) {
	where := postgres.Database(t)
	writer, reader := open(t, sqlledger.Config{URL: where, Kinds: things}), open(t, sqlledger.Config{URL: where, Kinds: things})
	hints := reader.Hints(t.Context())
	// A hint may be lost while the reader does not listen yet, so commit again
	// until one comes; the reader itself writes nothing.
	for n := range 100 {
		commit(t, writer, put(fmt.Sprint(n), "acme", "accepted", 0))
		select {
		case <-hints:
			if head, err := reader.Head(t.Context()); err == nil && head.Seq > 0 {
				return
			}
		case <-time.After(100 * time.Millisecond):
		}
	}
	t.Fatal("no hint of the other replica's commits")
}

func TestReplicasShareObjects(t *testing.T) {
	where := postgres.Database(t)
	const replicas, each = 3, 60
	var wg sync.WaitGroup
	var all []*sqlledger.Ledger
	for range replicas {
		all = append(all, open(t, sqlledger.Config{URL: where, Kinds: things}))
	}
	for i, l := range all {
		for w := range 4 {
			wg.Go(func() {
				for n := range each {
					s := put(fmt.Sprintf("%d-%d-%d", i, w, n), "acme", "accepted", 0)
					s.Counts = []ledger.Count{{Name: "shared", Delta: 1, Max: -1}}
					s.Wakes = []ledger.Wake{{Ref: ledger.Ref{Kind: "thing", ID: fmt.Sprint("shared-", n%5)}, Org: "acme"}}
					if _, err := l.Commit(context.Background(), s); err != nil {
						t.Errorf("replica %d: %v", i, err)
					}
				}
			})
		}
	}
	wg.Wait()
	dense(t, all[0])
	want := int64(replicas * 4 * each)
	if n, err := all[1].Counter(t.Context(), "shared"); n != want || err != nil {
		t.Errorf("the counter is %d, %v, want %d", n, err, want)
	}
	if n, err := all[2].Total(t.Context(), ledger.Query{Kind: "thing", Scope: map[string]any{"offering": "dinosaur", "org": "acme"}}); n != want || err != nil {
		t.Errorf("the total is %d, %v, want %d", n, err, want)
	}
}

// TestWithoutTrigram opens as a user who may not create the extension.
func TestWithoutTrigram(t *testing.T) {
	where := postgres.Database(t)
	ctx := t.Context()
	conn, err := pgx.Connect(ctx, where)
	if err != nil {
		t.Fatal(err)
	}
	u, _ := url.Parse(where)
	role := "plain_" + strings.TrimPrefix(u.Path, "/")
	for _, sql := range []string{
		"CREATE ROLE " + role + " LOGIN PASSWORD 'plain'", "GRANT ALL ON SCHEMA public TO " + role,
	} {
		if _, err := conn.Exec(ctx, sql); err != nil {
			t.Fatal(err)
		}
	}
	t.Cleanup(func() {
		ctx := context.WithoutCancel(ctx)
		conn.Exec(ctx, "DROP OWNED BY "+role)
		conn.Exec(ctx, "DROP ROLE "+role)
		conn.Close(ctx)
	})
	u.User = url.UserPassword(role, "plain")
	var w warnings
	l := open(t, sqlledger.Config{URL: u.String(), Kinds: things, Observer: &w})
	if len(w) != 1 || !strings.Contains(w[0], "pg_trgm") {
		t.Fatalf("the warnings are %q, want one about pg_trgm", w)
	}
	commit(t, l, put("abc", "acme", "accepted", 0))
	got, err := l.List(ctx, ledger.Query{Kind: "thing", Where: ledger.Compare{Column: "name", Op: ledger.ILike, Values: []any{"%E-AB%"}}})
	if err != nil || len(got) != 1 {
		t.Fatalf("the search gave %v, %v", got, err)
	}
	l.Close()
}

type warnings []string

func (w *warnings) Committed(int, int, time.Duration, error) {}
func (w *warnings) Warned(text string)                       { *w = append(*w, text) }

// A PostgreSQL without room says so, and so does the ledger: nothing was written, and
// it goes on once there is room.
func TestFullDiskOfPostgreSQL(t *testing.T) {
	where := postgres.Database(t)
	l := open(t, sqlledger.Config{URL: where, Kinds: things})
	commit(t, l, put("before", "acme", "accepted", 0))
	conn, err := pgx.Connect(t.Context(), where)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { conn.Close(context.WithoutCancel(t.Context())) })
	run := func(sql string) {
		t.Helper()
		if _, err := conn.Exec(t.Context(), sql); err != nil {
			t.Fatal(err)
		}
	}
	run(`CREATE FUNCTION full_disk() RETURNS trigger LANGUAGE plpgsql AS $$
		BEGIN RAISE 'could not extend file "base/1/2": No space left on device' USING ERRCODE = '53100'; END $$`)
	run("CREATE TRIGGER full_disk BEFORE UPDATE ON head EXECUTE FUNCTION full_disk()")
	_, err = l.Commit(t.Context(), put("full", "acme", "accepted", 0))
	if !fault.Is(err, fault.Unavailable) || fault.Reason(err) != "disk-full" {
		t.Errorf("a full disk gives %v, %q", err, fault.Reason(err))
	}
	if _, err := l.Get(t.Context(), ledger.Ref{Kind: "thing", ID: "before"}); err != nil {
		t.Errorf("reading on a full disk: %v", err)
	}
	run("DROP TRIGGER full_disk ON head")
	commit(t, l, put("full", "acme", "accepted", 0))
}

// A resolver that says nothing is not waited for longer than a database is.
func TestSilentResolver(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	var left time.Duration
	_, err := sqlledger.Open(ctx, sqlledger.Config{
		URL: "postgres://drover@db.example.org/drover", Key: key, Kinds: things,
		Lookup: func(ctx context.Context, _ string) ([]string, error) {
			if end, bounded := ctx.Deadline(); bounded && left == 0 {
				left = time.Until(end)
			}
			cancel() // once is enough
			<-ctx.Done()
			return nil, ctx.Err()
		},
	})
	if !fault.Is(err, fault.Unavailable) || left <= 0 || left > 2*time.Second {
		t.Errorf("the resolver has %s: %v", left, err)
	}
}
