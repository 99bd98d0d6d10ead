package resilience_test

import (
	"errors"
	"net"
	"testing"

	"github.com/droverhq/drover/internal/resilience"
)

func TestStrangersReachNoLinkLocalAddress(t *testing.T) {
	for _, c := range []struct {
		reason, address string
		refused         bool
	}{
		{"a cloud's metadata service", "169.254.169.254:80", true},
		{"the same, written as IPv6", "[::ffff:169.254.169.254]:80", true},
		{"a neighbour on the link", "[fe80::1%eth0]:443", true},
		{"loopback is where laptops try things", "127.0.0.1:80", false},
		{"anybody", "192.0.2.1:443", false},
	} {
		if err := resilience.Control("tcp", c.address, nil); errors.Is(err, resilience.ErrLinkLocal) != c.refused {
			t.Errorf("%s: %s gives %v", c.reason, c.address, err)
		}
		if host, _, err := net.SplitHostPort(c.address); err != nil || resilience.LinkLocal(host) != c.refused {
			t.Errorf("%s: %s is told apart wrongly before it is called", c.reason, host)
		}
	}
}
