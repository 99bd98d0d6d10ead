package instance_test

import (
	"encoding/json"
	"fmt"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"github.com/droverhq/drover/internal/cluster"
	"github.com/droverhq/drover/internal/instance"
	"github.com/droverhq/drover/internal/ledger"
	"github.com/droverhq/drover/internal/offering"
	"github.com/droverhq/drover/internal/operation"
)

var start = time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)

// at makes an instance in a phase, a minute after it entered it.
func at(phase string, edit ...func(*instance.Instance)) instance.Instance {
	in := instance.Instance{Object: ledger.Object{
		Ref: ledger.Ref{Kind: "instance", ID: "i1"}, Name: "rex", Phase: phase, Generation: 1, Version: 3,
	}}
	in.Spec = instance.Spec{Offering: "dinosaur", Provider: "local", Region: "here"}
	in.Status.Since = start.Add(-time.Minute)
	for _, e := range edit {
		e(&in)
	}
	return in
}

func placed(in *instance.Instance) {
	in.Status.Cluster, in.Status.Units, in.Status.Placement = "c1", 1, "p1"
	in.Status.Desired, in.Status.Rendered = json.RawMessage(`{}`), in.Generation
	in.Status.Operation = "op1"
}

func seen(state, message string) func(*instance.Instance) {
	return func(in *instance.Instance) {
		in.Status.Observed = &instance.Observed{Generation: in.Status.Rendered, State: state, Message: message, Placement: in.Status.Placement}
	}
}

