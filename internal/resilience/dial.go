package resilience

import (
	"errors"
	"net/netip"
	"syscall"
)

// ErrLinkLocal is of an address that a stranger names and that only the machine's own
// network answers: what a machine is told about its credentials lives there.
var ErrLinkLocal = errors.New("link-local addresses are not reached")

// Control is the net.Dialer's for addresses that strangers name.
func Control(_, address string, _ syscall.RawConn) error {
	if at, err := netip.ParseAddrPort(address); err == nil && linkLocal(at.Addr()) {
		return ErrLinkLocal
	}
	return nil
}

// LinkLocal tells whether a host is written as an address that Control refuses. What a
// name resolves to only Control sees.
func LinkLocal(host string) bool {
	ip, err := netip.ParseAddr(host)
	return err == nil && linkLocal(ip)
}

func linkLocal(ip netip.Addr) bool { return ip.Unmap().IsLinkLocalUnicast() }
