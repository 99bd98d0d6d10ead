package authority_test

import (
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/droverhq/drover/internal/authority"
	"github.com/droverhq/drover/internal/fault"
)

type clock struct{ at time.Time }

func newAuthority(t *testing.T) (*authority.Authority, *clock) {
	t.Helper()
	c := &clock{time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)}
	a := &authority.Authority{Dir: filepath.Join(t.TempDir(), "ca"), Now: func() time.Time { return c.at }}
	if err := a.Init("Test", 0); err != nil {
		t.Fatal(err)
	}
	return a, c
}

func issue(t *testing.T, a *authority.Authority, r authority.Request) authority.Issued {
	t.Helper()
	i, err := a.Issue(r)
	if err != nil {
		t.Fatal(err)
	}
	return i
}

func pool(certificates ...*x509.Certificate) *x509.CertPool {
	p := x509.NewCertPool()
	for _, c := range certificates {
		p.AddCert(c)
	}
	return p
}

// verify is what whoever is shown the chain does.
func verify(t *testing.T, i authority.Issued, roots *x509.CertPool, host string, at time.Time) error {
	t.Helper()
	pair, err := tls.LoadX509KeyPair(i.Certificate, i.Key)
	if err != nil {
		t.Fatal(err)
	}
	between := x509.NewCertPool()
	for _, der := range pair.Certificate[1:] {
		c, err := x509.ParseCertificate(der)
		if err != nil {
			t.Fatal(err)
		}
		between.AddCert(c)
	}
	use := x509.ExtKeyUsageClientAuth
	if host != "" {
		use = x509.ExtKeyUsageServerAuth
	}
	_, err = pair.Leaf.Verify(x509.VerifyOptions{Roots: roots, Intermediates: between, DNSName: host, CurrentTime: at, KeyUsages: []x509.ExtKeyUsage{use}})
	return err
}

func TestIssuedIsWhatWasAskedFor(t *testing.T) {
	a, c := newAuthority(t)
	server := issue(t, a, authority.Request{Use: authority.UseServer, Name: "drover", Hosts: []string{"drover.example.org", "10.0.0.5"}})
	agent := issue(t, a, authority.Request{Use: authority.UseAgent, Name: "edge"})
	roots := pool(a.Bundle()...)
	for host, good := range map[string]bool{"drover.example.org": true, "10.0.0.5": true, "other.example.org": false} {
		if err := verify(t, server, roots, host, c.at); (err == nil) != good {
			t.Errorf("for %s: %v", host, err)
		}
	}
	if verify(t, server, roots, "", c.at) == nil {
		t.Error("the certificate of a server is good for a client")
	}
	if err := verify(t, agent, roots, "", c.at); err != nil {
		t.Error(err)
	}
	if verify(t, agent, roots, "edge", c.at) == nil {
		t.Error("the certificate of an agent is good for a server")
	}
	if verify(t, agent, roots, "", c.at.Add(authority.LeafLifetime+time.Hour)) == nil {
		t.Error("it never ends")
	}
	pair, _ := tls.LoadX509KeyPair(agent.Certificate, agent.Key)
	if name, err := authority.Cluster(pair.Leaf); name != "edge" || err != nil {
		t.Errorf("cluster %q, %v", name, err)
	}
	for _, path := range []string{agent.Key, filepath.Join(a.Dir, "ca.key")} {
		if info, err := os.Stat(path); err != nil || info.Mode().Perm() != 0o600 {
			t.Errorf("%s: %v, %v", path, info.Mode(), err)
		}
	}
	if data, _ := os.ReadFile(a.BundlePath()); strings.Contains(string(data), "PRIVATE") {
		t.Error("the bundle has a key")
	}
}

func TestRefuses(t *testing.T) {
	a, _ := newAuthority(t)
	for _, tc := range []struct {
		reason string
		r      authority.Request
		kind   fault.Kind
	}{
		{"a use that there is not", authority.Request{Use: "person", Name: "x"}, fault.Invalid},
		{"a name that leads elsewhere", authority.Request{Use: authority.UseAgent, Name: "../ca"}, fault.Invalid},
		{"a server that nobody reaches", authority.Request{Use: authority.UseServer, Name: "x"}, fault.Invalid},
		{"a URL for a host", authority.Request{Use: authority.UseServer, Name: "x", Hosts: []string{"https://x"}}, fault.Invalid},
		{"a client with hosts", authority.Request{Use: authority.UseClient, Name: "x", Hosts: []string{"x"}}, fault.Invalid},
		{"longer than the authority", authority.Request{Use: authority.UseClient, Name: "x", Lifetime: 11 * 365 * 24 * time.Hour}, fault.Conflict},
	} {
		if _, err := a.Issue(tc.r); !fault.Is(err, tc.kind) {
			t.Errorf("%s: %v", tc.reason, err)
		}
	}
	if err := a.Init("again", 0); !fault.Is(err, fault.Conflict) {
		t.Errorf("a second authority in one directory: %v", err)
	}
	if err := (&authority.Authority{Dir: t.TempDir()}).Open(); !fault.Is(err, fault.NotFound) {
		t.Errorf("an empty directory: %v", err)
	}
}

