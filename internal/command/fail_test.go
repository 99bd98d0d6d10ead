package command_test

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/droverhq/drover/internal/access"
	"github.com/droverhq/drover/internal/bus"
	"github.com/droverhq/drover/internal/command"
	"github.com/droverhq/drover/internal/fault"
	"github.com/droverhq/drover/internal/ledger"
)

// desk hands one message over, so often as the test wants, and keeps what is sent.
type desk struct {
	handle func(context.Context, bus.Delivery) error
	fails  error // what sending comes to
	sent   []bus.Message
}

func (d *desk) Consume(_ context.Context, _ string, handle func(context.Context, bus.Delivery) error) error {
	d.handle = handle
	return nil
}

func (d *desk) Send(_ context.Context, to string, m bus.Message) error {
	m.Topic = to
	d.sent = append(d.sent, m)
	return d.fails
}

// answer is the data of what was sent last.
func (d *desk) answer(t *testing.T) command.Answer {
	t.Helper()
	var e struct{ Data command.Answer }
	if len(d.sent) == 0 {
		t.Fatal("nothing was sent")
	}
	if err := json.Unmarshal(d.sent[len(d.sent)-1].Body, &e); err != nil {
		t.Fatal(err)
	}
	return e.Data
}

// atDesk is a world whose messages the test hands over itself.
func atDesk(t *testing.T) (*world, *desk) {
	t.Helper()
	w, d := newWorld(t), &desk{}
	w.s.Bus = d
	if err := w.s.Run(t.Context()); err != nil {
		t.Fatal(err)
	}
	return w, d
}

// says is an API that has one answer to everything.
type says struct {
	status int
	retry  string // when to come again
}

func (s says) ServeHTTP(w http.ResponseWriter, _ *http.Request) {
	if s.retry != "" {
		w.Header().Set("Retry-After", s.retry)
	}
	if s.status > 0 {
		w.WriteHeader(s.status)
	}
}

// A command that fails again and again does not hold its hand for ever: the bus decides
// after each try, puts it aside in the end, and then its sender is told. What is only
// away is waited for.
func TestACommandThatAlwaysFailsIsPutAside(t *testing.T) {
	for _, c := range []struct {
		reason string
		status says
		end    bus.Verdict
	}{
		{"it broke the API", says{status: http.StatusInternalServerError}, bus.PutAway},
		{"the API said nothing", says{}, bus.PutAway},
		{"the ledger is away", says{status: http.StatusServiceUnavailable}, bus.Park},
		{"its owner sends too many", says{status: http.StatusTooManyRequests}, bus.Park},
		{"this site does not lead (any more)", says{status: http.StatusMisdirectedRequest}, bus.Park},
		{"whom the API asks about quota is away", says{http.StatusInternalServerError, "1"}, bus.Park},
	} {
		t.Run(c.reason, func(t *testing.T) {
			w, d := atDesk(t)
			w.s.API = c.status
			verdict := bus.Again
			for next := (bus.Delivery{Try: 1}); verdict != bus.PutAway && next.Try < 100; {
				if len(d.sent) > 0 {
					t.Fatalf("its sender was told before try %d", next.Try)
				}
				next.Message = message("alice", "m1", "instance.create", "things", `{"name":"rex"}`)
				err := d.handle(t.Context(), next)
				verdict, _ = bus.Later(err, next)
				next = next.Retried(err)
			}
			if verdict != c.end {
				t.Errorf("in the end it is %v, want %v", verdict, c.end)
			}
			if c.end != bus.PutAway {
				if len(d.sent) > 0 {
					t.Errorf("its sender was told %+v", d.answer(t))
				}
				return
			}
			if a := d.answer(t); a.Phase != command.Rejected || a.Code != "failed" || a.Message != "m1" || a.Reason == "" {
				t.Errorf("its sender was told %+v", a)
			}
		})
	}
}

