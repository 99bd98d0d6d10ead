package httpapi_test

import (
	"bufio"
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/droverhq/drover/internal/access"
	"github.com/droverhq/drover/internal/account"
	"github.com/droverhq/drover/internal/cluster"
	"github.com/droverhq/drover/internal/fault"
	"github.com/droverhq/drover/internal/httpapi"
	"github.com/droverhq/drover/internal/instance"
	"github.com/droverhq/drover/internal/ledger"
	"github.com/droverhq/drover/internal/offering"
	"github.com/droverhq/drover/internal/operation"
	"github.com/droverhq/drover/internal/policy"
	"github.com/droverhq/drover/internal/sqlledger"
	"github.com/droverhq/drover/internal/sso"
	"github.com/droverhq/drover/offerings"
)

// people are the callers of these tests; their name is their token.
var people = map[string]access.Principal{
	"root":     {User: "root", Admin: true},
	"alice":    {User: "alice", Org: "acme"},
	"arthur":   {User: "arthur", Org: "acme", OrgAdmin: true},
	"bob":      {User: "bob", Org: "umbrella"},
	"carol":    {User: "carol"},
	"dave":     {User: "dave"},
	"agent-c1": {Cluster: "c1"},
	"agent-c2": {Cluster: "c2"},
	"later-c1": {Cluster: "c1", Issued: time.Date(2100, 1, 1, 0, 0, 0, 0, time.UTC)},
}

// gate knows people until their token is revoked.
type gate struct {
	mu      sync.Mutex
	revoked map[string]bool
}

func (g *gate) Authenticate(_ context.Context, token string) (access.Principal, error) {
	g.mu.Lock()
	defer g.mu.Unlock()
	p, ok := people[token]
	if !ok || g.revoked[token] {
		return access.Principal{}, fault.New(fault.Denied, "nobody").Because("token")
	}
	return p, nil
}

func (g *gate) revoke(token string) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.revoked[token] = true
}

// shaky is a ledger whose log can be away.
type shaky struct {
	ledger.Ledger
	away *atomic.Bool
}

func (s shaky) Changes(ctx context.Context, q ledger.ChangeQuery) ([]ledger.Change, error) {
	if s.away.Load() {
		return nil, fault.New(fault.Unavailable, "the store is away")
	}
	return s.Ledger.Changes(ctx, q)
}

// counted is a ledger that counts what is read of objects and of the head.
type counted struct {
	ledger.Ledger
	reads *atomic.Int64
}

func (c counted) Get(ctx context.Context, ref ledger.Ref) (ledger.Object, error) {
	c.reads.Add(1)
	return c.Ledger.Get(ctx, ref)
}

func (c counted) List(ctx context.Context, q ledger.Query) ([]ledger.Object, error) {
	c.reads.Add(1)
	return c.Ledger.List(ctx, q)
}

func (c counted) Head(ctx context.Context) (ledger.Head, error) {
	c.reads.Add(1)
	return c.Ledger.Head(ctx)
}

// world is a whole API on a real ledger, without the loop: tests move
// instances on themselves.
type world struct {
	*testing.T
	ledger    *sqlledger.Ledger
	gate      *gate
	away      *atomic.Bool // the store answers no reads of the log
	reads     *atomic.Int64
	offerings *offering.Registry
	instances *instance.Service
	clusters  *cluster.Service
	policies  *policy.Service
	idp       *idp
	server    *httptest.Server
	log       *bytes.Buffer
	logMu     sync.Mutex
	written   chan struct{} // holds a signal after something was logged
	trace     string        // that what is edited is in
	cause     ledger.Cause  // of what is edited; empty: the test
}

func (w *world) Write(p []byte) (int, error) {
	w.logMu.Lock()
	defer w.logMu.Unlock()
	select {
	case w.written <- struct{}{}:
	default:
	}
	return w.log.Write(p)
}

// awaitLog waits until the log holds a text.
func (w *world) awaitLog(text string) {
	w.Helper()
	late := time.After(2 * time.Minute)
	for !strings.Contains(w.logged(), text) {
		select {
		case <-w.written:
		case <-late:
			w.Fatalf("the log never said %q", text)
		}
	}
}

func (w *world) logged() string {
	w.logMu.Lock()
	defer w.logMu.Unlock()
	return w.log.String()
}

