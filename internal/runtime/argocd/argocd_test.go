package argocd_test

import (
	"encoding/base64"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"pgregory.net/rapid"

	"github.com/droverhq/drover/internal/fault"
	"github.com/droverhq/drover/internal/runtime"
	"github.com/droverhq/drover/internal/runtime/argocd"
)

type object = map[string]any

func TestOptions(t *testing.T) {
	got, rest, err := argocd.Options([]string{"argocd=openshift-gitops", "operations=false", "deny=/Pod", "deny=networking.k8s.io/NetworkPolicy", "lease=mine", "resync=5m", "workers=3", "unit=cpu=1", "namespace=n", "redis=rediss://cache:6380"}, argocd.Config{})
	if err != nil || got.ArgoCD != "openshift-gitops" || !got.Quiet || len(got.Deny) != 2 || got.Lease != "mine-argocd" || got.Resync != 5*time.Minute || got.Workers != 3 || got.Namespace != "n" || got.Redis != "rediss://cache:6380" {
		t.Errorf("got %+v, %v", got, err)
	}
	if diff := cmp.Diff([]string{"lease=mine", "resync=5m", "unit=cpu=1", "namespace=n"}, rest); diff != "" {
		t.Errorf("left for the runtime beside: %s", diff)
	}
	for _, tc := range []struct{ reason, option string }{
		{"no pair", "argocd"},
		{"no namespace", "argocd=Not One"},
		{"neither yes nor no", "operations=maybe"},
		{"no kind", "deny=pods"},
		{"no time", "resync=soon"},
		{"nobody works", "workers=0"},
		{"no port", "redis=cache"},
		{"no password", "redis-password-file=/there/is/no/such/file"},
		{"no file", "kubeconfig=/there/is/no/such/file"},
	} {
		t.Run(tc.reason, func(t *testing.T) {
			if _, _, err := argocd.Options([]string{tc.option}, argocd.Config{}); !fault.Is(err, fault.Invalid) {
				t.Errorf("got %v", err)
			}
		})
	}
}

func plain() runtime.Deployment {
	return runtime.Deployment{UID: "u1", Workspace: "w1", Namespaces: []string{"shop"}, Repository: "https://git.example.com/shop", Path: "k8s", Namespace: "shop"}
}

func with(change func(*runtime.Deployment)) runtime.Deployment {
	d := plain()
	change(&d)
	return d
}

func TestRead(t *testing.T) {
	for _, tc := range []struct {
		reason string
		d      runtime.Deployment
		words  string // empty: it is taken
	}{
		{"an ordinary one", plain(), ""},
		{"the root of the repository", with(func(d *runtime.Deployment) { d.Path = "." }), ""},
		{"a name that has two dots", with(func(d *runtime.Deployment) { d.Path = "a/..b/c..d" }), ""},
		{"an address of SSH", with(func(d *runtime.Deployment) { d.Repository = "ssh://git@git.example.com:2222/shop.git" }), ""},
		{"nobody's", with(func(d *runtime.Deployment) { d.Workspace = "" }), "no workspace"},
		{"no path", with(func(d *runtime.Deployment) { d.Path = "" }), "required"},
		{"upwards", with(func(d *runtime.Deployment) { d.Path = "../other" }), "out of the repository"},
		{"upwards in the middle", with(func(d *runtime.Deployment) { d.Path = "a/../../b" }), "out of the repository"},
		{"upwards and back", with(func(d *runtime.Deployment) { d.Path = "a/.." }), "out of the repository"},
		{"absolute", with(func(d *runtime.Deployment) { d.Path = "/etc" }), "relative"},
		{"of Windows", with(func(d *runtime.Deployment) { d.Path = `a\..\..\b` }), "relative"},
		{"with a line break", with(func(d *runtime.Deployment) { d.Path = "a\nb" }), "out of the repository"},
		{"every repository", with(func(d *runtime.Deployment) { d.Repository = "*" }), "address"},
		{"a pattern", with(func(d *runtime.Deployment) { d.Repository = "https://git.example.com/{a,b}" }), "address"},
		{"a denial", with(func(d *runtime.Deployment) { d.Repository = "!https://git.example.com" }), "address"},
		{"an option of Git", with(func(d *runtime.Deployment) { d.Repository = "--upload-pack=x" }), "address"},
		{"a revision that is an option", with(func(d *runtime.Deployment) { d.Revision = "--help" }), "revision"},
		{"every namespace, by a tenant", with(func(d *runtime.Deployment) { d.Namespace = "*" }), "namespace"},
		{"every namespace, by an operator", with(func(d *runtime.Deployment) { d.Namespaces = []string{"*"} }), ""},
		{"namespaces by a prefix, by an operator", with(func(d *runtime.Deployment) { d.Namespaces = []string{"team-*"} }), ""},
		{"by more than that", with(func(d *runtime.Deployment) { d.Namespaces = []string{"{team,other}-*"} }), "namespace"},
		{"all but one", with(func(d *runtime.Deployment) { d.Namespaces = []string{"!team"} }), "namespace"},
		{"a sync option that is none", with(func(d *runtime.Deployment) { d.SyncOptions = []string{"a b"} }), "sync option"},
		{"a target without TLS", with(func(d *runtime.Deployment) { d.Target = &runtime.Target{ID: "t", Server: "http://a"} }), "https"},
		{"a target with a query", with(func(d *runtime.Deployment) { d.Target = &runtime.Target{ID: "t", Server: "https://a?b=c"} }), "https"},
		{"every namespace of a target, said wrongly", with(func(d *runtime.Deployment) {
			d.Target = &runtime.Target{ID: "t", Server: "https://a", Namespaces: []string{"*"}}
		}), "namespace"},
		{"a sync without an id", with(func(d *runtime.Deployment) { d.Sync = &runtime.SyncRequest{} }), "no id"},
	} {
		t.Run(tc.reason, func(t *testing.T) {
			b, _ := json.Marshal(tc.d)
			_, err := argocd.Read(b)
			if tc.words == "" && err != nil || tc.words != "" && (!fault.Is(err, fault.Invalid) || !strings.Contains(err.Error(), tc.words)) {
				t.Errorf("got %v", err)
			}
		})
	}
}

