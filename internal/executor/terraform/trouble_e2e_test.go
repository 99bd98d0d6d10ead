//go:build e2e

package terraform_test

import (
	"context"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"testing"

	"github.com/droverhq/drover/internal/executor"
	"github.com/droverhq/drover/internal/fault"
)

// slow makes something, says who its OpenTofu is, and waits until somebody lets it
// go on.
const slow = `
variable "place" { type = string }
resource "terraform_data" "first" {
  input = "made"
}
resource "terraform_data" "second" {
  input = terraform_data.first.output
  provisioner "local-exec" {
    command = "if [ -e '${var.place}/wait' ]; then echo $PPID > '${var.place}/pid'; while [ -e '${var.place}/wait' ]; do sleep 0.1; done; fi"
  }
}
output "second" { value = terraform_data.second.output }
`

func (w *world) slow(t *testing.T, id string) (*life, <-chan struct{}) {
	t.Helper()
	if err := os.WriteFile(filepath.Join(w.place, "wait"), nil, 0o600); err != nil {
		t.Fatal(err)
	}
	l := w.life(id, slow, map[string]any{"place": w.place})
	begun := make(chan struct{})
	once := sync.OnceFunc(func() { close(begun) })
	l.log.on = func(line string) {
		if strings.Contains(line, "second: Provisioning") {
			once()
		}
	}
	return l, begun
}

func (w *world) letGo(t *testing.T) {
	t.Helper()
	if err := os.Remove(filepath.Join(w.place, "wait")); err != nil {
		t.Fatal(err)
	}
}

// tofus are the OpenTofu processes that work below a directory.
func tofus(t *testing.T, dir string) (pids []int) {
	t.Helper()
	all, _ := filepath.Glob("/proc/[0-9]*/cwd")
	for _, link := range all {
		at, err := os.Readlink(link)
		if err != nil || !strings.HasPrefix(at, dir) {
			continue
		}
		pid, _ := strconv.Atoi(strings.Split(link, "/")[2])
		if name, err := os.Readlink("/proc/" + strconv.Itoa(pid) + "/exe"); err == nil && strings.Contains(filepath.Base(name), "tofu") {
			pids = append(pids, pid)
		}
	}
	return pids
}

func TestOpenTofuKilledInTheMiddle(t *testing.T) {
	w := newWorld(t)
	l, begun := w.slow(t, "killed")
	plan, err := w.x.Plan(t.Context(), w.call(l))
	if err != nil {
		t.Fatal(err)
	}
	l.Mark = plan.Mark
	ended := make(chan error, 1)
	go func() { _, err := w.x.Apply(t.Context(), w.call(l)); ended <- err }()
	<-begun
	pids := tofus(t, w.work)
	if len(pids) == 0 {
		t.Fatal("there is no OpenTofu to kill")
	}
	for _, pid := range pids {
		if out, err := exec.Command("kill", "-9", strconv.Itoa(pid)).CombinedOutput(); err != nil {
			t.Fatalf("%v: %s", err, out)
		}
	}
	w.letGo(t)
	if err := <-ended; err == nil || fault.Is(err, fault.Invalid) {
		t.Errorf("it was killed, and says %v", err)
	}
	if s, _, err := w.states.Read(t.Context(), "killed"); err != nil || s.Lock == nil {
		t.Fatalf("its lock is not left behind: %+v, %v", s, err)
	}
	// The next run takes the lock over, and goes on with the same plan.
	for !w.apply(t, l).Done {
	}
	if l.Outputs["second"] != "made" || !strings.Contains(l.log.String(), "its lock is taken over") {
		t.Errorf("outputs %v, log %s", l.Outputs, l.log)
	}
	w.destroy(t, l)
}

