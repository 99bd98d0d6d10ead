package instance_test

import (
	"context"
	"errors"
	"fmt"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/droverhq/drover/internal/cluster"
	"github.com/droverhq/drover/internal/entitlement"
	"github.com/droverhq/drover/internal/fault"
	"github.com/droverhq/drover/internal/instance"
	"github.com/droverhq/drover/internal/offering"
)

// resell replaces the offering with one whose file reads otherwise.
func (w *world) resell(oldnew ...string) *offering.Offering {
	source, err := os.ReadFile("testdata/band.yaml")
	w.must(err)
	text := strings.NewReplacer(oldnew...).Replace(string(source))
	if text == string(source) {
		w.t.Fatal("the file reads the same")
	}
	off, err := offering.Parse("band.yaml", []byte(text))
	w.must(err)
	w.registry["band"] = off
	return off
}

const (
	sizeX2 = "        - {name: x2, capacity: 2, quota: 2}\n"
	street = "    - name: street\n"
	arena  = "    - name: arena\n      quota: granted\n      billing: [cash, taste]\n      sizes:\n        - {name: x1, capacity: 1, quota: 1}\n"
)

// Of several types that are granted, the one that is asked for is given.
func TestTypesThatAreGranted(t *testing.T) {
	w, out, _ := newStage(t)
	w.resell(street, arena+street)
	out.grants["arena/cash"] = entitlement.Grant{Units: 10, Holder: "org/acme"}
	for _, c := range []struct{ plan, want string }{{"", "stage"}, {"stage.x2", "stage"}, {"arena.x1", "arena"}} {
		o, err := w.service.Create(alice, w.registry["band"], instance.Create{Name: "b" + strings.ReplaceAll(c.plan, ".", "-"), Plan: c.plan})
		if err != nil || o.Fields["instance_type"] != c.want {
			t.Errorf("plan %q: type %v, %v; want %s", c.plan, o.Fields["instance_type"], err, c.want)
		}
	}
	delete(out.grants, "arena/cash")
	if _, err := w.service.Create(alice, w.registry["band"], instance.Create{Name: "none", Plan: "arena.x1"}); fault.Reason(err) != "plan" {
		t.Errorf("a type that is not granted: %v", err)
	}
}

// What is ordered and not placed yet when its size is taken out of the file is
// not put anywhere uncounted; it goes on when the size is back.
func TestASizeThatIsSoldNoLonger(t *testing.T) {
	w, _, _ := newStage(t)
	w.order("band", instance.Create{Name: "queen", Plan: "stage.x2"})
	w.resell(sizeX2, "")
	w.rounds()
	if in := w.one(); in.Phase != instance.Accepted || !strings.Contains(in.Status.Message, "stage.x2") {
		t.Errorf("%s on %q with %d units: %q", in.Phase, in.Status.Cluster, in.Status.Units, in.Status.Message)
	}
	w.registry["band"] = band(t)
	w.pass(2 * time.Minute)
	if in := w.one(); in.Phase != instance.Ready || w.counter(cluster.CapacityCounter("local")) != 2 {
		t.Errorf("%s, %d units in use", in.Phase, w.counter(cluster.CapacityCounter("local")))
	}
}

// A promotion whose size is gone from the file ends, and says why.
func TestAPromotionOfASizeThatIsSoldNoLonger(t *testing.T) {
	w, _, _ := newStage(t)
	in := w.order("band", instance.Create{Name: "queen", Plan: "stage.x2", Billing: instance.Billing{Model: "taste"}})
	w.rounds()
	_, err := w.service.Promote(alice, "band", in.ID, instance.Billing{Model: "cash"})
	w.must(err)
	w.resell(sizeX2, "")
	w.rounds()
	if s := w.one().Status; s.Promotion != instance.PromotionFailed || !strings.Contains(s.PromotionDetails, "stage.x2") || s.Operation != "" {
		t.Errorf("%q: %q, %q", s.Promotion, s.PromotionDetails, s.Message)
	}
}

