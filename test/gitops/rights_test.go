//go:build e2e

package gitops_test

import (
	"net/http"
	"strings"
	"testing"

	authorizationv1 "k8s.io/api/authorization/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	clientset "k8s.io/client-go/kubernetes"
	"k8s.io/client-go/tools/clientcmd"

	"github.com/droverhq/drover/test/drover"
	"github.com/droverhq/drover/test/gitserver"
	"github.com/droverhq/drover/test/kubernetes"
)

// installed runs the line of a registration but for the Deployment, and returns
// what the agent's account has.
func (w *world) installed(t *testing.T, cluster string, args ...string) []byte {
	t.Helper()
	line := w.run(t, append([]string{"cluster", "register", cluster, "--provider", "metal", "--region", "north"}, args...)...)
	url := quoted.FindStringSubmatch(line)
	if url == nil {
		t.Fatalf("the line is %s", line)
	}
	stream := drover.Must(t, drover.Request{Method: http.MethodGet, URL: url[1]})
	if stream.Status != http.StatusOK {
		t.Fatalf("the line fetches %d: %s", stream.Status, stream.Body)
	}
	for _, o := range split(t, string(stream.Body)) {
		if o.GetKind() != "Deployment" {
			w.apply(t, "drover-system", o)
		}
	}
	return w.k.KubeconfigOfAccount(t, "drover-system", "drover-agent")
}

// may asks the API whether an account may do something.
func may(t *testing.T, kubeconfig []byte, verb, group, resource, namespace string) bool {
	t.Helper()
	config, err := clientcmd.RESTConfigFromKubeConfig(kubeconfig)
	if err != nil {
		t.Fatal(err)
	}
	client, err := clientset.NewForConfig(config)
	if err != nil {
		t.Fatal(err)
	}
	review := &authorizationv1.SelfSubjectAccessReview{Spec: authorizationv1.SelfSubjectAccessReviewSpec{
		ResourceAttributes: &authorizationv1.ResourceAttributes{Verb: verb, Group: group, Resource: resource, Namespace: namespace}}}
	if review, err = client.AuthorizationV1().SelfSubjectAccessReviews().Create(t.Context(), review, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	return review.Status.Allowed
}

// The agent that a registration installs deploys where it was given the right to,
// what it was given the right to, and nothing else.
func TestRightsOfAgents(t *testing.T) {
	w := prepare(t, kubernetes.Start(t, kubernetes.WithControllers()))
	account := w.installed(t, "bare")
	agent := &drover.Agent{Server: w.s.URL(), Cluster: "bare", Token: strings.TrimSpace(w.run(t, "token", "--cluster", "bare")), DataDir: t.TempDir(), Routes: drover.FreeAddress(t),
		Args: []string{"--runtime", "kubernetes", "--runtime-options", "kubeconfig=" + write(t, t.TempDir(), "kubeconfig", account) + ",resync=2s"}}
	agent.Start(t)
	t.Cleanup(func() { agent.Kill(); explain(t, "the agent", agent.Log()); drover.Clear(agent.DataDir) })

	const role = "apiVersion: rbac.authorization.k8s.io/v1\nkind: Role\nmetadata: {name: all}\nrules: [{apiGroups: ['*'], resources: ['*'], verbs: ['*']}]\n"
	const lease = "apiVersion: coordination.k8s.io/v1\nkind: Lease\nmetadata: {name: turn}\nspec: {holderIdentity: nobody}\n"
	repo := w.git.Repo(t, "rights")
	repo.Commit(t, "main", files{"k8s/a.yaml": configMap("a", "1"), "role/r.yaml": gitserver.File(role), "lease/l.yaml": gitserver.File(lease)})
	create := func(name, path, ns string) (string, int) {
		_, stderr, code := w.try(t, "deploy", "create", name, "--repo", repo.URL, "--path", path, "--to", "bare/"+ns, "--wait")
		return stderr, code
	}
	ours, theirs := w.namespace(t), w.namespace(t)
	if said, code := create("shop", "k8s", ours); code != 1 || !strings.Contains(said, "the agent may not write ConfigMap "+ours+"/a") {
		t.Fatalf("without a right: code %d: %s", code, said)
	}
	w.apply(t, "", split(t, w.run(t, "deploy", "rights", "--namespace", ours))...)
	w.value(t, ours, "a", "1")
	until(t, "the deployment to be told", func() bool { return w.state(t, "shop").Phase == "deployed" })

	if said, code := create("elsewhere", "k8s", theirs); code != 1 || !strings.Contains(said, "the agent may not write ConfigMap "+theirs+"/a") {
		t.Errorf("in another namespace: code %d: %s", code, said)
	}
	if said, code := create("role", "role", ours); code != 1 || !strings.Contains(said, "the agent may not write Role") {
		t.Errorf("more rights than it has: code %d: %s", code, said)
	}
	for _, c := range []struct {
		reason, verb, group, resource, namespace string
		want                                     bool
	}{
		{"Secrets of the namespace are deployed", "patch", "", "secrets", ours, true},
		{"Secrets of others are not even read", "list", "", "secrets", theirs, false},
		{"nor those of the cluster", "get", "", "secrets", "kube-system", false},
		{"nothing is escalated", "escalate", "rbac.authorization.k8s.io", "clusterroles", "", false},
		{"no custom resources", "create", "stable.example.com", "crontabs", ours, false},
	} {
		if got := may(t, account, c.verb, c.group, c.resource, c.namespace); got != c.want {
			t.Errorf("%s: %v", c.reason, got)
		}
	}

	// What the platform team adds.
	if said, code := create("lease", "lease", ours); code != 1 || !strings.Contains(said, "the agent may not write Lease") {
		t.Errorf("a kind that is not among them: code %d: %s", code, said)
	}
	w.apply(t, "", object(t, `{apiVersion: rbac.authorization.k8s.io/v1, kind: ClusterRole, metadata: {name: platform-leases, labels: {drover.dev/deploy: "true"}},
		rules: [{apiGroups: [coordination.k8s.io], resources: [leases], verbs: [get, list, watch, create, patch, delete]}]}`))
	until(t, "the Lease to be deployed", func() bool { return w.state(t, "lease").Phase == "deployed" })
	w.apply(t, "", split(t, w.run(t, "deploy", "rights", "--all-namespaces"))...)
	w.value(t, theirs, "a", "1")
	if may(t, account, "create", "rbac.authorization.k8s.io", "roles", theirs) {
		t.Error("all namespaces are not all rights")
	}

	// A silent agent is told.
	agent.Kill()
	until(t, "the silence to be told", func() bool {
		for _, c := range w.state(t, "shop").Conditions {
			if c.Type == "AgentSilent" && c.Status == "True" && strings.Contains(c.Message, "silent since") {
				return true
			}
		}
		return false
	})
	t.Log(w.run(t, "deploy", "get"))
}
