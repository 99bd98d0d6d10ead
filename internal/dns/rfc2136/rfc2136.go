// Package rfc2136 keeps records on name servers that take dynamic updates: BIND,
// Knot, PowerDNS and others.
//
// It owns the messages: signed questions, and updates that depend on what was
// seen, so that the server itself refuses to overwrite what somebody else made.
// It must not know marks, nor who owns what.
package rfc2136

import (
	"cmp"
	"context"
	"encoding/base64"
	"errors"
	"net"
	"slices"
	"strings"
	"sync"

	"github.com/miekg/dns"

	ours "github.com/droverhq/drover/internal/dns"
	"github.com/droverhq/drover/internal/fault"
)

// Config of a Provider.
type Config struct {
	Server    string // "host:port", or "host" for port 53: the primary, which takes updates
	Key       string // name of the TSIG key; empty: nothing is signed
	Secret    string // of the key, base64
	Algorithm string // "hmac-sha256" (default), "hmac-sha512", ...
}

// Provider is a primary name server. It keeps no connections.
type Provider struct {
	server, key, algorithm string
	secrets                map[string]string
}

// lanes is how many connections a look-up uses: answers are awaited one by one
// on each.
const lanes = 8

var algorithms = []string{"hmac-sha1", "hmac-sha224", "hmac-sha256", "hmac-sha384", "hmac-sha512"}

// New makes a provider of settings: server, tsig-key, tsig-algorithm and
// tsig-secret-file or tsig-secret-env.
func New(s ours.Settings) (ours.Provider, error) {
	if err := s.Check("rfc2136", "server", "tsig-key", "tsig-algorithm", "tsig-secret-file", "tsig-secret-env"); err != nil {
		return nil, err
	}
	secret, err := s.Secret("tsig-secret")
	if err != nil {
		return nil, err
	}
	return Open(Config{Server: s["server"], Key: s["tsig-key"], Secret: secret, Algorithm: s["tsig-algorithm"]})
}

// Open makes a provider. The server is not asked yet.
func Open(c Config) (*Provider, error) {
	invalid := func(text string) (*Provider, error) {
		return nil, fault.New(fault.Invalid, "the DNS provider rfc2136 %s", text).Because("dns-setting")
	}
	if c.Server == "" {
		return invalid("needs a server")
	}
	if _, _, err := net.SplitHostPort(c.Server); err != nil {
		c.Server = net.JoinHostPort(strings.Trim(c.Server, "[]"), "53")
	}
	c.Algorithm = strings.ToLower(strings.TrimSuffix(cmp.Or(c.Algorithm, "hmac-sha256"), "."))
	if !slices.Contains(algorithms, c.Algorithm) {
		return invalid("knows these TSIG algorithms: " + strings.Join(algorithms, ", "))
	}
	if (c.Key == "") != (c.Secret == "") {
		return invalid("needs both the name and the secret of a TSIG key, or neither")
	}
	if _, err := base64.StdEncoding.DecodeString(c.Secret); err != nil {
		return invalid("needs a TSIG secret in base64") // the error would show a part of it
	}
	p := &Provider{server: c.Server, algorithm: dns.Fqdn(c.Algorithm)}
	if c.Key != "" {
		p.key = dns.CanonicalName(c.Key)
		p.secrets = map[string]string{p.key: c.Secret}
	}
	return p, nil
}

// Lookup asks for the TXT records of each name, which brings its CNAME as well.
// What a wildcard answers for is then told from what is really there.
func (p *Provider) Lookup(ctx context.Context, zone string, names []string) ([]ours.RR, error) {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	found := make([][]ours.RR, len(names))
	var wait sync.WaitGroup
	for lane := range min(lanes, len(names)) {
		wait.Go(func() { // at most `lanes`, each ends with its share
			l := &line{provider: p, spare: spares}
			defer l.close()
			for i := lane; i < len(names) && ctx.Err() == nil; i += lanes {
				var err error
				if found[i], err = p.ask(ctx, l, zone, names[i]); err != nil {
					cancel(err)
				}
			}
		})
	}
	wait.Wait()
	if ctx.Err() != nil {
		return nil, p.away(context.Cause(ctx))
	}
	var used []string
	for i, rrs := range found {
		if len(rrs) > 0 {
			used = append(used, names[i])
		}
	}
	real, err := p.inUse(ctx, zone, used)
	if err != nil {
		return nil, err
	}
	var out []ours.RR
	for _, rrs := range found {
		for _, r := range rrs {
			if slices.Contains(real, r.Name) {
				out = append(out, r)
			}
		}
	}
	return out, nil
}

func (p *Provider) ask(ctx context.Context, l *line, zone, name string) ([]ours.RR, error) {
	q := new(dns.Msg).SetQuestion(dns.Fqdn(name), dns.TypeTXT)
	q.RecursionDesired = false
	a, err := l.exchange(ctx, q)
	switch {
	case err != nil:
		return nil, err
	case a.Rcode != dns.RcodeSuccess && a.Rcode != dns.RcodeNameError:
		return nil, p.says(a.Rcode, zone)
	case !a.Authoritative:
		return nil, fault.New(fault.Unavailable, "the DNS server %s is not one of zone %s", p.server, zone)
	}
	var out []ours.RR
	for _, rr := range a.Answer {
		if ours.Canonical(rr.Header().Name) != name {
			continue // where a CNAME leads to
		}
		switch r := rr.(type) {
		case *dns.CNAME:
			out = append(out, ours.RR{Name: name, Type: "CNAME", Data: ours.Canonical(r.Target), TTL: r.Hdr.Ttl})
		case *dns.TXT:
			out = append(out, ours.RR{Name: name, Type: "TXT", Data: strings.Join(r.Txt, ""), TTL: r.Hdr.Ttl})
		}
	}
	return out, nil
}

