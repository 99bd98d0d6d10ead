//go:build e2e

package argocd_test

import (
	"fmt"
	"maps"
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/droverhq/drover/test/argocd"
	"github.com/droverhq/drover/test/gitserver"
)

// What the repository server makes of charts and overlays, good ones and those
// that reach for what is not theirs.
func TestChartsAndOverlays(t *testing.T) {
	a, git := argocd.Shared(t), gitserver.Start(t)
	ns := a.Cluster.Namespace(t)
	chart := map[string]gitserver.Entry{
		"k8s/Chart.yaml":       gitserver.File("apiVersion: v2\nname: shop\nversion: 1.0.0\n"),
		"k8s/values.yaml":      gitserver.File("value: \"1\"\n"),
		"k8s/templates/a.yaml": gitserver.File("apiVersion: v1\nkind: ConfigMap\nmetadata: {name: a}\ndata: {value: {{ .Values.value | quote }}}\n"),
	}
	overlay := func(text string) map[string]gitserver.Entry {
		return map[string]gitserver.Entry{"k8s/kustomization.yaml": gitserver.File(text), "base/kustomization.yaml": gitserver.File("resources: [a.yaml]\n"), "base/a.yaml": configMap("a", "1")}
	}
	for i, c := range []struct {
		reason string
		files  map[string]gitserver.Entry
		helm   map[string]any // of the source
		want   string         // of what it complains about; empty: it is synced
	}{
		{"a chart", chart, map[string]any{"parameters": []any{map[string]any{"name": "value", "value": "2"}}}, ""},
		{"an overlay", overlay("resources: [../base]\n"), nil, ""},
		{"a chart with values of the machine", chart, map[string]any{"valueFiles": []any{"/etc/hostname"}}, "no such file or directory"},
		{"a chart with values above the repository", chart, map[string]any{"valueFiles": []any{"../../../../../../etc/hostname"}}, "outside repository root"},
		{"a chart with a file of the machine as a parameter", chart, map[string]any{"fileParameters": []any{map[string]any{"name": "value", "path": "../../../../../../etc/hostname"}}}, "outside repository root"},
		{"a chart with values by a scheme of files", chart, map[string]any{"valueFiles": []any{"file:///etc/hostname"}}, "is not allowed"},
		{"an overlay of the machine", overlay("resources: [/etc/hostname]\n"), nil, "is not in or below"},
		{"an overlay above the repository", overlay("resources: [../../../../../../etc]\n"), nil, "kustomize build"},
		{"an overlay that makes a map of the machine's file", overlay("configMapGenerator: [{name: a, files: [/etc/hostname]}]\n"), nil, "is not in or below"},
		{"an overlay with a chart", overlay("helmCharts: [{name: shop, repo: 'http://127.0.0.1:1'}]\n"), nil, "must specify --enable-helm"},
		{"an overlay that runs a program", overlay("transformers: [|-\n  {apiVersion: x/v1, kind: X, metadata: {name: x, annotations: {config.kubernetes.io/function: \"exec: {path: /bin/true}\"}}}]\n"), nil, "kustomize build"},
		{"a link out of the repository", map[string]gitserver.Entry{"k8s/a.yaml": gitserver.Symlink("/etc/hostname")}, nil, "out-of-bounds symlinks"},
		{"what is no manifest", map[string]gitserver.Entry{"k8s/a.yaml": gitserver.File("apiVersion: v1\nkind: ConfigMap\nmetadata: {\n")}, nil, "failed to unmarshal"},
		{"a kind that there is none of", map[string]gitserver.Entry{"k8s/a.yaml": gitserver.File("apiVersion: example.com/v1\nkind: None\nmetadata: {name: a}\n")}, nil, "could not find"},
	} {
		t.Run(c.reason, func(t *testing.T) {
			name := fmt.Sprintf("hostile-%d-%s", i, ns)
			repo := git.Repo(t, strings.ReplaceAll(c.reason, " ", "-"))
			commit := repo.Commit(t, "main", c.files)
			source := map[string]any{"repoURL": repo.URL, "path": "k8s", "targetRevision": "main"}
			if c.helm != nil {
				source["helm"] = maps.Clone(c.helm)
			}
			create(t, a, application(name, repo.URL, ns, map[string]any{"source": source, "syncPolicy": automated}))
			defer remove(t, a, name)
			if c.want == "" {
				a.Wait(t, name, "synced", argocd.Synced(commit))
				return
			}
			app := a.Wait(t, name, "refused or made", func(app *unstructured.Unstructured) bool {
				return app != nil && (strings.Contains(said(app), c.want) || argocd.Synced(commit)(app))
			})
			if got := said(app); !strings.Contains(got, c.want) {
				t.Errorf("it says %q, and should %q", got, c.want)
			}
			if got := value(t, a.Cluster, ns, "a"); got != "none" {
				t.Errorf("it made %q", got)
			}
		})
	}
}

// Jsonnet is evaluated in every directory, and reads what the repository server
// can read, unless a setting of Argo CD leaves it out. The Application may do so
// too, but the repository has the last word.
func TestJsonnetReadsTheMachine(t *testing.T) {
	usual, git := argocd.Shared(t), gitserver.Start(t)
	strict := argocd.Start(t, usual.Cluster, argocd.WithNamespace("argocd-strict"), argocd.WithSettings(map[string]string{"jsonnet.enable": "false"}))
	repo := git.Repo(t, "shop")
	spy := gitserver.File("{apiVersion: 'v1', kind: 'ConfigMap', metadata: {name: 'spy'}, data: {value: importstr '/etc/passwd'}}\n")
	commit := repo.Commit(t, "main", map[string]gitserver.Entry{"k8s/a.yaml": configMap("a", "1"), "k8s/b.jsonnet": spy, "k8s/deep/c.jsonnet": spy})
	for i, c := range []struct {
		reason    string
		in        *argocd.Server
		directory map[string]any
		reads     bool
	}{
		{"as it is", usual, nil, true},
		{"with all that is below", usual, map[string]any{"recurse": true}, true},
		{"left out by the Application", usual, map[string]any{"recurse": true, "exclude": "{*.jsonnet,**/*.jsonnet}"}, false},
		{"left out by the Application, put back by the repository", usual, map[string]any{"recurse": true, "exclude": "{*.jsonnet,**/*.jsonnet}"}, true},
		{"left out by the setting", strict, nil, false},
		{"left out by the setting, with all that is below", strict, map[string]any{"recurse": true, "jsonnet": map[string]any{"libs": []any{"k8s"}}}, false},
	} {
		t.Run(c.reason, func(t *testing.T) {
			ns := c.in.Cluster.Namespace(t)
			name := fmt.Sprintf("jsonnet-%d-%s", i, ns)
			if strings.Contains(c.reason, "put back") {
				commit = repo.Commit(t, "main", map[string]gitserver.Entry{"k8s/.argocd-source.yaml": gitserver.File("directory: {exclude: nothing}\n")})
			}
			source := map[string]any{"repoURL": repo.URL, "path": "k8s", "targetRevision": "main"}
			if c.directory != nil {
				source["directory"] = c.directory
			}
			create(t, c.in, application(name, repo.URL, ns, map[string]any{"source": source, "syncPolicy": automated}))
			c.in.Wait(t, name, "synced", argocd.Synced(commit))
			if got := value(t, c.in.Cluster, ns, "spy"); c.reads != strings.Contains(got, "root:") {
				t.Errorf("it read %q", got)
			}
			if got := value(t, c.in.Cluster, ns, "a"); got != "1" {
				t.Errorf("the manifest beside it made %q", got)
			}
			remove(t, c.in, name)
		})
	}
}