// Agents are told of what runs even if the file has its identity no longer, or
// under another name: the document was made before.
func TestAnIdentityThatIsInTheFileNoLonger(t *testing.T) {
	for reason, change := range map[string][]string{
		"another name": {"{name: roadie}", "{name: manager}", `secret("roadie")`, `secret("manager")`},
		"gone":         {"  identity: {name: roadie}\n", "", "      secret: ${secret(\"roadie\")}\n", ""},
	} {
		t.Run(reason, func(t *testing.T) {
			w, out, _ := newStage(t)
			w.order("band", instance.Create{Name: "queen"})
			w.rounds()
			in := w.one()
			w.resell(change...)
			body, err := w.service.Reveal(context.Background(), in.Object, in.Status.Desired)
			if err != nil || !strings.Contains(string(body), out.clients[in.Status.Client].Secret) {
				t.Errorf("without its secret: %v", err)
			}
			_, err = w.service.Delete(alice, "band", in.ID)
			w.must(err)
			w.rounds()
			out.nothingLeft(w)
		})
	}
}

// However often an agent tells of other hosts, the instance stays small enough
// to be written.
func TestRoutesOfManyReports(t *testing.T) {
	w, _, _ := newStage(t)
	w.order("band", instance.Create{Name: "queen"})
	w.rounds()
	in := w.one()
	for round := range 4 {
		var routes []instance.RouteReport
		for i := range 30 {
			routes = append(routes, instance.RouteReport{Prefix: fmt.Sprintf("p-%d-%d", round, i), Router: "r.example.org"})
		}
		_, err := w.service.Report(context.Background(), "local", []instance.Observation{{
			ID: in.ID, Generation: in.Status.Issued, State: "ready", Routes: routes,
		}})
		w.must(err)
	}
	if n := len(w.one().Status.Routes); n > 64 {
		t.Errorf("%d routes", n)
	}
	for reason, seen := range map[string]instance.Observation{
		"a version":  {Versions: map[string]string{"band": strings.Repeat("9", 5000)}},
		"components": {Versions: many(500)},
	} {
		seen.ID, seen.Generation, seen.State = in.ID, in.Status.Issued, "ready"
		if refused, err := w.service.Report(context.Background(), "local", []instance.Observation{seen}); err != nil || len(refused) != 1 {
			t.Errorf("%s: refused %v, %v", reason, refused, err)
		}
	}
}

// Users are sent to no address that is none.
func TestAddressesOfReports(t *testing.T) {
	w, _, _ := newStage(t)
	w.order("band", instance.Create{Name: "queen"})
	w.rounds()
	in := w.one()
	for _, bad := range []string{"https://" + strings.Repeat("x", 5000), "javascript:alert(1)", "https://a b"} {
		w.send([]instance.Observation{{ID: in.ID, Generation: in.Status.Issued, State: "ready", AdminURL: bad}})
		if got := w.one().Status.Observed; got.AdminURL != "" || got.State != "ready" {
			t.Errorf("%.32s: kept %.32q, %s", bad, got.AdminURL, got.State)
		}
	}
}

func many(n int) map[string]string {
	out := map[string]string{}
	for i := range n {
		out[fmt.Sprint("component-", i)] = "1"
	}
	return out
}

// An instance that is placed anew does not point at the cluster that rejected it.
func TestReplacedInstancesPointElsewhere(t *testing.T) {
	w, out, _ := newStage(t)
	_, err := w.clusters.Register(context.Background(), "other", cluster.Spec{Provider: "local", Region: "local"})
	w.must(err)
	w.must(w.clusters.Report(context.Background(), "other", cluster.Report{Agent: "b", Number: 1, Ready: true, Capacity: 10}))
	w.order("band", instance.Create{Name: "queen"})
	w.work()
	in := w.one()
	say := func(at, state string, routes ...instance.RouteReport) {
		t.Helper()
		refused, err := w.service.Report(context.Background(), at, []instance.Observation{{ID: in.ID, Generation: w.one().Status.Issued, State: state, Routes: routes}})
		if err != nil || len(refused) > 0 {
			t.Fatalf("%s: %v, %v", at, refused, err)
		}
		w.work()
	}
	host := in.Status.Routes[0].Host
	say("local", "installing", instance.RouteReport{Name: "web", Router: "old.example.org"}, instance.RouteReport{Prefix: "api", Router: "old.example.org"})
	if len(out.records) != 2 {
		t.Fatalf("records %v", out.records)
	}
	say("local", "rejected")
	if in = w.one(); in.Status.Cluster != "other" {
		t.Fatalf("it is on %q", in.Status.Cluster)
	}
	say("other", "ready", instance.RouteReport{Name: "web", Router: "new.example.org"})
	if in = w.one(); in.Phase != instance.Ready || len(out.records) != 1 || out.records[host].Target != "new.example.org" {
		t.Errorf("%s, records %v", in.Phase, out.records)
	}
	_, err = w.service.Delete(alice, "band", in.ID)
	w.must(err)
	w.work()
	say("other", "deleted")
	out.nothingLeft(w)
}

