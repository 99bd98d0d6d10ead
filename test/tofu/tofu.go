// Package tofu finds a real OpenTofu for tests, and providers for it.
//
// It owns where the programs are. It must not know what is done with them.
//
// DROVER_TEST_TOFU names a program to use instead of the one that is built into
// the cache. DROVER_TEST_NO_TOFU=1 says that there is none, DROVER_TEST_NO_PROVIDERS=1
// that there are no providers, and that this was reported.
package tofu

import (
	"context"
	"os"
	"path/filepath"
	"sync"
	"testing"

	"github.com/droverhq/drover/test/servers"
	"github.com/droverhq/drover/test/servers/built"
)

// Path is the program, which is built where it is missing.
func Path(t testing.TB) string {
	t.Helper()
	if os.Getenv("DROVER_TEST_NO_TOFU") == "1" {
		t.Skip("there is no OpenTofu: `test/with-kubernetes.sh true` brings it")
	}
	path, err := find()
	if err != nil {
		t.Fatalf("cannot find OpenTofu: %v", err)
	}
	return path
}

var find = sync.OnceValues(func() (string, error) {
	if path := os.Getenv("DROVER_TEST_TOFU"); path != "" {
		return path, nil
	}
	dir, err := servers.Build(context.Background(), built.OpenTofu, os.Stderr)
	return filepath.Join(dir, built.OpenTofu.Binary), err
})
