package dns_test

import (
	"net"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	wire "github.com/miekg/dns"

	"github.com/droverhq/drover/internal/dns"
	"github.com/droverhq/drover/internal/dns/dnstest"
	"github.com/droverhq/drover/internal/fault"
)

// serve runs a name server on UDP; it returns where.
func serve(t *testing.T, answer func(q *wire.Msg) *wire.Msg) string {
	t.Helper()
	conn, err := net.ListenPacket("udp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	s := &wire.Server{PacketConn: conn, Handler: wire.HandlerFunc(func(w wire.ResponseWriter, q *wire.Msg) {
		if a := answer(q); a != nil {
			w.WriteMsg(a)
		}
	})}
	up := make(chan struct{})
	s.NotifyStartedFunc = func() { close(up) }
	go s.ActivateAndServe() // one, until the test ends
	<-up
	t.Cleanup(func() { s.Shutdown() })
	return conn.LocalAddr().String()
}

func shows(target string) func(q *wire.Msg) *wire.Msg {
	return func(q *wire.Msg) *wire.Msg {
		a := new(wire.Msg).SetReply(q)
		a.Authoritative = true
		if target == "" {
			a.Rcode = wire.RcodeNameError
			return a
		}
		a.Answer = []wire.RR{&wire.CNAME{Hdr: wire.RR_Header{Name: q.Question[0].Name, Rrtype: wire.TypeCNAME, Class: wire.ClassINET}, Target: target}}
		return a
	}
}

func says(rcode int) func(q *wire.Msg) *wire.Msg {
	return func(q *wire.Msg) *wire.Msg { return new(wire.Msg).SetRcode(q, rcode) }
}

func TestNameServersBearWitness(t *testing.T) {
	right := serve(t, shows("There.Test."))
	wrong := serve(t, shows("other.test."))
	none := serve(t, shows(""))
	broken := serve(t, says(wire.RcodeServerFailure))
	refuses := serve(t, says(wire.RcodeRefused))
	silent := serve(t, func(*wire.Msg) *wire.Msg { return nil })
	hearsay := serve(t, func(q *wire.Msg) *wire.Msg {
		a := shows("there.test.")(q)
		a.Authoritative = false
		return a
	})
	for _, tc := range []struct {
		reason  string
		servers []string
		why     string // empty: it is there
	}{
		{"it shows it", []string{right}, ""},
		{"one shows it and the others are away", []string{silent, broken, refuses, right}, ""},
		{"one has another", []string{right, wrong}, "dns-pending"},
		{"one has none", []string{right, none}, "dns-pending"},
		{"a failing server is no answer", []string{broken}, "dns-away"},
		{"a refusal is no answer", []string{refuses}, "dns-away"},
		{"silence is no answer", []string{silent}, "dns-away"},
		{"hearsay is no answer", []string{hearsay}, "dns-away"},
	} {
		t.Run(tc.reason, func(t *testing.T) {
			t.Parallel() // they mostly wait
			m := dnstest.NewMemory()
			r := open(t, dns.Config{
				Timeout: 300 * time.Millisecond, Verify: 1500 * time.Millisecond,
				Zones: []dns.Zone{{Name: "a.test", Provider: dns.Libdns(m), Servers: tc.servers}},
			})
			err := r.Ensure(t.Context(), []dns.Record{{Host: "x.a.test", Target: "there.test", Owner: "instance/1"}})
			if (err != nil) != (tc.why != "") || err != nil && (!fault.Is(err, fault.Unavailable) || fault.Reason(err) != tc.why) {
				t.Errorf("got %v, want %q", err, tc.why)
			}
			if err != nil && !strings.Contains(err.Error(), "127.0.0.1:") {
				t.Errorf("%v does not name the server", err)
			}
			if n := len(m.World("a.test").Records(t)); n != 2 {
				t.Errorf("the zone has %d records: what a name server says removes nothing", n)
			}
		})
	}
}

