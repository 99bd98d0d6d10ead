package argocd_test

import (
	"bytes"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	kruntime "k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/dynamic/fake"
	clienttesting "k8s.io/client-go/testing"

	"github.com/droverhq/drover/internal/fault"
	"github.com/droverhq/drover/internal/runtime"
	"github.com/droverhq/drover/internal/runtime/argocd"
)

func TestOldOperations(t *testing.T) {
	now := time.Date(2026, 1, 2, 12, 0, 0, 0, time.UTC)
	ago := func(d time.Duration) any { return now.Add(-d).Format(time.RFC3339) }
	for _, tc := range []struct {
		reason string
		status object
		works  bool
		want   bool
	}{
		{"nothing is known of it", object{}, false, false},
		{"it was heard of just now", object{"state": "In_Progress", "lastStateUpdate": ago(time.Minute)}, false, false},
		{"it is under way for long", object{"state": "In_Progress", "lastStateUpdate": ago(25 * time.Hour)}, true, false},
		{"it was left by whoever began it", object{"state": "In_Progress", "lastStateUpdate": ago(2 * time.Hour)}, false, true},
		{"it has just ended", object{"state": "Completed", "lastStateUpdate": ago(30 * time.Hour), "finishedAt": ago(time.Minute)}, false, false},
		{"nearly ten minutes", object{"state": "Completed", "finishedAt": ago(10*time.Minute - time.Second)}, false, false},
		{"ten minutes", object{"state": "Completed", "finishedAt": ago(10 * time.Minute)}, false, true},
		{"it has failed a while ago", object{"state": "Failed", "finishedAt": ago(11 * time.Minute)}, false, true},
	} {
		t.Run(tc.reason, func(t *testing.T) {
			if got := argocd.Old(&unstructured.Unstructured{Object: object{"status": tc.status}}, tc.works, now); got != tc.want {
				t.Errorf("old: %v", got)
			}
		})
	}
}

var operationsOf = schema.GroupVersionResource{Group: "managed-gitops.redhat.com", Version: "v1alpha1", Resource: "operations"}

// counter is a cluster that has Operations, and a clock.
type counter struct {
	*argocd.Operations
	t      *testing.T
	client *fake.FakeDynamicClient
	now    time.Time
	log    bytes.Buffer
}

func newCounter(t *testing.T) *counter {
	c := &counter{t: t, now: time.Date(2026, 1, 2, 12, 0, 0, 0, time.UTC)}
	c.client = fake.NewSimpleDynamicClientWithCustomListKinds(kruntime.NewScheme(), map[schema.GroupVersionResource]string{operationsOf: "OperationList"})
	c.Operations = argocd.OpenOperations(c.client, func() time.Time { return c.now }, slog.New(slog.NewTextHandler(&c.log, nil)))
	return c
}

// states of what is shown, by operation.
func (c *counter) states() map[string]string {
	c.t.Helper()
	c.Flush(c.t.Context())
	list, err := c.client.Resource(operationsOf).Namespace("argocd").List(c.t.Context(), metav1.ListOptions{})
	if err != nil {
		c.t.Fatal(err)
	}
	out := map[string]string{}
	for _, o := range list.Items {
		id, _, _ := unstructured.NestedString(o.Object, "spec", "operationID")
		state, _, _ := unstructured.NestedString(o.Object, "status", "state")
		message, _, _ := unstructured.NestedString(o.Object, "status", "message")
		out[id] = strings.TrimSuffix(state+": "+message, ": ")
	}
	return out
}

func (c *counter) shows(reason string, want map[string]string) {
	c.t.Helper()
	if d := cmp.Diff(want, c.states()); d != "" {
		c.t.Errorf("%s: %s", reason, d)
	}
}

func op(id string) runtime.DeploymentOperation {
	return runtime.DeploymentOperation{ID: id, Owner: "w", Resource: "d", Type: "GitOpsDeployment", Cause: "request:1", Instance: "edge"}
}

