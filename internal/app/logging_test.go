package app_test

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"log/slog"
	"path/filepath"
	"strconv"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/droverhq/drover/internal/app"
	"github.com/droverhq/drover/internal/ledger"
	"github.com/droverhq/drover/internal/operation"
	"github.com/droverhq/drover/internal/sqlledger"
)

func TestEveryLineSaysWhatItsContextKnows(t *testing.T) {
	asked := ledger.WithOrg(ledger.WithCause(context.Background(), ledger.ByRequest("r1")), "acme")
	for _, tc := range []struct {
		reason string
		write  func(l *slog.Logger)
		want   map[string]any
	}{
		{"of a request", func(l *slog.Logger) { l.InfoContext(asked, "x", "n", 1) }, map[string]any{"request": "r1", "org": "acme", "n": 1.0}},
		{"of work that a change has caused", func(l *slog.Logger) {
			l.InfoContext(ledger.WithCause(context.Background(), ledger.ByChange(ledger.Ref{Kind: "instance", ID: "a"}, 3)), "x")
		}, map[string]any{"cause": "change:instance/a@3"}},
		{"of nobody's work", func(l *slog.Logger) { l.Info("x") }, map[string]any{}},
		{"a line that says so itself says it once", func(l *slog.Logger) { l.InfoContext(asked, "x", "request", "mine") }, map[string]any{"request": "mine", "org": "acme"}},
		{"and so does a logger", func(l *slog.Logger) { l.With("org", "hers").InfoContext(asked, "x") }, map[string]any{"request": "r1", "org": "hers"}},
	} {
		t.Run(tc.reason, func(t *testing.T) {
			var out bytes.Buffer
			tc.write(app.NewLog(&out))
			got := map[string]any{}
			if err := json.Unmarshal(out.Bytes(), &got); err != nil {
				t.Fatal(err)
			}
			for _, always := range []string{"time", "level", "msg"} {
				delete(got, always)
			}
			if diff := cmp.Diff(tc.want, got); diff != "" {
				t.Errorf("the line (-want +got):\n%s", diff)
			}
			for _, key := range []string{`"request"`, `"org"`} {
				if bytes.Count(out.Bytes(), []byte(key)) > 1 {
					t.Errorf("%s is there twice: %s", key, out.String())
				}
			}
		})
	}
}

// Work is caused by changes, which are caused by earlier ones: a request is found at
// the beginning, over several objects.
func TestCausesGoBackToTheirRequest(t *testing.T) {
	l, err := sqlledger.Open(t.Context(), sqlledger.Config{URL: filepath.Join(t.TempDir(), "ledger.db"), Kinds: []ledger.Kind{{Name: "shop"}, {Name: "part"}}})
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	put := func(kind, id string, version int64, cause ledger.Cause) {
		t.Helper()
		if _, err := l.Commit(t.Context(), ledger.Set{Actor: "alice", Cause: cause, Puts: []ledger.Put{
			{Object: ledger.Object{Ref: ledger.Ref{Kind: kind, ID: id}, Phase: strconv.FormatInt(version, 10)}, Expect: version, Op: "x"},
		}}); err != nil {
			t.Fatal(err)
		}
	}
	shop, part := ledger.Ref{Kind: "shop", ID: "s"}, ledger.Ref{Kind: "part", ID: "p"}
	put("shop", "s", 0, ledger.ByRequest("made"))
	put("shop", "s", 1, ledger.ByChange(shop, 1))
	put("part", "p", 0, ledger.ByChange(shop, 2))
	put("shop", "s", 2, ledger.ByRequest("changed"))
	put("part", "p", 1, ledger.ByChange(part, 1))
	put("shop", "s", 3, ledger.BySchedule("its end"))
	put("part", "p", 2, ledger.ByChange(shop, 4))
	log := &counted{Log: l}
	request := app.Requests(log)
	for _, tc := range []struct {
		reason string
		cause  ledger.Cause
		want   string
	}{
		{"a request is itself", ledger.ByRequest("r1"), "r1"},
		{"through two objects", ledger.ByChange(part, 2), "made"},
		{"a later request is not the cause of what was before", ledger.ByChange(shop, 2), "made"},
		{"of the later one", ledger.ByChange(shop, 3), "changed"},
		{"what a schedule began nobody asked for", ledger.ByChange(part, 3), ""},
		{"what is not there leads nowhere", ledger.ByChange(part, 99), ""},
		{"nothing", "", ""},
	} {
		if got := request(t.Context(), tc.cause); got != tc.want {
			t.Errorf("%s: %s goes back to %q, want %q", tc.reason, tc.cause, got, tc.want)
		}
	}
	before := log.n
	if got := request(t.Context(), ledger.ByChange(part, 2)); got != "made" || log.n != before {
		t.Errorf("%q was read again (%d times)", got, log.n-before)
	}
	log.err = errors.New("away")
	if got := request(t.Context(), ledger.ByChange(part, 1)); got != "" {
		t.Errorf("while the ledger is away: %q", got)
	}
	log.err = nil
	if got := request(t.Context(), ledger.ByChange(part, 1)); got != "made" {
		t.Errorf("when it is back: %q", got)
	}
}

type counted struct {
	ledger.Log
	n   int
	err error
}

func (c *counted) Changes(ctx context.Context, q ledger.ChangeQuery) ([]ledger.Change, error) {
	if c.n++; c.err != nil {
		return nil, c.err
	}
	return c.Log.Changes(ctx, q)
}

// The end of what somebody asked for is told with the request, where it failed.
func TestOperationsThatFailAreTold(t *testing.T) {
	l, err := sqlledger.Open(t.Context(), sqlledger.Config{URL: filepath.Join(t.TempDir(), "ledger.db"), Kinds: []ledger.Kind{operation.Kind}})
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	var out bytes.Buffer
	told := app.Outcomes(l, app.NewLog(&out))
	ctx := ledger.WithOrg(ledger.WithCause(t.Context(), ledger.ByChange(ledger.Ref{Kind: "environment", ID: "e"}, 3)), "acme")
	for _, phase := range []string{operation.Succeeded, operation.Failed} {
		begin := operation.Start("create", ledger.Object{Ref: ledger.Ref{Kind: "environment", ID: "e"}, Name: "lab", Org: "acme"}, ledger.ByRequest("night-shift"))
		made, err := told.Commit(ctx, ledger.Set{Actor: "alice", Cause: ledger.ByRequest("night-shift"), Puts: []ledger.Put{begin}})
		if err != nil {
			t.Fatal(err)
		}
		end, err := operation.Finish(made.Objects[0], phase, "no route", made.Objects[0].Created)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := told.Commit(ctx, ledger.Set{Actor: "system", Cause: ledger.BySchedule("x"), Puts: []ledger.Put{end}}); err != nil {
			t.Fatal(err)
		}
	}
	got := map[string]any{}
	if err := json.Unmarshal(out.Bytes(), &got); err != nil {
		t.Fatalf("want one line: %v\n%s", err, out.String())
	}
	for _, varies := range []string{"time", "operation"} {
		delete(got, varies)
	}
	want := map[string]any{"level": "WARN", "msg": "operation failed", "verb": "create", "kind": "environment", "id": "e", "name": "lab",
		"request": "night-shift", "reason": "no route", "cause": "change:environment/e@3", "org": "acme"}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("the line (-want +got):\n%s", diff)
	}
}
