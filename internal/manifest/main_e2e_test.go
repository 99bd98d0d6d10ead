//go:build e2e

package manifest_test

import (
	"net/http"
	"testing"

	"github.com/droverhq/drover/internal/manifest"
	"github.com/droverhq/drover/test/kubernetes"
)

func open(t *testing.T, wrap func(http.RoundTripper) http.RoundTripper) *manifest.Client {
	t.Helper()
	c, err := manifest.Open(manifest.Config{Kubeconfig: kubernetes.Shared(t).Kubeconfig(), Wrap: wrap})
	if err != nil {
		t.Fatal(err)
	}
	return c
}
