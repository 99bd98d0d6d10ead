//go:build e2e

package manifest_test

import (
	"net/http"
	"testing"
	"time"

	"github.com/droverhq/drover/internal/manifest"
	"github.com/droverhq/drover/test/kubernetes"
)

func open(t *testing.T, wrap func(http.RoundTripper) http.RoundTripper) *manifest.Client {
	t.Helper()
	c, err := manifest.Open(manifest.Config{Kubeconfig: kubernetes.Shared(t).Kubeconfig(), Wrap: wrap, Timeout: time.Minute, Establish: 4 * time.Minute})
	if err != nil {
		t.Fatal(err)
	}
	return c
}
