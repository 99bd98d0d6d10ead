package dns_test

import (
	"testing"

	"github.com/libdns/rfc2136"

	"github.com/droverhq/drover/internal/dns"
	"github.com/droverhq/drover/internal/dns/dnstest"
	"github.com/droverhq/drover/test/bind"
)

func TestLibdnsInMemory(t *testing.T) {
	dnstest.Run(t, func(*testing.T) dnstest.World { return dnstest.NewMemory().World("drover.test") })
}

// A provider of libdns as it comes, on a real server.
func TestLibdnsOnBIND(t *testing.T) {
	dnstest.Run(t, func(t *testing.T) dnstest.World {
		s := bind.Start(t, "drover.test")
		w := dnstest.OnServer(s, s.Addr, "drover.test")
		w.Provider = dns.Libdns(&rfc2136.Provider{KeyName: bind.Key, KeyAlg: "hmac-sha256", Key: s.Secret, Server: s.Addr}, s.Secret)
		return w
	})
}
