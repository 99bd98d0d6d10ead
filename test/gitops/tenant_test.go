//go:build e2e

package gitops_test

import (
	"errors"
	"fmt"
	"io/fs"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/droverhq/drover/test/gitserver"
)

// troubles are all conditions of a deployment that hold.
func troubles(o *thing) string {
	if o == nil {
		return ""
	}
	var out []string
	list, _, _ := unstructured.NestedSlice(o.Object, "status", "conditions")
	for _, one := range list {
		if c, _ := one.(map[string]any); c["status"] == "True" {
			out = append(out, fmt.Sprintf("%v: %v", c["type"], c["message"]))
		}
	}
	return strings.Join(out, "\n")
}

// refuses waits until a deployment says that something may not be deployed.
func (w *world) refuses(t *testing.T, ns, name, text string) {
	t.Helper()
	o := w.wait(t, deployments, ns, name, "refused: "+text, func(o *thing) bool { return strings.Contains(troubles(o), text) })
	t.Logf("%s: %s", name, troubles(o))
}

func tenantsApart(t *testing.T, w *world) {
	ns, victim := w.namespace(t), w.namespace(t)
	repo := w.git.Repo(t, ns)
	meta := func(api, kind, where, rest string) gitserver.Entry {
		return gitserver.File(fmt.Sprintf("apiVersion: %s\nkind: %s\nmetadata: {name: %s%s}\n%s\n", api, kind, ns, where, rest))
	}
	argo := ", namespace: " + w.a.Namespace
	spec := "spec: {project: default, source: {repoURL: https://h/r, path: .}, destination: {name: in-cluster, namespace: kube-system}}"
	for _, c := range []struct {
		name, says string
		file       gitserver.Entry
	}{
		{"foreign-namespace", "not permitted", meta("v1", "ConfigMap", ", namespace: "+victim, "data: {}")},
		{"namespace", "not permitted", meta("v1", "Namespace", "-x", "")},
		{"cluster-role", "not permitted", meta("rbac.authorization.k8s.io/v1", "ClusterRole", "", "rules: []")},
		{"application", "not permitted", meta("argoproj.io/v1alpha1", "Application", argo, spec)},
		{"application-here", "not permitted", meta("argoproj.io/v1alpha1", "Application", "", spec)},
		{"project", "not permitted", meta("argoproj.io/v1alpha1", "AppProject", argo, "spec: {sourceRepos: ['*']}")},
		{"argocd-secret", "not permitted", meta("v1", "Secret", argo+", labels: {argocd.argoproj.io/secret-type: repo-creds}", "stringData: {url: 'https://'}")},
		{"quota", "not permitted", meta("v1", "ResourceQuota", "", "spec: {hard: {}}")},
		{"agent", "not permitted", meta("v1", "Secret", ", namespace: drover-system", "stringData: {a: b}")},
	} {
		branch := c.name
		repo.Commit(t, branch, files{"k8s/a.yaml": c.file})
		w.deploy(t, ns, c.name, fmt.Sprintf("{source: {repoURL: %q, path: k8s, targetRevision: %s}, type: automated}", repo.URL, branch))
		w.refuses(t, ns, c.name, c.says)
		w.remove(t, deployments, ns, c.name)
	}
	w.value(t, victim, ns, "none")
	w.gone(t, namespaces, "", ns+"-x")
	w.gone(t, applications, w.a.Namespace, ns)
	w.gone(t, applications, ns, ns)
	w.gone(t, projects, w.a.Namespace, ns)
	w.gone(t, secrets, w.a.Namespace, ns)
	w.gone(t, secrets, "drover-system", ns)

	// What it may is not in doubt.
	good := repo.Commit(t, "good", files{"k8s/a.yaml": configMap("a", "1")})
	w.deploy(t, ns, "good", fmt.Sprintf("{source: {repoURL: %q, path: k8s, targetRevision: good}, type: automated}", repo.URL))
	w.synced(t, ns, "good", good)
}

// snitch is a server of the machine's network that a repository has others ask. What
// it answers is nobody's to read.
type snitch struct {
	*httptest.Server
	mu    sync.Mutex
	asked []string // what was asked for, with what was sent along to prove who asks
}

const hush = "a-secret-of-the-network"

func listen(t *testing.T) *snitch {
	s := &snitch{}
	s.Server = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		s.mu.Lock()
		defer s.mu.Unlock()
		s.asked = append(s.asked, r.URL.Path+" "+r.Header.Get("Authorization")+r.Header.Get("Cookie"))
		fmt.Fprintf(w, "secret: %s\n", hush)
	}))
	t.Cleanup(s.Close)
	return s
}

