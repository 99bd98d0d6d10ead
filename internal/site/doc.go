// Package site decides which of two sites acts: the roles that a site is started
// in, the states that it can be in, and the pure decision between them (Plan); and
// the lease that a witness outside both sites keeps (Lease); and what they signal each
// other (Signal).
//
// It must not know how a database is replicated or promoted, how the other site is
// asked, nor what a site does while it acts.
package site
