//go:build e2e

package terraform_test

import (
	"fmt"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/droverhq/drover/internal/executor"
	"github.com/droverhq/drover/internal/executor/executortest"
)

// pair makes two files, so that one can go and the other stays. One more thing,
// where it is wanted, is a change in place.
const pair = `
terraform {
  required_providers {
    local = { source = "hashicorp/local" }
  }
}
variable "path" { type = string }
variable "content" { type = string }
variable "more" {
  type    = bool
  default = false
}
resource "local_file" "a" {
  filename = "${var.path}-a"
  content  = "as it is"
}
resource "local_file" "b" {
  filename = "${var.path}-b"
  content  = var.content
}
resource "terraform_data" "more" {
  count = var.more ? 1 : 0
  input = "more"
}
output "path" { value = var.path }
output "digest" { value = local_file.a.content_sha256 }
`

func TestContract(t *testing.T) {
	w := newWorld(t)
	edits := 0
	name := func(n int) string { return filepath.Join(w.place, fmt.Sprintf("thing-%d", n)) }
	executortest.Run(t, executortest.Config{
		Executor: w.x,
		Inputs: func(n int, s executortest.Shape) map[string]any {
			variables := map[string]any{"path": name(n), "content": "plain"}
			switch s {
			case executortest.Changed:
				variables["more"] = true
			case executortest.Moved:
				variables["path"] = name(n) + "-moved"
			case executortest.Later:
				variables["content"] = executor.Unknown{}
			case executortest.Veiled:
				variables["content"] = executor.NewSecret(executortest.Canary)
			}
			return map[string]any{"files": map[string]any{"main.tf": pair}, "variables": variables}
		},
		Look: func(t testing.TB) map[string]string { return look(t, w.place) },
		Edit: func(t testing.TB, n int) {
			edits++
			if err := os.WriteFile(name(n)+"-a", fmt.Appendf(nil, "edited %d", edits), 0o600); err != nil {
				t.Fatal(err)
			}
		},
		Delete: func(t testing.TB, n int) {
			for _, end := range []string{"-a", "-b"} {
				if err := os.Remove(name(n) + end); err != nil && !os.IsNotExist(err) {
					t.Fatal(err)
				}
			}
		},
		Down: func(testing.TB) func() {
			w.down.Store(true)
			return func() { w.down.Store(false) }
		},
		Crowd: 3, Patience: 5 * time.Minute,
	})
	if left := look(t, w.work); len(left) > 0 {
		t.Errorf("runs are left behind: %v", left)
	}
	for _, dir := range []string{w.work, filepath.Dir(w.work)} {
		if in := find(t, dir, executortest.Canary); len(in) > 0 {
			t.Errorf("the secret lies in %v", in)
		}
	}
}

// A module that makes and tells nothing has been made once it was applied.
func TestModuleOfNothing(t *testing.T) {
	w := newWorld(t)
	l := w.life("nothing", "variable \"size\" {\n  default = 1\n}\n", map[string]any{"size": int64(2)})
	plan := func() executor.Action {
		t.Helper()
		c, err := w.x.Plan(t.Context(), w.call(l))
		if err != nil {
			t.Fatal(err)
		}
		return c.Action
	}
	if got := plan(); got != executor.Create {
		t.Errorf("to %s before it was made", got)
	}
	w.apply(t, l)
	if l.Outputs == nil {
		l.Outputs = map[string]any{}
	}
	if got := plan(); got != executor.None {
		t.Errorf("to %s once it was made", got)
	}
	if o, err := w.x.Observe(t.Context(), w.call(l)); err != nil || !o.Exists || len(o.Drift) > 0 {
		t.Errorf("it is seen as %+v, %v", o, err)
	}
	w.destroy(t, l)
}
