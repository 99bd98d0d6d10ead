//go:build e2e

package site

import (
	"context"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/droverhq/drover/api/client"
	"github.com/droverhq/drover/api/client/keypair"
	v1 "github.com/droverhq/drover/api/v1"
	"github.com/droverhq/drover/test/drover"
	"github.com/droverhq/drover/test/postgres"
)

// world is two sites, each with a database of its own.
type world struct {
	first, second *postgres.Server
	name          string // of the database
	key           string // file
	a, b          *drover.Server
}

type given struct {
	synchronous bool
	args        func(site string) []string // more flags of a site
	listen      string                     // address of the secondary; default: any
	primary     func(url string) string    // where the secondary reaches the primary; default: where it is
	before      func(*world)               // is called when there are the databases
	files       keypair.Files              // what is shown to servers that have a certificate; default: they have none
}

// pair starts a primary and its secondary.
func pair(t *testing.T, g given) *world {
	t.Helper()
	w := &world{first: postgres.Start(t), key: filepath.Join(t.TempDir(), "master.key")}
	dsn := postgres.Fresh(t, w.first.URL("postgres"))
	w.name = dsn[strings.LastIndex(dsn, "/")+1 : strings.LastIndex(dsn, "?")]
	w.second = w.first.Standby(t, "second")
	if g.synchronous {
		w.first.Synchronous(t, "second")
	}
	if g.before != nil {
		g.before(w)
	}
	more := func(site string) []string {
		if g.args == nil {
			return nil
		}
		return g.args(site)
	}
	w.a = serve(t, g, "", append([]string{"--database", w.first.URL(w.name), "--master-key-file", w.key, "--primary", "--site", "east"}, more("east")...)...)
	primary := w.a.URL()
	if g.primary != nil {
		primary = g.primary(primary)
	}
	// Another site has the key by the hand of its operator.
	w.b = serve(t, g, g.listen, append([]string{"--database", w.second.URL(w.name), "--master-key-file", w.key, "--primary-url", primary, "--site", "west"}, more("west")...)...)
	drover.Until(t, "the secondary to have an admin's token", func() bool { _, err := w.b.AdminToken(); return err == nil })
	drover.Until(t, "the sites to know each other", func() bool {
		at, err := w.a.Client(t).Site(t.Context())
		return err == nil && at.Peer != nil && at.Peer.Heard != nil && len(at.Sites) == 2
	})
	return w
}

// serve starts a server at an address, or at any.
func serve(t *testing.T, g given, listen string, args ...string) *drover.Server {
	t.Helper()
	if listen == "" {
		return drover.Secured(t, g.files, args...)
	}
	s := &drover.Server{Mode: "server", DataDir: t.TempDir(), Listen: listen, Args: args}
	s.Start(t)
	t.Cleanup(func() {
		s.Kill()
		if t.Failed() {
			t.Logf("log of drover server:\n%s", s.Log())
		}
	})
	return s
}

// call is a client that does not wait for long: what is gone must not keep it.
func call(t *testing.T, s *drover.Server) *client.Client {
	t.Helper()
	c, err := reach(s)
	if err != nil {
		t.Fatal(err)
	}
	return c
}

func reach(s *drover.Server) (*client.Client, error) {
	token, err := s.AdminToken()
	if err != nil {
		return nil, err
	}
	config := client.Config{Server: s.URL(), Token: token, Timeout: 5 * time.Second}
	if s.Files != (keypair.Files{}) {
		pair, err := keypair.Open(s.Files)
		if err != nil {
			return nil, err
		}
		config.HTTPClient = client.HTTPClient(pair.Transport(client.Transport()))
	}
	return client.New(config)
}

func order(ctx context.Context, c *client.Client, name string) error {
	_, err := c.Create(ctx, "dinosaurs", v1.CreateInstance{Name: name})
	return err
}

func phase(c *client.Client, name string) string {
	o, err := c.Get(context.Background(), "dinosaurs", name, "")
	if err != nil {
		return err.Error()
	}
	return o.Phase
}

func awaitPhase(t *testing.T, c *client.Client, name, want string) {
	t.Helper()
	drover.Until(t, name+" to be "+want, func() bool { return phase(c, name) == want })
}

func awaitState(t *testing.T, s *drover.Server, want string) v1.Site {
	t.Helper()
	var at v1.Site
	drover.Until(t, "the site to be "+want, func() bool {
		var err error
		at, err = call(t, s).Site(t.Context())
		return err == nil && at.State == want
	})
	return at
}

// saying waits until a site that may not be ready is in a state, and says why.
func saying(t *testing.T, s *drover.Server, state, why string) v1.Site {
	t.Helper()
	var at v1.Site
	drover.Until(t, "the site to be "+state+": "+why, func() bool {
		c, err := reach(s)
		if err == nil {
			at, err = c.Site(t.Context())
		}
		return err == nil && at.State == state && strings.Contains(at.Why, why)
	})
	return at
}

// replica starts a server in a directory that knows nothing, and does not wait for it.
func replica(t *testing.T, args ...string) *drover.Server {
	t.Helper()
	s := &drover.Server{Mode: "server", DataDir: t.TempDir(), Listen: drover.FreeAddress(t), Args: args}
	if err := s.Launch(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		s.Kill()
		if t.Failed() {
			t.Logf("log of drover server:\n%s", s.Log())
		}
	})
	return s
}

func TestMain(m *testing.M) {
	os.Setenv("DROVER_TEST_POSTGRES", "") // servers of our own, which can be killed
	os.Exit(m.Run())
}
