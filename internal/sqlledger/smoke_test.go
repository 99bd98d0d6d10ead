package sqlledger_test

import (
	"testing"
	"time"

	"github.com/droverhq/drover/internal/ledger"
	"github.com/droverhq/drover/internal/sqlledger"
)

func TestAnObjectsLife(t *testing.T) {
	for name, url := range engines {
		t.Run(name, func(t *testing.T) {
			ctx := t.Context()
			l := open(t, sqlledger.Config{URL: url(t), Kinds: things})
			s := put("a", "acme", "accepted", 0)
			s.Wakes = []ledger.Wake{{Ref: ledger.Ref{Kind: "thing", ID: "a"}}}
			s.Claims = []ledger.Claim{{Name: ledger.Name{Space: "host", Name: "a.example"}, Holder: ledger.Ref{Kind: "thing", ID: "a"}}}
			r := commit(t, l, s)
			if r.Seq != 1 || r.Objects[0].Version != 1 {
				t.Fatalf("the first commit gave %+v", r)
			}
			c, err := l.Claim(ctx, ledger.ClaimRequest{Holder: "me", Kinds: []string{"thing"}, Limit: 10, Lease: time.Minute})
			if err != nil || len(c.Work) != 1 || c.Work[0].Org != "acme" || c.Next <= 0 {
				t.Fatalf("the claim gave %+v, %v", c, err)
			}
			s = put("a", "acme", "ready", 1)
			s.Lease, s.Finish = &c.Work[0].Lease, &ledger.Finish{Dirty: c.Work[0].Dirty}
			commit(t, l, s)
			got, err := l.List(ctx, ledger.Query{Kind: "thing", Scope: map[string]any{"org": "acme", "offering": "dinosaur"},
				Where: ledger.Compare{Column: "name", Op: ledger.ILike, Values: []any{"%NAME-%"}}, Order: []ledger.Order{{Column: "size", Desc: true}}})
			if err != nil || len(got) != 1 || got[0].Phase != "ready" || string(got[0].Spec) != `{"a": 1}` {
				t.Fatalf("the list gave %+v, %v", got, err)
			}
			if n, err := l.Total(ctx, ledger.Query{Kind: "thing", Scope: map[string]any{"org": "acme", "offering": "dinosaur"}}); n != 1 || err != nil {
				t.Fatalf("the total is %d, %v", n, err)
			}
			changes, err := l.Changes(ctx, ledger.ChangeQuery{})
			if err != nil || len(changes) != 2 || changes[1].Object.Fields["size"] != int64(3) {
				t.Fatalf("the log has %+v, %v", changes, err)
			}
			if b, err := l.Backlog(ctx); err != nil || len(b) != 0 {
				t.Fatalf("the backlog is %+v, %v", b, err)
			}
		})
	}
}
