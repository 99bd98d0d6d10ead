package trace_test

import (
	"context"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	sdk "go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/sdk/trace/tracetest"
	"pgregory.net/rapid"

	"github.com/droverhq/drover/internal/trace"
)

const theirs = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01"

// recorded is a tracer and what it told, of requests of which a share is followed.
func recorded(share float64) (*trace.Tracer, *tracetest.SpanRecorder) {
	r := tracetest.NewSpanRecorder()
	return trace.New(sdk.NewTracerProvider(sdk.WithSpanProcessor(r), sdk.WithSampler(sdk.ParentBased(sdk.TraceIDRatioBased(share))))), r
}

func TestTraceparents(t *testing.T) {
	for _, c := range []struct{ reason, text, want string }{
		{"as others send it", theirs, theirs},
		{"one that is not kept", theirs[:53] + "00", theirs[:53] + "00"},
		{"flags that we do not know", theirs[:53] + "ff", theirs[:53] + "ff"},
		{"a version of the future, with more in it", "01" + theirs[2:] + "-more", "01" + theirs[2:]},
		{"a version that is none", "ff" + theirs[2:], ""},
		{"more than this version has", theirs + "-more", ""},
		{"a version of the future with a novel in it", "01" + theirs[2:] + "-" + strings.Repeat("x", 200), ""},
		{"no trace", "00-00000000000000000000000000000000-00f067aa0ba902b7-01", ""},
		{"no span", "00-4bf92f3577b34da6a3ce929d0e0e4736-0000000000000000-01", ""},
		{"upper case", strings.ToUpper(theirs), ""},
		{"too short", theirs[:54], ""},
		{"a dash too many", strings.Replace(theirs, "4b", "4-", 1), ""},
		{"nothing", "", ""},
	} {
		if got := trace.Good(c.text); got != c.want {
			t.Errorf("%s: %q", c.reason, got)
		}
	}
}

func FuzzGood(f *testing.F) {
	for _, seed := range []string{theirs, "", "00-", strings.Repeat("-", 55), "cc" + theirs[2:] + "-x"} {
		f.Add(seed)
	}
	tracer, _ := recorded(1)
	f.Fuzz(func(t *testing.T, text string) {
		good := trace.Good(text)
		if good != "" && (len(good) != len(theirs) || !strings.HasPrefix(text, good) || trace.Good("00"+good[2:]) == "") {
			t.Errorf("%q is good as %q", text, good)
		}
		ctx, span := tracer.Start(t.Context(), text, "x", trace.Server)
		defer span.End("")
		if in := trace.ID(ctx); good != "" && in != "" && in != good[3:35] {
			t.Errorf("%q is continued in %s", text, in)
		}
	})
}

// Whatever goes over a message, a header or the ledger: the spans of one request are one
// trace, each below the one that set it in motion.
func TestSpansAreOneTrace(t *testing.T) {
	tracer, told := recorded(1)
	ctx, top := tracer.Start(t.Context(), theirs, "request", trace.Server)
	top.Name("POST /things")
	top.Set(trace.Text("long", strings.Repeat("x", 1000)), trace.Number("n", 7))
	carried := trace.Parent(ctx)

	inner, child := trace.Child(ctx, "inside", trace.Inside)
	child.End("unavailable")
	elsewhere, run := tracer.Continue(context.Background(), carried, "reconcile")
	since := time.Now().Add(-time.Minute)
	after := tracer.Past(context.Background(), trace.Parent(elsewhere), "settle", since, trace.Text("state", "ready"))
	run.End("")
	top.End("")
	if trace.ID(inner) != theirs[3:35] || trace.ID(elsewhere) != theirs[3:35] || after[3:35] != theirs[3:35] {
		t.Errorf("traces %s, %s, %s", trace.ID(inner), trace.ID(elsewhere), after)
	}
	spans := map[string]sdk.ReadOnlySpan{}
	for _, s := range told.Ended() {
		spans[s.Name()] = s
	}
	for name, parent := range map[string]string{"inside": "POST /things", "reconcile": "POST /things", "settle": "reconcile"} {
		if got, want := spans[name].Parent().SpanID(), spans[parent].SpanContext().SpanID(); got != want {
			t.Errorf("%s is below %s, not %s", name, got, want)
		}
	}
	if got := spans["POST /things"]; got.Parent().SpanID().String() != theirs[36:52] || len(got.Attributes()[0].Value.AsString()) != 256 {
		t.Errorf("the request is below %s and says %v", got.Parent().SpanID(), got.Attributes())
	}
	if s := spans["inside"].Status(); s.Description != "unavailable" {
		t.Errorf("a failure is told as %+v", s)
	}
	if !spans["settle"].StartTime().Equal(since) || after[36:52] != spans["settle"].SpanContext().SpanID().String() {
		t.Errorf("what is past began at %v and goes on as %s", spans["settle"].StartTime(), after)
	}
}