func newWorld(t *testing.T) *world {
	t.Helper()
	l, err := sqlledger.Open(t.Context(), sqlledger.Config{
		URL:   filepath.Join(t.TempDir(), "ledger.db"),
		Kinds: append(policy.Kinds(), instance.Kind, cluster.Kind, operation.Kind, operation.AuditKind, offering.Kind, access.SigningKey, access.KindUser, account.Kind),
		Key:   bytes.Repeat([]byte{7}, ledger.KeySize),
	})
	if err != nil {
		t.Fatal(err)
	}
	shelf := offering.NewService(offering.Config{Store: l})
	registry := shelf.Registry()
	reads := &atomic.Int64{}
	count := counted{l, reads}
	w := &world{
		reads: reads,
		T:     t, ledger: l, gate: &gate{revoked: map[string]bool{}}, away: &atomic.Bool{}, offerings: registry,
		instances: instance.NewService(instance.Config{Store: count, Offerings: registry}), clusters: cluster.NewService(count), policies: policy.NewService(policy.Config{Store: l}), log: &bytes.Buffer{}, written: make(chan struct{}, 1),
		idp: &idp{clients: map[string]sso.Client{}},
	}
	data, err := offerings.FS.ReadFile("dinosaur.yaml")
	if err != nil {
		t.Fatal(err)
	}
	if _, _, err := shelf.Apply(access.With(t.Context(), people["root"]), "dinosaur.yaml", data); err != nil {
		t.Fatal(err)
	}
	issuer, err := access.NewIssuer(access.IssuerConfig{Store: l})
	if err != nil {
		t.Fatal(err)
	}
	store := shaky{count, w.away}
	feed := ledger.NewFeed(store)
	ctx, stop := context.WithCancel(context.Background())
	var running sync.WaitGroup
	running.Go(func() { _ = feed.Run(ctx) })
	handler, err := httpapi.New(httpapi.Config{
		Ending: ctx,
		Ledger: store, Feed: feed, Offerings: registry, OfferingWriter: shelf, PolicyWriter: w.policies, Instances: w.instances, Clusters: w.clusters,
		Users: access.NewUsers(l), Accounts: account.NewService(account.Config{Store: l, Provider: w.idp}),
		SSO:        func() httpapi.SSO { return httpapi.SSO(w.idp.Endpoints()) },
		SlowReader: 200 * time.Millisecond, Heartbeat: 100 * time.Millisecond, Authenticator: w.gate, Issuer: issuer, Log: slog.New(slog.NewTextHandler(w, &slog.HandlerOptions{Level: slog.LevelDebug})),
	})
	if err != nil {
		t.Fatal(err)
	}
	w.server = httptest.NewServer(recording(handler))
	t.Cleanup(func() {
		w.server.CloseClientConnections()
		w.server.Close()
		stop()
		running.Wait()
		_ = l.Close()
	})
	return w
}

// as is a context of a caller, for services.
func (w *world) as(who string) context.Context {
	ctx := access.With(w.Context(), people[who])
	return ledger.WithCause(ctx, ledger.ByRequest("test"))
}

func (w *world) dinosaur() *offering.Offering {
	off, ok := w.offerings.Get("dinosaur")
	if !ok {
		w.Fatal("there is no dinosaur")
	}
	return off
}

func (w *world) create(who, name string) ledger.Object {
	w.Helper()
	o, err := w.instances.Create(w.as(who), w.dinosaur(), instance.Create{Name: name})
	if err != nil {
		w.Fatalf("cannot create %s for %s: %v", name, who, err)
	}
	return o
}

// edit changes an instance behind everybody's back, as the loop would.
func (w *world) edit(id string, change func(*instance.Instance)) ledger.Object {
	w.Helper()
	ref := ledger.Ref{Kind: instance.Kind.Name, ID: id}
	o, err := w.ledger.Get(w.Context(), ref)
	if err != nil {
		w.Fatal(err)
	}
	in, err := instance.Decode(o)
	if err != nil {
		w.Fatal(err)
	}
	change(&in)
	o = in.Object
	if o.Spec, err = json.Marshal(in.Spec); err != nil {
		w.Fatal(err)
	}
	if o.Status, err = json.Marshal(in.Status); err != nil {
		w.Fatal(err)
	}
	if o.Fields == nil {
		o.Fields = ledger.Fields{}
	}
	o.Fields["cluster"] = in.Status.Cluster
	r, err := w.ledger.Commit(w.Context(), ledger.Set{
		Actor: "system", Cause: cmp.Or(w.cause, ledger.BySchedule("test")), Trace: w.trace, Puts: []ledger.Put{{Object: o, Expect: o.Version, Op: in.Phase}},
	})
	if err != nil {
		w.Fatal(err)
	}
	return r.Objects[0]
}

