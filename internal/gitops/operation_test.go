package gitops_test

import (
	"context"
	"encoding/json"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/droverhq/drover/internal/fault"
	"github.com/droverhq/drover/internal/gitops"
	"github.com/droverhq/drover/internal/ledger"
	"github.com/droverhq/drover/internal/operation"
	"github.com/droverhq/drover/internal/runtime"
)

// operationsAbout are the operations of an object, by their verbs.
func (y *yard) operationsAbout(id string) map[string]ledger.Object {
	y.t.Helper()
	found, err := y.store.List(context.Background(), ledger.Query{Kind: operation.Kind.Name, Scope: map[string]any{"parent": id}, Limit: 100})
	y.must(err)
	out := map[string]ledger.Object{}
	for _, o := range found {
		out[o.Fields["verb"].(string)] = o
	}
	return out
}

// Operations say which Argo CD, whose, what and of which type, and the agent is told
// the same: of changes, of syncs and of removals.
func TestOperationsSayWhatTheyAreAbout(t *testing.T) {
	y := newYard(t)
	y.apply(y.manual())
	y.work(time.Second)
	y.report("hub", "uid-1", runtime.Ready, fine("c1"))
	y.work(time.Second)
	check := func(o ledger.Object, subject, kind string) {
		t.Helper()
		var s operation.Spec
		y.must(json.Unmarshal(o.Spec, &s))
		if s.Subject.ID != subject || s.Type != kind || s.Instance != "hub" || s.Owner != "ns-1" || s.Cause == "" && o.ID == "" || o.Fields["type"] != kind || o.Fields["instance"] != "hub" {
			t.Errorf("the operation of %s: %+v, %v", subject, s, o.Fields)
		}
	}
	made := y.operationsAbout("uid-1")["create"]
	check(made, "uid-1", "GitOpsDeployment")
	body := y.body("hub", "uid-1")
	want := &runtime.DeploymentOperation{ID: made.ID, Owner: "ns-1", Resource: "uid-1", Type: "GitOpsDeployment", Instance: "hub", Cause: body.Operation.Cause}
	if d := cmp.Diff(want, body.Operation); d != "" {
		t.Error(d)
	}

	y.ask(y.runIntent("r1"))
	y.work(time.Second)
	body = y.body("hub", "uid-1")
	sync := y.operationsAbout("r1")["sync"]
	want = &runtime.DeploymentOperation{ID: sync.ID, Owner: "ns-1", Resource: "r1", Type: "GitOpsDeploymentSyncRun", Instance: "hub"}
	if body.Sync == nil || body.Sync.Operation == nil {
		t.Fatalf("the agent is told %+v", body.Sync)
	}
	want.Cause = body.Sync.Operation.Cause
	if d := cmp.Diff(want, body.Sync.Operation); d != "" {
		t.Error(d)
	}
	seen := fine("c1")
	seen.Run = &runtime.SyncRun{ID: "r1", Phase: "Succeeded"}
	y.report("hub", "uid-1", runtime.Ready, seen)
	y.work(time.Second)
	check(y.operationsAbout("r1")["sync"], "r1", "GitOpsDeploymentSyncRun")

	in := y.manual()
	in.Gone = true
	y.apply(in)
	y.work(time.Second)
	gone := y.operationsAbout("uid-1")["delete"]
	check(gone, "uid-1", "GitOpsDeployment")
	var told runtime.Farewell
	y.must(json.Unmarshal(gitops.Farewell(y.get("uid-1").Object, "hub"), &told))
	if told.Operation == nil || told.Operation.ID != gone.ID || told.Operation.Instance != "hub" || told.Operation.Resource != "uid-1" {
		t.Errorf("the removal says %+v", told.Operation)
	}
	y.report("hub", "uid-1", runtime.Deleted, nil)
	y.work(time.Second)
	y.operationsEnded()
}

