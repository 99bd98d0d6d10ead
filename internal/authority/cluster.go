package authority

import (
	"crypto/x509"
	"net/url"
	"strings"

	"github.com/droverhq/drover/internal/fault"
)

// An agent's certificate names its cluster as drover://cluster/<name>, among the
// URIs, or as the common name where an authority issues no URIs. Any other common
// name says nothing: it may be a person's.
const (
	clusterScheme = "drover"
	clusterHost   = "cluster"
)

func clusterURI(name string) *url.URL {
	return &url.URL{Scheme: clusterScheme, Host: clusterHost, Path: "/" + name}
}

// Cluster is the cluster whose agent a certificate is for; empty: none in
// particular. One that names several is refused.
func Cluster(c *x509.Certificate) (string, error) {
	uris := c.URIs
	if u, err := url.Parse(c.Subject.CommonName); err == nil && u.Scheme == clusterScheme {
		uris = append(uris[:len(uris):len(uris)], u)
	}
	found := ""
	for _, u := range uris {
		if u.Scheme != clusterScheme || u.Host != clusterHost {
			continue
		}
		name := strings.TrimPrefix(u.Path, "/")
		if name == "" || strings.Contains(name, "/") || found != "" && found != name {
			return "", fault.New(fault.Denied, "the certificate names no cluster, or more than one: it needs drover://cluster/NAME once")
		}
		found = name
	}
	return found, nil
}
