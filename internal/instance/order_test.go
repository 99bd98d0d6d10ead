package instance_test

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/droverhq/drover/internal/access"
	"github.com/droverhq/drover/internal/cluster"
	"github.com/droverhq/drover/internal/entitlement"
	"github.com/droverhq/drover/internal/fault"
	"github.com/droverhq/drover/internal/instance"
	"github.com/droverhq/drover/internal/ledger"
	"github.com/droverhq/drover/internal/operation"
	"github.com/droverhq/drover/internal/sqlledger"
	"github.com/droverhq/drover/test/postgres"
)

func grants(models ...string) map[string]entitlement.Grant {
	out := map[string]entitlement.Grant{}
	for _, m := range models {
		out["stage/"+m] = entitlement.Grant{Units: 3, Holder: "org/acme"}
	}
	return out
}

// What an order comes to depends on what the caller is granted.
func TestOrders(t *testing.T) {
	lapsed := grants("cash", "taste")
	g := lapsed["stage/cash"]
	g.Expires = start
	lapsed["stage/cash"] = g
	cases := []struct {
		reason string
		grants map[string]entitlement.Grant
		order  instance.Create
		plan   string // type.size
		model  instance.Billing
		fails  string // reason of the fault
	}{
		{"the first model that is granted", grants("cash", "taste"), instance.Create{}, "stage.x1", instance.Billing{Model: "cash"}, ""},
		{"in the offering's order, not the quota's", grants("taste"), instance.Create{}, "stage.x1", instance.Billing{Model: "taste"}, ""},
		{"a grant that has ended grants nothing", lapsed, instance.Create{}, "stage.x1", instance.Billing{Model: "taste"}, ""},
		{"the named size", grants("cash"), instance.Create{Plan: "stage.x2"}, "stage.x2", instance.Billing{Model: "cash"}, ""},
		{"the named model", grants("cash", "taste"), instance.Create{Billing: instance.Billing{Model: "taste"}}, "stage.x1", instance.Billing{Model: "taste"}, ""},
		{"without a grant it is a trial", nil, instance.Create{}, "street.x1", instance.Billing{Model: "cash"}, ""},
		{"no trial for those who have a grant", grants("cash"), instance.Create{Plan: "street.x1"}, "", instance.Billing{}, "plan"},
		{"no plan of a type without a grant", nil, instance.Create{Plan: "stage.x1"}, "", instance.Billing{}, "plan"},
		{"an unknown type", grants("cash"), instance.Create{Plan: "opera.x1"}, "", instance.Billing{}, "type"},
		{"an unknown model", grants("cash"), instance.Create{Billing: instance.Billing{Model: "barter"}}, "", instance.Billing{}, "billing"},
		{"a model that the type is not sold under", nil, instance.Create{Billing: instance.Billing{Model: "taste"}}, "", instance.Billing{}, "billing"},
		{"a marketplace needs an account", grants("market"), instance.Create{Billing: instance.Billing{Model: "market"}}, "", instance.Billing{}, "billing-account"},
		{"and a name, where there are several", grants("market"), instance.Create{Billing: instance.Billing{Model: "market", Account: "123"}}, "", instance.Billing{}, "billing-account"},
		{"of the model", grants("market"), instance.Create{Billing: instance.Billing{Model: "market", Account: "123", Marketplace: "souk"}}, "", instance.Billing{}, "billing-account"},
		{"an account of a marketplace", grants("market"), instance.Create{Billing: instance.Billing{Model: "market", Account: "123", Marketplace: "aws"}},
			"stage.x1", instance.Billing{Model: "market", Account: "123", Marketplace: "aws"}, ""},
		{"an account says that a marketplace is meant", grants("cash", "market"), instance.Create{Billing: instance.Billing{Account: "123", Marketplace: "gcp"}},
			"stage.x1", instance.Billing{Model: "market", Account: "123", Marketplace: "gcp"}, ""},
		{"cash takes no account", grants("cash"), instance.Create{Billing: instance.Billing{Model: "cash", Account: "123"}}, "", instance.Billing{}, "billing-account"},
		{"an account with odd letters", grants("market"), instance.Create{Billing: instance.Billing{Model: "market", Account: "1 2", Marketplace: "aws"}}, "", instance.Billing{}, "billing-account"},
		{"a model for own clusters needs one", grants("home"), instance.Create{Billing: instance.Billing{Model: "home"}}, "", instance.Billing{}, "cluster-id"},
		{"others must not have one", grants("cash"), instance.Create{Billing: instance.Billing{Model: "cash"}, Cluster: "ours"}, "", instance.Billing{}, "cluster-id"},
		{"an own cluster", grants("cash", "home"), instance.Create{Cluster: "ours"}, "stage.x1", instance.Billing{Model: "home"}, ""},
		{"another organisation's cluster", grants("home"), instance.Create{Cluster: "theirs"}, "", instance.Billing{}, "cluster-id"},
		{"a cluster of the fleet", grants("home"), instance.Create{Cluster: "local"}, "", instance.Billing{}, "cluster-id"},
		{"a cluster that is not there", grants("home"), instance.Create{Cluster: "nowhere"}, "", instance.Billing{}, "cluster-id"},
		{"a type that the region does not sell", nil, instance.Create{Region: "far"}, "", instance.Billing{}, "type"},
	}
	for _, c := range cases {
		t.Run(c.reason, func(t *testing.T) {
			w, out, off := newStage(t)
			out.grants = c.grants
			for id, org := range map[string]string{"ours": "acme", "theirs": "evil"} {
				_, err := w.clusters.Register(alice, id, cluster.Spec{Provider: "home", Region: "cellar", Org: org})
				w.must(err)
			}
			c.order.Name = "queen"
			o, err := w.service.Create(alice, off, c.order)
			if c.fails != "" {
				if fault.Reason(err) != c.fails || !fault.Is(err, fault.Invalid) {
					t.Errorf("%v (%s)", err, fault.Reason(err))
				}
				return
			}
			w.must(err)
			in, err := instance.Decode(o)
			w.must(err)
			if got := in.Spec.Type + "." + in.Spec.Size; got != c.plan || in.Spec.Billing != c.model || in.Status.Paid != c.model {
				t.Errorf("got %s, %+v, %+v", got, in.Spec.Billing, in.Status.Paid)
			}
			if (in.Spec.Provider == "home") != (c.order.Cluster != "") {
				t.Errorf("it is at %s", in.Spec.Provider)
			}
		})
	}
}

