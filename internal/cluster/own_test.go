package cluster_test

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/droverhq/drover/internal/access"
	"github.com/droverhq/drover/internal/cluster"
	"github.com/droverhq/drover/internal/fault"
	"github.com/droverhq/drover/internal/ledger"
	"github.com/droverhq/drover/internal/reconcile"
)

const ownID = "1234abcd1234abcd1234abcd1234abcd"

var (
	arthur = access.Principal{User: "arthur", Org: "acme", OrgAdmin: true}
	alice  = access.Principal{User: "alice", Org: "acme"}
	bob    = access.Principal{User: "bob", Org: "umbrella", OrgAdmin: true}
	mine   = cluster.Own{ID: ownID, Domain: "apps.example.com", Offering: "kafka", Provider: "aws", Region: "east", MultiAZ: true, Nodes: 3}
)

// desk makes accounts of agents, unless it is away.
type desk struct {
	away    bool
	made    map[string]bool
	removed []string
}

func (d *desk) EnsureAgent(_ context.Context, id string) (string, string, error) {
	if d.away {
		return "", "", fault.New(fault.Unavailable, "the identity provider is away")
	}
	if d.made == nil {
		d.made = map[string]bool{}
	}
	d.made[id] = true
	return "client-" + id, "secret-" + id, nil
}

func (d *desk) RemoveAgent(_ context.Context, id string) error {
	if d.away {
		return fault.New(fault.Unavailable, "the identity provider is away")
	}
	delete(d.made, id)
	d.removed = append(d.removed, id)
	return nil
}

func TestOwnClustersAreChecked(t *testing.T) {
	s, l := open(t)
	before := head(t, l)
	for name, c := range map[string]struct {
		reason string
		edit   func(*cluster.Own)
		who    access.Principal
		kind   fault.Kind
		code   string
	}{
		"user":     {"only an admin of the organisation", func(*cluster.Own) {}, alice, fault.Denied, ""},
		"nobody":   {"only within an organisation", func(*cluster.Own) {}, access.Principal{User: "carol", OrgAdmin: true}, fault.Denied, ""},
		"id":       {"ids have a form", func(o *cluster.Own) { o.ID = "edge" }, arthur, fault.Invalid, "cluster-id"},
		"capitals": {"ids are in lower case", func(o *cluster.Own) { o.ID = "1234ABCD1234abcd1234abcd1234abcd" }, arthur, fault.Invalid, "cluster-id"},
		"external": {"so are external ids", func(o *cluster.Own) { o.External = "x" }, arthur, fault.Invalid, "external-id"},
		"domain":   {"a domain is a DNS name", func(o *cluster.Own) { o.Domain = "not a name" }, arthur, fault.Invalid, "dns-name"},
		"no dot":   {"with a dot", func(o *cluster.Own) { o.Domain = "localhost" }, arthur, fault.Invalid, "dns-name"},
		"nodes":    {"it has nodes", func(o *cluster.Own) { o.Nodes = 0 }, arthur, fault.Invalid, "field"},
	} {
		t.Run(name, func(t *testing.T) {
			own := mine
			c.edit(&own)
			if _, err := s.RegisterOwn(as(c.who), own); !fault.Is(err, c.kind) || fault.Reason(err) != c.code {
				t.Errorf("%s: %v (%s)", c.reason, err, fault.Reason(err))
			}
		})
	}
	if head(t, l) != before {
		t.Error("something was written")
	}
}

