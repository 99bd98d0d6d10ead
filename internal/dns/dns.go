// Package dns is the port to the name servers that carry the hosts of
// instances: one CNAME per route, and beside it the mark of who owns it.
//
// It owns the contract, ownership, batching and verification. It must not know
// instances, nor any provider.
package dns

import "context"

// Record is a host that points elsewhere.
type Record struct {
	Host   string // fully qualified, without the final dot
	Target string // what it is a CNAME for, without the final dot
	Owner  string // who may change it: "instance/<id>"
}

// Records keeps records. Faults: Conflict, reason "not-ours", where a host has
// a record that somebody else made (it is neither overwritten nor removed);
// Unavailable where the server cannot be asked or has not taken it over yet;
// Invalid, reason "zone", where no zone of ours holds the host. A nil Records is
// legal for callers to be given: it means that hosts are nobody's concern here.
type Records interface {
	// Ensure makes the records be there, as verified by asking the server.
	// What is right already is left alone. Calls at about the same time are
	// sent together.
	Ensure(ctx context.Context, records []Record) error
	// Remove removes those of these hosts that the owner has; others are left.
	Remove(ctx context.Context, owner string, hosts []string) error
}