func TestOrdersThatMayNotBe(t *testing.T) {
	w, out, off := newStage(t)
	out.denied["alice"] = true
	if _, err := w.service.Create(alice, off, instance.Create{Name: "queen"}); fault.Reason(err) != "denied" {
		t.Errorf("a denied user: %v", err)
	}
	out.denied = map[string]bool{}
	out.down["terms"] = fault.New(fault.Denied, "accept them first").Because("terms")
	if _, err := w.service.Create(alice, off, instance.Create{Name: "queen"}); fault.Reason(err) != "terms" {
		t.Errorf("without the terms: %v", err)
	}
	out.down = map[string]error{"quota": away}
	if _, err := w.service.Create(alice, off, instance.Create{Name: "queen"}); !fault.Is(err, fault.Unavailable) || fault.Reason(err) != "quota-check" {
		t.Errorf("without an answer of the source of quota: %v", err)
	}
	out.down, out.grants = map[string]error{}, nil
	off.Spec.Types = off.Spec.Types[:1]
	if _, err := w.service.Create(alice, off, instance.Create{Name: "queen"}); fault.Reason(err) != "quota" || !fault.Is(err, fault.Denied) {
		t.Errorf("without a quota or a trial: %v", err)
	}
	if n := len(w.instances(true)); n > 0 {
		t.Errorf("%d were made", n)
	}
}

func user(name string) context.Context {
	return access.With(context.Background(), access.Principal{User: name, Org: "acme"})
}