// hostileRepositories: each says what is wrong, nothing of it is deployed, none of its
// programs has run, and nothing of what others answered is told.
func hostileRepositories(t *testing.T, w *world) {
	ns := w.namespace(t)
	repo, near, ran := w.git.Repo(t, ns), listen(t), filepath.Join(t.TempDir(), "ran")
	kustomize := func(text string) gitserver.Entry {
		return gitserver.File("apiVersion: kustomize.config.k8s.io/v1beta1\nkind: Kustomization\n" + text)
	}
	program := gitserver.Program("#!/bin/sh\ntouch " + ran + "\n")
	function := func(how string) gitserver.Entry {
		return gitserver.File("apiVersion: x/v1\nkind: X\nmetadata: {name: x, annotations: {config.kubernetes.io/function: '" + how + "'}}\n")
	}
	chart := gitserver.File("apiVersion: v2\nname: c\nversion: 0.1.0\n")
	needs := func(where string) gitserver.Entry {
		return gitserver.File("apiVersion: v2\nname: c\nversion: 0.1.0\ndependencies: [{name: d, version: 1.0.0, repository: '" + where + "'}]\n")
	}
	for _, c := range []struct {
		name string
		says string
		tree files
	}{
		{"symlink", "symlink", files{"k8s/a.yaml": configMap("a", "1"), "k8s/b.yaml": gitserver.Symlink("../../../../../../etc/hostname")}},
		{"symlinked-directory", "symlink", files{"other/a.yaml": configMap("a", "1"), "k8s": gitserver.Symlink("../../../../../etc")}},
		{"kustomize-outside", "is not in or below", files{"k8s/kustomization.yaml": kustomize("configMapGenerator: [{name: a, files: [/etc/hostname]}]\n")}},
		{"kustomize-above", "or 'Kustomization' in directory '/etc'", files{"k8s/kustomization.yaml": kustomize("resources: [../../../../../etc]\n")}},
		{"kustomize-above-file", "is not in or below", files{"k8s/kustomization.yaml": kustomize("resources: [../../../../../etc/hostname]\n")}},
		{"kustomize-program", "external plugins disabled", files{"k8s/kustomization.yaml": kustomize("generators: [g.yaml]\n"), "k8s/g.yaml": function("exec: {path: ./run.sh}"), "k8s/run.sh": program}},
		{"kustomize-transformer", "external plugins disabled", files{"k8s/kustomization.yaml": kustomize("resources: [a.yaml]\ntransformers: [g.yaml]\n"), "k8s/a.yaml": configMap("a", "1"),
			"k8s/g.yaml": function("exec: {path: run.sh}"), "k8s/run.sh": program}},
		{"kustomize-chart", "must specify --enable-helm", files{"k8s/kustomization.yaml": kustomize("helmCharts: [{name: d, version: 1.0.0, repo: '" + near.URL + "'}]\n")}},
		{"kustomize-remote-file", "missing Resource metadata", files{"k8s/kustomization.yaml": kustomize("resources: ['" + near.URL + "/file.yaml']\n")}},
		{"kustomize-remote-base", "/base.git/info/refs not valid", files{"k8s/kustomization.yaml": kustomize("resources: ['" + near.URL + "/base.git//k8s?ref=main']\n")}},
		{"helm-above", "outside repository root", files{"k8s/Chart.yaml": chart, "k8s/templates/a.yaml": configMap("a", "1"),
			"k8s/.argocd-source.yaml": gitserver.File("helm: {valueFiles: [../../../../../etc/hostname]}\n")}},
		{"helm-remote-values", "is not allowed", files{"k8s/Chart.yaml": chart, "k8s/templates/a.yaml": gitserver.File("apiVersion: v1\nkind: ConfigMap\nmetadata: {name: a}\ndata: {value: {{ .Values.secret }}}\n"),
			"k8s/.argocd-source.yaml": gitserver.File("helm: {valueFiles: ['" + near.URL + "/values.yaml']}\n")}},
		{"helm-dependency", "failed to build helm dependencies", files{"k8s/Chart.yaml": needs(near.URL + "/charts"), "k8s/templates/a.yaml": configMap("a", "1")}},
		{"helm-dependency-above", "failed to build helm dependencies", files{"k8s/Chart.yaml": needs("file://../../../../../../etc"), "k8s/templates/a.yaml": configMap("a", "1")}},
		{"helm-loop", "failed running helm", files{"k8s/Chart.yaml": chart, "k8s/templates/a.yaml": gitserver.File(`{{ define "x" }}{{ include "x" . }}{{ end }}{{ include "x" . }}`)}},
		{"not-there", "app path does not exist", files{"other/a.yaml": configMap("a", "1")}},
	} {
		repo.Commit(t, c.name, c.tree)
		w.deploy(t, ns, c.name, fmt.Sprintf("{source: {repoURL: %q, path: k8s, targetRevision: %s}, type: automated}", repo.URL, c.name))
		o := w.wait(t, deployments, ns, c.name, "refused: "+c.says, func(o *thing) bool {
			got := condition(o, "ComparisonError")
			return strings.HasPrefix(got, "True") && strings.Contains(got, c.says)
		})
		t.Logf("%s: %s", c.name, troubles(o))
		if len(listed(o)) != 0 {
			t.Errorf("%s: it has %q", c.name, listed(o))
		}
		if text, _ := o.MarshalJSON(); strings.Contains(string(text), hush) {
			t.Errorf("%s: what the network answered is told: %s", c.name, troubles(o))
		}
	}
	w.value(t, ns, "a", "none")
	if _, err := os.Stat(ran); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("a program of the repository has run (%v)", err)
	}
	// Bases and charts elsewhere are asked for, as whoever can reach them may; values, and
	// charts of overlays, are not.
	near.mu.Lock()
	for _, one := range near.asked {
		if path, proof, _ := strings.Cut(one, " "); proof != "" || path == "/values.yaml" || path == "/index.yaml" {
			t.Errorf("the network was asked for %s, with %q", path, proof)
		}
	}
	near.mu.Unlock()
	// One that becomes good is taken.
	good := repo.Commit(t, "symlink", files{"k8s/b.yaml": configMap("b", "1")})
	w.push(t, repo, "symlink", w.pushSecret(t))
	w.synced(t, ns, "symlink", good)
	w.value(t, ns, "b", "1")
}
