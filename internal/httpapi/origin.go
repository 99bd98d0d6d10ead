package httpapi

import (
	"net"
	"net/http"
	"net/netip"
	"strings"
)

// origin is the address that a request came from: the peer's, or what proxies say
// that the operator has named. Each of them adds whom it was asked by at the end of
// X-Forwarded-For; what is in front of the last address that is not one of theirs
// may have been written by anybody.
func (s *server) origin(r *http.Request) string {
	peer := hostOf(r.RemoteAddr)
	if len(s.Proxies) == 0 || !s.proxy(peer) {
		return peer
	}
	hops := strings.Split(strings.Join(r.Header.Values("X-Forwarded-For"), ","), ",")
	for i := len(hops) - 1; i >= 0; i-- {
		hop := hostOf(strings.TrimSpace(hops[i]))
		if _, err := netip.ParseAddr(hop); err != nil {
			break
		}
		if peer = hop; !s.proxy(hop) {
			break
		}
	}
	return peer
}

func (s *server) proxy(host string) bool {
	addr, err := netip.ParseAddr(host)
	if err != nil {
		return false
	}
	addr = addr.Unmap().WithZone("")
	for _, p := range s.Proxies {
		if p.Contains(addr) {
			return true
		}
	}
	return false
}

// hostOf leaves the port out.
func hostOf(address string) string {
	if host, _, err := net.SplitHostPort(address); err == nil {
		return host
	}
	return strings.Trim(address, "[]")
}