func FuzzRead(f *testing.F) {
	b, _ := json.Marshal(plain())
	f.Add(b)
	f.Add([]byte(`{"uid":"a","workspace":"b","repository":"c","path":"d/../../e","namespace":"f"}`))
	f.Fuzz(func(t *testing.T, b []byte) {
		d, err := argocd.Read(b)
		if err != nil {
			if !fault.Is(err, fault.Invalid) {
				t.Errorf("got %v", err)
			}
			return
		}
		if slices.Contains(strings.Split(d.Path, "/"), "..") || strings.HasPrefix(d.Path, "/") || strings.ContainsAny(d.Repository, "*?!{}[]") || strings.Contains(d.Namespace, "*") {
			t.Errorf("taken: %+v", d)
		}
		if o := argocd.Application("argocd", d); o.GetName() == "" || len(o.GetName()) > 63 {
			t.Errorf("the Application is called %q", o.GetName())
		}
	})
}

func TestApplication(t *testing.T) {
	d := plain()
	d.Automated, d.SyncOptions, d.Target = true, []string{"CreateNamespace=true"}, &runtime.Target{ID: "t1", Server: "https://a", Namespaces: []string{"shop"}}
	got := argocd.Application("argocd", d).Object["spec"]
	want := object{
		"project": "app-project-w1", "source": object{"repoURL": "https://git.example.com/shop", "path": "k8s"},
		"destination": object{"name": "managed-env-t1", "namespace": "shop"},
		"syncPolicy": object{"automated": object{"prune": true, "selfHeal": true, "allowEmpty": true},
			"syncOptions": []any{"PrunePropagationPolicy=background", "CreateNamespace=true"},
			"retry":       object{"limit": int64(-1), "backoff": object{"duration": "5s", "factor": int64(2), "maxDuration": "3m"}}},
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
	d = plain()
	if spec := argocd.Application("argocd", d).Object["spec"].(object); spec["syncPolicy"] != nil || spec["destination"].(object)["name"] != "in-cluster" {
		t.Errorf("a manual one: %v", spec)
	}
	d.Detached = true
	o := argocd.Application("argocd", d)
	if dest := o.Object["spec"].(object)["destination"].(object); dest["name"] != nil || dest["server"] != nil || len(o.GetFinalizers()) != 0 {
		t.Errorf("one whose target is gone goes somewhere: %v", o.Object)
	}
}

// No project allows what none of its own deployments asks for, and no Secret is
// of two projects.
func TestScopesProperty(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		items := map[string]runtime.Deployment{}
		for i := range rapid.IntRange(1, 12).Draw(t, "n") {
			d := runtime.Deployment{UID: fmt.Sprint("u", i), Workspace: rapid.SampledFrom([]string{"w1", "w2"}).Draw(t, "workspace"), Path: "k8s"}
			d.Namespace = d.Workspace + rapid.SampledFrom([]string{"-a", "-b"}).Draw(t, "namespace")
			if rapid.Bool().Draw(t, "reached") {
				d.Namespaces = []string{d.Namespace}
			}
			d.Repository = "https://git/" + rapid.SampledFrom([]string{"x", "y"}).Draw(t, "repository")
			d.ClusterResources = rapid.Bool().Draw(t, "wide")
			if rapid.Bool().Draw(t, "private") {
				d.Credential = &runtime.RepositoryCredential{ID: "c-" + d.Workspace, Username: "u", Password: "of-" + d.Workspace}
			}
			if rapid.Bool().Draw(t, "elsewhere") {
				d.Target = &runtime.Target{ID: "t-" + d.Workspace, Server: "https://one", Token: "of-" + d.Workspace, Namespaces: []string{d.Workspace + "-a", d.Workspace + "-b"}}
			}
			items[d.UID] = d
		}
		projects, secrets := argocd.Scopes(argocd.Config{}, items)
		for name, p := range projects {
			spec := p.Object["spec"].(object)
			repos, wide := map[any]bool{}, false
			for _, d := range items {
				if argocd.ProjectName(d) == name {
					repos[d.Repository] = true
					wide = wide || d.Target == nil && d.ClusterResources
				}
			}
			workspace := strings.TrimSuffix(strings.TrimPrefix(name, "app-project-"), "-cluster")
			for _, r := range spec["sourceRepos"].([]any) {
				if !repos[r] {
					t.Fatalf("%s reads %v", name, r)
				}
			}
			for _, one := range spec["destinations"].([]any) {
				if to := one.(object); !strings.HasPrefix(to["namespace"].(string), workspace+"-") || to["server"] != nil {
					t.Fatalf("%s reaches %v", name, to)
				}
			}
			if _, all := spec["clusterResourceWhitelist"]; all != wide {
				t.Fatalf("%s has objects without a namespace: %v, and should: %v", name, all, wide)
			}
			for called, s := range secrets[name] {
				data := s.Object["data"].(object)
				for _, v := range data {
					b, _ := base64.StdEncoding.DecodeString(v.(string))
					if strings.Contains(string(b), "of-") && !strings.Contains(string(b), "of-"+workspace) {
						t.Fatalf("%s of %s has another's: %s", called, name, b)
					}
				}
				if of, _ := base64.StdEncoding.DecodeString(data["project"].(string)); string(of) != name {
					t.Fatalf("%s of %s is %s's", called, name, of)
				}
				for other := range secrets {
					if other != name && secrets[other][called] != nil {
						t.Fatalf("%s is of %s and of %s", called, name, other)
					}
				}
			}
		}
		for id, d := range items {
			spec := projects[argocd.ProjectName(d)].Object["spec"].(object)
			if _, all := spec["clusterResourceWhitelist"]; all && (d.Target != nil || !d.ClusterResources) {
				t.Fatalf("%s may have objects without a namespace because another may", id)
			}
		}
		again, _ := argocd.Scopes(argocd.Config{}, items)
		if !cmp.Equal(projects, again) {
			t.Fatal("not the same for the same")
		}
	})
}

