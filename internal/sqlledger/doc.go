// Package sqlledger keeps the ledger in SQLite, inside the binary, or in
// PostgreSQL, for any number of replicas.
//
// It owns the tables, the group commit, the translation of queries and the
// encryption at rest. What a set means is decided by package ledger alone:
// this package loads what the decision needs, and writes what it says. It must
// not know any kind of object by name; dialect.go is the only file that knows
// which database it is.
//
// One committer goroutine per Ledger takes all sets, claims, renewals and
// releases that are waiting and writes them in one transaction, so a disk
// flush is shared by whoever waits for one. Reads never go through it.
package sqlledger
