//go:build e2e

package kubeapi_test

import (
	"fmt"
	"strings"
	"testing"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/droverhq/drover/internal/kubeapi"
	"github.com/droverhq/drover/test/kubernetes"
)

// earlier defines a kind as the service before did: fields and what is required, and no
// rule about what is in them.
func earlier(plural, kind, required, fields string) string {
	return fmt.Sprintf(`apiVersion: apiextensions.k8s.io/v1
kind: CustomResourceDefinition
metadata: {name: %[1]s.managed-gitops.redhat.com}
spec:
  group: managed-gitops.redhat.com
  names: {kind: %[2]s, listKind: %[2]sList, plural: %[1]s, singular: %[3]s}
  scope: Namespaced
  versions:
  - name: v1alpha1
    served: true
    storage: true
    subresources: {status: {}}
    schema:
      openAPIV3Schema:
        type: object
        properties:
          apiVersion: {type: string}
          kind: {type: string}
          metadata: {type: object}
          spec: {type: object, required: [%[4]s], properties: {%[5]s}}
          status: {type: object, x-kubernetes-preserve-unknown-fields: true}
`, plural, kind, strings.ToLower(kind), required, fields)
}

// What the earlier service has left in a cluster can be read, told of and removed under
// our definitions, though some of it would be refused if it came now.
func TestObjectsOfTheEarlierService(t *testing.T) {
	c := kubernetes.Start(t, kubernetes.WithControllers())
	w := &world{c, as(t, c.Admin())}
	w.apply(t, strings.Join([]string{
		earlier("gitopsdeployments", "GitOpsDeployment", "source, type",
			"source: {type: object, required: [path, repoURL], properties: {path: {type: string}, repoURL: {type: string}, targetRevision: {type: string}}}, type: {type: string}, "+
				"destination: {type: object, properties: {environment: {type: string}, namespace: {type: string}}}, syncPolicy: {type: object, properties: {syncOptions: {type: array, items: {type: string}}}}"),
		earlier("gitopsdeploymentsyncruns", "GitOpsDeploymentSyncRun", "gitopsDeploymentName", "gitopsDeploymentName: {type: string}, revisionID: {type: string}"),
		earlier("gitopsdeploymentrepositorycredentials", "GitOpsDeploymentRepositoryCredential", "repository, secret", "repository: {type: string}, secret: {type: string}"),
		earlier("gitopsdeploymentmanagedenvironments", "GitOpsDeploymentManagedEnvironment", "allowInsecureSkipTLSVerify, apiURL, credentialsSecret",
			"apiURL: {type: string}, credentialsSecret: {type: string}, allowInsecureSkipTLSVerify: {type: boolean}, createNewServiceAccount: {type: boolean}, clusterResources: {type: boolean}, namespaces: {type: array, items: {type: string}}"),
		earlier("operations", "Operation", "operationID", "operationID: {type: string}"),
	}, "---\n"))
	ns := ""
	stored := []struct {
		reason, kind, spec string
		refused            bool // if it came now
	}{
		{"as its guide has it, without a destination", "GitOpsDeployment", "{source: {repoURL: 'https://git.example.com/team/apps/', path: guestbook}, type: automated}", false},
		{"as its guide has it, with an environment", "GitOpsDeployment", "{source: {repoURL: 'https://git.example.com/team/template', path: environments/overlays/dev}, destination: {environment: my-environment, namespace: jane}, type: automated}", false},
		{"a type of any spelling", "GitOpsDeployment", "{source: {repoURL: 'https://git.example.com/team/apps', path: a}, type: Automated}", true},
		{"a namespace without an environment", "GitOpsDeployment", "{source: {repoURL: 'https://git.example.com/team/apps', path: a}, type: manual, destination: {namespace: other}}", true},
		{"any option", "GitOpsDeployment", "{source: {repoURL: 'https://git.example.com/team/apps', path: a}, type: manual, syncPolicy: {syncOptions: [Replace=true]}}", true},
		{"a path without end", "GitOpsDeployment", "{source: {repoURL: 'https://git.example.com/team/apps', path: " + strings.Repeat("x", 5000) + "}, type: manual}", true},
		{"a run", "GitOpsDeploymentSyncRun", "{gitopsDeploymentName: shop, revisionID: main}", false},
		{"a credential", "GitOpsDeploymentRepositoryCredential", "{repository: 'https://git.example.com/team/apps', secret: login}", false},
		{"a credential of an address that nobody takes", "GitOpsDeploymentRepositoryCredential", "{repository: 'git@git.example.com:team/apps', secret: login}", true},
		{"an environment", "GitOpsDeploymentManagedEnvironment", "{apiURL: 'https://api.example.com:6443', credentialsSecret: s, allowInsecureSkipTLSVerify: false}", false},
		{"an environment without TLS", "GitOpsDeploymentManagedEnvironment", "{apiURL: 'http://api.example.com', credentialsSecret: s, allowInsecureSkipTLSVerify: true, namespaces: [Shop]}", true},
		{"an operation", "Operation", "{operationID: abc}", false},
	}
	of := func(i int) *unstructured.Unstructured {
		o := documents(t, group+"kind: "+stored[i].kind+"\nmetadata: {name: "+fmt.Sprintf("old-%d", i)+"}\nspec: "+stored[i].spec+"\n")[0]
		o.SetNamespace(ns)
		return o
	}
	w.established(t)
	ns = w.Namespace(t)
	for i, s := range stored {
		if err := w.Create(t.Context(), of(i)); err != nil {
			t.Fatalf("%s, before: %v", s.reason, err)
		}
	}

	w.apply(t, string(kubeapi.Manifests()))
	// Ours are in force once what they refuse is refused.
	until(t, "our definitions to be in force", func() bool {
		for i, s := range stored {
			if s.refused {
				o := of(i)
				o.SetName(fmt.Sprintf("new-%d", i))
				if err := w.Create(t.Context(), o, client.DryRunAll); !apierrors.IsInvalid(err) {
					return false
				}
			}
		}
		return true
	})
	for i, s := range stored {
		t.Run(s.reason, func(t *testing.T) {
			o := of(i)
			if !s.refused {
				again := of(i)
				again.SetName(fmt.Sprintf("new-%d", i))
				if err := w.Create(t.Context(), again, client.DryRunAll); err != nil {
					t.Errorf("it is no longer taken: %v", err)
				}
			}
			if err := w.Get(t.Context(), client.ObjectKeyFromObject(o), o); err != nil {
				t.Fatalf("it cannot be read: %v", err)
			}
			if got, want := fmt.Sprint(o.Object["spec"]), fmt.Sprint(of(i).Object["spec"]); got != want {
				t.Errorf("it is read as %s, and was %s", got, want)
			}
			status := `{"status":{"conditions":[{"type":"ErrorOccurred","status":"True","reason":"ErrorOccurred","message":"it cannot be","lastTransitionTime":"2026-01-01T00:00:00Z"}]}}`
			switch s.kind {
			case "GitOpsDeployment": // which wants more, then as now
				status = strings.Replace(status, `{"status":{`, `{"status":{"reconciledState":{"source":{"path":"a","repoURL":"b","branch":"c"},"destination":{"name":"","namespace":"d"}},`, 1)
			case "Operation":
				status = `{"status":{"state":"Completed"}}`
			}
			if err := w.Status().Patch(t.Context(), o, client.RawPatch("application/merge-patch+json", []byte(status))); err != nil {
				t.Errorf("its status cannot be written: %v", err)
			}
			if conditions, _, _ := unstructured.NestedSlice(o.Object, "status", "conditions"); s.kind != "Operation" && len(conditions) != 1 {
				t.Errorf("its status is %v", o.Object["status"])
			}
			// Labels and finalizers are others' to set, whatever is in the spec.
			for _, change := range []string{`{"metadata":{"labels":{"a":"b"},"finalizers":["example.com/held"]}}`, `{"metadata":{"finalizers":null}}`} {
				if err := w.Patch(t.Context(), o, client.RawPatch("application/merge-patch+json", []byte(change))); err != nil {
					t.Errorf("%s: %v", change, err)
				}
			}
			if err := w.Delete(t.Context(), o); err != nil {
				t.Fatalf("it cannot be removed: %v", err)
			}
			until(t, "it to be gone", func() bool { return apierrors.IsNotFound(w.Get(t.Context(), client.ObjectKeyFromObject(of(i)), o)) })
		})
	}
}
