package sqlledger_test

import (
	"context"
	"database/sql"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/droverhq/drover/internal/fault"
	"github.com/droverhq/drover/internal/ledger"
	"github.com/droverhq/drover/internal/sqlledger"
)

// withoutEdges makes a ledger's database one of the program before there were
// links.
func withoutEdges(t *testing.T, url string) {
	t.Helper()
	// And all that came after them.
	steps := []string{"DROP TABLE edges", "DROP TABLE blobmarks", "ALTER TABLE log DROP COLUMN origin", "DROP TABLE blocks", "DROP TABLE checkpoints",
		"DROP INDEX work_failing", "DROP TABLE epochs", "DROP TABLE sites", "UPDATE head SET schema_version = 1"}
	if path, ok := strings.CutPrefix(url, "sqlite://"); ok {
		db, err := sql.Open("sqlite", path)
		if err != nil {
			t.Fatal(err)
		}
		defer db.Close()
		for _, s := range steps {
			if _, err := db.Exec(s); err != nil {
				t.Fatal(err)
			}
		}
		return
	}
	conn, err := pgx.Connect(t.Context(), url)
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close(context.WithoutCancel(t.Context()))
	for _, s := range steps {
		if _, err := conn.Exec(t.Context(), s); err != nil {
			t.Fatal(err)
		}
	}
}

// An old database has objects without links and words; their names are found.
func TestAnOldDatabaseIsSearched(t *testing.T) {
	for name, url := range engines {
		t.Run(name, func(t *testing.T) {
			where := url(t)
			l := open(t, sqlledger.Config{URL: where, Kinds: things})
			const n = 2500 // more than one page of the index is made of
			for first := 0; first < n; first += 500 {
				set := ledger.Set{Actor: "tester", Cause: ledger.BySchedule("test")}
				for i := first; i < first+500; i++ {
					o := ledger.Object{Ref: ledger.Ref{Kind: "thing", ID: fmt.Sprintf("t%04d", i)}, Org: "acme", Name: fmt.Sprintf("old thing-%d", i)}
					if i == 7 {
						o.Deleted = time.Unix(1, 0)
					}
					set.Puts = append(set.Puts, ledger.Put{Op: "create", Object: o})
				}
				commit(t, l, set)
			}
			l.Close()
			withoutEdges(t, where)

			kind := things[0]
			kind.Searched, kind.Linked = true, true
			for range 2 { // the second start finds everything done
				l = open(t, sqlledger.Config{URL: where, Kinds: []ledger.Kind{kind}})
				for text, want := range map[string]string{"thing 0": "t0000", "old 1234": "t1234", "thing-2498": "t2498"} {
					found, err := l.Search(t.Context(), ledger.Search{Text: text, Scope: map[string]any{"org": "acme"}})
					if err != nil || len(found) == 0 || found[0].ID != want || len(found[0].Links) > 0 || found[0].Words != "" {
						t.Errorf("%q found %v, %v", text, found, err)
					}
				}
				for _, f := range search(t, l, "thing 7") {
					if f.ID == "t0007" {
						t.Errorf("found what is gone: %+v", f)
					}
				}
				o := search(t, l, "2499")[0].Object
				o.Words, o.Links = "renewed", []string{"thing/t0000"}
				commit(t, l, ledger.Set{Actor: "tester", Cause: ledger.BySchedule("test"), Puts: []ledger.Put{{Object: o, Expect: o.Version, Op: "update"}}})
				got, err := l.Reach(t.Context(), ledger.Reach{From: "thing/t0000", Back: true})
				if err != nil || len(got) != 1 || got[0].Object.ID != "t2499" || len(search(t, l, "renewed")) != 1 {
					t.Errorf("links of an old object: %v, %v", got, err)
				}
				l.Close()
			}
		})
	}
}

func search(t *testing.T, l ledger.Finder, text string) []ledger.Found {
	t.Helper()
	found, err := l.Search(t.Context(), ledger.Search{Text: text})
	if err != nil {
		t.Fatalf("%q: %v", text, err)
	}
	return found
}

// A transition leaves the index of words alone: on PostgreSQL its row would be
// another one afterwards.
func TestTransitionsLeaveTheWordsAlone(t *testing.T) {
	kind := things[0]
	kind.Searched, kind.Linked = true, true
	url := engines["postgres"](t)
	l := open(t, sqlledger.Config{URL: url, Kinds: []ledger.Kind{kind}})
	conn, err := pgx.Connect(t.Context(), url)
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close(context.WithoutCancel(t.Context()))
	row := func() (words, edge string) {
		if err := conn.QueryRow(t.Context(), "SELECT w.ctid::text || w.xmin::text, e.ctid::text || e.xmin::text FROM words_thing w, edges e").Scan(&words, &edge); err != nil {
			t.Fatal(err)
		}
		return words, edge
	}
	set := put("a", "acme", "accepted", 0)
	set.Puts[0].Object.Links = []string{"thing/b"}
	o := commit(t, l, set).Objects[0]
	words, edge := row()
	for _, phase := range []string{"preparing", "ready"} {
		o.Phase = phase
		o = commit(t, l, ledger.Set{Actor: "tester", Cause: ledger.BySchedule("test"), Puts: []ledger.Put{{Object: o, Expect: o.Version, Op: phase}}}).Objects[0]
	}
	if w, e := row(); w != words || e != edge {
		t.Errorf("a transition wrote the index: %s after %s, %s after %s", w, words, e, edge)
	}
	o.Words = "moved"
	commit(t, l, ledger.Set{Actor: "tester", Cause: ledger.BySchedule("test"), Puts: []ledger.Put{{Object: o, Expect: o.Version, Op: "update"}}})
	if w, e := row(); w == words || e != edge {
		t.Errorf("other words left the row %s (was %s), and the edge %s (was %s)", w, words, e, edge)
	}
}