// Whoever is denied no more and orders at once keeps it, although a replica may
// not have heard of that yet.
func TestADenialThatIsOver(t *testing.T) {
	w, out, _ := newStage(t)
	w.order("band", instance.Create{Name: "queen"})
	out.denied["alice"] = true // as this replica still thinks
	w.rounds()
	if in := w.one(); in.Phase != instance.Ready {
		t.Fatalf("it is %s", in.Phase)
	}
	delete(out.denied, "alice")
	w.pass(6 * time.Second)
	if in := w.one(); in.Phase != instance.Ready {
		t.Fatalf("it is %s", in.Phase)
	}
	w.order("band", instance.Create{Name: "wings"})
	out.denied["alice"] = true // this time it is true
	w.rounds()
	w.pass(6 * time.Second)
	for _, in := range w.instances(false) {
		if in.Name == "wings" {
			t.Errorf("it is %s although its owner was denied", in.Phase)
		}
	}
}

// A region with one cluster is not lost to what that cluster rejected once.
func TestARejectionIsNotForEver(t *testing.T) {
	w, out, _ := newStage(t)
	w.order("band", instance.Create{Name: "queen"})
	w.work()
	w.clock = w.clock.Add(2 * time.Hour) // it took its time to say so
	var in instance.Instance
	for range 3 { // the list of those that have does not grow for ever either
		in = w.one()
		w.send([]instance.Observation{{ID: in.ID, Generation: in.Status.Issued, State: "rejected"}})
		w.work()
		if in = w.one(); in.Phase != instance.Provisioning || in.Status.Cluster != "" || !strings.Contains(in.Status.Message, "waiting for room") {
			t.Fatalf("%s on %q: %q", in.Phase, in.Status.Cluster, in.Status.Message+in.Status.Reason)
		}
		if len(in.Status.Rejected) != 1 || w.counter(cluster.CapacityCounter("local")) != 0 {
			t.Errorf("rejected by %q, %d units in use", in.Status.Rejected, w.counter(cluster.CapacityCounter("local")))
		}
		w.clock = w.clock.Add(6 * time.Minute)
		w.work()
	}
	w.rounds()
	if in = w.one(); in.Phase != instance.Ready || w.counter(cluster.CapacityCounter("local")) != 1 {
		t.Errorf("%s: %q", in.Phase, in.Status.Message+in.Status.Reason)
	}
	_, err := w.service.Delete(alice, "band", in.ID)
	w.must(err)
	w.rounds()
	out.nothingLeft(w)
}

// A cluster that rejects each time it is asked is not asked for ever.
func TestRejectionsEnd(t *testing.T) {
	w, out, _ := newStage(t)
	w.order("band", instance.Create{Name: "queen"})
	w.work()
	in, asked := w.one(), 0
	for ; in.Phase == instance.Provisioning && asked < 100; in = w.one() {
		if in.Status.Cluster != "" {
			asked++
			w.send([]instance.Observation{{ID: in.ID, Generation: in.Status.Issued, State: "rejected"}})
		} else {
			w.clock = w.clock.Add(time.Minute)
		}
		w.work()
	}
	if in.Phase != instance.Failed || asked < 5 || !strings.Contains(in.Status.Reason, "had no room for an hour") {
		t.Errorf("%s after it was asked %d times: %q", in.Phase, asked, in.Status.Reason)
	}
	_, err := w.service.Delete(alice, "band", in.ID)
	w.must(err)
	w.rounds()
	out.nothingLeft(w)
}

// A source of quota that breaks has refused nothing.
func TestAPromotionMeetsABrokenSource(t *testing.T) {
	w, out, _ := newStage(t)
	in := w.order("band", taste)
	w.rounds()
	out.down["reserve"] = errors.New("unexpected end of JSON input")
	_, err := w.service.Promote(alice, "band", in.ID, instance.Billing{Model: "cash"})
	w.must(err)
	w.rounds()
	if s := w.one().Status; s.Promotion != instance.Promoting || !strings.Contains(s.Message, "source of quota") {
		t.Errorf("%q: %q, %q", s.Promotion, s.PromotionDetails, s.Message)
	}
	delete(out.down, "reserve")
	w.pass(time.Minute)
	if s := w.one().Status; s.Promotion != "" || s.Paid.Model != "cash" {
		t.Errorf("%q: %q, %q", s.Promotion, s.PromotionDetails, s.Message)
	}
}

