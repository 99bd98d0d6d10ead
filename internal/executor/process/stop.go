package process

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"github.com/droverhq/drover/internal/fault"
	"github.com/droverhq/drover/internal/program"
)

// stop ends the process and everything that it has left, politely first.
func (p directory) stop(ctx context.Context, rec *record, grace time.Duration) error {
	left, err := program.Carriers(rec.nonce(), p.logPath(rec.Name))
	if err != nil {
		return fault.New(fault.Unavailable, "the processes of this machine cannot be listed: %w", err)
	}
	first := p.proof(rec)
	if rec.PID == 0 || first.Verdict() == program.Gone { // it was started, and that was not written down any more
		if f := oldest(left); f != nil {
			first.PID, first.Birth = f.PID, f.Birth
		}
	}
	if first.PID > 0 && first.Verdict() == program.Match {
		if err := program.SignalGroup(first, rec.Launch.Stop); err != nil {
			return fault.New(fault.Denied, "program %s cannot be ended: %w", rec.Name, err)
		}
		if err := p.gone(ctx, first, grace); err != nil {
			return err
		}
		_ = program.KillGroup(first)
	}
	for wait := time.Millisecond; ; wait = min(2*wait, 100*time.Millisecond) {
		left, err := program.Carriers(rec.nonce(), p.logPath(rec.Name))
		if err != nil {
			return fault.New(fault.Unavailable, "the processes of this machine cannot be listed: %w", err)
		}
		if len(left) == 0 {
			if rec.Directory == p.at {
				return nil
			}
			rec.Directory = p.at // what is started from now on says so
			return p.keep(rec)
		}
		for _, f := range left {
			err = errors.Join(err, program.KillOne(program.Proof{PID: f.PID, Birth: f.Birth, Nonce: rec.nonce(), Log: p.logPath(rec.Name)}))
		}
		if err != nil {
			return fault.New(fault.Denied, "what program %s has left cannot be ended: %w", rec.Name, err)
		}
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-time.After(wait):
		}
	}
}

// gone waits until a process has ended, or for the grace.
func (p directory) gone(ctx context.Context, proof program.Proof, grace time.Duration) error {
	end := time.After(grace)
	for wait := time.Millisecond; proof.Verdict() == program.Match; wait = min(2*wait, 100*time.Millisecond) {
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-end:
			return nil
		case <-time.After(wait):
		}
	}
	return nil
}

// oldest is the one that was started first: the others are its children.
func oldest(all []program.Found) (first *program.Found) {
	ticks := func(f program.Found) int64 {
		_, text, _ := strings.Cut(f.Birth, "/")
		n, _ := strconv.ParseInt(text, 10, 64)
		return n
	}
	for i := range all {
		if all[i].Leader && (first == nil || ticks(all[i]) < ticks(*first) || ticks(all[i]) == ticks(*first) && all[i].PID < first.PID) {
			first = &all[i]
		}
	}
	return first
}

// end is remove of what the record says now; gone: there was something. An empty id
// is anybody's.
func (p directory) end(ctx context.Context, name, id string, grace time.Duration) (gone bool, err error) {
	unlock, err := p.lock(ctx, name)
	if err != nil {
		return false, err
	}
	defer unlock()
	rec, err := p.record(name)
	if err != nil {
		return false, err
	}
	if rec != nil && (id == "" || rec.ID == id) {
		err, gone = p.remove(ctx, rec, grace), true
	}
	return gone, err
}

// remove ends a program and takes its directory away.
func (p directory) remove(ctx context.Context, rec *record, grace time.Duration) error {
	if err := p.stop(ctx, rec, grace); err != nil {
		return err
	}
	if err := p.discard(rec.Name); err != nil {
		return fault.New(fault.Unavailable, "the directory of program %s cannot be removed: %w", rec.Name, bare(err))
	}
	// The record goes last: until then the directory is ours.
	if err := os.RemoveAll(p.known(rec.Name)); err != nil {
		return fault.New(fault.Unavailable, "what is known of program %s cannot be removed: %w", rec.Name, bare(err))
	}
	return nil
}

// discard removes a home, if it is one: its mark goes last.
func (p directory) discard(name string) error {
	if is, _ := p.look(name); is != ours {
		return nil
	}
	entries, err := os.ReadDir(p.home(name))
	for _, e := range entries {
		if e.Name() != own {
			err = errors.Join(err, os.RemoveAll(filepath.Join(p.home(name), e.Name())))
		}
	}
	if err != nil {
		return err
	}
	return os.RemoveAll(p.home(name))
}
