//go:build e2e

package template_test

import (
	"bytes"
	"context"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/droverhq/drover/internal/fault"
	"github.com/droverhq/drover/internal/provider"
	"github.com/droverhq/drover/internal/provider/providertest"
	"github.com/droverhq/drover/internal/provider/template"
	"github.com/droverhq/drover/test/tofu"
)

// source is a template whose clusters are directories: made and removed by
// commands, as those of a cloud are by its API.
const source = `
variable "cluster_id" { type = string }
variable "region" { type = string }
variable "size" { default = "small" }
variable "place" { type = string }
resource "terraform_data" "cluster" {
  input = { dir = "${var.place}/${var.cluster_id}" }
  provisioner "local-exec" { command = "mkdir '${self.input.dir}'" }
  provisioner "local-exec" {
    when    = destroy
    command = "rmdir '${self.input.dir}'"
  }
}
output "domain" { value = "${var.cluster_id}.${var.region}.example.org" }
output "external_id" { value = terraform_data.cluster.id }
output "nodes" { value = 3 }
output "kubeconfig" {
  value     = "token: s3cr3t-of-${var.cluster_id}"
  sensitive = true
}
`

type world struct {
	work, place string
	cluster     provider.Cluster
}

func newWorld(t *testing.T, source string) world {
	w := world{work: t.TempDir(), place: t.TempDir()}
	dir := t.TempDir()
	if err := os.WriteFile(filepath.Join(dir, "main.tf"), []byte(source), 0o600); err != nil {
		t.Fatal(err)
	}
	w.cluster = provider.Cluster{ID: "c1", Cloud: "aws", Region: "us-east-1", Options: map[string]string{"directory": dir, "var.place": w.place}}
	return w
}

func (w world) open(t *testing.T) provider.Provider {
	p, err := template.New(map[string]string{"binary": tofu.Path(t), "work": w.work})
	if err != nil {
		t.Fatal(err)
	}
	return p
}

func (w world) count(t *testing.T) int {
	entries, err := os.ReadDir(w.place)
	if err != nil {
		t.Fatal(err)
	}
	return len(entries)
}

// keep makes the cluster save into state.
func (w world) keep(state *[]byte) provider.Cluster {
	c := w.cluster
	c.State = *state
	c.Save = func(_ context.Context, data []byte) error {
		*state = bytes.Clone(data)
		return nil
	}
	return c
}

func TestProvider(t *testing.T) {
	w := newWorld(t, source)
	providertest.Run(t, providertest.World{Open: w.open, Cluster: w.cluster, Count: w.count})
}

func TestOutputs(t *testing.T) {
	w := newWorld(t, source)
	var state []byte
	got, err := w.open(t).Ensure(t.Context(), w.keep(&state))
	if err != nil {
		t.Fatal(err)
	}
	if !got.Done || got.Domain != "c1.us-east-1.example.org" || got.Nodes != 3 || got.External == "" || string(got.Kubeconfig) != "token: s3cr3t-of-c1" {
		t.Errorf("got %+v", got)
	}
	if bytes.Contains(state, []byte("s3cr3t")) {
		t.Error("the kept state holds a secret in clear")
	}
	err = filepath.WalkDir(w.work, func(path string, d os.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		data, err := os.ReadFile(path)
		if bytes.Contains(data, []byte("s3cr3t-of-c1")) {
			t.Errorf("%s holds a secret in clear", path)
		}
		return err
	})
	if err != nil {
		t.Error(err)
	}
}

// A run on another machine, which has none of the files, finds the cluster.
func TestAnotherMachine(t *testing.T) {
	w := newWorld(t, source)
	var state []byte
	first, err := w.open(t).Ensure(t.Context(), w.keep(&state))
	if err != nil {
		t.Fatal(err)
	}
	w.work = t.TempDir()
	second, err := w.open(t).Ensure(t.Context(), w.keep(&state))
	if err != nil || second.External != first.External {
		t.Fatalf("got %q, %v, want the cluster %q again", second.External, err, first.External)
	}
	w.work = t.TempDir()
	if p, err := w.open(t).Remove(t.Context(), w.keep(&state)); err != nil || !p.Done {
		t.Fatalf("Remove: %+v, %v", p, err)
	}
	if n := w.count(t); n != 0 {
		t.Errorf("%d clusters are left", n)
	}
}

// A run that was killed after the last save has its state on disk.
func TestKilled(t *testing.T) {
	w := newWorld(t, source)
	var state []byte
	c := w.keep(&state)
	begun := false
	c.Save = func(ctx context.Context, data []byte) error {
		if begun { // the caller is dead by now
			return errors.New("gone")
		}
		begun, state = true, bytes.Clone(data)
		return nil
	}
	if _, err := w.open(t).Ensure(t.Context(), c); err == nil {
		t.Fatal("Ensure was done though its state could not be kept")
	}
	if n := w.count(t); n != 1 {
		t.Fatalf("%d clusters were made", n)
	}
	if p, err := w.open(t).Ensure(t.Context(), w.keep(&state)); err != nil || !p.Done {
		t.Fatalf("the next life: %+v, %v", p, err)
	}
	if n := w.count(t); n != 1 {
		t.Errorf("there are %d clusters, want the one", n)
	}
}

