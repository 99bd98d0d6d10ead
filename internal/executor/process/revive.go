package process

import (
	"cmp"
	"context"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"time"

	"github.com/droverhq/drover/internal/executor"
	"github.com/droverhq/drover/internal/fault"
	"github.com/droverhq/drover/internal/program"
)

// Revive starts all programs of a directory again that do not run, as they were
// started last and in the order in which they were made, and waits for each until it
// works: after the machine was restarted there is nobody else who could. One that cannot
// be started keeps none from it. It decides nothing and writes nothing but what a start
// does; a keeper may work at the same time.
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
		wrong = errors.Join(wrong, p.revive(ctx, rec.Name, told))
	}
	return wrong
}

func (p directory) revive(ctx context.Context, name string, told func(name, what string)) error {
	var err error
	for try := 1; ; try++ {
		var begun bool
		if begun, err = p.restart(ctx, name, try, told); err == nil && !begun {
			return nil
		}
		if err == nil {
			err = p.attend(ctx, name)
		}
		// The one before may take a moment to be gone for the system, and to give back its
		// ports and files.
		if why := fault.Reason(err); ctx.Err() != nil || try == reviveTries || why != "ended" && why != "port" {
			break
		}
		select {
		case <-ctx.Done():
		case <-time.After(time.Duration(try) * time.Second):
		}
	}
	if err == nil {
		told(name, "runs")
	}
	return err
}

const reviveTries = 4

// restart starts a program as it was started last, unless somebody has done so
// meanwhile. One that works and was not written down is adopted.
func (p directory) restart(ctx context.Context, name string, try int, told func(name, what string)) (begun bool, err error) {
	unlock, err := p.lock(ctx, name)
	if err != nil {
		return false, err
	}
	defer unlock()
	rec, err := p.record(name)
	if err != nil || rec == nil {
		return false, err
	}
	alive, err := p.alive(rec)
	// What was prepared can be started, also where a change of it was cut short.
	if err != nil || alive || !rec.Prepared || rec.Launch.Program == "" {
		return false, err
	}
	if p.adopt(ctx, rec) {
		told(name, "runs, which nobody had written down")
		return false, p.keep(rec)
	}
	if try == 1 {
		told(name, "does not run, and is started")
	} else {
		told(name, "is started once more")
	}
	if err := p.stop(ctx, rec, rec.Launch.grace()); err != nil { // what it has left
		return false, err
	}
	return true, p.start(ctx, rec)
}

// adopt finds the process of the last start where that was not written down any more,
// and takes it if it works.
func (p directory) adopt(ctx context.Context, rec *record) bool {
	left, err := program.Carriers(rec.nonce(), p.logPath(rec.Name))
	if err != nil {
		return false
	}
	found := oldest(left)
	if found == nil || found.Run != "" && found.Run != strconv.FormatInt(rec.Run, 10) {
		return false
	}
	as := *rec
	as.PID, as.Birth = found.PID, found.Birth
	if alive, err := p.alive(&as); err != nil || !alive || rec.Launch.Health.ask(ctx, p, &as) != "" {
		return false
	}
	rec.PID, rec.Birth, rec.Ready = found.PID, found.Birth, true
	return true
}

// attend waits until a program works, whoever has started it last.
func (p directory) attend(ctx context.Context, name string) error {
	var end time.Time
	for {
		rec, err := p.record(name)
		if err != nil || rec == nil || rec.Ready {
			return err
		}
		if end.IsZero() {
			end = time.Now().Add(duration(rec.Launch.Health.Within, 2*time.Minute))
		}
		why := rec.Launch.Health.ask(ctx, p, rec)
		alive, err := p.alive(rec)
		switch {
		case err != nil:
			return err
		case !alive:
			return fault.New(fault.Unavailable, "program %s has ended soon after its start; its output is in %s", name, p.logPath(name)).Because("ended")
		case why == "":
			return p.works(ctx, rec)
		case time.Now().After(end):
			return fault.New(fault.Unavailable, "program %s runs, and does not work: %s", name, why)
		}
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-time.After(100 * time.Millisecond):
		}
	}
}

// works writes down that a start was good, unless there was another one since.
func (p directory) works(ctx context.Context, seen *record) error {
	unlock, err := p.lock(ctx, seen.Name)
	if err != nil {
		return err
	}
	defer unlock()
	rec, err := p.record(seen.Name)
	if err != nil || rec == nil || rec.Run != seen.Run || rec.PID != seen.PID {
		return err
	}
	rec.Ready = true
	return p.keep(rec)
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
	// A keeper that lives makes anew what was ended before it: it is one of them, so
	// what is there once it is gone stays away.
	for range endRounds {
		all, err := p.all()
		if err != nil || len(all) == 0 {
			return err
		}
		for _, rec := range slices.Backward(all) {
			gone, err := p.end(ctx, rec.Name, "", rec.Launch.grace())
			if err != nil {
				return err
			}
			if gone {
				told(rec.Name, "ended and removed")
			}
		}
	}
	return fault.New(fault.Conflict, "programs are made anew as fast as they are ended: end the Drover that keeps them, then run this again").Because("kept")
}

const endRounds = 10
