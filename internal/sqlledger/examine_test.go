package sqlledger_test

import (
	"database/sql"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/jackc/pgx/v5"

	"github.com/droverhq/drover/internal/ledger"
	"github.com/droverhq/drover/internal/sqlledger"
)

// What failed often is told, worst first, and no more of it than was asked for.
func TestExamine(t *testing.T) {
	for name, where := range engines {
		t.Run(name, func(t *testing.T) {
			l := open(t, sqlledger.Config{URL: where(t), Kinds: things})
			tries := map[string]int{"t0": 4, "t1": 5, "t2": 9, "t3": 7}
			for i := range len(tries) {
				commit(t, l, ledger.Set{Actor: "tester", Cause: "test", Wakes: []ledger.Wake{{Ref: ledger.Ref{Kind: "thing", ID: fmt.Sprint("t", i)}}}})
			}
			claimed, err := l.Claim(t.Context(), ledger.ClaimRequest{Kinds: []string{"thing"}, Holder: "tester", Lease: time.Minute, Limit: 10})
			if err != nil || len(claimed.Work) != len(tries) {
				t.Fatalf("claimed %d pieces, %v", len(claimed.Work), err)
			}
			for _, w := range claimed.Work {
				commit(t, l, ledger.Set{Actor: "tester", Cause: "test", Lease: &w.Lease, Finish: &ledger.Finish{Dirty: w.Dirty, Next: true, After: time.Hour, Attempts: tries[w.ID]}})
			}
			for _, c := range []struct {
				reason string
				limit  int
				want   []string
			}{
				{"all that failed five times and more", 10, []string{"t2 9", "t3 7", "t1 5"}},
				{"the worst of them", 2, []string{"t2 9", "t3 7"}},
			} {
				e, err := l.Examine(t.Context(), 5, c.limit)
				if err != nil {
					t.Fatal(err)
				}
				var got []string
				for _, f := range e.Failing {
					got = append(got, fmt.Sprint(f.ID, " ", f.Attempts))
				}
				if diff := cmp.Diff(c.want, got); diff != "" {
					t.Errorf("%s: %s", c.reason, diff)
				}
				if e.Schema == 0 || e.Schema != e.Knows {
					t.Errorf("the schema is %d of %d", e.Schema, e.Knows)
				}
				if shared := name == "postgres"; shared != !e.Clock.IsZero() || shared != (e.Engine == "PostgreSQL") {
					t.Errorf("%s with a clock at %s", e.Engine, e.Clock)
				}
			}
		})
	}
}

// What operators ask, and metrics every few seconds, reads indexes and not all the work
// that there is.
func TestOperatorsQuestionsAreCheap(t *testing.T) {
	for name, where := range engines {
		t.Run(name, func(t *testing.T) {
			url := where(t)
			l := open(t, sqlledger.Config{URL: url, Kinds: things})
			plan, waiting := explainLite, "COVERING INDEX work_due"
			if name == "postgres" {
				plan, waiting = explainPostgres, "work_"
			}
			for question, c := range map[string]struct{ has, not []string }{
				"failing": {[]string{"work_failing"}, []string{"Seq Scan", "Sort", "SCAN work\n", "TEMP B-TREE"}},
				"backlog": {[]string{"work_until", waiting}, []string{"Seq Scan", "SCAN work\n"}},
			} {
				ask := l.Questions()[question]
				got := plan(t, url, ask[0].(string), ask[1:])
				for _, word := range c.has {
					if !strings.Contains(got, word) {
						t.Errorf("%s does not use %s:\n%s", question, word, got)
					}
				}
				for _, word := range c.not {
					if strings.Contains(got, word) {
						t.Errorf("%s: %q in\n%s", question, word, got)
					}
				}
			}
		})
	}
}

func explainLite(t *testing.T, url, question string, args []any) string {
	t.Helper()
	db, err := sql.Open("sqlite", strings.TrimPrefix(url, "sqlite://"))
	if err != nil {
		t.Fatal(err)
	}
	defer db.Close()
	rows, err := db.QueryContext(t.Context(), "EXPLAIN QUERY PLAN "+question, args...)
	if err != nil {
		t.Fatal(err)
	}
	defer rows.Close()
	var out strings.Builder
	for rows.Next() {
		var id, parent, unused int
		var detail string
		if err := rows.Scan(&id, &parent, &unused, &detail); err != nil {
			t.Fatal(err)
		}
		out.WriteString(detail + "\n")
	}
	if err := rows.Err(); err != nil {
		t.Fatal(err)
	}
	return out.String()
}

// explainPostgres asks for the plan of a table that is large: of one that has no rows,
// reading all of it is the best.
func explainPostgres(t *testing.T, url, question string, args []any) string {
	t.Helper()
	conn, err := pgx.Connect(t.Context(), url)
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close(t.Context())
	if _, err := conn.Exec(t.Context(), "SET enable_seqscan = off"); err != nil {
		t.Fatal(err)
	}
	rows, err := conn.Query(t.Context(), "EXPLAIN "+question, args...)
	if err != nil {
		t.Fatal(err)
	}
	lines, err := pgx.CollectRows(rows, pgx.RowTo[string])
	if err != nil {
		t.Fatal(err)
	}
	return strings.Join(lines, "\n") + "\n"
}
