package dns

import (
	"context"
	"slices"
	"sync"
	"time"

	"github.com/droverhq/drover/internal/fault"
	"github.com/droverhq/drover/internal/resilience"
)

// job is one host that is to be ensured or removed.
type job struct {
	ctx    context.Context // of the caller: nothing is begun for one that left
	lane   *lane
	host   string
	target string
	mark   string
	remove bool
	done   chan error
}

// plan returns what the host is to have.
func (j *job) plan(had []RR) ([]RR, error) {
	if j.remove {
		return planRemove(j.host, j.mark, had), nil
	}
	return planEnsure(j.host, j.target, j.mark, had)
}

// lane carries the jobs of one zone, in batches, one after the other.
type lane struct {
	zone     string
	provider Provider
	policy   *resilience.Policy
	witness  *witness
	window   time.Duration
	batch    int

	mu      sync.Mutex
	waiting []*job
	running bool
}

func (l *lane) add(j *job) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.waiting = append(l.waiting, j)
	if !l.running {
		l.running = true
		go l.run()
	}
}

func (l *lane) run() {
	for {
		time.Sleep(l.window) // others that come at about the same time join
		if jobs := l.take(); len(jobs) > 0 {
			l.work(jobs, 0)
		}
		if !l.more() {
			return
		}
	}
}

func (l *lane) more() bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.running = len(l.waiting) > 0
	return l.running
}

// take returns the next batch. A host is in it at most once: what is wanted of
// it later waits, and sees what the first has done.
func (l *lane) take() []*job {
	l.mu.Lock()
	defer l.mu.Unlock()
	var batch, later []*job
	hosts := map[string]bool{}
	for _, j := range l.waiting {
		switch {
		case j.ctx.Err() != nil:
			j.done <- j.ctx.Err()
		case len(batch) < l.batch && !hosts[j.host]:
			batch = append(batch, j)
			hosts[j.host] = true
		default:
			later = append(later, j)
		}
	}
	l.waiting = later
	return batch
}

// rounds bounds how often one host is read again because it changed meanwhile.
const rounds = 3

// work does a batch: read, decide, write, read back. Whatever fails for a reason
// that a single record may have is done again in halves, so that it fails alone.
func (l *lane) work(jobs []*job, round int) {
	// Callers do not share their contexts: one that leaves must not stop the others.
	ctx := context.Background()
	before, err := l.lookup(ctx, jobs)
	if err != nil {
		l.failed(jobs, round, err)
		return
	}
	var edits []Edit
	var changing []*job
	for _, j := range jobs {
		had := before[j.host]
		want, err := j.plan(had)
		if err != nil {
			j.done <- err
			continue
		}
		e := Edit{Had: had, Want: want}
		if len(e.Gone())+len(e.Added()) == 0 {
			j.done <- nil
			continue
		}
		edits, changing = append(edits, e), append(changing, j)
	}
	if len(changing) == 0 {
		return
	}
	// A second attempt could meet what the first has done: that is for the next round.
	err = l.policy.Once(ctx, func(ctx context.Context) error { return l.provider.Edit(ctx, l.zone, edits) })
	if err != nil {
		l.failed(changing, round, err)
		return
	}
	after, err := l.lookup(ctx, changing)
	if err != nil {
		l.failed(changing, rounds, err)
		return
	}
	for _, j := range changing {
		want, err := j.plan(after[j.host])
		e := Edit{Had: after[j.host], Want: want}
		if err == nil && len(e.Gone())+len(e.Added()) > 0 {
			err = fault.New(fault.Unavailable, "the DNS server of zone %s has not taken over %s yet", l.zone, j.host).Because("dns-pending")
		}
		j.done <- err
	}
}

func (l *lane) failed(jobs []*job, round int, err error) {
	switch kind := fault.Of(err); {
	case kind == fault.Unavailable:
		// Nobody would fare better alone.
		for _, j := range jobs {
			j.done <- err
		}
	case len(jobs) > 1:
		half := len(jobs) / 2
		l.work(jobs[:half], round)
		l.work(jobs[half:], round)
	case kind == fault.Conflict && round < rounds:
		l.work(jobs, round+1) // it changed since it was read: look again
	case kind == fault.Conflict:
		jobs[0].done <- notOurs("%s has records that were not made here: %w", jobs[0].host, err)
	case kind == fault.Internal:
		jobs[0].done <- fault.New(fault.Unavailable, "the DNS server of zone %s refuses %s: %w", l.zone, jobs[0].host, err).Because("dns-refused")
	default:
		jobs[0].done <- err
	}
}

// lookup returns what each host and its mark have.
func (l *lane) lookup(ctx context.Context, jobs []*job) (map[string][]RR, error) {
	var names []string
	host := map[string]string{}
	for _, j := range jobs {
		names = append(names, j.host, markName(j.host))
		host[j.host], host[markName(j.host)] = j.host, j.host
	}
	var found []RR
	err := l.policy.Do(ctx, func(ctx context.Context) (err error) {
		found, err = l.provider.Lookup(ctx, l.zone, names)
		return err
	})
	if err != nil {
		return nil, err
	}
	states := map[string][]RR{}
	for _, r := range found {
		if h, ok := host[r.Name]; ok && !slices.Contains(states[h], r) {
			states[h] = append(states[h], r)
		}
	}
	return states, nil
}
