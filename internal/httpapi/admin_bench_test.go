package httpapi_test

import (
	"fmt"
	"testing"

	"github.com/droverhq/drover/internal/access"
)

// What operators see of an instance is evaluated when they ask, so a page of
// a hundred has its price; it includes the entry in the audit.
func BenchmarkOperatorsList(b *testing.B) {
	f := newFleet(b)
	f.quota.give("acme", "standard", "standard", 1000)
	alice, root := f.user(b, "alice", "acme"), f.token(b, access.Claims{User: "root", Admin: true})
	for i := range 100 {
		f.kafka(b, alice, fmt.Sprintf("k%d", i))
	}
	for b.Loop() {
		f.do(b, root, "GET", adminKafkas, "").ok(200)
	}
}