// What becomes of a credential and of a managed environment is told by operations, too,
// and only what was asked for is one.
func TestOperationsOfCredentialsAndEnvironments(t *testing.T) {
	for _, c := range []struct {
		kind, typed string
		hand        func(d *desk, secret string, change func(*gitops.Intent))
		bad         func(d *desk, is bool)
		why         string
	}{
		{"repository", "GitOpsDeploymentRepositoryCredential", func(d *desk, secret string, change func(*gitops.Intent)) {
			in := d.credential("uid", 1, password("reader", secret))
			change(&in.Intent)
			d.intendRepository(in)
		}, func(d *desk, is bool) {
			if d.gate.err = nil; is {
				d.gate.err = denied()
			}
		}, "Repository Credentials provided login for Repository https://git.example.org/acme/shop.git are invalid"},
		{"target", "GitOpsDeploymentManagedEnvironment", func(d *desk, secret string, change func(*gitops.Intent)) {
			in := d.environment("uid", 1, environmentSecret(withToken(secret)))
			change(&in.Intent)
			d.intendTarget(in)
		}, func(d *desk, is bool) {
			if d.remote.check = nil; is {
				d.remote.check = fault.New(fault.Denied, "%s", gitops.TargetForbidden).Because("UnableToValidateClusterCredentials")
			}
		}, gitops.TargetForbidden},
	} {
		t.Run(c.kind, func(t *testing.T) {
			d := newDesk(t)
			same := func(*gitops.Intent) {}
			count := func() int {
				found, err := d.store.List(context.Background(), ledger.Query{Kind: operation.Kind.Name, Limit: 100})
				d.must(err)
				return len(found)
			}
			check := func(verb, phase, why string, want int) {
				t.Helper()
				o := d.operationsAbout("uid")[verb]
				var s operation.Spec
				d.must(json.Unmarshal(o.Spec, &s))
				got, reason := d.operation(o.ID)
				if s.Subject != (ledger.Ref{Kind: c.kind, ID: "uid"}) || s.Type != c.typed || s.Owner != "ns-1" || s.Cause == "" || o.Org != "main/shop" || o.Fields["type"] != c.typed {
					t.Errorf("the operation is %+v of %s", s, o.Org)
				}
				if n := count(); got != phase || !strings.Contains(reason, why) || (why == "") != (reason == "") || n != want {
					t.Errorf("%s is %s (%s), as one of %d", verb, got, reason, n)
				}
			}
			before := d.store.commits
			c.hand(d, "first", same)
			if made := d.store.commits - before; made != 1 {
				t.Errorf("the intent and its operation are %d commits", made)
			}
			check("create", operation.Running, "", 1)
			d.work(time.Second)
			check("create", operation.Succeeded, "", 1)
			c.hand(d, "first", same) // as a comparison does it
			c.hand(d, "first", func(in *gitops.Intent) { in.Held = true })
			d.work(time.Hour)
			check("create", operation.Succeeded, "", 1)
			c.bad(d, true)
			c.hand(d, "second", same)
			d.work(time.Second)
			check("update", operation.Failed, c.why, 2)
			c.bad(d, false)
			c.hand(d, "second", func(in *gitops.Intent) { in.Gone = true })
			check("delete", operation.Running, "", 3)
			c.hand(d, "second", func(in *gitops.Intent) { in.Gone = true })
			d.work(time.Minute)
			check("delete", operation.Succeeded, "", 3)
			d.operationsEnded()
		})
	}
}

// One that is changed before anybody has looked at it is overtaken.
func TestOperationsOfCredentialsAreOvertaken(t *testing.T) {
	d := newDesk(t)
	d.intendRepository(d.credential("uid", 1, password("reader", "first")))
	d.intendRepository(d.credential("uid", 1, password("reader", "second")))
	if phase, reason := d.operation(d.operationsAbout("uid")["create"].ID); phase != operation.Superseded || reason == "" {
		t.Errorf("the first is %s (%s)", phase, reason)
	}
	d.work(time.Second)
	if phase, _ := d.operation(d.operationsAbout("uid")["update"].ID); phase != operation.Succeeded {
		t.Errorf("the second is %s", phase)
	}
}

