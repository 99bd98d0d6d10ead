// Package agent keeps one data plane as the control plane wants it: it connects
// out, compares what it was told and what it observes with the control plane by
// two trees of fixed size, applies what differs through a runtime and reports
// what it sees. It does the same work at rest, after a restart and after a week
// apart.
//
// Only an explicit Delete removes anything. An empty bucket, a missing item, an
// answer that does not add up or is not signed, a server that is gone or that
// fell back to an older life: everything keeps running as it is. What was
// removed is not made again by whoever remembers less.
//
// What it was told it keeps, signed as it was, and goes on with after a restart
// that finds no control plane.
//
// The package must not know how instances are run, nor any offering.
package agent
