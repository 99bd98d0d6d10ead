package environment_test

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/droverhq/drover/internal/environment"
	"github.com/droverhq/drover/internal/ledger"
)

func TestDecide(t *testing.T) {
	plan := func(phase string) *environment.Plan {
		return &environment.Plan{Object: ledger.Object{Phase: phase}, Status: environment.PlanStatus{Message: "why"}}
	}
	next := &environment.Next{Plan: "p", Operation: "op"}
	seen := &environment.Next{Plan: "p", Hash: "h", Operation: "op"}
	for _, tc := range []struct {
		reason string
		phase  string
		spec   environment.Spec
		status environment.Status
		seen   environment.Seen
		want   []string
	}{
		{"at rest", environment.OK, environment.Spec{Turn: 1}, environment.Status{Laid: 1, Counts: environment.Counts{Ready: 2}}, environment.Seen{Counts: environment.Counts{Ready: 2}}, nil},
		{"its plan is being made", environment.Deploying, environment.Spec{Next: next}, environment.Status{}, environment.Seen{Plan: plan(environment.Planning)}, []string{"Say", "Come"}},
		{"meanwhile the last turn goes on", environment.Deploying, environment.Spec{Turn: 1, Next: next}, environment.Status{Laid: 1, Operation: "o"},
			environment.Seen{Plan: plan(environment.Planning), Counts: environment.Counts{Pending: 1}}, []string{"Say", "Come"}},
		{"nobody looked at it", environment.OK, environment.Spec{Turn: 1, Next: next}, environment.Status{Laid: 1}, environment.Seen{Plan: plan(environment.Planned)}, []string{"Take"}},
		{"somebody looked at it", environment.OK, environment.Spec{Turn: 1, Next: seen}, environment.Status{Laid: 1}, environment.Seen{Plan: plan(environment.Planned)}, []string{"Check"}},
		{"it could not be made", environment.OK, environment.Spec{Turn: 1, Next: next}, environment.Status{Laid: 1}, environment.Seen{Plan: plan(environment.Unplanned)}, []string{"Reject"}},
		{"it is denied", environment.OK, environment.Spec{Turn: 1, Next: next}, environment.Status{Laid: 1}, environment.Seen{Plan: plan(environment.Forbidden)}, []string{"Reject"}},
		{"it is not there", environment.OK, environment.Spec{Turn: 1, Next: next}, environment.Status{Laid: 1}, environment.Seen{}, []string{"Reject"}},
		{"a turn begins", environment.Deploying, environment.Spec{Turn: 2}, environment.Status{Laid: 1}, environment.Seen{}, []string{"Lay"}},
		{"nothing moves", environment.Deploying, environment.Spec{Turn: 1}, environment.Status{Laid: 1}, environment.Seen{Still: 1, Counts: environment.Counts{Applying: 1}}, []string{"Rouse", "Say", "Come"}},
		{"one failed, others go on", environment.Deploying, environment.Spec{Turn: 1}, environment.Status{Laid: 1}, environment.Seen{Counts: environment.Counts{Failed: 1, Pending: 1}}, []string{"Say", "Come"}},
		{"one failed", environment.Deploying, environment.Spec{Turn: 1}, environment.Status{Laid: 1, Operation: "o"}, environment.Seen{Counts: environment.Counts{Failed: 1, Blocked: 2}}, []string{"Settle"}},
		{"that is known", environment.Fail, environment.Spec{Turn: 1}, environment.Status{Laid: 1}, environment.Seen{Counts: environment.Counts{Failed: 1}}, nil},
		{"all are ready", environment.Deploying, environment.Spec{Turn: 1}, environment.Status{Laid: 1, Operation: "o"}, environment.Seen{Counts: environment.Counts{Ready: 2}}, []string{"Settle"}},
		{"all are gone", environment.Destroying, environment.Spec{Turn: 2, Destroy: true}, environment.Status{Laid: 2, Operation: "o"}, environment.Seen{}, []string{"Clean"}},
		{"one does not go", environment.Destroying, environment.Spec{Turn: 2, Destroy: true}, environment.Status{Laid: 2, Operation: "o"}, environment.Seen{Counts: environment.Counts{Failed: 1}}, []string{"Settle"}},
		{"and it is not tried again by itself", environment.Destroying, environment.Spec{Turn: 2, Destroy: true}, environment.Status{Laid: 2}, environment.Seen{Counts: environment.Counts{Failed: 1}}, nil},
	} {
		e := environment.Environment{Object: ledger.Object{Phase: tc.phase, Name: "x"}, Spec: tc.spec, Status: tc.status}
		var got []string
		for _, a := range environment.Decide(e, tc.seen, time.Now()) {
			switch a.(type) {
			case environment.Say:
				got = append(got, "Say")
			case environment.Come:
				got = append(got, "Come")
			case environment.Take:
				got = append(got, "Take")
			case environment.Check:
				got = append(got, "Check")
			case environment.Reject:
				got = append(got, "Reject")
			case environment.Lay:
				got = append(got, "Lay")
			case environment.Rouse:
				got = append(got, "Rouse")
			case environment.Settle:
				got = append(got, "Settle")
			case environment.Clean:
				got = append(got, "Clean")
			}
		}
		if diff := cmp.Diff(tc.want, got); diff != "" {
			t.Errorf("%s: %s", tc.reason, diff)
		}
		e.Deleted = time.Now()
		if left := environment.Decide(e, tc.seen, time.Now()); left != nil {
			t.Errorf("%s: something is done about one that is gone: %v", tc.reason, left)
		}
	}
}