// place puts an instance on a cluster, ready to be told to its agent.
func (w *world) place(id, clusterID string) ledger.Object {
	w.Helper()
	return w.edit(id, func(in *instance.Instance) {
		in.Phase = instance.Provisioning
		in.Status.Cluster, in.Status.Placement, in.Status.Namespace = clusterID, "p-"+clusterID, "ns"
		in.Status.Rendered, in.Status.Token = in.Generation, 1
		in.Status.Desired = json.RawMessage(fmt.Sprintf(`{"metadata": {"name": %q}, "spec": {"deleted": false, "secret": "x"}}`, in.Name))
	})
}

func (w *world) register(id string) {
	w.Helper()
	if _, err := w.clusters.Register(w.as("root"), id, cluster.Spec{Provider: "local", Region: "local"}); err != nil {
		w.Fatal(err)
	}
}

func (w *world) head() ledger.Head {
	w.Helper()
	head, err := w.ledger.Head(w.Context())
	if err != nil {
		w.Fatal(err)
	}
	return head
}

// request calls the API and decodes the answer into into, if that is not nil.
func (w *world) request(who, method, path, body string, into any) *http.Response {
	w.Helper()
	req, err := http.NewRequestWithContext(w.Context(), method, w.server.URL+path, strings.NewReader(body))
	if err != nil {
		w.Fatal(err)
	}
	if who != "" {
		req.Header.Set("Authorization", "Bearer "+who)
	}
	if body != "" {
		req.Header.Set("Content-Type", "application/json")
	}
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		w.Fatal(err)
	}
	defer resp.Body.Close()
	data, err := io.ReadAll(resp.Body)
	if err != nil {
		w.Fatal(err)
	}
	resp.Body = io.NopCloser(bytes.NewReader(data))
	if into != nil {
		if err := json.Unmarshal(data, into); err != nil {
			w.Fatalf("%s %s answered %d with %q: %v", method, path, resp.StatusCode, data, err)
		}
	}
	return resp
}

// want calls the API and checks the status.
func (w *world) want(status int, who, method, path, body string, into any) *http.Response {
	w.Helper()
	resp := w.request(who, method, path, body, nil)
	data, _ := io.ReadAll(resp.Body)
	resp.Body = io.NopCloser(bytes.NewReader(data))
	if resp.StatusCode != status {
		w.Fatalf("%s %s %s answered %d, not %d: %s", who, method, path, resp.StatusCode, status, data)
	}
	if into != nil {
		if err := json.Unmarshal(data, into); err != nil {
			w.Fatalf("%s %s answered %q: %v", method, path, data, err)
		}
	}
	return resp
}

// event is one server-sent event.
type event struct{ id, name, data string }

// listener reads a stream.
type listener struct {
	t      *world
	body   io.ReadCloser
	events chan event
	beats  chan struct{} // comments, as many as fit
}

// listen opens a stream; its events come through a channel that closes when
// the stream ends.
func (w *world) listen(who, path, lastEvent string) *listener {
	w.Helper()
	req, err := http.NewRequestWithContext(w.Context(), http.MethodGet, w.server.URL+path, nil)
	if err != nil {
		w.Fatal(err)
	}
	req.Header.Set("Authorization", "Bearer "+who)
	if lastEvent != "" {
		req.Header.Set("Last-Event-ID", lastEvent)
	}
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		w.Fatal(err)
	}
	if resp.StatusCode != http.StatusOK {
		data, _ := io.ReadAll(resp.Body)
		resp.Body.Close()
		w.Fatalf("GET %s answered %d: %s", path, resp.StatusCode, data)
	}
	l := &listener{t: w, body: resp.Body, events: make(chan event, 1), beats: make(chan struct{}, 8)}
	go l.read()
	w.Cleanup(l.close)
	return l
}

func (l *listener) close() { l.body.Close() }

func (l *listener) read() {
	defer close(l.events)
	lines := bufio.NewReader(l.body)
	var e event
	for {
		line, err := lines.ReadString('\n')
		if err != nil {
			return
		}
		switch line = strings.TrimSuffix(line, "\n"); {
		case line == "":
			if e.data != "" {
				l.events <- e
			}
			e = event{}
		case strings.HasPrefix(line, ":"):
			select {
			case l.beats <- struct{}{}:
			default:
			}
		case strings.HasPrefix(line, "id: "):
			e.id = line[4:]
		case strings.HasPrefix(line, "event: "):
			e.name = line[7:]
		case strings.HasPrefix(line, "data: "):
			e.data = line[6:]
		}
	}
}

// next waits for the next event; ok is false if the stream has ended.
func (l *listener) next() (event, bool) {
	l.t.Helper()
	select {
	case e, ok := <-l.events:
		return e, ok
	case <-time.After(2 * time.Minute):
		l.t.Fatal("the stream says nothing")
		return event{}, false
	}
}
