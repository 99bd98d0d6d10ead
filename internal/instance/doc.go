// Package instance owns one tenant's copy of an offering, from the order to the
// soft deletion: its phases, the verbs on it, the decision what to do next, and
// the reconciler that does it.
//
// It must not know any offering by name, nor HTTP, nor what a data plane is made of.
package instance
