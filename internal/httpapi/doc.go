// Package httpapi is the server's HTTP face: every offering's public API under
// /api/<group>/<version>, the API for agents, Drover's own under /api/v1, and
// what operators need (/healthz, /readyz, /metrics).
//
// It routes, decodes and encodes; every decision is a service's. It must not
// know SQL, and it knows no offering by name: one wildcard handler serves them
// all out of the registry, so that an offering appears without a restart.
package httpapi
