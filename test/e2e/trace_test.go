package e2e

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	amqp "github.com/rabbitmq/amqp091-go"

	"github.com/droverhq/drover/test/collector"
	"github.com/droverhq/drover/test/drover"
	"github.com/droverhq/drover/test/rabbitmq"
)

const (
	theirTrace = "4bf92f3577b34da6a3ce929d0e0e4736"
	theirSpan  = "00f067aa0ba902b7"
)

// theWay is how a command becomes a process, each of these somewhere below the one
// before. The last run may have been woken by what the agent said before it had settled,
// and find that it has.
var theWay = []string{"command instance.create", "POST /api/v1/{", "reconcile instance", "agent apply", "report instance", "reconcile instance", "reconcile command"}

// besides are what else is told of it.
var besides = [][]string{
	{"command instance.create", "POST /api/v1/{", "ledger commit"},
	{"command instance.create", "POST /api/v1/{", "publish instance.created"},
	{"command instance.create", "POST /api/v1/{", "answer accepted"},
	{"reconcile instance", "agent apply", "agent settle", "report instance"},
	{"reconcile instance", "ledger commit"},
	{"report instance", "ledger commit"},
	{"command instance.create", "publish instance.moved"},
	{"command instance.create", "answer done"},
}

// untold returns what is missing of the way, and of what is besides.
func untold(all []collector.Span) string {
	for _, names := range append([][]string{theWay}, besides...) {
		if missing := way(all, names); missing != "" {
			return missing + " of " + strings.Join(names, ", ")
		}
	}
	return ""
}

// way returns what is missing on one.
func way(all []collector.Span, names []string) (missing string) {
	at := all[:0:0]
	for _, name := range names {
		var next []collector.Span
		for _, s := range all {
			if strings.HasPrefix(s.Name, name) && (len(at) == 0 || slices.ContainsFunc(at, func(top collector.Span) bool { return s.ID != top.ID && below(all, s, top) })) {
				next = append(next, s)
			}
		}
		if at = next; len(at) == 0 {
			return name
		}
	}
	return ""
}

// below tells whether a span is one of those that another has set in motion.
func below(spans []collector.Span, s, top collector.Span) bool {
	for range spans {
		if s.ID == top.ID {
			return true
		}
		at := slices.IndexFunc(spans, func(o collector.Span) bool { return o.ID == s.Parent })
		if at < 0 {
			return false
		}
		s = spans[at]
	}
	return false
}

// named finds a span by what its name begins with.
func named(spans []collector.Span, name string) (collector.Span, bool) {
	at := slices.IndexFunc(spans, func(s collector.Span) bool { return strings.HasPrefix(s.Name, name) })
	if at < 0 {
		return collector.Span{}, false
	}
	return spans[at], true
}

