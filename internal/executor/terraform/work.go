package terraform

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/droverhq/drover/internal/executor"
	"github.com/droverhq/drover/internal/fault"
)

// askAgain is when to look whether an earlier run has ended.
const askAgain = 2 * time.Second

// Apply implements executor.Executor. A caller that ends interrupts OpenTofu, which
// then writes down how far it came.
func (x *Executor) Apply(ctx context.Context, r executor.Resource) (executor.Result, error) {
	m, err := x.module(ctx, r, false)
	if err == nil {
		err = r.Settled()
	}
	if err != nil {
		return executor.Result{}, err
	}
	head, waits, err := x.alone(ctx, r)
	if waits != nil || err != nil {
		return or(waits), err
	}
	fmt.Fprintf(r.Log, "OpenTofu is asked what is to be done about %s\n", r.Address)
	n, err := x.begin(ctx, r, m, true)
	if err != nil {
		return executor.Result{}, err
	}
	defer n.end()
	p, differs, err := n.plan(ctx, normal)
	if err != nil {
		return executor.Result{}, err
	}
	// What a killed run has begun is its own doing.
	begun := noteOf(r).Mark
	if r.Mark != "" && r.Mark != begun && !unmoved(r.Mark, mark(head, p)) {
		return executor.Result{}, executor.Moved("what the module " + r.Address + " has made")
	}
	if err := m.remember(ctx, r, r.Mark); err != nil {
		return executor.Result{}, err
	}
	if differs || len(drift(p)) > 0 {
		if waits, err := n.carry(ctx); waits != nil || err != nil {
			return or(waits), err
		}
	}
	_, state, err := x.States.Read(ctx, r.ID)
	if err != nil {
		return executor.Result{}, err
	}
	h := contents(state)
	if h.size > maxOutputs {
		return executor.Result{}, fault.New(fault.Invalid, "the module's outputs have more than %d MiB: have it tell less", maxOutputs>>20)
	}
	if h.outputs == nil {
		h.outputs = map[string]any{}
	}
	return executor.Result{Done: true, Outputs: h.outputs, Made: h.made}, nil
}

func or(r *executor.Result) executor.Result {
	if r == nil {
		return executor.Result{}
	}
	return *r
}

// carry carries the plan out; a result means that it is to be tried again.
func (n *run) carry(ctx context.Context) (*executor.Result, error) {
	err := n.apply(ctx)
	switch fault.Reason(err) {
	case "locked", "stale":
		return &executor.Result{Message: err.Error(), After: askAgain}, nil
	}
	return nil, err
}

// Destroy implements executor.Executor.
func (x *Executor) Destroy(ctx context.Context, r executor.Resource) (executor.Result, error) {
	if err := ctx.Err(); err != nil {
		return executor.Result{}, err
	}
	_, waits, err := x.alone(ctx, r)
	if waits != nil || err != nil {
		return or(waits), err
	}
	_, state, err := x.States.Read(ctx, r.ID)
	if err != nil {
		return executor.Result{}, err
	}
	if len(contents(state).made) > 0 {
		m, err := x.module(ctx, r, true)
		if err == nil {
			err = r.Settled()
		}
		if err != nil {
			return executor.Result{}, err
		}
		n, err := x.begin(ctx, r, m, true)
		if err != nil {
			return executor.Result{}, err
		}
		defer n.end()
		if _, _, err := n.plan(ctx, destroy); err != nil {
			return executor.Result{}, err
		}
		if waits, err := n.carry(ctx); waits != nil || err != nil {
			return or(waits), err
		}
	}
	if err := x.States.Forget(ctx, r.ID); err != nil {
		return executor.Result{}, err
	}
	return executor.Result{Done: true}, nil
}

// alone makes sure that no other run works on the resource: one on this machine
// that is no more loses its lock, one that lives is waited for, and of one on
// another machine nobody here can tell.
func (x *Executor) alone(ctx context.Context, r executor.Resource) (Head, *executor.Result, error) {
	x.sweep(r.ID)
	head, _, err := x.States.Read(ctx, r.ID)
	if err != nil || head.Lock == nil {
		return head, nil, err
	}
	l := head.Lock
	since := l.Since.UTC().Format(time.RFC3339)
	if l.Host != x.host || filepath.Dir(l.Run) != filepath.Clean(x.Work) {
		return head, &executor.Result{After: askAgain, Message: fmt.Sprintf(
			"an earlier run on %s still holds the state of %s since %s; if that machine is gone: `drover env unlock %s/%s`", l.Host, r.Address, since, r.Environment, r.Address)}, nil
	}
	if held(filepath.Join(l.Run, holdFile)) {
		return head, &executor.Result{After: askAgain, Message: fmt.Sprintf("an earlier run is at work on %s since %s", r.Address, since)}, nil
	}
	fmt.Fprintf(r.Log, "the run that works on %s since %s is no more: its lock is taken over\n", r.Address, since)
	if err := x.States.Break(ctx, r.ID, l.ID); err != nil && fault.Reason(err) != "lock-lost" {
		return head, nil, err
	}
	x.sweep(r.ID) // a state that it has left behind can be kept now
	head, _, err = x.States.Read(ctx, r.ID)
	return head, nil, err
}

// sweep removes the directories of runs that are no more, of one resource or of
// all. A state that lies there and nowhere else is kept first.
func (x *Executor) sweep(id string) {
	all, err := os.ReadDir(x.Work)
	if err != nil {
		return
	}
	for _, e := range all {
		of, _, ok := strings.Cut(e.Name(), ".")
		dir := filepath.Join(x.Work, e.Name())
		if !ok || !e.IsDir() || id != "" && of != id || held(filepath.Join(dir, holdFile)) {
			continue
		}
		left := ""
		_ = filepath.WalkDir(dir, func(path string, d os.DirEntry, err error) error {
			if err == nil && d.Name() == erroredFile {
				left = filepath.Dir(path)
			}
			return nil
		})
		if left != "" {
			if id == "" || x.States == nil {
				continue // its resource's next run sees to it
			}
			if err := x.rescue(context.Background(), of, left); err != nil {
				continue
			}
		}
		_ = os.RemoveAll(dir)
	}
}
