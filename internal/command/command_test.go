package command_test

import (
	"bytes"
	"context"
	"encoding/json"
	"net/http"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/droverhq/drover/internal/access"
	"github.com/droverhq/drover/internal/bus"
	"github.com/droverhq/drover/internal/bus/inprocess"
	"github.com/droverhq/drover/internal/command"
	"github.com/droverhq/drover/internal/fault"
	"github.com/droverhq/drover/internal/ledger"
	"github.com/droverhq/drover/internal/operation"
	"github.com/droverhq/drover/internal/reconcile"
	"github.com/droverhq/drover/internal/sqlledger"
)

var things = ledger.Kind{Name: "thing"}

// people knows two tokens.
type people struct{}

func (people) Authenticate(_ context.Context, token string) (access.Principal, error) {
	switch token {
	case "alice", "bob":
		return access.Principal{User: token, Org: map[string]string{"alice": "acme", "bob": "evil"}[token]}, nil
	}
	return access.Principal{}, fault.New(fault.Denied, "no such token")
}

// world is a ledger, a bus, and an API that makes things.
type world struct {
	store *sqlledger.Ledger
	once  command.Committer
	bus   *inprocess.Bus
	s     *command.Service

	mu    sync.Mutex
	calls int
	away  int // calls that the API cannot take first
}

func newWorld(t *testing.T) *world {
	t.Helper()
	store, err := sqlledger.Open(t.Context(), sqlledger.Config{URL: filepath.Join(t.TempDir(), "l.db"), Key: bytes.Repeat([]byte{7}, ledger.KeySize),
		Kinds: []ledger.Kind{command.Kind, operation.Kind, operation.AuditKind, things}})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = store.Close() })
	w := &world{store: store, once: command.Committer{Committer: store, Reader: store}, bus: inprocess.New(inprocess.Config{})}
	t.Cleanup(func() { _ = w.bus.Close() })
	w.s = command.NewService(command.Config{Store: store, Bus: w.bus, Authenticator: people{}, API: w, Feed: ledger.NewFeed(store)})
	return w
}

// ServeHTTP is the API: it makes a thing, with an operation, in one commit, after it
// has put on record that it was called.
func (w *world) ServeHTTP(out http.ResponseWriter, q *http.Request) {
	w.mu.Lock()
	w.calls++
	away := w.calls <= w.away
	w.mu.Unlock()
	if away {
		out.WriteHeader(http.StatusServiceUnavailable)
		return
	}
	who, _ := people{}.Authenticate(q.Context(), strings.TrimPrefix(q.Header.Get("Authorization"), "Bearer "))
	var body struct{ Name string }
	_ = json.NewDecoder(q.Body).Decode(&body)
	if body.Name == "" {
		out.WriteHeader(http.StatusBadRequest)
		_, _ = out.Write([]byte(`{"code":"DROVER-8","reason":"a thing has a name"}`))
		return
	}
	_, err := w.once.Commit(q.Context(), ledger.Set{Actor: who.User, Cause: ledger.ByRequest("r"), Puts: []ledger.Put{{
		Object: ledger.Object{Ref: ledger.Ref{Kind: operation.AuditKind.Name, ID: ledger.NewID()}}, Op: "create"}}})
	thing := ledger.Object{Ref: ledger.Ref{Kind: "thing", ID: ledger.NewID()}, Org: who.Org, Owner: who.User, Name: body.Name, Phase: "made"}
	if err == nil {
		var res ledger.Result
		res, err = w.once.Commit(q.Context(), ledger.Set{Actor: who.User, Cause: ledger.ByRequest("r"),
			Puts: []ledger.Put{{Object: thing, Op: "create"}, operation.Start("create", thing, ledger.ByRequest("r"))}})
		if err == nil && len(res.Objects) != 2 {
			panic("the caller sees what is not its own")
		}
	}
	if err != nil {
		out.WriteHeader(http.StatusConflict)
		return
	}
	out.WriteHeader(http.StatusAccepted)
}

