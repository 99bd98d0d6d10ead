package httpapi_test

import (
	"bytes"
	"context"
	"encoding/json"
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

	"github.com/prometheus/client_golang/prometheus"

	v1 "github.com/droverhq/drover/api/v1"
	"github.com/droverhq/drover/internal/access"
	"github.com/droverhq/drover/internal/cluster"
	"github.com/droverhq/drover/internal/httpapi"
	"github.com/droverhq/drover/internal/instance"
	"github.com/droverhq/drover/internal/ledger"
	"github.com/droverhq/drover/internal/offering"
	"github.com/droverhq/drover/internal/operation"
	"github.com/droverhq/drover/internal/policy"
	"github.com/droverhq/drover/internal/sqlledger"
	"github.com/droverhq/drover/offerings"
)

// rig is the whole API over a real ledger on SQLite.
type rig struct {
	http.Handler
	ledger    *moody
	issuer    *access.Issuer
	instances *instance.Service
	clusters  *cluster.Service
	shelf     *shelf
	logs      *logs
	metrics   *prometheus.Registry
}

// newRig starts one; edit may change the configuration.
func newRig(t testing.TB, edit ...func(*httpapi.Config)) *rig {
	t.Helper()
	return newRigOn(t, "sqlite://"+filepath.Join(t.TempDir(), "ledger.db"), edit...)
}

func newRigOn(t testing.TB, database string, edit ...func(*httpapi.Config)) *rig {
	t.Helper()
	store, err := sqlledger.Open(t.Context(), sqlledger.Config{
		URL: database, Key: bytes.Repeat([]byte{7}, ledger.KeySize),
		Kinds: append(policy.Kinds(), instance.Kind, operation.Kind, operation.AuditKind, cluster.Kind, cluster.KindProfile, access.SigningKey, offering.Kind),
	})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = store.Close() })
	r := &rig{ledger: &moody{Ledger: store}, shelf: &shelf{}, logs: &logs{}, metrics: prometheus.NewRegistry()}
	dinosaur, err := offerings.FS.ReadFile("dinosaur.yaml")
	if err != nil {
		t.Fatal(err)
	}
	r.shelf.put(t, dinosaur)
	if r.issuer, err = access.NewIssuer(access.IssuerConfig{Store: r.ledger}); err != nil {
		t.Fatal(err)
	}
	auth, err := access.NewAuthenticator(access.AuthenticatorConfig{Builtin: r.issuer})
	if err != nil {
		t.Fatal(err)
	}
	r.instances, r.clusters = instance.NewService(instance.Config{Store: r.ledger, Offerings: r.shelf}), cluster.NewService(r.ledger)
	c := httpapi.Config{
		Ledger: r.ledger, Feed: ledger.NewFeed(r.ledger), Offerings: r.shelf, Instances: r.instances, Clusters: r.clusters,
		Authenticator: auth, Issuer: r.issuer, Metrics: r.metrics,
		Log: slog.New(slog.NewTextHandler(r.logs, &slog.HandlerOptions{Level: slog.LevelDebug})),
	}
	for _, e := range edit {
		e(&c)
	}
	if r.Handler, err = httpapi.New(c); err != nil {
		t.Fatal(err)
	}
	r.Handler = recording(r.Handler)
	return r
}

// token signs one for an hour.
func (r *rig) token(t testing.TB, c access.Claims) string {
	t.Helper()
	token, _, err := r.issuer.Issue(context.Background(), c, time.Hour)
	if err != nil {
		t.Fatal(err)
	}
	return token
}

func (r *rig) user(t testing.TB, user, org string) string {
	return r.token(t, access.Claims{User: user, Org: org})
}

// reply is what came back.
type reply struct {
	*httptest.ResponseRecorder
	t testing.TB
}

// do sends a request. The token may be empty.
func (r *rig) do(t testing.TB, token, method, path, body string) reply {
	t.Helper()
	var b io.Reader
	if body != "" {
		b = strings.NewReader(body)
	}
	req := httptest.NewRequest(method, path, b)
	if token != "" {
		req.Header.Set("Authorization", "Bearer "+token)
	}
	return r.send(t, req)
}

func (r *rig) send(t testing.TB, req *http.Request) reply {
	w := httptest.NewRecorder()
	r.ServeHTTP(w, req)
	return reply{w, t}
}

// into decodes the body.
func (r reply) into(v any) {
	r.t.Helper()
	if err := json.Unmarshal(r.Body.Bytes(), v); err != nil {
		r.t.Fatalf("the answer %d is no such JSON: %v: %.200s", r.Code, err, r.Body)
	}
}

func (r reply) object() map[string]any {
	r.t.Helper()
	var m map[string]any
	r.into(&m)
	return m
}