func TestPlan(t *testing.T) {
	room := instance.Facts{Units: 1, Candidates: []cluster.Candidate{{ID: "full", Capacity: 1, Used: 1}, {ID: "c1", Capacity: 2, Used: 1}}}
	done := instance.Finish{Phase: operation.Succeeded}
	cases := []struct {
		reason string
		in     instance.Instance
		facts  instance.Facts
		want   []instance.Action
	}{
		{"an order goes to the first cluster with room", at(instance.Accepted), room,
			[]instance.Action{instance.Place{Cluster: "c1", Why: alone(1, 2)}, instance.Move{To: instance.Preparing}}},
		{"without a cluster it waits and says for what", at(instance.Accepted), instance.Facts{Units: 1},
			[]instance.Action{instance.Queue{Why: "waiting for a ready cluster in region here of local: there is none"}}},
		{"and without room on it too", at(instance.Accepted), instance.Facts{Units: 1, Candidates: []cluster.Candidate{{ID: "c1", Capacity: 1, Used: 1}}},
			[]instance.Action{instance.Queue{Why: "waiting for room in region here of local: its clusters are full"}}},
		{"after an hour without room it has failed, with advice",
			at(instance.Accepted, func(in *instance.Instance) { in.Status.Since = start.Add(-time.Hour) }), instance.Facts{Units: 1},
			[]instance.Action{
				instance.Move{To: instance.Failed, Reason: noRoom},
				instance.Finish{Phase: operation.Failed, Reason: noRoom},
			}},
		{"hooks come before a phase is left", at(instance.Preparing, placed), instance.Facts{Hooks: true},
			[]instance.Action{instance.Call{Within: 5 * time.Minute}}},
		{"hooks that have answered are not called again",
			at(instance.Preparing, placed, func(in *instance.Instance) { in.Status.Hooked = []string{instance.Preparing} }), instance.Facts{Hooks: true},
			[]instance.Action{instance.Render{}, instance.Move{To: instance.Provisioning}}},
		{"nothing to do until the agent has spoken", at(instance.Provisioning, placed), instance.Facts{}, nil},
		{"installing is no news", at(instance.Provisioning, placed, seen("installing", "")), instance.Facts{}, nil},
		{"ready when the agent says so", at(instance.Provisioning, placed, seen("ready", "")), instance.Facts{},
			[]instance.Action{instance.Move{To: instance.Ready}, done}},
		{"an old placing's word does not count",
			at(instance.Provisioning, placed, seen("ready", ""), func(in *instance.Instance) { in.Status.Placement = "p2" }), instance.Facts{}, nil},
		{"a word on an old generation does not count",
			at(instance.Provisioning, placed, seen("ready", ""), func(in *instance.Instance) { in.Generation, in.Status.Rendered = 2, 2 }), instance.Facts{}, nil},
		{"an error fails it, with the agent's reason", at(instance.Provisioning, placed, seen("error", "out of memory")), instance.Facts{},
			[]instance.Action{
				instance.Move{To: instance.Failed, Reason: "The data plane reports: out of memory"},
				instance.Finish{Phase: operation.Failed, Reason: "The data plane reports: out of memory"},
			}},
		{"failed is not the end: a later ready heals it", at(instance.Failed, placed, seen("ready", "")), instance.Facts{},
			[]instance.Action{instance.Move{To: instance.Ready}, done}},
		{"a cluster that had no room after all gives its units back", at(instance.Provisioning, placed, seen("rejected", "full")), room,
			[]instance.Action{instance.Unplace{}}},
		{"a rejected one is placed elsewhere, not there again",
			at(instance.Provisioning, func(in *instance.Instance) { in.Status.Rejected = []string{"c1"} }),
			instance.Facts{Units: 1, Candidates: []cluster.Candidate{{ID: "c1", Capacity: 9}, {ID: "c2", Capacity: 9}}},
			[]instance.Action{instance.Place{Cluster: "c2", Why: alone(9, 9)}, instance.Render{}}},
		{"changed intent is rendered anew", at(instance.Ready, placed, seen("ready", ""), func(in *instance.Instance) { in.Generation = 2 }), instance.Facts{},
			[]instance.Action{instance.Render{}}},
		{"a ready one with nothing to do is left alone",
			at(instance.Ready, placed, seen("ready", ""), func(in *instance.Instance) { in.Status.Operation = "" }), instance.Facts{}, nil},
		{"suspension is rendered and awaited", at(instance.Ready, placed, seen("ready", ""), func(in *instance.Instance) { in.Spec.Suspended = true }), instance.Facts{},
			[]instance.Action{instance.Render{}, instance.Move{To: instance.Suspending}}},
		{"a ready word while suspending changes nothing", at(instance.Suspending, placed, seen("ready", "")), instance.Facts{}, nil},
		{"suspended when the agent says so", at(instance.Suspending, placed, seen("suspended", "")), instance.Facts{},
			[]instance.Action{instance.Move{To: instance.Suspended}, done}},
		{"resumption", at(instance.Suspended, placed, seen("suspended", "")), instance.Facts{},
			[]instance.Action{instance.Render{}, instance.Move{To: instance.Resuming}}},
		{"its lifespan's end becomes the wish to delete", at(instance.Ready, placed, func(in *instance.Instance) { in.Status.Expires = start }), instance.Facts{},
			[]instance.Action{instance.Expire{Why: "its lifespan ended"}}},
		{"before its end it sets the alarm clock",
			at(instance.Ready, placed, seen("ready", ""), func(in *instance.Instance) { in.Status.Operation, in.Status.Expires = "", start.Add(time.Hour) }), instance.Facts{},
			[]instance.Action{instance.Come{After: time.Hour, Why: "its lifespan ends 2026-01-02T04:04:05Z"}}},
		{"a deletion tells the data plane", at(instance.Deprovision, placed, func(in *instance.Instance) { in.Generation = 2 }), instance.Facts{},
			[]instance.Action{instance.Render{}}},
		{"a deletion waits for the data plane", at(instance.Deprovision, placed, seen("ready", "")), instance.Facts{}, nil},
		{"gone from the data plane, cleanup begins", at(instance.Deprovision, placed, seen("deleted", "")), instance.Facts{},
			[]instance.Action{instance.Move{To: instance.Deleting}}},
		{"what never reached a data plane goes at once", at(instance.Deprovision), instance.Facts{},
			[]instance.Action{instance.Move{To: instance.Deleting}}},
		{"cleanup gives everything back", at(instance.Deleting, placed), instance.Facts{}, []instance.Action{done, instance.Clean{}}},
		{"what is gone is left alone", at(instance.Deleting, placed, func(in *instance.Instance) { in.Object.Deleted = start }), instance.Facts{}, nil},
	}
	for _, c := range cases {
		t.Run(c.reason, func(t *testing.T) {
			if diff := cmp.Diff(c.want, instance.Plan(c.in, c.facts, start)); diff != "" {
				t.Errorf("-want +got:\n%s", diff)
			}
		})
	}
}

