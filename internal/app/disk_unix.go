//go:build linux || darwin

package app

import (
	"syscall"

	"github.com/droverhq/drover/internal/doctor"
)

// diskOf tells how much room there is; nil: nobody knows.
func diskOf(path string) *doctor.Disk {
	var s syscall.Statfs_t
	if err := syscall.Statfs(path, &s); err != nil {
		return nil
	}
	return &doctor.Disk{Path: path, Free: s.Bavail * uint64(s.Bsize), Total: s.Blocks * uint64(s.Bsize)}
}
