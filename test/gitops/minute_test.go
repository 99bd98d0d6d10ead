//go:build e2e

package gitops_test

import (
	"fmt"
	"net/http"
	"strings"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/droverhq/drover/internal/runtime/keep"
	"github.com/droverhq/drover/test/argocd"
	"github.com/droverhq/drover/test/gitserver"
	"github.com/droverhq/drover/test/kubernetes"
)

// within is the same world, in which nothing may take longer. None of what uses it
// belongs in the list that runs on bad days.
func (w *world) within(limit time.Duration) *world {
	strict := *w
	strict.limit = limit
	return &strict
}

// says what was put right, in time.
func (w *world) healed(t *testing.T, name, what string) {
	t.Helper()
	said := ""
	for end := time.Now().Add(w.limit); ; {
		if h := w.state(t, name).Healed; h != nil {
			if said = h.What; strings.Contains(said, what) {
				return
			}
		}
		if time.Now().After(end) {
			t.Fatalf("%s: what was put right is %q, not %q", name, said, what)
		}
		time.Sleep(100 * time.Millisecond) // between questions to the API
	}
}

// TestWithinAMinute has nobody look into Git unless a push is told, and all else as
// it comes: what happens here is found by a watch or by being told, or too late.
func TestWithinAMinute(t *testing.T) {
	a := argocd.Start(t, kubernetes.Start(t, kubernetes.WithControllers()), argocd.WithResync(time.Hour))
	w := startAt(t, pace{poll: ",poll=1h"}, a, "")
	for _, one := range []struct {
		name string
		run  func(*testing.T, *world)
	}{
		{"a push reaches Argo CD", pushedToArgoCD},
		{"a push reaches a cluster without it", pushedToPlain},
		{"what Argo CD has is put right", minuteOfArgoCD},
		{"what was applied without it is put right", minuteOfPlain},
		{"what the agents keep is put right", minuteOfKept},
		{"what the ledger has lost comes back", minuteOfLedger},
	} {
		t.Run(one.name, func(t *testing.T) { one.run(t, w) })
	}
}

func pushedToArgoCD(t *testing.T, w *world) {
	ns := w.namespace(t)
	repo := w.git.Repo(t, ns)
	first := repo.Commit(t, "main", files{"k8s/a.yaml": configMap("a", "1")})
	w.deploy(t, ns, "shop", of("automated", repo.URL))
	w.synced(t, ns, "shop", first)
	secret := w.pushSecret(t)
	for i := range 3 {
		value := fmt.Sprint(i + 2)
		next := repo.Commit(t, "main", files{"k8s/a.yaml": configMap("a", value)})
		if a := w.push(t, repo, "main", secret); a.Status != http.StatusAccepted {
			t.Fatalf("a push: %d %s", a.Status, a.Body)
		}
		w.within(time.Minute).value(t, ns, "a", value)
		w.within(time.Minute).synced(t, ns, "shop", next)
	}
}

func pushedToPlain(t *testing.T, w *world) {
	ns := w.namespace(t)
	name := "push" + ns[len(ns)-6:]
	repo := w.git.Repo(t, ns)
	repo.Commit(t, "main", files{"k8s/a.yaml": configMap("a", "1")})
	w.run(t, "deploy", "create", name, "--repo", repo.URL, "--path", "k8s", "--revision", "main", "--to", "plain/"+ns, "--wait")
	w.value(t, ns, "a", "1")
	secret := w.pushSecret(t)
	for i := range 3 {
		value := fmt.Sprint(i + 2)
		repo.Commit(t, "main", files{"k8s/a.yaml": configMap("a", value)})
		if a := w.push(t, repo, "main", secret); a.Status != http.StatusAccepted {
			t.Fatalf("a push: %d %s", a.Status, a.Body)
		}
		w.within(time.Minute).value(t, ns, "a", value)
	}
}

