package ledger_test

import (
	"fmt"
	"testing"
	"time"

	"github.com/droverhq/drover/internal/fault"
	"github.com/droverhq/drover/internal/ledger"
)

// A set of the loop's ends few objects, whatever made it; a request may end many.
func TestTheLoopEndsFewAtOnce(t *testing.T) {
	for _, tc := range []struct {
		reason, actor string
		n             int
		deleted       bool
		refused       bool
	}{
		{"as many as may go", "system", ledger.MaxGone, true, false},
		{"one more", "system", ledger.MaxGone + 1, true, true},
		{"what stays is not counted", "system", ledger.MaxGone + 1, false, false},
		{"somebody has asked for it", "alice", ledger.MaxGone + 1, true, false},
	} {
		m := newMemory(t)
		set := ledger.Set{Actor: tc.actor, Cause: ledger.ByRequest("r1")}
		for i := range tc.n {
			o := ledger.Object{Ref: ledger.Ref{Kind: "beast", ID: fmt.Sprint(i)}}
			if tc.deleted {
				o.Deleted = time.Unix(1, 0)
			}
			set.Puts = append(set.Puts, ledger.Put{Object: o, Op: "delete"})
		}
		if err := m.decide(set)[0].Err; (err != nil) != tc.refused || err != nil && fault.Reason(err) != "breaker" {
			t.Errorf("%s: %v", tc.reason, err)
		}
	}
}
