package ledgertest

import (
	"encoding/json"
	"time"

	"pgregory.net/rapid"

	"github.com/droverhq/drover/internal/ledger"
)

func refsOf(run string) []ledger.Ref {
	return []ledger.Ref{beast(run + "a"), beast(run + "b"), beast(run + "c"), cage(run + "a"), cage(run + "b")}
}

func orgsOf(run string) []string { return []string{run + "acme", run + "umbrella"} }

func countersOf(run string) []string { return []string{run + "quota", run + "capacity"} }

func namesOf(run string) []ledger.Name {
	return []ledger.Name{{Space: "host", Name: run + "x"}, {Space: "host", Name: run + "y"}, {Space: "bucket", Name: run + "x"}}
}

// DrawSet draws a set over a handful of objects, names and counters that begin
// with prefix. Most of its guards hold in the model's present state.
func DrawSet(t *rapid.T, m *Model, prefix string) ledger.Set {
	s := ledger.Set{Actor: rapid.SampledFrom([]string{"alice", "alice", "alice", "system", ""}).Draw(t, "actor"), Cause: ledger.ByRequest("r1")}
	if s.Actor == "" && rapid.Bool().Draw(t, "named after all") {
		s.Actor = "bob"
	}
	refs := refsOf(prefix)
	ref := rapid.SampledFrom(refs)
	for range rapid.IntRange(0, 3).Draw(t, "puts") {
		s.Puts = append(s.Puts, drawPut(t, m, prefix, ref.Draw(t, "ref")))
	}
	for range rapid.IntRange(0, 2).Draw(t, "claims") {
		s.Claims = append(s.Claims, ledger.Claim{Name: rapid.SampledFrom(namesOf(prefix)).Draw(t, "name"), Holder: ref.Draw(t, "holder")})
	}
	for range rapid.IntRange(0, 2).Draw(t, "frees") {
		s.Frees = append(s.Frees, ledger.Claim{Name: rapid.SampledFrom(namesOf(prefix)).Draw(t, "name"), Holder: ref.Draw(t, "holder")})
	}
	for range rapid.IntRange(0, 2).Draw(t, "counts") {
		s.Counts = append(s.Counts, ledger.Count{
			Name:  rapid.SampledFrom(countersOf(prefix)).Draw(t, "counter"),
			Delta: rapid.Int64Range(-1, 3).Draw(t, "delta"), Max: rapid.Int64Range(-1, 9).Draw(t, "max"),
		})
	}
	for range rapid.IntRange(0, 3).Draw(t, "wakes") {
		s.Wakes = append(s.Wakes, ledger.Wake{
			Ref: ref.Draw(t, "woken"), Org: rapid.SampledFrom([]string{"", "acme"}).Draw(t, "org"),
			After: drawDelay(t), IfIdle: rapid.Bool().Draw(t, "if idle"),
		})
	}
	if rapid.IntRange(0, 5).Draw(t, "guarded") == 0 { // by a lease that holds, or that nobody has
		l := ledger.Lease{Ref: ref.Draw(t, "leased")}
		if l.Token = m.Work[l.Ref].Token; rapid.IntRange(0, 3).Draw(t, "stale") == 0 {
			l.Token++
		}
		s.Lease = &l
	}
	return s
}

// DrawTake draws what whoever finishes goes on with, if anything.
func DrawTake(t *rapid.T, leases ...time.Duration) *ledger.ClaimRequest {
	if !rapid.Bool().Draw(t, "take") {
		return nil
	}
	return &ledger.ClaimRequest{
		Holder: "taker", Limit: rapid.IntRange(0, 3).Draw(t, "take limit"), Lease: rapid.SampledFrom(leases).Draw(t, "take lease"),
		Kinds: rapid.SampledFrom([][]string{{"beast"}, {"cage"}, {"beast", "cage"}}).Draw(t, "take kinds"),
	}
}

func drawDelay(t *rapid.T) time.Duration {
	return rapid.SampledFrom([]time.Duration{0, 0, -time.Second, time.Hour}).Draw(t, "after")
}

func drawPut(t *rapid.T, m *Model, prefix string, ref ledger.Ref) ledger.Put {
	o := m.Objects[ref]
	p := ledger.Put{Expect: o.Version, Op: "update"}
	if rapid.IntRange(0, 9).Draw(t, "blind") == 0 {
		p.Expect = rapid.Int64Range(0, 3).Draw(t, "expect")
	}
	o.Ref, o.Parent = ref, prefix
	if o.Org == "" {
		o.Org = orgsOf(prefix)[0]
	}
	switch rapid.IntRange(0, 9).Draw(t, "edit") {
	case 0:
		o.Org = rapid.SampledFrom(orgsOf(prefix)).Draw(t, "org")
	case 1:
		o.Spec = json.RawMessage(rapid.SampledFrom([]string{"", `{"a":1}`, `{"a":2}`, `[1, 2]`}).Draw(t, "spec"))
	case 2:
		o.Status = json.RawMessage(rapid.SampledFrom([]string{"", `{"s":1}`, `"<&>"`}).Draw(t, "status"))
	case 3:
		o.Phase = rapid.SampledFrom([]string{"", "ready", "failed"}).Draw(t, "phase")
	case 4:
		if o.Deleted = (time.Time{}); rapid.Bool().Draw(t, "deleted") {
			o.Deleted = days[3]
		}
	case 5:
		o.Labels = map[string]string{"l": rapid.SampledFrom([]string{"1", "2"}).Draw(t, "label")}
	case 6:
		if ref.Kind == "beast" {
			o.Fields = ledger.Fields{"legs": rapid.IntRange(0, 2).Draw(t, "legs"), "born": rapid.SampledFrom(days).Draw(t, "born")}
		}
	case 8:
		if ref.Kind == "beast" {
			o.Links = rapid.SampledFrom([][]string{nil, {"cage/x"}, {"cage/x", "external/y"}, {"external/y", "cage/x"}}).Draw(t, "links")
		}
	case 9:
		if ref.Kind == "beast" {
			o.Words = rapid.SampledFrom([]string{"", "tame", "tame <&> \"wild\""}).Draw(t, "words")
		}
	case 7:
		o.Name = rapid.SampledFrom([]string{"", "rex", "a\x00b"}).Draw(t, "name")
	}
	p.Object = o
	return p
}