// alone is why a cluster was chosen that was the only one with room for one unit.
func alone(free, of int) string {
	return fmt.Sprintf("it is the only cluster with room: %d of its %d units were free, 1 are taken", free, of)
}

const noRoom = "Region here of local had no room for an hour. Delete this instance and try another region, or try again later."

// What an instance has outside, and how it is paid for.
func TestPlanOutside(t *testing.T) {
	outside := func(in *instance.Instance) {
		placed(in)
		in.Status.Operation, in.Status.Client, in.Status.Secret, in.Status.Named = "", "srvc-acct-1", "secret:1", true
		in.Status.Routes = []instance.Route{{Name: "web", Host: "rex.example.org", Router: "router.example.org"}}
		in.Status.Published = map[string]string{"rex.example.org": "router.example.org"}
		in.Status.Source, in.Status.Reserved, in.Status.Tickets = "test", "i1", []instance.Ticket{{ID: "i1"}}
	}
	unreserved := func(in *instance.Instance) {
		in.Status.Source, in.Status.Tickets = "test", []instance.Ticket{{ID: "i1"}}
	}
	ends := func(d time.Duration) func(*instance.Instance) {
		return func(in *instance.Instance) { in.Status.Expires = start.Add(d) }
	}
	edit := func(e func(*instance.Status)) func(*instance.Instance) {
		return func(in *instance.Instance) { e(&in.Status) }
	}
	everything := instance.Facts{Units: 1, Identity: true, Names: true, Certificate: true, Looked: true, NextLook: time.Minute}
	with := func(e func(*instance.Facts)) instance.Facts { f := everything; e(&f); return f }
	room := with(func(f *instance.Facts) { f.Candidates = []cluster.Candidate{{ID: "c1", Capacity: 1}} })
	again := instance.Come{After: time.Minute, Why: "what is outside is looked at again"}
	spared := with(func(f *instance.Facts) {
		f.Denied, f.Removal = true, instance.Removal{Approval: "a", Why: "waiting for approval a"}
	})
	waits := edit(func(s *instance.Status) { s.Approval, s.Message = "a", "waiting for approval a" })
	slow := "Region here of local had no room for 10m. Delete this instance and try another region, or try again later."
	cases := []struct {
		reason string
		in     instance.Instance
		facts  instance.Facts
		want   []instance.Action
	}{
		{"one commit reserves, places and makes up the account", at(instance.Accepted, unreserved), room,
			[]instance.Action{instance.Reserve{}, instance.Place{Cluster: "c1", Why: alone(1, 1)}, instance.Seal{}, instance.Move{To: instance.Preparing}}},
		{"whoever waits for room has its quota", at(instance.Accepted, unreserved), everything, []instance.Action{instance.Reserve{}}},
		{"versions come with the place", at(instance.Accepted),
			instance.Facts{Units: 1, Candidates: []cluster.Candidate{{ID: "c1", Capacity: 1}, {ID: "c2", Capacity: 1}}, Open: map[string]string{"engine": ""}, Offers: map[string]map[string]string{"c2": {"engine": "2"}}},
			[]instance.Action{instance.Place{Cluster: "c2", Why: alone(1, 1), Versions: map[string]string{"engine": "2"}}, instance.Move{To: instance.Preparing}}},
		{"an offering can be less patient", at(instance.Accepted, func(in *instance.Instance) { in.Status.Since = start.Add(-10 * time.Minute) }),
			instance.Facts{Units: 1, Timing: offering.Timing{Place: offering.Duration(10 * time.Minute)}},
			[]instance.Action{instance.Move{To: instance.Failed, Reason: slow}, instance.Finish{Phase: operation.Failed, Reason: slow}}},
		{"an account is written down before it is made", at(instance.Preparing, placed), everything, []instance.Action{instance.Seal{}}},
		{"everything is prepared before the document", at(instance.Preparing, outside), everything,
			[]instance.Action{instance.Account{}, instance.Certify{}, instance.Render{}, instance.Move{To: instance.Provisioning}}},
		{"hosts are published before it is ready", at(instance.Provisioning, outside, seen("ready", ""), edit(func(s *instance.Status) { s.Published = nil })), everything,
			[]instance.Action{instance.Publish{}, instance.Move{To: instance.Ready}, instance.Finish{Phase: operation.Succeeded}}},
		{"a router that moved is published", at(instance.Ready, outside, seen("ready", ""), edit(func(s *instance.Status) { s.Routes[0].Router = "other.example.org" })), everything,
			[]instance.Action{instance.Publish{}}},
		{"it is looked after", at(instance.Ready, outside, seen("ready", "")), with(func(f *instance.Facts) { f.Looked = false }), []instance.Action{instance.Look{}}},
		{"again and again", at(instance.Suspended, outside, seen("suspended", ""), func(in *instance.Instance) { in.Spec.Suspended = true }), everything, []instance.Action{again}},
		{"an entitlement that ended sets the end", at(instance.Ready, outside, seen("ready", "")), with(func(f *instance.Facts) { f.Entitled, f.Grace = instance.No, time.Hour }),
			[]instance.Action{instance.Until{Expires: start.Add(time.Hour), Ruled: true}}},
		{"one that ended when it was to end is no changed rule", at(instance.Ready, outside, seen("ready", ""), func(in *instance.Instance) { in.Status.GrantEnds = start }),
			with(func(f *instance.Facts) { f.Entitled, f.Grace = instance.No, time.Hour }), []instance.Action{instance.Until{Expires: start.Add(time.Hour)}}},
		{"a grant that lasts longer is noted", at(instance.Ready, outside, seen("ready", ""), func(in *instance.Instance) { in.Status.GrantEnds = start.Add(time.Hour) }),
			with(func(f *instance.Facts) { f.Entitled, f.Ends = instance.Yes, start.Add(2*time.Hour) }), []instance.Action{instance.Granted{Ends: start.Add(2 * time.Hour)}}},
		{"one that was cut short is not: the end would pass for its own", at(instance.Ready, outside, seen("ready", ""), func(in *instance.Instance) { in.Status.GrantEnds = start.Add(2 * time.Hour) }),
			with(func(f *instance.Facts) { f.Entitled, f.Ends = instance.Yes, start.Add(time.Hour) }), []instance.Action{again}},
		{"one that is back takes it away", at(instance.Ready, outside, seen("ready", ""), ends(time.Hour)), with(func(f *instance.Facts) { f.Entitled = instance.Yes }), []instance.Action{instance.Until{}}},
		{"no answer is no answer", at(instance.Ready, outside, seen("ready", "")), with(func(f *instance.Facts) { f.Grace = time.Hour }), []instance.Action{again}},
		{"it rests before its end", at(instance.Ready, outside, seen("ready", ""), ends(time.Hour)), with(func(f *instance.Facts) { f.Grace = time.Hour }), []instance.Action{instance.Rest{On: true}}},
		{"whatever it was about to become", at(instance.Resuming, outside, seen("ready", ""), ends(time.Hour)), with(func(f *instance.Facts) { f.Grace = time.Hour }), []instance.Action{instance.Rest{On: true}}},
		{"and wakes if the end is far again", at(instance.Suspended, outside, seen("suspended", ""), func(in *instance.Instance) { in.Spec.Suspended, in.Status.Resting = true, true }), everything,
			[]instance.Action{instance.Rest{On: false}}},
		{"a denied owner's goes", at(instance.Ready, outside, seen("ready", "")), with(func(f *instance.Facts) { f.Denied = true }), []instance.Action{instance.Expire{Why: "its owner was denied"}}},
		{"unless that has to be approved", at(instance.Ready, outside, seen("ready", "")), spared, []instance.Action{instance.Spare{Approval: "a", Why: "waiting for approval a"}}},
		{"then it goes on as ever", at(instance.Ready, outside, seen("ready", ""), waits), spared, []instance.Action{again}},
		{"and is told to", at(instance.Ready, outside, seen("ready", ""), waits, func(in *instance.Instance) { in.Generation++ }), spared, []instance.Action{instance.Render{}}},
		{"a no is said, too", at(instance.Ready, outside, seen("ready", ""), waits), with(func(f *instance.Facts) {
			f.Denied, f.Removal = true, instance.Removal{Approval: "a", Why: "waiting for approval a, which was refused"}
		}), []instance.Action{instance.Spare{Approval: "a", Why: "waiting for approval a, which was refused"}}},
		{"its own end needs no approval", at(instance.Ready, outside, seen("ready", ""), waits, ends(0)), spared, []instance.Action{instance.Expire{Why: "its lifespan ended"}}},
		{"an end that a rule has set does", at(instance.Ready, outside, seen("ready", ""), waits, ends(-time.Hour), func(in *instance.Instance) { in.Status.Ruled = true }),
			with(func(f *instance.Facts) {
				f.Entitled, f.Removal = instance.No, instance.Removal{Approval: "a", Why: "waiting for approval a"}
			}), []instance.Action{again}},
		{"it goes once it is approved", at(instance.Ready, outside, seen("ready", ""), waits), with(func(f *instance.Facts) { f.Denied = true }), []instance.Action{instance.Expire{Why: "its owner was denied"}}},
		{"it waits no longer once the rule has changed", at(instance.Ready, outside, seen("ready", ""), waits), everything, []instance.Action{instance.Spare{}}},
		{"a promotion with quota", at(instance.Ready, outside, seen("ready", ""), edit(func(s *instance.Status) { s.Promotion = instance.Promoting })),
			with(func(f *instance.Facts) { f.Target = instance.Yes }), []instance.Action{instance.Promote{}}},
		{"without", at(instance.Ready, outside, seen("ready", ""), edit(func(s *instance.Status) { s.Promotion = instance.Promoting })),
			with(func(f *instance.Facts) { f.Target, f.Refusal = instance.No, "no" }), []instance.Action{instance.Demote{Why: "no"}, instance.Finish{Phase: operation.Failed, Reason: "no"}}},
		{"a reservation that nothing stands on is given back", at(instance.Ready, outside, seen("ready", ""), edit(func(s *instance.Status) { s.Tickets = append(s.Tickets, instance.Ticket{ID: "i1.2"}) })), everything,
			[]instance.Action{instance.Release{}}},
		{"everything outside goes before the object", at(instance.Deleting, outside), everything,
			[]instance.Action{instance.Withdraw{}, instance.Finish{Phase: operation.Succeeded}, instance.Clean{}}},
	}
	for _, c := range cases {
		t.Run(c.reason, func(t *testing.T) {
			if diff := cmp.Diff(c.want, instance.Plan(c.in, c.facts, start)); diff != "" {
				t.Errorf("-want +got:\n%s", diff)
			}
		})
	}
}

