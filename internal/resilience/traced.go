package resilience

import (
	"github.com/droverhq/drover/internal/fault"
	"github.com/droverhq/drover/internal/trace"
)

// told ends the span of a call that was followed. One that the other side said no to
// has not failed: it was answered.
func told(span *trace.Span, tries int, err error) {
	what, why := outcome(err), ""
	switch fault.Reason(err) {
	case "breaker-open":
		what, tries = "open", tries-1 // the last was none
	case "bulkhead-full":
		what = "full"
	}
	if what != "ok" && what != "refused" && what != "canceled" {
		why = fault.Of(err).String()
	}
	span.Set(trace.Text("drover.outcome", what), trace.Number("drover.tries", int64(tries)))
	span.End(why)
}
