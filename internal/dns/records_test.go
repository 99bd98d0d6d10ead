package dns_test

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/libdns/libdns"
	"pgregory.net/rapid"

	"github.com/droverhq/drover/internal/dns"
	"github.com/droverhq/drover/internal/dns/dnstest"
	"github.com/droverhq/drover/internal/fault"
)

func open(t testing.TB, c dns.Config) dns.Records {
	t.Helper()
	if c.Installation == "" {
		c.Installation = "here"
	}
	r, err := dns.New(c)
	if err != nil {
		t.Fatal(err)
	}
	return r
}

func TestNoZonesAreNoRecords(t *testing.T) {
	if r, err := dns.New(dns.Config{}); r != nil || err != nil {
		t.Errorf("got %v, %v", r, err)
	}
}

func TestNewRefuses(t *testing.T) {
	p := dns.Libdns(dnstest.NewMemory())
	for _, tc := range []struct {
		reason string
		config dns.Config
	}{
		{"an installation must be told from others", dns.Config{Zones: []dns.Zone{{Name: "a.test", Provider: p}}}},
		{"a mark is one text without commas", dns.Config{Installation: "a,b", Zones: []dns.Zone{{Name: "a.test", Provider: p}}}},
		{"a zone needs a provider", dns.Config{Installation: "a", Zones: []dns.Zone{{Name: "a.test"}}}},
		{"a zone needs a name", dns.Config{Installation: "a", Zones: []dns.Zone{{Provider: p}}}},
		{"a zone has one provider", dns.Config{Installation: "a", Zones: []dns.Zone{{Name: "a.test", Provider: p}, {Name: "A.test.", Provider: p}}}},
	} {
		if _, err := dns.New(tc.config); !fault.Is(err, fault.Invalid) {
			t.Errorf("%s: got %v", tc.reason, err)
		}
	}
}

func TestTheLongestZoneHasAHost(t *testing.T) {
	outer, inner := dnstest.NewMemory(), dnstest.NewMemory()
	r := open(t, dns.Config{Zones: []dns.Zone{{Name: "a.test", Provider: dns.Libdns(outer)}, {Name: "in.a.test", Provider: dns.Libdns(inner)}}})
	for _, tc := range []struct {
		reason, host, why string
		outer, inner      bool
	}{
		{"it is in one", "x.a.test", "", true, false},
		{"it is in both", "x.in.a.test", "", false, true},
		{"the end of the text is not the end of the name", "xin.a.test", "", true, false},
		{"it is in none", "x.b.test", "zone", false, false},
		{"nor is this", "xa.test", "zone", false, false},
		{"beside the zone's own records there is no room for a CNAME", "in.a.test", "zone", false, false},
		{"it is no name", "a b.a.test", "dns-name", false, false},
		{"nor is this", strings.Repeat("a", 64) + ".a.test", "dns-name", false, false},
		{"with its mark it would be too long", strings.Repeat("abcdefg.", 31) + "a.test", "dns-name", false, false},
	} {
		before, within := outer.Calls(), inner.Calls()
		err := r.Ensure(t.Context(), []dns.Record{{Host: tc.host, Target: "there.test", Owner: "instance/1"}})
		if (err != nil) != (tc.why != "") || err != nil && (!fault.Is(err, fault.Invalid) || fault.Reason(err) != tc.why) {
			t.Errorf("%s: got %v, want %q", tc.reason, err, tc.why)
		}
		if got := outer.Calls() > before; got != tc.outer {
			t.Errorf("%s: the outer zone changed: %v", tc.reason, got)
		}
		if got := inner.Calls() > within; got != tc.inner {
			t.Errorf("%s: the inner zone changed: %v", tc.reason, got)
		}
	}
}

// Whatever is there: what others made stays, and what is ensured is what is wanted.
func TestOthersRecordsStay(t *testing.T) {
	const host, mark = "x.a.test", "_drover.x.a.test"
	ours := "heritage=drover,installation=here,owner=instance/1"
	rapid.Check(t, func(t *rapid.T) {
		m := dnstest.NewMemory()
		w := m.World("a.test")
		cname := rapid.SampledFrom([]string{"", "there.test", "elsewhere.test"}).Draw(t, "cname")
		texts := rapid.SliceOfDistinct(rapid.SampledFrom([]string{ours, "heritage=drover,installation=a,owner=instance/1", "heritage=drover,installation=z,owner=instance/1", "else"}), rapid.ID[string]).Draw(t, "texts")
		if cname != "" {
			w.Add(nil, host, "CNAME", cname)
		}
		for _, text := range texts {
			w.Add(nil, mark, "TXT", text)
		}
		before := w.Records(nil)
		r, err := dns.New(dns.Config{Installation: "here", Window: time.Microsecond, Zones: []dns.Zone{{Name: "a.test", Provider: w.Provider}}})
		if err != nil {
			t.Fatal(err)
		}
		err = r.Ensure(context.Background(), []dns.Record{{Host: host, Target: "there.test", Owner: "instance/1"}})
		switch after := w.Records(nil); {
		case err != nil && (!fault.Is(err, fault.Conflict) || !slices.Equal(before, after)):
			t.Fatalf("%v, and %v became %v", err, before, after)
		case err == nil && (!slices.Contains(after, host+" CNAME there.test") || !slices.Contains(after, mark+" TXT "+ours)):
			t.Fatalf("%v is there", after)
		}
		if err := r.Remove(context.Background(), "instance/1", []string{host}); err != nil {
			t.Fatal(err)
		}
		after := w.Records(nil)
		for _, b := range before {
			if strings.Contains(b, " TXT ") && !strings.HasSuffix(b, ours) && !slices.Contains(after, b) {
				t.Fatalf("%s is gone", b)
			}
		}
		if err != nil && cname != "" && !slices.Contains(after, host+" CNAME "+cname) {
			held := slices.Contains(texts, ours) && !slices.Contains(texts, "heritage=drover,installation=a,owner=instance/1")
			if !held {
				t.Fatalf("%v became %v", before, after)
			}
		}
		if slices.Contains(after, mark+" TXT "+ours) {
			t.Fatal("the mark is left behind")
		}
	})
}

