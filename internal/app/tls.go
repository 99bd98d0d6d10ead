package app

import (
	"cmp"
	"context"
	"crypto/x509"
	"encoding/json"
	"net"
	"net/http"
	"path/filepath"
	"strings"
	"time"

	"github.com/droverhq/drover/api/client/keypair"
	v1 "github.com/droverhq/drover/api/v1"
	"github.com/droverhq/drover/internal/access"
	"github.com/droverhq/drover/internal/authority"
	"github.com/droverhq/drover/internal/fault"
	"github.com/droverhq/drover/internal/kubeapi"
)

// Who must show a certificate where --tls-client-ca-file names authorities.
const (
	authAgents = "agents"
	authAll    = "all"
)

// secured is what the API is served with.
type secured struct {
	files *keypair.Reader // nil: it speaks http
	// states is where OpenTofu, a program of this machine, keeps its states: it can
	// be told neither a name nor a certificate for an address of loopback. nil: at the
	// API's own address.
	states net.Listener
	within *inward // for what runs in this process; nil: likewise
}

// secure reads what the API is served with.
func (s *Server) secure() error {
	c := s.cfg
	if c.TLSCert == "" && c.TLSKey == "" {
		if c.TLSClientCA != "" {
			return fault.New(fault.Invalid, "--tls-client-ca-file needs --tls-certificate-file and --tls-key-file: clients show certificates over TLS alone")
		}
		return nil
	}
	var err error
	if s.secured.files, err = keypair.Open(keypair.Files{CA: c.TLSClientCA, Certificate: c.TLSCert, Key: c.TLSKey}); err != nil {
		return fault.New(fault.Invalid, "cannot serve https (--tls-certificate-file, --tls-key-file, --tls-client-ca-file): %w", err)
	}
	s.secured.within = newInward()
	if s.secured.states, err = net.Listen("tcp", "127.0.0.1:0"); err != nil {
		return fault.New(fault.Unavailable, "cannot listen on 127.0.0.1 for OpenTofu: %w", err)
	}
	return nil
}

// serve is what an HTTP server does at once; all of it ends with the server.
func (s *Server) serve(web *http.Server) []func() error {
	if s.secured.files == nil {
		return []func() error{func() error { return web.Serve(s.listener) }}
	}
	web.TLSConfig = s.secured.files.Listener()
	return []func() error{
		func() error { return web.ServeTLS(s.listener, "", "") },
		func() error { return web.Serve(s.secured.states) },
		func() error { return web.Serve(s.secured.within) },
	}
}

// endSoon is when somebody should have renewed a certificate.
const endSoon = 14 * 24 * time.Hour

// complaint is what is wrong with the files, or will be soon; empty: nothing.
func (s *secured) complaint(now time.Time) string {
	if err := s.files.Wrong(); err != nil {
		return "the API's certificate stays as it was, because the files cannot be used: " + err.Error()
	}
	end := s.files.Now().Certificate.Leaf.NotAfter
	if left := end.Sub(now); left < endSoon {
		return "the API's certificate ends at " + end.UTC().Format(time.RFC3339) + ": renew it, the file is read again"
	}
	return ""
}

// mind tells of the files until ctx ends, each complaint once a day.
func (s *Server) mind(ctx context.Context) error {
	if s.secured.files == nil {
		return nil
	}
	timer := time.NewTicker(time.Minute)
	defer timer.Stop()
	var said string
	var when time.Time
	for {
		now := time.Now()
		if text := s.secured.complaint(now); text != "" && (text != said || now.Sub(when) > 24*time.Hour) {
			s.log.Warn(text)
			said, when = text, now
		}
		select {
		case <-ctx.Done():
			return nil
		case <-timer.C:
		}
	}
}

// statesURL is the API for OpenTofu.
func (s *Server) statesURL() string {
	if s.secured.states == nil {
		return s.URL()
	}
	return "http://" + s.secured.states.Addr().String()
}

const statesPath = "/api/v1/state/"

// open are paths that everybody may ask, certificates or not: probes and scrapers
// have none, and the API of a Kubernetes shows none to its webhooks. None of them
// tells a secret or changes anything.
func open(path string) bool {
	switch path {
	case "/healthz", "/readyz", "/metrics", sitePath, kubeapi.AdmissionPath:
		return true
	}
	return false
}

// known finds out who is at the other end of the connection, before anybody looks
// at tokens.
func (s *Server) known(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if s.secured.states != nil && r.TLS == nil && !within(r) && !strings.HasPrefix(r.URL.Path, statesPath) {
			refuse(w, http.StatusNotFound, "only states are served here: use "+s.publicURL())
			return
		}
		peer, err := peerOf(r)
		switch {
		case err != nil:
			refuse(w, http.StatusForbidden, err.Error())
			return
		case s.cfg.TLSClientCA != "" && s.cfg.TLSClientAuth == authAll && r.TLS != nil && !peer.Certified && !open(r.URL.Path):
			refuse(w, http.StatusForbidden, "everybody must show a certificate here: use --client-certificate-file and --client-key-file, and let nothing in between end the TLS")
			return
		}
		next.ServeHTTP(w, r.WithContext(access.WithPeer(r.Context(), peer)))
	})
}

func within(r *http.Request) bool { return r.Context().Value(insideKey{}) != nil }

func peerOf(r *http.Request) (access.Peer, error) {
	if within(r) {
		return access.Peer{Certified: true}, nil
	}
	if r.TLS == nil || len(r.TLS.VerifiedChains) == 0 {
		return access.Peer{}, nil
	}
	cluster, err := authority.Cluster(r.TLS.PeerCertificates[0])
	return access.Peer{Certified: true, Cluster: cluster}, err
}

// refuse answers before the API does, in its form.
func refuse(w http.ResponseWriter, status int, why string) {
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(status)
	_ = json.NewEncoder(w).Encode(v1.Error{ID: "4", Kind: "Error", Href: "/api/v1/errors/4", Code: "DROVER-4", Reason: why})
}

// trust is how a command line of this machine knows the server by its own
// certificate, which may be for quite another name than the address here.
func (s *Server) trust(l *local) error {
	if s.secured.files == nil {
		return nil
	}
	path, err := filepath.Abs(s.cfg.TLSCert)
	if err != nil {
		return fault.New(fault.Invalid, "cannot find --tls-certificate-file: %w", err)
	}
	l.CAFile, l.ServerName = path, nameOf(s.secured.files.Now().Certificate.Leaf)
	return nil
}

// nameOf is a name that a certificate is for.
func nameOf(c *x509.Certificate) string {
	name := ""
	if len(c.DNSNames) > 0 {
		name = c.DNSNames[0]
	} else if len(c.IPAddresses) > 0 {
		name = c.IPAddresses[0].String()
	}
	return cmp.Or(strings.Replace(name, "*", "any", 1), c.Subject.CommonName)
}
