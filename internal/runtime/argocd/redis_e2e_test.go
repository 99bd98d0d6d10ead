//go:build e2e

package argocd_test

import (
	"bytes"
	"context"
	"net"
	"os/exec"
	"testing"
	"time"

	"github.com/droverhq/drover/internal/runtime/argocd"
	"github.com/droverhq/drover/test/servers/process"
)

// server runs a Redis with a password, until the test ends, and returns its address.
func server(t *testing.T) (address string) {
	t.Helper()
	path, err := exec.LookPath("redis-server")
	if err != nil {
		t.Fatalf("there is no Redis (apt-get install -y redis-server): %v", err)
	}
	for range 3 { // a port that was free may be taken by the time that it is used
		if address, err = launch(t, path); err == nil {
			return address
		}
	}
	t.Fatal(err)
	return ""
}

func launch(t *testing.T, path string) (address string, err error) {
	t.Helper()
	leash, err := process.NewLeash("redis")
	if err != nil {
		return "", err
	}
	t.Cleanup(leash.Release)
	ports, err := leash.Ports(1)
	if err != nil {
		return "", err
	}
	ctx, cancel := context.WithTimeout(t.Context(), 3*time.Minute)
	defer cancel()
	address = "127.0.0.1:" + ports[0]
	p := leash.Process("redis", path, "--bind", "127.0.0.1", "--port", ports[0], "--dir", leash.Dir, "--save", "", "--requirepass", "s3cret")
	return address, p.Ready(ctx, func(ctx context.Context) error {
		c, err := new(net.Dialer).DialContext(ctx, "tcp", address)
		if err != nil {
			return err
		}
		return c.Close()
	})
}

func TestRedis(t *testing.T) {
	address := server(t)
	ctx := context.Background()
	right := argocd.OpenRedis(address, "s3cret")
	large := bytes.Repeat([]byte("0123456789abcdef\r\n"), 100_000)
	if err := right.Set(ctx, "large", string(large)); err != nil {
		t.Fatal(err)
	}
	got, there, err := right.Get(ctx, "large")
	if err != nil || !there || !bytes.Equal(got, large) {
		t.Errorf("got %d bytes, %v, %v", len(got), there, err)
	}
	if _, there, err := right.Get(ctx, "none"); there || err != nil {
		t.Errorf("what is not there: %v, %v", there, err)
	}
	right.Close() // it comes back by itself
	if got, _, err := right.Get(ctx, "large"); err != nil || !bytes.Equal(got, large) {
		t.Errorf("after the connection was lost: %d bytes, %v", len(got), err)
	}
	for _, password := range []string{"", "wrong"} {
		if _, _, err := argocd.OpenRedis(address, password).Get(ctx, "large"); err == nil {
			t.Errorf("with the password %q: no error", password)
		}
	}
}
