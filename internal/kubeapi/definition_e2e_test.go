//go:build e2e

package kubeapi_test

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/droverhq/drover/internal/kubeapi/v1alpha1"
)

// kubectl runs the real one as the administrator.
func (w *world) kubectl(t *testing.T, args ...string) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "kubeconfig")
	if err := os.WriteFile(path, w.Kubeconfig(), 0o600); err != nil {
		t.Fatal(err)
	}
	out, err := exec.CommandContext(t.Context(), "kubectl", append([]string{"--kubeconfig", path}, args...)...).CombinedOutput()
	if err != nil {
		t.Fatalf("kubectl %v: %v: %s", args, err, out)
	}
	return string(out)
}

// published waits until the API describes its new kinds, which is after it serves them.
func (w *world) published(t *testing.T) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	api := w.Cluster.Client(t).Discovery().RESTClient()
	for {
		text, _ := api.Get().AbsPath("/openapi/v3/apis/managed-gitops.redhat.com/v1alpha1").DoRaw(ctx)
		if bytes.Count(text, []byte("List\":{")) >= 5 {
			return
		}
		select {
		case <-ctx.Done():
			t.Fatalf("the API does not describe the kinds: %.300s", text)
		case <-time.After(50 * time.Millisecond): // the server offers no signal to wait for
		}
	}
}

func TestExplainReadsWell(t *testing.T) {
	w := enter(t)
	w.published(t)
	for _, c := range []struct{ reason, field, says string }{
		{"what the kind is for", "gitopsdeployment", "directory of a Git repository deployed"},
		{"both types are explained", "gitopsdeployment.spec.type", "Git is followed"},
		{"where to is explained", "gitopsdeployment.spec.destination", "namespace that this"},
		{"which Secret", "gitopsdeploymentrepositorycredential.spec.secret", "sshPrivateKey"},
		{"how runs are ordered", "gitopsdeploymentsyncrun", "one after the other"},
		{"the danger is told", "gitopsdeploymentmanagedenvironment.spec.allowInsecureSkipTLSVerify", "read and change everything"},
		{"what an Operation is", "operation", "for looking at"},
	} {
		t.Run(c.reason, func(t *testing.T) {
			text := strings.Join(strings.Fields(w.kubectl(t, "explain", c.field)), " ")
			if !strings.Contains(text, c.says) {
				t.Errorf("%s does not say %q: %s", c.field, c.says, text)
			}
		})
	}
	t.Run("no field is without a word", func(t *testing.T) {
		for _, kind := range []string{"gitopsdeployment", "gitopsdeploymentsyncrun", "gitopsdeploymentrepositorycredential", "gitopsdeploymentmanagedenvironment", "operation"} {
			for _, part := range []string{".spec", ".status"} {
				if text := w.kubectl(t, "explain", kind+part); strings.Contains(text, "<no description>") {
					t.Errorf("%s%s: %s", kind, part, text)
				}
			}
		}
	})
}

func TestColumns(t *testing.T) {
	w := enter(t)
	ns := w.Namespace(t)
	w.create(t, deployment(ns, "shop"))
	if head := strings.Fields(strings.Split(w.kubectl(t, "get", "gitopsdeployment", "-n", ns), "\n")[0]); strings.Join(head, " ") != "NAME SYNC STATUS HEALTH STATUS" {
		t.Errorf("kubectl get shows %v", head)
	}
}

// What a part is emptied by leaves null behind, which is nothing.
func TestPartsThatAreEmptied(t *testing.T) {
	w := enter(t)
	ns := w.Namespace(t)
	const head = group + "kind: GitOpsDeployment\nmetadata: {name: shop, namespace: %s}\nspec:\n  type: manual\n  source: {repoURL: https://git.example.com/shop.git, path: k8s}\n"
	for _, c := range []struct{ reason, before, after string }{
		{"the destination", "  destination: {environment: prod, namespace: shop}\n", "  destination: {}\n"},
		{"how it is synced", "  syncPolicy: {syncOptions: [CreateNamespace=true]}\n", "  syncPolicy: {}\n"},
		{"null itself", "  destination: {environment: prod, namespace: shop}\n", "  destination: null\n  syncPolicy: null\n"},
	} {
		t.Run(c.reason, func(t *testing.T) {
			w.apply(t, fmt.Sprintf(head, ns)+c.before)
			w.apply(t, fmt.Sprintf(head, ns)+c.after)
			var d v1alpha1.GitOpsDeployment
			if err := w.Get(t.Context(), client.ObjectKey{Namespace: ns, Name: "shop"}, &d); err != nil {
				t.Fatal(err)
			}
			if d.Spec.Destination != (v1alpha1.ApplicationDestination{}) || d.Spec.SyncPolicy != nil && len(d.Spec.SyncPolicy.SyncOptions) > 0 {
				t.Errorf("it is %+v", d.Spec)
			}
		})
	}
}

