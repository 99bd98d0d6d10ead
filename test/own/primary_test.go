//go:build e2e

package own

import (
	"net/http"
	"path/filepath"
	"strings"
	"testing"

	v1 "github.com/droverhq/drover/api/v1"
	"github.com/droverhq/drover/test/consul"
	"github.com/droverhq/drover/test/drover"
	"github.com/droverhq/drover/test/postgres"
)

// Two datacentres of Consul are joined over WAN. The secondary asks that of its own site for
// the primary by its name, follows it to other addresses, and is as patient as ever while
// its own Consul is away.
func TestPrimaryByItsNameInAnotherDatacentre(t *testing.T) {
	t.Setenv("DROVER_TEST_POSTGRES", "") // servers of our own, of which one follows the other
	east := consul.Start(t, consul.WithDatacenter("east", nil))
	west := consul.Start(t, consul.WithDatacenter("west", east))
	first := postgres.Start(t)
	dsn := postgres.Fresh(t, first.URL("postgres"))
	name := dsn[strings.LastIndex(dsn, "/")+1 : strings.LastIndex(dsn, "?")]
	second := first.Standby(t, "second")
	key := filepath.Join(t.TempDir(), "master.key")
	a := drover.Serve(t, "--database", first.URL(name), "--master-key-file", key, "--primary", "--site", "the-east", "--consul", east.URL)
	b := drover.Serve(t, "--database", second.URL(name), "--master-key-file", key, "--site", "the-west", "--consul", west.URL,
		"--primary-cluster-name", "http://drover.service.east.consul", "--plaintext", "server")
	drover.Until(t, "the secondary to have an admin's token", func() bool { _, err := b.AdminToken(); return err == nil })
	peer := func() (out v1.PeerSite) {
		if at, err := b.Client(t).Site(t.Context()); err == nil && at.Peer != nil {
			out = *at.Peer
		}
		return out
	}
	leads := func() {
		t.Helper()
		drover.Until(t, "the secondary to hear the primary at "+a.URL(), func() bool {
			p := peer()
			return p.Site == "the-east" && p.State == "leading" && p.URL == a.URL() && p.Error == ""
		})
		// Who writes here is sent there.
		answer, err := drover.Ask(drover.Request{Method: http.MethodPost, URL: b.URL() + "/api/v1/dinosaurs", Token: token(t, b), Body: []byte(`{"name":"rex"}`)})
		if err != nil || answer.Status != http.StatusMisdirectedRequest || !strings.Contains(string(answer.Body), a.URL()) {
			t.Fatalf("a write at the secondary: %d %s, %v", answer.Status, answer.Body, err)
		}
	}
	move := func() {
		t.Helper()
		if code := a.Stop(); code != 0 {
			t.Fatalf("the primary ends with %d", code)
		}
		a.Listen = drover.FreeAddress(t)
		a.Start(t)
	}
	leads()
	move()
	leads()

	// It moves while nobody can be asked where it is.
	if err := west.Kill(); err != nil {
		t.Fatal(err)
	}
	move()
	drover.Until(t, "the secondary to miss the primary", func() bool { return peer().Error != "" })
	if _, err := b.Client(t).Get(t.Context(), "dinosaurs", "rex", ""); err == nil || !strings.Contains(err.Error(), "rex") {
		t.Errorf("reads at the secondary: %v", err) // there is none of that name
	}
	if err := west.Start(); err != nil {
		t.Fatal(err)
	}
	leads()
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
