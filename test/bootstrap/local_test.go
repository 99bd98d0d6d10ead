//go:build e2e && linux

package bootstrap_test

import (
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"

	"github.com/droverhq/drover/api/client"
	"github.com/droverhq/drover/test/drover"
	"github.com/droverhq/drover/test/gitserver"
)

// programs of the meta environment.
var programs = []string{"postgres", "epmd", "rabbitmq", "consul", "openbao", "prometheus", "drover"}

func (w *world) healthy() {
	w.t.Helper()
	drover.Until(w.t, "the environment meta is kept by the new Drover", func() bool {
		phase, ready := w.phase("meta")
		return phase == "Deployed-OK" && ready >= 25
	})
}

const shop = `apiVersion: drover.dev/v1
kind: Template
metadata: {name: shop}
spec:
  version: 1.0.0
  parameters: {properties: {size: {type: string, default: small}}}
  resources:
    - {name: note, executor: file, with: {path: "${env.name}/note", content: "${params.size}"}}
`

const shopEnvironment = `apiVersion: drover.dev/v1
kind: Environment
metadata: {name: shop-staging}
spec: {template: shop, parameters: {size: large}, tags: [staging]}
`

// evil runs a program on the machine, if it is let.
const evil = `apiVersion: drover.dev/v1
kind: Template
metadata: {name: evil}
spec:
  version: 1.0.0
  resources:
    - {name: shell, executor: process, with: {name: evil, program: sh, args: ["-c", "sleep 1000"]}}
`

func TestLocal(t *testing.T) {
	w := newWorld(t)
	git := gitserver.Start(t)
	repo := func(name string, files map[string]gitserver.Entry) {
		git.Repo(t, "acme/infra-"+name).Commit(t, "main", files)
	}
	repo("meta", map[string]gitserver.Entry{"drover.yaml": gitserver.File("apiVersion: drover.dev/v1\nkind: Repositories\nspec: {repositories: [infra-missing, infra-malformed, infra-hostile, infra-evil, infra-shop]}\n")})
	repo("shop", map[string]gitserver.Entry{"shop/template.yaml": gitserver.File(shop), "environments/staging.yaml": gitserver.File(shopEnvironment)})
	repo("malformed", map[string]gitserver.Entry{"environments/a.yaml": gitserver.File("kind: [Environment"), "t/template.yaml": gitserver.File("nonsense: true\n")})
	repo("hostile", map[string]gitserver.Entry{"environments/a.yaml": gitserver.Symlink("../../../../etc/passwd"),
		"environments/b.yaml": gitserver.File(strings.Replace(shopEnvironment, "shop-staging", "meta", 1)),
		"environments/c.yaml": gitserver.File(strings.Replace(shopEnvironment, "template: shop", "template: ../../meta-local", 1))})
	repo("evil", map[string]gitserver.Entry{"evil/template.yaml": gitserver.File(evil),
		"own/template.yaml":      gitserver.File(strings.Replace(shop, "{name: shop}", "{name: meta-local}", 1)),
		"environments/evil.yaml": gitserver.File("apiVersion: drover.dev/v1\nkind: Environment\nmetadata: {name: evil}\nspec: {template: evil}\n"),
		"environments/more.yaml": gitserver.File("apiVersion: drover.dev/v1\nkind: Environment\nmetadata: {name: more}\nspec: {template: meta-local, parameters: {directory: /tmp, drover: /bin/true, port: 2000}}\n")})
	of := []string{"--base-url", git.URL, "--github-organisation", "acme", "--repository-prefix", "infra-"}

	// A plan first: nothing is there after it.
	if out, code := w.run(w.local("--dry-run")...); code != 0 || !strings.Contains(out, `"name":"postgres"`) {
		t.Fatalf("the dry run ends with %d: %s", code, out)
	}
	if _, err := os.Stat(w.state); err == nil {
		t.Error("the dry run has made its state directory")
	}

	last := w.must(append(of, "--repositories", "infra-shop")...)
	if last.Report.Outcome != "bootstrapped" || last.Report.Server == "" {
		t.Errorf("it ends with %+v", last)
	}
	t.Logf("healthy and handed over after %.1f s", last.Report.Seconds)
	w.healthy()
	drover.Until(t, "the environment of the repository", func() bool { phase, _ := w.phase("shop-staging"); return phase == "Deployed-OK" })
	for _, name := range programs {
		if len(w.processes()[name]) == 0 && name != "epmd" { // which has no directory
			t.Errorf("%s does not run: %v", name, w.processes())
		}
	}
	w.opened()
	w.observed()
	if out, code := w.run("status", "--state", w.state); code != 0 {
		t.Errorf("status ends with %d: %s", code, out)
	}

	// The second time nothing is to do.
	before := w.pid("drover")
	if again := w.must(append(of, "--repositories", "infra-shop")...); again.Report.Outcome != "unchanged" {
		t.Errorf("the second run is %s", again.Report.Outcome)
	}
	if w.pid("drover") != before {
		t.Error("the second run has started Drover again")
	}

	// What is wrong is named, stops nothing, and is the end's word.
	lines, said, _, code := w.boot(0, of...)
	if code == 0 {
		t.Error("it ends well, over repositories that are wrong")
	}
	told := said
	for _, l := range lines {
		told += l.Step + " " + l.Name + " " + l.Phase + " " + l.Message + "\n"
	}
	for _, want := range []string{"infra-missing", "infra-malformed", "infra-hostile", "shop-staging there", "Drover itself is made of the template meta-local", "environment more failed"} {
		if !strings.Contains(told, want) {
			t.Errorf("%q is not told:\n%s", want, told)
		}
	}
	if phase, _ := w.phase("meta"); phase != "Deployed-OK" {
		t.Errorf("meta is %s after that", phase)
	}

	// Who may push to a repository has no program run here.
	drover.Until(t, "what would run a program is refused", func() bool { phase, _ := w.phase("evil"); return strings.Contains(phase, "Fail") })
	if _, err := os.Lstat(filepath.Join(w.state, "run", "evil")); err == nil || len(w.processes()["evil"]) > 0 {
		t.Errorf("a repository's program runs: %v, %v", err, w.processes())
	}

	// The new keeper keeps it.
	old := w.pid("consul")
	if err := syscall.Kill(old, syscall.SIGKILL); err != nil {
		t.Fatal(err)
	}
	drover.Until(t, "Consul comes back by Drover's hand", func() bool { return w.pid("consul") != old })
	drover.Until(t, "that is on record", func() bool {
		page, err := w.client().List(t.Context(), "drifts", client.ListOptions{Size: 10})
		return err == nil && len(page.Items) > 0 && page.Items[0].Phase == "corrected"
	})
	w.healthy()
	w.renews()
	w.rotates()

	// Nobody is left who could start anything: the machine was restarted.
	var groups []int
	for _, name := range programs {
		groups = append(groups, w.pid(name))
	}
	for _, pid := range groups {
		_ = syscall.Kill(-pid, syscall.SIGKILL)
	}
	drover.Until(t, "all are gone", func() bool { return len(w.processes()) == 0 })
	if out, code := w.run("status", "--state", w.state); code != 7 {
		t.Errorf("status ends with %d: %s", code, out)
	}
	if again := w.must(); again.Report.Outcome != "revived" {
		t.Errorf("what was dead is %s", again.Report.Outcome)
	}
	w.healthy()
	w.opened()
	w.secretless()
}

