//go:build unix && !linux

package process

// stopped supposes that the signal works at once.
func stopped(int) (bool, error) { return true, nil }