// An operation is written down with its item: nothing is left to write before the
// Application.
func TestOperationsAreWrittenDownOnce(t *testing.T) {
	one := op("one")
	d := runtime.Deployment{UID: "d", Name: "shop", Workspace: "w", Repository: "https://git.example.org/shop.git", Path: "k8s", Namespace: "shop", Operation: &one}
	for _, tc := range []struct {
		reason, own string
		again       bool
	}{
		{"it is new", "", false},
		{"it was made before", `{"last":{"uid":"d"},"done":{"id":"zero","state":"Completed","at":"2026-01-02T12:00:00Z"}}`, false},
		{"it has ended", `{"last":{"uid":"d"},"done":{"id":"one","state":"Completed","at":"2026-01-02T12:00:00Z"}}`, false},
		{"it overtakes another, which has to be shown first", `{"last":{"uid":"d"},"open":{"id":"zero"}}`, true},
	} {
		t.Run(tc.reason, func(t *testing.T) {
			c := newCounter(t)
			with, before := c.Prepared(d, tc.own)
			if again := with != before; again != tc.again {
				t.Errorf("written with it %s, and before the Application %s", with, before)
			}
			if tc.again {
				c.shows("overtaken", map[string]string{"zero": "Completed: a later request took its place", "one": "In_Progress"})
			}
		})
	}
}

func TestOperationsOfADeployment(t *testing.T) {
	c := newCounter(t)
	c.Announce(op("one"))
	c.shows("under way", map[string]string{"one": "In_Progress"})
	o, err := c.client.Resource(operationsOf).Namespace("argocd").Get(t.Context(), "operation-one", metav1.GetOptions{})
	if err != nil {
		t.Fatal(err)
	}
	want := map[string]any{"operationID": "one", "instance": "edge/argocd", "owner": "w", "resource": "d", "resourceType": "GitOpsDeployment", "cause": "request:1"}
	if d := cmp.Diff(want, o.Object["spec"]); d != "" {
		t.Error(d)
	}
	c.Conclude(op("one"), fault.New(fault.Unavailable, "nobody answers"))
	c.shows("it is tried again", map[string]string{"one": "In_Progress"})
	c.Announce(op("two"))
	c.shows("overtaken", map[string]string{"one": "Completed: a later request took its place", "two": "In_Progress"})
	c.Conclude(op("two"), fault.New(fault.Invalid, "the path leads out"))
	c.Announce(op("three"))
	c.Conclude(op("three"), nil)
	c.shows("ended", map[string]string{"one": "Completed: a later request took its place", "two": "Failed: the path leads out", "three": "Completed"})

	c.now = c.now.Add(10*time.Minute - time.Second)
	c.Announce(op("four"))
	c.Flush(t.Context())
	c.Sweep(t.Context())
	if got := c.states(); len(got) != 4 || c.Shown() != 4 {
		t.Errorf("before ten minutes: %v, of which %d are counted", got, c.Shown())
	}
	c.now = c.now.Add(time.Second)
	c.Sweep(t.Context())
	if got := c.Shown(); got != 1 {
		t.Errorf("%d are counted after ten minutes", got)
	}
	c.shows("after ten minutes", map[string]string{"four": "In_Progress"})
	c.now = c.now.Add(48 * time.Hour)
	c.Sweep(t.Context())
	c.shows("what goes on stays", map[string]string{"four": "In_Progress"})
}

