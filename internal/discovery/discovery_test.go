package discovery_test

import (
	"context"
	"errors"
	"net"
	"slices"
	"strconv"
	"testing"
	"testing/synctest"
	"time"

	"github.com/droverhq/drover/internal/discovery"
	"github.com/droverhq/drover/internal/fault"
)

func TestNames(t *testing.T) {
	for _, tc := range []struct {
		reason, host string
		want         discovery.Name
		ours         bool
	}{
		{"a service", "postgres.service.consul", discovery.Name{Service: "postgres"}, true},
		{"with its datacentre", "postgres.service.east.consul", discovery.Name{Service: "postgres", Datacenter: "east"}, true},
		{"with a tag", "primary.drover.service.east.consul", discovery.Name{Service: "drover", Tag: "primary", Datacenter: "east"}, true},
		{"as a resolver writes it", "Postgres.service.consul.", discovery.Name{Service: "postgres"}, true},
		{"a service called service", "service.service.consul", discovery.Name{Service: "service"}, true},
		{"a node", "db1.node.consul", discovery.Name{}, false},
		{"another name", "postgres.example.com", discovery.Name{}, false},
		{"no name", "service.consul", discovery.Name{}, false},
		{"an empty one", ".service.consul", discovery.Name{}, false},
		{"a longer one", "a.b.c.service.consul", discovery.Name{}, false},
		{"an address", "127.0.0.1", discovery.Name{}, false},
	} {
		got, ours := discovery.ParseName(tc.host)
		if got != tc.want || ours != tc.ours {
			t.Errorf("%s: %s is %+v, %v", tc.reason, tc.host, got, ours)
		}
		if again, _ := discovery.ParseName(got.String()); ours && again != got {
			t.Errorf("%s: %s is read as %+v", tc.reason, got, again)
		}
	}
}

func TestPortless(t *testing.T) {
	for _, tc := range []struct{ reason, in, want string }{
		{"no port is the service's", "amqp://rabbit.service.consul/v", "amqp://rabbit.service.consul:0/v"},
		{"a port stays", "amqp://rabbit.service.consul:5672/v", "amqp://rabbit.service.consul:5672/v"},
		{"another host keeps the default", "amqp://rabbit.example.com/v", "amqp://rabbit.example.com/v"},
		{"of several, those that are names", "postgres://u@a.service.consul,b.example.com/x", "postgres://u@a.service.consul:0,b.example.com/x"},
		{"no URL is somebody else's mistake", "::", "::"},
	} {
		if got := discovery.Portless(tc.in); got != tc.want {
			t.Errorf("%s: got %s, want %s", tc.reason, got, tc.want)
		}
	}
}

// finder answers as it is told.
type finder struct {
	endpoints []discovery.Endpoint
	err       error
	wait      bool
}

func (f *finder) Find(ctx context.Context, _ discovery.Name) (discovery.Answer, error) {
	if f.wait {
		<-ctx.Done()
		return discovery.Answer{}, ctx.Err()
	}
	return discovery.Answer{Endpoints: f.endpoints, At: time.Now()}, f.err
}

// Who has an older answer waits a second for a newer one; who has none, as long as it
// takes.
func TestAFinderThatHangs(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		name := discovery.Name{Service: "postgres"}
		f := &finder{endpoints: []discovery.Endpoint{{Host: "192.0.2.1", Port: 5432}}}
		m := discovery.Remember(f)
		if _, err := m.Find(t.Context(), name); err != nil {
			t.Fatal(err)
		}
		f.wait = true
		for who, want := range map[discovery.Name]time.Duration{name: time.Second, {Service: "other"}: time.Minute} {
			ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
			began := time.Now()
			a, err := m.Find(ctx, who)
			if took := time.Since(began); took != want || (err == nil) != (who == name) || err == nil && a.Stale == nil {
				t.Errorf("%s: %+v, %v after %s, want %s", who, a, err, took, want)
			}
			cancel()
		}
	})
}

func TestLastKnownAnswer(t *testing.T) {
	name := discovery.Name{Service: "postgres"}
	there := []discovery.Endpoint{{ID: "1", Host: "192.0.2.1", Port: 5432}}
	away := fault.New(fault.Unavailable, "away")
	f := &finder{err: away}
	m := discovery.Remember(f)
	if _, err := m.Find(t.Context(), name); fault.Of(err) != fault.Unavailable {
		t.Fatalf("nothing is known, and it says %v", err)
	}
	f.endpoints, f.err = nil, nil
	if _, err := m.Find(t.Context(), name); fault.Of(err) != fault.NotFound {
		t.Fatalf("nobody is healthy, and it says %v", err)
	}
	f.endpoints = there
	if a, err := m.Find(t.Context(), name); err != nil || a.Stale != nil || len(a.Endpoints) != 1 {
		t.Fatalf("got %+v, %v", a, err)
	}
	for _, tc := range []struct {
		reason string
		f      finder
	}{
		{"nobody can be asked", finder{err: away}},
		{"nobody is healthy, or it has forgotten them", finder{}},
		{"it hangs", finder{wait: true}},
	} {
		*f = tc.f
		a, err := m.Find(t.Context(), name)
		if err != nil || a.Stale == nil || len(a.Endpoints) != 1 || a.Endpoints[0].Addr() != "192.0.2.1:5432" {
			t.Errorf("%s: got %+v, %v", tc.reason, a, err)
		}
		if len(m.Stale(t.Context())) != 1 {
			t.Errorf("%s: operators are told %v", tc.reason, m.Stale(t.Context()))
		}
	}
	*f = finder{endpoints: there}
	if old := m.Stale(t.Context()); len(old) != 0 {
		t.Errorf("it is back, nobody has connected since, and operators are told %v", old)
	}
	*f = finder{endpoints: []discovery.Endpoint{{Host: "192.0.2.2", Port: 1}}}
	if a, err := m.Find(t.Context(), name); err != nil || a.Stale != nil || a.Endpoints[0].Host != "192.0.2.2" || len(m.Stale(t.Context())) != 0 {
		t.Errorf("it is back: got %+v, %v", a, err)
	}
	ended, cancel := context.WithCancel(t.Context())
	cancel()
	*f = finder{wait: true}
	if _, err := m.Find(ended, name); !errors.Is(err, context.Canceled) {
		t.Errorf("who has left gets %v", err)
	}
}

