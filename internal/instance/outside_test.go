package instance_test

import (
	"context"
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"
	"time"

	"github.com/droverhq/drover/internal/dns"
	"github.com/droverhq/drover/internal/fault"
	"github.com/droverhq/drover/internal/instance"
)

func (w *world) order(off string, req instance.Create) instance.Instance {
	o, err := w.service.Create(alice, w.registry[off], req)
	w.must(err)
	in, err := instance.Decode(o)
	w.must(err)
	return in
}

// pass lets time pass and everything due happen.
func (w *world) pass(d time.Duration) {
	w.clock = w.clock.Add(d)
	w.rounds()
}

func TestAnInstanceHasEverythingAndLeavesNothing(t *testing.T) {
	w, out, _ := newStage(t)
	made := w.order("band", instance.Create{Name: "queen"})
	w.rounds()
	in := w.one()
	if in.Phase != instance.Ready || in.Status.Message != "" || in.Status.Operation != "" {
		t.Fatalf("%s, %q", in.Phase, in.Status.Message)
	}
	c, ok := out.clients[in.Status.Client]
	if !ok || c.Secret == "" || !strings.HasPrefix(c.ID, "srvc-acct-") || c.Claims["rh-org-id"] != "acme" {
		t.Errorf("its account is %q, %v", c.ID, ok)
	}
	host := in.Status.Routes[0].Host
	if len(out.records) != 2 || out.records[host].Target != "router.example.org" || out.records["api-"+host].Owner != "instance/"+in.ID {
		t.Errorf("records %v", out.records)
	}
	if out.tickets[in.ID] != 1 || in.Status.Ticket != "n-"+in.ID || in.Status.Source != "test-quota" {
		t.Errorf("tickets %v, status %+v", out.tickets, in.Status)
	}
	if v := in.Status.Versions; v["band"] != "1.2.0" || v["engine"] != "e-0.10.0" {
		t.Errorf("versions %v, want the newest on offer", v)
	}
	if raw := string(in.Object.Status) + string(in.Object.View); strings.Contains(raw, c.Secret) {
		t.Error("the secret is written down in clear")
	}
	body, err := w.service.Reveal(context.Background(), in.Object, in.Status.Desired)
	w.must(err)
	var doc struct {
		Account struct{ ID, Secret, Issuer string }
		TLS     struct{ Crt, Key string }
	}
	w.must(json.Unmarshal(body, &doc))
	if doc.Account.Secret != c.Secret || doc.Account.ID != c.ID || doc.Account.Issuer != "https://sso.example.org" || doc.TLS.Key != "key of "+host || doc.TLS.Crt != "cert of "+host {
		t.Errorf("the agent gets %+v", doc)
	}
	_, err = w.service.Delete(alice, "band", made.ID)
	w.must(err)
	w.rounds()
	if n := len(w.instances(false)); n > 0 {
		t.Fatalf("%d are left", n)
	}
	if out.revoked == 0 {
		t.Error("its certificates were not ended")
	}
	out.nothingLeft(w)
}

// What somebody removes or changes by hand is there again after the next look.
func TestWhatIsChangedByHandComesBack(t *testing.T) {
	cases := []struct {
		reason string
		damage func(out *outside, in instance.Instance)
	}{
		{"the account is deleted", func(out *outside, in instance.Instance) { delete(out.clients, in.Status.Client) }},
		{"the account has another secret", func(out *outside, in instance.Instance) {
			c := out.clients[in.Status.Client]
			c.Secret = "guessed"
			out.clients[c.ID] = c
		}},
		{"the account is another organisation's", func(out *outside, in instance.Instance) {
			c := out.clients[in.Status.Client]
			c.Claims = map[string]string{"rh-org-id": "evil"}
			out.clients[c.ID] = c
		}},
		{"the records are deleted", func(out *outside, _ instance.Instance) { clear(out.records) }},
		{"a record points elsewhere", func(out *outside, in instance.Instance) {
			out.records[in.Status.Routes[0].Host] = dns.Record{Host: in.Status.Routes[0].Host, Target: "evil.example.org"}
		}},
	}
	for _, c := range cases {
		t.Run(c.reason, func(t *testing.T) {
			w, out, _ := newStage(t)
			w.order("band", instance.Create{Name: "queen"})
			w.rounds()
			in := w.one()
			clients, records := fmt.Sprint(out.clients), fmt.Sprint(out.records)
			c.damage(out, in)
			if fmt.Sprint(out.clients) == clients && fmt.Sprint(out.records) == records {
				t.Fatal("nothing was damaged")
			}
			w.pass(13 * time.Minute)
			if fmt.Sprint(out.clients) != clients || fmt.Sprint(out.records) != records {
				t.Errorf("got %v\n%v\nwant %v\n%v", out.clients, out.records, clients, records)
			}
			if after := w.one(); after.Version != in.Version {
				t.Errorf("it was written although nothing in it changed: version %d, want %d", after.Version, in.Version)
			}
		})
	}
}

