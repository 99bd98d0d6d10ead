package authority

import (
	"crypto/x509"
	"crypto/x509/pkix"
	"net"
	"net/url"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"time"

	"github.com/droverhq/drover/internal/fault"
)

// Uses of a certificate.
const (
	UseServer = "server" // of a listener: Drover's, the database's, the broker's
	UseAgent  = "agent"  // of a cluster's agent
	UseClient = "client" // of whoever connects: a person, Drover at the database
)

// Request asks for a certificate.
type Request struct {
	Use      string
	Name     string        // of the files, and the common name; of an agent: the cluster
	Hosts    []string      // of a server: names and addresses that it is reached by
	Lifetime time.Duration // default LeafLifetime
}

// Issued is a certificate in the directory.
type Issued struct {
	Name             string // of its files, without their ending
	Use              string
	Names            []string // hosts, or the cluster
	Certificate, Key string   // paths
	NotBefore        time.Time
	NotAfter         time.Time
	Current          bool // it is of the authority that signs now

	leaf *x509.Certificate
}

var fileName = regexp.MustCompile(`^[A-Za-z0-9]([A-Za-z0-9._-]{0,62}[A-Za-z0-9])?$`)

func (r Request) check() error {
	switch {
	case !slices.Contains([]string{UseServer, UseAgent, UseClient}, r.Use):
		return fault.New(fault.Invalid, "a certificate is for a server, an agent or a client")
	case !fileName.MatchString(r.Name):
		return fault.New(fault.Invalid, "%.80q is no name for a certificate: letters, digits, dots, dashes and underscores, at most 64", r.Name)
	case r.Use == UseServer && len(r.Hosts) == 0:
		return fault.New(fault.Invalid, "a server's certificate needs the names and addresses that it is reached by: --host drover.example.org")
	case r.Use != UseServer && len(r.Hosts) > 0:
		return fault.New(fault.Invalid, "only a server has hosts")
	case slices.ContainsFunc(r.Hosts, func(h string) bool { return strings.ContainsAny(h, " /:@") && net.ParseIP(h) == nil || h == "" }):
		return fault.New(fault.Invalid, "a host is a name or an address, without scheme and port: %.255q", strings.Join(r.Hosts, ","))
	}
	return nil
}

// Issue makes a key and its certificate. What was issued under that name before is
// replaced.
func (a *Authority) Issue(r Request) (Issued, error) {
	chain, encoded, err := a.issue(r)
	if err != nil {
		return Issued{}, err
	}
	at := filepath.Join(a.Dir, issuedDir, r.Use+"-"+r.Name)
	// Readers wait until the two fit.
	if err := replace(at+".key", encoded, 0o600); err != nil {
		return Issued{}, err
	}
	if err := replace(at+".crt", encode(chain...), 0o644); err != nil {
		return Issued{}, err
	}
	return a.describe(at, chain[0]), nil
}

// issue returns the certificate with what leads to the authority before this one, and
// its key.
func (a *Authority) issue(r Request) ([]*x509.Certificate, []byte, error) {
	if err := r.check(); err != nil {
		return nil, nil, err
	}
	if r.Lifetime <= 0 {
		r.Lifetime = LeafLifetime
	}
	template, err := a.template(r.Lifetime)
	if err != nil {
		return nil, nil, err
	}
	if !template.NotAfter.Before(a.bundle[0].NotAfter) {
		return nil, nil, fault.New(fault.Conflict, "the authority ends on %s, before the certificate would: replace it with `drover ca rotate`", a.bundle[0].NotAfter.UTC().Format(time.DateOnly))
	}
	template.Subject = pkix.Name{CommonName: r.Name}
	template.KeyUsage = x509.KeyUsageDigitalSignature
	template.ExtKeyUsage = []x509.ExtKeyUsage{x509.ExtKeyUsageClientAuth}
	switch r.Use {
	case UseAgent:
		template.URIs = []*url.URL{clusterURI(r.Name)}
	case UseServer:
		template.ExtKeyUsage = []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth}
		for _, host := range r.Hosts {
			if ip := net.ParseIP(host); ip != nil {
				template.IPAddresses = append(template.IPAddresses, ip)
			} else {
				template.DNSNames = append(template.DNSNames, strings.ToLower(host))
			}
		}
	}
	key, err := newKey()
	if err != nil {
		return nil, nil, err
	}
	leaf, err := sign(template, a.bundle[0], key.Public(), a.key)
	if err != nil {
		return nil, nil, err
	}
	chain := []*x509.Certificate{leaf}
	if a.cross != nil && a.now().Before(a.cross.NotAfter) {
		chain = append(chain, a.cross)
	}
	encoded, err := encodeKey(key)
	if err != nil {
		return nil, nil, err
	}
	return chain, encoded, nil
}

