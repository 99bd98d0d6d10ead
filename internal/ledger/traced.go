package ledger

import "time"

// A trace goes with a cause: who reads traces finds what a request has set in motion
// in the runs that it woke. The ledger keeps its text, a W3C traceparent, and asks
// nothing of it but its form.

const (
	sizeOfTrace = 55
	// tracedWithin is how soon a run must come back to be part of what it was woken
	// for. What is looked at later, and for ever, is nobody's request any more.
	tracedWithin = 10 * time.Second
)

// TracedCause is how stores keep a cause and its trace in one text.
func TracedCause(c Cause, trace string) string {
	if trace == "" {
		return string(c)
	}
	return string(c) + " " + trace
}

// SplitCause reads what TracedCause has made.
func SplitCause(text string) (c Cause, trace string) {
	at := len(text) - sizeOfTrace
	if at < 1 || text[at-1] != ' ' || !traceable(text[at:]) {
		return Cause(text), ""
	}
	return Cause(text[:at-1]), text[at:]
}

// traceable tells whether a text has the form of a traceparent.
func traceable(text string) bool {
	if len(text) != sizeOfTrace {
		return false
	}
	for i := range sizeOfTrace {
		switch c := text[i]; {
		case i == 2 || i == 35 || i == 52:
			if c != '-' {
				return false
			}
		case (c < '0' || c > '9') && (c < 'a' || c > 'f'):
			return false
		}
	}
	return true
}
