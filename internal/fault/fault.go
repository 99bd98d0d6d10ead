// Package fault gives every error of the product one of seven kinds.
//
// The kind decides what a caller may do about the error (mend the input, try
// later, give up) and, in one place per rim room, which HTTP status or exit
// code it becomes. An error without a kind is Internal, and users are only
// told "internal error". The package knows neither HTTP nor SQL.
package fault

import (
	"errors"
	"fmt"
)

// Kind says what a caller may do about an error.
type Kind int

const (
	Internal    Kind = iota // a defect or an unforeseen failure; the default
	Invalid                 // the input is wrong; sending it again will not help
	NotFound                // no such thing, or not visible to this caller
	Conflict                // it clashes with what is there: a taken name, a newer version
	Denied                  // this caller may not
	Exhausted               // a limit is reached: quota, capacity, rate
	Unavailable             // something we depend on is away; try again later
)

var names = [...]string{"internal", "invalid", "not found", "conflict", "denied", "exhausted", "unavailable"}

func (k Kind) String() string {
	if k < 0 || int(k) >= len(names) {
		return "internal"
	}
	return names[k]
}

// Error is an error with a kind, and with a reason that may narrow it down for
// programs ("name-taken", "lease-lost"). The text is written for users.
type Error struct {
	Kind   Kind
	Reason string // optional, stable, lower-case-with-dashes
	err    error  // the text, and the causes that it wraps
}

func (e *Error) Error() string { return e.err.Error() }

func (e *Error) Unwrap() error { return e.err }

// New makes an error of a kind. %w verbs keep causes for errors.Is.
func New(kind Kind, format string, args ...any) *Error {
	return &Error{Kind: kind, err: fmt.Errorf(format, args...)}
}

// Because adds the machine-readable reason and returns the error.
func (e *Error) Because(reason string) *Error { e.Reason = reason; return e }

// Of returns the kind of the outermost Error in err's chain, Internal if there is none.
func Of(err error) Kind {
	var e *Error
	if errors.As(err, &e) {
		return e.Kind
	}
	return Internal
}

// Reason returns the reason of the outermost Error in err's chain.
func Reason(err error) string {
	var e *Error
	if errors.As(err, &e) {
		return e.Reason
	}
	return ""
}

// Is reports whether err is of the kind; a nil error is of none.
func Is(err error, kind Kind) bool { return err != nil && Of(err) == kind }