func (a *Authority) describe(at string, leaf *x509.Certificate) Issued {
	out := Issued{
		Name: filepath.Base(at), Certificate: at + ".crt", Key: at + ".key",
		NotBefore: leaf.NotBefore, NotAfter: leaf.NotAfter, Current: leaf.CheckSignatureFrom(a.bundle[0]) == nil, leaf: leaf,
	}
	out.Use, _, _ = strings.Cut(out.Name, "-")
	out.Names = slices.Clone(leaf.DNSNames)
	for _, ip := range leaf.IPAddresses {
		out.Names = append(out.Names, ip.String())
	}
	if cluster, err := Cluster(leaf); err == nil && cluster != "" {
		out.Names = append(out.Names, cluster)
	}
	return out
}

// Issued lists what is in the directory, by name.
func (a *Authority) Issued() ([]Issued, error) {
	paths, err := filepath.Glob(filepath.Join(a.Dir, issuedDir, "*.crt"))
	if err != nil {
		return nil, fault.New(fault.Invalid, "cannot list what was issued: %w", err)
	}
	var out []Issued
	for _, path := range paths {
		chain, err := readCertificates(path)
		if err != nil {
			return nil, err
		}
		out = append(out, a.describe(strings.TrimSuffix(path, ".crt"), chain[0]))
	}
	return out, nil
}

// Renew issues again what ends within the time, or is of an authority before this
// one, for as long as it was issued for.
func (a *Authority) Renew(within time.Duration) (renewed []Issued, err error) {
	issued, err := a.Issued()
	if err != nil {
		return nil, err
	}
	for _, old := range issued {
		if old.Current && a.now().Add(within).Before(old.NotAfter) {
			continue
		}
		r := Request{Use: old.Use, Name: old.leaf.Subject.CommonName, Lifetime: old.NotAfter.Sub(old.NotBefore.Add(skew))}
		if old.Use == UseServer {
			r.Hosts = old.Names
		}
		again, err := a.Issue(r)
		if err != nil {
			return renewed, err
		}
		renewed = append(renewed, again)
	}
	return renewed, nil
}

// Cut copies an issued pair and the bundle to a directory, by the names that
// Kubernetes has for them: tls.crt, tls.key, ca.crt.
func (a *Authority) Cut(i Issued, dir string) error {
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return fault.New(fault.Invalid, "cannot make %s: %w", dir, err)
	}
	key, err := os.ReadFile(i.Key)
	if err != nil {
		return fault.New(fault.Invalid, "cannot read the key: %w", err)
	}
	chain, err := os.ReadFile(i.Certificate)
	if err != nil {
		return fault.New(fault.Invalid, "cannot read the certificate: %w", err)
	}
	for name, file := range map[string]struct {
		data []byte
		mode os.FileMode
	}{"tls.key": {key, 0o600}, "tls.crt": {chain, 0o644}, "ca.crt": {encode(a.bundle...), 0o644}} {
		if err := replace(filepath.Join(dir, name), file.data, file.mode); err != nil {
			return err
		}
	}
	return nil
}
