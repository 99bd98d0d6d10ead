package manifest

import (
	"testing"

	"github.com/droverhq/drover/internal/fault"
)

// Letting go does not wait for what a cluster may never allow, and is tried again where
// it merely fails: a label that stays would keep the object from whoever comes next.
func TestWhatIsLetGoOfLater(t *testing.T) {
	for _, c := range []struct {
		err    error
		closed bool
	}{
		{fault.New(fault.Denied, "no right").Because("forbidden"), true},
		{fault.New(fault.Invalid, "a rule refuses it").Because("admission-denied"), true},
		{fault.New(fault.Unavailable, "no webhook").Because("webhook-away"), true},
		{fault.New(fault.Unavailable, "it goes anyway").Because("namespace-terminating"), true},
		{fault.New(fault.Unavailable, "nobody there").Because("unreachable"), false},
		{fault.New(fault.Unavailable, "another agent's").Because("fenced"), false},
		{fault.New(fault.Unavailable, "too much to do").Because("too-many-requests"), false},
		{fault.New(fault.Unavailable, "500").Because("server-error"), false},
		{fault.New(fault.Conflict, "again and again").Because("changed-meanwhile"), false},
	} {
		if got := closed(c.err); got != c.closed {
			t.Errorf("%v: let go of without it: %v", c.err, got)
		}
	}
}
