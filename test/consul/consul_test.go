//go:build e2e

package consul_test

import (
	"context"
	"testing"
	"time"

	"github.com/droverhq/drover/test/consul"
	"github.com/droverhq/drover/test/servers/rest"
)

const key = "/v1/kv/greeting"

func put(t *testing.T, s *consul.Server, value string) {
	t.Helper()
	if err := s.API().Ask(t.Context(), "PUT", key, []byte(value), nil); err != nil {
		t.Fatal(err)
	}
}

func get(ctx context.Context, c rest.Client) (string, error) {
	var value []byte
	err := c.Ask(ctx, "GET", key+"?raw", nil, &value)
	return string(value), err
}

func TestServersAreApart(t *testing.T) {
	one, two := consul.Start(t), consul.Start(t)
	put(t, one, "hello")
	if v, err := get(t.Context(), one.API()); err != nil || v != "hello" {
		t.Errorf("the one has %q, %v", v, err)
	}
	if v, err := get(t.Context(), two.API()); !rest.Is(err, 404) {
		t.Errorf("the other has it too: %q, %v", v, err)
	}
	var keys []string
	if err := two.API().Ask(t.Context(), "GET", "/v1/kv/?keys", nil, &keys); len(keys) > 0 || err != nil && !rest.Is(err, 404) {
		t.Errorf("a new server has keys: %v, %v", keys, err)
	}
}

func TestTokens(t *testing.T) {
	s := consul.Start(t, consul.WithACLs())
	put(t, s, "hello")
	reader := s.TokenOf(t, `key_prefix "" { policy = "read" }`)
	for _, c := range []struct {
		reason, token string
		read, write   bool
	}{
		{"nobody", "", false, false},
		{"a reader", reader, true, false},
		{"one who may do everything", s.Token, true, true},
	} {
		if v, err := get(t.Context(), s.As(c.token)); c.read != (err == nil) || !c.read && v != "" {
			t.Errorf("%s reads: %q, %v", c.reason, v, err)
		}
		if err := s.As(c.token).Ask(t.Context(), "PUT", key, []byte("x"), nil); c.write != (err == nil) || !c.write && !rest.Is(err, 403) {
			t.Errorf("%s writes: %v", c.reason, err)
		}
	}
}

func TestServersStopAndComeBack(t *testing.T) {
	s := consul.Start(t, consul.WithData(), consul.WithACLs())
	put(t, s, "hello")
	for _, fault := range []struct {
		reason     string
		fail, heal func() error
	}{
		{"it is paused", s.Pause, s.Resume},
		{"it is stopped", s.Stop, s.Start},
		{"it is killed", s.Kill, s.Start},
	} {
		if err := fault.fail(); err != nil {
			t.Fatalf("%s: %v", fault.reason, err)
		}
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		if _, err := get(ctx, s.API()); err == nil {
			t.Errorf("%s, and it answers", fault.reason)
		}
		cancel()
		if err := fault.heal(); err != nil {
			t.Fatalf("after %s: %v", fault.reason, err)
		}
		if err := s.Start(); err != nil { // it runs; once it is ready
			t.Fatalf("after %s: %v", fault.reason, err)
		}
		if v, err := get(t.Context(), s.API()); err != nil || v != "hello" {
			t.Errorf("after %s: %q, %v", fault.reason, v, err)
		}
	}
}

func TestWithoutDataARestartForgets(t *testing.T) {
	s := consul.Start(t)
	put(t, s, "hello")
	if err := s.Restart(); err != nil {
		t.Fatal(err)
	}
	if v, err := get(t.Context(), s.API()); !rest.Is(err, 404) {
		t.Errorf("it has %q, %v", v, err)
	}
}
