package sqlledger_test

import (
	"database/sql"
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	_ "github.com/jackc/pgx/v5/stdlib"

	"github.com/droverhq/drover/internal/fault"
	"github.com/droverhq/drover/internal/ledger"
	"github.com/droverhq/drover/internal/sqlledger"
)

// TestReadOnlyChangesNothing opens databases that Open would bring up to date.
func TestReadOnlyChangesNothing(t *testing.T) {
	grown := things[0]
	grown.Fields = append([]ledger.Field{{Name: "colour", Type: ledger.Text}}, grown.Fields...)
	index := []string{"CREATE INDEX ix_thing_0123456789 ON object_thing (name)"} // which Open drops
	for engine, url := range engines {
		for _, c := range []struct {
			reason string
			do     []string
			kinds  []ledger.Kind
			why    string
		}{
			{"as it was left", index, things, ""},
			{"a kind is new", index, append(slices.Clone(things), ledger.Kind{Name: "other"}), "older-schema"},
			{"a field is new", index, []ledger.Kind{grown}, "older-schema"},
			{"an older schema", append(slices.Clone(index), "UPDATE head SET schema_version = 1"), things, "older-schema"},
			{"a newer schema", []string{"UPDATE head SET schema_version = 99"}, things, "newer-schema"},
			{"no ledger", []string{"DROP TABLE head"}, things, "no-ledger"},
		} {
			t.Run(engine+" "+c.reason, func(t *testing.T) {
				ctx, where := t.Context(), url(t)
				l := open(t, sqlledger.Config{URL: where, Kinds: things})
				commit(t, l, put("a", "acme", "accepted", 0))
				l.Close()
				db := direct(t, where)
				for _, s := range c.do {
					if _, err := db.Exec(s); err != nil {
						t.Fatal(err)
					}
				}
				was := schema(t, db, engine)
				if !slices.Contains(was, "object_thing") || len(was) < 10 {
					t.Fatalf("the schema is %q: this test looks in the wrong place", was)
				}
				l, err := sqlledger.Open(ctx, sqlledger.Config{URL: where, Kinds: c.kinds, ReadOnly: true})
				switch {
				case c.why != "":
					if fault.Reason(err) != c.why {
						t.Errorf("it gave %v, want %s", err, c.why)
					}
				case err != nil:
					t.Fatal(err)
				default:
					found, err := l.Standing(ctx, "thing", "", 10)
					if err != nil || len(found) != 1 {
						t.Errorf("the objects are %v, %v", found, err)
					}
					if _, err := l.Commit(ctx, put("b", "acme", "accepted", 0)); !fault.Is(err, fault.Denied) {
						t.Errorf("a write gave %v", err)
					}
				}
				if err == nil {
					l.Close()
				}
				if diff := cmp.Diff(was, schema(t, db, engine)); diff != "" {
					t.Errorf("the database was changed:\n%s", diff)
				}
			})
		}
		t.Run(engine+" nothing at all", func(t *testing.T) {
			where := url(t)
			if _, err := sqlledger.Open(t.Context(), sqlledger.Config{URL: where, Kinds: things, ReadOnly: true}); !fault.Is(err, fault.NotFound) {
				t.Errorf("where there is nothing it gave %v", err)
			}
			if path, ok := strings.CutPrefix(where, "sqlite://"); ok {
				if _, err := os.Stat(path); err == nil {
					t.Error("it made a database")
				}
			} else if left := schema(t, direct(t, where), engine); len(left) > 0 {
				t.Errorf("it made %q", left)
			}
		})
	}
}

// direct is the database without the ledger.
func direct(t *testing.T, where string) *sql.DB {
	t.Helper()
	driver, path := "pgx", where
	if rest, ok := strings.CutPrefix(where, "sqlite://"); ok {
		driver, path = "sqlite", rest
	}
	db, err := sql.Open(driver, path)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { db.Close() })
	return db
}

// schema lists tables, indexes and extensions, and what the head says of its version.
func schema(t *testing.T, db *sql.DB, engine string) (out []string) {
	t.Helper()
	query := "SELECT relname::text FROM pg_class WHERE relnamespace = current_schema()::regnamespace UNION ALL SELECT extname::text FROM pg_extension WHERE extname <> 'plpgsql' ORDER BY 1"
	if engine == "sqlite" {
		query = "SELECT name FROM sqlite_schema ORDER BY 1"
	}
	list := func(query string) {
		rows, err := db.Query(query)
		if err != nil {
			t.Fatal(err)
		}
		defer rows.Close()
		for rows.Next() {
			var name string
			if err := rows.Scan(&name); err != nil {
				t.Fatal(err)
			}
			out = append(out, name)
		}
		if err := rows.Err(); err != nil {
			t.Fatal(err)
		}
	}
	if list(query); slices.Contains(out, "head") {
		list("SELECT 'version ' || CAST(schema_version AS TEXT) FROM head")
	}
	return out
}