func TestLocksLeftBehind(t *testing.T) {
	w := newWorld(t)
	host, _ := os.Hostname()
	l := w.life("left", `resource "terraform_data" "it" {}`, nil)
	for _, tc := range []struct {
		reason, host, run string
		taken             bool
	}{
		{"a run of this machine that is no more", host, filepath.Join(w.work, "left.gone"), true},
		{"another machine may be at work", "elsewhere", filepath.Join(w.work, "left.gone"), false},
		{"so may another server of this machine", host, "/somewhere/else/left.gone", false},
	} {
		w.locked(t, "left", tc.host, tc.run)
		res := w.apply(t, l)
		if res.Done != tc.taken {
			t.Errorf("%s: %+v", tc.reason, res)
		}
		if !tc.taken {
			if !strings.Contains(res.Message, "drover env unlock demo/it") || !strings.Contains(res.Message, tc.host) {
				t.Errorf("%s: it says %q", tc.reason, res.Message)
			}
			if err := w.states.Unlock(t.Context(), "left", "left-behind"); err != nil {
				t.Fatal(err)
			}
		}
	}
	w.destroy(t, l)
}

func TestTwoAppliesAtOnce(t *testing.T) {
	w := newWorld(t)
	l, begun := w.slow(t, "both")
	first := make(chan error, 1)
	go func() { _, err := w.x.Apply(t.Context(), w.call(l)); first <- err }()
	<-begun
	other := w.life("both", slow, map[string]any{"place": w.place})
	before := w.x
	w.x = w.open(t) // another process, which must not sweep up what is in use
	if res := w.apply(t, other); res.Done || !strings.Contains(res.Message, "at work") {
		t.Errorf("two work at once: %+v", res)
	}
	if plan, err := w.x.Plan(t.Context(), w.call(other)); err != nil || plan.Action == executor.None {
		t.Errorf("a plan meanwhile: %+v, %v", plan, err)
	}
	w.letGo(t)
	if err := <-first; err != nil {
		t.Errorf("the first: %v", err)
	}
	w.x = before
	if res := w.apply(t, other); !res.Done || res.Outputs["second"] != "made" {
		t.Errorf("afterwards: %+v", res)
	}
	w.destroy(t, l)
}

func TestCancellationLeavesAStateThatIsRight(t *testing.T) {
	w := newWorld(t)
	l, begun := w.slow(t, "cancelled")
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() { _, err := w.x.Apply(ctx, w.call(l)); ended <- err }()
	<-begun
	cancel()
	if err := <-ended; !errors.Is(err, context.Canceled) {
		t.Errorf("it says %v", err)
	}
	w.letGo(t)
	s, state, err := w.states.Read(t.Context(), "cancelled")
	if err != nil || s.Lock != nil || !strings.Contains(string(state), `"first"`) {
		t.Errorf("the state is %+v, %s, %v", s, state, err)
	}
	if !w.apply(t, l).Done {
		t.Error("it does not go on")
	}
	w.destroy(t, l)
}

// A run whose state nobody takes leaves it behind, and the next run brings it in.
func TestStatesAreRescued(t *testing.T) {
	w := newWorld(t)
	l := w.life("rescued", `resource "terraform_data" "it" { input = "x" }`, nil)
	w.posted = func() { // somebody has taken the lock away
		s, _, err := w.states.Read(t.Context(), "rescued")
		if err == nil && s.Lock != nil {
			_ = w.states.Unlock(t.Context(), "rescued", s.Lock.ID)
		}
	}
	if _, err := w.x.Apply(t.Context(), w.call(l)); err == nil {
		t.Error("what it wrote was refused, and it says nothing")
	}
	w.posted = nil
	if _, state, err := w.states.Read(t.Context(), "rescued"); err != nil || !strings.Contains(string(state), `"terraform_data"`) {
		t.Errorf("what it has made is forgotten: %s, %v", state, err)
	}
	if plan, err := w.x.Plan(t.Context(), w.call(l)); err != nil || plan.Action != executor.None {
		t.Errorf("the plan is %+v, %v", plan, err)
	}
	w.destroy(t, l)
}

