package instance_test

import (
	"context"
	"strings"
	"testing"
	"time"

	"github.com/droverhq/drover/internal/access"
	"github.com/droverhq/drover/internal/entitlement"
	"github.com/droverhq/drover/internal/fault"
	"github.com/droverhq/drover/internal/instance"
)

var taste = instance.Create{Name: "queen", Billing: instance.Billing{Model: "taste"}}

func (w *world) counter(name string) int64 {
	n, err := w.ledger.Counter(context.Background(), name)
	w.must(err)
	return n
}

// A promotion moves the quota and touches nothing that runs.
func TestPromotion(t *testing.T) {
	w, out, _ := newStage(t)
	w.order("band", taste)
	w.rounds()
	before := w.one()
	item, _ := instance.DesiredItem(before.Object)
	_, err := w.service.Promote(alice, "band", "queen", instance.Billing{Model: "market", Account: "123", Marketplace: "aws"})
	w.must(err)
	if in := w.one(); in.Status.Promotion != instance.Promoting || in.Status.Paid.Model != "taste" {
		t.Errorf("at once: %q, %+v", in.Status.Promotion, in.Status.Paid)
	}
	w.rounds()
	in := w.one()
	if in.Phase != instance.Ready || in.Status.Promotion != "" || in.Status.Paid != (instance.Billing{Model: "market", Account: "123", Marketplace: "aws"}) || in.Status.Operation != "" {
		t.Errorf("%s, %q, %+v, operation %q", in.Phase, in.Status.Promotion, in.Status.Paid, in.Status.Operation)
	}
	if a, b := w.counter("quota/band/org/acme/stage/taste"), w.counter("quota/band/org/acme/stage/market"); a != 0 || b != 1 {
		t.Errorf("counted %d under the old model, %d under the new one", a, b)
	}
	if n := w.counter("instances/band/org/acme"); n != 1 {
		t.Errorf("%d instances are counted", n)
	}
	if len(out.tickets) != 1 || out.tickets[in.ID] != 0 {
		t.Errorf("tickets %v, want only the new one", out.tickets)
	}
	if now, _ := instance.DesiredItem(in.Object); now.Generation != item.Generation || now.Token != item.Token || string(now.Body) != string(item.Body) {
		t.Errorf("the data plane is told of it: generation %d, was %d", now.Generation, item.Generation)
	}
	if in.Generation == before.Generation {
		t.Error("the wish was not written")
	}
	_, err = w.service.Delete(alice, "band", "queen")
	w.must(err)
	w.rounds()
	out.nothingLeft(w)
	if n := w.counter("quota/band/org/acme/stage/market"); n != 0 {
		t.Errorf("%d units are held by nobody", n)
	}
}