const group = "apiVersion: managed-gitops.redhat.com/v1alpha1\n"

// refusal is what is said about a manifest; empty if it is taken.
func (w *world) refusal(t *testing.T, ns, text string) string {
	t.Helper()
	o := documents(t, group+text)[0]
	o.SetNamespace(ns)
	o.SetGenerateName("x-")
	err := w.Create(t.Context(), o, client.DryRunAll)
	if err != nil {
		return err.Error()
	}
	return ""
}

func TestAdmission(t *testing.T) {
	w := enter(t)
	ns := w.Namespace(t)
	const (
		source = "  source: {repoURL: https://git.example.com/shop.git, path: k8s}\n"
		depl   = "kind: GitOpsDeployment\nspec:\n" + source
		cred   = "kind: GitOpsDeploymentRepositoryCredential\nspec:\n"
		env    = "kind: GitOpsDeploymentManagedEnvironment\nspec:\n  allowInsecureSkipTLSVerify: false\n  credentialsSecret: s\n"
	)
	for _, c := range []struct{ reason, text, says string }{
		{"automated", depl + "  type: automated\n", ""},
		{"manual with all there is", depl + "  type: manual\n  destination: {environment: prod, namespace: shop}\n  syncPolicy: {syncOptions: [CreateNamespace=true]}\n", ""},
		{"an empty destination is none", depl + "  type: manual\n  destination: {environment: '', namespace: ''}\n", ""},
		{"an environment without a namespace is told later", depl + "  type: manual\n  destination: {environment: prod}\n", ""},
		{"an empty path is told later", "kind: GitOpsDeployment\nspec:\n  type: manual\n  source: {repoURL: https://git.example.com/a, path: ''}\n", ""},
		{"no defaulting of the type", depl, "spec.type: Required value"},
		{"another type", depl + "  type: sometimes\n", "spec type must be manual or automated"},
		{"no other spelling", depl + "  type: Automated\n", "spec type must be manual or automated"},
		{"an empty type", depl + "  type: ''\n", "spec type must be manual or automated"},
		{"no source", "kind: GitOpsDeployment\nspec: {type: manual}\n", "spec.source: Required value"},
		{"no path", "kind: GitOpsDeployment\nspec: {type: manual, source: {repoURL: a}}\n", "spec.source.path: Required value"},
		{"no repository", "kind: GitOpsDeployment\nspec: {type: manual, source: {path: a}}\n", "spec.source.repoURL: Required value"},
		{"no spec", "kind: GitOpsDeployment\n", "spec: Required value"},
		{"a namespace without an environment", depl + "  type: manual\n  destination: {namespace: shop}\n", "the environment field should not be empty when the namespace is non-empty"},
		{"another sync option", depl + "  type: manual\n  syncPolicy: {syncOptions: [CreateNamespace=true, Prune=false]}\n", "the specified sync option in .spec.syncPolicy.syncOptions is either mispelled or is not supported by GitOpsDeployment"},
		{"a text without end", depl + "  type: manual\n  destination: {environment: " + strings.Repeat("x", 254) + "}\n", "Too long"},

		{"a run", "kind: GitOpsDeploymentSyncRun\nspec: {gitopsDeploymentName: shop, revisionID: main}\n", ""},
		{"a run with prune", "kind: GitOpsDeploymentSyncRun\nspec: {gitopsDeploymentName: shop, prune: true}\n", ""},
		{"a run of nothing", "kind: GitOpsDeploymentSyncRun\nspec: {revisionID: main}\n", "spec.gitopsDeploymentName: Required value"},

		{"https", cred + "  secret: s\n  repository: https://git.example.com/shop.git\n", ""},
		{"ssh", cred + "  secret: s\n  repository: ssh://git@git.example.com/shop.git\n", ""},
		{"http", cred + "  secret: s\n  repository: http://git.example.com/shop.git\n", "repository must begin with ssh:// or https://"},
		{"the form of scp", cred + "  secret: s\n  repository: git@git.example.com:shop/shop.git\n", "repository must begin with ssh:// or https://"},
		{"nothing of a URL", cred + "  secret: s\n  repository: ''\n", "repository must begin with ssh:// or https://"},
		{"no Secret", cred + "  repository: https://git.example.com/shop.git\n", "spec.secret: Required value"},

		{"what no namespace can be called is told later", env + "  apiURL: https://a\n  namespaces: [ok, -a, Shop]\n", ""},
		{"a cluster", env + "  apiURL: https://api.example.com:6443\n  namespaces: [a, b-1]\n  clusterResources: true\n  createNewServiceAccount: true\n", ""},
		{"a cluster without TLS", env + "  apiURL: http://api.example.com:6443\n", "cluster api url must start with https://"},
		{"a cluster that is no URL", env + "  apiURL: api.example.com\n", "cluster api url must start with https://"},
		{"the key has no default", "kind: GitOpsDeploymentManagedEnvironment\nspec: {apiURL: 'https://a', credentialsSecret: s}\n", "spec.allowInsecureSkipTLSVerify: Required value"},
		{"no credentials", "kind: GitOpsDeploymentManagedEnvironment\nspec: {apiURL: 'https://a', allowInsecureSkipTLSVerify: true}\n", "spec.credentialsSecret: Required value"},

		{"an operation as it was", "kind: Operation\nspec: {operationID: abc}\n", ""},
		{"an operation with all there is", "kind: Operation\nspec: {operationID: abc, instance: c/argocd, owner: w, resource: u, resourceType: GitOpsDeployment, cause: asked}\n", ""},
	} {
		t.Run(c.reason, func(t *testing.T) {
			got := w.refusal(t, ns, c.text)
			if c.says == "" && got != "" || !strings.Contains(got, c.says) {
				t.Errorf("said %q, not %q", got, c.says)
			}
		})
	}
}

