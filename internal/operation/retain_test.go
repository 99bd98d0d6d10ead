package operation_test

import (
	"bytes"
	"context"
	"fmt"
	"path/filepath"
	"testing"
	"time"

	"github.com/droverhq/drover/internal/ledger"
	"github.com/droverhq/drover/internal/operation"
	"github.com/droverhq/drover/internal/sqlledger"
)

func TestRetain(t *testing.T) {
	clock := time.Date(2026, 5, 1, 12, 0, 0, 0, time.UTC)
	l, err := sqlledger.Open(t.Context(), sqlledger.Config{URL: filepath.Join(t.TempDir(), "drover.db"), Key: bytes.Repeat([]byte{7}, 32),
		Now: func() time.Time { return clock }, Kinds: []ledger.Kind{operation.Kind}})
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	begin := func(name string) ledger.Object {
		t.Helper()
		subject := ledger.Object{Ref: ledger.Ref{Kind: "thing", ID: name}, Org: "acme", Name: name}
		r, err := l.Commit(context.Background(), ledger.Set{Actor: "anna", Cause: "request/1", Puts: []ledger.Put{operation.Start("create", subject, "request/1")}})
		if err != nil {
			t.Fatal(err)
		}
		return r.Objects[0]
	}
	end := func(o ledger.Object, phase string) {
		t.Helper()
		put, err := operation.Finish(o, phase, "", clock)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := l.Commit(context.Background(), ledger.Set{Actor: "system", Cause: "request/1", Puts: []ledger.Put{put}}); err != nil {
			t.Fatal(err)
		}
	}
	const forever = 1010 // more than are looked at at once
	set := ledger.Set{Actor: "anna", Cause: "request/1"}
	for i := range forever {
		set.Puts = append(set.Puts, operation.Start("create", ledger.Object{Ref: ledger.Ref{Kind: "thing", ID: fmt.Sprint("runs", i)}, Org: "acme"}, "request/1"))
	}
	if _, err := l.Commit(t.Context(), set); err != nil {
		t.Fatal(err)
	}
	late := begin("ends late")
	for i := range 50 {
		end(begin(fmt.Sprint("old", i)), []string{operation.Succeeded, operation.Failed, operation.Superseded}[i%3])
	}
	clock = clock.Add(48 * time.Hour)
	end(late, operation.Succeeded)
	end(begin("young"), operation.Succeeded)

	for _, want := range []int{50, 0} {
		if n, err := operation.Retain(t.Context(), l, clock.Add(-24*time.Hour), clock); err != nil || n != want {
			t.Fatalf("%d were taken away, %v; want %d", n, err, want)
		}
	}
	left, err := l.List(t.Context(), ledger.Query{Kind: operation.Kind.Name, Limit: 2 * forever})
	if err != nil || len(left) != forever+2 {
		t.Fatalf("%d are left, %v; want those that run and two that ended since", len(left), err)
	}
	if total, err := l.Total(t.Context(), ledger.Query{Kind: operation.Kind.Name}); err != nil || total != forever+2 {
		t.Fatalf("the total is %d, %v", total, err)
	}
}