func (w *world) list(t *testing.T, kind string) []ledger.Object {
	t.Helper()
	all, err := w.store.List(t.Context(), ledger.Query{Kind: kind})
	if err != nil {
		t.Fatal(err)
	}
	return all
}

// run takes commands, and carries them on, until the test ends.
func (w *world) run(t *testing.T) {
	t.Helper()
	ctx, cancel := context.WithCancel(context.Background())
	var all sync.WaitGroup
	loop := reconcile.New(reconcile.Config{Ledger: w.store, Reconcilers: map[string]reconcile.Reconciler{command.Kind.Name: w.s}, Poll: 50 * time.Millisecond})
	for _, f := range []func(context.Context) error{w.s.Run, w.s.Feed.(*ledger.Feed).Run, loop.Run,
		func(ctx context.Context) error { return w.s.Follow(ctx, w.store) }} {
		all.Go(func() { _ = f(ctx) })
	}
	t.Cleanup(func() { cancel(); all.Wait() })
}

func message(token, id, kind, subject, data string) bus.Message {
	body, _ := json.Marshal(map[string]any{"specversion": "1.0", "id": id, "source": "/test", "type": command.TypePrefix + kind, "subject": subject, "data": json.RawMessage(data)})
	return bus.Message{ID: id, Type: command.TypePrefix + kind, ReplyTo: "answers", Headers: map[string]string{"Authorization": "Bearer " + token}, Body: body}
}

// send brings a message to a queue as soon as somebody listens there.
func (w *world) send(t *testing.T, queue string, m bus.Message) {
	t.Helper()
	until(t, "somebody listens at "+queue, func() bool {
		err := w.bus.Send(t.Context(), queue, m)
		if err != nil && !fault.Is(err, fault.NotFound) {
			t.Fatal(err)
		}
		return err == nil
	})
}

// answers collects what senders hear.
func (w *world) answers(t *testing.T) <-chan command.Answer {
	t.Helper()
	out := make(chan command.Answer, 100)
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan struct{})
	go func() {
		defer close(done)
		_ = w.bus.Consume(ctx, "answers", func(_ context.Context, d bus.Delivery) error {
			var e struct{ Data command.Answer }
			if err := json.Unmarshal(d.Body, &e); err != nil {
				t.Error(err)
			}
			out <- e.Data
			return nil
		})
	}()
	t.Cleanup(func() { cancel(); <-done })
	w.send(t, "answers", bus.Message{Body: []byte("{}")})
	<-out // it listens
	return out
}

// until looks again and again.
func until(t *testing.T, what string, ok func() bool) {
	t.Helper()
	for deadline := time.Now().Add(time.Minute); !ok(); {
		if time.Now().After(deadline) {
			t.Fatalf("not within a minute: %s", what)
		}
		time.Sleep(time.Millisecond)
	}
}

// However often a command comes, and whatever it is told of the API for a while: it
// is done once, and its record is there with what it did.
func TestACommandIsDoneOnce(t *testing.T) {
	w := newWorld(t)
	w.away = 3
	heard := w.answers(t)
	w.run(t)
	for range 5 {
		w.send(t, command.Queue, message("alice", "m1", "instance.create", "things", `{"name":"rex"}`))
	}
	w.send(t, command.Queue, message("bob", "m1", "instance.create", "things", `{"name":"rex"}`)) // the same id, of somebody else
	until(t, "two things, and both commands end", func() bool {
		ended := 0
		for _, o := range w.list(t, "command") {
			if o.Phase != command.Accepted {
				ended++
			}
		}
		for _, o := range w.list(t, operation.Kind.Name) { // as the loop would, when the thing is there
			if o.Phase == operation.Running {
				put, err := operation.Finish(o, operation.Succeeded, "", time.Now())
				if err != nil {
					t.Fatal(err)
				}
				_, _ = w.store.Commit(t.Context(), ledger.Set{Actor: "system", Cause: ledger.BySchedule("test"), Puts: []ledger.Put{put}})
			}
		}
		return ended == 2
	})
	if n := len(w.list(t, "thing")); n != 2 {
		t.Errorf("%d things were made of two commands", n)
	}
	for _, o := range w.list(t, "command") {
		c, err := command.Decode(o)
		if err != nil || c.Phase != command.Done || c.Status.Object.Kind != "thing" || o.Fields["operation"] == nil {
			t.Errorf("%s: %+v %v", o.Phase, c.Status, err)
		}
	}
	if a := <-heard; a.Message != "m1" || a.Command != "instance.create" {
		t.Errorf("whoever sends twice hears %+v", a)
	}
}

