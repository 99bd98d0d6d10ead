package httpapi_test

import (
	"encoding/json"
	"fmt"
	"net/http"
	"runtime"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	sdk "go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/sdk/trace/tracetest"

	v1 "github.com/droverhq/drover/api/v1"
	"github.com/droverhq/drover/internal/httpapi"
	"github.com/droverhq/drover/internal/instance"
	"github.com/droverhq/drover/internal/ledger"
	"github.com/droverhq/drover/internal/trace"
)

const (
	aTrace     = "4bf92f3577b34da6a3ce929d0e0e4736"
	aSpan      = "00f067aa0ba902b7"
	traceNamed = "00-" + aTrace + "-" + aSpan + "-01"
)

// followed is a replica whose requests are.
func followed(w *world) (*world, *tracetest.SpanRecorder) {
	spans := tracetest.NewSpanRecorder()
	return w.replica(func(c *httpapi.Config) {
		c.Tracer = trace.New(sdk.NewTracerProvider(sdk.WithSpanProcessor(spans)))
	}), spans
}

// tells is what a span says of itself.
func tells(s sdk.ReadOnlySpan) map[string]string {
	out := map[string]string{"": s.Name()}
	for _, a := range s.Attributes() {
		out[string(a.Key)] = a.Value.String()
	}
	return out
}

func TestRequestsAreTraced(t *testing.T) {
	one := newWorld(t)
	w, spans := followed(one)
	for _, c := range []struct {
		reason, who, method, path, body, parent string
		want                                    map[string]string // nil: nobody is told
	}{
		{"an order, in its sender's trace", "alice", "POST", "/api/v1/dinosaurs", `{"name":"rex"}`, traceNamed,
			map[string]string{"": "POST /api/v1/{resource}", "http.request.method": "POST", "http.route": "/api/v1/{resource}", "http.response.status_code": "202", "drover.org": "acme"}},
		{"a path has names in it, and is not said", "alice", "GET", "/api/v1/dinosaurs/rex", "", "",
			map[string]string{"": "GET /api/v1/{resource}/{id}", "http.request.method": "GET", "http.route": "/api/v1/{resource}/{id}", "http.response.status_code": "200", "drover.org": "acme"}},
		{"nor is one that leads nowhere", "alice", "GET", "/api/v1/a/b/c/secret", "", "",
			map[string]string{"": "GET /api/v1/", "http.request.method": "GET", "http.route": "/api/v1/", "http.response.status_code": "404", "drover.org": "acme"}},
		{"whoever has no token is nobody's", "", "GET", "/api/v1/dinosaurs", "", "",
			map[string]string{"": "GET (none)", "http.request.method": "GET", "http.route": "(none)", "http.response.status_code": "401", "drover.org": ""}},
		{"programs ask all day long", "", "GET", "/healthz", "", "", nil},
		{"unless somebody follows them", "", "GET", "/healthz", "", traceNamed,
			map[string]string{"": "GET /healthz", "http.request.method": "GET", "http.route": "/healthz", "http.response.status_code": "200", "drover.org": ""}},
	} {
		t.Run(c.reason, func(t *testing.T) {
			before, begun := len(spans.Ended()), len(spans.Started())
			req, err := http.NewRequestWithContext(t.Context(), c.method, w.server.URL+c.path+"?token=secret", strings.NewReader(c.body))
			if err != nil {
				t.Fatal(err)
			}
			if c.who != "" {
				req.Header.Set("Authorization", "Bearer "+c.who)
			}
			if c.body != "" {
				req.Header.Set("Content-Type", "application/json")
			}
			req.Header.Set("X-Request-ID", "request-1")
			req.Header.Set("traceparent", c.parent)
			resp, err := http.DefaultClient.Do(req)
			if err != nil {
				t.Fatal(err)
			}
			resp.Body.Close()
			told := spans.Ended()[before:]
			if c.want == nil {
				if len(spans.Started()) != begun {
					t.Errorf("told: %v", told)
				}
				return
			}
			c.want["drover.request"] = "request-1"
			for len(told) == 0 { // it ends after the answer
				runtime.Gosched()
				told = spans.Ended()[before:]
			}
			if diff := cmp.Diff(c.want, tells(told[0])); diff != "" {
				t.Errorf("what is said (-want +got):\n%s", diff)
			}
			if c.parent != "" && (told[0].Parent().SpanID().String() != aSpan || told[0].SpanContext().TraceID().String() != aTrace) {
				t.Errorf("it is below %s", told[0].Parent().SpanID())
			}
		})
	}
	changes, err := one.ledger.Changes(t.Context(), ledger.ChangeQuery{Kind: instance.Kind.Name})
	if err != nil || len(changes) != 1 || !strings.HasPrefix(changes[0].Trace, "00-"+aTrace) || strings.Contains(changes[0].Trace, aSpan) {
		t.Errorf("the order is in the log as %+v, %v", changes, err)
	}
}

