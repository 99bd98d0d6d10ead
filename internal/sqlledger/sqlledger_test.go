package sqlledger_test

import (
	"bytes"
	"context"
	"path/filepath"
	"testing"

	"github.com/droverhq/drover/internal/ledger"
	"github.com/droverhq/drover/internal/sqlledger"
	"github.com/droverhq/drover/test/postgres"
)

// engines gives each database a fresh URL.
var engines = map[string]func(t testing.TB) string{
	"sqlite":   func(t testing.TB) string { return "sqlite://" + filepath.Join(t.TempDir(), "ledger.db") },
	"postgres": func(t testing.TB) string { return postgres.Database(t) },
}

var key = bytes.Repeat([]byte{7}, ledger.KeySize)

func open(t testing.TB, c sqlledger.Config) *sqlledger.Ledger {
	t.Helper()
	if c.Key == nil {
		c.Key = key
	}
	l, err := sqlledger.Open(context.Background(), c)
	if err != nil {
		t.Fatalf("cannot open the ledger: %v", err)
	}
	t.Cleanup(func() { l.Close() })
	return l
}

// things is a kind with a field of every type.
var things = []ledger.Kind{{
	Name: "thing",
	Fields: []ledger.Field{
		{Name: "offering", Type: ledger.Text}, {Name: "host", Type: ledger.Text}, {Name: "size", Type: ledger.Int},
		{Name: "public", Type: ledger.Bool}, {Name: "expires", Type: ledger.Time},
	},
	Scope:  []string{"offering", "org"},
	Totals: [][]string{{"offering"}, {"offering", "org"}, {"phase", "offering", "host", "size", "public"}},
	Text:   []string{"name", "host"},
}}

func put(id, org, phase string, expect int64) ledger.Set {
	return ledger.Set{Actor: "tester", Cause: ledger.BySchedule("test"), Puts: []ledger.Put{{
		Object: ledger.Object{
			Ref: ledger.Ref{Kind: "thing", ID: id}, Org: org, Name: "name-" + id, Phase: phase,
			Fields: ledger.Fields{"offering": "dinosaur", "size": int64(3)}, Spec: []byte(`{"a": 1}`),
		},
		Expect: expect, Op: "create",
	}}}
}

func commit(t testing.TB, l ledger.Committer, s ledger.Set) ledger.Result {
	t.Helper()
	r, err := l.Commit(context.Background(), s)
	if err != nil {
		t.Fatalf("cannot commit: %v", err)
	}
	return r
}
