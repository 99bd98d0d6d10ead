//go:build !linux

package process

// listens cannot be found out here.
func listens(proof, int) bool { return true }