func TestSecretsLieNowhere(t *testing.T) {
	const canary = "canary-31c7e5aa90"
	w := newWorld(t)
	l := w.life("secret", `
variable "password" { type = string }
resource "terraform_data" "it" {
  input = var.password
  provisioner "local-exec" { command = "echo ${nonsensitive(var.password)}; echo as it is" }
}
output "login" {
  value     = "user:${terraform_data.it.output}"
  sensitive = true
}
`, map[string]any{"password": executor.NewSecret(canary)})
	w.apply(t, l)
	if out, ok := l.Outputs["login"].(executor.Secret); !ok || executor.Reveal(out) != "user:"+canary {
		t.Errorf("the output is %#v", l.Outputs["login"])
	}
	if log := l.log.String(); strings.Contains(log, canary) || !strings.Contains(log, "as it is") {
		t.Errorf("the log is %s", log)
	}
	if in := find(t, filepath.Dir(filepath.Dir(w.work)), canary); len(in) > 0 { // with the ledger
		t.Errorf("the secret lies in %v", in)
	}
	l.Inputs["files"] = map[string]any{"main.tf": `
variable "password" { type = string }
output "login" { value = var.password }
`}
	_, err := w.x.Plan(t.Context(), w.call(l))
	if !fault.Is(err, fault.Invalid) || strings.Contains(err.Error(), canary) {
		t.Errorf("an output tells a secret: %v", err)
	}
	w.destroy(t, l)
}

func TestHostileAndBrokenModules(t *testing.T) {
	w := newWorld(t)
	for _, tc := range []struct {
		reason string
		inputs map[string]any
		says   string
	}{
		{"a file outside", map[string]any{"files": map[string]any{"../main.tf": ""}}, "leads out"},
		{"a file elsewhere", map[string]any{"files": map[string]any{"/etc/main.tf": ""}}, "leads out"},
		{"a module outside", map[string]any{"module": "../../etc"}, "leads out"},
		{"no module", map[string]any{"files": map[string]any{"README": ""}}, "no module"},
		{"both", map[string]any{"module": ".", "files": map[string]any{"main.tf": ""}}, "either"},
		{"neither", map[string]any{}, "either"},
		{"no HCL", map[string]any{"files": map[string]any{"main.tf": "{{{"}}, "mistakes"},
		{"a type that is none", map[string]any{"files": map[string]any{"main.tf": "variable \"x\" { type = strin }"}}, "mistakes"},
		{"a variable that is not declared", map[string]any{"files": map[string]any{"main.tf": ""}, "variables": map[string]any{"nme": "x"}}, `no variable "nme"`},
		{"a variable that is missing", map[string]any{"files": map[string]any{"main.tf": `variable "x" { type = string }`}}, "required variable"},
	} {
		l := w.life("broken", "", nil)
		l.Inputs = tc.inputs
		_, err := w.x.Plan(t.Context(), w.call(l))
		if !fault.Is(err, fault.Invalid) || !strings.Contains(err.Error(), tc.says) {
			t.Errorf("%s: %v (%v)", tc.reason, err, fault.Of(err))
		}
	}
	l := w.life("large", `output "x" { value = join("", [for i in range(150) : join("", [for j in range(1000) : "0123456789"])]) }`, nil)
	if _, err := w.x.Apply(t.Context(), w.call(l)); !fault.Is(err, fault.Invalid) || !strings.Contains(err.Error(), "outputs") {
		t.Errorf("huge outputs: %v", err)
	}
	// A module of the tree comes with its neighbours, and without somebody's state.
	l = w.life("tree", "", nil)
	l.Inputs = map[string]any{"module": "./one", "variables": map[string]any{"x": "there"}}
	l.Files = func(context.Context) (map[string][]byte, error) {
		return map[string][]byte{
			"one/main.tf":           []byte("variable \"x\" {}\nmodule \"two\" {\n  source = \"../two\"\n  x      = var.x\n}\noutput \"x\" { value = module.two.x }\n"),
			"two/main.tf":           []byte("variable \"x\" {}\nresource \"terraform_data\" \"it\" { input = var.x }\noutput \"x\" { value = terraform_data.it.output }\n"),
			"one/terraform.tfstate": []byte("{}"),
		}, nil
	}
	if res := w.apply(t, l); res.Outputs["x"] != "there" || len(res.Made) != 1 || res.Made[0] != "module.two.terraform_data.it" {
		t.Errorf("made %+v", res)
	}
	l.Files = nil // the template has it no longer
	w.destroy(t, l)
}