// The bounds, one after the other.
func TestBounds(t *testing.T) {
	cases := []struct {
		reason string
		grant  entitlement.Grant
		plan   string
		users  int // each orders once
		passes int
		fails  string
		says   string
	}{
		{"units of a quota", entitlement.Grant{Units: 3, Holder: "org/acme"}, "", 5, 3, "quota", "your quota of 3 units"},
		{"larger sizes take more of them", entitlement.Grant{Units: 3, Holder: "org/acme"}, "stage.x2", 3, 1, "quota", "your quota"},
		{"no bound", entitlement.Grant{Units: -1, Holder: "org/acme"}, "", 9, 9, "", ""},
		{"instances in all", entitlement.Grant{Units: -1, Holder: "org/acme", MaxInstances: 2}, "", 4, 2, "limit", "the 2 bands"},
		{"units of a region, of users who try", entitlement.Grant{}, "", 5, 3, "capacity", "region local of local cannot accept"},
	}
	for _, c := range cases {
		t.Run(c.reason, func(t *testing.T) {
			w, out, off := newStage(t)
			out.grants = map[string]entitlement.Grant{"stage/cash": c.grant}
			passed := 0
			for n := range c.users {
				_, err := w.service.Create(user(fmt.Sprintf("u%d", n)), off, instance.Create{Name: fmt.Sprintf("b-%d", n), Plan: c.plan})
				if err == nil {
					passed++
					continue
				}
				if !fault.Is(err, fault.Exhausted) || fault.Reason(err) != c.fails || !strings.Contains(err.Error(), c.says) {
					t.Fatalf("%v (%s)", err, fault.Reason(err))
				}
			}
			if passed != c.passes {
				t.Errorf("%d passed, want %d", passed, c.passes)
			}
		})
	}
	t.Run("one trial for each", func(t *testing.T) {
		w, out, off := newStage(t)
		out.grants = nil
		first, err := w.service.Create(alice, off, instance.Create{Name: "a"})
		w.must(err)
		_, err = w.service.Create(alice, off, instance.Create{Name: "b"})
		if fault.Reason(err) != "capacity" || !strings.Contains(err.Error(), `only 1 band of instance type "street"`) {
			t.Errorf("the second: %v", err)
		}
		_, err = w.service.Delete(alice, "band", first.ID)
		w.must(err)
		w.rounds()
		out.nothingLeft(w)
		if _, err = w.service.Create(alice, off, instance.Create{Name: "b"}); err != nil {
			t.Errorf("after the first has gone: %v", err)
		}
	})
}

// However many order at once, on however many replicas, exactly as many as are
// allowed are served.
func TestConcurrentOrdersMeetTheirBounds(t *testing.T) {
	const orders, allowed = 200, 37
	urls := map[string]func(t *testing.T) string{
		"sqlite":   func(t *testing.T) string { return filepath.Join(t.TempDir(), "l.db") },
		"postgres": func(t *testing.T) string { return postgres.Database(t) },
	}
	for name, url := range urls {
		t.Run(name, func(t *testing.T) {
			off, out := band(t), newOutside()
			out.grants["stage/cash"] = entitlement.Grant{Units: allowed, Holder: "org/acme"}
			address := url(t)
			var replicas []*instance.Service
			var store ledger.Reader
			for i := range 3 {
				if i > 0 && name == "sqlite" { // one process has it; three services share it
					replicas = append(replicas, instance.NewService(replicas[0].Config))
					continue
				}
				l, err := sqlledger.Open(t.Context(), sqlledger.Config{URL: address, Kinds: []ledger.Kind{instance.Kind, cluster.Kind, operation.Kind}})
				if err != nil {
					t.Fatal(err)
				}
				t.Cleanup(func() { l.Close() })
				store = l
				replicas = append(replicas, instance.NewService(instance.Config{Store: l, Offerings: offerings{"band": off}, Quota: quotas{out}, Now: time.Now}))
			}
			var group sync.WaitGroup
			errs := make([]error, orders)
			for n := range orders {
				group.Go(func() {
					_, errs[n] = replicas[n%3].Create(alice, off, instance.Create{Name: fmt.Sprintf("b-%d", n)})
				})
			}
			group.Wait()
			made := 0
			for _, err := range errs {
				switch {
				case err == nil:
					made++
				case fault.Reason(err) != "quota":
					t.Fatal(err)
				}
			}
			if made != allowed {
				t.Errorf("%d of %d orders were taken, want %d: %v", made, orders, allowed, errors.Join(errs[:3]...))
			}
			if n, err := store.Counter(t.Context(), "quota/band/org/acme/stage/cash"); n != allowed || err != nil {
				t.Errorf("the counter says %d (%v)", n, err)
			}
		})
	}
}

// Names with slashes do not share what is counted per owner.
func TestTrialsOfOddNames(t *testing.T) {
	w, out, off := newStage(t)
	out.grants = nil
	for _, who := range []access.Principal{{Org: "a/b", User: "c"}, {Org: "a", User: "b/c"}} {
		if _, err := w.service.Create(access.With(context.Background(), who), off, instance.Create{Name: "queen"}); err != nil {
			t.Errorf("%s of %s has no trial of its own: %v", who.User, who.Org, err)
		}
	}
}
