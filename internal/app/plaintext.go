package app

import (
	"net"
	"net/url"
	"slices"
	"strings"

	"github.com/droverhq/drover/api/client"
	"github.com/droverhq/drover/internal/fault"
	"github.com/droverhq/drover/internal/sqlledger"
)

// Places that are spoken to, by the names that --plaintext has for them.
const (
	PlaceListen   = "listen"   // whoever calls this server
	PlaceServer   = "server"   // the server, for agents and the command line
	PlaceDatabase = "database" // PostgreSQL
	PlaceBus      = "bus"      // the broker
	PlaceVault    = "vault"
	PlaceConsul   = "consul"
)

// CheckPlaintext refuses to speak unencrypted with a host that is not this machine,
// unless --plaintext names the place. Remedy is what to do, and follows "use ".
func CheckPlaintext(allowed []string, place, host, remedy string) error {
	if client.Loopback(host) || strings.HasPrefix(host, "/") || slices.Contains(allowed, place) {
		return nil // a path is a socket of this machine
	}
	return fault.New(fault.Invalid, "%s: %.255s is not this machine, and what is said there could be read on the way: use %s, or --plaintext %s where the way itself is safe",
		place, host, remedy, place)
}

// plain refuses what this server would say or hear unencrypted.
func (c *Config) plain() error {
	if c.TLSCert == "" {
		host, _, err := net.SplitHostPort(c.Listen)
		if err != nil {
			return fault.New(fault.Invalid, "--listen %.255q: want HOST:PORT", c.Listen)
		}
		if host == "" {
			host = "0.0.0.0"
		}
		if err := CheckPlaintext(c.Plaintext, PlaceListen, host, "--tls-certificate-file and --tls-key-file, or --listen 127.0.0.1:PORT behind a proxy of this machine"); err != nil {
			return err
		}
	}
	if at, err := url.Parse(c.PublicURL); err == nil && at.Scheme == "http" {
		if err := CheckPlaintext(c.Plaintext, PlaceServer, at.Hostname(), "https:// in --public-url, because agents come there with their tokens"); err != nil {
			return err
		}
	}
	if err := plainVault(c.Vault, c.Plaintext); err != nil {
		return err
	}
	if err := plainConsul(c.Consul, c.Plaintext); err != nil {
		return err
	}
	hosts, err := sqlledger.Unencrypted(c.Database)
	if err != nil {
		return err
	}
	for _, host := range hosts {
		if err := CheckPlaintext(c.Plaintext, PlaceDatabase, host, "sslmode=verify-full and sslrootcert=FILE in --database"); err != nil {
			return err
		}
	}
	for _, broker := range strings.Fields(pairs(c.BusOptions)["url"]) {
		if at, err := url.Parse(broker); err == nil && at.Scheme == "amqp" {
			if err := CheckPlaintext(c.Plaintext, PlaceBus, at.Hostname(), "amqps:// and ca=FILE in --bus-options"); err != nil {
				return err
			}
		}
	}
	return nil
}

func plainVault(raw string, allowed []string) error {
	at, err := url.Parse(raw)
	if err != nil || at.Scheme != "http" {
		return nil
	}
	return CheckPlaintext(allowed, PlaceVault, at.Hostname(), "https:// in --vault, because Drover's credentials come from there")
}

func plainConsul(raw string, allowed []string) error {
	at, err := url.Parse(raw)
	if err != nil || at.Scheme != "http" {
		return nil
	}
	return CheckPlaintext(allowed, PlaceConsul, at.Hostname(), "https:// in --consul")
}

// plain refuses to send an agent's token unencrypted.
func (c *AgentConfig) plain() error {
	at, err := url.Parse(c.Server)
	if err != nil || !client.Exposed(c.Server) {
		return nil // what is no URL is told by whoever uses it
	}
	return CheckPlaintext(c.Plaintext, PlaceServer, at.Hostname(), "https:// in --server, because the agent's token goes there")
}
