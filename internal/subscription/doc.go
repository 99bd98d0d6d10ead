// Package subscription tells others what has changed: a broker, or somebody's URL.
//
// It owns subscriptions (who is told of what, and up to where that is done) and
// carries them forward by reading the ledger's log, which is the outbox: nothing is
// written twice and hoped to agree. It must not know what an object looks like to
// whoever is told, nor how messages travel.
package subscription
