package e2e

import (
	"encoding/base64"
	"encoding/json"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/droverhq/drover/api/client"
	"github.com/droverhq/drover/test/drover"
	"github.com/droverhq/drover/test/gitserver"
)

const smallTemplate = "apiVersion: drover.dev/v1\nkind: Template\nmetadata: {name: small}\nspec:\n  version: VERSION\n  resources:\n    - {name: page, executor: file, with: {path: \"${env.name}/page\", content: x}}\n"

func small(version string) string { return strings.Replace(smallTemplate, "VERSION", version, 1) }

// A template out of a repository: by branch, tag and commit, from a directory in
// it, with a credential that is kept nowhere.
func TestTemplateFromGit(t *testing.T) {
	s := drover.Up(t)
	const secret = "t0ken-of-the-repository"
	g := gitserver.Start(t, gitserver.WithPassword("ci", secret))
	r := g.Repo(t, "team/shop")
	first := r.Commit(t, "main", map[string]gitserver.Entry{"deploy/template.yaml": gitserver.File(small("1.0.0"))})
	r.Tag(t, "v1", first, "")
	second := r.Commit(t, "main", map[string]gitserver.Entry{"deploy/template.yaml": gitserver.File(small("2.0.0"))})
	r.Branch(t, "side", first)
	r.Commit(t, "side", map[string]gitserver.Entry{"deploy/template.yaml": gitserver.File(small("1.1.0"))})
	password := filepath.Join(t.TempDir(), "password")
	if err := os.WriteFile(password, []byte(secret+"\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	credential := []string{"--username", "ci", "--password-file", password}

	if out := fails(t, s, 4, "template", "add", r.URL+"//deploy@v1"); !strings.Contains(out, "credential") {
		t.Errorf("without a credential: %s", out)
	}
	for _, tc := range []struct{ reason, source, version, commit string }{
		{"a tag", r.URL + "//deploy@v1", "1.0.0", first},
		{"the default branch", r.URL + "//deploy", "2.0.0", second},
		{"a branch", r.URL + "//deploy@side", "1.1.0", ""},
		{"a commit", r.URL + "//deploy@" + second, "2.0.0", second},
	} {
		out := goes(t, s, append([]string{"template", "add", tc.source}, credential...)...)
		if !strings.Contains(out, "version "+tc.version) || tc.commit != "" && !strings.Contains(out, tc.commit[:12]) || strings.Contains(out, secret) {
			t.Errorf("%s: %s", tc.reason, out)
		}
	}
	goes(t, s, append([]string{"template", "add", r.URL, "--path", "deploy", "--revision", "v1"}, credential...)...)
	for _, at := range []string{r.URL + "//nowhere", r.URL + "//deploy@nothing", r.URL + "//../..", g.URL + "/none.git"} {
		if out, errs, code := s.Run(append([]string{"template", "add", at}, credential...)...); code == 0 || strings.Contains(out+errs, secret) {
			t.Errorf("%s ended with %d: %s%s", at, code, out, errs)
		}
	}
	out := goes(t, s, "template", "versions", "small")
	if strings.Count(out, "small@") != 3 {
		t.Errorf("there are\n%s", out)
	}
	goes(t, s, "env", "create", "x", "--template", "small@1.0.0", "--wait")
	if out := goes(t, s, "env", "get", "x"); !strings.Contains(out, "small@"+first[:12]) {
		t.Errorf("it is made of %s", out)
	}
	for _, kind := range []string{"templates", "templateversions", "audits"} {
		if out := goes(t, s, "get", kind, "-o", "yaml"); strings.Contains(out, secret) {
			t.Errorf("%s show the credential", kind)
		}
	}
	if strings.Contains(s.Log(), secret) {
		t.Error("the log shows the credential")
	}
}

// What a hostile template holds is refused or bounded, and the server goes on.
func TestHostileTemplates(t *testing.T) {
	s := drover.Up(t)
	c, token := s.Client(t), admin(t, s)
	before := atRest(t, s, c)
	laughs := "a: &a [x, x, x, x, x, x, x, x, x]\n"
	for i, name := range "bcdefghij" {
		prev := string(rune('a' + i))
		laughs += fmt.Sprintf("%c: &%c [*%s, *%s, *%s, *%s, *%s, *%s, *%s, *%s, *%s]\n", name, name, prev, prev, prev, prev, prev, prev, prev, prev, prev)
	}
	for _, tc := range []struct {
		reason string
		files  map[string]string
		says   string
	}{
		{"out of the tree", map[string]string{"template.yaml": small("1.0.0"), "../../etc/x": "x"}, ""},
		{"from the root", map[string]string{"template.yaml": small("1.0.0"), "/etc/x": "x"}, ""},
		{"a path with a null", map[string]string{"template.yaml": small("1.0.0"), "a\x00b": "x"}, ""},
		{"a billion laughs", map[string]string{"template.yaml": laughs}, "template.yaml"},
		{"no text", map[string]string{"template.yaml": "\xff\xfe\x00"}, "template.yaml"},
		{"nothing in it", map[string]string{"template.yaml": ""}, "template.yaml"},
		{"deep", map[string]string{"template.yaml": strings.Repeat("[", 100_000)}, "template.yaml"},
		{"the name of another", map[string]string{"template.yaml": strings.Replace(small("1.0.0"), "name: small", "name: ../small", 1)}, "template.yaml:3"},
		{"an executor that is not there", map[string]string{"template.yaml": strings.Replace(small("1.0.0"), "executor: file", "executor: shell", 1)}, "template.yaml:7"},
		{"a cycle", map[string]string{"template.yaml": strings.Replace(small("1.0.0"), "name: page,", "name: page, needs: [page],", 1)}, "page"},
	} {
		files := map[string]string{}
		for name, text := range tc.files {
			files[name] = base64.StdEncoding.EncodeToString([]byte(text))
		}
		body, err := json.Marshal(map[string]any{"files": files})
		if err != nil {
			t.Fatal(err)
		}
		a := drover.Must(t, drover.Request{Method: http.MethodPost, URL: s.URL() + "/api/v1/templates", Token: token, Body: body})
		if a.Status != http.StatusBadRequest || !strings.Contains(a.Error().Reason, tc.says) {
			t.Errorf("%s: status %d: %.300s", tc.reason, a.Status, a.Body)
		}
	}
	unmoved(t, c, before)
	if page, err := c.List(t.Context(), "templateversions", client.ListOptions{}); err != nil || page.Total != 0 {
		t.Errorf("%d were taken, %v", page.Total, err)
	}

	// Links lead nowhere, neither from a directory nor out of a repository.
	dir := put(t, t.TempDir(), map[string]string{"template.yaml": small("1.0.0")})
	if err := os.Symlink("/etc/passwd", filepath.Join(dir, "passwd")); err != nil {
		t.Fatal(err)
	}
	fails(t, s, 2, "template", "add", dir)
	r := gitserver.Start(t).Repo(t, "evil")
	r.Commit(t, "main", map[string]gitserver.Entry{"template.yaml": gitserver.File(small("1.0.0")), "passwd": gitserver.Symlink("../../../etc/passwd")})
	r.Branch(t, "bomb", r.Commit(t, "main", map[string]gitserver.Entry{"passwd": gitserver.Gone(), "zeros": gitserver.File(strings.Repeat("\x00", 80<<20))}))
	for _, at := range []string{"", "@bomb"} {
		if out, errs, code := s.Run("template", "add", r.URL+at); code == 0 {
			t.Errorf("%s was taken: %s%s", at, out, errs)
		}
	}
	unmoved(t, c, before)
	goes(t, s, "template", "add", put(t, t.TempDir(), map[string]string{"template.yaml": small("1.0.0")}))
	goes(t, s, "env", "create", "x", "--template", "small", "--wait")
}