func TestDecideResource(t *testing.T) {
	other := &environment.Resource{Spec: environment.ResourceSpec{Address: "db"}}
	for _, tc := range []struct {
		reason string
		phase  string
		spec   environment.ResourceSpec
		status environment.ResourceStatus
		around environment.Around
		want   environment.Move
	}{
		{"others of its turn are not laid out yet", environment.Pending, environment.ResourceSpec{Turn: 2}, environment.ResourceStatus{}, environment.Around{Laid: 1}, environment.Hold{}},
		{"one stands before it", environment.Pending, environment.ResourceSpec{Turn: 1}, environment.ResourceStatus{}, environment.Around{Laid: 1, Other: other}, environment.Hold{On: "db"}},
		{"nobody does", environment.Pending, environment.ResourceSpec{Turn: 1}, environment.ResourceStatus{}, environment.Around{Laid: 1}, environment.Make{}},
		{"it is being made", environment.Applying, environment.ResourceSpec{Turn: 1}, environment.ResourceStatus{}, environment.Around{Laid: 1}, environment.Make{}},
		{"it is made", environment.Ready, environment.ResourceSpec{Turn: 1}, environment.ResourceStatus{Turn: 1}, environment.Around{Laid: 1}, environment.Look{}},
		{"it failed", environment.Failed, environment.ResourceSpec{Turn: 1}, environment.ResourceStatus{Turn: 1}, environment.Around{Laid: 1}, nil},
		{"it is stopped by another", environment.Blocked, environment.ResourceSpec{Turn: 1}, environment.ResourceStatus{}, environment.Around{Laid: 1}, nil},
		{"it is to go", environment.ResourceLeaving, environment.ResourceSpec{Turn: 2, Absent: true}, environment.ResourceStatus{Turn: 1}, environment.Around{Laid: 2}, environment.Unmake{}},
		{"somebody needs it as yet", environment.ResourceLeaving, environment.ResourceSpec{Turn: 2, Absent: true}, environment.ResourceStatus{Turn: 1}, environment.Around{Laid: 2, Other: other}, environment.Hold{On: "db"}},
	} {
		r := environment.Resource{Object: ledger.Object{Phase: tc.phase}, Spec: tc.spec, Status: tc.status}
		if diff := cmp.Diff(tc.want, environment.DecideResource(r, tc.around, time.Now())); diff != "" {
			t.Errorf("%s: %s", tc.reason, diff)
		}
		r.Deleted = time.Now()
		if m := environment.DecideResource(r, tc.around, time.Now()); m != nil {
			t.Errorf("%s: something is done about one that is gone: %v", tc.reason, m)
		}
	}
}
