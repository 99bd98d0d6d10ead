package rfc2136_test

import (
	"context"
	"io"
	"net"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	wire "github.com/miekg/dns"

	"github.com/droverhq/drover/internal/dns"
	"github.com/droverhq/drover/internal/dns/rfc2136"
	"github.com/droverhq/drover/internal/fault"
	"github.com/droverhq/drover/test/bind"
)

const zone = "drover.test"

func provider(t *testing.T, c rfc2136.Config) *rfc2136.Provider {
	t.Helper()
	p, err := rfc2136.Open(c)
	if err != nil {
		t.Fatal(err)
	}
	return p
}

// What a wildcard answers for is not there, and may be made.
func TestWildcards(t *testing.T) {
	s := bind.Start(t, zone)
	s.Add(t, zone, `*.drover.test. 60 CNAME parking.test.`, `*.sub.drover.test. 60 TXT "v=spf1 -all"`)
	r, err := dns.New(dns.Config{Installation: "here", Zones: []dns.Zone{{Name: zone, Servers: []string{s.Addr},
		Provider: provider(t, rfc2136.Config{Server: s.Addr, Key: bind.Key, Secret: s.Secret})}}})
	if err != nil {
		t.Fatal(err)
	}
	hosts := []string{"one." + zone, "two.sub." + zone}
	for _, h := range hosts {
		if err := r.Ensure(t.Context(), []dns.Record{{Host: h, Target: "there.test", Owner: "instance/1"}}); err != nil {
			t.Error(err)
		}
	}
	if n := len(s.Records(t, zone)); n != 6 {
		t.Errorf("the zone has %d records: %v", n, s.Records(t, zone))
	}
	if err := r.Remove(t.Context(), "instance/1", append(hosts, "three."+zone)); err != nil {
		t.Error(err)
	}
	if got := s.Records(t, zone); len(got) != 2 {
		t.Errorf("the wildcards should be left, but there is %v", got)
	}
}

// Whatever a server says that is not about the records, nothing is known of them.
func TestAnswersThatTellNothing(t *testing.T) {
	s := bind.Start(t, zone)
	const wrong = "c2VjcmV0c2VjcmV0c2VjcmV0c2VjcmV0"
	unsigned := serve(t, func(w wire.ResponseWriter, q *wire.Msg) {
		a := new(wire.Msg).SetRcode(q, wire.RcodeNameError)
		a.Authoritative = true
		w.WriteMsg(a)
	})
	broken := serve(t, func(w wire.ResponseWriter, q *wire.Msg) {
		w.WriteMsg(new(wire.Msg).SetRcode(q, wire.RcodeServerFailure))
	})
	hearsay := serve(t, func(w wire.ResponseWriter, q *wire.Msg) { w.WriteMsg(new(wire.Msg).SetRcode(q, wire.RcodeNameError)) })
	silent := serve(t, func(wire.ResponseWriter, *wire.Msg) {})
	closed, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	closed.Close()
	for _, tc := range []struct {
		reason string
		config rfc2136.Config
		zone   string
	}{
		{"a wrong secret", rfc2136.Config{Server: s.Addr, Key: bind.Key, Secret: wrong}, zone},
		{"a key that it does not know", rfc2136.Config{Server: s.Addr, Key: "other", Secret: wrong}, zone},
		{"a zone that it does not have", rfc2136.Config{Server: s.Addr, Key: bind.Key, Secret: s.Secret}, "other.test"},
		{"an answer that anybody may have sent", rfc2136.Config{Server: unsigned, Key: bind.Key, Secret: s.Secret}, zone},
		{"a failure", rfc2136.Config{Server: broken}, zone},
		{"hearsay", rfc2136.Config{Server: hearsay}, zone},
		{"silence", rfc2136.Config{Server: silent}, zone},
		{"nobody there", rfc2136.Config{Server: closed.Addr().String()}, zone},
	} {
		t.Run(tc.reason, func(t *testing.T) {
			ctx, cancel := context.WithTimeout(t.Context(), 500*time.Millisecond)
			defer cancel()
			p := provider(t, tc.config)
			got, err := p.Lookup(ctx, tc.zone, []string{"x." + tc.zone})
			if !fault.Is(err, fault.Unavailable) || got != nil {
				t.Errorf("a look-up gives %v, %v", got, err)
			}
			edit := p.Edit(ctx, tc.zone, []dns.Edit{{Want: []dns.RR{{Name: "x." + tc.zone, Type: "CNAME", Data: "there.test", TTL: 300}}}})
			if tc.reason != "hearsay" && tc.reason != "an answer that anybody may have sent" && !fault.Is(edit, fault.Unavailable) {
				t.Errorf("an edit gives %v", edit)
			}
			for _, err := range []error{err, edit} {
				if err != nil && (strings.Contains(err.Error(), wrong) || strings.Contains(err.Error(), s.Secret)) {
					t.Errorf("the secret is in %q", err)
				}
			}
		})
	}
}

