package trace

import (
	"context"
	"encoding/hex"

	otel "go.opentelemetry.io/otel/trace"
)

// Header is the name by which a traceparent travels: as a header of HTTP and of
// messages, and as an attribute of CloudEvents.
const Header = "traceparent"

// size of a traceparent: version, trace, span and flags, in hexadecimal digits.
const size = 2 + 1 + 32 + 1 + 16 + 1 + 2

// Parent is the traceparent by which whatever ctx sets in motion continues its trace;
// empty if it is in none, or in one that is not kept: then nobody need carry it.
func Parent(ctx context.Context) string {
	of := otel.SpanContextFromContext(ctx)
	if !of.IsSampled() {
		return ""
	}
	trace, span := of.TraceID(), of.SpanID()
	text := make([]byte, 0, size)
	text = append(text, "00-"...)
	text = hex.AppendEncode(text, trace[:])
	text = append(text, '-')
	text = hex.AppendEncode(text, span[:])
	return string(append(text, "-01"...))
}

// ID of the trace that ctx is in, empty as Parent is.
func ID(ctx context.Context) string {
	of := otel.SpanContextFromContext(ctx)
	if !of.IsSampled() {
		return ""
	}
	return of.TraceID().String()
}

// Good returns a traceparent that came from elsewhere, empty if it is none: what is
// kept and sent on has been read.
func Good(text string) string {
	if _, ok := parse(text); !ok {
		return ""
	}
	return text[:size]
}

// parse reads a traceparent. Of a version from the future, the part that every version
// begins with is read, as the specification asks.
func parse(text string) (otel.SpanContext, bool) {
	var none otel.SpanContext
	if len(text) < size || text[2] != '-' || text[35] != '-' || text[52] != '-' {
		return none, false
	}
	for i := range size {
		if c := text[i]; (c < '0' || c > '9') && (c < 'a' || c > 'f') && i != 2 && i != 35 && i != 52 {
			return none, false
		}
	}
	version := text[:2]
	if version == "ff" || version == "00" && len(text) != size || len(text) > size && (text[size] != '-' || len(text) > 2*size) {
		return none, false
	}
	var c otel.SpanContextConfig
	// The digits were looked at: neither fails but for what is all zero.
	c.TraceID, _ = otel.TraceIDFromHex(text[3:35])
	c.SpanID, _ = otel.SpanIDFromHex(text[36:52])
	var flags [1]byte
	_, _ = hex.Decode(flags[:], []byte(text[53:55]))
	c.TraceFlags, c.Remote = otel.TraceFlags(flags[0])&otel.FlagsSampled, true
	of := otel.NewSpanContext(c)
	return of, of.IsValid()
}
