package sqlledger_test

import (
	"fmt"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/droverhq/drover/internal/ledger"
	"github.com/droverhq/drover/internal/sqlledger"
	"github.com/droverhq/drover/test/postgres"
)

// TestPagesOfAScopeStayInIt sorts an organisation's page by a column that has an
// index over everybody's objects. To walk that one in its order, in the hope of
// meeting enough of the organisation soon, looks cheap to a planner and takes
// half a second on a million rows.
func TestPagesOfAScopeStayInIt(t *testing.T) {
	url := postgres.Database(t)
	kind := ledger.Kind{
		Name: "gadget", Fields: []ledger.Field{{Name: "offering", Type: ledger.Text}, {Name: "cluster", Type: ledger.Text}},
		Scope: []string{"offering", "org"}, Lookup: []string{"cluster"},
	}
	l := open(t, sqlledger.Config{URL: url, Kinds: []ledger.Kind{kind}})
	const all, orgs = 20_000, 2 // few, so that walking on looks cheap
	for first := 0; first < all; first += 1000 {
		set := ledger.Set{Actor: "tester", Cause: ledger.BySchedule("test")}
		for i := first; i < first+1000; i++ {
			set.Puts = append(set.Puts, ledger.Put{Op: "create", Object: ledger.Object{
				Ref: ledger.Ref{Kind: "gadget", ID: fmt.Sprintf("g%05d", i)}, Org: fmt.Sprintf("org-%d", i%orgs), Name: fmt.Sprintf("n%05d", i),
				Fields: ledger.Fields{"offering": "teapot", "cluster": fmt.Sprintf("c%d", i%977)},
			}})
		}
		commit(t, l, set)
	}
	conn, err := pgx.Connect(t.Context(), url)
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close(t.Context())
	if _, err := conn.Exec(t.Context(), "VACUUM ANALYZE object_gadget"); err != nil {
		t.Fatal(err)
	}
	for _, desc := range []bool{false, true} {
		found, err := l.List(t.Context(), ledger.Query{
			Kind: "gadget", Scope: map[string]any{"offering": "teapot", "org": "org-1"},
			Order: []ledger.Order{{Column: "cluster", Desc: desc}}, Limit: 100, Brief: true,
		})
		if err != nil || len(found) != 100 {
			t.Fatalf("got %d objects, %v", len(found), err)
		}
	}
	// Whatever was counted has arrived when this is: it comes last.
	if _, err := l.Get(t.Context(), ledger.Ref{Kind: "gadget", ID: "g00001"}); err != nil {
		t.Fatal(err)
	}
	l.Close() // its connections end, and tell the statistics what they did
	const scans = `SELECT coalesce(sum(idx_scan) FILTER (WHERE x.indexdef LIKE '%(f_cluster, id)%'), 0),
		coalesce(sum(idx_scan) FILTER (WHERE x.indexname LIKE '%pkey'), 0)
		FROM pg_stat_user_indexes s JOIN pg_indexes x ON x.indexname = s.indexrelname WHERE s.relname = 'object_gadget'`
	var walked, arrived int64
	for end := time.Now().Add(20 * time.Second); arrived == 0 && time.Now().Before(end); {
		if err := conn.QueryRow(t.Context(), scans).Scan(&walked, &arrived); err != nil {
			t.Fatal(err)
		}
	}
	if walked != 0 || arrived == 0 {
		t.Errorf("the index of everybody's clusters was walked %d times (statistics arrived: %t)", walked, arrived > 0)
	}
}