// A time that nobody can write down is refused before anything is done.
func TestTimesThatCannotBeWritten(t *testing.T) {
	for when, good := range map[string]bool{
		"9999-12-31T23:59:59-12:00": false, // in UTC it is the year after
		"0000-12-31T23:59:59Z":      false,
		"0001-01-01T00:00:00+12:00": false,
		"9999-12-31T23:59:59Z":      true,
		"2026-11-15T19:20:41+02:00": true,
	} {
		m := message("alice", "1", "instance.create", "things", `{}`)
		m.Body = []byte(strings.Replace(string(m.Body), `{`, `{"time":"`+when+`",`, 1))
		if _, err := command.Parse(&m); fault.Is(err, fault.Invalid) == good {
			t.Errorf("%s: %v", when, err)
		}
	}
}

// Who does not read its answers holds up neither those who take commands nor what is
// told of changes. A broker that is away is another matter.
func TestAFullQueueOfAnswersIsNobodysTrouble(t *testing.T) {
	full := fault.New(fault.Unavailable, "full").Because(bus.ReasonFull)
	for _, c := range []struct {
		reason string
		err    error
		again  bool
	}{
		{"it is full", full, false},
		{"nobody is there any more", fault.New(fault.NotFound, "nobody"), false},
		{"the broker is away", fault.New(fault.Unavailable, "away"), true},
	} {
		w, d := atDesk(t)
		d.fails = c.err
		m := message("alice", "m1", "instance.create", "things", `{"name":"rex"}`)
		if err := d.handle(t.Context(), bus.Delivery{Message: m, Try: 1}); err != nil {
			t.Fatal(err)
		}
		if err := d.handle(t.Context(), bus.Delivery{Message: m, Try: 1}); (err != nil) != c.again || len(d.sent) != 1 {
			t.Errorf("%s: the second time %v, and %d were sent", c.reason, err, len(d.sent))
		}
		record, err := command.Decode(w.list(t, "command")[0])
		if err != nil {
			t.Fatal(err)
		}
		if err := w.s.Reply(t.Context(), record, "e1", command.Accepted); (err != nil) != c.again {
			t.Errorf("%s: an answer comes to %v", c.reason, err)
		}
	}
}

// issuer is one whose tokens nobody can verify for a while, or at all.
type issuer struct{ err error }

func (i issuer) Authenticate(context.Context, string) (access.Principal, error) {
	return access.Principal{}, i.err
}

// A command is not thrown away because nobody can tell at the moment whose it is, nor
// before its sender was told.
func TestWhoseCommandsAreIsFoundOutLater(t *testing.T) {
	away := fault.New(fault.Denied, "the token cannot be verified: %w", access.ErrIssuerAway).Because("token")
	bad := fault.New(fault.Denied, "no such token").Because("token")
	for _, c := range []struct {
		reason       string
		err          error
		ends         bool // the process
		comes, tells bool
	}{
		{"its issuer is away", away, false, true, false},
		{"it is nobody's", bad, false, false, true},
		{"it is nobody's, and the process ends before its sender hears of it", bad, true, true, true},
	} {
		w, d := atDesk(t)
		w.s.Authenticator = issuer{c.err}
		ctx, cancel := context.WithCancel(t.Context())
		if c.ends {
			d.fails = fault.New(fault.Unavailable, "too late")
			cancel()
		}
		err := d.handle(ctx, bus.Delivery{Message: message("alice", "m1", "instance.create", "things", `{"name":"rex"}`), Try: 1})
		cancel()
		if c.comes != fault.Is(err, fault.Unavailable) || !c.comes && err != nil || c.tells != (len(d.sent) > 0) {
			t.Errorf("%s: %v, %d were told", c.reason, err, len(d.sent))
		}
	}
}

