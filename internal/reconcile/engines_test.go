package reconcile_test

import (
	"path/filepath"
	"testing"
	"time"

	"github.com/droverhq/drover/internal/ledger"
	"github.com/droverhq/drover/internal/sqlledger"
	"github.com/droverhq/drover/test/postgres"
)

// engines open a fresh store; what they return opens it for one more replica.
//
// The replicas' clocks are hours apart, and that must change nothing: due times
// and leases are the store's, and the loop measures only how long things took.
var engines = map[string]func(t testing.TB) (replica func() durable){
	"memory": func(testing.TB) func() durable {
		s := newStore()
		s.skew = time.Hour
		return func() durable { return s }
	},
	"sqlite": func(t testing.TB) func() durable { // one process: all replicas share a handle
		l := openSQL(t, filepath.Join(t.TempDir(), "ledger.db"), time.Hour)
		return func() durable { return l }
	},
	"postgres": func(t testing.TB) func() durable {
		url, skew := postgres.Database(t), time.Duration(0)
		return func() durable {
			l := openSQL(t, url, skew)
			skew = -skew
			if skew >= 0 {
				skew += time.Hour
			}
			return l
		}
	},
}

func openSQL(t testing.TB, url string, skew time.Duration) durable {
	t.Helper()
	l, err := sqlledger.Open(t.Context(), sqlledger.Config{
		URL: url, Kinds: []ledger.Kind{kinds["thing"]},
		Now: func() time.Time { return time.Now().Add(skew) },
	})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := l.Close(); err != nil {
			t.Error(err)
		}
	})
	return l
}
