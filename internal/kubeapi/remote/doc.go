// Package remote speaks to clusters that tenants bring along: whether they can be
// used, and service accounts on them.
//
// Whoever brings a cluster is a stranger, and so is the server behind its address:
// what it sends is bounded, it sends nobody on, and none of its words are repeated.
// The package must not know what deployments do with a cluster.
package remote