// What changed the credential and the environment that a deployment has is told with
// them to whoever is to have them, and what failed to change them to whoever has them.
func TestOperationsOfWhatADeploymentIsOpenedWith(t *testing.T) {
	d := newDesk(t)
	d.intendRepository(d.credential("c-1", 1, password("reader", "first")))
	d.intendTarget(d.environment("t-1", 1, environmentSecret(withToken("first"))))
	d.work(time.Second)
	d.apply(d.onTarget("uid-1"))
	d.work(time.Second)
	// opened is of which verbs the operations are that the agent is told, empty: none.
	opened := func(reason, credential, target string) {
		t.Helper()
		var want []runtime.DeploymentOperation
		for _, of := range []struct{ id, verb, kind string }{
			{"c-1", credential, "GitOpsDeploymentRepositoryCredential"}, {"t-1", target, "GitOpsDeploymentManagedEnvironment"},
		} {
			if of.verb == "" {
				continue
			}
			o := d.operationsAbout(of.id)[of.verb]
			var spec operation.Spec
			var status operation.Status
			d.must(json.Unmarshal(o.Spec, &spec))
			d.must(json.Unmarshal(o.Status, &status))
			if spec.Cause == "" || o.Created.IsZero() || status.Finished.IsZero() {
				t.Errorf("%s: an operation without cause or times: %+v", reason, o)
			}
			want = append(want, runtime.DeploymentOperation{ID: o.ID, Resource: of.id, Type: of.kind, Owner: "ns-1", Instance: "hub", Cause: string(spec.Cause), Begun: o.Created, Ended: status.Finished})
		}
		if diff := cmp.Diff(want, d.body("hub", "uid-1").Opened); diff != "" {
			t.Errorf("%s: %s", reason, diff)
		}
	}
	// refused are those that have just failed to be changed: the agent is told why, and once.
	refused := func(reason string, ids ...string) {
		t.Helper()
		var got []string
		for _, op := range d.body("hub", "uid-1").Refused {
			o := d.operationsAbout(op.Resource)["update"]
			if phase, why := d.operation(op.ID); phase != operation.Failed || op.Why == "" || op.Why != why || op.ID != o.ID || op.Instance != "hub" || op.Ended.IsZero() {
				t.Errorf("%s: the agent is told %+v of one that is %s: %s", reason, op, phase, why)
			}
			got = append(got, op.Resource)
		}
		if diff := cmp.Diff(ids, got); diff != "" {
			t.Errorf("%s: %s", reason, diff)
		}
	}
	opened("both are new", "create", "create")
	refused("both are new")
	first := d.body("hub", "uid-1")

	d.gate.err = denied()
	d.intendRepository(d.credential("c-1", 1, password("reader", "second")))
	d.work(time.Second)
	opened("a password that is wrong opens nothing", "create", "create")
	refused("a password that is wrong", "c-1")
	d.gate.err = nil
	item := mustItem(d, "uid-1")
	d.work(time.Hour)
	if now := mustItem(d, "uid-1"); now.Generation != item.Generation+1 { // the password is right by now
		t.Errorf("it was handed over %d times more", now.Generation-item.Generation)
	}
	opened("its operation had failed before it was found good", "", "create")
	refused("it is found good")

	d.remote.check = fault.New(fault.Denied, "%s", gitops.TargetForbidden).Because("UnableToValidateClusterCredentials")
	d.intendTarget(d.environment("t-1", 1, environmentSecret(withToken("wrong"))))
	d.work(time.Second)
	opened("a token that is wrong opens nothing", "", "create")
	refused("a token that is wrong", "t-1")
	d.remote.check = nil
	d.intendTarget(d.environment("t-1", 1, environmentSecret(withToken("second"))))
	d.intendRepository(d.credential("c-1", 1, password("reader", "third")))
	d.work(time.Second)
	opened("another token", "update", "update")
	refused("another token")
	is, item := d.body("hub", "uid-1"), mustItem(d, "uid-1")
	if !is.Credential.Since.After(first.Credential.Since) || !is.Target.Since.After(first.Target.Since) {
		t.Errorf("they are so since %s and %s, and were since %s and %s", is.Credential.Since, is.Target.Since, first.Credential.Since, first.Target.Since)
	}
	if !is.Credential.Since.Equal(d.repository("c-1").Status.Since) || !is.Target.Since.Equal(d.target("t-1").Status.Since) || is.Credential.Since.IsZero() || is.Target.Since.IsZero() {
		t.Errorf("they are so since %s and %s", is.Credential.Since, is.Target.Since)
	}
	in := d.credential("c-1", 2, password("reader", "third"))
	in.SecretName = "renamed"
	d.intendRepository(in)
	d.work(24 * time.Hour)
	if now := mustItem(d, "uid-1"); now.Generation != item.Generation {
		t.Errorf("it is handed over again and again: %d and %d", item.Generation, now.Generation)
	}

	gone := d.environment("t-1", 1, nil)
	gone.Gone = true
	d.intendTarget(gone)
	d.work(time.Second)
	if got := d.body("hub", "uid-1"); !got.Detached || len(got.Opened) != 1 || got.Opened[0].Resource != "c-1" {
		t.Errorf("the environment is gone: %+v", got)
	}
}
