package app_test

import (
	"bytes"
	"context"
	"log/slog"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/droverhq/drover/internal/app"
	"github.com/droverhq/drover/internal/command"
	"github.com/droverhq/drover/internal/fault"
	"github.com/droverhq/drover/internal/ledger"
	"github.com/droverhq/drover/internal/operation"
	"github.com/droverhq/drover/internal/sqlledger"
)

// archive is a ledger with a clock, parts of which fail.
type archive struct {
	ledger.Ledger
	t           *testing.T
	clock       time.Time
	noList, off bool
}

func newArchive(t *testing.T) *archive {
	t.Helper()
	a := &archive{t: t, clock: time.Date(2026, 5, 1, 12, 0, 0, 0, time.UTC)}
	l, err := sqlledger.Open(t.Context(), sqlledger.Config{URL: filepath.Join(t.TempDir(), "drover.db"), Key: bytes.Repeat([]byte{7}, 32),
		Now: func() time.Time { return a.clock }, Kinds: []ledger.Kind{operation.Kind, command.Kind}})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { l.Close() })
	a.Ledger = l
	return a
}

func (a *archive) List(ctx context.Context, q ledger.Query) ([]ledger.Object, error) {
	if a.noList {
		return nil, fault.New(fault.Unavailable, "the lists are away")
	}
	return a.Ledger.List(ctx, q)
}

func (a *archive) Sweep(ctx context.Context, s ledger.Sweep) (ledger.Swept, error) {
	if a.off {
		return ledger.Swept{}, fault.New(fault.Unavailable, "the blobs are away")
	}
	return a.Ledger.Sweep(ctx, s)
}

// operation begins one, and ends it unless it is to run on.
func (a *archive) operation(name string, runs bool) {
	a.t.Helper()
	subject := ledger.Object{Ref: ledger.Ref{Kind: "thing", ID: name}, Org: "acme", Name: name}
	r, err := a.Commit(a.t.Context(), ledger.Set{Actor: "anna", Cause: "request/1", Puts: []ledger.Put{operation.Start("create", subject, "request/1")}})
	if err == nil && !runs {
		var put ledger.Put
		if put, err = operation.Finish(r.Objects[0], operation.Succeeded, "", a.clock); err == nil {
			_, err = a.Commit(a.t.Context(), ledger.Set{Actor: "system", Cause: "request/1", Puts: []ledger.Put{put}})
		}
	}
	if err != nil {
		a.t.Fatal(err)
	}
}

// command writes the record of one.
func (a *archive) command(id, phase string) {
	a.t.Helper()
	_, err := a.Commit(a.t.Context(), ledger.Set{Actor: "anna", Cause: "request/1", Puts: []ledger.Put{{
		Object: ledger.Object{Ref: ledger.Ref{Kind: command.Kind.Name, ID: id}, Org: "acme", Name: id, Phase: phase, Spec: []byte(`{}`)}, Op: phase}}})
	if err != nil {
		a.t.Fatal(err)
	}
}

// left are operations and commands that are listed, and whether a blob is there.
func (a *archive) left(blob string) (operations, commands int, there bool) {
	a.t.Helper()
	count := map[string]int{}
	for _, kind := range []string{operation.Kind.Name, command.Kind.Name} {
		found, err := a.Ledger.List(a.t.Context(), ledger.Query{Kind: kind})
		if err != nil {
			a.t.Fatal(err)
		}
		count[kind] = len(found)
	}
	_, err := a.Blob(a.t.Context(), blob)
	if err != nil && !fault.Is(err, fault.NotFound) {
		a.t.Fatal(err)
	}
	return count[operation.Kind.Name], count[command.Kind.Name], err == nil
}

// What ended long ago and what nothing names goes; what runs, or is young, stays. One
// of the two does not wait for the other.
func TestRetain(t *testing.T) {
	const month = 30 * 24 * time.Hour
	for _, tc := range []struct {
		reason          string
		later           time.Duration
		noLists, noBlob bool
		operations      int // as many commands
		blob            bool
		says            []string
	}{
		{"a day later all is young enough", time.Hour, false, false, 3, true, nil},
		{"a month later", month + time.Hour, false, false, 1, false, []string{"what is kept no longer is gone", "operations=2", "commands=2", "blobs=1"}},
		{"the lists are away", month + time.Hour, true, false, 3, false, []string{"cannot take old operations off the lists", "cannot take old commands off the lists", "blobs=1"}},
		{"the blobs are away", month + time.Hour, false, true, 1, true, []string{"cannot sweep", "operations=2"}},
	} {
		t.Run(tc.reason, func(t *testing.T) {
			a := newArchive(t)
			a.operation("one", false)
			a.operation("two", false)
			a.operation("runs", true)
			a.command("one", command.Done)
			a.command("two", command.Rejected)
			a.command("open", command.Accepted)
			blob, err := a.PutBlob(t.Context(), []byte("nobody names it"))
			if err != nil {
				t.Fatal(err)
			}
			var log bytes.Buffer
			// What nothing names is kept for as long again from when that is found.
			a.clock = a.clock.Add(25 * time.Hour)
			app.RetainOnce(t.Context(), a, slog.New(slog.NewTextHandler(&log, nil)), month, a.clock)
			a.clock = a.clock.Add(tc.later)
			a.noList, a.off = tc.noLists, tc.noBlob
			app.RetainOnce(t.Context(), a, slog.New(slog.NewTextHandler(&log, nil)), month, a.clock)
			if operations, commands, there := a.left(blob); operations != tc.operations || commands != tc.operations || there != tc.blob {
				t.Errorf("%d operations and %d commands are left, the blob: %v; want %d, %v", operations, commands, there, tc.operations, tc.blob)
			}
			for _, text := range tc.says {
				if !strings.Contains(log.String(), text) {
					t.Errorf("the log lacks %q: %s", text, &log)
				}
			}
			if tc.says == nil && log.Len() > 0 {
				t.Errorf("the log says %s", &log)
			}
		})
	}
}

// It ends with the server, and whoever ends is not told that something failed.
func TestRetainEnds(t *testing.T) {
	a := newArchive(t)
	ended, end := context.WithCancel(t.Context())
	end()
	if err := app.Retain(ended, a); err != nil {
		t.Errorf("it ends with %v", err)
	}
	a.noList, a.off = true, true
	var log bytes.Buffer
	app.RetainOnce(ended, a, slog.New(slog.NewTextHandler(&log, nil)), time.Hour, a.clock)
	if log.Len() > 0 {
		t.Errorf("the log says %s", &log)
	}
}
