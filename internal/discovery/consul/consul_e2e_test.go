//go:build e2e

package consul_test

import (
	"context"
	"errors"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"sync/atomic"
	"testing"
	"time"

	"github.com/droverhq/drover/internal/discovery"
	"github.com/droverhq/drover/internal/discovery/consul"
	"github.com/droverhq/drover/internal/fault"
	"github.com/droverhq/drover/internal/transport"
	server "github.com/droverhq/drover/test/consul"
)

const long = time.Minute

func open(t testing.TB, c consul.Config, s *server.Server) *consul.Client {
	t.Helper()
	c.Way, c.TTL = transport.Config{Address: s.URL}, 3*time.Second
	k, err := consul.New(c)
	if err != nil {
		t.Fatal(err)
	}
	return k
}

// eventually waits for what should come about.
func eventually(t testing.TB, what string, ok func() bool) {
	t.Helper()
	for end := time.Now().Add(long); !ok(); time.Sleep(50 * time.Millisecond) {
		if time.Now().After(end) {
			t.Fatalf("it does not come about that %s", what)
		}
	}
}

// known are the instances of a service as Consul tells them, healthy or not.
func known(t testing.TB, s *server.Server, service string) (out []struct {
	Service struct {
		ID, Address string
		Port        int
		Tags        []string
	}
	Checks []struct{ CheckID, Status, Output string }
}) {
	t.Helper()
	if err := s.API().Ask(context.WithoutCancel(t.Context()), http.MethodGet, "/v1/health/service/"+service, nil, &out); err != nil {
		t.Fatal(err)
	}
	return out
}

func status(t testing.TB, s *server.Server, service string) string {
	for _, e := range known(t, s, service) {
		for _, c := range e.Checks {
			if c.CheckID == "service:drover-1" {
				return c.Status
			}
		}
	}
	return "none"
}

// What is announced is found; it is critical while it is in trouble, and gone after its
// end. A Consul that comes back without its memory is told anew.
func TestAnnounced(t *testing.T) {
	s := server.Start(t)
	k := open(t, consul.Config{}, s)
	var tags atomic.Value
	var trouble atomic.Bool
	tags.Store([]string{"v1", "primary"})
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan struct{})
	go func() {
		defer close(done)
		k.Announce(ctx, discovery.Self{ID: "drover-1", Service: "drover", Host: "127.0.0.1", Port: 8000, State: func(context.Context) discovery.State {
			state := discovery.State{Tags: tags.Load().([]string)}
			if trouble.Load() {
				state.Trouble = errors.New("the database is away")
			}
			return state
		}})
	}()
	name := discovery.Name{Service: "drover", Tag: "primary"}
	found := func() []discovery.Endpoint {
		a, err := k.Find(t.Context(), name)
		if err != nil && fault.Of(err) != fault.NotFound && fault.Of(err) != fault.Unavailable {
			t.Fatal(err)
		}
		return a.Endpoints
	}
	eventually(t, "it is found", func() bool { return len(found()) == 1 })
	if e := found()[0]; e.Addr() != "127.0.0.1:8000" || !slices.Equal(e.Tags, []string{"v1", "primary"}) {
		t.Errorf("it is found as %+v", e)
	}
	trouble.Store(true)
	eventually(t, "one in trouble is critical", func() bool { return status(t, s, "drover") == "critical" })
	if len(found()) != 0 {
		t.Error("one in trouble is found")
	}
	trouble.Store(false)
	eventually(t, "one that is well again is found", func() bool { return len(found()) == 1 })
	tags.Store([]string{"v1", "secondary"})
	eventually(t, "another role is told", func() bool { return len(found()) == 0 })
	tags.Store([]string{"v1", "primary"})
	eventually(t, "and the first again", func() bool { return len(found()) == 1 })
	for range 3 {
		if err := s.Kill(); err != nil {
			t.Fatal(err)
		}
		eventually(t, "its absence is noticed", func() bool { return k.Trouble() != nil })
		if err := s.Start(); err != nil {
			t.Fatal(err)
		}
		eventually(t, "a Consul that forgot it is told", func() bool { return len(found()) == 1 })
		eventually(t, "the trouble is over", func() bool { return k.Trouble() == nil })
	}
	cancel()
	<-done
	if left := known(t, s, "drover"); len(left) != 0 {
		t.Errorf("after its end there are %+v", left)
	}
}

