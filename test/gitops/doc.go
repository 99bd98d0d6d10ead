// Package gitops tries deployments on the built binary: custom resources and the
// command line at one end, a real Argo CD and clusters at the other, Git servers on
// loopback between them.
package gitops