// refused checks status and code of an error object, and its form.
func (r reply) refused(reason string, status int, code string) v1.Error {
	r.t.Helper()
	var e v1.Error
	r.into(&e)
	if r.Code != status || e.ID != code {
		r.t.Fatalf("%s: got %d with code %s (%s), want %d with code %s", reason, r.Code, e.ID, e.Reason, status, code)
	}
	if e.Kind != "Error" || !strings.HasSuffix(e.Href, "/errors/"+code) || !strings.HasSuffix(e.Code, "-"+code) || e.Reason == "" {
		r.t.Errorf("%s: malformed error object %+v", reason, e)
	}
	if e.OperationID == "" || e.OperationID != r.Header().Get("X-Request-ID") {
		r.t.Errorf("%s: the error's operation is %q, the request is %q", reason, e.OperationID, r.Header().Get("X-Request-ID"))
	}
	return e
}

func (r reply) ok(status int) reply {
	r.t.Helper()
	if r.Code != status {
		r.t.Fatalf("got %d, want %d: %.300s", r.Code, status, r.Body)
	}
	return r
}

// create orders an instance and returns its id.
func (r *rig) create(t testing.TB, token, name string) string {
	t.Helper()
	return r.do(t, token, "POST", dinosaurs+"?async=true", `{"name":"`+name+`"}`).ok(202).object()["id"].(string)
}

const (
	api       = "/api/dinosaurs_mgmt/v1"
	dinosaurs = api + "/dinosaurs"
)

// seq tells whether anything was written.
func (r *rig) seq(t testing.TB) int64 {
	t.Helper()
	head, err := r.ledger.Ledger.Head(context.Background())
	if err != nil {
		t.Fatal(err)
	}
	return head.Seq
}

// written is how many changes there are after one, besides entries that somebody was
// refused, which are written behind answers.
func (r *rig) written(t testing.TB, after int64) (n int) {
	t.Helper()
	changes, err := r.ledger.Ledger.Changes(context.Background(), ledger.ChangeQuery{After: after})
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range changes {
		if c.Object.Kind != operation.AuditKind.Name || c.Op != operation.AuditRefused {
			n++
		}
	}
	return n
}

// shelf holds offerings.
type shelf struct {
	list atomic.Pointer[[]*offering.Offering]
}

func (s *shelf) put(t testing.TB, file []byte) {
	t.Helper()
	off, err := offering.Parse("test.yaml", file)
	if err != nil {
		t.Fatal(err)
	}
	list := append([]*offering.Offering{off}, s.List()...)
	s.list.Store(&list)
}

func (s *shelf) List() []*offering.Offering {
	if p := s.list.Load(); p != nil {
		return *p
	}
	return nil
}

func (s *shelf) find(is func(*offering.Offering) bool) (*offering.Offering, bool) {
	for _, o := range s.List() {
		if is(o) {
			return o, true
		}
	}
	return nil, false
}

func (s *shelf) Get(name string) (*offering.Offering, bool) {
	return s.find(func(o *offering.Offering) bool { return o.Metadata.Name == name })
}

func (s *shelf) ByGroup(group, version string) (*offering.Offering, bool) {
	return s.find(func(o *offering.Offering) bool {
		return o.Spec.API.Group == group && o.Spec.API.Version == version
	})
}

func (s *shelf) ByResource(word string) (*offering.Offering, bool) {
	return s.find(func(o *offering.Offering) bool { return o.Spec.Names.Plural == word || o.Spec.Names.Singular == word })
}

// moody is a ledger that fails, waits or panics when told to.
type moody struct {
	ledger.Ledger
	mood atomic.Pointer[func(context.Context) error]
}

func (m *moody) set(mood func(context.Context) error) {
	if mood == nil {
		m.mood.Store(nil)
		return
	}
	m.mood.Store(&mood)
}

func (m *moody) now(ctx context.Context) error {
	if f := m.mood.Load(); f != nil {
		return (*f)(ctx)
	}
	return nil
}

func (m *moody) Commit(ctx context.Context, set ledger.Set) (ledger.Result, error) {
	if err := m.now(ctx); err != nil {
		return ledger.Result{}, err
	}
	return m.Ledger.Commit(ctx, set)
}

func (m *moody) Get(ctx context.Context, ref ledger.Ref) (ledger.Object, error) {
	if err := m.now(ctx); err != nil {
		return ledger.Object{}, err
	}
	return m.Ledger.Get(ctx, ref)
}

func (m *moody) List(ctx context.Context, q ledger.Query) ([]ledger.Object, error) {
	if err := m.now(ctx); err != nil {
		return nil, err
	}
	return m.Ledger.List(ctx, q)
}

func (m *moody) Head(ctx context.Context) (ledger.Head, error) {
	if err := m.now(ctx); err != nil {
		return ledger.Head{}, err
	}
	return m.Ledger.Head(ctx)
}

// logs keeps what the server logs.
type logs struct {
	mu  sync.Mutex
	buf bytes.Buffer
}

func (l *logs) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.buf.Write(p)
}

func (l *logs) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.buf.String()
}