// What was cut short by the end of patience is no answer, whatever others have shown: the
// last whole one counts.
func TestAQuestionThatIsCutShortIsNoAnswer(t *testing.T) {
	right := serve(t, shows("there.test."))
	var asked atomic.Int32
	slow := serve(t, func(q *wire.Msg) *wire.Msg {
		if asked.Add(1) > 1 {
			return nil // until there is no time any more
		}
		return shows("other.test.")(q)
	})
	r := open(t, dns.Config{
		Timeout: 5 * time.Second, Verify: 400 * time.Millisecond,
		Zones: []dns.Zone{{Name: "a.test", Provider: dns.Libdns(dnstest.NewMemory()), Servers: []string{right, slow}}},
	})
	err := r.Ensure(t.Context(), []dns.Record{{Host: "x.a.test", Target: "there.test", Owner: "instance/1"}})
	if fault.Reason(err) != "dns-pending" || !strings.Contains(err.Error(), slow) {
		t.Errorf("got %v after %d questions", err, asked.Load())
	}
}

func TestNameServersAreWaitedFor(t *testing.T) {
	var asked atomic.Int32
	late := serve(t, func(q *wire.Msg) *wire.Msg {
		if asked.Add(1) < 3 {
			return shows("")(q)
		}
		return shows("there.test.")(q)
	})
	r := open(t, dns.Config{Zones: []dns.Zone{{Name: "a.test", Provider: dns.Libdns(dnstest.NewMemory()), Servers: []string{late}}}})
	if err := r.Ensure(t.Context(), []dns.Record{{Host: "x.a.test", Target: "there.test", Owner: "instance/1"}}); err != nil {
		t.Error(err)
	}
	if n := asked.Load(); n != 3 {
		t.Errorf("it was asked %d times", n)
	}
}

// seen counts the calls that leave, by whom they are made to and what came of them.
type seen struct {
	mu    sync.Mutex
	calls map[string]int
}

func (s *seen) Called(name, outcome string, _ time.Duration) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.calls[name+": "+outcome]++
}
func (*seen) Breaker(string, string, string) {}
func (*seen) Retried(string, bool)           {}

// Name servers of which none answers are left in peace, and whoever waits for them is
// sent away at once; what is written goes on, for it goes to others.
func TestNameServersThatAreAwayAreLeftInPeace(t *testing.T) {
	var asked atomic.Int32
	broken := serve(t, func(q *wire.Msg) *wire.Msg {
		asked.Add(1)
		return says(wire.RcodeServerFailure)(q)
	})
	calls := &seen{calls: map[string]int{}}
	m := dnstest.NewMemory()
	r := open(t, dns.Config{Rest: time.Hour, Verify: time.Minute, Observer: calls,
		Zones: []dns.Zone{{Name: "a.test", Provider: dns.Libdns(m), Servers: []string{broken}}}})
	err := r.Ensure(t.Context(), []dns.Record{{Host: "x.a.test", Target: "there.test", Owner: "instance/1"}})
	if fault.Reason(err) != "dns-away" || !strings.Contains(err.Error(), broken) {
		t.Errorf("got %v, which does not name the server", err)
	}
	err = r.Ensure(t.Context(), []dns.Record{{Host: "y.a.test", Target: "there.test", Owner: "instance/2"}})
	if fault.Reason(err) != "breaker-open" {
		t.Errorf("they are waited for again: %v", err)
	}
	if n := asked.Load(); n != 5 {
		t.Errorf("they were asked %d times", n)
	}
	if n := len(m.World("a.test").Records(t)); n != 4 {
		t.Errorf("the zone has %d records", n)
	}
	calls.mu.Lock()
	defer calls.mu.Unlock()
	if n := calls.calls["the DNS servers that show zone a.test: failed"]; n != 5 {
		t.Errorf("seen: %v", calls.calls)
	}
}
