package site

import (
	"context"
	"crypto/rand"
	"encoding/json"
	"sync"
	"time"
)

// Register is one cell in a third place. Reads are of what was written last.
type Register interface {
	Read(ctx context.Context) (Cell, error)
	// Write replaces the cell unless it has changed since index; then ok is false.
	Write(ctx context.Context, value []byte, index uint64) (ok bool, err error)
}

// Cell is a value with the number of its last change; 0: there is none.
type Cell struct {
	Value []byte
	Index uint64
}

// Lease is held by one site at a time. No clock is compared with another: the holder
// counts from before it wrote, whoever waits from after it has read that writing, and
// each for the same time. So the holder's ends first, whatever was lost on the way.
type Lease struct {
	Register Register
	Site     string        // the holder's name
	Life     time.Duration // default 6 s
	Margin   time.Duration // for clocks that run at different speeds; default 1 s
	Clock    func() time.Time
	// Replica is another one for each process of the site: they share the lease.
	// Default: a random one.
	Replica string

	step  sync.Mutex // one question at a time
	mu    sync.Mutex
	seen  uint64    // the index that was read last
	since time.Time // when it was first read
	until time.Time // of our own
	fresh string    // the site's new cell that was looked at last; empty: it is not new
	began time.Time // when that was first seen, or written
	short bool      // the last question was not answered
	other time.Time // when the cell was last seen to be another replica's of this site
	told  holding   // what is in the cell
}

type holding struct {
	Site  string `json:"site"`
	Epoch int64  `json:"epoch"` // the highest that a holder has led in, or was about to begin
	By    string `json:"by"`    // which site that was
	Life  int64  `json:"life_ms"`
	Count int64  `json:"count"`
	// Replica is which process of the site wrote that.
	Replica string `json:"replica,omitempty"`
	// New is there where nothing was before, another one each time. Somebody may have
	// removed what a holder acts on: nobody acts on a new one until it has been there for
	// the life of a lease.
	New string `json:"new,omitempty"`
}

const (
	leaseLife   = 6 * time.Second
	leaseMargin = time.Second
)

func (l *Lease) defaults() {
	if l.Life <= 0 {
		l.Life = leaseLife
	}
	if l.Margin <= 0 {
		l.Margin = leaseMargin
	}
	if l.Clock == nil {
		l.Clock = time.Now
	}
	if l.Replica == "" {
		l.Replica = rand.Text()
	}
}

// Each is when Step is to be called again: soon, where it was not answered.
func (l *Lease) Each() time.Duration {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.defaults()
	if l.short {
		return l.Life / 60
	}
	return l.Life / 6
}

// Until is when the site's lease ends; zero: it has none.
func (l *Lease) Until() time.Time {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.until
}

// Holder is who had the lease when it was looked at last; empty: nobody.
func (l *Lease) Holder() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.told.Site
}

// Foreign is the highest epoch that another site has held the lease for; 0: none is known.
func (l *Lease) Foreign() int64 {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.told.By == l.Site {
		return 0
	}
	return l.told.Epoch
}

// Step looks at the lease, and takes or keeps it where acquire says so and nobody else
// can have it. epoch is the one that the site leads in, or begins once it has the lease:
// whoever held it before must be able to tell, even if this site dies in between.
//
// A key that is not there was never given back: it may have been removed from under
// its holder, who does not know yet.
func (l *Lease) Step(ctx context.Context, acquire bool, epoch int64) error {
	l.step.Lock()
	defer l.step.Unlock()
	l.mu.Lock()
	l.defaults()
	l.mu.Unlock()
	err := l.try(ctx, acquire, epoch)
	l.mu.Lock()
	defer l.mu.Unlock()
	l.short = err != nil
	return err
}

// try is a Step. A question that hangs must leave time for others.
func (l *Lease) try(ctx context.Context, acquire bool, epoch int64) error {
	asking, cancel := context.WithTimeout(ctx, l.Life/4)
	defer cancel()
	cell, err := l.Register.Read(asking)
	if err != nil {
		return err
	}
	now := l.Clock()
	var held holding
	if len(cell.Value) > 0 && json.Unmarshal(cell.Value, &held) != nil {
		held = holding{Site: "?"} // whatever it is, it is somebody's
	}
	l.mu.Lock()
	if cell.Index != l.seen || l.since.IsZero() {
		l.seen, l.since = cell.Index, now
	}
	l.told = held
	if held.Site == l.Site && held.Replica != l.Replica {
		l.other = now
	}
	life := max(l.Life, time.Duration(held.Life)*time.Millisecond)
	free := held.Site == "" || held.Site == l.Site || now.Sub(l.since) >= life
	var fresh string
	if held.Site == l.Site {
		fresh = held.New
	}
	if fresh != l.fresh {
		l.fresh, l.began = fresh, now
	}
	switch {
	case fresh != "" && now.Sub(l.began) >= l.Life:
		fresh = ""
	case held.Site == "" && held.Count == 0 && !Within(now, l.until): // who acts on its lease goes on
		fresh = rand.Text()
	}
	l.mu.Unlock()
	if !acquire || !free || held.Epoch > epoch {
		return nil
	}
	next := holding{Site: l.Site, Epoch: epoch, By: held.By, Life: l.Life.Milliseconds(), Count: held.Count + 1, Replica: l.Replica, New: fresh}
	if epoch > held.Epoch {
		next.By = l.Site
	}
	value, err := json.Marshal(next)
	if err != nil {
		return err
	}
	sent := l.Clock()
	writing, cancel := context.WithTimeout(ctx, l.Life/4)
	defer cancel()
	ok, err := l.Register.Write(writing, value, cell.Index)
	if err != nil || !ok {
		return err
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	l.told = next
	if fresh == "" {
		l.until = sent.Add(l.Life - l.Margin)
	} else if fresh != l.fresh {
		l.fresh, l.began = fresh, l.Clock()
	}
	return nil
}

// Release gives the lease back, so that nobody has to wait for its end. The process must
// not act any more when it is called. While another replica of the site may act on the
// lease, it is left to end by itself.
func (l *Lease) Release(ctx context.Context) error {
	l.step.Lock()
	defer l.step.Unlock()
	l.mu.Lock()
	had, shared := !l.until.IsZero(), !l.other.IsZero() && l.Clock().Sub(l.other) < l.Life
	l.until = time.Time{}
	l.mu.Unlock()
	if !had || shared {
		return nil
	}
	cell, err := l.Register.Read(ctx)
	if err != nil {
		return err
	}
	var held holding
	if json.Unmarshal(cell.Value, &held) != nil || held.Site != l.Site || held.Replica != l.Replica {
		return nil
	}
	value, err := json.Marshal(holding{Epoch: held.Epoch, By: held.By, Count: held.Count + 1})
	if err == nil {
		_, err = l.Register.Write(ctx, value, cell.Index)
	}
	return err
}
