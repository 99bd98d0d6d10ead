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
	if at, err := netip.ParseAddrPort(address); err == nil && at.Addr().Unmap().IsLinkLocalUnicast() {
		return ErrLinkLocal
	}
	return nil
}