func TestScopesReach(t *testing.T) {
	d := plain()
	d.Credential = &runtime.RepositoryCredential{ID: "c1", Username: "u", Password: "p"}
	d.Namespaces = []string{"other"}
	theirs := d
	theirs.UID, theirs.Workspace, theirs.Namespaces = "u2", "w1-operators", []string{"shop"}
	projects, secrets := argocd.Scopes(argocd.Config{}, map[string]runtime.Deployment{"a": d, "b": theirs})
	to := func(d runtime.Deployment) any {
		return projects[argocd.ProjectName(d)].Object["spec"].(object)["destinations"]
	}
	if diff := cmp.Diff([]any{object{"name": "in-cluster", "namespace": "other"}}, to(d)); diff != "" {
		t.Errorf("a workspace may still go where it may not any more: %s", diff)
	}
	if diff := cmp.Diff([]any{object{"name": "in-cluster", "namespace": "shop"}}, to(theirs)); diff != "" {
		t.Errorf("what an operator deploys: %s", diff)
	}
	for name := range secrets[argocd.ProjectName(d)] {
		if secrets[argocd.ProjectName(theirs)][name] != nil {
			t.Errorf("two projects want the Secret %s, each for itself", name)
		}
	}
}

func TestScopesLeaveArgoCDAlone(t *testing.T) {
	for _, c := range []struct {
		reason, workspace string
		want              []any
	}{
		{"a workspace that is called like it", "w1", []any{object{"name": "in-cluster", "namespace": "shop"}}},
		{"an operator", "w1-operators", []any{object{"name": "in-cluster", "namespace": "argocd"}, object{"name": "in-cluster", "namespace": "drover-system"}, object{"name": "in-cluster", "namespace": "shop"}}},
	} {
		d := plain()
		d.Workspace, d.Namespace, d.Namespaces = c.workspace, "argocd", []string{"argocd", "drover-system", "shop"}
		projects, _ := argocd.Scopes(argocd.Config{}, map[string]runtime.Deployment{"a": d})
		if diff := cmp.Diff(c.want, projects[argocd.ProjectName(d)].Object["spec"].(object)["destinations"]); diff != "" {
			t.Errorf("%s: %s", c.reason, diff)
		}
	}
}

