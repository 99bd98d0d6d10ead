package ledgertest

import (
	"fmt"
	"math/rand/v2"
	"sync"
	"time"

	"github.com/anishathalye/porcupine"

	"github.com/droverhq/drover/internal/fault"
	"github.com/droverhq/drover/internal/ledger"
)

// rounds is how many histories are recorded and checked of each sort.
const rounds = 10

// recorder collects what concurrent clients did, with the times of call and return.
type recorder struct {
	mu    sync.Mutex
	start time.Time
	ops   []porcupine.Operation
}

func (rec *recorder) now() int64 { return int64(time.Since(rec.start)) }

func (rec *recorder) add(client int, call int64, input, output any) {
	ret := rec.now()
	rec.mu.Lock()
	defer rec.mu.Unlock()
	rec.ops = append(rec.ops, porcupine.Operation{ClientId: client, Input: input, Call: call, Output: output, Return: ret})
}

// byObject splits a history: objects are independent of each other.
func byObject[In interface{ object() string }](history []porcupine.Operation) [][]porcupine.Operation {
	parts := map[string][]porcupine.Operation{}
	for _, op := range history {
		key := op.Input.(In).object()
		parts[key] = append(parts[key], op)
	}
	var out [][]porcupine.Operation
	for _, p := range parts {
		out = append(out, p)
	}
	return out
}

func (rec *recorder) verify(r *rig, model porcupine.Model) {
	r.Helper()
	if got := porcupine.CheckOperationsTimeout(model, rec.ops, 20*time.Second); got != porcupine.Ok {
		for _, op := range rec.ops {
			r.Logf("client %d [%d, %d] %+v -> %+v", op.ClientId, op.Call, op.Return, op.Input, op.Output)
		}
		r.Fatalf("a history of %d operations is %v: no order of them explains the answers", len(rec.ops), got)
	}
}

// regIn is a read of an object, or a write that expects a version.
type regIn struct {
	id     string
	write  bool
	expect int64
	value  string
}

func (in regIn) object() string { return in.id }

// regOut is what a read saw or a write made; version 0 if there was nothing.
type regOut struct {
	version int64
	value   string
	failed  string // reason of a refusal
}

// register is an object as a versioned register with compare-and-set.
var register = porcupine.Model{
	Partition: byObject[regIn],
	Init:      func() any { return regOut{} },
	Step: func(state, input, output any) (bool, any) {
		now, in, out := state.(regOut), input.(regIn), output.(regOut)
		switch {
		case !in.write:
			return out == now, now
		case in.expect != now.version:
			want := "version"
			if in.expect == 0 {
				want = "exists"
			} else if now.version == 0 {
				want = "not found"
			}
			return out.failed == want, now
		case now.version > 0 && in.value == now.value: // nothing to write
			return out == now, now
		}
		next := regOut{version: now.version + 1, value: in.value}
		return out == next, next
	},
}

func testHistoryRegister(r *rig) {
	ledgers := r.replicas(3)
	for round := range rounds {
		rec := &recorder{start: time.Now()}
		race(ledgers, 6, func(client int, l ledger.Ledger) {
			rnd := rand.New(rand.NewPCG(uint64(client), uint64(round)))
			seen := map[string]int64{}
			for n := range 25 {
				in := regIn{id: fmt.Sprintf("r%d-%d", round, rnd.IntN(3)), write: rnd.IntN(3) > 0}
				if in.write {
					in.expect, in.value = seen[in.id], fmt.Sprintf("c%d-%d", client, n/3)
				}
				call := rec.now()
				out, err := registerCall(r, l, in)
				if err != nil {
					r.Errorf("%+v: %v", in, err)
					return
				}
				rec.add(client, call, in, out)
				if out.version > 0 {
					seen[in.id] = out.version
				}
			}
		})
		rec.verify(r, register)
	}
}

func registerCall(r *rig, l ledger.Ledger, in regIn) (regOut, error) {
	var o ledger.Object
	var err error
	if in.write {
		var res ledger.Result
		put := ledger.Put{Object: ledger.Object{Ref: beast(in.id), Name: in.value}, Expect: in.expect, Op: "write"}
		if res, err = l.Commit(r.ctx, by(put)); err == nil {
			o = res.Objects[0]
		}
	} else {
		o, err = l.Get(r.ctx, beast(in.id))
	}
	switch {
	case err == nil:
		return regOut{version: o.Version, value: o.Name}, nil
	case fault.Is(err, fault.Conflict):
		return regOut{failed: fault.Reason(err)}, nil
	case fault.Is(err, fault.NotFound) && in.write:
		return regOut{failed: "not found"}, nil
	case fault.Is(err, fault.NotFound):
		return regOut{}, nil
	}
	return regOut{}, err
}

// workIn is one step in the life of an object's work.
type workIn struct {
	id    string
	op    string // wake, claim, finish, renew, release, empty
	token int64
	dirty int64
	next  bool // of a finish: another run is wanted
	short bool // of a claim or renewal: the lease has run out on return
}

func (in workIn) object() string { return in.id }

// workState is the work of one object.
type workState struct {
	exists bool
	dirty  int64
	token  int64 // 0 = not leased
	lapsed bool
	last   int64 // greatest token so far
}

