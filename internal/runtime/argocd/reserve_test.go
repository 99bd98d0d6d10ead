package argocd_test

import (
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"pgregory.net/rapid"

	"github.com/droverhq/drover/internal/runtime"
	"github.com/droverhq/drover/internal/runtime/argocd"
)

// globs matches as Argo CD does, which knows the same three signs.
func globs(pattern, text string) bool {
	expr := strings.NewReplacer("*", ".*", "?", ".", "[!", "[^").Replace(pattern)
	return regexp.MustCompile("^" + expr + "$").MatchString(text)
}

func placesOf(cfg argocd.Config, d runtime.Deployment) (out []string) {
	projects, _ := argocd.Scopes(cfg, map[string]runtime.Deployment{"a": d})
	list, _, _ := unstructured.NestedSlice(projects[argocd.ProjectName(d)].Object, "spec", "destinations")
	for _, x := range list {
		out = append(out, x.(map[string]any)["namespace"].(string))
	}
	return out
}

func TestPatternsLeaveReservedNamespacesOut(t *testing.T) {
	for _, tc := range []struct {
		reason string
		reach  []string
		want   []string
	}{
		{"what covers nothing of it stays", []string{"team-*"}, []string{"team-*"}},
		{"a letter more or less is another's", []string{"argoc*"}, []string{"argoc", "argocd?*", "argoc[!d]*"}},
		{"its own name as a prefix", []string{"kube-system*"}, []string{"kube-system?*"}},
		{"a line is no range", []string{"kube*"}, []string{
			"kube", "kube-", "kube-s", "kube-sy", "kube-sys", "kube-syst", "kube-syste", "kube-system?*", "kube-syste[!m]*", "kube-syst[!e]*", "kube-sys[!t]*", "kube-sy[!s]*", "kube-s[!y]*", "kube-[!s]*", "kube[!-]*"}},
		{"who names it means it", []string{"kube-*", "kube-system"}, []string{
			"kube-", "kube-s", "kube-sy", "kube-sys", "kube-syst", "kube-syste", "kube-system", "kube-system?*", "kube-syste[!m]*", "kube-syst[!e]*", "kube-sys[!t]*", "kube-sy[!s]*", "kube-s[!y]*", "kube-[!s]*"}},
		{"Argo CD's is nobody's, whoever names it", []string{"argocd", "shop"}, []string{"shop"}},
	} {
		got := placesOf(argocd.Config{}, runtime.Deployment{Workspace: "w", Namespaces: tc.reach, Repository: "https://x/y", Path: "a", Namespace: "shop", UID: "u"})
		slices.Sort(tc.want)
		slices.Sort(got)
		if d := cmp.Diff(tc.want, got); d != "" {
			t.Errorf("%s (-want +got):\n%s", tc.reason, d)
		}
	}
}

// An agent beside another one, which is where agents are: neither is reached.
func TestAgentsSideBySideAreReserved(t *testing.T) {
	for _, reach := range []string{"*", "drover-*", "drover-system*", "drover-system", "drover-far"} {
		got := placesOf(argocd.Config{Namespace: "drover-far"}, runtime.Deployment{Workspace: "w", Namespaces: []string{reach}, Repository: "https://x/y", Path: "a", Namespace: "shop", UID: "u"})
		for _, ns := range []string{"drover-system", "drover-far"} {
			if slices.ContainsFunc(got, func(p string) bool { return globs(p, ns) }) {
				t.Errorf("who may reach %q reaches %s by %q", reach, ns, got)
			}
		}
	}
}

// TestPatternsCoverTheSame holds patterns against what they stand for, over names of
// few letters.
func TestPatternsCoverTheSame(t *testing.T) {
	name := rapid.StringMatching(`[a-c-]{1,4}`)
	rapid.Check(t, func(t *rapid.T) {
		cfg := argocd.Config{ArgoCD: name.Draw(t, "argocd"), Namespace: name.Draw(t, "agent")}
		prefix := rapid.StringMatching(`[a-c-]{0,3}`).Draw(t, "prefix")
		got := placesOf(cfg, runtime.Deployment{Workspace: "w", Namespaces: []string{prefix + "*"}, Repository: "https://x/y", Path: "a", Namespace: "shop", UID: "u"})
		for range 20 {
			ns := rapid.OneOf(name, rapid.Just(cfg.ArgoCD), rapid.Just(cfg.Namespace), rapid.Just("kube-system"), rapid.Just("drover-system"), rapid.StringMatching(`kube-systems?x?`)).Draw(t, "namespace")
			want := strings.HasPrefix(ns, prefix) && ns != cfg.ArgoCD && ns != cfg.Namespace && ns != "kube-system" && ns != "drover-system"
			if is := slices.ContainsFunc(got, func(p string) bool { return globs(p, ns) }); is != want {
				t.Fatalf("%q is covered by %q: %v, want %v", ns, got, is, want)
			}
		}
	})
}
