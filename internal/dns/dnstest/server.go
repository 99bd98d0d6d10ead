package dnstest

import (
	"fmt"
	"testing"
)

// Name is a real name server as test/bind runs it.
type Name interface {
	Records(t testing.TB, zone string) []string
	Add(t testing.TB, zone string, records ...string)
	Delete(t testing.TB, zone, name, kind string)
	Start(t testing.TB)
	Stop()
}

// OnServer is a world on a name server; its provider is the caller's.
func OnServer(s Name, addr, zone string) World {
	return World{
		Zone: zone, Servers: []string{addr},
		Records: func(t testing.TB) []string { return s.Records(t, zone) },
		Add: func(t testing.TB, name, kind, data string) {
			switch kind {
			case "CNAME":
				data += "."
			case "TXT":
				data = fmt.Sprintf("%q", data)
			}
			s.Add(t, zone, fmt.Sprintf("%s. 300 IN %s %s", name, kind, data))
		},
		Delete: func(t testing.TB, name, kind string) { s.Delete(t, zone, name, kind) },
		Start:  s.Start,
		Stop:   func(testing.TB) { s.Stop() },
	}
}