// leases says that work has one holder at a time, tokens grow, a lost lease does
// nothing, and what was woken is handed out. A claim that finds nothing is not
// recorded, since a store may pass by what others are just writing; the final
// "empty" is, when nobody else is about.
var leases = porcupine.Model{
	Partition: byObject[workIn],
	Init:      func() any { return workState{} },
	Step: func(state, input, output any) (bool, any) {
		s, in, ok := state.(workState), input.(workIn), output.(bool)
		mine := s.exists && s.token != 0 && s.token == in.token
		switch in.op {
		case "wake":
			s.exists, s.dirty = true, s.dirty+1
			return ok, s
		case "claim":
			free := s.exists && (s.token == 0 || s.lapsed) && s.dirty == in.dirty && in.token > s.last
			s.token, s.last, s.lapsed = in.token, in.token, in.short
			return free, s
		case "renew":
			if mine && ok {
				s.lapsed = in.short
			}
			return ok == mine || mine && s.lapsed, s
		case "release":
			if mine {
				s.token, s.lapsed = 0, false
			}
			return true, s
		case "finish":
			if !mine {
				return !ok, s
			}
			s.token, s.lapsed = 0, false
			if s.dirty -= in.dirty; s.dirty == 0 && !in.next {
				s.exists = false
			}
			return ok, s
		case "empty":
			return !s.exists, s
		}
		panic("unknown operation " + in.op)
	},
}

func testHistoryLeases(r *rig) {
	ledgers := r.replicas(3)
	for round := range rounds {
		rec := &recorder{start: time.Now()}
		object := func(n int) string { return fmt.Sprintf("r%d-%d", round, n) }
		race(ledgers, 6, func(client int, l ledger.Ledger) {
			c := &leaseClient{rig: r, rec: rec, l: l, id: client, rnd: rand.New(rand.NewPCG(uint64(client), uint64(round)))}
			for range 20 {
				if err := c.step(object(c.rnd.IntN(3))); err != nil {
					r.Errorf("client %d: %v", client, err)
					return
				}
			}
			for _, w := range c.held { // leave nothing behind
				if err := c.end(w, "release"); err != nil {
					r.Errorf("client %d: %v", client, err)
				}
			}
		})
		last := &leaseClient{rig: r, rec: rec, l: ledgers[0], rnd: rand.New(rand.NewPCG(9, 9))}
		for n := 0; ; n++ {
			if err := last.claim(time.Hour); err != nil {
				r.Fatal(err)
			}
			if len(last.held) == 0 {
				break
			}
			if n > 1000 {
				r.Fatal("work never ends")
			}
			for _, w := range last.held {
				if err := last.end(w, "finish"); err != nil {
					r.Fatal(err)
				}
			}
			last.held = nil
		}
		for n := range 3 {
			rec.add(0, rec.now(), workIn{id: object(n), op: "empty"}, true)
		}
		rec.verify(r, leases)
	}
}

// leaseClient wakes, claims, stalls and finishes at random.
type leaseClient struct {
	*rig
	rec  *recorder
	l    ledger.Ledger
	id   int
	rnd  *rand.Rand
	held []ledger.Work // claimed, perhaps lost by now
}

func (c *leaseClient) step(object string) error {
	switch n := c.rnd.IntN(8); {
	case n < 3:
		call := c.rec.now()
		_, err := c.l.Commit(c.ctx, waking(ledger.Wake{Ref: beast(object)}))
		c.rec.add(c.id, call, workIn{id: object, op: "wake"}, true)
		return err
	case n == 3:
		return c.claim(instant)
	case n == 4 || len(c.held) == 0:
		return c.claim(time.Hour)
	default:
		i := c.rnd.IntN(len(c.held))
		w := c.held[i]
		op := []string{"finish", "finish", "finish", "renew", "release"}[c.rnd.IntN(5)]
		if op != "renew" && c.rnd.IntN(4) > 0 { // sometimes it is ended twice
			c.held = append(c.held[:i:i], c.held[i+1:]...)
		}
		return c.end(w, op)
	}
}

func (c *leaseClient) claim(d time.Duration) error {
	call := c.rec.now()
	got, err := c.l.Claim(c.ctx, ledger.ClaimRequest{Holder: fmt.Sprint(c.id), Kinds: []string{"beast"}, Limit: 1 + c.rnd.IntN(2), Lease: d})
	for _, w := range got.Work {
		c.rec.add(c.id, call, workIn{id: w.ID, op: "claim", token: w.Token, dirty: w.Dirty, short: d == instant}, true)
		c.held = append(c.held, w)
	}
	return err
}

func (c *leaseClient) end(w ledger.Work, op string) error {
	in := workIn{id: w.ID, op: op, token: w.Token, dirty: w.Dirty}
	call, ok := c.rec.now(), true
	var err error
	switch op {
	case "finish":
		in.next = c.id > 0 && c.rnd.IntN(4) == 0
		_, err = c.l.Commit(c.ctx, finishing(w, ledger.Finish{Next: in.next}))
		if fault.Reason(err) == "lease-lost" {
			ok, err = false, nil
		}
	case "renew":
		var lost []ledger.Lease
		in.short = c.rnd.IntN(2) == 0
		d := time.Hour
		if in.short {
			d = instant
		}
		lost, err = c.l.Renew(c.ctx, []ledger.Lease{w.Lease}, d)
		ok = len(lost) == 0
	case "release":
		err = c.l.Release(c.ctx, []ledger.Lease{w.Lease})
	}
	c.rec.add(c.id, call, in, ok)
	return err
}
