package cluster

import (
	"cmp"
	"context"
	"maps"
	"slices"
	"strings"
	"unicode"
	"unicode/utf8"

	"github.com/droverhq/drover/internal/fault"
	"github.com/droverhq/drover/internal/ledger"
)

// Report is what an agent says of its cluster.
type Report struct {
	Agent        string // random per agent process
	Installation string // kept over the agent's restarts; empty: it has none to tell
	Number       int64  // counts up per agent process
	Unnumbered   bool   // the agent's protocol has no numbers: each report is the newest, by arrival
	Ready        bool
	Capacity     int64
	// Offering that Units and Operators are about. Either is nil where it is
	// not told: what is known stays.
	Offering  string
	Units     map[string]Units // by instance type; all of them together are the capacity then
	Operators []Operator
	// Told is what Drover's own agents say besides; nil: it is another's.
	Told *Told
}

// Told is what Drover's own agents say of their cluster beyond what the fleet
// managers' protocol knows. It replaces what was told before.
type Told struct {
	Units    map[string]Units // by "<offering>/<instance type>"; empty: types are not told apart
	Platform Platform
	Protocol int
	Version  string
	Message  string // why it is not ready
}

const (
	maxOperators = 100     // of an offering on a cluster
	maxUnits     = 1 << 40 // of a type
	maxVersions  = 1000    // of a component
	maxVersion   = 128     // bytes of a version or a component's name
)

func (r Report) check() error {
	if r.Agent == "" || r.Capacity < 0 || r.Number < 0 {
		return fault.New(fault.Invalid, "a report needs the agent's id, a number and a capacity that is not negative")
	}
	if len(r.Operators) > maxOperators || len(r.Units) > maxOperators {
		return fault.New(fault.Invalid, "a report names at most %d operators and types", maxOperators)
	}
	for _, u := range r.Units {
		if u.Max < 0 || u.Remaining < 0 || u.Max > maxUnits {
			return fault.New(fault.Invalid, "units are between 0 and %d", maxUnits)
		}
	}
	for _, op := range r.Operators {
		if err := op.check(); err != nil {
			return err
		}
	}
	if r.Told == nil {
		return nil
	}
	return r.Told.check()
}

const (
	maxTypes   = 1000 // that an agent tells apart
	maxMessage = 1024
)

func (t *Told) check() error {
	if len(t.Units) > maxTypes {
		return fault.New(fault.Invalid, "an agent tells at most %d instance types apart", maxTypes)
	}
	for name, u := range t.Units {
		if !versionText(name) || u.Max < 0 || u.Remaining < 0 || u.Max > maxUnits {
			return fault.New(fault.Invalid, "units are between 0 and %d, of an offering/type", maxUnits)
		}
	}
	for _, text := range []string{t.Version, t.Platform.Kind, t.Platform.Version, t.Platform.Routes} {
		if text != "" && !versionText(text) {
			return fault.New(fault.Invalid, "versions and words on the platform are plain text of at most %d bytes", maxVersion)
		}
	}
	for _, text := range []string{t.Platform.Resting, t.Platform.Left} {
		if len(text) > maxMessage || strings.ContainsFunc(text, unicode.IsControl) || !utf8.ValidString(text) {
			return fault.New(fault.Invalid, "what rests or is left is named in plain text of at most %d bytes", maxMessage)
		}
	}
	p := t.Platform
	if min(p.Nodes, p.Applications, p.Reconciled, p.Operations) < 0 || p.Reconciled > p.Applications || t.Protocol < 0 {
		return fault.New(fault.Invalid, "neither nodes nor protocols nor Argo CD's figures are fewer than none, and no more is reconciled than there is")
	}
	return nil
}

func (t *Told) equal(o *Told) bool {
	if t == nil || o == nil {
		return t == o
	}
	return t.Platform == o.Platform && t.Protocol == o.Protocol && t.Version == o.Version && t.Message == o.Message && maps.Equal(t.Units, o.Units)
}

// into writes what was told into a status; false if nothing is new.
func (t *Told) into(status *Status) bool {
	before := *status
	status.Units, status.Platform, status.Protocol, status.Version = t.Units, t.Platform, t.Protocol, t.Version
	return !maps.Equal(before.Units, status.Units) || before.Platform != status.Platform ||
		before.Protocol != status.Protocol || before.Version != status.Version
}

// trouble keeps the message of an agent that is not ready. What others wrote
// there is left alone unless the agent has something to say.
func (t *Told) trouble(status *Status, phase, was string) bool {
	before := status.Message
	switch {
	case phase == Waiting && t.Message != "":
		status.Message = strings.ToValidUTF8(t.Message[:min(len(t.Message), maxMessage)], "")
	case phase == Ready && was != Ready:
		status.Message = ""
	}
	return status.Message != before
}

// check refuses versions that no instance could hold.
func (o Operator) check() error {
	ok := versionText(o.Version)
	for component, versions := range o.Components {
		ok = ok && versionText(component) && len(versions) <= maxVersions && !slices.ContainsFunc(versions, func(v string) bool { return !versionText(v) })
	}
	if !ok {
		return fault.New(fault.Invalid, "a version has 1 to %d bytes of plain text; a component has at most %d", maxVersion, maxVersions)
	}
	return nil
}

func versionText(s string) bool {
	return s != "" && len(s) <= maxVersion && utf8.ValidString(s) && !strings.ContainsFunc(s, unicode.IsControl)
}

