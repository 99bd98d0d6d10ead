package executor

import (
	"crypto/tls"
	"crypto/x509"
	"errors"
	"net"
	"net/http"
	"net/url"
	"time"

	"github.com/droverhq/drover/internal/fault"
)

// Unreached is why a call over HTTP was not answered, without what was asked for: the
// path of a secret is not for everybody who uses the same connection.
func Unreached(err error) error {
	for {
		var u *url.Error
		if !errors.As(err, &u) {
			return err
		}
		err = u.Err
	}
}

// Transport reads where a connection leads over HTTP, and how: the options
// address, ca, cert, key (PEM) and serverName. Nothing is taken from the
// environment of the server, not even a proxy.
func (c Connection) Transport() (*url.URL, *http.Transport, error) {
	at, err := url.Parse(c["address"])
	if err != nil || at.Host == "" || at.User != nil || at.Scheme != "http" && at.Scheme != "https" {
		return nil, nil, fault.New(fault.Invalid, "the connection's address is no URL; write it as https://name.example.com:8501")
	}
	t := &http.Transport{
		DialContext:         (&net.Dialer{Timeout: 5 * time.Second, KeepAlive: 15 * time.Second}).DialContext,
		MaxIdleConnsPerHost: 16, MaxConnsPerHost: 100, IdleConnTimeout: time.Minute, TLSHandshakeTimeout: 5 * time.Second,
		TLSClientConfig: &tls.Config{MinVersion: tls.VersionTLS12, ServerName: c["serverName"]},
	}
	if pem := c["ca"]; pem != "" {
		t.TLSClientConfig.RootCAs = x509.NewCertPool()
		if !t.TLSClientConfig.RootCAs.AppendCertsFromPEM([]byte(pem)) {
			return nil, nil, fault.New(fault.Invalid, "the connection's ca holds no certificate; it is a PEM")
		}
	}
	if c["cert"] != "" || c["key"] != "" {
		pair, err := tls.X509KeyPair([]byte(c["cert"]), []byte(c["key"]))
		if err != nil {
			return nil, nil, fault.New(fault.Invalid, "the connection's cert and key are no pair; both are PEM")
		}
		t.TLSClientConfig.Certificates = []tls.Certificate{pair}
	}
	return at, t, nil
}