// list is another source of quota, which holds nothing.
type list struct{ entitlement.Source }

func (list) Name() string { return "list" }

func (list) Reserve(context.Context, entitlement.Who, entitlement.Product, string, int64) (string, error) {
	return "", nil
}

func (list) Release(context.Context, string, string) error { return nil }

// A reservation is given back to whoever has it, not to whoever is asked now.
func TestAnotherSourceOfQuota(t *testing.T) {
	w, out, _ := newStage(t)
	in := w.order("band", instance.Create{Name: "queen"})
	w.rounds()
	w.order("band", instance.Create{Name: "wings"}) // not reserved yet
	w.must(w.ledger.Close())
	w.ports = func(c *instance.Config) {
		out.ports(c)
		c.Quota = list{c.Quota}
	}
	w.open()
	w.rounds()
	_, err := w.service.Delete(alice, "band", in.ID)
	w.must(err)
	w.rounds()
	if n := len(w.instances(false)); n != 2 {
		t.Errorf("%d are left, want both", n)
	}
	for _, in := range w.instances(false) {
		switch {
		case in.Name == "queen" && !strings.Contains(in.Status.Message, "source of quota"):
			t.Errorf("%s: %q, %v left there", in.Phase, in.Status.Message, out.tickets)
		case in.Name == "wings" && in.Status.Source != "list":
			t.Errorf("its quota is said to be of %q", in.Status.Source)
		}
	}
	w.must(w.ledger.Close())
	w.ports = out.ports
	w.open()
	w.pass(time.Minute)
	if in := w.one(); in.Name != "wings" || len(out.tickets) != 0 {
		t.Errorf("%s is left, %v", in.Name, out.tickets)
	}
}

// Nobody loses an instance by handing it to somebody who is denied.
func TestAHandoverToTheDenied(t *testing.T) {
	w, out, _ := newStage(t)
	in := w.order("band", instance.Create{Name: "queen"})
	w.rounds()
	out.denied["mallory"] = true
	if _, err := w.service.Patch(alice, "band", in.ID, body(`{"owner": "mallory"}`)); !fault.Is(err, fault.Invalid) {
		t.Errorf("handed over: %v", err)
	}
}

// A sealed secret that is lost is replaced, everywhere.
func TestASecretThatIsLost(t *testing.T) {
	w, out, _ := newStage(t)
	w.order("band", instance.Create{Name: "queen"})
	w.rounds()
	in := w.one()
	before := out.clients[in.Status.Client]
	w.must(w.ledger.Shred(context.Background(), in.Status.Secret))
	delete(out.kept, in.Status.Secret)
	w.pass(13 * time.Minute)
	after := w.one()
	now := out.clients[after.Status.Client]
	if len(out.clients) != 1 || now.ID != before.ID || now.Secret == before.Secret || after.Status.Message != "" || len(out.kept) != 1 {
		t.Fatalf("%d accounts, the same secret: %v, %d secrets: %q", len(out.clients), now.Secret == before.Secret, len(out.kept), after.Status.Message)
	}
	doc, err := w.service.Reveal(context.Background(), after.Object, after.Status.Desired)
	if err != nil || !strings.Contains(string(doc), now.Secret) {
		t.Errorf("the agent does not get it: %v", err)
	}
	_, err = w.service.Delete(alice, "band", in.ID)
	w.must(err)
	w.rounds()
	out.nothingLeft(w)
}

// A deletion says whom it waits for.
func TestADeletionWaitsForTheDataPlane(t *testing.T) {
	w, _, _ := newStage(t)
	in := w.order("band", instance.Create{Name: "queen"})
	w.rounds()
	_, err := w.service.Delete(alice, "band", in.ID)
	w.must(err)
	w.work()
	if in = w.one(); in.Phase != instance.Deprovision || !strings.Contains(in.Status.Message, "data plane") {
		t.Errorf("%s: %q", in.Phase, in.Status.Message)
	}
	version := in.Version
	w.pass(time.Hour)
	w.rounds()
	if left := w.instances(false); len(left) > 0 {
		t.Errorf("it stays: %q, version %d, was %d", left[0].Status.Message, left[0].Version, version)
	}
}
