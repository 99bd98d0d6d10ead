//go:build !linux

package program

// Listens cannot be found out here.
func Listens(Proof, int) bool { return true }