// What nobody asked for begins no trace, and what is not kept is not carried either.
func TestWhatIsNotFollowed(t *testing.T) {
	tracer, told := recorded(0)
	ctx, span := tracer.Start(t.Context(), "", "request", trace.Server)
	if p, id := trace.Parent(ctx), trace.ID(ctx); p != "" || id != "" {
		t.Errorf("a request of the others is carried as %q, and logged as %q", p, id)
	}
	if inner, child := trace.Child(ctx, "inside", trace.Inside); child != nil || inner != ctx {
		t.Error("it has parts")
	}
	span.End("")
	if _, run := tracer.Continue(t.Context(), "", "reconcile"); run != nil {
		t.Error("a run begins a trace")
	}
	if _, run := tracer.Continue(t.Context(), "nonsense", "reconcile"); run != nil {
		t.Error("nonsense is continued")
	}
	if n := len(told.Ended()); n != 0 {
		t.Errorf("%d spans are told", n)
	}
	ctx, span = tracer.Start(t.Context(), theirs, "request", trace.Server) // its sender follows it
	if trace.Parent(ctx) == "" {
		t.Error("the sender's word does not count")
	}
	span.End("")
	if ctx, _ = tracer.Start(t.Context(), theirs[:53]+"00", "request", trace.Server); trace.Parent(ctx) != "" {
		t.Error("the sender's word against it does not count")
	}
}

// Parts of a span that may never be told wait for its end, and are told with the times
// that they had; those of one that is never told are not told either.
func TestPartsAreToldWithTheWhole(t *testing.T) {
	tracer, told := recorded(1)
	names := func() (out []string) {
		for _, s := range told.Ended() {
			out = append(out, s.Name())
		}
		return out
	}
	whole := func() (*trace.Span, *trace.Span) {
		ctx, run := tracer.Continue(t.Context(), theirs, "run")
		ctx = run.Hold(ctx)
		inner, call := trace.Child(ctx, "call", trace.Client)
		_, deep := trace.Child(inner, "deep", trace.Inside)
		deep.End("")
		call.End("unavailable")
		_, commit := trace.Child(run.Around(context.Background()), "commit", trace.Client)
		commit.End("")
		_, late := trace.Child(ctx, "late", trace.Inside)
		return run, late
	}
	_, late := whole()
	late.End("")
	if got := names(); len(got) != 0 {
		t.Errorf("of one that is not told there is %v", got)
	}
	run, late := whole()
	before := time.Now()
	run.End("")
	late.End("")
	if diff := cmp.Diff([]string{"run", "deep", "call", "commit", "late"}, names()); diff != "" {
		t.Errorf("what is told (-want +got):\n%s", diff)
	}
	for _, s := range told.Ended()[1:4] {
		if s.EndTime().After(before) || s.Parent().TraceID().String() != theirs[3:35] {
			t.Errorf("%s ended at %v, after %v, in %s", s.Name(), s.EndTime(), before, s.Parent().TraceID())
		}
	}
	var none *trace.Span
	if ctx := t.Context(); none.Hold(ctx) != ctx || none.Around(ctx) != ctx {
		t.Error("what is not followed holds something")
	}
}

// One word that is no text would keep a whole batch from being sent.
func TestWordsAreTexts(t *testing.T) {
	for _, c := range []struct{ reason, word, want string }{
		{"a word", "rex", "rex"},
		{"cut between the bytes of a letter", "x" + strings.Repeat("é", 200), "x" + strings.Repeat("é", 127)},
		{"no text", "r\xffex", "rex"},
	} {
		if got := trace.Text("k", c.word).Value.AsString(); got != c.want {
			t.Errorf("%s: %q", c.reason, got)
		}
	}
}

// Where nothing is traced, nothing is paid for it.
func TestOffCostsNothing(t *testing.T) {
	ctx := t.Context()
	if trace.From(trace.With(ctx, nil)) != nil {
		t.Error("there is a tracer")
	}
	var off *trace.Tracer
	if n := testing.AllocsPerRun(100, func() {
		ctx, span := off.Start(ctx, theirs, "request", trace.Server)
		ctx, run := off.Continue(ctx, theirs, "reconcile")
		ctx, child := trace.Child(ctx, "inside", trace.Inside)
		if trace.Parent(trace.With(ctx, off)) != "" || trace.ID(ctx) != "" || off.Past(ctx, theirs, "past", time.Time{}) != theirs {
			t.Error("something is followed")
		}
		child.Name("x")
		for _, s := range []*trace.Span{span, run, child} {
			s.Set()
			s.End("")
		}
	}); n != 0 {
		t.Errorf("it costs %v allocations", n)
	}
}

func TestATracerInAContext(t *testing.T) {
	tracer, _ := recorded(1)
	if got := trace.From(trace.With(t.Context(), tracer)); got != tracer {
		t.Errorf("found %v", got)
	}
	rapid.Check(t, func(t *rapid.T) {
		parent := rapid.StringMatching(`00-[0-9a-f]{32}-[0-9a-f]{16}-01`).Draw(t, "parent")
		ctx, span := tracer.Continue(context.Background(), parent, "x")
		if (span != nil) != (trace.Good(parent) != "") || span != nil && trace.Parent(ctx)[:35] != parent[:35] {
			t.Errorf("%s goes on as %s", parent, trace.Parent(ctx))
		}
	})
}
