package httpapi_test

import (
	"net/http/httptest"
	"testing"

	"github.com/droverhq/drover/internal/access"
)

// Which cluster an account of the identity provider is of is known only when it
// speaks: a certificate for another cluster is refused there.
func TestAnAccountWithACertificate(t *testing.T) {
	o := newOffice(t)
	o.dataPlane(t, "c1", "account")
	for _, tc := range []struct {
		reason string
		peer   access.Peer
		good   bool
	}{
		{"it has shown nothing, and need not", access.Peer{}, true},
		{"one that names nobody", access.Peer{Certified: true}, true},
		{"its own", access.Peer{Certified: true, Cluster: "c1"}, true},
		{"another's", access.Peer{Certified: true, Cluster: "c2"}, false},
	} {
		req := httptest.NewRequest("GET", agentAPI+"c1/kafkas", nil)
		req.Header.Set("Authorization", "Bearer account")
		if got := o.send(t, req.WithContext(access.WithPeer(req.Context(), tc.peer))); (got.Code == 200) != tc.good {
			t.Errorf("%s: %d %s", tc.reason, got.Code, got.Body)
		}
	}
}
