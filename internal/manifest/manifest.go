// Package manifest applies sets of Kubernetes objects to a cluster: server-side
// apply with field ownership, in the order that the kinds need, pruned by
// inventory, and tells what has become of them.
//
// It wraps fluxcd's ssa and kstatus; it must not know what the objects are for.
package manifest