// Who sends a command again hears what became of it where they are now.
func TestASecondMessageIsAnsweredWhereItSays(t *testing.T) {
	_, d := atDesk(t)
	m := message("alice", "m1", "instance.create", "things", `{"name":"rex"}`)
	for i, c := range []struct{ to, want string }{{"answers", ""}, {"elsewhere", "elsewhere"}, {"", "answers"}} {
		m.ReplyTo = c.to
		if err := d.handle(t.Context(), bus.Delivery{Message: m, Try: 1}); err != nil {
			t.Fatal(err)
		}
		if len(d.sent) != i { // the first one's answer goes out from the log
			t.Fatalf("%d answers after %d messages", len(d.sent), i+1)
		}
		if i > 0 && d.sent[i-1].Topic != c.want {
			t.Errorf("the answer to a message from %q went to %s", c.to, d.sent[i-1].Topic)
		}
	}
}

// Whatever id is taken, answers can name it.
func TestIDsThatAnswersCanName(t *testing.T) {
	for size, good := range map[int]bool{255: true, 256: false} {
		m := message("alice", strings.Repeat("x", size), "instance.create", "things", `{}`)
		_, err := command.Parse(&m)
		if (err == nil) != good {
			t.Errorf("%d bytes: %v", size, err)
		}
		if sent := (bus.Message{Correlation: m.ID}).Check(); good && sent != nil {
			t.Errorf("an answer to an id of %d bytes: %v", size, sent)
		}
	}
}

// Whatever cannot be read is answered, and its sender can tell to what the answer belongs.
func TestWhatCannotBeReadIsAnswered(t *testing.T) {
	long := strings.Repeat("x", 256)
	for _, c := range []struct {
		reason, body, id, correlation string
		message, belongs              string // what the answer says, and the broker's property of it
	}{
		{"an id in the message", `{"id":"m1"}`, "p1", "c1", "m1", "m1"},
		{"one that the broker knows", `not JSON`, "p1", "c1", "p1", "p1"},
		{"a correlation alone", `not JSON`, "", "c1", "", "c1"},
		{"an id that is no text", `{"id":"\u0000"}`, "", "c1", "", "c1"},
		{"an id that no answer can have", `{"id":"` + long + `"}`, "", "c1", "", "c1"},
		{"a type that no answer can have", `{"id":"m1","specversion":"1.0","source":"/s","type":"` + strings.Repeat(long, 4<<10-1) + `"}`, "", "", "m1", "m1"},
		{"a correlation that is no text", `not JSON`, "", "c\n1", "", ""},
		{"nothing", `not JSON`, "", "", "", ""},
	} {
		_, d := atDesk(t)
		m := bus.Message{ID: c.id, Correlation: c.correlation, ReplyTo: "answers", Body: []byte(c.body)}
		if err := d.handle(t.Context(), bus.Delivery{Message: m, Try: 1}); !bus.IsRejected(err) {
			t.Errorf("%s: it comes to %v", c.reason, err)
		}
		a, sent := d.answer(t), d.sent[0]
		if a.Phase != command.Rejected || a.Message != c.message || sent.Correlation != c.belongs {
			t.Errorf("%s: the answer to %q is %+v", c.reason, sent.Correlation, a)
		}
		if err := sent.Check(); err != nil {
			t.Errorf("%s: %v", c.reason, err)
		}
	}
}

// The sender of what is too large to be taken hears why.
func TestWhatIsTooLargeIsSaid(t *testing.T) {
	_, d := atDesk(t)
	m := message("alice", "m1", "instance.create", "things", `{}`)
	m.Body = nil
	if err := d.handle(t.Context(), bus.Delivery{Message: m, Try: 1, Large: 20 << 20}); !bus.IsRejected(err) {
		t.Errorf("it comes to %v", err)
	}
	if a := d.answer(t); a.Phase != command.Rejected || a.Code != "malformed" || a.Message != "m1" || !strings.Contains(a.Reason, "20971520 bytes") {
		t.Errorf("its sender was told %+v", a)
	}
}

