// Package agent keeps one data plane as the control plane wants it: it connects
// out, is told the full desired state whenever it changes, applies it through a
// runtime and reports what it observes.
//
// Only an explicit Delete removes anything. An empty list, a missing item, a
// message that does not add up, a server that is gone or that fell back to an
// older life: everything keeps running as it is.
//
// The package must not know how instances are run, nor any offering.
package agent