func TestOperationsOfSyncsAndRemovals(t *testing.T) {
	c := newCounter(t)
	sync := func(id string) runtime.SyncRequest {
		o := op("op-" + id)
		o.Type = "GitOpsDeploymentSyncRun"
		return runtime.SyncRequest{ID: id, Operation: &o}
	}
	c.Follow(sync("a"), runtime.SyncRun{ID: "a", Phase: "Running", Message: "it waits"}, false)
	c.shows("it has not begun", map[string]string{"op-a": "Waiting"})
	c.Follow(sync("a"), runtime.SyncRun{ID: "a", Phase: "Running"}, true)
	c.shows("it runs", map[string]string{"op-a": "In_Progress"})
	c.Follow(sync("a"), runtime.SyncRun{ID: "a", Phase: "Succeeded", Message: "successfully synced"}, true)
	c.Follow(sync("b"), runtime.SyncRun{ID: "b", Phase: "Terminated"}, false)
	c.Follow(sync("c"), runtime.SyncRun{ID: "c", Phase: "Running"}, true)
	want := map[string]string{"op-a": "Completed: successfully synced", "op-b": "Failed: the sync terminated", "op-c": "In_Progress"}
	c.shows("outcomes", want)

	last := plain()
	s := sync("c")
	last.Sync = &s
	c.Announce(op("change"))
	gone := c.Parts(op("delete"), last)
	want["op-c"], want["change"], want["delete"] = "Failed: the deployment was deleted", "Completed: a later request took its place", "In_Progress"
	c.shows("it goes", want)
	c.Parts(op("delete"), last)
	gone()
	want["delete"] = "Completed"
	c.shows("it is gone", want)
}

// What has ended is shown though whoever was to show it has died before.
func TestOperationsAreToldAgain(t *testing.T) {
	c := newCounter(t)
	d, change, run := plain(), op("change"), op("run")
	d.Operation, d.Sync = &change, &runtime.SyncRequest{ID: "a", Operation: &run}
	c.Conclude(change, nil)
	c.Follow(*d.Sync, runtime.SyncRun{ID: "a", Phase: "Failed", Message: "no such path", Finished: c.now}, true)
	c.now = c.now.Add(9 * time.Minute)
	c.Restart(d, nil)
	want := map[string]string{"change": "Completed", "run": "Failed: no such path"}
	c.shows("soon after", want)
	c.now = c.now.Add(2 * time.Minute)
	c.Sweep(t.Context())
	c.Restart(d, nil)
	delete(want, "change") // it was shown as of its end, ten minutes ago
	c.shows("what ended long ago is not shown anew", want)

	going := op("delete")
	c.Restart(d, &going)
	want["delete"] = "Completed"
	c.shows("a removal that was over", want)

	fails := 2
	c.client.PrependReactor("create", "operations", func(clienttesting.Action) (bool, kruntime.Object, error) {
		fails--
		return fails >= 0, nil, errors.New("connection refused")
	})
	c.Depart(t.Context(), op("another"))
	want["another"] = "Completed"
	c.shows("shown before it is forgotten, at the third try", want)
	fails = 3
	c.Depart(t.Context(), op("too late")) // and then it goes all the same
	fails = 0
	c.Parts(op("quick"), d)
	c.Depart(t.Context(), op("quick"))
	if got := c.states()["quick"]; got != "Completed" {
		t.Errorf("a removal that is over is shown as %q again", got)
	}
}

