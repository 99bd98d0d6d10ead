package site_test

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"
	"unsafe"

	"pgregory.net/rapid"

	"github.com/droverhq/drover/internal/site"
)

var errLost = errors.New("lost on the way")

// register is the third place. Time passes while it is asked, and answers are lost.
type register struct {
	cell site.Cell
	last uint64                                         // index that was given; no two writes have the same
	way  func() (before, after time.Duration, lost int) // lost 1: the question; 2: the answer
	pass func(time.Duration)
}

func (r *register) Read(context.Context) (site.Cell, error) {
	before, after, lost := r.way()
	r.pass(before)
	out := r.cell
	r.pass(after)
	if lost > 0 {
		return site.Cell{}, errLost
	}
	return out, nil
}

func (r *register) Write(_ context.Context, value []byte, index uint64) (bool, error) {
	before, after, lost := r.way()
	r.pass(before)
	ok := lost != 1 && r.cell.Index == index
	if ok {
		r.last++
		r.cell = site.Cell{Value: value, Index: r.last}
	}
	r.pass(after)
	if lost > 0 {
		return false, errLost
	}
	return ok, nil
}

// One of two sites leads at a time, however long messages take, whichever are lost,
// whoever stalls, and with clocks that run at different speeds.
func TestOneSiteLeads(t *testing.T) { oneSiteLeads(t, false) }

// Nor do both where somebody removes the key again and again. The epoch in it is forgotten
// by that.
func TestOneSiteLeadsWhileTheKeyIsRemoved(t *testing.T) { oneSiteLeads(t, true) }

func oneSiteLeads(t *testing.T, removed bool) {
	promoted := 0
	defer func() {
		if promoted == 0 && !t.Failed() {
			t.Error("no site was ever promoted: nothing was tried")
		}
	}()
	rapid.Check(t, func(t *rapid.T) {
		var now time.Duration // of the world
		type place struct {
			lease *site.Lease
			view  site.View
			speed float64 // of its clock
		}
		var both [2]*place
		leads := func(p *place) bool {
			return site.Plan(p.view, noon.Add(time.Duration(p.speed*float64(now)))).State == site.Leading
		}
		check := func() {
			if leads(both[0]) && leads(both[1]) {
				t.Fatalf("both lead at %s", now)
			}
		}
		pass := func(d time.Duration) {
			for end := now + d; now < end; { // in steps: whoever leads in between is seen
				now = min(end, now+100*time.Millisecond)
				if both[1] != nil {
					check()
				}
			}
		}
		r := &register{pass: pass, way: func() (time.Duration, time.Duration, int) {
			long := rapid.SampledFrom([]int{0, 0, 0, 0, 0, 0, 0, 0, 10, 500, 3000, 9000})
			return time.Duration(long.Draw(t, "there")) * time.Millisecond, time.Duration(long.Draw(t, "back")) * time.Millisecond,
				rapid.SampledFrom([]int{0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 1, 2}).Draw(t, "lost")
		}}
		for i, name := range []string{"a", "b"} {
			p := &place{speed: 1 + float64(rapid.IntRange(-50, 50).Draw(t, "speed"))/1000}
			p.lease = &site.Lease{Register: r, Site: name, Clock: func() time.Time { return noon.Add(time.Duration(p.speed * float64(now))) }}
			p.view = site.View{Role: site.Primary, Site: name, Witness: true, Database: site.Database{Known: true, Epoch: 1}}
			if i == 1 {
				p.view.Role, p.view.Database.Recovering, p.view.Word = site.Secondary, true, true
			}
			both[i] = p
		}
		highest := int64(1)
		defer func() { promoted += int(highest - 1) }()
		for range rapid.IntRange(20, 120).Draw(t, "steps") {
			p := both[rapid.IntRange(0, 1).Draw(t, "who")]
			switch rapid.IntRange(0, 9).Draw(t, "what") {
			case 0, 2, 3:
				pass(time.Duration(rapid.SampledFrom([]int{500, 1000, 1000, 1500, 6200}).Draw(t, "pause")) * time.Millisecond)
			case 1:
				if removed && rapid.Bool().Draw(t, "removed") {
					r.cell = site.Cell{}
					break
				}
				p.view.Word = rapid.Bool().Draw(t, "word")
			default:
				clock := p.lease.Clock()
				d := site.Plan(p.view, clock)
				epoch := p.view.Database.Epoch
				if p.view.Database.Recovering {
					epoch++
				}
				_ = p.lease.Step(t.Context(), d.Acquire, epoch)
				p.view.Until, p.view.Seen = p.lease.Until(), max(p.view.Seen, p.lease.Foreign())
				if d = site.Plan(p.view, p.lease.Clock()); d.Promote {
					if d.Epoch <= highest && !removed {
						t.Fatalf("epoch %d is begun twice", d.Epoch)
					}
					highest = max(highest, d.Epoch)
					p.view.Database = site.Database{Known: true, Epoch: d.Epoch, Begun: p.view.Site}
				}
			}
			check()
			if leads(p) && p.view.Database.Epoch < highest && !removed {
				t.Fatalf("%s leads in epoch %d after %d has begun", p.view.Site, p.view.Database.Epoch, highest)
			}
		}
	})
}

