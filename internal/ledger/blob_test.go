package ledger_test

import (
	"encoding/json"
	"regexp"
	"slices"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"github.com/droverhq/drover/internal/ledger"
)

var hexRun = regexp.MustCompile(`[0-9a-f]{64,}`)

// TestNamed compares with a plain search, over texts of digits and little else.
func TestNamed(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		part := rapid.OneOf(rapid.StringMatching(`[0-9a-f]{60,68}`), rapid.StringMatching(`["x:, A-F]{0,3}`), rapid.StringMatching(`[0-9a-f]{1,3}`))
		var text [3]string
		var want []string
		for i := range text {
			for range rapid.IntRange(0, 6).Draw(t, "parts") {
				text[i] += part.Draw(t, "part")
			}
			for _, run := range hexRun.FindAllString(text[i], -1) {
				if len(run) == 64 {
					want = append(want, "sha256:"+run)
				}
			}
		}
		slices.Sort(want)
		o := ledger.Object{Spec: json.RawMessage(text[0]), Status: json.RawMessage(text[1]), View: json.RawMessage(text[2])}
		if d := cmp.Diff(slices.Compact(want), ledger.Named(&o)); d != "" {
			t.Fatalf("(-want +got):\n%s", d)
		}
		o.Deleted = time.Unix(1, 0)
		if got := ledger.Named(&o); len(got) > 0 {
			t.Fatalf("an object that is gone names %v", got)
		}
	})
}
