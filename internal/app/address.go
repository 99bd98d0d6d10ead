package app

import (
	"net"
	"net/http"

	"github.com/droverhq/drover/internal/access"
	"github.com/droverhq/drover/internal/kubeapi"
)

// mount puts the identity provider and the webhook of custom resources beside the API.
func (s *Server) mount(api http.Handler, authenticator *access.Authenticator) http.Handler {
	mux := http.NewServeMux()
	mux.Handle("/", api)
	s.siteRoutes(mux)
	if s.home != nil {
		mux.Handle(kubeapi.AdmissionPath, s.home.Admission())
	}
	if s.outside.login == nil {
		return mux
	}
	for _, path := range s.outside.login.Paths() {
		mux.Handle(path, s.outside.login.Handler())
	}
	return mux
}

// URL of the API as this machine reaches it.
func (s *Server) URL() string {
	if s.secured.files != nil {
		return "https://" + reachable(s.listener.Addr())
	}
	return "http://" + reachable(s.listener.Addr())
}

func reachable(addr net.Addr) string {
	host, port, err := net.SplitHostPort(addr.String())
	if ip := net.ParseIP(host); err == nil && ip != nil && ip.IsUnspecified() {
		return net.JoinHostPort("127.0.0.1", port)
	}
	return addr.String()
}