func TestWhatCannotBeDoneIsSaid(t *testing.T) {
	w := newWorld(t)
	heard := w.answers(t)
	w.run(t)
	for _, c := range []struct {
		reason  string
		message bus.Message
		code    string
		aside   bool
	}{
		{"nobody knows whose it is", message("eve", "1", "instance.create", "things", `{"name":"x"}`), "token", false},
		{"without a token", bus.Message{ReplyTo: "answers", Body: message("", "2", "instance.create", "things", `{}`).Body}, "token", false},
		{"no JSON", bus.Message{ReplyTo: "answers", Body: []byte("{")}, "malformed", true},
		{"no UTF-8", bus.Message{ReplyTo: "answers", Body: []byte("{\"id\":\"\xff\"}")}, "malformed", true},
		{"a command of the future", message("alice", "3", "instance.teleport", "things", `{}`), "malformed", true},
		{"a subject that leads elsewhere", message("alice", "4", "instance.delete", "../users", `{}`), "malformed", true},
		{"a subject with too many words", message("alice", "5", "instance.create", "things/x", `{}`), "malformed", true},
	} {
		w.send(t, command.Queue, c.message)
		a := <-heard
		if a.Phase != command.Rejected || a.Code != c.code || a.Reason == "" || strings.Contains(a.Reason, "eve") {
			t.Errorf("%s: %+v", c.reason, a)
		}
		all, err := w.bus.Aside().List(t.Context(), 100)
		if err != nil {
			t.Fatal(err)
		}
		if c.aside {
			until(t, c.reason, func() bool { all, err = w.bus.Aside().List(t.Context(), 100); return err == nil && len(all) == 1 })
			if err := w.bus.Aside().Drop(t.Context(), all[0].Key); err != nil {
				t.Error(err)
			}
		} else if len(all) > 0 {
			t.Errorf("%s: it was put aside", c.reason)
		}
	}
	w.send(t, command.Queue, message("alice", "6", "instance.create", "things", `{}`)) // the API refuses it: that is on record
	until(t, "a record of the refusal", func() bool { return len(w.list(t, "command")) == 1 })
	c, err := command.Decode(w.list(t, "command")[0])
	if err != nil || c.Phase != command.Rejected || c.Status.Code != "DROVER-8" || c.Status.Message != "a thing has a name" {
		t.Errorf("the record says %+v, %v", c.Status, err)
	}
	if n := len(w.list(t, "thing")); n != 0 {
		t.Errorf("%d things were made", n)
	}
}

func TestIDsAreApart(t *testing.T) {
	text := rapid.StringN(0, 4, 8)
	rapid.Check(t, func(r *rapid.T) {
		a := [3]string{text.Draw(r, "org"), text.Draw(r, "source"), text.Draw(r, "id")}
		b := [3]string{text.Draw(r, "org2"), text.Draw(r, "source2"), text.Draw(r, "id2")}
		same := command.ID(a[0], "u", a[1], a[2]) == command.ID(b[0], "u", b[1], b[2])
		if same != (a == b) {
			r.Errorf("%q and %q", a, b)
		}
	})
}

