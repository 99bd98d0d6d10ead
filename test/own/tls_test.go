//go:build e2e

package own

import (
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/droverhq/drover/api/client/keypair"
	"github.com/droverhq/drover/internal/authority"
	"github.com/droverhq/drover/test/consul"
	"github.com/droverhq/drover/test/drover"
	"github.com/droverhq/drover/test/openbao"
)

// pki is an authority, and files of its certificates that are replaced.
type pki struct {
	t   *testing.T
	dir string
	*authority.Authority
}

func newPKI(t *testing.T) *pki {
	t.Helper()
	p := &pki{t: t, dir: t.TempDir()}
	p.another()
	return p
}

// another authority takes the place of this one, which knows nothing of it.
func (p *pki) another() {
	p.t.Helper()
	p.Authority = &authority.Authority{Dir: filepath.Join(p.t.TempDir(), "ca")}
	if err := p.Init("", 0); err != nil {
		p.t.Fatal(err)
	}
}

// cut puts a certificate of the authority of the moment into the files of that name.
func (p *pki) cut(name string, r authority.Request) keypair.Files {
	p.t.Helper()
	r.Name = name
	i, err := p.Issue(r)
	if err != nil {
		p.t.Fatal(err)
	}
	at := filepath.Join(p.dir, name)
	if err := p.Cut(i, at); err != nil {
		p.t.Fatal(err)
	}
	return keypair.Files{CA: filepath.Join(at, "ca.crt"), Certificate: filepath.Join(at, "tls.crt"), Key: filepath.Join(at, "tls.key")}
}

var (
	served = authority.Request{Use: authority.UseServer, Hosts: []string{"127.0.0.1", "vault.service.consul"}}
	shown  = authority.Request{Use: authority.UseClient}
)

// tlsOptions are files as Drover is told of them.
func tlsOptions(f keypair.Files) string {
	list := []string{"ca=" + f.CA}
	if f.Key != "" {
		list = append(list, "certificate="+f.Certificate, "key="+f.Key)
	}
	return strings.Join(list, ",")
}

// Credentials come from Vault, which is found by its name in Consul; both know Drover by its
// certificate. Then everybody gets certificates of an authority that the old one knows
// nothing of, under load: Drover goes on, and is not restarted.
func TestVaultAndConsulOverTLS(t *testing.T) {
	p := newPKI(t)
	theirs, mine := p.cut("servers", served), p.cut("drover", shown)
	c := consul.Start(t, consul.WithData(), consul.WithTLS(theirs))
	w := newWorld(t, lives{lease: 6, most: 14, token: 10, mostToken: 25}, openbao.WithTLS(theirs))
	register(t, c, "vault", strings.TrimPrefix(w.bao.Secure, "https://"))
	s := drover.Serve(t, append(slices.Clone(w.flags), "--vault", "https://vault.service.consul", "--vault-options", tlsOptions(mine),
		"--consul", c.Secure, "--consul-options", tlsOptions(mine))...)
	drover.Until(t, "the server to be registered", func() bool { return status(t, c) == "passing" })
	l := newLoad(t, s, 2)
	l.more(t, "with the first authority")
	for range 2 {
		if err := c.Stop(); err != nil {
			t.Fatal(err)
		}
		if err := w.bao.Stop(); err != nil {
			t.Fatal(err)
		}
		p.another()
		p.cut("servers", served)
		p.cut("drover", shown)
		l.more(t, "while both are away")
		if err := c.Start(); err != nil {
			t.Fatal(err)
		}
		if err := errors.Join(w.bao.Start(), w.bao.Unseal()); err != nil {
			t.Fatal(err)
		}
		before := w.users(t)
		drover.Until(t, "the server to be registered with the other authority", func() bool { return status(t, c) == "passing" })
		drover.Until(t, "another user, had with the other authority", func() bool {
			now := w.users(t)
			return len(now) > 0 && !slices.Contains(before, now[0]) || t.Failed()
		})
		var said string
		t.Cleanup(func() {
			if t.Failed() {
				t.Log(said)
			}
		})
		drover.Until(t, "the doctor to be content", func() bool {
			said = doctor(s)
			return !strings.Contains(said, "what opens the database") && !strings.Contains(said, "vault.service.consul") && !strings.Contains(said, "Consul")
		})
	}
	l.more(t, "with the third authority")
	l.check(t)
	quiet(t, s, w.secret)
}

// Who does not believe Vault, or is not believed by it, has nothing to start with, and says why.
func TestVaultIsNotBelieved(t *testing.T) {
	p, stranger := newPKI(t), newPKI(t)
	theirs, mine, other := p.cut("servers", served), p.cut("drover", shown), stranger.cut("drover", shown)
	w := newWorld(t, lives{lease: 60, most: 600, token: 60, mostToken: 600}, openbao.WithTLS(theirs))
	for _, tc := range []struct {
		reason, says string
		files        keypair.Files
	}{
		{"another authority", "unknown authority", keypair.Files{CA: other.CA, Certificate: mine.Certificate, Key: mine.Key}},
		{"no certificate", "certificate required", keypair.Files{CA: mine.CA}},
		{"a stranger's certificate", "unknown certificate authority", keypair.Files{CA: mine.CA, Certificate: other.Certificate, Key: other.Key}},
	} {
		s := ends(t, tc.says, append(slices.Clone(w.flags), "--vault", w.bao.Secure, "--vault-options", tlsOptions(tc.files))...)
		quiet(t, s, w.secret)
	}
	// The same with what is right comes up.
	drover.Serve(t, append(slices.Clone(w.flags), "--vault", w.bao.Secure, "--vault-options", tlsOptions(mine))...)
}

// Who does not believe Consul works without it, says why, and needs no restart once the file
// is right.
func TestConsulIsNotBelieved(t *testing.T) {
	p, stranger := newPKI(t), newPKI(t)
	c := consul.Start(t, consul.WithTLS(p.cut("servers", served)))
	mine := p.cut("drover", shown)
	right, err := os.ReadFile(mine.CA)
	if err != nil {
		t.Fatal(err)
	}
	wrong, err := os.ReadFile(stranger.BundlePath())
	if err != nil {
		t.Fatal(err)
	}
	put(t, mine.CA, wrong)
	s := drover.Serve(t, "--consul", c.Secure, "--consul-options", tlsOptions(mine))
	drover.Until(t, "the doctor to say why it is not registered", func() bool { return strings.Contains(doctor(s), "unknown authority") })
	if all := entries(t, c); len(all) != 0 {
		t.Fatalf("it is registered: %+v", all)
	}
	put(t, mine.CA, right)
	drover.Until(t, "the server to be registered", func() bool { return status(t, c) == "passing" })
	drover.Until(t, "the doctor to be content", func() bool { return !strings.Contains(doctor(s), "unknown authority") })

	bare := drover.Serve(t, "--consul", c.Secure, "--consul-options", "ca="+mine.CA+",service=bare")
	drover.Until(t, "the doctor to say that it must show a certificate", func() bool { return strings.Contains(doctor(bare), "certificate required") })
}
