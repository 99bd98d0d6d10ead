// Package chart checks the Helm charts of deploy/helm with Helm and with a real
// Kubernetes API, and the image's layout with the built binary.
//
// It must not know the rooms inside: what a flag means it asks the binary.
package chart
