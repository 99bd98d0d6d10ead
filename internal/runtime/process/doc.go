// Package process is the runtime whose instances are child processes of this
// machine: each has a directory, a clean environment, a port, a log, a health
// probe, and a route by host name.
//
// Children outlive the agent. Everything about them is on disk before it
// matters, so that an agent that was killed at any point finds its processes
// again by pid, start time and nonce; a process that does not prove all three
// is never signalled.
//
// The package must not know the control plane, nor any offering: it reads
// spec.process, spec.endpoint.host, spec.versions and spec.suspended of the
// body, and nothing else.
package process
