// Package environment deploys templates: it plans over every executor at once,
// lays resources out in the ledger, walks their graph, and keeps comparing what
// is expected with what is there until the environment's end.
//
// It must not know any executor, how templates are written, or HTTP.
package environment