// A question may be asked again on another connection, a change may not.
func TestConnectionsThatBreak(t *testing.T) {
	s := bind.Start(t, zone)
	s.Add(t, zone, `one.drover.test. 60 CNAME there.test.`)
	for _, tc := range []struct {
		reason string
		breaks int64 // so many connections, the first ones
		looks  bool  // that the look-up brings the record
	}{
		{"none breaks", 0, true},
		{"one breaks", 1, true},
		{"the last spare one holds", 3, true},
		{"it is not tried for ever", 1000, false},
	} {
		t.Run(tc.reason, func(t *testing.T) {
			addr, seen := breaking(t, s.Addr, tc.breaks)
			p := provider(t, rfc2136.Config{Server: addr, Key: bind.Key, Secret: s.Secret})
			got, err := p.Lookup(t.Context(), zone, []string{"one." + zone})
			if tc.looks && (err != nil || len(got) != 1) || !tc.looks && (!fault.Is(err, fault.Unavailable) || got != nil) {
				t.Errorf("a look-up gives %v, %v after %d connections", got, err, seen.Load())
			}
			before := seen.Load()
			err = p.Edit(t.Context(), zone, []dns.Edit{{Want: []dns.RR{{Name: "two." + zone, Type: "CNAME", Data: "there.test", TTL: 300}}}})
			if n := seen.Load() - before; n != 1 {
				t.Errorf("an edit was tried %d times: %v", n, err)
			}
			if tc.looks != (err == nil) {
				t.Errorf("an edit gives %v", err)
			}
			s.Delete(t, zone, "two."+zone, "CNAME")
		})
	}
}

// breaking carries connections to a server, after it has ended the first ones.
func breaking(t *testing.T, target string, first int64) (addr string, seen *atomic.Int64) {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { l.Close() })
	seen = new(atomic.Int64)
	go func() { // one, until the test ends
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			if seen.Add(1) <= first {
				c.Close()
				continue
			}
			up, err := net.Dial("tcp", target)
			if err != nil {
				c.Close()
				continue
			}
			go func() { defer up.Close(); _, _ = io.Copy(up, c) }()
			go func() { defer c.Close(); _, _ = io.Copy(c, up) }()
		}
	}()
	return l.Addr().String(), seen
}

// Without the right to update, what a key may read is all that is known.
func TestAKeyThatMayNotUpdate(t *testing.T) {
	s := bind.Start(t, zone)
	p := provider(t, rfc2136.Config{Server: s.Addr})
	err := p.Edit(t.Context(), zone, []dns.Edit{{Want: []dns.RR{{Name: "x." + zone, Type: "CNAME", Data: "there.test", TTL: 300}}}})
	if !fault.Is(err, fault.Unavailable) || !strings.Contains(err.Error(), "REFUSED") {
		t.Errorf("got %v", err)
	}
	if got := s.Records(t, zone); len(got) != 0 {
		t.Errorf("the zone has %v", got)
	}
}

func TestSettings(t *testing.T) {
	file := filepath.Join(t.TempDir(), "secret")
	if err := os.WriteFile(file, []byte("c2VjcmV0\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	garbage := filepath.Join(t.TempDir(), "garbage")
	if err := os.WriteFile(garbage, []byte("hunter2!"), 0o600); err != nil {
		t.Fatal(err)
	}
	for _, tc := range []struct {
		reason   string
		settings dns.Settings
		bad      bool
	}{
		{"a server that trusts addresses", dns.Settings{"server": "192.0.2.1"}, false},
		{"a key", dns.Settings{"server": "192.0.2.1:5353", "tsig-key": "k", "tsig-secret-file": file, "tsig-algorithm": "HMAC-SHA512"}, false},
		{"no server", dns.Settings{}, true},
		{"a key without its secret", dns.Settings{"server": "192.0.2.1", "tsig-key": "k"}, true},
		{"a secret without its key", dns.Settings{"server": "192.0.2.1", "tsig-secret-file": file}, true},
		{"a secret that is none", dns.Settings{"server": "192.0.2.1", "tsig-key": "k", "tsig-secret-file": garbage}, true},
		{"an algorithm that is none", dns.Settings{"server": "192.0.2.1", "tsig-algorithm": "rot13"}, true},
		{"a misspelt setting", dns.Settings{"server": "192.0.2.1", "tsig-kee": "k"}, true},
	} {
		_, err := rfc2136.New(tc.settings)
		if (err != nil) != tc.bad || err != nil && (!fault.Is(err, fault.Invalid) || strings.Contains(err.Error(), "hunter2")) {
			t.Errorf("%s: got %v", tc.reason, err)
		}
	}
}

func serve(t *testing.T, answer func(wire.ResponseWriter, *wire.Msg)) string {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	up := make(chan struct{})
	s := &wire.Server{Listener: l, Handler: wire.HandlerFunc(answer), NotifyStartedFunc: func() { close(up) }}
	go s.ActivateAndServe() // one, until the test ends
	<-up
	t.Cleanup(func() { s.Shutdown() })
	return l.Addr().String()
}