func TestOwnClusterIsItsTenants(t *testing.T) {
	s, _ := open(t)
	s.Accounts = &desk{}
	o, err := s.RegisterOwn(as(arthur), mine)
	if err != nil {
		t.Fatal(err)
	}
	spec, status, err := cluster.Decode(o)
	if err != nil || o.Org != "acme" || spec.External != ownID || status.Client != "client-"+ownID || o.Phase != cluster.Waiting {
		t.Errorf("%v: %+v, %+v, %+v", err, o, spec, status)
	}
	for _, who := range []access.Principal{arthur, bob} {
		if _, err := s.RegisterOwn(as(who), mine); !fault.Is(err, fault.Conflict) || fault.Reason(err) != "cluster-taken" {
			t.Errorf("%s registers it again: %v", who.User, err)
		}
	}
	other := mine
	other.ID, other.External = "aaaabbbbccccddddaaaabbbbccccdddd", ownID
	if _, err := s.RegisterOwn(as(bob), other); fault.Reason(err) != "cluster-taken" {
		t.Errorf("its external id is taken: %v", err)
	}
	for _, c := range []struct {
		who  access.Principal
		sees bool
	}{{arthur, true}, {alice, true}, {bob, false}, {access.Principal{User: "carol"}, false}} {
		list, err := s.Owned(as(c.who))
		if (len(list) == 1) != c.sees || err != nil {
			t.Errorf("%s lists %v, %v", c.who.User, list, err)
		}
		if _, err := s.OwnedByID(as(c.who), ownID); c.sees != (err == nil) || !c.sees && !fault.Is(err, fault.NotFound) {
			t.Errorf("%s gets it: %v", c.who.User, err)
		}
	}
	if _, err := s.OwnedByID(as(arthur), "edge"); !fault.Is(err, fault.NotFound) {
		t.Errorf("the fleet's cluster: %v", err)
	}
	if client, secret, err := s.Agent(as(arthur), ownID); client != "client-"+ownID || secret != "secret-"+ownID || err != nil {
		t.Errorf("%s, %s, %v", client, secret, err)
	}
	for _, who := range []access.Principal{alice, bob} {
		if _, secret, err := s.Agent(as(who), ownID); secret != "" || err == nil {
			t.Errorf("%s has the secret: %v", who.User, err)
		}
	}
	found, err := s.ByExternal(t.Context(), ownID)
	if err != nil || found.ID != ownID {
		t.Errorf("%v, %v", found.ID, err)
	}
	room, err := s.Room(t.Context(), o)
	if d := cmp.Diff(cluster.Room{Nodes: 3}, room); d != "" || err != nil {
		t.Errorf("%v %s", err, d)
	}
}

// run works on the cluster until there is nothing to do at once, as the loop
// would.
func run(t *testing.T, s *cluster.Service, l ledger.Committer) (reconcile.Result, error) {
	t.Helper()
	return runOn(t, s, l, ownID)
}

func runOn(t *testing.T, s *cluster.Service, l ledger.Committer, id string) (reconcile.Result, error) {
	t.Helper()
	for range 50 {
		r, err := s.Reconcile(context.Background(), reconcile.Task{Ref: ledger.Ref{Kind: "cluster", ID: id}})
		if len(r.Write.Puts) > 0 {
			if _, err := l.Commit(context.Background(), r.Write); err != nil {
				t.Fatal(err)
			}
		}
		if err != nil || !r.Again {
			return r, err
		}
	}
	t.Fatal("it never comes to rest")
	return reconcile.Result{}, nil
}

func TestAnAccountIsMadeLater(t *testing.T) {
	s, l := open(t)
	d := &desk{away: true}
	s.Accounts = d
	if _, err := s.RegisterOwn(as(arthur), mine); err != nil {
		t.Fatal(err)
	}
	if _, err := run(t, s, l); !fault.Is(err, fault.Unavailable) {
		t.Errorf("away: %v", err)
	}
	wakes, _, err := s.Unsettled(t.Context(), "", 100)
	if err != nil || len(wakes) != 2 { // edge has none either
		t.Errorf("%v, %v", wakes, err)
	}
	d.away = false
	if _, err := run(t, s, l); err != nil {
		t.Fatal(err)
	}
	o, _ := s.Get(t.Context(), ownID)
	if _, status, _ := cluster.Decode(o); status.Client != "client-"+ownID {
		t.Errorf("its account is %q", status.Client)
	}
}

