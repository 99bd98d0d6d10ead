package executor

import (
	"net/http"
	"net/url"

	"github.com/droverhq/drover/internal/transport"
)

// Unreached is why a call over HTTP was not answered, without what was asked for: the
// path of a secret is not for everybody who uses the same connection.
func Unreached(err error) error { return transport.Unreached(err) }

// Way is where a connection leads over HTTP, and how: the options address, ca, cert,
// key (PEM), serverName, and plaintext: with true, http:// may lead to another machine.
func (c Connection) Way() transport.Config {
	return transport.Config{Whose: "the connection's", Address: c["address"], CA: c["ca"], Cert: c["cert"], Key: c["key"], ServerName: c["serverName"], Plaintext: c["plaintext"] == "true"}
}

// Transport makes the way.
func (c Connection) Transport() (*url.URL, *http.Transport, error) { return transport.New(c.Way()) }
