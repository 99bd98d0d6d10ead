// Package queue decides who is next among those that wait in the memory of one
// process.
//
// It owns the order and nothing else: that a key waits once, is worked on once at a
// time and comes back later after a failure is for whoever has the workers. It must
// not know what the keys are of. Work that has to outlive the process is not for
// here: the ledger keeps it, and its claims are fair by themselves.
package queue