func TestOperationsThatAreRefused(t *testing.T) {
	of := schema.GroupResource{Group: operationsOf.Group, Resource: "operations"}
	missing := &apierrors.StatusError{ErrStatus: metav1.Status{Reason: metav1.StatusReasonNotFound, Message: "the server could not find the requested resource"}}
	for _, tc := range []struct {
		reason string
		err    error
		shown  int  // of the other nineteen
		again  bool // it is shown once the cluster takes it
		says   string
	}{
		{"one that is invalid is left out", apierrors.NewInvalid(schema.GroupKind{Group: operationsOf.Group, Kind: "Operation"}, "x", nil), 19, false, "is refused by the cluster"},
		{"one that may not be written now is kept", apierrors.NewForbidden(of, "x", nil), 19, true, ""},
		{"one that was not found is no missing kind", apierrors.NewNotFound(of, "x"), 19, true, ""},
		{"nobody answers", errors.New("connection refused"), -1, true, ""},
		{"there is no such kind", missing, -1, false, "the cluster has no Operation"},
		{"there is no namespace", apierrors.NewNotFound(schema.GroupResource{Resource: "namespaces"}, "argocd"), -1, false, "there is no namespace argocd"},
	} {
		t.Run(tc.reason, func(t *testing.T) {
			c, bad := newCounter(t), true
			c.client.PrependReactor("create", "operations", func(a clienttesting.Action) (bool, kruntime.Object, error) {
				o := a.(clienttesting.CreateAction).GetObject().(*unstructured.Unstructured)
				return bad && o.GetName() == "operation-bad", nil, tc.err
			})
			for i := range 19 {
				id := op(fmt.Sprint("op-", i))
				c.Announce(id)
				c.Conclude(id, nil)
			}
			c.Announce(op("bad"))
			if got := len(c.states()); tc.shown >= 0 && got != tc.shown {
				t.Errorf("%d are shown", got)
			}
			bad = false
			if _, shown := c.states()["bad"]; shown != tc.again {
				t.Errorf("afterwards it is shown: %v", shown)
			}
			if !strings.Contains(c.log.String(), tc.says) {
				t.Errorf("the log says %s", c.log.String())
			}
		})
	}
}

// What a credential was changed by is shown once it is in place, however many use it,
// and not days later.
func TestOperationsOfWhatIsOpenedWith(t *testing.T) {
	c := newCounter(t)
	made := func(id string, ago time.Duration) runtime.DeploymentOperation {
		of := op(id)
		of.Type, of.Begun, of.Ended = "GitOpsDeploymentRepositoryCredential", c.now.Add(-ago-time.Second), c.now.Add(-ago)
		return of
	}
	fresh, stale := made("fresh", time.Minute), made("stale", 10*time.Minute)
	c.Opened(fresh, stale)
	c.shows("it has just ended", map[string]string{"fresh": "Completed"})
	list, err := c.client.Resource(operationsOf).Namespace("argocd").List(t.Context(), metav1.ListOptions{})
	if err != nil {
		t.Fatal(err)
	}
	for path, want := range map[string]string{"spec.resourceType": "GitOpsDeploymentRepositoryCredential", "spec.instance": "edge/argocd",
		"status.startedAt": "2026-01-02T11:58:59Z", "status.finishedAt": "2026-01-02T11:59:00Z"} {
		if got, _, _ := unstructured.NestedString(list.Items[0].Object, strings.Split(path, ".")...); got != want {
			t.Errorf("%s is %q", path, got)
		}
	}
	before := len(c.client.Actions())
	c.Opened(fresh)
	c.Opened(fresh, stale)
	c.Flush(t.Context())
	if calls := len(c.client.Actions()) - before; calls != 0 {
		t.Errorf("others that use it cost %d calls", calls)
	}
	if n := c.Forget(); n != 1 {
		t.Errorf("%d are remembered", n)
	}
	c.now = c.now.Add(9 * time.Minute)
	if n := c.Forget(); n != 0 {
		t.Errorf("%d are remembered for ever", n)
	}
	c.Opened(fresh)
	c.Flush(t.Context())
	if calls := len(c.client.Actions()) - before; calls != 0 {
		t.Errorf("what is old was shown with %d calls", calls)
	}
}

// What failed to change a credential is shown as failed, with its reason, and once.
func TestOperationsThatFailedToChangeWhatIsOpenedWith(t *testing.T) {
	c := newCounter(t)
	of := op("refused")
	of.Type, of.Begun, of.Ended, of.Why = "GitOpsDeploymentRepositoryCredential", c.now.Add(-2*time.Minute), c.now.Add(-time.Minute), "the server does not take the credential"
	c.Refused(of)
	c.shows("it has just failed", map[string]string{"refused": "Failed: the server does not take the credential"})
	before := len(c.client.Actions())
	c.Refused(of)
	c.Flush(t.Context())
	if calls := len(c.client.Actions()) - before; calls != 0 {
		t.Errorf("others that use it cost %d calls", calls)
	}
}
