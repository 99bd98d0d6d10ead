package cluster_test

import (
	"bytes"
	"encoding/json"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/droverhq/drover/internal/cluster"
	"github.com/droverhq/drover/internal/fault"
)

func TestRights(t *testing.T) {
	for _, c := range []struct {
		reason string
		config cluster.RightsConfig
		want   []string // kinds and where they are
	}{
		{"into some namespaces, and no others", cluster.RightsConfig{Runtime: "kubernetes", Namespaces: []string{"shop", "web"}},
			[]string{"ClusterRole /drover-deploy", "ClusterRole /drover-deploy-workloads", "ClusterRole /drover-deploy-namespaces", "ClusterRoleBinding /drover-deploy-namespaces",
				"RoleBinding shop/drover-deploy", "RoleBinding web/drover-deploy"}},
		{"everywhere, when that is said", cluster.RightsConfig{Runtime: "kubernetes", Everywhere: true},
			[]string{"ClusterRole /drover-deploy", "ClusterRole /drover-deploy-workloads", "ClusterRole /drover-deploy-namespaces", "ClusterRoleBinding /drover-deploy-namespaces",
				"ClusterRoleBinding /drover-deploy"}},
		{"beside Argo CD in its namespace", cluster.RightsConfig{Runtime: "argocd", ArgoCD: "gitops"},
			[]string{"Role gitops/drover-deploy", "RoleBinding gitops/drover-deploy", "ClusterRole /drover-deploy-namespaces", "ClusterRoleBinding /drover-deploy-namespaces"}},
		{"of another agent, beside those of the first", cluster.RightsConfig{Runtime: "argocd", Account: "drover-b/drover-agent"},
			[]string{"Role argocd/drover-deploy", "RoleBinding argocd/drover-deploy-drover-b", "ClusterRole /drover-deploy-namespaces", "ClusterRoleBinding /drover-deploy-namespaces-drover-b"}},
		{"of another account in a namespace", cluster.RightsConfig{Runtime: "kubernetes", Namespaces: []string{"shop"}, Account: "drover-system/second"},
			[]string{"ClusterRole /drover-deploy", "ClusterRole /drover-deploy-workloads", "ClusterRole /drover-deploy-namespaces", "ClusterRoleBinding /drover-deploy-namespaces-second",
				"RoleBinding shop/drover-deploy-second"}},
	} {
		t.Run(c.reason, func(t *testing.T) {
			stream, err := cluster.Rights(c.config)
			if err != nil {
				t.Fatal(err)
			}
			var got []string
			for _, d := range documents(t, stream) {
				meta := d["metadata"].(map[string]any)
				namespace, _ := meta["namespace"].(string)
				got = append(got, d["kind"].(string)+" "+namespace+"/"+meta["name"].(string))
				text, _ := json.Marshal(d["rules"])
				if bytes.Contains(text, []byte("*")) {
					t.Errorf("all of something: %s", text)
				}
				if want := `[{"apiGroups":[""],"resources":["namespaces"],"verbs":["get","list","watch","create"]}]`; d["kind"] == "ClusterRole" && meta["name"] == "drover-deploy-namespaces" && string(text) != want {
					t.Errorf("namespaces that somebody removes are not seen: %s", text)
				}
			}
			if d := cmp.Diff(c.want, got); d != "" {
				t.Error(d)
			}
		})
	}
}

func TestRightsWantToKnowWhere(t *testing.T) {
	for reason, c := range map[string]cluster.RightsConfig{
		"nothing is said":                {},
		"nowhere":                        {Runtime: "kubernetes"},
		"here and everywhere":            {Runtime: "kubernetes", Namespaces: []string{"a"}, Everywhere: true},
		"no namespace":                   {Runtime: "kubernetes", Namespaces: []string{"a\nb"}},
		"an account without a namespace": {Runtime: "argocd", Account: "drover-agent"},
		"an account that is none":        {Runtime: "argocd", Account: "a/{{.}}"},
		"an Argo CD that is nowhere":     {Runtime: "argocd", ArgoCD: "Argo CD"},
		"namespaces beside Argo CD":      {Runtime: "argocd", Namespaces: []string{"a"}},
		"another runtime":                {Runtime: "process", Everywhere: true},
	} {
		if out, err := cluster.Rights(c); !fault.Is(err, fault.Invalid) {
			t.Errorf("%s: %s, %v", reason, out, err)
		}
	}
}
