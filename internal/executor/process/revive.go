package process

import (
	"cmp"
	"context"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"time"

	"github.com/droverhq/drover/internal/executor"
	"github.com/droverhq/drover/internal/fault"
)

// Revive starts all programs of a directory again that do not run, as they were
// started last and in the order in which they were made, and waits for each until it
// works: after the machine was restarted there is nobody else who could. One that cannot
// be started keeps none from it. It decides nothing and writes nothing but what a start does.
func Revive(ctx context.Context, c executor.Connection, told func(name, what string)) error {
	p, err := place(ctx, c)
	if err != nil {
		return err
	}
	all, wrong := p.all()
	for _, rec := range all {
		if err := ctx.Err(); err != nil {
			return errors.Join(wrong, err)
		}
		wrong = errors.Join(wrong, p.revive(ctx, rec, told))
	}
	return wrong
}

func (p directory) revive(ctx context.Context, rec *record, told func(name, what string)) error {
	alive, err := p.alive(rec)
	// What was prepared can be started, also where a change of it was cut short.
	if err != nil || alive || !rec.Prepared || rec.Launch.Program == "" {
		return err
	}
	told(rec.Name, "does not run, and is started")
	for try := 1; ; try++ {
		if err := p.stop(ctx, rec, time.Second); err != nil { // what it has left
			return err
		}
		if err = p.start(ctx, rec); err == nil {
			err = p.attend(ctx, rec)
		}
		// The one before may take a moment to be gone for the system, and to give back its
		// ports and files.
		if why := fault.Reason(err); ctx.Err() != nil || try == reviveTries || why != "ended" && why != "port" {
			break
		}
		told(rec.Name, "is started once more")
		select {
		case <-ctx.Done():
		case <-time.After(time.Duration(try) * time.Second):
		}
	}
	if err == nil {
		told(rec.Name, "runs")
	}
	return err
}

const reviveTries = 4

// attend waits until a program works.
func (p directory) attend(ctx context.Context, rec *record) error {
	end := time.Now().Add(duration(rec.Launch.Health.Within, 2*time.Minute))
	for {
		why := rec.Launch.Health.ask(ctx, p, rec)
		alive, err := p.alive(rec)
		switch {
		case err != nil:
			return err
		case !alive:
			return fault.New(fault.Unavailable, "program %s has ended soon after its start; its output is in %s", rec.Name, p.logPath(rec.Name)).Because("ended")
		case why == "":
			rec.Ready = true
			return p.keep(rec)
		case time.Now().After(end):
			return fault.New(fault.Unavailable, "program %s runs, and does not work: %s", rec.Name, why)
		}
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-time.After(100 * time.Millisecond):
		}
	}
}

// all records of the directory that can be read, in the order in which they were made.
func (p directory) all() ([]*record, error) {
	entries, err := os.ReadDir(filepath.Join(p.at, records))
	if errors.Is(err, fs.ErrNotExist) { // no program was ever made
		return nil, nil
	}
	if err != nil {
		return nil, fault.New(fault.Unavailable, "the directory of programs cannot be used")
	}
	var out []*record
	var wrong error
	for _, e := range entries {
		if !e.IsDir() || !validName.MatchString(e.Name()) {
			continue
		}
		rec, err := p.record(e.Name())
		wrong = errors.Join(wrong, err)
		if rec != nil {
			out = append(out, rec)
		}
	}
	slices.SortFunc(out, func(x, y *record) int { return cmp.Compare(x.Number, y.Number) })
	return out, wrong
}

// Running tells of all programs of a directory whether they run.
func Running(ctx context.Context, c executor.Connection) (map[string]bool, error) {
	p, err := place(ctx, c)
	if err != nil {
		return nil, err
	}
	all, err := p.all()
	out := map[string]bool{}
	for _, rec := range all {
		out[rec.Name], _ = p.alive(rec)
	}
	return out, err
}

// End ends all programs of a directory, the last that was made first, and removes
// their directories.
func End(ctx context.Context, c executor.Connection, told func(name, what string)) error {
	p, err := place(ctx, c)
	if err != nil {
		return err
	}
	all, err := p.all()
	if err != nil {
		return err
	}
	for _, rec := range slices.Backward(all) {
		if err := p.remove(ctx, rec, 30*time.Second); err != nil {
			return err
		}
		told(rec.Name, "ended and removed")
	}
	return nil
}