// slow answers when it is told to.
type slow chan error

func (f slow) Find(context.Context, discovery.Name) (discovery.Answer, error) {
	f <- nil // asked
	if err := <-f; err != nil {
		return discovery.Answer{}, err
	}
	return discovery.Answer{Endpoints: []discovery.Endpoint{{Host: "192.0.2.2", Port: 1}}}, nil
}

// switching asks whoever is in it.
type switching struct{ discovery.Finder }

// Who fails puts nothing older in the place of what another has found meanwhile.
func TestAFailureBringsNothingOlderBack(t *testing.T) {
	name := discovery.Name{Service: "postgres"}
	f := &switching{&finder{endpoints: []discovery.Endpoint{{Host: "192.0.2.1", Port: 1}}}}
	m := discovery.Remember(f)
	if _, err := m.Find(t.Context(), name); err != nil {
		t.Fatal(err)
	}
	away := slow(make(chan error))
	f.Finder = away
	failed := make(chan discovery.Answer)
	go func() {
		a, _ := m.Find(t.Context(), name)
		failed <- a
	}()
	<-away
	f.Finder = &finder{endpoints: []discovery.Endpoint{{Host: "192.0.2.2", Port: 1}}}
	if _, err := m.Find(t.Context(), name); err != nil {
		t.Fatal(err)
	}
	away <- fault.New(fault.Unavailable, "away")
	if a := <-failed; len(a.Endpoints) != 1 || a.Endpoints[0].Host != "192.0.2.2" {
		t.Errorf("who failed has %+v", a)
	}
	f.Finder = &finder{err: fault.New(fault.Unavailable, "away")}
	if a := m.Stale(t.Context())[name]; len(a.Endpoints) != 1 || a.Endpoints[0].Host != "192.0.2.2" {
		t.Errorf("what is known is %+v", a)
	}
}

func TestDial(t *testing.T) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	go func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			c.Close()
		}
	}()
	_, text, _ := net.SplitHostPort(l.Addr().String())
	port, _ := strconv.Atoi(text)
	gone, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	_, closed, _ := net.SplitHostPort(gone.Addr().String())
	gone.Close()
	nobody, _ := strconv.Atoi(closed)
	f := &finder{}
	d := &discovery.Dialer{Finder: f}
	for _, tc := range []struct {
		reason    string
		endpoints []discovery.Endpoint
		addr      string
		ok        bool
	}{
		{"the service's own port", []discovery.Endpoint{{Host: "127.0.0.1", Port: port}}, "x.service.consul:0", true},
		{"the one behind the name", []discovery.Endpoint{{Host: "127.0.0.1", Port: nobody}}, "x.service.consul:" + text, true},
		{"one of several is there", []discovery.Endpoint{{Host: "127.0.0.1", Port: nobody}, {Host: "127.0.0.1", Port: port}}, "x.service.consul:0", true},
		{"none is", []discovery.Endpoint{{Host: "127.0.0.1", Port: nobody}}, "x.service.consul:0", false},
		{"it has no port", []discovery.Endpoint{{Host: "127.0.0.1"}}, "x.service.consul:0", false},
		{"any other host is dialled", nil, "127.0.0.1:" + text, true},
	} {
		f.endpoints = tc.endpoints
		for range 5 { // the order is any
			conn, err := d.DialContext(t.Context(), "tcp", tc.addr)
			if (err == nil) != tc.ok {
				t.Errorf("%s: %v", tc.reason, err)
			}
			if conn != nil {
				conn.Close()
			}
		}
	}
	f.endpoints = []discovery.Endpoint{{Host: "192.0.2.1", Port: 1}, {Host: "192.0.2.2", Port: 2}}
	got, err := d.Lookup(t.Context(), "x.service.consul", "")
	if slices.Sort(got); err != nil || !slices.Equal(got, []string{"192.0.2.1:1", "192.0.2.2:2"}) {
		t.Errorf("looked up as %v, %v", got, err)
	}
}
