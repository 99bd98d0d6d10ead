// Package dnstest holds the contract of DNS providers as tests: whatever server
// is behind one, records are made, kept, and removed in the same way, and what
// somebody else made is left alone.
//
// It owns the suite, faults between the port and a provider, and a provider in
// memory. It must not know any server.
package dnstest

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/droverhq/drover/internal/dns"
	"github.com/droverhq/drover/internal/fault"
)

// World is a server under test, with an empty zone, and its owner's hands.
type World struct {
	Zone     string
	Provider dns.Provider
	Servers  []string                    // that verification asks; none: the provider
	Records  func(t testing.TB) []string // all of the zone but SOA, NS and their addresses: "name TYPE data"
	Add      func(t testing.TB, name, kind, data string)
	Delete   func(t testing.TB, name, kind string)
	Stop     func(t testing.TB) // nil: it cannot be stopped
	Start    func(t testing.TB)
	// Guarded says that the server itself refuses a change of what is no longer as it was read.
	Guarded bool
}

const installation = "here"

// Run tests a provider. Each test opens a world of its own.
func Run(t *testing.T, open func(t *testing.T) World) {
	for _, tc := range []struct {
		name string
		test func(*testing.T, *bench)
	}{
		{"a record is made with its mark, and left alone once it is right", ensures},
		{"what somebody else made is neither overwritten nor removed", foreign},
		{"only the owner removes, and only its own", removes},
		{"what is changed or deleted by hand comes back", heals},
		{"calls at the same time travel together", batches},
		{"one that fails does not fail the others", apart},
		{"a server that is down is waited for", down},
		{"a failed look-up changes nothing", blind},
		{"a slow server is not waited for without end", slow},
		{"a lie is found out", lie},
		{"of two that come at once one has it", race},
		{"nothing is left behind on bad days", rounds},
	} {
		t.Run(tc.name, func(t *testing.T) {
			w := open(t)
			b := &bench{World: w, faults: &Faults{Provider: w.Provider}}
			b.records = b.keeper(t, installation)
			tc.test(t, b)
		})
	}
}

type bench struct {
	World
	faults  *Faults
	records dns.Records
}

func (b *bench) keeper(t *testing.T, installation string) dns.Records {
	t.Helper()
	r, err := dns.New(dns.Config{
		Zones: []dns.Zone{{Name: b.Zone, Provider: b.faults, Servers: b.Servers}}, Installation: installation,
		Timeout: 5 * time.Second, Verify: 5 * time.Second, Rest: time.Millisecond, Window: 20 * time.Millisecond,
	})
	if err != nil {
		t.Fatal(err)
	}
	return r
}

func (b *bench) host(name string) string { return name + "." + b.Zone }

func (b *bench) record(name string) dns.Record {
	return dns.Record{Host: b.host(name), Target: "router.elsewhere.test", Owner: "instance/" + name}
}

// made is what a record looks like in the zone.
func (b *bench) made(name, target string) []string {
	return []string{
		b.host(name) + " CNAME " + target,
		"_drover." + b.host(name) + " TXT heritage=drover,installation=" + installation + ",owner=instance/" + name,
	}
}

func (b *bench) want(t *testing.T, what string, want ...string) {
	t.Helper()
	got := b.Records(t)
	slices.Sort(got)
	slices.Sort(want)
	if d := cmp.Diff(want, got); d != "" {
		t.Errorf("%s, the zone has (-want +got):\n%s", what, d)
	}
}

func (b *bench) ensure(t *testing.T, records ...dns.Record) {
	t.Helper()
	if err := b.records.Ensure(t.Context(), records); err != nil {
		t.Fatalf("cannot ensure: %v", err)
	}
}

func (b *bench) remove(t *testing.T, name string) {
	t.Helper()
	if err := b.records.Remove(t.Context(), "instance/"+name, []string{b.host(name)}); err != nil {
		t.Fatalf("cannot remove: %v", err)
	}
}

func expect(t *testing.T, err error, kind fault.Kind, reason string) {
	t.Helper()
	if !fault.Is(err, kind) || reason != "" && fault.Reason(err) != reason {
		t.Errorf("got %q (%v, %q), want %v, %q", err, fault.Of(err), fault.Reason(err), kind, reason)
	}
}

func ensures(t *testing.T, b *bench) {
	b.ensure(t, b.record("one"), b.record("two"))
	want := append(b.made("one", "router.elsewhere.test"), b.made("two", "router.elsewhere.test")...)
	b.want(t, "after the first time", want...)
	edits := b.faults.Edits()
	same := b.record("one")
	same.Host, same.Target = strings.ToUpper(same.Host)+".", "Router.Elsewhere.Test."
	b.ensure(t, same, b.record("two"))
	if n := b.faults.Edits(); n != edits {
		t.Errorf("what is right already took %d edits", n-edits)
	}
	b.want(t, "after the second time", want...)
}