// inUse returns those of the names that have records of their own: an update
// that changes nothing asks for them all at once, and for each if that fails.
func (p *Provider) inUse(ctx context.Context, zone string, names []string) ([]string, error) {
	if len(names) == 0 {
		return nil, nil
	}
	m := new(dns.Msg).SetUpdate(dns.Fqdn(zone))
	for _, n := range names {
		m.NameUsed([]dns.RR{&dns.ANY{Hdr: dns.RR_Header{Name: dns.Fqdn(n)}}})
	}
	rcode, err := p.update(ctx, m, spares)
	switch {
	case err != nil:
		return nil, err
	case rcode == dns.RcodeSuccess:
		return names, nil
	case rcode != dns.RcodeNameError:
		return nil, p.says(rcode, zone)
	case len(names) == 1:
		return nil, nil
	}
	half := len(names) / 2
	one, err := p.inUse(ctx, zone, names[:half])
	if err != nil {
		return nil, err
	}
	two, err := p.inUse(ctx, zone, names[half:])
	return append(slices.Clone(one), two...), err
}

// Edit sends one update: the server makes all of it, if everything is as seen,
// or nothing.
func (p *Provider) Edit(ctx context.Context, zone string, edits []ours.Edit) error {
	m := new(dns.Msg).SetUpdate(dns.Fqdn(zone))
	for _, e := range edits {
		had := map[string]bool{}
		for _, r := range e.Had {
			had[r.Name] = true
			m.Used([]dns.RR{wire(r)})
		}
		var fresh []dns.RR
		for _, r := range e.Added() {
			if !had[r.Name] {
				had[r.Name] = true
				fresh = append(fresh, wire(r))
			}
		}
		m.NameNotUsed(fresh)
		for _, r := range e.Gone() {
			m.Remove([]dns.RR{wire(r)})
		}
		for _, r := range e.Added() {
			m.Insert([]dns.RR{wire(r)})
		}
	}
	if m.Len() > dns.MaxMsgSize-1024 { // room for the signature
		return fault.New(fault.Invalid, "the update is too long for one message")
	}
	rcode, err := p.update(ctx, m, 0) // it may have been done when the connection broke
	if err != nil {
		return err
	}
	switch rcode {
	case dns.RcodeSuccess:
		return nil
	case dns.RcodeYXDomain, dns.RcodeYXRrset, dns.RcodeNXRrset, dns.RcodeNameError:
		return fault.New(fault.Conflict, "the DNS server %s says %s", p.server, dns.RcodeToString[rcode])
	case dns.RcodeFormatError:
		return fault.New(fault.Invalid, "the DNS server %s says FORMERR", p.server)
	}
	return p.says(rcode, zone)
}

func wire(r ours.RR) dns.RR {
	header := dns.RR_Header{Name: dns.Fqdn(r.Name), Class: dns.ClassINET, Ttl: r.TTL}
	if r.Type == "CNAME" {
		header.Rrtype = dns.TypeCNAME
		return &dns.CNAME{Hdr: header, Target: dns.Fqdn(r.Data)}
	}
	header.Rrtype = dns.TypeTXT
	var texts []string
	for text := r.Data; ; text = text[255:] {
		if len(text) <= 255 {
			return &dns.TXT{Hdr: header, Txt: append(texts, text)}
		}
		texts = append(texts, text[:255])
	}
}

func (p *Provider) update(ctx context.Context, m *dns.Msg, spare int) (int, error) {
	l := &line{provider: p, spare: spare}
	defer l.close()
	a, err := l.exchange(ctx, m)
	if err != nil {
		return 0, p.away(err)
	}
	return a.Rcode, nil
}

// says is for answers that tell nothing about the records.
func (p *Provider) says(rcode int, zone string) error {
	hint := ""
	switch rcode {
	case dns.RcodeRefused:
		hint = "; does it let this key update and read the zone?"
	case dns.RcodeNotAuth, dns.RcodeBadKey, dns.RcodeBadTime:
		hint = "; is it a server of the zone, does it know the TSIG key, and are both clocks right?"
	}
	return fault.New(fault.Unavailable, "the DNS server %s says %s about zone %s%s", p.server, dns.RcodeToString[rcode], zone, hint).Because("dns-refused")
}

func (p *Provider) away(err error) error {
	if fault.Of(err) != fault.Internal || errors.Is(err, context.Canceled) {
		return err
	}
	if errors.Is(err, dns.ErrSig) || errors.Is(err, dns.ErrAuth) || errors.Is(err, dns.ErrSecret) || errors.Is(err, dns.ErrTime) {
		return fault.New(fault.Unavailable, "the DNS server %s and this one do not agree on the TSIG key %s: %w", p.server, p.key, err).Because("dns-key")
	}
	return fault.New(fault.Unavailable, "the DNS server %s does not answer: %w", p.server, err).Because("dns-away")
}
