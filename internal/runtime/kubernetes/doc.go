// Package kubernetes is the runtime whose items are Kubernetes objects of the
// cluster that the agent lives in: applied server-side, pruned by inventory,
// put right when somebody changes them by hand, and looked at with the rules of
// kstatus.
//
// Everything about an item is in a Secret of the agent's own namespace before
// it matters, the inventory above all: an agent that was killed at any point
// goes on from there, without being told again. One of several replicas is at
// work, by a lease; what an older one still tries is refused.
//
// The package must not know the control plane, nor any offering: of a body it
// reads what docs/kubernetes.md lists, and nothing else.
package kubernetes