func TestLeaseIsGivenBack(t *testing.T) {
	r := &register{pass: func(time.Duration) {}, way: func() (time.Duration, time.Duration, int) { return 0, 0, 0 }}
	now := noon
	clock := func() time.Time { return now }
	a := &site.Lease{Register: r, Site: "a", Clock: clock}
	b := &site.Lease{Register: r, Site: "b", Clock: clock}
	step := func(l *site.Lease, want bool) {
		t.Helper()
		if err := l.Step(t.Context(), true, 1); err != nil || l.Until().After(now) != want {
			t.Fatalf("%s has it until %s at %s: %v", l.Site, l.Until(), now, err)
		}
	}
	step(a, false) // nobody has given it back: somebody may have it whose key was removed
	now = now.Add(6 * time.Second)
	step(a, true)
	step(b, false)
	now = now.Add(5 * time.Second)
	step(b, false)
	now = now.Add(time.Second) // b has seen the same for the whole life of it
	step(b, true)
	step(a, false)
	if err := b.Release(t.Context()); err != nil {
		t.Fatal(err)
	}
	step(a, true)
	step(b, false)
	// Who has held it for a higher epoch keeps out who comes with a lower one, even
	// when nobody holds it any more.
	now = now.Add(time.Minute)
	if err := b.Step(t.Context(), true, 2); err != nil || !b.Until().After(now) {
		t.Fatalf("b does not have it: %v", err)
	}
	if err := b.Release(t.Context()); err != nil {
		t.Fatal(err)
	}
	now = now.Add(time.Minute)
	step(a, false)
	if a.Foreign() != 2 || b.Foreign() != 0 {
		t.Errorf("a knows of epoch %d, b of %d of another's", a.Foreign(), b.Foreign())
	}
}

// The replicas of a site share its lease: who ends first leaves it to the other.
func TestLeaseOfReplicas(t *testing.T) {
	r := &register{pass: func(time.Duration) {}, way: func() (time.Duration, time.Duration, int) { return 0, 0, 0 }}
	now := noon
	clock := func() time.Time { return now }
	one, two := &site.Lease{Register: r, Site: "a", Clock: clock}, &site.Lease{Register: r, Site: "a", Clock: clock}
	other := &site.Lease{Register: r, Site: "b", Clock: clock}
	step := func(l *site.Lease, want bool) {
		t.Helper()
		if err := l.Step(t.Context(), true, 1); err != nil || l.Until().After(now) != want {
			t.Fatalf("%s has it until %s at %s: %v", l.Site, l.Until(), now, err)
		}
	}
	release := func(l *site.Lease) {
		t.Helper()
		if err := l.Release(t.Context()); err != nil {
			t.Fatal(err)
		}
	}
	step(one, false)
	now = now.Add(6 * time.Second)
	step(one, true)
	step(two, true)
	release(one) // the last word is the other's
	step(other, false)
	step(one, true)
	release(one) // it is its own, and the other acts on an earlier one
	step(other, false)
	for range 7 { // there is nobody else any more
		now = now.Add(time.Second)
		step(two, true)
	}
	release(two)
	step(other, true)
}