// Looking costs the ledger nothing, and only one look falls into a period.
func TestAnIdleFleetWritesNothing(t *testing.T) {
	w, out, _ := newStage(t)
	for i := range 5 {
		w.order("band", instance.Create{Name: fmt.Sprintf("b-%d", i)})
	}
	w.rounds()
	before, err := w.ledger.Head(context.Background())
	w.must(err)
	calls := out.calls["sso"]
	for range 10 {
		w.pass(13 * time.Minute)
	}
	after, err := w.ledger.Head(context.Background())
	w.must(err)
	if after.Seq != before.Seq {
		t.Errorf("%d changes in two hours of idleness", after.Seq-before.Seq)
	}
	if looks := out.calls["sso"] - calls; looks < 5*8 || looks > 5*10 {
		t.Errorf("%d looks at the accounts of five, want about fifty", looks)
	}
	calls = out.calls["sso"]
	in := w.instances(false)[0]
	w.send([]instance.Observation{{ID: in.ID, Generation: in.Status.Issued, State: "ready", Message: "news"}})
	w.rounds()
	if out.calls["sso"] != calls {
		t.Error("a report made it look again")
	}
}

// A certificate that goes bad while the instance runs leaves it running, and it
// says so until the certificate is mended.
func TestACertificateThatGoesBad(t *testing.T) {
	w, out, _ := newStage(t)
	w.order("band", instance.Create{Name: "queen"})
	w.rounds()
	out.down["certificate"] = fault.New(fault.Unavailable, "it cannot be used")
	w.pass(20 * time.Minute)
	in := w.one()
	if in.Phase != instance.Ready || in.Status.Message != "waiting for the source of certificates: no answer in time" {
		t.Errorf("%s: %q", in.Phase, in.Status.Message)
	}
	body, err := w.service.Reveal(context.Background(), in.Object, in.Status.Desired)
	if fault.Reason(err) != "certificate" || !strings.Contains(string(body), out.clients[in.Status.Client].Secret) || strings.Contains(string(body), "cert of") {
		t.Errorf("its document comes with %v", err)
	}
	delete(out.down, "certificate")
	w.pass(20 * time.Minute)
	if in = w.one(); in.Phase != instance.Ready || in.Status.Message != "" {
		t.Errorf("after it was mended: %s, %q", in.Phase, in.Status.Message)
	}
}

// Whoever is down is named, in a text that does not change; the others go on.
func TestTroubleOutside(t *testing.T) {
	refusal := fault.New(fault.Invalid, "no such realm")
	cases := []struct {
		reason, who string
		err         error
		after       time.Duration
		phase       string
		says        string
	}{
		{"an identity provider that is down is waited for", "sso", away, time.Minute, instance.Preparing, "waiting for the identity provider: no answer in time"},
		{"but not for ever", "sso", away, 6 * time.Minute, instance.Failed, "The identity provider failed"},
		{"one that refuses fails it at once", "sso", refusal, 0, instance.Failed, "no such realm"},
		{"name servers that are down are waited for", "dns", away, time.Hour, instance.Provisioning, "waiting for the name servers: no answer"},
		{"a host that is somebody else's fails it", "dns", fault.New(fault.Conflict, "a record of somebody else").Because("not-ours"), 0, instance.Failed, "a record of somebody else"},
		{"a source of quota that is down is waited for", "reserve", away, 10 * time.Minute, instance.Accepted, "waiting for the source of quota: no answer"},
		{"but not for ever", "reserve", away, 61 * time.Minute, instance.Failed, "The source of quota failed"},
		{"a grant may not be known here yet", "reserve", fault.New(fault.Denied, "no units"), 0, instance.Accepted, "waiting for the source of quota: no units"},
		{"quota that is refused after all fails it", "reserve", fault.New(fault.Denied, "no units"), 10 * time.Second, instance.Failed, "no units"},
		{"a certificate that is not there yet is waited for", "nocert", nil, time.Hour, instance.Preparing, "waiting for the source of certificates: there is no certificate"},
		{"versions that nobody offers are waited for", "noversion", nil, time.Minute, instance.Accepted, "waiting for a data plane that offers the wanted version of band, engine"},
		{"but not for ever", "noversion", nil, 6 * time.Minute, instance.Failed, "offered the wanted version"},
	}
	for _, c := range cases {
		t.Run(c.reason+" "+c.who, func(t *testing.T) {
			w, out, _ := newStage(t)
			made := w.order("band", instance.Create{Name: "queen"})
			switch c.who {
			case "nocert":
				out.certs = false
			case "noversion":
				out.denied["versions"] = false
			case "reserve":
				out.down["quota"] = c.err
			default:
				out.down[c.who] = c.err
			}
			w.rounds()
			for left := c.after; left > 0; left -= 10 * time.Second {
				w.pass(10 * time.Second)
			}
			in := w.one()
			if said := in.Status.Message + in.Status.Reason; in.Phase != c.phase || !strings.Contains(said, c.says) {
				t.Errorf("%s: %q", in.Phase, said)
			}
			if changes := in.Version - made.Version; changes > 8 {
				t.Errorf("%d changes while it waited", changes)
			}
			out.down, out.certs = map[string]error{}, true
			delete(out.denied, "versions")
			if in.Phase != instance.Failed {
				for range 8 {
					w.pass(time.Minute)
				}
				if in := w.one(); in.Phase != instance.Ready || in.Status.Message != "" {
					t.Errorf("when the trouble was over: %s, %q", in.Phase, in.Status.Message)
				}
			}
			_, err := w.service.Delete(alice, "band", in.ID)
			w.must(err)
			for range 5 {
				w.pass(time.Minute)
			}
			out.nothingLeft(w)
		})
	}
}

