package cli_test

import (
	"context"
	"crypto/x509"
	"errors"
	"fmt"
	"net"
	"net/http"
	"strings"
	"testing"

	"github.com/droverhq/drover/api/client"
	"github.com/droverhq/drover/internal/cli"
)

// Whoever reaches no server reads what that may come from, the likeliest first.
func TestLikelyCauses(t *testing.T) {
	gone := func(err error) error {
		return fmt.Errorf("cannot ask: %w", &client.Unreachable{Server: "host:1", Err: err})
	}
	for _, c := range []struct {
		reason string
		err    error
		status int
		want   string
		none   bool // there is no token
	}{
		{reason: "no token", err: errors.New("denied"), status: http.StatusUnauthorized, want: "nobody is logged in here", none: true},
		{"nothing listens", &client.Unreachable{Server: "host:1", Refused: true, Err: errors.New("connection refused")}, 0, "the server is down", false},
		{"a name that nobody knows", gone(&net.DNSError{Name: "host", IsNotFound: true}), 0, "the name does not resolve", false},
		{"a certificate of somebody unknown", gone(x509.UnknownAuthorityError{}), 0, "the certificate is not trusted here", false},
		{"a certificate for another name", gone(x509.HostnameError{Certificate: &x509.Certificate{}}), 0, "the certificate is not trusted here", false},
		{"no answer", gone(context.DeadlineExceeded), 0, "the machine, or the network to it, is down", false},
		{"an old token", errors.New("denied"), http.StatusUnauthorized, "the token has expired", false},
		{"a tenant's token", errors.New("denied"), http.StatusForbidden, "the token is no operator's", false},
		{"a server without its database", errors.New("away"), http.StatusServiceUnavailable, "its database is away", false},
	} {
		if got := cli.Likely(c.err, c.status, !c.none); len(got) == 0 || !strings.Contains(got[0], c.want) {
			t.Errorf("%s: the first cause is %q", c.reason, got)
		}
	}
}