// A key that somebody removed is not free at once: its holder does not know.
func TestLeaseWhoseKeyIsRemoved(t *testing.T) {
	r := &register{pass: func(time.Duration) {}, way: func() (time.Duration, time.Duration, int) { return 0, 0, 0 }}
	now := noon
	clock := func() time.Time { return now }
	a, b := &site.Lease{Register: r, Site: "a", Clock: clock}, &site.Lease{Register: r, Site: "b", Clock: clock}
	step := func(l *site.Lease, want bool) {
		t.Helper()
		if err := l.Step(t.Context(), true, 1); err != nil || l.Until().After(now) != want {
			t.Fatalf("%s has it until %s at %s: %v", l.Site, l.Until(), now, err)
		}
	}
	step(a, false)
	now = now.Add(6 * time.Second)
	step(a, true)
	r.cell = site.Cell{}
	step(b, false)
	step(a, true) // it goes on
	r.cell = site.Cell{}
	step(b, false)
	now = now.Add(6 * time.Second)
	step(b, true)
	step(a, false)
}

// Somebody removes the key from under its holder, twice, and the other site sees only that
// it was not there for long.
func TestLeaseIsNotTakenOverNothing(t *testing.T) {
	r := &register{pass: func(time.Duration) {}, way: func() (time.Duration, time.Duration, int) { return 0, 0, 0 }}
	now := noon
	clock := func() time.Time { return now }
	a, b := &site.Lease{Register: r, Site: "a", Clock: clock}, &site.Lease{Register: r, Site: "b", Clock: clock}
	step := func(l *site.Lease, acquire bool) {
		t.Helper()
		if err := l.Step(t.Context(), acquire, 1); err != nil {
			t.Fatal(err)
		}
	}
	step(b, false) // there is nothing
	for range 8 {
		step(a, true)
		now = now.Add(time.Second)
	}
	if !a.Until().After(now) {
		t.Fatal("a does not have it")
	}
	r.cell = site.Cell{} // before b looks again
	step(b, true)
	if b.Until().After(now) {
		t.Error("b acts on a lease while a acts on another")
	}
}

// One question that hangs is not the end of the lease: there is time to ask again.
func TestLeaseOutlivesAQuestionThatHangs(t *testing.T) {
	for _, hung := range []int{1, 2} {
		synctest.Test(t, func(t *testing.T) {
			r := &hanging{register: register{pass: func(time.Duration) {}, way: func() (time.Duration, time.Duration, int) { return 0, 0, 0 }}}
			l := &site.Lease{Register: r, Site: "a"}
			step := func() {
				ctx, cancel := context.WithTimeout(t.Context(), 3*time.Second)
				defer cancel()
				_ = l.Step(ctx, true, 1)
				time.Sleep(l.Each())
			}
			for !l.Until().After(time.Now()) {
				step()
			}
			for range 5 {
				r.hangs = hung
				for range 4 {
					before := l.Until()
					step()
					if !before.After(time.Now()) && !l.Until().After(before) {
						t.Fatalf("the lease has ended after %d questions that hung", hung)
					}
				}
			}
		})
	}
}

// hanging is a register that does not answer some questions.
type hanging struct {
	register
	hangs int
}

func (h *hanging) Read(ctx context.Context) (site.Cell, error) {
	if h.hangs > 0 {
		h.hangs--
		<-ctx.Done()
		return site.Cell{}, ctx.Err()
	}
	return h.register.Read(ctx)
}

// The clock that differences are taken of stands still while the machine sleeps.
func TestLeaseEndsWhileTheMachineSleeps(t *testing.T) {
	now := time.Now()
	until := now.Add(4 * time.Second)
	awake := now.Add(time.Hour)
	(*struct { // time.Time, whose second word is the reading of that clock
		wall uint64
		ext  int64
	})(unsafe.Pointer(&awake)).ext -= int64(time.Hour - time.Second)
	if d := awake.Sub(now); d != time.Second {
		t.Fatalf("the clock has gone on for %s", d)
	}
	v := site.View{Role: site.Primary, Database: site.Database{Known: true, Epoch: 1}, Witness: true, Until: until}
	if d := site.Plan(v, awake); d.State != site.Waiting {
		t.Errorf("it is %s after an hour of sleep", d.State)
	}
	if d := site.Plan(v, now.Add(time.Second)); d.State != site.Leading {
		t.Errorf("it is %s within its lease", d.State)
	}
}