// Whose token was sealed with a key that is gone is told that, and the message is kept; with
// its id and a token it is done.
func TestAKeyThatIsLostIsSaid(t *testing.T) {
	w, d := atDesk(t)
	var seen looker
	w.s.Observer = &seen
	m := message("alice", "m1", "instance.create", "things", `{"name":"rex"}`)
	sealed := m
	sealed.Headers = nil
	err := d.handle(t.Context(), bus.Delivery{Message: sealed, Try: 1, KeyLost: true})
	if verdict, _ := bus.Later(err, bus.Delivery{Try: 1}); verdict != bus.PutAway || !fault.Is(err, fault.Unavailable) || !strings.Contains(err.Error(), "another master key") {
		t.Errorf("it comes to %v", err)
	}
	if a := d.answer(t); a.Phase != command.Rejected || a.Code != "key-lost" || a.Message != "m1" || !strings.Contains(a.Reason, "another master key") {
		t.Errorf("its sender was told %+v", a)
	}
	if len(seen.refused) != 1 || seen.refused[0].Outcome != "key-lost" || len(w.list(t, command.Kind.Name)) != 0 {
		t.Errorf("told is %+v", seen.refused)
	}
	if err := d.handle(t.Context(), bus.Delivery{Message: m, Try: 1}); err != nil || len(w.list(t, command.Kind.Name)) != 1 {
		t.Errorf("with a token it comes to %v", err)
	}
}

// One id is one command: what else comes with it is not answered with what became of the
// first, and nothing is done. However the same is written, it is the same.
func TestAnIDThatIsUsedForSomethingElse(t *testing.T) {
	for _, c := range []struct {
		reason, kind, subject, data string
		same                        bool
	}{
		{"the same", "instance.create", "things", `{"name":"rex","n":1}`, true},
		{"the same, written otherwise", "instance.create", "things", `{ "n": 1, "name": "rex" }`, true},
		{"other data", "instance.create", "things", `{"name":"rob","n":1}`, false},
		{"another subject", "instance.create", "others", `{"name":"rex","n":1}`, false},
		{"another command", "instance.delete", "things/rex", `null`, false},
	} {
		t.Run(c.reason, func(t *testing.T) {
			w, d := atDesk(t)
			var seen looker
			w.s.Observer = &seen
			if err := d.handle(t.Context(), bus.Delivery{Message: message("alice", "m1", "instance.create", "things", `{"name":"rex","n":1}`), Try: 1}); err != nil {
				t.Fatal(err)
			}
			second := message("alice", "m1", c.kind, c.subject, c.data)
			if err := d.handle(t.Context(), bus.Delivery{Message: second, Try: 1}); err != nil {
				t.Fatal(err)
			}
			if n := len(w.list(t, "thing")); n != 1 || w.calls != 1 {
				t.Errorf("%d things were made by %d calls", n, w.calls)
			}
			a := d.answer(t)
			if c.same && (a.Phase != command.Accepted || len(seen.refused) != 0) || !c.same && (a.Phase != command.Rejected || a.Code != "id-reused" || a.Message != "m1" || a.Object != "" || len(seen.refused) != 1 || seen.refused[0].Outcome != "reused") {
				t.Errorf("its sender was told %+v, and we %v", a, seen.refused)
			}
		})
	}
}

// What is kept of a command's data tells nobody what the data was.
func TestDigestsNeedTheKey(t *testing.T) {
	digests := map[string]bool{}
	for _, key := range []string{"", "one", "two"} {
		w, d := atDesk(t)
		w.s.Key = []byte(key)
		if err := d.handle(t.Context(), bus.Delivery{Message: message("alice", "m1", "instance.create", "things", `{"name":"rex"}`), Try: 1}); err != nil {
			t.Fatal(err)
		}
		record, err := command.Decode(w.list(t, "command")[0])
		if err != nil || record.Spec.Digest == "" {
			t.Fatalf("the digest is %q, %v", record.Spec.Digest, err)
		}
		digests[record.Spec.Digest] = true
	}
	if len(digests) != 3 {
		t.Errorf("three keys make %d digests", len(digests))
	}
}

