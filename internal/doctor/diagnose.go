package doctor

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"time"
)

// Bounds from which on something is worth telling.
const (
	slow       = 250 * time.Millisecond // for one small question to the database
	skewed     = 2 * time.Second        // between two clocks
	skewedFar  = time.Minute
	sealedLate = 10 * time.Minute // after a change: sealing is done within one
	overdue    = time.Minute
	stalled    = 10 * time.Minute
	lately     = 5 * time.Minute
	diskLow    = 1 << 30
	diskOut    = 100 << 20
	expiring   = 21 * 24 * time.Hour
	expiresNow = 3 * 24 * time.Hour
	maxNamed   = 5 // examples of a finding
	maxCause   = 300
)

// Diagnose says what is wrong, the worst first. The same facts give the same
// findings in the same order.
func Diagnose(f Facts) []Finding {
	var out []Finding
	for _, rule := range []func(Facts) []Finding{
		ledger, disk, work, failing, sides, bus, subscriptions, clusters, resting, jsonnet, noHealth, leftovers, versions, troubled, certificate, credentials, names, resources, strays, unknown,
	} {
		out = append(out, rule(f)...)
	}
	slices.SortStableFunc(out, func(a, b Finding) int { return cmp.Compare(rank(a.Severity), rank(b.Severity)) })
	return out
}

func rank(severity string) int { return slices.Index([]string{Critical, Warning, Note}, severity) }

func ledger(f Facts) (out []Finding) {
	l := f.Ledger
	mend := []string{"look whether the database runs, takes connections from this machine, and has space: --database, and the server's log", "nothing acknowledged is lost; Drover resumes by itself"}
	switch {
	case l.Away != "":
		out = append(out, Finding{ID: "ledger-away", Severity: Critical, What: "the ledger cannot be read", Why: short(l.Away), Do: mend})
	case l.Unwritable != "":
		out = append(out, Finding{ID: "ledger-unwritable", Severity: Critical, What: "the ledger takes no writes: every change is refused", Why: short(l.Unwritable), Do: mend})
	case l.Took > slow:
		out = append(out, Finding{ID: "ledger-slow", Severity: Warning, What: "the ledger is slow",
			Why: fmt.Sprintf("one small question took %s", l.Took.Round(time.Millisecond)),
			Do:  []string{"look at the load and the disk of the database's machine, and at drover_ledger_commit_duration_seconds in /metrics"}})
	}
	if l.Knows > 0 && l.Schema > l.Knows {
		out = append(out, Finding{ID: "schema-newer", Severity: Warning, What: "the database was migrated by a newer program than this replica runs",
			Why: fmt.Sprintf("it has schema version %d, and this replica (%s) knows versions up to %d: it would not start again", l.Schema, short(f.Version), l.Knows),
			Do:  []string{"bring every replica to the newest version: drover version"}})
	}
	if apart := l.Clock.Sub(f.Now).Abs(); !l.Clock.IsZero() && apart > skewed {
		found := Finding{ID: "clock", Severity: Warning, What: "the clocks of the database and of this replica differ",
			Why: fmt.Sprintf("by %s: tokens are checked by the one, work is due by the other", apart.Round(100*time.Millisecond)),
			Do:  []string{"timedatectl status   # on both machines: have both follow NTP"}}
		if apart > skewedFar {
			found.Severity = Critical
		}
		out = append(out, found)
	}
	if l.Unsealed > 0 && !l.Since.IsZero() && f.Now.Sub(l.Since) > sealedLate {
		out = append(out, Finding{ID: "sealing-late", Severity: Warning, What: "the log is not being sealed", Count: l.Unsealed,
			Why: fmt.Sprintf("%d changes, the oldest of %s, are in no sealed block yet; that is done within a minute", l.Unsealed, l.Since.UTC().Format(time.RFC3339)),
			Do:  []string{"drover ledger verify", sealingLog}})
	}
	return out
}

func disk(f Facts) []Finding {
	d := f.Disk
	if d == nil || d.Total == 0 || d.Free >= diskLow && d.Free >= d.Total/20 {
		return nil
	}
	found := Finding{ID: "disk", Severity: Warning, What: "the disk of the data directory is nearly full",
		Why: fmt.Sprintf("%s of %s are free at %s", size(d.Free), size(d.Total), d.Path),
		Do:  []string{"df -h " + d.Path, "make room, or move the data directory; --log-retention bounds the log"}}
	if d.Free < diskOut {
		found.Severity = Critical
	} else if d.Free >= 10*diskLow {
		return nil // a twentieth of a large disk is room enough
	}
	return []Finding{found}
}

func work(f Facts) (out []Finding) {
	var kinds []string
	worst, due := Work{}, int64(0)
	for _, w := range f.Work {
		if w.Due == 0 || w.Oldest < overdue {
			continue
		}
		kinds, due = append(kinds, fmt.Sprintf("%s: %d, the oldest for %s", w.Kind, w.Due, w.Oldest.Round(time.Second))), due+w.Due
		if w.Oldest > worst.Oldest {
			worst = w
		}
	}
	if len(kinds) == 0 {
		return nil
	}
	found := Finding{ID: "work-overdue", Severity: Warning, What: number(due, "piece of work is due and nobody has taken it", "pieces of work are due and nobody has taken them"), Count: due, Examples: few(kinds),
		Why: fmt.Sprintf("the oldest, of kind %s, has waited for %s: there is more to do than workers get done, or workers hang", worst.Kind, worst.Oldest.Round(time.Second)),
		Do:  []string{"drover doctor   # once more: does it shrink?", "start another replica, or raise --workers; drover_work_duration_seconds in /metrics tells which kind takes long"}}
	if worst.Oldest > stalled {
		found.Severity = Critical
	}
	return []Finding{found}
}