// Without name servers everything goes on that needs no new host: what has its own is
// changed, stopped and started.
func TestWhatNeedsNoNewHostGoesOn(t *testing.T) {
	w, out, _ := newStage(t)
	w.order("band", instance.Create{Name: "queen"})
	w.rounds()
	in := w.one()
	out.down["dns"] = away
	for _, c := range []struct{ body, phase string }{{`{"suspended":true}`, instance.Suspended}, {`{"suspended":false}`, instance.Ready}} {
		_, err := w.service.UpdateAdmin(alice, "band", in.ID, body(c.body))
		w.must(err)
		w.rounds()
		if now := w.one(); now.Phase != c.phase || len(out.records) != 2 {
			t.Errorf("%s: %s, %q, %d records", c.body, now.Phase, now.Status.Message, len(out.records))
		}
	}
	w.pass(time.Hour) // it is looked at meanwhile
	if now := w.one(); now.Phase != instance.Ready || len(out.records) != 2 {
		t.Errorf("after an hour: %s, %q, %d records", now.Phase, now.Status.Message, len(out.records))
	}
}

// A deletion waits for whoever is down, for as long as it takes, and says so;
// nothing is given back twice.
func TestADeletionIsNeverGivenUp(t *testing.T) {
	for _, c := range []struct{ who, says string }{
		{"sso", "waiting for the identity provider: no answer in time"},
		{"dns", "waiting for the name servers: no answer in time"},
		{"quota", "waiting for the source of quota: no answer in time"},
		{"certificate", "waiting for the source of certificates: no answer in time"},
	} {
		t.Run(c.who, func(t *testing.T) {
			w, out, _ := newStage(t)
			in := w.order("band", instance.Create{Name: "queen"})
			w.rounds()
			out.down[c.who] = away
			_, err := w.service.Delete(alice, "band", in.ID)
			w.must(err)
			for range 50 {
				w.pass(time.Hour)
			}
			now := w.one()
			if now.Phase != instance.Deleting || now.Status.Message != c.says {
				t.Errorf("%s: %q", now.Phase, now.Status.Message)
			}
			version := now.Version
			w.pass(time.Hour)
			if now := w.one(); now.Version != version {
				t.Error("it is written again and again while it waits")
			}
			delete(out.down, c.who)
			w.pass(time.Hour)
			out.nothingLeft(w)
		})
	}
}

// Nothing outside outlives its instance, whatever fails, before or after its
// effect, and wherever a worker dies.
func TestNothingLeaks(t *testing.T) {
	w, out, _ := newStage(t)
	out.rate = 0.2
	dice := rand.New(rand.NewPCG(3, 4))
	everything := func(string) bool { return true }
	churn := func(rounds int) {
		for range rounds {
			if work, ok := w.claim(); ok {
				for range 1 + dice.IntN(4) { // dies after any round
					if dice.IntN(8) == 0 { // or before it could write
						_, _ = w.worker.Reconcile(context.Background(), taskOf(work))
						break
					}
					if w.run(work) {
						break
					}
				}
			}
			if dice.IntN(2) == 0 {
				w.apply(everything)
				w.report(everything)
			}
			w.clock = w.clock.Add(time.Duration(dice.IntN(2500)) * time.Millisecond)
		}
	}
	ready := 0
	for round := range 100 {
		made := w.order("band", instance.Create{Name: fmt.Sprintf("b-%d", round)})
		churn(dice.IntN(40))
		if o, err := w.ledger.Get(context.Background(), made.Ref); err == nil && o.Phase == instance.Ready {
			ready++
		}
		_, err := w.service.Delete(alice, "band", made.ID)
		w.must(err)
		churn(dice.IntN(10))
	}
	for n := 0; len(w.instances(false)) > 0; n++ {
		if n > 3000 {
			t.Fatalf("%d do not go: %+v", len(w.instances(false)), w.instances(false)[0].Status)
		}
		churn(10)
	}
	if ready < 20 {
		t.Errorf("only %d of 100 were ever ready: the test tests little", ready)
	}
	out.nothingLeft(w)
}