// Whatever is observed, a plan is done with what it says, and goes nowhere from an end.
func TestPlanSettles(t *testing.T) {
	phases := rapid.SampledFrom([]string{"running", "succeeded", "failed", "superseded", "planning", "planned", "approval", "ready", ""})
	kinds := rapid.SampledFrom([]string{"plan", "syncrun", "instance", "environment"})
	rapid.Check(t, func(r *rapid.T) {
		var seen command.Observed
		if rapid.Bool().Draw(r, "operation") {
			seen.Operation = &ledger.Object{Ref: ledger.Ref{Kind: "operation"}, Phase: phases.Draw(r, "operation phase")}
		}
		if rapid.Bool().Draw(r, "subject") {
			seen.Subject = &ledger.Object{Ref: ledger.Ref{Kind: kinds.Draw(r, "kind")}, Phase: phases.Draw(r, "phase")}
		}
		now := time.Unix(1e9, 0)
		c, op := command.Plan(command.Command{Object: ledger.Object{Phase: command.Accepted}}, seen, now)
		if c.Ended() {
			if op != c.Phase || c.Status.Finished != now || c.Phase == command.Failed && c.Status.Message == "" {
				r.Errorf("it ended as %+v, %q", c.Status, op)
			}
			return
		}
		if again, op := command.Plan(c, seen, now.Add(time.Hour)); op != "" || again.Status != c.Status {
			r.Errorf("the same is news again: %q", op)
		}
	})
}

// Nobody has Drover send answers into its own queues, where they would be commands.
func TestAnswersGoToNoQueueOfOurOwn(t *testing.T) {
	for to, taken := range map[string]bool{command.Queue: false, "drover.dead": false, "my-drover.answers": true, "team.drover.answers": true} {
		m := message("alice", "1", "instance.create", "things", `{}`)
		m.ReplyTo = to
		if _, err := command.Parse(&m); (err == nil) != taken || err != nil && !fault.Is(err, fault.Invalid) {
			t.Errorf("reply_to %s: %v", to, err)
		}
	}
}

// Data of another form than the one that is known is not guessed at.
func TestSchemasOfTheFuture(t *testing.T) {
	for _, c := range []struct {
		reason, attribute string
		taken             bool
	}{
		{"none", `"specversion":"1.0"`, true},
		{"ours", `"specversion":"1.0","dataschema":"/api/v1/asyncapi"`, true},
		{"ours, to the point", `"specversion":"1.0","dataschema":"/api/v1/asyncapi#/components/schemas/CreateInstance"`, true},
		{"that of another command", `"specversion":"1.0","dataschema":"/api/v1/asyncapi#/components/schemas/RunAction"`, false},
		{"of the future", `"specversion":"1.0","dataschema":"/api/v2/asyncapi#/components/schemas/CreateInstance"`, false},
		{"foreign", `"specversion":"1.0","dataschema":"https://example.org/order.json"`, false},
		{"an envelope of the future", `"specversion":"2.0"`, false},
	} {
		m := bus.Message{Body: []byte(`{` + c.attribute + `,"id":"1","source":"/t","type":"dev.drover.command.instance.create","subject":"things","data":{}}`)}
		if _, err := command.Parse(&m); (err == nil) != c.taken || err != nil && fault.Reason(err) != "malformed" {
			t.Errorf("%s: %v", c.reason, err)
		}
	}
}

func FuzzParse(f *testing.F) {
	f.Add(message("", "1", "instance.create", "things", `{"a":1}`).Body)
	f.Add([]byte(`{"specversion":"1.0","id":"x","source":"y","type":"dev.drover.command.environment.action","subject":"a/b","data":null}`))
	f.Add([]byte("{\"id\":\"\xff\"}"))
	f.Fuzz(func(t *testing.T, body []byte) {
		if _, err := command.Parse(&bus.Message{Body: body}); err != nil && !fault.Is(err, fault.Invalid) {
			t.Errorf("%v", err)
		}
	})
}
