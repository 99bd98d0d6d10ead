package dns

import (
	"context"
	"slices"
	"strings"
)

// TTL in seconds of every record that is made here.
const TTL = 300

// RR is a CNAME or TXT record. Names, and the data of a CNAME, are absolute, in
// lower case and without the final dot; the data of a TXT is the bare text.
type RR struct {
	Name string
	Type string // "CNAME" or "TXT"; a provider may show others, they are left alone
	Data string
	TTL  uint32 // seconds
}

// Edit turns what a host and its mark were seen to have into what they are to
// have. What is in both lists stays.
type Edit struct {
	Had, Want []RR
}

// Provider reads and edits zones on one kind of server. Any provider of libdns
// becomes one by Libdns. Faults: Unavailable where the server cannot be asked or
// does not answer for the zone; Conflict where records are not as Had says, or a
// name that is to be added has records of whatever type.
type Provider interface {
	// Lookup returns the records that the names have. A name without records
	// is absent from the answer, but only if the server said so: what cannot
	// be known is an error.
	Lookup(ctx context.Context, zone string, names []string) ([]RR, error)
	// Edit makes all of the edits or, where the server can, none.
	Edit(ctx context.Context, zone string, edits []Edit) error
}

// Gone are the records that an edit takes away.
func (e Edit) Gone() []RR { return minus(e.Had, e.Want) }

// Added are the records that an edit brings.
func (e Edit) Added() []RR { return minus(e.Want, e.Had) }

func minus(from, what []RR) []RR {
	var out []RR
	for _, r := range from {
		if !slices.Contains(what, r) {
			out = append(out, r)
		}
	}
	return out
}

// Canonical is the form of names here: lower case, without the final dot.
func Canonical(name string) string { return strings.ToLower(strings.TrimSuffix(name, ".")) }
