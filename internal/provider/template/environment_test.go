//go:build e2e

package template_test

import (
	"context"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// Templates run programs of others with what the server's environment has for
// them; what it has for the server itself is not among that.
func TestTheServersSecretsStayWithIt(t *testing.T) {
	t.Setenv("DROVER_MASTER_KEY", "the-key-of-the-ledger")
	t.Setenv("CLOUD_REGION", "for-the-template")
	w := newWorld(t, `
variable "place" { type = string }
resource "terraform_data" "cluster" {
  provisioner "local-exec" { command = "env > '${var.place}/environment'" }
}
`)
	c := w.cluster
	c.Save = func(context.Context, []byte) error { return nil }
	if _, err := w.open(t).Ensure(t.Context(), c); err != nil {
		t.Fatal(err)
	}
	told, err := os.ReadFile(filepath.Join(w.place, "environment"))
	if err != nil {
		t.Fatal(err)
	}
	if strings.Contains(string(told), "the-key-of-the-ledger") {
		t.Error("a template is told the key of the ledger")
	}
	if !strings.Contains(string(told), "CLOUD_REGION=for-the-template") {
		t.Error("a template is not told what is for it")
	}
}