// secretless looks for secrets where people read.
func (w *world) secretless() {
	w.t.Helper()
	key, err := os.ReadFile(filepath.Join(w.state, "run/drover/master.key"))
	if err != nil {
		w.t.Fatal(err)
	}
	out, _ := w.run(w.local()...)
	if strings.Contains(out, strings.TrimSpace(string(key))) || strings.Contains(w.logs(), strings.TrimSpace(string(key))) {
		w.t.Error("the master key is told")
	}
}

// ownMeta puts a meta template like the one that ships into a repository, with a resource
// of its own, and something later that is none. It returns the commit of the first.
func ownMeta(t *testing.T, repo *gitserver.Repo) string {
	t.Helper()
	files := map[string]gitserver.Entry{}
	for _, name := range []string{"template.yaml", "rules.yaml"} {
		text, err := os.ReadFile("../../deploy/meta/local/" + name)
		if err != nil {
			t.Fatal(err)
		}
		files["local/"+name] = gitserver.File(strings.Replace(string(text), "\n  resources:\n", "\n  resources:\n    - {name: acme_key, executor: secret}\n", 1))
	}
	commit := repo.Commit(t, "main", files)
	repo.Commit(t, "main", map[string]gitserver.Entry{"local/template.yaml": gitserver.File("nonsense: true\n")})
	return commit
}

// It is killed after its first word, then after its second, and so on until it comes
// to its end: nothing is there twice, and nobody is missing. Its template is that of a
// repository, at the commit that was named.
func TestKilledAtEveryStep(t *testing.T) {
	w := newWorld(t)
	git := gitserver.Start(t)
	git.Repo(t, "acme/infra-shop").Commit(t, "main", map[string]gitserver.Entry{"shop/template.yaml": gitserver.File(shop), "environments/staging.yaml": gitserver.File(shopEnvironment)})
	commit := ownMeta(t, git.Repo(t, "acme/infra-meta"))
	kills, of := 0, []string{"--base-url", git.URL, "--github-organisation", "acme", "--repositories", "infra-shop", "--meta-repository", "infra-meta@" + commit}
	if out, code := w.run(w.local(append(of, "--dry-run")...)...); code != 0 || !strings.Contains(out, commit) || !strings.Contains(out, `"name":"acme_key"`) {
		t.Fatalf("the dry run ends with %d: %s", code, out)
	}
	made := false
	for n := 1; ; n++ {
		lines, said, killed, code := w.boot(n, of...)
		made = made || slices.ContainsFunc(lines, func(l line) bool { return l.Name == "acme_key" && l.Phase == "ready" })
		if !killed {
			if code != 0 {
				t.Fatalf("after %d kills it ends with %d: %s\n%s", kills, code, said, w.logs())
			}
			if last := lines[len(lines)-1]; last.Report.Server == "" {
				t.Errorf("it ends with %+v", last)
			}
			break
		}
		kills++
	}
	if !made {
		t.Error("what only that template has was not made")
	}
	if kills < 13 {
		t.Errorf("it was killed %d times: this shows little", kills)
	}
	w.healthy()
	drover.Until(t, "the environment of the repository", func() bool { phase, _ := w.phase("shop-staging"); return phase == "Deployed-OK" })
	for _, name := range []string{"postgres", "rabbitmq", "consul", "openbao", "prometheus", "drover"} {
		leaders := 0
		for _, pid := range w.processes()[name] {
			if data, err := os.ReadFile("/proc/" + strconv.Itoa(pid) + "/status"); err == nil && strings.Contains(string(data), "\nPPid:\t1\n") || pid == w.pid(name) {
				leaders++
			}
		}
		if name != "rabbitmq" && leaders != 1 { // whose helpers go their own ways
			t.Errorf("%s runs %d times: %v", name, leaders, w.processes()[name])
		}
	}
	if again := w.must(); again.Report.Outcome != "unchanged" {
		t.Errorf("once more is %s", again.Report.Outcome)
	}
	t.Logf("killed %d times", kills)
}