// The log says what was done: a cluster that got its account was not deleted.
func TestTheLogSaysWhatWasDone(t *testing.T) {
	s, l := open(t)
	if _, err := s.RegisterOwn(as(arthur), mine); err != nil {
		t.Fatal(err)
	}
	s.Accounts = &desk{}
	if _, err := run(t, s, l); err != nil {
		t.Fatal(err)
	}
	changes, err := l.Changes(t.Context(), ledger.ChangeQuery{Limit: 10})
	if err != nil || len(changes) == 0 {
		t.Fatal(changes, err)
	}
	if last := changes[len(changes)-1]; last.Op != "account" {
		t.Errorf("the log says %q", last.Op)
	}
}

func TestOwnClusterGoes(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s, l := open(t)
		d := &desk{}
		s.Accounts = d
		if _, err := s.RegisterOwn(as(arthur), mine); err != nil {
			t.Fatal(err)
		}
		take := ledger.Count{Name: cluster.CapacityCounter(ownID), Delta: 1, Max: 5}
		count := func(delta int64) {
			take.Delta = delta
			if _, err := l.Commit(t.Context(), ledger.Set{Actor: "test", Cause: ledger.BySchedule("test"), Counts: []ledger.Count{take}}); err != nil {
				t.Fatal(err)
			}
		}
		for _, who := range []access.Principal{alice, bob} {
			if _, err := s.DeleteOwn(as(who), ownID); err == nil {
				t.Errorf("%s deletes it", who.User)
			}
		}
		count(1)
		if _, err := s.DeleteOwn(as(arthur), ownID); !fault.Is(err, fault.Conflict) {
			t.Errorf("with an instance on it: %v", err)
		}
		count(-1)
		o, err := s.DeleteOwn(as(arthur), ownID)
		if err != nil || o.Phase != cluster.Deprovisioning {
			t.Fatal(o.Phase, err)
		}
		if err := s.Report(t.Context(), ownID, cluster.Report{Agent: "a", Ready: true, Capacity: 5}); err != nil {
			t.Error(err)
		}
		if o, _ := s.Get(t.Context(), ownID); o.Phase != cluster.Deprovisioning {
			t.Errorf("its agent has overruled its tenant: %s", o.Phase)
		}
		if r, err := run(t, s, l); err != nil || !r.Next {
			t.Errorf("at once: %+v, %v", r, err)
		}
		time.Sleep(10 * time.Second) // of the bubble
		count(1)                     // one was being placed
		if _, err := run(t, s, l); err != nil {
			t.Fatal(err)
		}
		if o, _ := s.Get(t.Context(), ownID); o.Phase != cluster.Waiting {
			t.Errorf("with an instance on it after all it is %s", o.Phase)
		}
		count(-1)
		if _, err := s.DeleteOwn(as(arthur), ownID); err != nil {
			t.Fatal(err)
		}
		time.Sleep(10 * time.Second)
		d.away = true
		if _, err := run(t, s, l); !fault.Is(err, fault.Unavailable) {
			t.Errorf("the account cannot be removed: %v", err)
		}
		if _, err := s.Get(t.Context(), ownID); err != nil {
			t.Errorf("it is gone before its account: %v", err)
		}
		d.away = false
		if _, err := run(t, s, l); err != nil {
			t.Fatal(err)
		}
		if _, err := s.OwnedByID(as(arthur), ownID); !fault.Is(err, fault.NotFound) || !cmp.Equal(d.removed, []string{ownID}) {
			t.Errorf("afterwards: %v, %v", err, d.removed)
		}
		if _, err := run(t, s, l); err != nil {
			t.Errorf("once more: %v", err)
		}
		if _, err := s.RegisterOwn(as(bob), mine); err != nil {
			t.Errorf("the next one cannot have the id: %v", errors.Unwrap(err))
		}
	})
}