// Whatever an instance looks like, Plan moves only along the table, at most one
// move at a time, never cleans up what somebody may still hold, and does
// nothing for good because of what is not known.
func TestPlanKeepsToTheTable(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		in, facts := anyInstance(t), anyFacts(t)
		moves, withdrawn := 0, false
		for _, a := range instance.Plan(in, facts, start) {
			switch a := a.(type) {
			case instance.Move:
				if moves++; moves > 1 || !instance.CanMove(in.Phase, a.To) {
					t.Fatalf("moves from %s to %s", in.Phase, a.To)
				}
				if a.To == instance.Deleting && in.Status.Cluster != "" && (in.Status.Observed == nil || in.Status.Observed.State != "deleted") {
					t.Fatal("cleans up what a data plane may still hold")
				}
				if a.To == instance.Failed && a.Reason == "" {
					t.Fatal("fails without a reason")
				}
				if a.To == instance.Ready && facts.Names && in.Status.Routes[0].Router != "" && len(in.Status.Published) == 0 && !withdrawn {
					t.Fatal("ready before its hosts are published")
				}
			case instance.Publish:
				withdrawn = true
			case instance.Place:
				if in.Status.Cluster != "" {
					t.Fatal("placed twice")
				}
				if len(facts.Open) > 0 && len(a.Versions) == 0 {
					t.Fatal("placed without versions")
				}
			case instance.Withdraw:
				withdrawn = true
				if in.Phase != instance.Deleting {
					t.Fatalf("withdraws in phase %s", in.Phase)
				}
			case instance.Clean:
				if in.Phase != instance.Deleting || !withdrawn && (in.Status.Client != "" || in.Status.Named || len(in.Status.Tickets) > 0) {
					t.Fatalf("cleans up in phase %s, withdrawn %v", in.Phase, withdrawn)
				}
			case instance.Seal:
				if in.Status.Client != "" {
					t.Fatal("makes up a second account")
				}
			case instance.Until:
				if facts.Entitled == instance.Unknown || facts.Lifespan {
					t.Fatal("moves the end without anybody's word")
				}
			case instance.Expire:
				over := !in.Status.Expires.IsZero() && !in.Status.Expires.After(start)
				if !facts.Denied && !over {
					t.Fatal("ends before its time")
				}
				if over && in.Status.Ruled && !facts.Denied && facts.Entitled != instance.No {
					t.Fatal("a rule takes it without its source's word")
				}
				if facts.Removal.Approval != "" && (!over || in.Status.Ruled) {
					t.Fatal("a rule takes it, and nobody has approved")
				}
			case instance.Promote, instance.Demote:
				if in.Status.Promotion != instance.Promoting || facts.Target == instance.Unknown {
					t.Fatal("promotes what nobody asked for, or without an answer")
				}
			case instance.Come:
				if a.After <= 0 {
					t.Fatalf("comes back after %s: it never rests", a.After)
				}
			}
		}
	})
}