// Whatever is replaced first, everybody believes everybody until the old authority
// is retired.
func TestRotationHasAnOverlap(t *testing.T) {
	a, c := newAuthority(t)
	r := authority.Request{Use: authority.UseServer, Name: "drover", Hosts: []string{"drover.example.org"}}
	before := issue(t, a, r)
	oldBundle := pool(a.Bundle()...)
	if err := a.Rotate(0); err != nil {
		t.Fatal(err)
	}
	newBundle, onlyNew := pool(a.Bundle()...), pool(a.Bundle()[0])
	if verify(t, before, onlyNew, "drover.example.org", c.at) == nil {
		t.Error("the old certificate is good without the old authority: nothing was rotated")
	}
	if err := verify(t, before, newBundle, "drover.example.org", c.at); err != nil {
		t.Errorf("old certificate, new bundle: %v", err)
	}
	if _, err := a.Retire(); !fault.Is(err, fault.Conflict) {
		t.Errorf("retired while something of the old authority is in use: %v", err)
	}
	renewed, err := a.Renew(0)
	if err != nil || len(renewed) != 1 || !renewed[0].Current {
		t.Fatalf("renewed %+v, %v", renewed, err)
	}
	for what, roots := range map[string]*x509.CertPool{"old": oldBundle, "new": newBundle, "last": onlyNew} {
		if err := verify(t, renewed[0], roots, "drover.example.org", c.at); err != nil {
			t.Errorf("new certificate, %s bundle: %v", what, err)
		}
	}
	again := &authority.Authority{Dir: a.Dir, Now: a.Now}
	if err := again.Open(); err != nil {
		t.Fatal(err)
	}
	if n, err := again.Retire(); n != 1 || err != nil || len(again.Bundle()) != 1 {
		t.Errorf("retired %d, %v", n, err)
	}
}

func TestRenewsWhatEndsSoonAndNothingElse(t *testing.T) {
	a, c := newAuthority(t)
	issue(t, a, authority.Request{Use: authority.UseAgent, Name: "short", Lifetime: 10 * 24 * time.Hour})
	issue(t, a, authority.Request{Use: authority.UseAgent, Name: "long"})
	renewed, err := a.Renew(20 * 24 * time.Hour)
	if err != nil || len(renewed) != 1 || renewed[0].Name != "agent-short" {
		t.Fatalf("renewed %+v, %v", renewed, err)
	}
	c.at = c.at.Add(80 * 24 * time.Hour)
	if renewed, err = a.Renew(20 * 24 * time.Hour); err != nil || len(renewed) != 2 {
		t.Fatalf("renewed %+v, %v", renewed, err)
	}
	for _, i := range renewed {
		if err := verify(t, i, pool(a.Bundle()...), "", c.at); err != nil || len(i.Names) != 1 {
			t.Errorf("%s for %v: %v", i.Name, i.Names, err)
		}
	}
	if left := renewed[1].NotAfter.Sub(c.at); left != 10*24*time.Hour {
		t.Errorf("what was issued for 10 days is good for %v now", left)
	}
}

// Whoever dies between the two files of a rotation leaves an authority that works.
func TestHalfARotation(t *testing.T) {
	a, _ := newAuthority(t)
	bundle, err := os.ReadFile(a.BundlePath())
	if err != nil {
		t.Fatal(err)
	}
	if err := a.Rotate(0); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(a.BundlePath(), bundle, 0o644); err != nil {
		t.Fatal(err)
	}
	again := &authority.Authority{Dir: a.Dir}
	if err := again.Open(); err != nil || len(again.Bundle()) != 2 || !again.Bundle()[0].Equal(a.Bundle()[0]) {
		t.Errorf("%d authorities, %v", len(again.Bundle()), err)
	}
}

func TestCluster(t *testing.T) {
	uri := func(s string) *url.URL {
		u, err := url.Parse(s)
		if err != nil {
			t.Fatal(err)
		}
		return u
	}
	for _, tc := range []struct {
		reason, common string
		uris           []*url.URL
		want           string
		refused        bool
	}{
		{"a person", "alice", nil, "", false},
		{"by URI", "x", []*url.URL{uri("spiffe://a/b"), uri("drover://cluster/edge")}, "edge", false},
		{"by common name", "drover://cluster/edge", nil, "edge", false},
		{"both alike", "drover://cluster/edge", []*url.URL{uri("drover://cluster/edge")}, "edge", false},
		{"two clusters", "drover://cluster/far", []*url.URL{uri("drover://cluster/edge")}, "", true},
		{"no name", "x", []*url.URL{uri("drover://cluster/")}, "", true},
	} {
		got, err := authority.Cluster(&x509.Certificate{Subject: pkix.Name{CommonName: tc.common}, URIs: tc.uris})
		if got != tc.want || (err != nil) != tc.refused {
			t.Errorf("%s: %q, %v", tc.reason, got, err)
		}
	}
}