// Agents hear which request an item goes back to, over the changes of others that lie
// between, and whose it is. What nobody has asked for keeps the cause that it has.
func TestItemsAreHandedOverWithTheirCause(t *testing.T) {
	w := newWorld(t)
	w.register("c1")
	a := w.agent("c1")
	a.sync()
	order := func(name, request string) ledger.Object {
		t.Helper()
		var made struct{ ID string }
		req, err := http.NewRequestWithContext(t.Context(), "POST", w.server.URL+"/api/v1/dinosaurs", strings.NewReader(`{"name":"`+name+`"}`))
		if err != nil {
			t.Fatal(err)
		}
		req.Header.Set("Authorization", "Bearer alice")
		req.Header.Set("Content-Type", "application/json")
		req.Header.Set("X-Request-ID", request)
		resp, err := http.DefaultClient.Do(req)
		if err != nil {
			t.Fatal(err)
		}
		defer resp.Body.Close()
		if err := json.NewDecoder(resp.Body).Decode(&made); err != nil || made.ID == "" {
			t.Fatal(resp.Status, err)
		}
		o, err := w.ledger.Get(t.Context(), ledger.Ref{Kind: instance.Kind.Name, ID: made.ID})
		if err != nil {
			t.Fatal(err)
		}
		return o
	}
	handed := func(id string) string {
		for a.told[id].ID == "" {
			a.hold()()
		}
		return a.told[id].Cause + " " + a.told[id].Org
	}
	rex := order("rex", "night-shift-4711")
	w.cause = ledger.ByChange(rex.Ref, rex.Version)
	moved := w.edit(rex.ID, func(in *instance.Instance) { in.Phase = instance.Preparing })
	w.cause = ledger.ByChange(moved.Ref, moved.Version)
	w.place(rex.ID, "c1")
	if got := handed(rex.ID); got != "request:night-shift-4711 acme" {
		t.Errorf("it is handed over with %q", got)
	}
	// Another object's change: an environment's resource wants it, say.
	tim := order("tim", "morning-1")
	w.cause = ledger.ByChange(moved.Ref, moved.Version)
	w.place(tim.ID, "c1")
	if got := handed(tim.ID); got != "request:night-shift-4711 acme" {
		t.Errorf("what another one's change wants is handed over with %q", got)
	}
	una := order("una", "morning-2")
	w.cause = ""
	w.place(una.ID, "c1")
	if got := handed(una.ID); got != "schedule:test acme" {
		t.Errorf("what nobody has asked for is handed over with %q", got)
	}
	a.seen[rex.ID] = v1.ObservedItem{ID: rex.ID, Generation: 1, State: "installing"}
	a.sync()
	a.told, a.seq = map[string]v1.Item{}, 0 // a restart without what it kept
	a.sync()
	if it := a.told[rex.ID]; it.Cause != "" || it.Org != "acme" {
		t.Errorf("it is handed over again as %+v", it)
	}
}

// Items are handed to agents in the trace that wanted them, once, and what agents say of
// them goes on in it. The messages themselves are nobody's request.
func TestItemsAreHandedOverInTheirTrace(t *testing.T) {
	one := newWorld(t)
	w, spans := followed(one)
	one.register("c1")
	a := w.agent("c1")
	a.sync()
	id := one.create("alice", "rex").ID
	one.trace = traceNamed
	one.place(id, "c1")
	one.trace = ""
	for a.told[id].ID == "" {
		a.hold()()
	}
	if got := a.told[id].Trace; got != traceNamed {
		t.Errorf("it is handed over in %q", got)
	}
	if n := len(spans.Started()); n != 0 {
		t.Errorf("messages of agents are told: %d", n)
	}
	back := strings.Replace(traceNamed, aSpan, "1111111111111111", 1)
	a.seen[id] = v1.ObservedItem{ID: id, Generation: 1, State: "installing", Trace: back}
	a.sync()
	told := spans.Ended()
	if len(told) != 1 || told[0].Name() != "report instance" || told[0].Parent().SpanID().String() != "1111111111111111" {
		t.Fatalf("told of the report: %v", told)
	}
	changes, err := one.ledger.Changes(t.Context(), ledger.ChangeQuery{Kind: instance.Kind.Name, ID: id, Reverse: true, Limit: 1})
	if want := fmt.Sprintf("00-%s-%s-01", aTrace, told[0].SpanContext().SpanID()); err != nil || changes[0].Op != "report" || changes[0].Trace != want {
		t.Errorf("the report is in the log as %+v, %v", changes[0], err)
	}
	a.told = map[string]v1.Item{} // a restart
	a.seq = 0
	a.sync()
	if it := a.told[id]; it.ID == "" || it.Trace != "" {
		t.Errorf("it is handed over again as %+v", it)
	}
	a.seen[id] = v1.ObservedItem{ID: id, Generation: 1, State: "ready", Trace: "nonsense"}
	a.sync()
	if n := len(spans.Started()); n != 1 || one.observed(id).State != "ready" {
		t.Errorf("%d spans, and it is %s", n, one.observed(id).State)
	}
}