func foreign(t *testing.T, b *bench) {
	theirs := "heritage=drover,installation=elsewhere,owner=instance/x"
	for _, tc := range []struct {
		reason string
		has    []string // name, kind, data
	}{
		{"a CNAME without a mark", []string{"cname", "CNAME", "theirs.elsewhere.test"}},
		{"even if it leads to the same place", []string{"same", "CNAME", "router.elsewhere.test"}},
		{"an address", []string{"address", "A", "192.0.2.1"}},
		{"another installation's", []string{"marked", "CNAME", "router.elsewhere.test", "_drover.marked", "TXT", theirs}},
		{"another installation's that is only marked yet", []string{"early", "", "", "_drover.early", "TXT", theirs}},
		{"another instance's", []string{"other", "CNAME", "router.elsewhere.test", "_drover.other", "TXT", "heritage=drover,installation=here,owner=instance/x"}},
		{"a text that nobody knows", []string{"text", "", "", "_drover.text", "TXT", "hands off"}},
	} {
		name := tc.has[0]
		for i := 0; i < len(tc.has); i += 3 {
			if tc.has[i+1] != "" {
				b.Add(t, b.host(tc.has[i]), tc.has[i+1], tc.has[i+2])
			}
		}
		before := b.Records(t)
		err := b.records.Ensure(t.Context(), []dns.Record{b.record(name)})
		if !fault.Is(err, fault.Conflict) || fault.Reason(err) != "not-ours" {
			t.Errorf("%s: got %v, want a conflict", tc.reason, err)
		}
		if err := b.records.Remove(t.Context(), "instance/"+name, []string{b.host(name)}); err != nil {
			t.Errorf("%s: removing what is not ours is nothing to do, but got %v", tc.reason, err)
		}
		b.want(t, tc.reason, before...)
	}
}

func removes(t *testing.T, b *bench) {
	b.ensure(t, b.record("one"), b.record("two"))
	if err := b.records.Remove(t.Context(), "instance/two", []string{b.host("one"), b.host("never")}); err != nil {
		t.Fatal(err)
	}
	b.want(t, "after another has removed", append(b.made("one", "router.elsewhere.test"), b.made("two", "router.elsewhere.test")...)...)
	if err := b.keeper(t, "elsewhere").Remove(t.Context(), "instance/one", []string{b.host("one")}); err != nil {
		t.Fatal(err)
	}
	b.remove(t, "one")
	b.want(t, "after its owner has", b.made("two", "router.elsewhere.test")...)
	b.remove(t, "one")
	b.ensure(t, b.record("one"))
	b.remove(t, "two")
	b.want(t, "once it is there again", b.made("one", "router.elsewhere.test")...)
}

func heals(t *testing.T, b *bench) {
	b.ensure(t, b.record("one"))
	b.Delete(t, b.host("one"), "CNAME")
	b.ensure(t, b.record("one"))
	b.want(t, "after it was deleted", b.made("one", "router.elsewhere.test")...)
	moved := b.record("one")
	moved.Target = "second.elsewhere.test"
	b.ensure(t, moved)
	b.want(t, "after it moved", b.made("one", "second.elsewhere.test")...)
	b.Delete(t, b.host("one"), "CNAME")
	b.remove(t, "one")
	b.want(t, "after half of it was gone")
}

const crowd = 200

func batches(t *testing.T, b *bench) {
	var wait sync.WaitGroup
	errs := make([]error, crowd)
	do := func(f func(name string) error) int {
		before := b.faults.Edits()
		for i := range crowd {
			wait.Go(func() { errs[i] = f(fmt.Sprintf("h%d", i)) })
		}
		wait.Wait()
		if err := errors.Join(errs...); err != nil {
			t.Fatal(err)
		}
		return b.faults.Edits() - before
	}
	n := do(func(name string) error { return b.records.Ensure(t.Context(), []dns.Record{b.record(name)}) })
	if n > crowd/10 {
		t.Errorf("%d records took %d edits", crowd, n)
	}
	var want []string
	for i := range crowd {
		want = append(want, b.made(fmt.Sprintf("h%d", i), "router.elsewhere.test")...)
	}
	b.want(t, "with a crowd", want...)
	n = do(func(name string) error {
		return b.records.Remove(t.Context(), "instance/"+name, []string{b.host(name)})
	})
	if n > crowd/10 {
		t.Errorf("to remove %d records took %d edits", crowd, n)
	}
	b.want(t, "after the crowd")
}

// apart lets a host be taken after it was read, which only the server can tell,
// or else a provider that refuses it.
func apart(t *testing.T, b *bench) {
	b.faults.Set(func(f *Faults) { f.Refuse = b.host("h3") })
	var wait sync.WaitGroup
	errs := make([]error, 9)
	for i := range errs {
		wait.Go(func() { errs[i] = b.records.Ensure(t.Context(), []dns.Record{b.record(fmt.Sprintf("h%d", i))}) })
	}
	wait.Wait()
	var want []string
	for i, err := range errs {
		if i == 3 {
			expect(t, err, fault.Unavailable, "dns-refused")
			continue
		}
		if err != nil {
			t.Errorf("h%d: %v", i, err)
		}
		want = append(want, b.made(fmt.Sprintf("h%d", i), "router.elsewhere.test")...)
	}
	b.want(t, "but for the refused one", want...)
}

func down(t *testing.T, b *bench) {
	b.ensure(t, b.record("one"))
	if b.Stop == nil {
		b.faults.Set(func(f *Faults) { f.Down = true })
	} else {
		b.Stop(t)
	}
	expect(t, b.records.Ensure(t.Context(), []dns.Record{b.record("two")}), fault.Unavailable, "")
	expect(t, b.records.Remove(t.Context(), "instance/one", []string{b.host("one")}), fault.Unavailable, "")
	if b.Stop == nil {
		b.faults.Set(func(f *Faults) { f.Down = false })
	} else {
		b.Start(t)
	}
	b.want(t, "once it is back", b.made("one", "router.elsewhere.test")...)
	again(t, func() error { return b.records.Ensure(t.Context(), []dns.Record{b.record("two")}) })
	b.remove(t, "one")
	b.want(t, "a while later", b.made("two", "router.elsewhere.test")...)
}

// again waits for a breaker to close.
func again(t *testing.T, f func() error) {
	t.Helper()
	for deadline := time.Now().Add(10 * time.Second); ; time.Sleep(time.Millisecond) {
		err := f()
		if err == nil {
			return
		}
		if !fault.Is(err, fault.Unavailable) || time.Now().After(deadline) {
			t.Fatalf("it does not recover: %v", err)
		}
	}
}