func minuteOfArgoCD(t *testing.T, w *world) {
	ns := w.namespace(t)
	git := gitserver.Start(t, gitserver.WithPassword(reader, password), gitserver.WithTLS())
	repo := git.Repo(t, ns)
	commit := repo.Commit(t, "main", files{"k8s/a.yaml": configMap("a", "1")})
	credential := w.credentialFor(t, ns, repo.URL)
	w.secret(t, ns, "login", repositorySecret, map[string]string{"username": reader, "password": password})
	uid := w.deploy(t, ns, "shop", of("automated", repo.URL))
	w.synced(t, ns, "shop", commit)
	// In workspaces of their own, so that it is clear who tells.
	apart, by, there := w.namespace(t), w.namespace(t), w.namespace(t)
	public := w.git.Repo(t, ns)
	theirs := public.Commit(t, "main", files{"k8s/a.yaml": configMap("a", "1")})
	environment := w.environment(t, apart, "mine", ", namespaces: ["+there+"]")
	w.secret(t, apart, "mine", environmentSecret, map[string]string{"kubeconfig": w.account(t, there, "one", false)})
	far := w.deploy(t, apart, "far", into(public.URL, "mine", there))
	w.synced(t, apart, "far", theirs)
	w.deploy(t, by, "hand", of("manual", public.URL))
	w.sync(t, by, "once", "{gitopsDeploymentName: hand}")
	w.ended(t, by, "once", "Succeeded")
	project := argocd.Field(w.get(t, applications, w.a.Namespace, application(uid)), "spec.project")
	w = w.within(time.Minute)
	for _, c := range []struct {
		kind, of      string
		resource      schema.GroupVersionResource
		name          string
		change, field string
	}{
		{"Application", uid, applications, application(uid), `{"spec":{"source":{"path":"elsewhere"}}}`, "spec.source.path"},
		{"AppProject", uid, projects, project, `{"spec":{"description":"mine"}}`, "spec.description"},
		{"Secret", uid, secrets, "repo-cred-" + credential, `{"stringData":{"password":"other"}}`, "data.password"},
		{"Secret", far, secrets, "managed-env-" + environment, `{"stringData":{"config":"{}"}}`, "data.config"},
	} {
		good := argocd.Field(w.get(t, c.resource, w.a.Namespace, c.name), c.field)
		w.patch(t, c.resource, w.a.Namespace, c.name, c.change)
		w.wait(t, c.resource, w.a.Namespace, c.name, "as it was", func(o *thing) bool { return o != nil && argocd.Field(o, c.field) == good })
		w.healed(t, c.of, "the "+c.kind+" was changed")
		before := w.get(t, c.resource, w.a.Namespace, c.name).GetUID()
		w.remove(t, c.resource, w.a.Namespace, c.name)
		w.wait(t, c.resource, w.a.Namespace, c.name, "there again", func(o *thing) bool { return o != nil && o.GetUID() != before && argocd.Field(o, c.field) == good })
		w.healed(t, c.of, "the "+c.kind+" was deleted")
	}
	w.synced(t, ns, "shop", commit)
	w.value(t, ns, "a", "1")

	w.patch(t, deployments, ns, "shop/status", `{"status":{"sync":{"status":"OutOfSync"},"resources":null,"health":null}}`)
	w.synced(t, ns, "shop", commit)
	w.patch(t, credentials, ns, "git/status", `{"status":{"conditions":null}}`)
	w.credential(t, ns, "RepositoryCredentialUpToDate")
	w.patch(t, environments, apart, "mine/status", `{"status":{"conditions":null}}`)
	w.connected(t, apart, "mine", "Succeeded")
	w.patch(t, syncruns, by, "once/status", `{"status":{"phase":"Failed","revision":null}}`)
	if o := w.ended(t, by, "once", "Succeeded"); argocd.Field(o, "status.revision") == "" {
		t.Error("the revision of the sync run is not put right")
	}
}

func minuteOfPlain(t *testing.T, w *world) {
	ns := w.namespace(t)
	name := "minute" + ns[len(ns)-6:]
	repo := w.git.Repo(t, ns)
	repo.Commit(t, "main", files{"k8s/a.yaml": configMap("a", "1"), "k8s/b.yaml": configMap("b", "1")})
	w.run(t, "deploy", "create", name, "--repo", repo.URL, "--path", "k8s", "--revision", "main", "--to", "plain/"+ns, "--wait")
	w.value(t, ns, "a", "1")
	w = w.within(time.Minute)
	w.byHand(t, configMaps, ns, "a", `{"data":{"value":"by hand"}}`)
	w.value(t, ns, "a", "1")
	w.healed(t, name, "the ConfigMap "+ns+"/a was changed")
	w.remove(t, configMaps, ns, "b")
	w.value(t, ns, "b", "1")
	w.healed(t, name, "the ConfigMap "+ns+"/b was deleted")
}

// minuteOfKept: an agent without what it keeps of a deployment would know nothing of it
// after a restart.
func minuteOfKept(t *testing.T, w *world) {
	ns, bare := w.namespace(t), w.namespace(t)
	name := "kept" + ns[len(ns)-6:]
	repo := w.git.Repo(t, ns)
	commit := repo.Commit(t, "main", files{"k8s/a.yaml": configMap("a", "1")})
	uid := w.deploy(t, ns, "shop", of("automated", repo.URL))
	w.synced(t, ns, "shop", commit)
	w.run(t, "deploy", "create", name, "--repo", repo.URL, "--path", "k8s", "--revision", "main", "--to", "plain/"+bare, "--wait")
	w.value(t, bare, "a", "1")
	for _, c := range []struct{ name, where, prefix, objects string }{{uid, "drover-system", "drover-deployment-", ns}, {name, "drover-plain", "drover-item-", bare}} {
		t.Run(c.where, func(t *testing.T) {
			t.Parallel() // most of it is waiting
			w := w.within(time.Minute)
			kept := keep.Named(c.prefix, decode[struct{ ID string }](t, w.run(t, "deploy", "get", c.name, "-o", "json")).ID)
			live := w.get(t, configMaps, c.objects, "a").GetUID()
			was := w.get(t, secrets, c.where, kept).GetUID()
			whole := func(o *thing) bool {
				data := argocd.Field(o, "data.data")
				return o.GetLabels()["drover.dev/keeps"] != "" && data != "" && data != "eA=="
			}
			w.remove(t, secrets, c.where, kept)
			w.wait(t, secrets, c.where, kept, "there again", func(o *thing) bool { return o != nil && o.GetUID() != was && whole(o) })
			w.healed(t, c.name, "what the agent keeps of it was deleted")
			for reason, change := range map[string]string{"its content": `{"data":{"data":"eA=="}}`, "its label": `{"metadata":{"labels":null}}`} {
				w.patch(t, secrets, c.where, kept, change)
				w.wait(t, secrets, c.where, kept, "whole again, after "+reason+" was changed", whole)
			}
			w.healed(t, c.name, "what the agent keeps of it was changed")
			// Nothing of what is deployed was touched, and it is looked after as before.
			if now := w.get(t, configMaps, c.objects, "a").GetUID(); now != live {
				t.Errorf("%s: what was deployed is another one", c.where)
			}
			w.remove(t, configMaps, c.objects, "a")
			w.value(t, c.objects, "a", "1")
		})
	}
}
