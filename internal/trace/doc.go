// Package trace follows one request over everything that it sets in motion: what was
// done, where, for how long, in the form that OpenTelemetry has.
//
// It owns spans (their beginning, their end, what is said of them) and the text of a
// W3C traceparent, by which a trace goes from one process, message or ledger entry to
// the next. It must not know where spans are sent to, nor what they are about: whoever
// begins one names it. No token, body or secret is ever said of a span.
//
// A nil Tracer, which is the default of everybody who has one, follows nothing and
// costs a comparison.
package trace
