package process

import (
	"context"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"time"

	"github.com/droverhq/drover/internal/fault"
)

// lock lets one at a time act on a program: its keeper, whoever revives it, whoever ends
// it. What was read of it before says nothing: it is read anew. The lock ends with the
// process that holds it.
func (p directory) lock(ctx context.Context, names ...string) (unlock func(), err error) {
	slices.Sort(names) // in one order, so that no two wait for each other
	names = slices.Compact(names)
	var held []*os.File
	unlock = func() {
		for i, f := range held {
			if rec, err := p.record(names[i]); err == nil && rec == nil {
				_ = os.Remove(p.lockPath(names[i])) // whoever waits for it sees that
			}
			_ = f.Close()
		}
	}
	for _, name := range names {
		f, err := p.lockOne(ctx, name)
		if err != nil {
			unlock()
			return nil, err
		}
		held = append(held, f)
	}
	return unlock, nil
}

// lockPath is beside the record, which comes and goes.
func (p directory) lockPath(name string) string {
	return filepath.Join(p.at, records, ".lock-"+name)
}

func (p directory) lockOne(ctx context.Context, name string) (*os.File, error) {
	fail := func(err error) error {
		return fault.New(fault.Unavailable, "the directory of programs cannot be used: %w", bare(err))
	}
	for wait := time.Millisecond; ; wait = min(2*wait, 50*time.Millisecond) {
		if err := os.Mkdir(filepath.Join(p.at, records), 0o700); err != nil && !errors.Is(err, fs.ErrExist) {
			return nil, fail(err)
		}
		f, err := os.OpenFile(p.lockPath(name), os.O_CREATE|os.O_RDWR, 0o600)
		if err != nil {
			return nil, fail(err)
		}
		held, err := flock(f)
		if err == nil && held {
			mine, merr := f.Stat()
			if there, err := os.Stat(p.lockPath(name)); merr == nil && err == nil && os.SameFile(mine, there) {
				return f, nil
			}
			// Whoever had it has removed it with the program: this one is nobody's.
		}
		_ = f.Close()
		if err != nil {
			return nil, fail(err)
		}
		select {
		case <-ctx.Done():
			return nil, ctx.Err()
		case <-time.After(wait):
		}
	}
}