// into writes the news of a report into a status; false if there are none.
func (r Report) into(status *Status) bool {
	before := status.Capacity
	status.Capacity = r.Capacity
	news := r.units(status)
	if r.Told != nil {
		news = r.Told.into(status) || news
	}
	news = news || before != status.Capacity
	if r.Operators == nil || r.Offering == "" {
		return news
	}
	sorted := slices.Clone(r.Operators)
	slices.SortStableFunc(sorted, func(a, b Operator) int { return compareVersions(a.Version, b.Version) })
	if !slices.EqualFunc(status.Operators[r.Offering], sorted, Operator.equal) {
		status.Operators = maps.Clone(status.Operators)
		if status.Operators == nil {
			status.Operators = map[string][]Operator{}
		}
		status.Operators[r.Offering], news = sorted, true
	}
	return news
}

// units replaces what is known of the offering's types.
func (r Report) units(status *Status) bool {
	if r.Units == nil || r.Offering == "" {
		return false
	}
	all := maps.Clone(status.Units)
	if all == nil {
		all = map[string]Units{}
	}
	maps.DeleteFunc(all, func(key string, _ Units) bool { return strings.HasPrefix(key, unitsOf(r.Offering, "")) })
	for name, u := range r.Units {
		all[unitsOf(r.Offering, name)] = u
	}
	status.Capacity = 0
	for _, u := range all {
		status.Capacity += u.Max
	}
	news := !maps.Equal(all, status.Units)
	status.Units = all
	return news
}

// compareVersions orders texts by the numbers in them: 0.9 comes before 0.10.
func compareVersions(a, b string) int {
	for a != "" && b != "" {
		an, bn := leading(a), leading(b)
		if an == 0 || bn == 0 {
			if a[0] != b[0] {
				return cmp.Compare(a[0], b[0])
			}
			a, b = a[1:], b[1:]
			continue
		}
		x, y := strings.TrimLeft(a[:an], "0"), strings.TrimLeft(b[:bn], "0")
		if c := cmp.Or(cmp.Compare(len(x), len(y)), strings.Compare(x, y)); c != 0 {
			return c
		}
		a, b = a[an:], b[bn:]
	}
	return cmp.Compare(len(a), len(b))
}

// leading counts the digits that a text begins with.
func leading(s string) int {
	return len(s) - len(strings.TrimLeft(s, "0123456789"))
}

// Report takes an agent's report. Another installation than the cluster's is
// refused, so is a second process of the same one while the first is alive, and
// a report that comes late.
func (s *Service) Report(ctx context.Context, id string, r Report) error {
	if err := r.check(); err != nil {
		return err
	}
	o, err := s.claim(ctx, id, r.Agent, r.Installation, "")
	if err != nil {
		return err
	}
	spec, status, err := Decode(o)
	if err != nil {
		return err
	}
	if err := s.enter(id, status.Installation, r); err != nil {
		return err
	}
	news := false
	for range attempts {
		if o, news, err = s.take(ctx, o, status, r); fault.Reason(err) != "version" {
			break
		}
		// Another replica wrote meanwhile: what the report says is news still.
		if o, err = s.Get(ctx, id); err == nil {
			spec, status, err = Decode(o)
		}
		if err != nil {
			return err
		}
	}
	if err != nil {
		return err
	}
	s.remember(id, r, o.Version)
	if !news || o.Phase != Ready {
		return nil
	}
	return s.offerRoom(ctx, id, spec)
}

// take writes the news of a report if there are any, and returns the cluster as
// it is then.
func (s *Service) take(ctx context.Context, o ledger.Object, status Status, r Report) (ledger.Object, bool, error) {
	phase := o.Phase
	if phase == Ready || phase == Waiting { // whoever takes a cluster away is not overruled by its agent
		phase = Waiting
		if r.Ready {
			phase = Ready
		}
	}
	news := r.into(&status)
	if r.Told != nil {
		news = r.Told.trouble(&status, phase, o.Phase) || news
	} else if phase == Ready && o.Phase != Ready {
		status.Message = "" // of its silence
	}
	if !news && phase == o.Phase {
		return o, false, nil
	}
	if phase == Ready && status.Session == "" {
		status.Session = s.session(r.Agent)
	}
	o.Phase = phase
	o, err := s.write(ctx, o, status, note{"report", "agent:" + o.ID})
	return o, true, err
}

// maxStrays bounds those that are listed: who has more has another problem.
const maxStrays = 100

// Strays writes down what runs on a cluster and is not known to the ledger, as
// far as it has changed. Nobody removes it: it may be somebody's all the same.
func (s *Service) Strays(ctx context.Context, id string, names []string) error {
	names = slices.Compact(slices.Sorted(slices.Values(names)))
	names = names[:min(len(names), maxStrays)]
	_, err := s.edit(ctx, id, note{"strays", "agent:" + id}, func(_ *ledger.Object, status *Status) bool {
		changed := !slices.Equal(status.Strays, names)
		status.Strays = names
		return changed
	})
	return err
}

const wakeLimit = 1000

// offerRoom wakes those who wait, after the news is written: whoever looks from
// now on sees it.
func (s *Service) offerRoom(ctx context.Context, id string, spec Spec) error {
	if s.Tenants == nil {
		return nil
	}
	wakes, err := s.Tenants.Waiting(ctx, spec.Provider, spec.Region, wakeLimit)
	if err != nil || len(wakes) == 0 {
		return err
	}
	_, err = s.store.Commit(ctx, ledger.Set{Actor: "agent:" + id, Cause: ledger.CauseOf(ctx), Wakes: wakes})
	return err
}