func TestPromotionsThatFail(t *testing.T) {
	cases := []struct {
		reason string
		grant  entitlement.Grant
		down   error
		want   string // the promotion
		says   string
	}{
		{"without a grant", entitlement.Grant{}, nil, instance.PromotionFailed, "There is no quota"},
		{"with a grant that is used up", entitlement.Grant{Units: 1, Holder: "org/acme"}, nil, instance.PromotionFailed, "used up"},
		{"refused by the source", entitlement.Grant{Units: 9, Holder: "org/acme"}, fault.New(fault.Denied, "no"), instance.PromotionFailed, "refused"},
		{"a source that is down is waited for", entitlement.Grant{Units: 9, Holder: "org/acme"}, away, instance.Promoting, ""},
	}
	for _, c := range cases {
		t.Run(c.reason, func(t *testing.T) {
			w, out, off := newStage(t)
			w.order("band", taste)
			_, err := w.service.Create(alice, off, instance.Create{Name: "other", Billing: instance.Billing{Model: "cash"}})
			w.must(err)
			w.rounds()
			find := func() instance.Instance {
				o, err := w.service.Get(alice, "band", "queen")
				w.must(err)
				in, err := instance.Decode(o)
				w.must(err)
				return in
			}
			before := find()
			out.grants["stage/cash"], out.down["quota"] = c.grant, c.down
			if fault.Is(c.down, fault.Denied) {
				delete(out.down, "quota")
				out.down["reserve"] = c.down
			}
			_, err = w.service.Promote(alice, "band", "queen", instance.Billing{Model: "cash"})
			w.must(err)
			w.rounds()
			in := find()
			if in.Status.Promotion != c.want || !strings.Contains(in.Status.PromotionDetails, c.says) || in.Status.Paid.Model != "taste" || in.Phase != instance.Ready {
				t.Errorf("%s: %q %q, paid %s", in.Phase, in.Status.Promotion, in.Status.PromotionDetails, in.Status.Paid.Model)
			}
			if in.Status.Desired == nil || string(in.Status.Desired) != string(before.Status.Desired) {
				t.Error("the document changed")
			}
			if c.want == instance.Promoting {
				if !strings.HasPrefix(in.Status.Message, "waiting for the source of quota") {
					t.Errorf("it says %q", in.Status.Message)
				}
				if _, err := w.service.Promote(alice, "band", "queen", instance.Billing{Model: "cash"}); fault.Reason(err) != "promotion" || !fault.Is(err, fault.Conflict) {
					t.Errorf("a second one meanwhile: %v", err)
				}
			} else if len(out.tickets) != 2 || in.Status.Operation != "" {
				t.Errorf("tickets %v, operation %q", out.tickets, in.Status.Operation)
			}
			out.down, out.grants["stage/cash"] = map[string]error{}, entitlement.Grant{Units: 9, Holder: "org/acme"}
			if c.want == instance.PromotionFailed {
				_, err = w.service.Promote(alice, "band", "queen", instance.Billing{Model: "cash"})
				w.must(err)
			}
			w.pass(time.Minute)
			if in := find(); in.Status.Promotion != "" || in.Status.Paid.Model != "cash" || in.Status.Message != "" {
				t.Errorf("in the end %q, paid %s, %q", in.Status.Promotion, in.Status.Paid.Model, in.Status.Message)
			}
		})
	}
}

func TestWhoMayPromoteWhat(t *testing.T) {
	w, _, _ := newStage(t)
	w.order("band", taste)
	cash := instance.Billing{Model: "cash"}
	as := func(p access.Principal) context.Context { return access.With(context.Background(), p) }
	if _, err := w.service.Promote(alice, "band", "queen", cash); !fault.Is(err, fault.Conflict) || fault.Reason(err) != "promotion" {
		t.Errorf("before it is ready: %v", err)
	}
	w.rounds()
	for _, c := range []struct {
		reason string
		who    context.Context
		to     instance.Billing
		kind   fault.Kind
		fails  string
	}{
		{"a colleague", as(access.Principal{User: "bob", Org: "acme"}), cash, fault.Denied, ""},
		{"another organisation does not even learn of it", as(access.Principal{User: "alice", Org: "evil", OrgAdmin: true}), cash, fault.NotFound, ""},
		{"to a model that it cannot go to", alice, instance.Billing{Model: "home"}, fault.Invalid, "promotion"},
		{"to the model that it has", alice, instance.Billing{Model: "taste"}, fault.Invalid, "promotion"},
		{"to a marketplace without an account", alice, instance.Billing{Model: "market"}, fault.Invalid, "billing-account"},
	} {
		if _, err := w.service.Promote(c.who, "band", w.one().ID, c.to); !fault.Is(err, c.kind) || fault.Reason(err) != c.fails {
			t.Errorf("%s: %v (%s)", c.reason, err, fault.Reason(err))
		}
	}
	if _, err := w.service.Promote(as(access.Principal{User: "boss", Org: "acme", OrgAdmin: true}), "band", "queen", cash); err != nil {
		t.Errorf("the organisation's admin: %v", err)
	}
	w.rounds()
	if _, err := w.service.Promote(alice, "band", "queen", taste.Billing); fault.Reason(err) != "promotion" || !fault.Is(err, fault.Invalid) {
		t.Errorf("back again: %v", err)
	}
}
