package kubeapi_test

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"pgregory.net/rapid"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/droverhq/drover/internal/gitops"
	"github.com/droverhq/drover/internal/kubeapi"
	"github.com/droverhq/drover/internal/kubeapi/v1alpha1"
	"github.com/droverhq/drover/internal/runtime"
)

var (
	then = time.Date(2026, 11, 15, 12, 0, 0, 5e8, time.UTC)
	mark = metav1.NewTime(then.Truncate(time.Second))
)

func TestDeploymentStatus(t *testing.T) {
	v := gitops.DeploymentView{
		Sync: runtime.SyncStatus{Status: "Synced", Revision: "abc"}, Health: runtime.HealthStatus{Status: "Healthy", Message: "fine"},
		Conditions: []gitops.Condition{{Type: "SyncError", Status: "True", Reason: "SyncError", Message: "no", Changed: then}},
		Resources:  []runtime.DeployedResource{{Kind: "ConfigMap", Name: "c", Status: "Synced"}, {Kind: "Pod", Name: "p", Health: &runtime.HealthStatus{Status: "Degraded"}}},
		Compared:   &runtime.Compared{Repository: "r", Path: "p", Revision: "main", Target: "prod", Namespace: "shop"},
		History:    []gitops.Revision{{DeployedRevision: runtime.DeployedRevision{ID: 3, Revision: "abc", Deployed: then, By: "automated"}, Author: "me", Message: "it"}, {}},
	}
	want := v1alpha1.GitOpsDeploymentStatus{
		Sync: v1alpha1.SyncStatus{Status: "Synced", Revision: "abc"}, Health: v1alpha1.HealthStatus{Status: "Healthy", Message: "fine"},
		Conditions: []v1alpha1.GitOpsDeploymentCondition{{Type: "SyncError", Status: "True", Reason: "SyncError", Message: "no", LastProbeTime: &mark, LastTransitionTime: &mark}},
		Resources:  []v1alpha1.ResourceStatus{{Kind: "ConfigMap", Name: "c", Status: "Synced"}, {Kind: "Pod", Name: "p", Health: &v1alpha1.HealthStatus{Status: "Degraded"}}},
		ReconciledState: v1alpha1.ReconciledState{
			Source:      v1alpha1.ReconciledSource{RepoURL: "r", Path: "p", Branch: "main"},
			Destination: v1alpha1.ReconciledDestination{Name: "prod", Namespace: "shop"},
		},
		History: []v1alpha1.RevisionHistory{{ID: 3, Revision: "abc", Author: "me", Message: "it", DeployedAt: mark, InitiatedBy: "automated"}},
	}
	if diff := cmp.Diff(want, kubeapi.DeploymentStatus(v, v1alpha1.GitOpsDeploymentStatus{}, then)); diff != "" {
		t.Error(diff)
	}
}

func TestOperationState(t *testing.T) {
	for _, c := range []struct {
		reason, raw string
		shown       bool
	}{
		{"nothing was asked yet", ``, false},
		{"what cannot be read is not shown", `{"phase":[]}`, false},
		{"the API would refuse it without a phase", `{"startedAt":"2026-11-15T12:00:00Z"}`, false},
		{"nor without a beginning", `{"phase":"Running"}`, false},
		{"the end stands in for the beginning", `{"phase":"Failed","finishedAt":"2026-11-15T12:00:00Z"}`, true},
		{"words that are not known are left out", `{"phase":"Running","startedAt":"2026-11-15T12:00:00Z","novel":1}`, true},
	} {
		s := kubeapi.DeploymentStatus(gitops.DeploymentView{Operation: json.RawMessage(c.raw)}, v1alpha1.GitOpsDeploymentStatus{}, then)
		if (s.OperationState != nil) != c.shown {
			t.Errorf("%s: %+v", c.reason, s.OperationState)
		}
		if s.OperationState != nil && s.OperationState.StartedAt.IsZero() {
			t.Errorf("%s: no beginning", c.reason)
		}
	}
}

