// Package bootstrap tests `drover bootstrap` on the built binary: with real servers on
// this machine, and on a real Kubernetes API.
package bootstrap