func TestFinds(t *testing.T) {
	s := server.Start(t)
	k := open(t, consul.Config{}, s)
	for id, in := range map[string]map[string]any{
		"a": {"Address": "192.0.2.1", "Port": 5432, "Check": map[string]string{"TTL": "1h", "Status": "passing"}},
		"b": {"Address": "192.0.2.2", "Port": 5432, "Check": map[string]string{"TTL": "1h", "Status": "critical"}},
		"c": {"Port": 5433}, // where its node is
	} {
		in["ID"], in["Name"] = id, "postgres"
		if err := s.API().Ask(t.Context(), http.MethodPut, "/v1/agent/service/register", in, nil); err != nil {
			t.Fatal(err)
		}
	}
	var addrs []string
	eventually(t, "both that are healthy are found", func() bool {
		a, err := k.Find(t.Context(), discovery.Name{Service: "postgres", Datacenter: "dc1"})
		if err != nil && fault.Of(err) != fault.NotFound {
			t.Fatal(err)
		}
		addrs = nil
		for _, e := range a.Endpoints {
			addrs = append(addrs, e.Addr())
		}
		slices.Sort(addrs)
		return len(addrs) > 1
	})
	if want := []string{"127.0.0.1:5433", "192.0.2.1:5432"}; !slices.Equal(addrs, want) {
		t.Errorf("found %v, want %v", addrs, want)
	}
	if _, err := k.Find(t.Context(), discovery.Name{Service: "nobody"}); fault.Of(err) != fault.NotFound {
		t.Errorf("nobody is found as %v", err)
	}
	if _, err := k.Find(t.Context(), discovery.Name{Service: "postgres", Datacenter: "nowhere"}); fault.Of(err) != fault.Invalid {
		t.Errorf("nowhere is %v", err)
	}
	// The last known answer stays in use.
	m := discovery.Remember(k)
	if _, err := m.Find(t.Context(), discovery.Name{Service: "postgres"}); err != nil {
		t.Fatal(err)
	}
	if err := s.Pause(); err != nil {
		t.Fatal(err)
	}
	a, err := m.Find(t.Context(), discovery.Name{Service: "postgres"})
	if err != nil || a.Stale == nil || len(a.Endpoints) != 2 {
		t.Errorf("while it hangs: %+v, %v", a, err)
	}
	if err := s.Resume(); err != nil {
		t.Fatal(err)
	}
	eventually(t, "it answers anew", func() bool {
		a, err := m.Find(t.Context(), discovery.Name{Service: "postgres"})
		return err == nil && a.Stale == nil
	})
}

// A token is read anew, so that another can be put into its file.
func TestTokens(t *testing.T) {
	s := server.Start(t, server.WithACLs())
	path := filepath.Join(t.TempDir(), "token")
	if err := os.WriteFile(path, []byte("11111111-2222-3333-4444-555555555555\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	k := open(t, consul.Config{TokenFile: path, Sidecar: true}, s)
	if _, err := k.Find(t.Context(), discovery.Name{Service: "drover"}); fault.Reason(err) != "token" {
		t.Fatalf("a token that nobody knows: %v", err)
	}
	token := s.TokenOf(t, `service "drover" { policy = "write" } service "drover-sidecar-proxy" { policy = "write" } node_prefix "" { policy = "read" }`)
	if err := os.WriteFile(path, []byte(token+"\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan struct{})
	go func() {
		defer close(done)
		k.Announce(ctx, discovery.Self{ID: "drover-1", Service: "drover", Host: "127.0.0.1", Port: 8000, State: func(context.Context) discovery.State { return discovery.State{} }})
	}()
	eventually(t, "it is found with the new token", func() bool {
		a, err := k.Find(t.Context(), discovery.Name{Service: "drover"})
		return err == nil && len(a.Endpoints) == 1
	})
	eventually(t, "its sidecar is registered", func() bool { return len(known(t, s, "drover-sidecar-proxy")) == 1 })
	cancel()
	<-done
	if left := known(t, s, "drover-sidecar-proxy"); len(left) != 0 {
		t.Errorf("after its end the sidecar is there: %+v", left)
	}
}
