package sqlledger_test

import (
	"context"
	"crypto/rand"
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

// login is what a test says it is.
type login struct {
	mu             sync.Mutex
	name, password string
	err            error
	changed        chan struct{}
	refused        []string
}

func newLogin(name, password string) *login {
	return &login{name: name, password: password, changed: make(chan struct{})}
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
	l.mu.Lock()
	defer l.mu.Unlock()
	l.refused = append(l.refused, name)
}

func (l *login) change(name, password string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.name, l.password = name, password
	close(l.changed)
	l.changed = make(chan struct{})
}

// house is a database whose tables belong to one role, whoever logs in.
type house struct {
	t     *testing.T
	admin *pgx.Conn
	url   string // without a user
	owner string
}

func newHouse(t *testing.T) *house {
	t.Helper()
	where := postgres.Database(t)
	admin, err := pgx.Connect(t.Context(), where)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { admin.Close(context.Background()) })
	u, err := url.Parse(where)
	if err != nil {
		t.Fatal(err)
	}
	h := &house{t: t, admin: admin, owner: "owner_" + strings.ToLower(rand.Text())}
	h.exec("CREATE ROLE " + h.owner + " NOLOGIN")
	h.exec("ALTER DATABASE " + strings.Trim(u.Path, "/") + " OWNER TO " + h.owner)
	u.User = nil
	h.url = u.String()
	return h
}

func (h *house) exec(sql string) {
	h.t.Helper()
	if _, err := h.admin.Exec(context.Background(), sql); err != nil {
		h.t.Fatalf("%s: %v", sql, err)
	}
}

// user makes one as Vault would.
func (h *house) user() (name, password string) {
	h.t.Helper()
	name, password = "user_"+strings.ToLower(rand.Text()), rand.Text()
	h.exec(fmt.Sprintf("CREATE ROLE %s LOGIN PASSWORD '%s' IN ROLE %s", name, password, h.owner))
	h.exec(fmt.Sprintf("ALTER ROLE %s SET role = '%s'", name, h.owner))
	return name, password
}

// left is how many connections a user has.
func (h *house) left(name string) (n int) {
	h.t.Helper()
	if err := h.admin.QueryRow(context.Background(), "SELECT count(*) FROM pg_stat_activity WHERE usename = $1", name).Scan(&n); err != nil {
		h.t.Fatal(err)
	}
	return n
}

func eventually(t *testing.T, what string, ok func() bool) {
	t.Helper()
	for end := time.Now().Add(time.Minute); !ok(); time.Sleep(5 * time.Millisecond) {
		if time.Now().After(end) {
			t.Fatalf("it does not come about that %s", what)
		}
	}
}

// Users come and go under load: nobody who writes or reads notices, hints arrive, and
// nothing is left of those who went.
func TestLoginChangesUnderLoad(t *testing.T) {
	h := newHouse(t)
	name, password := h.user()
	who := newLogin(name, password)
	l := open(t, sqlledger.Config{URL: h.url, Login: who, Kinds: things})
	other := open(t, sqlledger.Config{URL: h.url, Login: who, Kinds: things})
	var mu sync.Mutex
	written := map[string]bool{}
	stop := make(chan struct{})
	var wg sync.WaitGroup
	halt := sync.OnceFunc(func() { close(stop); wg.Wait() })
	t.Cleanup(halt)
	for w := range 4 {
		wg.Go(func() {
			for n := 0; ; n++ {
				select {
				case <-stop:
					return
				default:
				}
				id := fmt.Sprintf("w%d-%d", w, n)
				if _, err := l.Commit(context.Background(), put(id, "acme", "accepted", 0)); err != nil {
					t.Errorf("a commit failed: %v", err)
					return
				}
				if _, err := other.Get(context.Background(), ledger.Ref{Kind: "thing", ID: id}); err != nil {
					t.Errorf("what was committed is not read: %v", err)
					return
				}
				mu.Lock()
				written[id] = true
				mu.Unlock()
			}
		})
	}
	for round := range 8 {
		old := name
		name, password = h.user()
		who.change(name, password)
		eventually(t, "the old user is gone", func() bool {
			if _, err := other.Commit(context.Background(), put("other-"+rand.Text(), "acme", "accepted", 0)); err != nil {
				t.Fatalf("round %d: %v", round, err)
			}
			return h.left(old) == 0
		})
		h.exec("DROP ROLE " + old)
	}
	hints := other.Hints(t.Context())
	eventually(t, "hints arrive", func() bool {
		commit(t, l, put("hint-"+rand.Text(), "acme", "accepted", 0))
		select {
		case <-hints:
			return true
		default:
			return false
		}
	})
	halt()
	if len(written) < 8 {
		t.Errorf("only %d were written", len(written))
	}
	for id := range written {
		if _, err := l.Get(t.Context(), ledger.Ref{Kind: "thing", ID: id}); err != nil {
			t.Errorf("%s is lost: %v", id, err)
		}
	}
	dense(t, l)
	// The tables are the owner's, so that who comes next may use them.
	var strangers int
	if err := h.admin.QueryRow(t.Context(), "SELECT count(*) FROM pg_tables WHERE schemaname = 'public' AND tableowner <> $1", h.owner).Scan(&strangers); err != nil || strangers > 0 {
		t.Errorf("%d tables are somebody else's (%v)", strangers, err)
	}
}