func TestAmend(t *testing.T) {
	want := argocd.Application("argocd", plain())
	if _, differs := argocd.Amend(want, want); differs {
		t.Error("what is right differs")
	}
	now := want.DeepCopy()
	now.Object["status"], now.Object["operation"] = object{"a": "b"}, object{"sync": object{}}
	now.SetAnnotations(map[string]string{"theirs": "1", "drover.dev/digest": want.GetAnnotations()["drover.dev/digest"]})
	now.SetFinalizers([]string{"theirs"})
	if err := unstructured.SetNestedField(now.Object, "elsewhere", "spec", "source", "path"); err != nil {
		t.Fatal(err)
	}
	got, differs := argocd.Amend(now, want)
	if !differs || !cmp.Equal(got.Object["spec"], want.Object["spec"]) || got.Object["status"] == nil || got.Object["operation"] == nil || got.GetAnnotations()["theirs"] != "1" || len(got.GetFinalizers()) != 2 {
		t.Errorf("got %v", got.Object)
	}
}

func TestMoves(t *testing.T) {
	target := func(id, server string) *runtime.Target { return &runtime.Target{ID: id, Server: server} }
	for _, tc := range []struct {
		reason   string
		from, to func(*runtime.Deployment)
		want     bool
	}{
		{"it stays", func(*runtime.Deployment) {}, func(d *runtime.Deployment) { d.Path = "other" }, false},
		{"another namespace", func(*runtime.Deployment) {}, func(d *runtime.Deployment) { d.Namespace = "b" }, true},
		{"another namespace, by hand", func(*runtime.Deployment) {}, func(d *runtime.Deployment) { d.Namespace, d.Automated = "b", false }, false},
		{"to a target", func(*runtime.Deployment) {}, func(d *runtime.Deployment) { d.Target = target("t", "https://t") }, true},
		{"home from a target", func(d *runtime.Deployment) { d.Target = target("t", "https://t") }, func(*runtime.Deployment) {}, true},
		{"to another target", func(d *runtime.Deployment) { d.Target = target("t", "https://t") }, func(d *runtime.Deployment) { d.Target = target("u", "https://u") }, true},
		{"a target that moved", func(d *runtime.Deployment) { d.Target = target("t", "https://t") }, func(d *runtime.Deployment) { d.Target = target("t", "https://u") }, false},
		{"the same cluster by another name", func(d *runtime.Deployment) { d.Target = target("t", "https://t") }, func(d *runtime.Deployment) { d.Target = target("u", "https://t") }, false},
		{"its target is gone", func(d *runtime.Deployment) { d.Target = target("t", "https://t") }, func(d *runtime.Deployment) { d.Detached = true }, false},
		{"its target was gone", func(d *runtime.Deployment) { d.Detached = true }, func(d *runtime.Deployment) { d.Namespace = "b" }, false},
		{"from a target that is gone", func(d *runtime.Deployment) { d.Target = target("t", "https://t") }, func(d *runtime.Deployment) { d.Abandoned = "t" }, false},
		{"another target is gone", func(d *runtime.Deployment) { d.Target = target("t", "https://t") }, func(d *runtime.Deployment) { d.Abandoned = "s" }, true},
	} {
		last, d := plain(), plain()
		last.Automated, d.Automated = true, true
		tc.from(&last)
		tc.to(&d)
		if got := argocd.Moves(last, d); got != tc.want {
			t.Errorf("%s: got %v", tc.reason, got)
		}
	}
}