// FuzzSearch writes and looks for any text: it is words or refused, and what was
// written is found by itself.
func FuzzSearch(f *testing.F) {
	kind := things[0]
	kind.Searched = true
	var ledgers []*sqlledger.Ledger
	for _, url := range engines {
		ledgers = append(ledgers, open(f, sqlledger.Config{URL: url(f), Kinds: []ledger.Kind{kind}}))
	}
	for _, seed := range []string{
		"shop-staging/db", `"`, `'`, `""`, `'; DROP TABLE words_thing; --`, "a AND b OR NOT c NEAR(d)", "name:x", "{name}: x", "^a", "a*", "*", "a b*",
		"a & b | !c <-> d", "x:*", "x:A", "%", "_", `\`, "\x00", "a\x00b", "\xff", "(", ")", "(a", "-a", "+a", "İstanbul", "ǅ", "e\u0301", "日本 語", "😀",
		"\u2028", strings.Repeat("long", 300), strings.Repeat("a ", 20), strings.Repeat("ä", 40), "1e5", "NULL", "\ufffd", "ﬁ ﬂ", "\u0345",
	} {
		f.Add(seed)
	}
	n := 0
	f.Fuzz(func(t *testing.T, text string) {
		n++
		for _, l := range ledgers {
			_, err := l.Search(t.Context(), ledger.Search{Text: text})
			if err != nil && !fault.Is(err, fault.Invalid) {
				t.Fatalf("%q: %v", text, err)
			}
			set := put(fmt.Sprintf("%d-%p", n, t), "acme", "", 0)
			set.Puts[0].Object.Name, set.Puts[0].Object.Words = "", text
			if _, refused := l.Commit(t.Context(), set); refused != nil && !fault.Is(refused, fault.Invalid) {
				t.Fatalf("words %q: %v", text, refused)
			} else if refused != nil || err != nil {
				continue
			}
			if found, err := l.Search(t.Context(), ledger.Search{Text: text}); err != nil || len(found) == 0 {
				t.Fatalf("%q is not found by itself: %v", text, err)
			}
		}
	})
}

// Words that very many have are looked for in a share of the objects; what is
// called so, what has the word in its name and what is the tenant's own are found
// all the same.
func TestCommonWordsAreSampled(t *testing.T) {
	kind := ledger.Kind{Name: "thing", Searched: true}
	for name, url := range engines {
		t.Run(name, func(t *testing.T) {
			l := open(t, sqlledger.Config{URL: url(t), Kinds: []ledger.Kind{kind}, Timeout: time.Minute})
			object := func(id, org, name, words string) ledger.Put {
				return ledger.Put{Op: "create", Object: ledger.Object{Ref: ledger.Ref{Kind: "thing", ID: id}, Org: org, Name: name, Words: words}}
			}
			const n = 20_000
			for first := 0; first < n; first += 1000 {
				set := ledger.Set{Actor: "tester", Cause: ledger.BySchedule("test")}
				for i := first; i < first+1000; i++ {
					set.Puts = append(set.Puts, object(fmt.Sprintf("t%05d", i), fmt.Sprintf("org-%d", i%2000), "herd", "common word"))
				}
				commit(t, l, set)
			}
			commit(t, l, ledger.Set{Actor: "tester", Cause: ledger.BySchedule("test"), Puts: []ledger.Put{
				object("named", "", "a common name", ""), object("called", "", "word common", ""), object("rare", "", "herd", "common and rare"),
			}})
			for _, c := range []struct {
				reason, text string
				scope        map[string]any
				n            int
				first        string
			}{
				{"the one that has it in its name", "common", nil, 20, "called"},
				{"the one that is called so", "word common", nil, 20, "called"},
				{"a rare word among common ones", "common rare", nil, 1, "rare"},
				{"a tenant's own", "common", map[string]any{"org": "org-1234"}, 10, "t01234"},
				{"a beginning of very many", "h", nil, 20, ""},
			} {
				found, err := l.Search(t.Context(), ledger.Search{Text: c.text, Scope: c.scope})
				if err != nil || len(found) != c.n || c.first != "" && found[0].ID != c.first {
					t.Errorf("%s: %q found %v, %v", c.reason, c.text, found, err)
				}
			}
		})
	}
}
