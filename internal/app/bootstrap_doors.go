package app

import (
	"context"
	"maps"
	"net/url"
	"os"
	"path/filepath"

	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/droverhq/drover/internal/fault"
)

// doors are how the new control plane's database and broker are come to.
type doors struct {
	database  string            // with what opens it
	hosts     map[string]string // where addresses of the cluster are on this machine
	files     map[string]string // that open the broker: ca, certificate and key; empty: there are none
	plaintext []string          // places that are spoken to unencrypted, through a tunnel that is not
}

// doors leads to what the outputs of these names are addresses of.
func (b *bootstrap) doors(text func(string) string, names ...string) (d doors, err error) {
	for _, name := range names {
		if _, err := b.tunnel.at(text(name)); err != nil {
			return d, err
		}
	}
	d.database = text("database")
	d.files = map[string]string{"ca": text("tls_ca"), "certificate": text("tls_certificate"), "key": text("tls_key")}
	if b.tunnel == nil {
		return d, nil
	}
	d.hosts = maps.Clone(b.tunnel.here)
	u, err := url.Parse(d.database)
	if err != nil { // not quoted: it has a password in it
		return d, fault.New(fault.Invalid, "the output database of the meta template is no address").Because("outputs")
	}
	if d.hosts[u.Host] != "" {
		d.plaintext = []string{PlaceDatabase} // where the template says so
	}
	secret := text("tls_secret")
	if secret == "" {
		return d, nil
	}
	if d.files, err = b.tunnel.files(b.keysDir(), u.Hostname(), secret); err != nil {
		return d, err
	}
	with := u.Query()
	for setting, file := range map[string]string{"sslrootcert": "ca", "sslcert": "certificate", "sslkey": "key"} {
		with.Set(setting, d.files[file])
	}
	u.RawQuery = with.Encode()
	d.database = u.String()
	return d, nil
}

// keysDir has what opens database and broker of a cluster, for as long as a run lasts.
func (b *bootstrap) keysDir() string { return filepath.Join(b.State, "replica", "keys") }

// files writes what a secret holds into a directory: the secret of the namespace that a
// service is in. It is read each time, because certificates are replaced.
func (t *tunnel) files(dir, host, secret string) (map[string]string, error) {
	namespace, _, ok := serviceOf(host)
	if !ok {
		return nil, fault.New(fault.Invalid, "the meta template has an output tls_secret, and its database is no service of the cluster").Because("outputs")
	}
	ctx, cancel := context.WithTimeout(t.ctx, tunnelPatience)
	defer cancel()
	var s corev1.Secret
	if err := t.cluster.Kube().Get(ctx, client.ObjectKey{Namespace: namespace, Name: secret}, &s); err != nil {
		return nil, notFound(err, "the secret "+secret)
	}
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return nil, fault.New(fault.Invalid, "cannot use the state directory: %w", err)
	}
	out := map[string]string{}
	for file, key := range map[string]string{"ca": "ca.crt", "certificate": "client.crt", "key": "client.key"} {
		if len(s.Data[key]) == 0 {
			return nil, fault.New(fault.Invalid, "the secret %s has no %s", secret, key).Because("outputs")
		}
		out[file] = filepath.Join(dir, key)
		if err := os.WriteFile(out[file], s.Data[key], 0o600); err != nil {
			return nil, fault.New(fault.Invalid, "cannot use the state directory: %w", err)
		}
	}
	return out, nil
}