// slow is a template that waits, in the middle, for a file.
const slow = source + `
resource "terraform_data" "slow" {
  depends_on = [terraform_data.cluster]
  input      = var.place
  provisioner "local-exec" { command = "until test -e '${var.place}.go'; do sleep 0.1; done" }
}
`

// patience bounds what OpenTofu takes, on a machine that may have much else to do.
const patience = 4 * time.Minute

// made waits until the template has made its first part.
func (w world) made(t *testing.T) {
	t.Helper()
	for end := time.Now().Add(patience); w.count(t) == 0; {
		if time.Now().After(end) {
			t.Fatal("nothing is made")
		}
		time.Sleep(10 * time.Millisecond)
	}
}

func (w world) goOn(t *testing.T) {
	t.Helper()
	if err := os.WriteFile(w.place+".go", nil, 0o600); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { os.Remove(w.place + ".go") })
}

// finish asks until the cluster is there.
func (w world) finish(t *testing.T, state *[]byte) {
	t.Helper()
	for end := time.Now().Add(patience); ; {
		p, err := w.open(t).Ensure(t.Context(), w.keep(state))
		if err != nil {
			t.Fatal(err)
		}
		if p.Done {
			break
		}
		if p.Message == "" || p.After == 0 {
			t.Fatalf("it is not done, and says neither why nor until when: %+v", p)
		}
		if time.Now().After(end) {
			t.Fatalf("it is never done: %+v", p)
		}
		time.Sleep(50 * time.Millisecond)
	}
	if n := w.count(t); n != 1 {
		t.Errorf("there are %d clusters, want the one", n)
	}
}

// A caller that ends stops OpenTofu, and knows afterwards what was made.
func TestInterrupted(t *testing.T) {
	w := newWorld(t, slow)
	var state []byte
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	ended := make(chan error, 1)
	p, c := w.open(t), w.keep(&state)
	go func() {
		_, err := p.Ensure(ctx, c)
		ended <- err
	}()
	w.made(t)
	cancel()
	if err := <-ended; !errors.Is(err, context.Canceled) {
		t.Fatalf("got %v, want that it was cancelled", err)
	}
	w.goOn(t)
	w.finish(t, &state)
}

// A control plane that is killed while OpenTofu works finds the cluster again:
// OpenTofu goes on, and writes down what it made.
func TestKilledWithin(t *testing.T) {
	w := newWorld(t, slow)
	kept := filepath.Join(t.TempDir(), "state")
	life := exec.Command(os.Args[0], "-test.run", "^TestLife$")
	life.Env = append(os.Environ(), "LIFE_OF="+strings.Join([]string{w.work, w.place, w.cluster.Options["directory"], kept}, "\n"))
	life.Stderr = os.Stderr
	if err := life.Start(); err != nil {
		t.Fatal(err)
	}
	w.made(t)
	if err := errors.Join(life.Process.Kill()); err != nil {
		t.Fatal(err)
	}
	_ = life.Wait()
	state, err := os.ReadFile(kept)
	if err != nil {
		t.Fatal(err)
	}
	if p, err := w.open(t).Ensure(t.Context(), w.keep(&state)); err != nil || p.Done {
		t.Errorf("while the earlier run works: %+v, %v", p, err)
	}
	w.goOn(t)
	w.finish(t, &state)
}

// TestLife is the control plane of TestKilledWithin, in a process of its own.
func TestLife(t *testing.T) {
	parts := strings.Split(os.Getenv("LIFE_OF"), "\n")
	if len(parts) != 4 {
		return // it is run by that test alone
	}
	w := world{work: parts[0], place: parts[1]}
	w.cluster = provider.Cluster{ID: "c1", Region: "us-east-1", Options: map[string]string{"directory": parts[2], "var.place": w.place}}
	c := w.cluster
	c.Save = func(_ context.Context, data []byte) error { return os.WriteFile(parts[3], data, 0o600) }
	_, _ = w.open(t).Ensure(t.Context(), c) // it does not live to see the end
}

func TestTrouble(t *testing.T) {
	for _, c := range []struct {
		reason, source, says string
		kind                 fault.Kind
	}{
		{"it is no template", `resource "x" {`, "main.tf", fault.Unavailable},
		{"it uses what it does not declare", `output "domain" { value = var.nobody }`, "undeclared", fault.Invalid},
		{"its cloud refuses", "resource \"terraform_data\" \"a\" {\n provisioner \"local-exec\" { command = \"echo no quota; exit 3\" }\n}", "no quota", fault.Unavailable},
	} {
		t.Run(c.reason, func(t *testing.T) {
			var state []byte
			w := newWorld(t, c.source)
			_, err := w.open(t).Ensure(t.Context(), w.keep(&state))
			if !fault.Is(err, c.kind) || !strings.Contains(err.Error(), c.says) {
				t.Errorf("got %v, want %v with %q", err, c.kind, c.says)
			}
		})
	}
	t.Run("there is no OpenTofu", func(t *testing.T) {
		p, err := template.New(map[string]string{"binary": "no-such-program", "work": t.TempDir()})
		if err != nil {
			t.Fatal(err)
		}
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		if _, err := p.Ensure(ctx, newWorld(t, source).cluster); !fault.Is(err, fault.Unavailable) {
			t.Errorf("got %v, want Unavailable", err)
		}
	})
}
