package ledger_test

import (
	"strings"
	"testing"

	"pgregory.net/rapid"

	"github.com/droverhq/drover/internal/ledger"
)

// Whatever a cause says, it comes back as it was, with its trace or without one.
func TestACauseKeepsItsTrace(t *testing.T) {
	const trace = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01"
	for _, c := range []struct{ reason, text, cause, trace string }{
		{"a cause alone", "request:r1", "request:r1", ""},
		{"with its trace", "request:r1 " + trace, "request:r1", trace},
		{"a cause of several words", "schedule:its agent fell silent " + trace, "schedule:its agent fell silent", trace},
		{"no space before it", "request:" + trace, "request:" + trace, ""},
		{"upper case is none", "request:r1 " + strings.ToUpper(trace), "request:r1 " + strings.ToUpper(trace), ""},
		{"a dash where a digit is", "request:r1 " + strings.Replace(trace, "4b", "4-", 1), "request:r1 " + strings.Replace(trace, "4b", "4-", 1), ""},
		{"a digit where a dash is", "request:r1 " + strings.Replace(trace, "-00f", "000f", 1), "request:r1 " + strings.Replace(trace, "-00f", "000f", 1), ""},
		{"nothing", "", "", ""},
	} {
		if cause, got := ledger.SplitCause(c.text); string(cause) != c.cause || got != c.trace {
			t.Errorf("%s: %q and %q", c.reason, cause, got)
		}
	}
	rapid.Check(t, func(t *rapid.T) {
		cause := ledger.Cause(rapid.StringMatching(`(request|change|report|schedule):[ -~]{0,80}`).Draw(t, "cause"))
		want := rapid.OneOf(rapid.Just(""), rapid.StringMatching(`00-[0-9a-f]{32}-[0-9a-f]{16}-0[01]`)).Draw(t, "trace")
		if got, with := ledger.SplitCause(ledger.TracedCause(cause, want)); got != cause || with != want {
			t.Errorf("%q and %q come back as %q and %q", cause, want, got, with)
		}
	})
}