func TestRunsAreImmutable(t *testing.T) {
	w := enter(t)
	ns := w.Namespace(t)
	for _, c := range []struct{ reason, before, after, says string }{
		{"the deployment", "gitopsDeploymentName: a", "gitopsDeploymentName: b", "deployment name field is immutable: changing it from its initial value is not supported"},
		{"the revision", "gitopsDeploymentName: a, revisionID: main", "gitopsDeploymentName: a, revisionID: next", "revision change is not supported: changing it from its initial value is not supported"},
		{"a revision that comes later", "gitopsDeploymentName: a", "gitopsDeploymentName: a, revisionID: next", "revision change is not supported"},
		{"a revision that goes", "gitopsDeploymentName: a, revisionID: main", "gitopsDeploymentName: a", "revision change is not supported"},
		{"prune", "gitopsDeploymentName: a", "gitopsDeploymentName: a, prune: true", "prune change is not supported"},
		{"nothing is changed", "gitopsDeploymentName: a, prune: false", "gitopsDeploymentName: a, revisionID: ''", ""},
	} {
		t.Run(c.reason, func(t *testing.T) {
			o := documents(t, group+"kind: GitOpsDeploymentSyncRun\nmetadata: {generateName: r-, namespace: "+ns+"}\nspec: {"+c.before+"}\n")[0]
			w.create(t, o)
			o.Object["spec"] = documents(t, group+"kind: X\nspec: {"+c.after+"}\n")[0].Object["spec"]
			err := w.Update(t.Context(), o)
			if (err == nil) != (c.says == "") || err != nil && !strings.Contains(err.Error(), c.says) {
				t.Errorf("said %v, not %q", err, c.says)
			}
		})
	}
}