// offAndOn is an issuer of tokens that may be away; those of alice are known all the same.
type offAndOn struct{ away *atomic.Bool }

func (o offAndOn) Authenticate(ctx context.Context, token string) (access.Principal, error) {
	if token == "bob" && o.away.Load() {
		return access.Principal{}, fault.New(fault.Denied, "the token cannot be verified: %w", access.ErrIssuerAway)
	}
	return people{}.Authenticate(ctx, token)
}

// While somebody's issuer is away, more of their commands come than are carried out at a
// time: others' go on. When it is back, each of those is done, once.
func TestAnIssuerThatIsAwayHoldsUpNobodyElse(t *testing.T) {
	w := newWorld(t)
	away := offAndOn{new(atomic.Bool)}
	away.away.Store(true)
	w.s.Authenticator = away
	w.run(t)
	const n = 80
	for i := range n {
		w.send(t, command.Queue, message("bob", fmt.Sprint("b", i), "instance.create", "things", fmt.Sprintf(`{"name":"bob-%d"}`, i)))
	}
	w.send(t, command.Queue, message("alice", "a", "instance.create", "things", `{"name":"rex"}`))
	until(t, "alice's command is carried out", func() bool { return len(w.list(t, "thing")) == 1 })
	if made := w.list(t, "thing")[0]; made.Owner != "alice" {
		t.Errorf("%s has one", made.Owner)
	}
	away.away.Store(false)
	until(t, "bob's are", func() bool { return len(w.list(t, "thing")) == n+1 })
	if aside, err := w.bus.Aside().Count(t.Context()); err != nil || aside != 0 || len(w.list(t, "command")) != n+1 {
		t.Errorf("%d were put aside (%v), and there are %d commands", aside, err, len(w.list(t, "command")))
	}
}

// noting is a ledger that keeps who was woken, and fails at first.
type noting struct {
	command.Store
	mu    sync.Mutex
	fails int
	woken map[string]int
}

func (n *noting) Commit(ctx context.Context, set ledger.Set) (ledger.Result, error) {
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.fails--; n.fails >= 0 {
		return ledger.Result{}, fault.New(fault.Unavailable, "away")
	}
	for _, w := range set.Wakes {
		n.woken[w.Ref.ID]++
	}
	return n.Store.Commit(ctx, set)
}

// A server that ends after the work of a command is done, and before it has woken the
// command, leaves it to the next one, which looks at all that are open.
func TestCommandsThatWereOpenAreLookedAt(t *testing.T) {
	w, d := atDesk(t)
	if err := d.handle(t.Context(), bus.Delivery{Message: message("alice", "m1", "instance.create", "things", `{"name":"rex"}`), Try: 1}); err != nil {
		t.Fatal(err)
	}
	if err := d.handle(t.Context(), bus.Delivery{Message: message("alice", "m2", "instance.create", "things", `{}`), Try: 1}); err != nil { // refused: it has ended
		t.Fatal(err)
	}
	n := &noting{Store: w.store, fails: 1, woken: map[string]int{}}
	w.s.Store = n
	ctx, cancel := context.WithCancel(t.Context())
	var all sync.WaitGroup
	all.Go(func() { _ = w.s.Feed.(*ledger.Feed).Run(ctx) })
	all.Go(func() { _ = w.s.Follow(ctx, w.store) })
	defer all.Wait()
	defer cancel()
	until(t, "it is looked at", func() bool {
		n.mu.Lock()
		defer n.mu.Unlock()
		return n.woken[command.ID("acme", "alice", "/test", "m1")] > 0
	})
	n.mu.Lock()
	defer n.mu.Unlock()
	if len(n.woken) != 1 {
		t.Errorf("woken are %v", n.woken)
	}
}