// One command by message is one trace: its consumer, the request that it stands for, the
// runs that this woke, what the agent in another process did, and the run that found the
// instance ready. Its answers and the events carry it on.
func TestATraceFromACommandToTheProcess(t *testing.T) {
	spans := collector.Start(t)
	b := &broker{Server: rabbitmq.Start(t)}
	b.s = drover.Serve(t, "--bus", "rabbitmq", "--bus-options", "url="+b.URL, "--trace-endpoint", spans.URL)
	drover.Join(t, b.s.URL(), "edge", b.s.Cluster(t, "edge"), "--heartbeat", "1s", "--trace-endpoint", spans.URL)
	awaitCluster(t, b.s, "edge")
	b.open(t)
	b.ready(t)
	tenant := token(t, b.s, "--org", "acme", "--user", "alice")
	events := rabbitmq.Follow(t, b.URL, "drover.events", "acme.instance.#")
	err := b.channel.PublishWithContext(context.Background(), "", "drover.commands", false, false, amqp.Publishing{
		ReplyTo: b.reply, Body: request("traced-1", "instance.create", "dinosaurs", `{"name":"rex"}`), ContentType: "application/cloudevents+json",
		Headers: amqp.Table{"authorization": "Bearer " + tenant, "traceparent": "00-" + theirTrace + "-" + theirSpan + "-01"},
	})
	if err != nil {
		t.Fatal(err)
	}
	answered := map[string]bool{}
	for deadline := time.After(drover.Patience); !answered["done"]; {
		select {
		case d := <-b.answers:
			var e struct {
				Type, Traceparent string
			}
			if err := json.Unmarshal(d.Body, &e); err != nil {
				t.Fatal(err)
			}
			if header, _ := d.Headers["traceparent"].(string); header != e.Traceparent || !strings.HasPrefix(header, "00-"+theirTrace+"-") {
				t.Errorf("%s goes on in %q and %q", e.Type, header, e.Traceparent)
			}
			answered[e.Type[strings.LastIndexByte(e.Type, '.')+1:]] = true
		case <-deadline:
			t.Fatalf("only %v is answered\n%s", answered, b.s.Log())
		}
	}
	for ready, deadline := false, time.After(drover.Patience); !ready; {
		select {
		case d := <-events:
			var e struct{ Type, Traceparent string }
			if err := json.Unmarshal(d.Body, &e); err != nil {
				t.Fatal(err)
			}
			if !strings.HasPrefix(e.Traceparent, "00-"+theirTrace+"-") {
				t.Errorf("the event %s is in the trace %q", e.Type, e.Traceparent)
			}
			ready = strings.Contains(string(d.Body), `"phase":"ready"`)
		case <-deadline:
			t.Fatal("nobody tells that it is ready")
		}
	}

	// Spans come in the order in which they end, and from each process by itself.
	t.Cleanup(func() {
		if t.Failed() {
			t.Logf("there is no %s:\n%s", untold(spans.Spans(theirTrace)), spans.Tree(theirTrace))
		}
	})
	drover.Until(t, "the whole way to be told", func() bool { return untold(spans.Spans(theirTrace)) == "" })
	all := spans.Spans(theirTrace)
	if top, _ := named(all, "command instance.create"); top.Parent != theirSpan || top.Service != "drover" {
		t.Errorf("the command is below %q, in %s", top.Parent, top.Service)
	}
	if apply, _ := named(all, "agent apply"); apply.Service != "drover-agent" || apply.Attributes["drover.cluster"] != "edge" {
		t.Errorf("the agent's span is of %s and says %v", apply.Service, apply.Attributes)
	}
	asked, _ := named(all, "POST /api/v1/{")
	if asked.Attributes["http.response.status_code"] != "202" || asked.Attributes["drover.org"] != "acme" || asked.Attributes["drover.request"] == "" {
		t.Errorf("the request says %v", asked.Attributes)
	}
	for _, s := range spans.Spans("") {
		if text := fmt.Sprint(s); strings.Contains(text, tenant) || strings.Contains(text, b.URL) {
			t.Errorf("a secret is in %s", s.Name)
		}
	}
	t.Logf("\n%s", spans.Tree(theirTrace))
	drover.Until(t, "the log to say the trace", func() bool { return strings.Contains(b.s.Log(), "trace="+theirTrace) })
}

// What an environment is made of is part of the request for it: its runs, those of its
// resources, and what executors did, without what they were given.
func TestATraceOfAnEnvironment(t *testing.T) {
	spans := collector.Start(t)
	s := drover.Up(t, "--trace-endpoint", spans.URL)
	goes(t, s, "template", "add", put(t, t.TempDir(), map[string]string{"template.yaml": small("1.0.0")}))
	drover.Must(t, drover.Request{URL: s.URL() + "/api/v1/environments", Method: http.MethodPost, Token: admin(t, s), Body: []byte(`{"name":"x","template":"small"}`),
		Header: http.Header{"Traceparent": {"00-" + theirTrace + "-" + theirSpan + "-01"}}})
	awaitEnvironment(t, s.Client(t), "x", "Deployed-OK")
	drover.Until(t, "the executor's span", func() bool { _, ok := named(spans.Spans(theirTrace), "executor apply"); return ok })
	all := spans.Spans(theirTrace)
	for _, e := range all {
		if e.Name == "executor apply" && e.Attributes["drover.environment"] != "x" {
			t.Errorf("it says %v", e.Attributes)
		}
	}
	t.Logf("\n%s", spans.Tree(theirTrace))
}

// A collector that is away keeps nobody waiting, and is complained about once.
func TestACollectorThatIsAway(t *testing.T) {
	spans := collector.Start(t)
	spans.Away.Store(true)
	s := drover.Up(t, "--trace-endpoint", spans.URL)
	const complaint = "cannot send traces"
	for i := range 3 {
		if out, _, code := s.Run("create", "dinosaur", fmt.Sprintf("d%d", i), "--wait"); code != 0 {
			t.Fatal(out)
		}
		drover.Until(t, "the complaint", func() bool { return strings.Contains(s.Log(), complaint) })
	}
	spans.Away.Store(false)
	drover.Until(t, "spans", func() bool {
		resp, err := http.Get(s.URL() + "/api/v1/whoami") // of which there is a span
		if err == nil {
			resp.Body.Close()
		}
		return spans.Count.Load() > 0
	})
	drover.Until(t, "the good news", func() bool { return strings.Contains(s.Log(), "the collector takes traces again") })
	if n := strings.Count(s.Log(), complaint); n != 1 {
		t.Errorf("it complains %d times", n)
	}
}
