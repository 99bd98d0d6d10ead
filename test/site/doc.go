// Package site tries two sites out, on the built binary with real PostgreSQL servers
// and a real Consul as the witness: reads at the second one, promotions, and bad days.
package site
