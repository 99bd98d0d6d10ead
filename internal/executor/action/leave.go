package action

import (
	"cmp"
	"os"
	"path/filepath"
	"strings"

	"github.com/droverhq/drover/internal/fault"
)

const (
	runPrefix = "drover-run-"
	lockEnd   = ".lock"
)

// room is the directory of one run. Beside it lies a file that the run and everything
// that it starts hold open, so that it is known whether anybody is left who uses it.
type room struct {
	dir  string
	hold *os.File
}

// enter makes a directory for a run.
func (r *Runner) enter() (room, error) {
	full := func(err error) (room, error) {
		return room{}, fault.New(fault.Unavailable, "there is no room for a command to run in: %w", err)
	}
	for {
		f, err := os.CreateTemp(r.cfg.Work, runPrefix+"*"+lockEnd)
		if err != nil {
			return full(err)
		}
		at := room{strings.TrimSuffix(f.Name(), lockEnd), f}
		// A server that was started at this moment may have taken it for left behind.
		if is, err := os.Stat(f.Name()); !lock(f) || err != nil || !same(f, is) {
			f.Close()
			continue
		}
		if err := os.Mkdir(at.dir, 0o700); err != nil {
			at.leave()
			return full(err)
		}
		return at, nil
	}
}

func same(f *os.File, is os.FileInfo) bool {
	info, err := f.Stat()
	return err == nil && os.SameFile(info, is)
}

// leave takes the directory away, and everything in it.
func (m room) leave() {
	_ = os.RemoveAll(m.dir) // what stays is swept up when the server is started again
	_ = os.Remove(m.hold.Name())
	m.hold.Close()
}

// sweep takes away what runs of servers have left that were killed: directories of
// this user's that nobody uses any more.
func (r *Runner) sweep() {
	left, _ := filepath.Glob(filepath.Join(cmp.Or(r.cfg.Work, os.TempDir()), runPrefix+"*"+lockEnd))
	for _, path := range left {
		f, err := owned(path)
		if err != nil {
			continue
		}
		at := room{strings.TrimSuffix(path, lockEnd), f}
		switch info, err := os.Lstat(at.dir); {
		case !lock(f):
			f.Close() // somebody works there
		case err == nil && (!info.IsDir() || !mine(info)):
			f.Close()
		default:
			at.leave()
		}
	}
}
