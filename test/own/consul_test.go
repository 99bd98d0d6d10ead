//go:build e2e

package own

import (
	"context"
	"net"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/droverhq/drover/test/consul"
	"github.com/droverhq/drover/test/drover"
	"github.com/droverhq/drover/test/postgres"
	"github.com/droverhq/drover/test/rabbitmq"
)

// register tells Consul of a server that it knows nothing of by itself.
func register(t testing.TB, c *consul.Server, name, addr string) {
	t.Helper()
	host, port, err := net.SplitHostPort(addr)
	if err != nil {
		t.Fatal(err)
	}
	number, _ := strconv.Atoi(port)
	in := map[string]any{"ID": name, "Name": name, "Address": host, "Port": number}
	if err := c.API().Ask(context.WithoutCancel(t.Context()), http.MethodPut, "/v1/agent/service/register", in, nil); err != nil {
		t.Fatal(err)
	}
}

// entry is what Consul says of an instance.
type entry struct {
	Service struct {
		Address string
		Port    int
		Tags    []string
		Meta    map[string]string
	}
	Checks []struct{ CheckID, Status string }
}

func entries(t testing.TB, c *consul.Server) (out []entry) {
	t.Helper()
	if err := c.API().Ask(context.WithoutCancel(t.Context()), http.MethodGet, "/v1/health/service/drover", nil, &out); err != nil {
		t.Fatal(err)
	}
	return out
}

// status of the only server there is.
func status(t testing.TB, c *consul.Server) string {
	t.Helper()
	all := entries(t, c)
	if len(all) != 1 {
		return strconv.Itoa(len(all)) + " servers"
	}
	for _, check := range all[0].Checks {
		if strings.HasPrefix(check.CheckID, "service:") {
			return check.Status
		}
	}
	return "no check"
}

// named is a database by its name, without a port.
func named(t testing.TB, raw string) (flag, addr string) {
	t.Helper()
	u, err := url.Parse(raw)
	if err != nil {
		t.Fatal(err)
	}
	addr, u.Host = u.Host, "postgres.service.consul"
	return u.String(), addr
}

// A server finds its database and its broker by their names, and is found by its own, for
// as long as it is ready; so does an agent.
func TestNamesInConsul(t *testing.T) {
	c, db, mq := consul.Start(t), postgres.Start(t), rabbitmq.Start(t)
	database, at := named(t, db.URL("postgres"))
	register(t, c, "postgres", at)
	register(t, c, "rabbitmq", mq.Addr)
	broker, err := url.Parse(mq.URL)
	if err != nil {
		t.Fatal(err)
	}
	broker.Host = "rabbitmq.service.dc1.consul"
	s := drover.Serve(t, "--consul", c.URL, "--consul-options", "tags=blue green,connect=true", "--plaintext", "database,bus",
		"--database", database, "--bus", "rabbitmq", "--bus-options", "url="+broker.String())
	drover.Until(t, "the server to be registered", func() bool { return status(t, c) == "passing" })
	is := entries(t, c)[0].Service
	if got := net.JoinHostPort(is.Address, strconv.Itoa(is.Port)); got != s.Listen {
		t.Errorf("it is registered at %s, and listens at %s", got, s.Listen)
	}
	for _, tag := range []string{"standalone", "blue", "green"} {
		if !slices.Contains(is.Tags, tag) {
			t.Errorf("its tags are %v", is.Tags)
		}
	}
	if is.Meta["url"] != s.URL() {
		t.Errorf("it says that it is at %q", is.Meta["url"])
	}
	drover.Until(t, "the broker to be found", func() bool {
		return rabbitmq.Channel(t, mq.URL).ExchangeDeclarePassive("drover.events", "topic", true, false, false, false, nil) == nil
	})

	token := s.Cluster(t, "edge")
	drover.Join(t, "http://drover.service.consul", "edge", token, "--consul", c.URL, "--plaintext", "server")
	drover.Until(t, "the agent to find the server", func() bool {
		out, _, _ := s.Run("get", "cluster", "edge")
		return strings.Contains(out, "ready")
	})

	db.Stop()
	drover.Until(t, "a server without its database to be critical", func() bool { return status(t, c) == "critical" })
	db.Start(t)
	drover.Until(t, "the server to be back", func() bool { return status(t, c) == "passing" })
	if code := s.Stop(); code != 0 {
		t.Errorf("it ends with %d", code)
	}
	if left := entries(t, c); len(left) != 0 {
		t.Errorf("after its end there are %+v", left)
	}
}

// Consul dies and comes back, again and again, without its memory: the server goes on, finds
// its database where it was when that restarts meanwhile, and is registered anew each time.
func TestConsulFlaps(t *testing.T) {
	c, db := consul.Start(t), postgres.Start(t)
	database, at := named(t, db.URL("postgres"))
	register(t, c, "postgres", at)
	s := drover.Serve(t, "--consul", c.URL, "--plaintext", "database", "--database", database)
	drover.Until(t, "the server to be registered", func() bool { return status(t, c) == "passing" })
	l := newLoad(t, s, 2)
	for round := range 5 {
		if err := c.Kill(); err != nil {
			t.Fatal(err)
		}
		l.more(t, "without Consul")
		if round == 2 {
			// Every connection is made anew while there is nobody to ask.
			l.check(t)
			db.Restart(t)
			drover.Until(t, "the server to find its database", func() bool {
				a, err := drover.Ask(drover.Request{Method: http.MethodGet, URL: s.URL() + "/readyz"})
				return err == nil && a.Status == http.StatusOK
			})
			drover.Until(t, "the doctor to say that the name is old", func() bool { return strings.Contains(doctor(s), "postgres.service.consul") })
			l = newLoad(t, s, 1)
			l.more(t, "after the restart of the database")
		}
		if err := c.Start(); err != nil {
			t.Fatal(err)
		}
		if round%2 == 0 { // else it has forgotten the database for longer
			register(t, c, "postgres", at)
		}
		drover.Until(t, "the server to be registered again", func() bool { return status(t, c) == "passing" })
		l.more(t, "with Consul")
	}
	l.check(t)
}