// The window is time's: within it calls join, after it they do not.
func TestWindow(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := dnstest.NewMemory()
		r := open(t, dns.Config{Window: 5 * time.Millisecond, Zones: []dns.Zone{{Name: "a.test", Provider: dns.Libdns(m)}}})
		var wait sync.WaitGroup
		for i, at := range []time.Duration{0, 1, 4, 20} {
			wait.Go(func() {
				time.Sleep(at * time.Millisecond)
				host := string(rune('a'+i)) + ".a.test"
				if err := r.Ensure(t.Context(), []dns.Record{{Host: host, Target: "there.test", Owner: "instance/1"}}); err != nil {
					t.Error(err)
				}
			})
		}
		wait.Wait()
		if n := m.Calls(); n != 4 { // marks and names, twice
			t.Errorf("the calls of two windows were %d", n)
		}
		synctest.Wait() // nothing runs on
	})
}

// away counts how often it is asked in vain.
type away struct {
	mu    sync.Mutex
	calls int
}

func (a *away) Lookup(context.Context, string, []string) ([]dns.RR, error) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.calls++
	return nil, fault.New(fault.Unavailable, "away")
}

func (a *away) Edit(context.Context, string, []dns.Edit) error { panic("nothing is known") }

func TestAServerThatIsAwayIsLeftInPeace(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a := &away{}
		r := open(t, dns.Config{Zones: []dns.Zone{{Name: "a.test", Provider: a}}, Rest: time.Hour})
		var err error
		for range 50 {
			err = r.Ensure(t.Context(), []dns.Record{{Host: "x.a.test", Target: "there.test", Owner: "instance/1"}})
		}
		if fault.Reason(err) != "breaker-open" || !strings.Contains(err.Error(), "zone a.test") {
			t.Errorf("got %v, which does not name the culprit", err)
		}
		if a.calls > 10 {
			t.Errorf("it was asked %d times", a.calls)
		}
	})
}

// loud tells its secret in its errors.
type loud struct{ *dnstest.Memory }

func (loud) AppendRecords(context.Context, string, []libdns.Record) ([]libdns.Record, error) {
	return nil, errors.New("GET /?token=hunter2: no")
}

func TestSecretsAreStruckOut(t *testing.T) {
	r := open(t, dns.Config{Zones: []dns.Zone{{Name: "a.test", Provider: dns.Libdns(loud{dnstest.NewMemory()}, "hunter2")}}})
	err := r.Ensure(t.Context(), []dns.Record{{Host: "x.a.test", Target: "there.test", Owner: "instance/1"}})
	if !fault.Is(err, fault.Unavailable) || strings.Contains(err.Error(), "hunter2") || !strings.Contains(err.Error(), "token=***") {
		t.Errorf("got %v", err)
	}
	for err := err; err != nil; err = errors.Unwrap(err) {
		if strings.Contains(err.Error(), "hunter2") {
			t.Errorf("a cause tells it: %v", err)
		}
	}
}

func TestSettings(t *testing.T) {
	file := filepath.Join(t.TempDir(), "secret")
	if err := os.WriteFile(file, []byte("s3cret\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	t.Setenv("DNS_TEST_SECRET", "s3cret")
	t.Setenv("DNS_TEST_EMPTY", "")
	for _, tc := range []struct {
		reason   string
		settings dns.Settings
		want     string
		bad      bool
	}{
		{"a file", dns.Settings{"key-file": file}, "s3cret", false},
		{"a variable", dns.Settings{"key-env": "DNS_TEST_SECRET"}, "s3cret", false},
		{"none", dns.Settings{}, "", false},
		{"one of them", dns.Settings{"key-file": file, "key-env": "DNS_TEST_SECRET"}, "", true},
		{"the file must be there", dns.Settings{"key-file": file + "x"}, "", true},
		{"something must be in it", dns.Settings{"key-env": "DNS_TEST_EMPTY"}, "", true},
		{"the secret itself is not a setting", dns.Settings{"key": "s3cret"}, "", true},
	} {
		got, err := tc.settings.Secret("key")
		if err == nil {
			err = tc.settings.Check("test", "key-file", "key-env")
		}
		if (err != nil) != tc.bad || err == nil && got != tc.want || err != nil && (!fault.Is(err, fault.Invalid) || strings.Contains(err.Error(), "s3cret")) {
			t.Errorf("%s: got %q, %v", tc.reason, got, err)
		}
	}
}