// A user that does not open the database replaces nobody who does.
func TestLoginThatIsRefused(t *testing.T) {
	h := newHouse(t)
	name, password := h.user()
	who := newLogin(name, password)
	l := open(t, sqlledger.Config{URL: h.url, Login: who, Kinds: things})
	commit(t, l, put("before", "acme", "accepted", 0))
	who.change("nobody_"+strings.ToLower(rand.Text()), "wrong")
	eventually(t, "the login hears that it is refused", func() bool {
		who.mu.Lock()
		defer who.mu.Unlock()
		return len(who.refused) > 0
	})
	for i := range 20 {
		commit(t, l, put(fmt.Sprint("meanwhile-", i), "acme", "accepted", 0))
	}
	next, secret := h.user()
	who.change(next, secret)
	eventually(t, "the right one takes over", func() bool {
		commit(t, l, put("after-"+rand.Text(), "acme", "accepted", 0))
		return h.left(name) == 0
	})
}

// One who can go on with what is open does, while there is nothing to open more with.
func TestLoginThatIsAway(t *testing.T) {
	h := newHouse(t)
	who := newLogin("", "")
	who.err = fault.New(fault.Unavailable, "the vault is sealed")
	_, err := sqlledger.Open(t.Context(), sqlledger.Config{URL: h.url, Login: who, Kinds: things, Key: key})
	if fault.Reason(err) != "no-credential" || !strings.Contains(err.Error(), "sealed") {
		t.Fatalf("nothing is known, and it says %v", err)
	}
	who.err = nil
	who.name, who.password = h.user()
	l := open(t, sqlledger.Config{URL: h.url, Login: who, Kinds: things})
	if _, err := l.Head(t.Context()); err != nil { // one that reads is open
		t.Fatal(err)
	}
	who.mu.Lock()
	who.err = fault.New(fault.Unavailable, "the vault is sealed")
	who.mu.Unlock()
	commit(t, l, put("meanwhile", "acme", "accepted", 0))
	if _, err := l.Get(t.Context(), ledger.Ref{Kind: "thing", ID: "meanwhile"}); err != nil {
		t.Errorf("a read: %v", err)
	}
}

// The host is looked up for each connection, with a port that is better than the URL's.
func TestHostIsLookedUp(t *testing.T) {
	u, err := url.Parse(postgres.Database(t))
	if err != nil {
		t.Fatal(err)
	}
	at := u.Host
	u.Host = "postgres.service.consul"
	l := open(t, sqlledger.Config{URL: u.String(), Kinds: things, Lookup: func(_ context.Context, host string) ([]string, error) {
		if host != u.Host {
			t.Errorf("asked for %s", host)
		}
		return []string{at}, nil
	}})
	commit(t, l, put("there", "acme", "accepted", 0))
}
