//go:build e2e

package own

import (
	"net/http"
	"path/filepath"
	"strings"
	"testing"

	"github.com/droverhq/drover/api/client/keypair"
	v1 "github.com/droverhq/drover/api/v1"
	"github.com/droverhq/drover/internal/authority"
	"github.com/droverhq/drover/test/consul"
	"github.com/droverhq/drover/test/drover"
	"github.com/droverhq/drover/test/postgres"
)

// sites are a primary and its secondary, in two datacentres of Consul that are joined over WAN.
type sites struct {
	west *consul.Server // of the secondary
	a, b *drover.Server
}

// newSites starts both with more flags, and does not wait for them to know each other. The
// files are those that the primary is known by; none: it speaks http.
func newSites(t *testing.T, files keypair.Files, first, second []string) *sites {
	t.Helper()
	t.Setenv("DROVER_TEST_POSTGRES", "") // servers of our own, of which one follows the other
	east := consul.Start(t, consul.WithDatacenter("east", nil))
	s := &sites{west: consul.Start(t, consul.WithDatacenter("west", east))}
	db := postgres.Start(t)
	dsn := postgres.Fresh(t, db.URL("postgres"))
	name := dsn[strings.LastIndex(dsn, "/")+1 : strings.LastIndex(dsn, "?")]
	standby := db.Standby(t, "second")
	key := filepath.Join(t.TempDir(), "master.key")
	s.a = drover.Secured(t, files, append([]string{"--database", db.URL(name), "--master-key-file", key, "--primary", "--site", "the-east", "--consul", east.URL}, first...)...)
	s.b = drover.Serve(t, append([]string{"--database", standby.URL(name), "--master-key-file", key, "--site", "the-west", "--consul", s.west.URL}, second...)...)
	drover.Until(t, "the secondary to have an admin's token", func() bool { _, err := s.b.AdminToken(); return err == nil })
	return s
}

// peer is the primary, as the secondary has heard of it.
func (s *sites) peer(t *testing.T) (out v1.PeerSite) {
	if at, err := s.b.Client(t).Site(t.Context()); err == nil && at.Peer != nil {
		out = *at.Peer
	}
	return out
}

// leads waits until the secondary hears the primary, and sends whoever writes there.
func (s *sites) leads(t *testing.T) {
	t.Helper()
	drover.Until(t, "the secondary to hear the primary at "+s.a.URL(), func() bool {
		p := s.peer(t)
		return p.Site == "the-east" && p.State == "leading" && p.URL == s.a.URL() && p.Error == ""
	})
	answer, err := drover.Ask(drover.Request{Method: http.MethodPost, URL: s.b.URL() + "/api/v1/dinosaurs", Token: token(t, s.b), Body: []byte(`{"name":"rex"}`)})
	if err != nil || answer.Status != http.StatusMisdirectedRequest || !strings.Contains(string(answer.Body), s.a.URL()) {
		t.Fatalf("a write at the secondary: %d %s, %v", answer.Status, answer.Body, err)
	}
}

// move has the primary listen elsewhere.
func (s *sites) move(t *testing.T) {
	t.Helper()
	if code := s.a.Stop(); code != 0 {
		t.Fatalf("the primary ends with %d", code)
	}
	s.a.Listen = drover.FreeAddress(t)
	s.a.Start(t)
}

// The secondary asks the Consul of its own site for the primary by its name, follows it to
// other addresses, and is as patient as ever while its own Consul is away.
func TestPrimaryByItsNameInAnotherDatacentre(t *testing.T) {
	s := newSites(t, keypair.Files{}, nil, []string{"--primary-cluster-name", "http://drover.service.east.consul", "--plaintext", "server"})
	s.leads(t)
	s.move(t)
	s.leads(t)

	// It moves while nobody can be asked where it is.
	if err := s.west.Kill(); err != nil {
		t.Fatal(err)
	}
	s.move(t)
	drover.Until(t, "the secondary to miss the primary", func() bool { return s.peer(t).Error != "" })
	if _, err := s.b.Client(t).Get(t.Context(), "dinosaurs", "rex", ""); err == nil || !strings.Contains(err.Error(), "rex") {
		t.Errorf("reads at the secondary: %v", err) // there is none of that name
	}
	if err := s.west.Start(); err != nil {
		t.Fatal(err)
	}
	s.leads(t)
}

// A bare name is asked over TLS, at the service's own port, and the primary must have a
// certificate for that very name.
func TestPrimaryByItsNameOverTLS(t *testing.T) {
	const name = "drover.service.east.consul"
	p := newPKI(t)
	here := authority.Request{Use: authority.UseServer, Hosts: []string{"127.0.0.1"}}
	files := p.cut("primary", here) // of where it is, and not of its name
	s := newSites(t, keypair.Files{CA: files.CA}, []string{"--tls-certificate-file", files.Certificate, "--tls-key-file", files.Key},
		[]string{"--primary-cluster-name", name, "--site-options", "ca=" + files.CA})
	drover.Until(t, "the secondary to say whose certificate it was shown", func() bool {
		p := s.peer(t)
		return p.Heard == nil && strings.Contains(p.Error, "certificate is not valid for any names, but wanted to match "+name)
	})
	here.Hosts = append(here.Hosts, name)
	p.cut("primary", here)
	s.leads(t)
	s.move(t)
	s.leads(t)
}

// token of the admin.
func token(t *testing.T, s *drover.Server) string {
	t.Helper()
	text, err := s.AdminToken()
	if err != nil {
		t.Fatal(err)
	}
	return text
}