const (
	sealing    = "sealkey" // kind of the work that seals the log
	sealingLog = "look for \"" + sealing + "\" in the server's log: another master key, a change or a block that was removed, or a loop that has no worker left, keeps it from sealing"
)

func failing(f Facts) (out []Finding) {
	var kinds []string
	of := map[string][]Failing{}
	for _, x := range f.Failing {
		if of[x.Kind] == nil {
			kinds = append(kinds, x.Kind)
		}
		of[x.Kind] = append(of[x.Kind], x)
	}
	slices.SortStableFunc(kinds, func(a, b string) int { return cmp.Or(len(of[b])-len(of[a]), strings.Compare(a, b)) })
	for _, kind := range kinds {
		all := of[kind]
		slices.SortStableFunc(all, func(a, b Failing) int { return cmp.Or(b.Tries-a.Tries, strings.Compare(a.ID, b.ID)) })
		found := Finding{ID: "work-failing", Severity: Warning, Count: int64(len(all)),
			What: "work on " + number(int64(len(all)), "object", "objects") + " of kind " + kind + " fails again and again",
			Why:  cmp.Or(short(all[0].Cause), "the server's log says why, with the ids below"),
			Do:   []string{"drover describe " + kind + " " + all[0].ID}}
		if kind == sealing { // a piece of work without an object
			found.What, found.Do = "sealing the log fails again and again", []string{"drover ledger verify", sealingLog}
		}
		for _, x := range all {
			found.Examples = append(found.Examples, fmt.Sprintf("%s, %d times in a row", x.ID, x.Tries))
		}
		found.Examples = few(found.Examples)
		out = append(out, found)
	}
	return out
}

func sides(f Facts) (out []Finding) {
	for _, s := range f.Sides {
		recent := func(t time.Time) bool { return !t.IsZero() && f.Now.Sub(t) < lately }
		switch {
		case s.Open+s.HalfOpen > 0 && s.Theirs:
			out = append(out, Finding{ID: "call-breaker", Severity: Note, Count: int64(s.Open + s.HalfOpen),
				What: s.Name + ": " + number(int64(s.Open+s.HalfOpen), "does not answer and is given a rest", "do not answer and are given a rest"),
				Why:  "tenants name them; only what is theirs waits, and they see why", Do: []string{"nothing, unless a tenant asks"}})
		case s.Open > 0:
			found := Finding{ID: "call-breaker", Severity: Critical, What: s.Name + " does not answer, and is given a rest between tries",
				Why: "what needs it waits, and goes on by itself when it is back; everything else goes on", Do: remedy(s.Name)}
			if !s.Answered.IsZero() {
				found.Why = "it answered last at " + s.Answered.UTC().Format(time.RFC3339) + "; " + found.Why
			}
			out = append(out, found)
		case s.HalfOpen > 0:
			out = append(out, Finding{ID: "call-breaker", Severity: Warning, What: s.Name + " did not answer, and is being tried again",
				Why: "the next call to it decides", Do: remedy(s.Name)})
		case recent(s.Full):
			out = append(out, Finding{ID: "call-bulkhead", Severity: Warning, What: "calls to " + s.Name + " are refused: too many are under way",
				Why: "it answers slowly, or there is more to do than it can take; what was refused is tried again", Do: append(remedy(s.Name), "drover_call_duration_seconds in /metrics tells how long it takes")})
		case recent(s.Spent):
			out = append(out, Finding{ID: "call-budget", Severity: Note, What: "many calls to " + s.Name + " fail: the budget of retries was spent within the last minutes",
				Why: "failures are told to whoever asked without another try, so that it can recover", Do: remedy(s.Name)})
		}
	}
	return out
}

// remedies by how a side's name begins.
var remedies = []struct{ name, do string }{
	{"the ledger", "look at the database: --database"},
	{"executor ", "drover get connections   # is the connection's address right, and its token good? is it reachable from this machine?"},
	{"the broker", "look at the broker, and at --bus-options"},
	{"the issuer of tokens", "curl its /.well-known/openid-configuration from this machine: --oidc-issuers, --sso-options"},
	{"the identity provider", "curl its URL from this machine: --sso-options"},
	{"the dns server", "dig SOA of the zone at the address of --dns-file, from this machine"},
	{"the metrics", "curl the URL of --metrics-url from this machine"},
	{"the service behind a hook", "look at the seller's service that offerings name under hooks: drover get offerings -o yaml"},
}

func remedy(name string) []string {
	out := "is it up, and reachable from this machine? drover config show tells the address"
	for _, r := range remedies {
		if strings.HasPrefix(strings.ToLower(name), r.name) {
			out = r.do
		}
	}
	return []string{out}
}

// number is how many there are, in words that fit.
func number(n int64, one, many string) string {
	if n == 1 {
		return "1 " + one
	}
	return fmt.Sprint(n, " ", many)
}

func size(n uint64) string {
	if n >= diskLow {
		return fmt.Sprintf("%.1f GiB", float64(n)/diskLow)
	}
	return fmt.Sprintf("%.0f MiB", float64(n)/(1<<20))
}

// few keeps the first ones.
func few(all []string) []string {
	if len(all) > maxNamed {
		return append(slices.Clone(all[:maxNamed]), fmt.Sprintf("and %d more", len(all)-maxNamed))
	}
	return all
}

// short is a reason on one line.
func short(text string) string {
	text = strings.Join(strings.Fields(text), " ")
	if r := []rune(text); len(r) > maxCause {
		return string(r[:maxCause]) + "…"
	}
	return text
}
