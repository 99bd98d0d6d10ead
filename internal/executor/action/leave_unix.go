//go:build unix

package action

import (
	"os"
	"syscall"
)

// lock locks a file for as long as it, or any copy of it that a program was given, is
// open; false: somebody else has.
func lock(f *os.File) bool {
	return syscall.Flock(int(f.Fd()), syscall.LOCK_EX|syscall.LOCK_NB) == nil
}

// owned opens a file of this user's, and no link to one.
func owned(path string) (*os.File, error) {
	f, err := os.OpenFile(path, os.O_RDWR|syscall.O_NOFOLLOW, 0)
	if err != nil {
		return nil, err
	}
	if info, err := f.Stat(); err != nil || !info.Mode().IsRegular() || !mine(info) {
		f.Close()
		return nil, os.ErrPermission
	}
	return f, nil
}

// mine reports whether something belongs to the server's user.
func mine(info os.FileInfo) bool {
	s, ok := info.Sys().(*syscall.Stat_t)
	return ok && int(s.Uid) == os.Getuid()
}