// Whatever there is to tell fits into an object of the API, and the condition about
// what is left out moves only when that changes.
func TestStatusFits(t *testing.T) {
	big := func(n int) gitops.DeploymentView {
		v := gitops.DeploymentView{Health: runtime.HealthStatus{Message: strings.Repeat("x", 1<<20)}}
		op := map[string]any{"phase": "Running", "startedAt": then, "message": strings.Repeat("y", 1<<20)}
		var results []map[string]string
		for i := range n {
			v.Resources = append(v.Resources, runtime.DeployedResource{Kind: "Deployment", Name: fmt.Sprintf("%0200d", i), Status: "Synced"})
			results = append(results, map[string]string{"name": fmt.Sprintf("%0200d", i), "message": strings.Repeat("z", 500)})
		}
		op["syncResult"] = map[string]any{"revision": "abc", "resources": results}
		v.Operation, _ = json.Marshal(op)
		return v
	}
	one := kubeapi.DeploymentStatus(big(10_000), v1alpha1.GitOpsDeploymentStatus{}, then)
	data, err := json.Marshal(one)
	if err != nil || len(data) > 1<<20 {
		t.Fatalf("%d bytes, %v", len(data), err)
	}
	again := kubeapi.DeploymentStatus(big(10_000), one, then.Add(time.Hour))
	if diff := cmp.Diff(one, again); diff != "" {
		t.Errorf("looking again changed it: %s", diff)
	}
	over := kubeapi.DeploymentStatus(big(1), one, then.Add(time.Hour))
	want := metav1.NewTime(mark.Add(time.Hour))
	if diff := cmp.Diff([]v1alpha1.GitOpsDeploymentCondition{{Type: "ResourcesTruncated", Status: "False", Reason: "ResourcesTruncatedResolved", LastProbeTime: &want, LastTransitionTime: &want}}, over.Conditions); diff != "" {
		t.Errorf("once all is listed: %s", diff)
	}
	more := big(1)
	more.More = 7
	if c := kubeapi.DeploymentStatus(more, v1alpha1.GitOpsDeploymentStatus{}, then).Conditions; len(c) != 1 || !strings.Contains(c[0].Message, "there are 8 resources, of which 1 are listed") {
		t.Errorf("what the agent left out is told as %+v", c)
	}
	run := gitops.SyncRunView{Phase: "Failed", Message: "no", Run: &runtime.SyncRun{}}
	for i := range 10_000 {
		run.Run.Resources = append(run.Run.Resources, runtime.SyncedResource{Kind: "Pod", Name: fmt.Sprintf("%0100d", i), Status: "Synced"})
	}
	run.Run.Resources[9_999].Status = "SyncFailed"
	s := kubeapi.SyncRunStatus(run)
	if n := len(s.Resources); n >= 10_000 || s.Resources[n-1].Status != "SyncFailed" || !strings.Contains(s.Message, "of 10000 resources are listed") {
		t.Errorf("a run lists %d: %s", n, s.Message)
	}
}

func TestFit(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		list := rapid.SliceOfN(rapid.StringMatching(`[ab]{0,20}`), 0, 50).Draw(t, "list")
		limit := rapid.IntRange(0, 600).Draw(t, "bytes")
		first := func(s string) bool { return strings.HasPrefix(s, "a") }
		got := kubeapi.Fit(slices.Clone(list), limit, first)
		size := func(l []string) (n int) {
			for _, s := range l {
				n += len(s) + 3 // quotes and a comma
			}
			return n
		}
		switch {
		case size(list) <= limit && !slices.Equal(got, list):
			t.Fatalf("%v fits, and became %v", list, got)
		case size(got) > limit && size(list) > limit:
			t.Fatalf("%v does not fit into %d", got, limit)
		}
		rest := list
		for _, s := range got { // in the order that they had
			i := slices.Index(rest, s)
			if i < 0 {
				t.Fatalf("%v is no part of %v", got, list)
			}
			rest = rest[i+1:]
		}
		count := func(l []string) (n int) {
			for _, s := range l {
				if first(s) {
					n++
				}
			}
			return n
		}
		if count(got) < count(list) && slices.ContainsFunc(got, func(s string) bool { return !first(s) && len(s) >= 20 }) {
			t.Fatalf("another was preferred in %v of %v", got, list)
		}
	})
}

func TestShort(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		s := rapid.StringN(0, -1, 3*kubeapi.MaxMessage).Draw(t, "text")
		got := kubeapi.Short(s)
		if len(got) > kubeapi.MaxMessage || utf8.ValidString(s) && !utf8.ValidString(got) || len(s) <= kubeapi.MaxMessage && got != s {
			t.Fatalf("%d bytes became %d", len(s), len(got))
		}
	})
}

