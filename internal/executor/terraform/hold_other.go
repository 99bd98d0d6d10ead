//go:build !unix

package terraform

import "os"

// Nothing is locked here: who is gone cannot be told.
func hold(path string) (*os.File, error) { return os.Create(path) }

// held reports what can be known here: a directory that is still there may be in
// use.
func held(path string) bool {
	_, err := os.Stat(path)
	return err == nil
}
