package process

import (
	"context"
	"fmt"
	"math/rand/v2"
	"os"
	"time"

	"github.com/droverhq/drover/internal/program"
	"github.com/droverhq/drover/internal/runtime"
)

const (
	firstProbe   = 5 * time.Millisecond
	firstRestart = 100 * time.Millisecond
	lastRestart  = 30 * time.Second
	manyFailures = 3                // ends or probes in a row that make an error
	stable       = 10 * time.Second // a process that ran this long ready starts with a clean sheet
)

// supervise brings the process closer to the item until the instance is
// removed or ctx ends. It is the only one that starts and stops it.
func (in *instance) supervise(ctx context.Context) {
	for ctx.Err() == nil {
		it, rev := in.wanted()
		doc, err := it.document()
		switch {
		case in.doubt != nil:
			in.resolve(ctx, rev)
		case in.leftovers:
			in.sweep(ctx)
		case it.Delete:
			if in.stop(ctx) && in.remove(ctx, rev) {
				return
			}
		case it.Rejected:
			in.show(rev, runtime.Rejected, "no room: the runtime holds as many instances as it may")
			in.pause(ctx, nil)
		case it.Kind == step:
			in.show(rev, runtime.Ready, "") // processes need nothing of a cluster
			in.pause(ctx, nil)
		case err != nil:
			// What runs is left running: a broken document is no reason to end a service.
			in.show(rev, runtime.Error, err.Error())
			in.pause(ctx, in.ended())
			in.reap()
		case doc.Spec.Suspended:
			if in.stop(ctx) {
				in.show(rev, runtime.Suspended, "")
				in.pause(ctx, nil)
			}
		case in.proc == nil:
			in.start(ctx, rev, doc)
		case in.proc.Digest != doc.Spec.Process.digest():
			if in.stop(ctx) {
				in.failures = 0
			}
		default:
			in.watch(ctx, rev, doc)
		}
	}
}

// watch probes until the process ends or the item changes.
func (in *instance) watch(ctx context.Context, rev int64, doc document) {
	p := in.proc
	delay, failed := firstProbe, 0
	lastGood := time.Now()
	if p.started.After(lastGood.Add(-in.r.cfg.Patience)) {
		lastGood = p.started
	}
	for {
		if in.reap() {
			in.r.cfg.Logger.WarnContext(in.about(), "an instance's process ended", "instance", in.id, "why", p.exit)
			return
		}
		why := in.health(ctx, doc.Spec.Process.Health)
		switch {
		case ctx.Err() != nil:
			return
		case why == "":
			in.good(rev, doc)
			delay, failed, lastGood = in.r.cfg.Interval, 0, time.Now()
		case !p.Ready:
			// The first second is when it counts: most processes start in it.
			if delay = delay * 3 / 2; time.Since(p.started) < time.Second {
				delay = min(delay, 2*firstProbe)
			}
			if delay = min(delay, time.Second); time.Since(lastGood) > in.r.cfg.Patience {
				in.show(rev, runtime.Error, "it started but is not healthy: "+why)
			}
		default:
			delay = min(250*time.Millisecond, in.r.cfg.Interval)
			if failed++; failed >= manyFailures {
				in.target.Store(0)
				in.show(rev, runtime.Error, "it was healthy and no longer is: "+why)
			}
		}
		if why != "" && time.Since(lastGood) > in.r.cfg.Hang {
			in.r.cfg.Logger.WarnContext(in.about(), "an instance does not answer and is started again", "instance", in.id, "why", why)
			if in.stop(ctx) {
				in.failures++
			}
			return
		}
		if err := program.Bound(in.logPath(), in.r.cfg.LogLimit); err != nil {
			in.r.cfg.Logger.WarnContext(in.about(), "cannot keep an instance's log small", "instance", in.id, "error", err)
		}
		select {
		case <-ctx.Done():
			return
		case <-in.wake:
			return
		case <-p.done:
		case <-time.After(delay):
		}
	}
}

// good notes a healthy answer.
func (in *instance) good(rev int64, doc document) {
	p := in.proc
	if p.readySince.IsZero() {
		p.readySince = time.Now()
	}
	if !p.Ready {
		p.Ready = true
		in.keep(p.child)
		in.r.cfg.Logger.InfoContext(in.about(), "an instance is ready", "instance", in.id, "pid", p.PID, "port", p.Port, "took", time.Since(p.started))
	}
	in.showReady(rev, doc, p.Port)
}

// start runs the command, after a while if it has failed before.
func (in *instance) start(ctx context.Context, rev int64, doc document) {
	if in.failures > 0 {
		timer := time.NewTimer(backoff(in.failures))
		defer timer.Stop()
		select {
		case <-ctx.Done():
			return
		case <-in.wake: // something new is wanted: look again, at once
			in.failures = 0
			return
		case <-timer.C:
		}
	}
	if err := in.spawn(doc.Spec.Process); err != nil {
		in.failures++
		in.r.cfg.Logger.WarnContext(in.about(), "cannot start an instance", "instance", in.id, "error", err)
		in.show(rev, runtime.Error, "it cannot be started: "+err.Error())
	}
}

func backoff(failures int) time.Duration {
	d := firstRestart << min(failures-1, 20)
	if d > lastRestart || d <= 0 {
		d = lastRestart
	}
	return d/2 + rand.N(d/2)
}

