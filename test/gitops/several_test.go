//go:build e2e

package gitops_test

import (
	"net/http"
	"strings"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/droverhq/drover/test/argocd"
	"github.com/droverhq/drover/test/drover"
	"github.com/droverhq/drover/test/kubernetes"
)

// enlist makes the account of an agent beside another Argo CD of the same cluster, as
// docs/gitops.md tells.
func (w *world) enlist(t *testing.T, name string, a *argocd.Server) []byte {
	t.Helper()
	namespace := "drover-" + name
	url := quoted.FindStringSubmatch(w.run(t, "cluster", "register", name, "--provider", "metal", "--region", "north", "--runtime", "argocd", "--namespace", namespace))
	if url == nil {
		t.Fatal("the line of the registration names no address")
	}
	stream := drover.Must(t, drover.Request{Method: http.MethodGet, URL: url[1]})
	if stream.Status != http.StatusOK {
		t.Fatalf("the line fetches %d: %s", stream.Status, stream.Body)
	}
	for _, o := range split(t, string(stream.Body)) {
		if o.GetKind() != "Deployment" {
			w.apply(t, namespace, o)
		}
	}
	w.apply(t, a.Namespace, split(t, w.run(t, "deploy", "rights", "--runtime", "argocd", "--argocd", a.Namespace, "--account", namespace+"/drover-agent"))...)
	return w.k.KubeconfigOfAccount(t, namespace, "drover-agent")
}

// Two Argo CDs in one Kubernetes, with an agent each: a label of the namespace says
// which of them carries its deployments out.
func TestSeveralArgoCDs(t *testing.T) {
	k := kubernetes.Start(t, kubernetes.WithControllers())
	w := prepare(t, k)
	w.s.Kill()
	for i, arg := range w.s.Args {
		w.s.Args[i] = strings.Replace(arg, ",engines=edge,", ",engines=edge:far,", 1)
	}
	w.s.Start(t)
	w.a = argocd.Start(t, k)
	far := argocd.Start(t, k, argocd.WithNamespace("argocd-far"), argocd.WithFlags("--persist-resource-health=false")) // the default
	w.edge = w.join(t, "edge", w.register(t, "edge"), "--runtime", "argocd")
	account := w.enlist(t, "far", far)
	w.options = ",argocd=" + far.Namespace + ",redis=" + far.RedisAddress
	there := w.join(t, "far", account, "--runtime", "argocd")

	repo := w.git.Repo(t, "shop")
	commit := repo.Commit(t, "main", files{"k8s/a.yaml": configMap("a", "1")})
	// by checks who has an Application, and who has none.
	by := func(uid, here, elsewhere string) {
		t.Helper()
		w.get(t, applications, here, application(uid))
		w.gone(t, applications, elsewhere, application(uid))
	}
	label := func(ns, engine string) {
		t.Helper()
		w.patch(t, namespaces, "", ns, `{"metadata":{"labels":{"drover.dev/engine":`+engine+`}}}`)
	}
	usual, chosen, unknown := w.namespace(t), w.namespace(t), w.namespace(t)
	label(chosen, `"far"`)
	label(unknown, `"nobody"`)
	uids := map[string]string{}
	for _, ns := range []string{usual, chosen, unknown} {
		uids[ns] = w.deploy(t, ns, "shop", of("automated", repo.URL))
	}
	for _, ns := range []string{usual, chosen, unknown} {
		w.synced(t, ns, "shop", commit)
		w.value(t, ns, "a", "1")
	}
	by(uids[usual], w.a.Namespace, far.Namespace)
	by(uids[chosen], far.Namespace, w.a.Namespace)
	by(uids[unknown], w.a.Namespace, far.Namespace)
	until(t, "the operation to be shown where it was carried out", func() bool {
		list, err := w.in(operations, far.Namespace).List(t.Context(), metav1.ListOptions{})
		if err != nil {
			return false
		}
		for _, o := range list.Items {
			if argocd.Field(&o, "spec.resource") == uids[chosen] && argocd.Field(&o, "spec.instance") == "far/"+far.Namespace && argocd.Field(&o, "status.state") == "Completed" {
				return true
			}
		}
		return false
	})

	// What an Argo CD does not tell is seen by its Applications, and said.
	there.Kill()
	there.Start(t) // it counts them when it begins, and every three minutes
	until(t, "the doctor to name the Argo CD that does not tell the health of resources", func() bool {
		out, _, _ := w.try(t, "doctor", "-o", "json")
		i := strings.Index(out, `"argocd-health"`)
		return i > 0 && strings.Contains(out[i:], `"far"`) && !strings.Contains(out[i:min(len(out), i+600)], `"edge"`)
	})
	if !strings.Contains(there.Log(), "does not tell the health of single resources") {
		t.Error("its agent does not say so")
	}

	// One that is away holds up its own alone.
	if err := far.Controller.Kill(); err != nil {
		t.Fatal(err)
	}
	second := repo.Commit(t, "main", files{"k8s/a.yaml": configMap("a", "2")})
	w.push(t, repo, "main", w.pushSecret(t))
	w.synced(t, usual, "shop", second)
	w.value(t, chosen, "a", "1")
	if err := far.Ready(t.Context()); err != nil {
		t.Fatal(err)
	}
	w.synced(t, chosen, "shop", second)
	w.value(t, chosen, "a", "2")

	// The label moves all of a namespace, there and back.
	label(usual, `"far"`)
	by(uids[usual], far.Namespace, w.a.Namespace)
	w.synced(t, usual, "shop", second)
	w.value(t, usual, "a", "2")
	label(chosen, `null`)
	by(uids[chosen], w.a.Namespace, far.Namespace)
	w.synced(t, chosen, "shop", second)
	w.value(t, chosen, "a", "2")
	for _, ns := range []string{usual, chosen} {
		w.remove(t, deployments, ns, "shop")
		w.value(t, ns, "a", "none")
	}
}
