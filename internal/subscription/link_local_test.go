package subscription_test

import (
	"testing"

	"github.com/droverhq/drover/internal/fault"
	"github.com/droverhq/drover/internal/subscription"
)

// An address that is never called is refused when it is written down.
func TestAddressesThatAreNeverCalled(t *testing.T) {
	for _, c := range []struct {
		reason, url string
		refused     bool
	}{
		{"a cloud's metadata service", "http://169.254.169.254/x", true},
		{"with a port", "http://169.254.169.254:8080/x", true},
		{"a neighbour on the link", "http://[fe80::1]/x", true},
		{"loopback is where laptops try things", "http://127.0.0.1:9000/x", false},
		{"a name: only what it resolves to tells", "https://hooks.example.org/x", false},
	} {
		s := subscription.Spec{To: subscription.ToWebhook, URL: c.url}
		if err := s.Validate(nil); fault.Is(err, fault.Invalid) != c.refused {
			t.Errorf("%s: %v", c.reason, err)
		}
	}
}