func anyInstance(t *rapid.T) instance.Instance {
	yes := func(what string) bool { return rapid.Bool().Draw(t, what) }
	in := at(rapid.SampledFrom([]string{
		instance.Accepted, instance.Preparing, instance.Provisioning, instance.Ready, instance.Failed,
		instance.Suspending, instance.Suspended, instance.Resuming, instance.Deprovision, instance.Deleting,
	}).Draw(t, "phase"))
	in.Generation = rapid.Int64Range(1, 3).Draw(t, "generation")
	in.Spec.Suspended = yes("suspended")
	in.Status.Routes = []instance.Route{{Name: "web", Host: "rex.example.org"}}
	if yes("placed") {
		placed(&in)
		in.Status.Rendered = rapid.Int64Range(0, in.Generation).Draw(t, "rendered")
	}
	if s := rapid.SampledFrom([]string{"", "installing", "ready", "suspended", "deleted", "error", "rejected"}).Draw(t, "state"); s != "" {
		seen(s, "")(&in)
		in.Status.Observed.Generation = rapid.Int64Range(0, in.Generation).Draw(t, "observed")
	}
	if yes("expires") {
		in.Status.Expires = start.Add(time.Duration(rapid.Int64Range(-10, 10).Draw(t, "in")) * time.Minute)
	}
	if yes("account") {
		in.Status.Client, in.Status.Secret = "srvc-acct-1", "secret:1"
	}
	if yes("routed") {
		in.Status.Routes[0].Router, in.Status.Named = "router.example.org", true
		if yes("published") {
			in.Status.Published = map[string]string{"rex.example.org": "router.example.org"}
		}
	}
	if yes("granted") {
		in.Status.Source, in.Status.Tickets = "test", []instance.Ticket{{ID: "i1"}}
		if yes("reserved") {
			in.Status.Reserved = "i1"
		}
	}
	in.Status.Promotion = rapid.SampledFrom([]string{"", instance.Promoting, instance.PromotionFailed}).Draw(t, "promotion")
	in.Status.Resting = in.Spec.Suspended && yes("resting")
	in.Status.Ruled = yes("ruled")
	if yes("waits") {
		in.Status.Approval, in.Status.Message = "a", rapid.SampledFrom([]string{"", "waiting for approval a", "waiting for somebody"}).Draw(t, "message")
	}
	return in
}

func anyFacts(t *rapid.T) instance.Facts {
	yes := func(what string) bool { return rapid.Bool().Draw(t, what) }
	answer := rapid.SampledFrom([]instance.Answer{instance.Unknown, instance.Yes, instance.No})
	facts := instance.Facts{
		Units: 1, Hooks: yes("hooks"), Grace: time.Duration(rapid.IntRange(0, 8).Draw(t, "grace")) * time.Minute,
		Lifespan: yes("lifespan"), Denied: yes("denied") && yes("really"), Entitled: answer.Draw(t, "entitled"), Target: answer.Draw(t, "target"),
		Identity: yes("identity"), Names: yes("names"), Certificate: yes("certificate"), Looked: yes("looked"), NextLook: time.Minute,
	}
	if yes("spared") {
		facts.Removal = instance.Removal{Approval: "a", Why: "waiting for approval a"}
	}
	if yes("room") {
		facts.Candidates = []cluster.Candidate{{ID: "c1", Capacity: 1}}
	}
	if yes("open") {
		facts.Open = map[string]string{"engine": ""}
		if yes("offered") {
			facts.Offers = map[string]map[string]string{"c1": {"engine": "1"}}
		}
	}
	return facts
}
