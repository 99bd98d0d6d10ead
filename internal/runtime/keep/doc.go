// Package keep is what runtimes on a Kubernetes cluster share: a desk where
// items come in, are fenced, and are written into Secrets of the agent's own
// namespace before anything is done about them; a queue of what is to be
// compared; a lease, so that one of several replicas is at work and what an
// older one still tries is refused.
//
// It must not know what items are made into: each runtime brings its Worker.
package keep
