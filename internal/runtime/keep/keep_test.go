package keep_test

import (
	"context"
	"encoding/json"
	"log/slog"
	"regexp"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"github.com/droverhq/drover/internal/fault"
	"github.com/droverhq/drover/internal/ledger"
	"github.com/droverhq/drover/internal/runtime"
	"github.com/droverhq/drover/internal/runtime/keep"
)

// Names are ones that Kubernetes takes, and two ids never share one.
func TestNamesProperty(t *testing.T) {
	text := regexp.MustCompile(`^[a-z0-9]([-a-z0-9]*[a-z0-9])?$`)
	rapid.Check(t, func(t *rapid.T) {
		id := rapid.OneOf(rapid.StringMatching(`[a-z0-9-]{1,60}`), rapid.String(), rapid.StringMatching(`x-[0-9a-f]{24}`))
		a, b := id.Draw(t, "a"), id.Draw(t, "b")
		na, nb := keep.Named("drover-", a), keep.Named("drover-", b)
		if !text.MatchString(na) || len(na) > 63 {
			t.Fatalf("%q is named %q", a, na)
		}
		if (a == b) != (na == nb) {
			t.Fatalf("%q and %q are named %q and %q", a, b, na, nb)
		}
	})
}

// Whatever comes in which order, an older item never replaces a newer one, and
// what comes back from a Secret is what went in.
func TestRecordProperty(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		var r keep.Record
		for range rapid.IntRange(1, 12).Draw(t, "n") {
			it := runtime.Item{ID: "a", Epoch: rapid.Int64Range(0, 3).Draw(t, "epoch"), Token: rapid.Int64Range(0, 3).Draw(t, "token"),
				Generation: rapid.Int64Range(1, 3).Draw(t, "generation"), Delete: rapid.Bool().Draw(t, "delete"),
				Body: json.RawMessage(rapid.SampledFrom([]string{`{}`, `{"a":1}`}).Draw(t, "body"))}
			before := r
			same, err := keep.Offer(&r, it)
			older := it.Epoch < before.Epoch || it.Epoch == before.Epoch && it.Token < before.Token
			if older != (fault.Reason(err) == "fenced") {
				t.Fatalf("%+v after %+v: %v", it, before, err)
			}
			if (older || same) && !cmp.Equal(before, r) {
				t.Fatalf("a refused or known item changed the record: %s", cmp.Diff(before, r))
			}
			if r.Seen.State == runtime.Ready {
				t.Fatal("an item is ready before anybody has looked")
			}
			back, _, err := keep.PackAndUnpack(r)
			if r.ID != "" && (err != nil || !cmp.Equal(r, back)) {
				t.Fatalf("came back as another: %v %s", err, cmp.Diff(r, back))
			}
		}
	})
}

// about keeps what the context of a line knows.
type about struct {
	slog.Handler
	cause ledger.Cause
	org   string
}

func (a *about) Enabled(context.Context, slog.Level) bool { return true }

func (a *about) Handle(ctx context.Context, _ slog.Record) error {
	a.cause, _ = ledger.KnownCause(ctx)
	a.org = ledger.OrgOf(ctx)
	return nil
}

// A complaint goes back to the request that wanted the item, also after a restart.
func TestComplaintsSayForWhom(t *testing.T) {
	var r keep.Record
	if _, err := keep.Offer(&r, runtime.Item{ID: "a", Generation: 1, Token: 1, Cause: "request:night-shift-4711", Org: "acme", Body: json.RawMessage(`{}`)}); err != nil {
		t.Fatal(err)
	}
	back, _, err := keep.PackAndUnpack(r)
	if err != nil {
		t.Fatal(err)
	}
	var said about
	keep.Complain(slog.New(&said), back, fault.New(fault.Unavailable, "away"))
	if said.cause != "request:night-shift-4711" || said.org != "acme" {
		t.Errorf("it is said for %q of %q", said.cause, said.org)
	}
}

func TestFailed(t *testing.T) {
	ready := runtime.Observed{ID: "a", Generation: 2, State: runtime.Ready}
	for _, tc := range []struct {
		reason string
		record keep.Record
		err    error
		want   runtime.State
	}{
		{"what runs is not called broken by a silent cluster", keep.Record{Generation: 2, Seen: ready}, fault.New(fault.Unavailable, "away"), runtime.Ready},
		{"what is new waits", keep.Record{Generation: 2, Seen: runtime.Observed{Generation: 2, State: runtime.Error}}, fault.New(fault.Unavailable, "away"), runtime.Installing},
		{"no room at first: elsewhere", keep.Record{Generation: 2}, fault.New(fault.Exhausted, "full"), runtime.Rejected},
		{"no room later: nobody moves it", keep.Record{Generation: 2, Settled: true}, fault.New(fault.Exhausted, "full"), runtime.Error},
		{"a mistake", keep.Record{Generation: 2, Seen: ready}, fault.New(fault.Invalid, "wrong"), runtime.Error},
	} {
		t.Run(tc.reason, func(t *testing.T) {
			if got := keep.Failed(tc.record, tc.err); got.State != tc.want {
				t.Errorf("got %+v", got)
			}
		})
	}
	if got := keep.Failed(keep.Record{}, json.Unmarshal([]byte("secret"), new(int))); strings.Contains(got.Message, "secret") || got.Message == "" {
		t.Errorf("an unforeseen error is told as %q", got.Message)
	}
}

func FuzzKept(f *testing.F) {
	f.Add([]byte(`{} {}`))
	f.Add([]byte(`{"a":1}`))
	f.Fuzz(func(t *testing.T, b []byte) {
		if keep.Valid(b) && !json.Valid(b) {
			t.Error("what is no JSON is called valid")
		}
		if err := keep.Unpack([][]byte{b}); err == nil {
			t.Error("anything is a record")
		}
	})
}