// reap notes that the process has ended, if it has.
func (in *instance) reap() bool {
	p := in.proc
	if p == nil || !p.gone() {
		return false
	}
	if p.Ready && !p.readySince.IsZero() && time.Since(p.readySince) > stable {
		in.failures = 0
	}
	in.failures++
	in.leftovers = true // its own children may have stayed
	in.lose()
	_, rev := in.wanted()
	if in.failures >= manyFailures {
		in.show(rev, runtime.Error, "it ends soon after every start ("+p.exit+"); its log tells more, runtime/"+in.id+"/output.log in the agent's data directory")
	} else {
		in.show(rev, runtime.Installing, "it ended ("+p.exit+") and is started again")
	}
	return true
}

func (in *instance) lose() {
	in.target.Store(0)
	in.r.releasePort(in.proc.Port)
	in.proc = nil
	in.keep(child{Run: in.run})
}

// ended is closed when our own child has; adopted ones are looked at in turn.
func (in *instance) ended() <-chan struct{} {
	if in.proc == nil {
		return nil
	}
	if in.proc.done != nil {
		return in.proc.done
	}
	return after(in.r.cfg.Interval)
}

// stop ends the process and all that it has left; false means not yet.
func (in *instance) stop(ctx context.Context) bool {
	p := in.proc
	if p == nil {
		return true
	}
	in.target.Store(0)
	if err := program.StopGroup(p.proof); err != nil {
		in.r.cfg.Logger.WarnContext(in.about(), "cannot ask an instance to end", "instance", in.id, "error", err)
	}
	in.r.cfg.step("asked")
	if !p.wait(ctx, in.r.cfg.Grace) {
		if ctx.Err() != nil {
			return false
		}
		if err := program.KillGroup(p.proof); err != nil {
			in.r.cfg.Logger.WarnContext(in.about(), "cannot end an instance", "instance", in.id, "error", err)
		}
		if !p.wait(ctx, in.r.cfg.Grace) {
			return false
		}
	}
	in.lose()
	in.r.cfg.step("stopped")
	return in.sweep(ctx)
}

// sweep ends every process that carries our nonce and is neither the current
// one nor started by it.
func (in *instance) sweep(ctx context.Context) bool {
	in.leftovers = true
	for wait := time.Millisecond; ctx.Err() == nil; wait = min(2*wait, time.Second) {
		all, err := program.Scan()
		if err != nil {
			in.r.cfg.Logger.WarnContext(in.about(), "cannot look for what an instance left", "instance", in.id, "error", err)
		}
		left := 0
		for _, f := range all {
			if f.Nonce != in.nonce || in.proc != nil && f.Run == fmt.Sprint(in.proc.Run) {
				continue
			}
			left++
			p := program.Proof{PID: f.PID, Birth: f.Birth, Nonce: f.Nonce}
			if err := program.KillOne(p); err != nil {
				in.r.cfg.Logger.WarnContext(in.about(), "cannot end what an instance left", "instance", in.id, "pid", f.PID, "error", err)
			}
		}
		if left == 0 && err == nil {
			in.leftovers = false
			return true
		}
		select {
		case <-ctx.Done():
		case <-time.After(wait):
		}
	}
	return false
}

// resolve waits until a process that cannot prove to be ours is gone: it may be
// neither signalled nor replaced.
func (in *instance) resolve(ctx context.Context, rev int64) {
	switch in.doubt.Verdict() {
	case program.Gone:
		in.doubt = nil
		return
	case program.Match:
		in.doubt, in.leftovers = nil, true // it shows its nonce after all: end it and start afresh
		return
	}
	in.show(rev, runtime.Error, fmt.Sprintf("process %d may be this instance, but does not prove it; end it by hand", in.doubt.PID))
	in.pause(ctx, after(in.r.cfg.Interval))
}

// remove drops the directory; the tombstone tells of it until Forget.
func (in *instance) remove(ctx context.Context, rev int64) bool {
	in.mu.Lock()
	if rev != in.rev {
		in.mu.Unlock()
		return false
	}
	in.removing = true
	it := in.item
	in.mu.Unlock()
	it.Body = nil
	err := writeJSON(in.r.tombstone(in.id), it, true)
	in.r.cfg.step("tombstone")
	if err == nil {
		err = os.RemoveAll(in.home())
	}
	in.r.cfg.step("removed")
	in.mu.Lock()
	defer in.mu.Unlock()
	in.removing = false
	if err != nil {
		in.r.cfg.Logger.ErrorContext(runtime.About(ctx, it.Cause, it.Org), "cannot remove an instance", "instance", in.id, "error", err)
		in.seen.State, in.seen.Message = runtime.Error, "its directory cannot be removed"
		in.r.notify()
		in.mu.Unlock()
		in.pause(ctx, after(time.Second))
		in.mu.Lock()
		return false
	}
	in.setHost("")
	in.r.vacate(in.id)
	it.buried = true
	in.item = it
	in.seen = it.seen(runtime.Deleted, "")
	in.r.notify()
	return true
}

// after is time.After as a signal.
func after(d time.Duration) <-chan struct{} {
	c := make(chan struct{})
	time.AfterFunc(d, func() { close(c) })
	return c
}
