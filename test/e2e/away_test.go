package e2e

import (
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/droverhq/drover/api/client"
	"github.com/droverhq/drover/test/consul"
	"github.com/droverhq/drover/test/drover"
	"github.com/droverhq/drover/test/gitserver"
	"github.com/droverhq/drover/test/openbao"
	"github.com/droverhq/drover/test/tofu"
)

// behind is a template whose one resource of a backend is made once a gate is open,
// so that a test knows what is down when it is.
const behind = `
apiVersion: drover.dev/v1
kind: Template
metadata: {name: NAME}
spec:
  version: "1"
  parameters: {type: object, required: [gate], properties: {gate: {type: string}}}
  resources:
    - name: slow
      executor: action
      with: {app: {name: wait, url: "file:./wait.sh"}, command: [wait], env: {GATE: "${params.gate}"}}
    - {name: it, needs: [slow], RESOURCE}
`

// Consul, OpenBao or OpenTofu is down while an environment is made: it says what it
// waits for, another one is made meanwhile, what was there stays as it was, the
// doctor names it, and all goes on by itself when it is back. Consul and OpenBao are given a
// rest, which uses up none of the tries that a template has without a word of its own;
// OpenTofu is tried as often as the template says.
func TestSomethingOfAnEnvironmentIsAway(t *testing.T) {
	kv, bao := consul.Start(t, consul.WithData()), openbao.Start(t, openbao.WithData())
	place := t.TempDir()
	token, binary, config := filepath.Join(place, "token"), filepath.Join(place, "tofu"), filepath.Join(place, "connections.yaml")
	connections := fmt.Sprintf(`apiVersion: drover.dev/v1
kind: Connection
metadata: {name: default}
spec: {executor: consul, options: {address: %q}, for: {orgs: ["*"]}}
---
apiVersion: drover.dev/v1
kind: Connection
metadata: {name: default}
spec: {executor: vault, options: {address: %q, auth: token, tokenFile: %q}, for: {orgs: ["*"]}}
`, kv.URL, bao.URL, token)
	for file, text := range map[string]string{token: bao.Token, config: connections} {
		if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.Symlink(tofu.Path(t), binary); err != nil {
		t.Fatal(err)
	}
	s := drover.Serve(t, "--connections", config, "--executor-options", "terraform.binary="+binary+",terraform.config="+tofu.Config(t))
	c := s.Client(t)
	const rests = `"resting":"` // in its status: since when nobody answers
	opened := filepath.Join(place, "opened")
	open(t, opened)
	goes(t, s, "template", "add", put(t, t.TempDir(), map[string]string{"template.yaml": small("1.0.0")}))
	for _, b := range []struct {
		name, resource, says, waits, side string
		files                             map[string]string
		down                              func() error
		up                                func() error
	}{
		{"consul", `executor: consul, with: {key: "${env.name}/size", value: small}`, "Consul at", rests, "Consul at", nil, kv.Stop, kv.Start},
		{"vault", `executor: vault, with: {path: "secret/${env.name}/db", data: {user: app}}`, "Vault at", rests, "Vault at", nil, bao.Stop, bao.Restart},
		{"sealed", `executor: vault, with: {path: "secret/${env.name}/db", data: {user: app}}`, "Vault at", rests, "Vault at", nil, bao.Seal, bao.Unseal},
		{"opentofu", `executor: terraform, retries: 10, with: {module: ./module}`, "OpenTofu", "of 11 failed, the next one comes by itself", "executor terraform", map[string]string{"module/main.tf": `resource "terraform_data" "it" { input = "made" }`},
			func() error { return os.Remove(binary) }, func() error { return os.Symlink(tofu.Path(t), binary) }},
	} {
		t.Run(b.name, func(t *testing.T) {
			files := map[string]string{"template.yaml": strings.NewReplacer("NAME", b.name, "RESOURCE", b.resource).Replace(behind), "wait.sh": waitProgram}
			for name, text := range b.files {
				files[name] = text
			}
			gate := filepath.Join(t.TempDir(), "gate")
			goes(t, s, "template", "add", put(t, t.TempDir(), files))
			goes(t, s, "env", "create", "old-"+b.name, "--template", b.name, "--set", "gate="+opened, "--wait")
			goes(t, s, "env", "create", "new-"+b.name, "--template", b.name, "--set", "gate="+gate)
			resourceIs(t, c, "new-"+b.name, "slow", "applying", "")
			if err := b.down(); err != nil {
				t.Fatal(err)
			}
			open(t, gate)
			resourceIs(t, c, "new-"+b.name, "it", "", b.says)
			resourceIs(t, c, "new-"+b.name, "it", "", b.waits)
			goes(t, s, "env", "create", "other-"+b.name, "--template", "small", "--wait") // needs nobody
			if o, err := c.Get(t.Context(), "environments", "old-"+b.name, ""); err != nil || o.Phase != "Deployed-OK" {
				t.Errorf("what was there is %s, %v", o.Phase, err)
			}
			drover.Until(t, "the doctor to name it", func() bool {
				out, _, code := s.Run("doctor")
				return code == 7 && strings.Contains(out, b.side)
			})
			if err := b.up(); err != nil {
				t.Fatal(err)
			}
			awaitEnvironment(t, c, "new-"+b.name, "Deployed-OK")
		})
	}
}

// resourceIs waits until a resource of an environment is in a phase, and tells a text.
func resourceIs(t *testing.T, c *client.Client, env, name, phase, text string) {
	t.Helper()
	last := ""
	drover.Until(t, fmt.Sprintf("%s/%s to be %s and to say %q", env, name, phase, text), func() bool {
		page, err := c.List(t.Context(), "resources", client.ListOptions{Search: "name = '" + name + "' and environment = '" + env + "'"})
		if err != nil || len(page.Items) != 1 {
			return false
		}
		o := page.Items[0]
		if now := o.Phase + " " + string(o.Status); now != last {
			last = now
			t.Logf("%s/%s: %s", env, name, now)
		}
		return (phase == "" || o.Phase == phase) && strings.Contains(string(o.Status), text)
	})
}

// A Git server is down: what is new of it is refused with the reason, what was read
// of it before is used as ever, and it is read again once it is back.
func TestGitIsAway(t *testing.T) {
	s, git := drover.Up(t), gitserver.Start(t)
	r := git.Repo(t, "team/shop")
	r.Commit(t, "main", map[string]gitserver.Entry{"template.yaml": gitserver.File(small("1.0.0"))})
	goes(t, s, "template", "add", r.URL)
	goes(t, s, "env", "create", "before", "--template", "small", "--wait")
	r.Commit(t, "main", map[string]gitserver.Entry{"template.yaml": gitserver.File(small("2.0.0"))})
	git.Stop()
	for range 7 { // past where its breaker opens: the words stay
		if out := fails(t, s, 1, "template", "add", r.URL); !strings.Contains(out, "cannot be reached") {
			t.Errorf("without its server: %s", out)
		}
	}
	goes(t, s, "env", "create", "meanwhile", "--template", "small", "--wait")
	if o, err := s.Client(t).Get(t.Context(), "environments", "before", ""); err != nil || o.Phase != "Deployed-OK" {
		t.Errorf("what was there is %s, %v", o.Phase, err)
	}
	if out, errs, code := s.Run("doctor"); !strings.Contains(out, "the Git repository: 1 does not answer") {
		t.Errorf("the doctor says %d: %s%s", code, out, errs)
	}
	if err := git.Start(); err != nil {
		t.Fatal(err)
	}
	drover.Until(t, "the new version to be read", func() bool {
		out, _, code := s.Run("template", "add", r.URL)
		return code == 0 && strings.Contains(out, "version 2.0.0")
	})
}

// An agent dies, and another cluster has one that lives: orders go there, and are
// changed and deleted there, while the first is silent.
func TestAgentOfOneClusterIsAway(t *testing.T) {
	s, a := edge(t)
	c := s.Client(t)
	mustOrder(t, c, "rex")
	awaitPhase(t, c, "rex", "ready")
	other := drover.Join(t, s.URL(), "other", s.Cluster(t, "other"), "--heartbeat", "1s")
	awaitCluster(t, s, "other")
	a.Kill()
	drover.Until(t, "the first cluster to be silent", func() bool {
		o, err := c.Get(t.Context(), "clusters", "edge", "")
		return err == nil && o.Phase == "waiting_for_fleetshard_operator"
	})
	mustOrder(t, c, "tina")
	awaitPhase(t, c, "tina", "ready")
	if here, there := drover.Instances(a.DataDir), drover.Instances(other.DataDir); len(here) != 1 || len(there) != 1 {
		t.Errorf("%v run where the agent is away, %v where it is not", here, there)
	}
	if _, err := c.Delete(t.Context(), "dinosaurs", "tina"); err != nil {
		t.Fatal(err)
	}
	drover.Until(t, "tina to be gone", func() bool {
		_, err := c.Get(t.Context(), "dinosaurs", "tina", "")
		return client.Status(err) == http.StatusNotFound && len(drover.Instances(other.DataDir)) == 0
	})
	if o, err := c.Get(t.Context(), "clusters", "edge", ""); err != nil || o.Phase != "waiting_for_fleetshard_operator" || phase(c, "rex") != "ready" {
		t.Errorf("the first cluster is %s, %v, and rex %s", o.Phase, err, phase(c, "rex"))
	}
}

// An agent dies: what it runs goes on, its cluster says that it is silent and takes
// no orders, the doctor names it, and when it is back all is as before.
func TestAgentIsAway(t *testing.T) {
	s, a := edge(t)
	c := s.Client(t)
	mustOrder(t, c, "rex")
	awaitPhase(t, c, "rex", "ready")
	if out, _, _ := s.Run("doctor"); strings.Contains(out, "cluster") {
		t.Errorf("of clusters that are well the doctor says %s", out)
	}
	before := drover.Instances(a.DataDir)
	a.Kill()
	drover.Until(t, "the doctor to name the cluster", func() bool {
		out, _, code := s.Run("doctor")
		return code == 7 && strings.Contains(out, "CRITICAL  1 cluster is not heard of: its agent is silent") && strings.Contains(out, "drover describe cluster edge")
	})
	if o, err := c.Get(t.Context(), "clusters", "edge", ""); err != nil || o.Phase != "waiting_for_fleetshard_operator" || !strings.Contains(string(o.Status), "silent since") {
		t.Errorf("the cluster is %s: %s, %v", o.Phase, o.Status, err)
	}
	if now := drover.Instances(a.DataDir); len(now) != 1 || now[0] != before[0] || phase(c, "rex") != "ready" {
		t.Errorf("%v run, not %v, and rex is %s", now, before, phase(c, "rex"))
	}
	mustOrder(t, c, "tina")
	drover.Until(t, "tina to wait for a cluster", func() bool {
		out, _, code := s.Run("describe", "dinosaur", "tina")
		return code == 0 && strings.Contains(out, "waiting for a ready cluster")
	})
	a.Start(t)
	awaitPhase(t, c, "tina", "ready")
	drover.Until(t, "the doctor to be content", func() bool {
		out, _, code := s.Run("doctor")
		return (code == 0 || code == 7) && !strings.Contains(out, "silent")
	})
	s.Stop()
	if out, errs, code := s.Run("doctor"); code != 6 || !strings.Contains(errs, "Likely:  the server is down") {
		t.Errorf("without a server: %d %s%s", code, out, errs)
	}
}
