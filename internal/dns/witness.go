package dns

import (
	"context"
	"net"
	"sync"
	"time"

	"github.com/miekg/dns"

	"github.com/droverhq/drover/internal/fault"
	"github.com/droverhq/drover/internal/resilience"
)

// witness asks the name servers of a zone what the world would be told.
type witness struct {
	zone     string
	provider Provider
	policy   *resilience.Policy // of the name servers, which may be others than who is written to
	timeout  time.Duration      // of one question
	patience time.Duration      // until an answer is right

	mu      sync.Mutex
	servers []string
	asked   bool // the provider, who had none
}

// wait returns once every name server that answers shows the record, and at
// least one does. Where none has answered for a while it is not waited for: they
// are given a rest, and whoever wants it comes again.
func (w *witness) wait(ctx context.Context, host, target string) error {
	ctx, cancel := context.WithTimeout(ctx, w.patience)
	defer cancel()
	servers, err := w.addresses(ctx)
	if err != nil {
		return err
	}
	if len(servers) == 0 {
		return nil // the provider's own answer was the proof
	}
	pause := 50 * time.Millisecond
	var last error
	for {
		var pending error // they answered, and that is what the policy counts
		err := w.policy.Once(ctx, func(ctx context.Context) error {
			err := w.ask(ctx, servers, host, target)
			if fault.Reason(err) == "dns-pending" {
				pending, err = err, nil
			}
			return err
		})
		resting := fault.Reason(err) == "breaker-open"
		switch {
		case err == nil && pending == nil:
			return nil
		case err == nil:
			err = pending
		case last != nil && (resting || over(ctx)):
			return last // it names the server; a question that was cut short tells nothing
		case resting:
			return err
		}
		last = err
		select {
		case <-ctx.Done():
			return err
		case <-time.After(pause):
			pause = min(2*pause, time.Second)
		}
	}
}

func (w *witness) ask(ctx context.Context, servers []string, host, target string) error {
	var away error
	seen := false
	for _, s := range servers {
		got, err := w.cname(ctx, s, host)
		switch {
		case err != nil:
			away = fault.New(fault.Unavailable, "the name server %s does not answer for %s: %w", s, host, err).Because("dns-away")
			if over(ctx) {
				return away // there was no time for it: what others show is no proof
			}
		case got != target:
			return fault.New(fault.Unavailable, "the name server %s does not show %s yet", s, host).Because("dns-pending")
		default:
			seen = true
		}
	}
	if seen {
		return nil
	}
	return away
}

// over tells whether there is no time left. A socket knows it a moment before its context.
func over(ctx context.Context) bool {
	end, bound := ctx.Deadline()
	return ctx.Err() != nil || bound && !time.Now().Before(end)
}

// cname asks one server; no record is an empty target.
func (w *witness) cname(ctx context.Context, server, host string) (string, error) {
	ctx, cancel := context.WithTimeout(ctx, w.timeout)
	defer cancel()
	q := new(dns.Msg).SetQuestion(dns.Fqdn(host), dns.TypeCNAME)
	q.RecursionDesired = false // what others remember is no proof
	a, _, err := (&dns.Client{Timeout: w.timeout}).ExchangeContext(ctx, q, server)
	if err == nil && a.Truncated {
		a, _, err = (&dns.Client{Net: "tcp", Timeout: w.timeout}).ExchangeContext(ctx, q, server)
	}
	switch {
	case err != nil:
		return "", err
	case a.Rcode != dns.RcodeSuccess && a.Rcode != dns.RcodeNameError:
		return "", fault.New(fault.Unavailable, "it says %s", dns.RcodeToString[a.Rcode])
	case !a.Authoritative:
		return "", fault.New(fault.Unavailable, "it is not a server of this zone")
	}
	for _, rr := range a.Answer {
		if c, ok := rr.(*dns.CNAME); ok && Canonical(c.Hdr.Name) == host {
			return Canonical(c.Target), nil
		}
	}
	return "", nil
}

// addresses are the configured servers, or else those that the provider names.
func (w *witness) addresses(ctx context.Context) ([]string, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if len(w.servers) == 0 && !w.asked {
		if a, ok := w.provider.(Authority); ok {
			var names []string
			err := w.policy.Do(ctx, func(ctx context.Context) (err error) {
				names, err = a.Servers(ctx, w.zone)
				return err
			})
			if err != nil {
				return nil, fault.New(fault.Unavailable, "cannot learn the name servers of zone %s: %w", w.zone, err).Because("dns-away")
			}
			w.servers = names
		}
		w.asked = true
	}
	out := make([]string, len(w.servers))
	for i, s := range w.servers {
		if _, _, err := net.SplitHostPort(s); err != nil {
			s = net.JoinHostPort(s, "53")
		}
		out[i] = s
	}
	return out, nil
}
