package rfc2136_test

import (
	"testing"

	"github.com/droverhq/drover/internal/dns/dnstest"
	"github.com/droverhq/drover/internal/dns/rfc2136"
	"github.com/droverhq/drover/test/bind"
)

func TestOnBIND(t *testing.T) {
	dnstest.Run(t, func(t *testing.T) dnstest.World {
		s := bind.Start(t, "drover.test")
		w := dnstest.OnServer(s, s.Addr, "drover.test")
		p, err := rfc2136.Open(rfc2136.Config{Server: s.Addr, Key: bind.Key, Secret: s.Secret})
		if err != nil {
			t.Fatal(err)
		}
		w.Provider, w.Guarded = p, true
		return w
	})
}
