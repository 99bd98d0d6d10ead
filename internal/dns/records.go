package dns

import (
	"cmp"
	"context"
	"errors"
	"slices"
	"strings"
	"time"

	"github.com/droverhq/drover/internal/fault"
	"github.com/droverhq/drover/internal/resilience"
)

// Zone is one that records are kept in.
type Zone struct {
	Name     string // "example.org"; of several, the longest that holds a host has it
	Provider Provider
	// Servers are the name servers that must show a record before it counts as
	// there, as "host:port" or "host". Default: those that the provider names
	// (Authority), and where it names none, the provider's own answer counts.
	Servers []string
}

// Authority is a provider that knows the name servers of its zones.
type Authority interface {
	Servers(ctx context.Context, zone string) ([]string, error)
}

// Paced is a provider with limits of its own, which go before the defaults.
type Paced interface {
	Pace() (batch int, timeout time.Duration)
}

// Config of New.
type Config struct {
	Zones []Zone
	// Installation tells this control plane from others that use the zones.
	Installation string
	// Window in which calls are gathered into one; default 5 ms.
	Window time.Duration
	// Batch is the most hosts in one call of a provider; default 50.
	Batch int
	// Timeout of one call of a provider; default 10 s. One question to a name
	// server has at most 5 s of it.
	Timeout time.Duration
	// Verify is how long Ensure waits until the name servers show a record;
	// default 10 s.
	Verify time.Duration
	// Rest of a zone whose server failed five times in a row; default 10 s.
	Rest time.Duration
	// Observer of the calls that leave, and of the breaker; nil: none.
	Observer resilience.Observer
}

// New makes Records of zones; without zones there are none, which is nil.
// Goroutines: at most one per zone, which ends when nothing waits.
func New(c Config) (Records, error) {
	if len(c.Zones) == 0 {
		return nil, nil
	}
	if !plain.MatchString(c.Installation) {
		return nil, fault.New(fault.Invalid, "the installation's name for DNS marks must be 1 to 100 of A-Z a-z 0-9 . _ / : -")
	}
	c.Window = cmp.Or(c.Window, 5*time.Millisecond)
	c.Verify = cmp.Or(c.Verify, 10*time.Second)
	k := &keeper{installation: c.Installation}
	for _, z := range c.Zones {
		name := Canonical(z.Name)
		if err := checkName("zone", name); err != nil {
			return nil, err
		}
		if z.Provider == nil {
			return nil, fault.New(fault.Invalid, "the zone %q has no provider", name).Because("zone")
		}
		if k.lane(name) != nil && k.lane(name).zone == name {
			return nil, fault.New(fault.Invalid, "the zone %q is named twice", name).Because("zone")
		}
		batch, timeout := c.Batch, c.Timeout
		if p, ok := z.Provider.(Paced); ok && batch == 0 {
			batch, _ = p.Pace()
		}
		if p, ok := z.Provider.(Paced); ok && timeout == 0 {
			_, timeout = p.Pace()
		}
		timeout = cmp.Or(timeout, 10*time.Second)
		k.lanes = append(k.lanes, &lane{
			zone: name, provider: z.Provider, window: c.Window, batch: cmp.Or(batch, 50),
			witness: &witness{
				zone: name, provider: z.Provider, servers: z.Servers, timeout: min(timeout, 5*time.Second), patience: c.Verify,
				policy: resilience.New(resilience.Config{
					Name: "the DNS servers that show zone " + name, Timeout: max(timeout, c.Verify), Rest: c.Rest, Observer: c.Observer,
				}),
			},
			policy: resilience.New(resilience.Config{
				Name: "the DNS server of zone " + name, Timeout: timeout, Rest: c.Rest, Observer: c.Observer,
			}),
		})
		// The longest name first, so that the first that holds a host has it.
		slices.SortFunc(k.lanes, func(a, b *lane) int { return len(b.zone) - len(a.zone) })
	}
	return k, nil
}

type keeper struct {
	installation string
	lanes        []*lane
}

// lane returns that of a host's zone, nil if there is none.
func (k *keeper) lane(host string) *lane {
	for _, l := range k.lanes {
		if host == l.zone || strings.HasSuffix(host, "."+l.zone) {
			return l
		}
	}
	return nil
}

// Ensure implements Records.
func (k *keeper) Ensure(ctx context.Context, records []Record) error {
	var jobs []*job
	for _, r := range records {
		j, err := k.job(ctx, r.Owner, r.Host)
		if err != nil {
			return err
		}
		if j.target = Canonical(r.Target); j.target == j.host {
			return fault.New(fault.Invalid, "the host %q cannot point to itself", j.host).Because("dns-name")
		}
		if err := checkName("target", j.target); err != nil {
			return err
		}
		jobs = append(jobs, j)
	}
	return k.run(ctx, jobs, func(ctx context.Context, j *job) error {
		return j.lane.witness.wait(ctx, j.host, j.target)
	})
}

// Remove implements Records.
func (k *keeper) Remove(ctx context.Context, owner string, hosts []string) error {
	var jobs []*job
	for _, h := range hosts {
		j, err := k.job(ctx, owner, h)
		if err != nil {
			return err
		}
		j.remove = true
		jobs = append(jobs, j)
	}
	return k.run(ctx, jobs, func(context.Context, *job) error { return nil })
}

func (k *keeper) job(ctx context.Context, owner, host string) (*job, error) {
	host = Canonical(host)
	if err := checkName("host", host); err != nil {
		return nil, err
	}
	if !plain.MatchString(owner) {
		return nil, fault.New(fault.Invalid, "the owner of host %q cannot be written down", host)
	}
	l := k.lane(host)
	if l == nil || l.zone == host {
		return nil, fault.New(fault.Invalid, "the host %q is in none of the zones that are kept here", host).Because("zone")
	}
	return &job{ctx: ctx, lane: l, host: host, mark: markText(k.installation, owner), done: make(chan error, 1)}, nil
}

// run hands all jobs over, so that they travel together, and waits for each.
func (k *keeper) run(ctx context.Context, jobs []*job, then func(context.Context, *job) error) error {
	for _, j := range jobs {
		j.lane.add(j)
	}
	var worst error
	for _, j := range jobs {
		var err error
		select {
		case err = <-j.done:
		case <-ctx.Done():
			err = ctx.Err()
		}
		if err == nil {
			err = then(ctx, j)
		}
		worst = worse(worst, err)
	}
	return worst
}

// worse returns the error that the caller has to know first: what time does not
// heal before what it does.
func worse(a, b error) error {
	rank := func(err error) int {
		switch {
		case err == nil:
			return 0
		case errors.Is(err, context.Canceled), errors.Is(err, context.DeadlineExceeded):
			return 1
		case fault.Is(err, fault.Unavailable):
			return 2
		}
		return 3
	}
	if rank(b) > rank(a) {
		return b
	}
	return a
}
