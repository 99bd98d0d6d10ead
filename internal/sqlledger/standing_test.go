package sqlledger_test

import (
	"testing"

	"github.com/jackc/pgx/v5"

	"github.com/droverhq/drover/internal/fault"
	"github.com/droverhq/drover/internal/sqlledger"
)

// What a site has heard is there for all of its replicas, and what one has heard is not
// taken back by another that has not. It is not the other site's.
func TestWhatASiteHasHeard(t *testing.T) {
	where := engines["postgres"](t)
	open(t, sqlledger.Config{URL: where, Kinds: things})
	probe := func(site string) *sqlledger.Probe {
		p, err := sqlledger.OpenProbe(t.Context(), sqlledger.Config{URL: where, Site: site})
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(p.Close)
		return p
	}
	one, two, other := probe("east"), probe("east"), probe("west")
	check := func(p *sqlledger.Probe, want sqlledger.Heard) {
		t.Helper()
		if s, err := p.Look(t.Context()); err != nil || s.Heard != want || s.Epoch != 1 {
			t.Errorf("it knows %+v, not %+v: %v", s.Heard, want, err)
		}
	}
	note := func(p *sqlledger.Probe, h sqlledger.Heard) {
		t.Helper()
		if err := p.Note(t.Context(), h); err != nil {
			t.Fatal(err)
		}
	}
	check(one, sqlledger.Heard{})
	note(one, sqlledger.Heard{Seen: 2, Followed: 1, Peer: "https://west.example.org"})
	check(two, sqlledger.Heard{Seen: 2, Followed: 1, Peer: "https://west.example.org"})
	note(two, sqlledger.Heard{Seen: 1, Followed: 3})
	check(one, sqlledger.Heard{Seen: 2, Followed: 3, Peer: "https://west.example.org"})
	check(other, sqlledger.Heard{})

	// As an older program has left it.
	conn, err := pgx.Connect(t.Context(), where)
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close(t.Context())
	if _, err := conn.Exec(t.Context(), "DROP TABLE sites"); err != nil {
		t.Fatal(err)
	}
	check(one, sqlledger.Heard{})
	if one.Note(t.Context(), sqlledger.Heard{Seen: 2}) == nil {
		t.Error("it says that it has written what it could not")
	}
	check(one, sqlledger.Heard{}) // the connection is good

	// As a newer one has: who does not know it does not promote it.
	if err := one.Promote(t.Context()); err != nil {
		t.Error(err)
	}
	if _, err := conn.Exec(t.Context(), "UPDATE head SET schema_version = 99"); err != nil {
		t.Fatal(err)
	}
	if err := one.Promote(t.Context()); fault.Reason(err) != "newer-schema" {
		t.Errorf("what it cannot lead with is promoted: %v", err)
	}
}
