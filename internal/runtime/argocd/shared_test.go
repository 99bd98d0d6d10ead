package argocd_test

import (
	"fmt"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/droverhq/drover/internal/runtime/argocd"
)

func TestBothAreWarned(t *testing.T) {
	one := parse(t, `{"metadata":{"namespace":"argocd","name":"one"},"spec":{"project":"p"}}`)
	for _, tc := range []struct {
		reason, project, condition string
		want                       []string
	}{
		{"the other one is warned", "p", `{"type":"SharedResourceWarning","message":"ConfigMap/a is part of applications argocd/two and one"}`,
			[]string{"ConfigMap/a is part of applications argocd/one and two"}},
		{"of an Application in another namespace", "p", `{"type":"SharedResourceWarning","message":"ConfigMap/a is part of applications argocd/two and argocd_one"}`,
			[]string{"ConfigMap/a is part of applications argocd/one and two"}},
		{"of somebody else", "p", `{"type":"SharedResourceWarning","message":"ConfigMap/a is part of applications argocd/two and three"}`, nil},
		{"of another project: an object may be labelled as anybody's", "q", `{"type":"SharedResourceWarning","message":"ConfigMap/a is part of applications argocd/two and one"}`, nil},
		{"another condition", "p", `{"type":"SyncError","message":"ConfigMap/a is part of applications argocd/two and one"}`, nil},
		{"other words", "p", `{"type":"SharedResourceWarning","message":"ConfigMap/a belongs to one"}`, nil},
		{"no words", "p", `{"type":"SharedResourceWarning"}`, nil},
		{"no condition", "p", `null`, nil},
	} {
		two := parse(t, fmt.Sprintf(`{"metadata":{"namespace":"argocd","name":"two"},"spec":{"project":%q},"status":{"conditions":[%s]}}`, tc.project, tc.condition))
		var got []string
		for _, c := range argocd.Warnings(one, two, one) {
			got = append(got, c.Message)
		}
		if diff := cmp.Diff(tc.want, got); diff != "" {
			t.Errorf("%s: %s", tc.reason, diff)
		}
	}
	two := parse(t, `{"status":{"conditions":[{"type":"SharedResourceWarning","message":"ConfigMap/a is part of applications argocd/two and argocd_one"}]}}`)
	if diff := cmp.Diff([]string{"one"}, argocd.Sharers(two)); diff != "" {
		t.Error(diff)
	}
}