func TestConditions(t *testing.T) {
	got := kubeapi.Conditions([]gitops.Condition{
		{Type: "A", Status: "True", Reason: "Fine", Message: "m", Changed: then},
		{Type: "B", Status: "", Reason: "no reason at all"},
	}, then)
	want := []metav1.Condition{
		{Type: "A", Status: metav1.ConditionTrue, Reason: "Fine", Message: "m", LastTransitionTime: mark},
		{Type: "B", Status: metav1.ConditionUnknown, Reason: "B", LastTransitionTime: mark},
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
}

// A status that went to the API and back is ours; one in which anything was
// changed is not; and what is kept in memory gives the same verdict.
func TestVerdict(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		text := rapid.StringMatching(`[a-z]{0,5}`)
		o := &v1alpha1.GitOpsDeployment{}
		if v := kubeapi.Judge(o); v != kubeapi.Empty {
			t.Fatalf("an empty one is %s", v)
		}
		for range rapid.IntRange(0, 3).Draw(t, "conditions") {
			at := metav1.NewTime(time.Unix(rapid.Int64Range(1, 1<<33).Draw(t, "at"), rapid.Int64Range(0, 999).Draw(t, "ns")))
			o.Status.Conditions = append(o.Status.Conditions, v1alpha1.GitOpsDeploymentCondition{Type: text.Draw(t, "type"), LastProbeTime: &at})
		}
		o.Status.Sync.Status, o.Status.Health.Message = text.Draw(t, "sync"), text.Draw(t, "health")
		if rapid.Bool().Draw(t, "resources") {
			o.Status.Resources = []v1alpha1.ResourceStatus{{Name: text.Draw(t, "name"), Health: &v1alpha1.HealthStatus{}}}
		}
		if _, err := kubeapi.Seal(o); err != nil {
			t.Fatal(err)
		}
		data, err := json.Marshal(o)
		if err != nil {
			t.Fatal(err)
		}
		back := &v1alpha1.GitOpsDeployment{}
		if err := json.Unmarshal(data, back); err != nil {
			t.Fatal(err)
		}
		if v := kubeapi.Judge(back); v != kubeapi.Told {
			t.Fatalf("what came back is %s", v)
		}
		if back.Status.Digest != o.Status.Digest {
			t.Fatal("judging changed it")
		}
		want := kubeapi.Told
		switch rapid.IntRange(0, 3).Draw(t, "change") {
		case 1:
			back.Status.Sync.Status += "x"
			want = kubeapi.Damaged
		case 2:
			back.Status.Digest = "x"
			want = kubeapi.Damaged
		case 3:
			back.Status = v1alpha1.GitOpsDeploymentStatus{}
			want = kubeapi.Empty
		}
		back.Annotations = map[string]string{"kubectl.kubernetes.io/last-applied-configuration": "long"}
		for range 2 { // it may be handed what it made
			kept, err := kubeapi.Slim(back)
			if err != nil || kubeapi.VerdictOf(kept.(client.Object)) != want || len(back.Annotations) != 1 || len(back.Status.Conditions) > 0 {
				t.Fatalf("%v is kept, not %s; %v", kept, want, err)
			}
		}
	})
}

func TestNews(t *testing.T) {
	now := metav1.Now()
	base := func() *v1alpha1.GitOpsDeployment {
		return &v1alpha1.GitOpsDeployment{ObjectMeta: metav1.ObjectMeta{UID: "a", Generation: 1}}
	}
	for _, c := range []struct {
		reason string
		change func(*v1alpha1.GitOpsDeployment)
		want   bool
	}{
		{"a status is none", func(o *v1alpha1.GitOpsDeployment) { o.Status.Sync.Status = "Synced"; o.ResourceVersion = "2" }, false},
		{"labels are none", func(o *v1alpha1.GitOpsDeployment) { o.Labels = map[string]string{"a": "b"} }, false},
		{"another spec", func(o *v1alpha1.GitOpsDeployment) { o.Generation = 2 }, true},
		{"another one", func(o *v1alpha1.GitOpsDeployment) { o.UID = "b" }, true},
		{"it is being deleted", func(o *v1alpha1.GitOpsDeployment) { o.DeletionTimestamp = &now }, true},
		{"it is held", func(o *v1alpha1.GitOpsDeployment) { o.Finalizers = []string{v1alpha1.Finalizer} }, true},
	} {
		is := base()
		c.change(is)
		if got := kubeapi.News(base(), is); got != c.want {
			t.Errorf("%s: %v", c.reason, got)
		}
	}
}

func TestManifestsAreWhole(t *testing.T) {
	text := string(kubeapi.Manifests())
	for _, kind := range []string{"gitopsdeployments", "gitopsdeploymentsyncruns", "gitopsdeploymentrepositorycredentials", "gitopsdeploymentmanagedenvironments", "operations"} {
		if !strings.Contains(text, "name: "+kind+".managed-gitops.redhat.com\n") {
			t.Errorf("%s is not defined", kind)
		}
	}
	for _, role := range []string{"drover-gitops-server", "drover-gitops-edit", "drover-gitops-view", "drover-gitops-admin"} {
		if !strings.Contains(text, "name: "+role+"\n") {
			t.Errorf("there is no role %s", role)
		}
	}
	if hook := string(kubeapi.Webhook()); !strings.Contains(hook, kubeapi.AdmissionPath) || strings.Contains(text, "ValidatingWebhook") {
		t.Errorf("the webhook is %s", hook)
	}
}
