package cluster

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/droverhq/drover/internal/offering"
)

// Wanted is what an order needs of a cluster.
type Wanted struct {
	Provider, Region string
	Offering, Type   string // empty: any, for those who only look
	Org              string // of whoever orders
	Cluster          string // one of the tenant's own; empty: the fleet's
	MultiAZ          bool
	AnyZones         bool  // MultiAZ does not matter, for those who only look
	Units            int64 // that the order takes; 0: it is not known, and all clusters are counted
	// Rules of the offering; zero: the oldest cluster without taints.
	Rules offering.Placement
}

// Order is an instance that is to be placed.
type Order struct {
	Wanted
	Rejected []string // clusters that had no room after all, and are not asked again yet
	Lacking  []string // clusters that do not offer what is to run there
	All      bool     // Shortlist counts and lists all clusters that can take it, not the best alone
	Unlisted int      // clusters that could take it and are not among those to choose from: worse ones, whose number alone is known
}

// Bar is what keeps an order from a cluster.
type Bar string

// Bars, in the order in which they are looked for: the first is the reason.
const (
	OtherPlace    Bar = "place"
	OtherTenant   Bar = "tenant"
	Leaving       Bar = "leaving"
	NotReady      Bar = "not-ready"
	Unschedulable Bar = "unschedulable"
	Draining      Bar = "draining"
	OtherOffering Bar = "offering"
	OtherType     Bar = "type"
	OtherZones    Bar = "zones"
	Unlabelled    Bar = "label"
	Tainted       Bar = "taint"
	Unfit         Bar = "steps"
	WasRejected   Bar = "rejected"
	LimitReached  Bar = "limit"
	NoRoom        Bar = "room"
	NoVersion     Bar = "versions"
	Passed        Bar = "passed" // it could have been: another one came first
)

// Refusal is why an order does not go to a cluster; zero: nothing is in the way.
type Refusal struct {
	Bar         Bar
	Detail      string // the phase, label, taint or the like that it is about
	Free, Units int64  // of NoRoom and LimitReached
}

// String is the reason for operators.
func (r Refusal) String() string {
	switch r.Bar {
	case "":
		return ""
	case OtherPlace:
		return "it stands elsewhere: " + r.Detail
	case OtherTenant:
		return "it is not the fleet's: " + r.Detail
	case NotReady:
		return "it is not ready: " + r.Detail
	case OtherOffering:
		return "it hosts offering " + r.Detail + " only"
	case OtherType:
		return "it hosts the types " + r.Detail + " only"
	case OtherZones:
		return "it takes only orders that are " + r.Detail
	case Unlabelled:
		return "it lacks the label " + r.Detail
	case Tainted:
		return "it has the taint " + r.Detail + ", which the offering does not tolerate"
	case Unfit:
		return "it is being made fit for the offering: step " + r.Detail
	case LimitReached:
		return fmt.Sprintf("its limit is reached: %d units free, %d needed", r.Free, r.Units)
	case NoRoom:
		return fmt.Sprintf("it has no room: %d units free, %d needed", r.Free, r.Units)
	case Passed:
		return "it has room, and " + r.Detail
	}
	return r.Plain()
}

// Plain is the reason for tenants, who need not know how the fleet is built.
func (r Refusal) Plain() string {
	switch r.Bar {
	case "":
		return ""
	case OtherPlace:
		return "it is in another region"
	case OtherTenant:
		return "it is not for this order"
	case Leaving:
		return "it is being taken away"
	case NotReady, Unfit:
		return "it is not ready"
	case Unschedulable:
		return "it takes no new orders"
	case Draining:
		return "it is being emptied"
	case OtherOffering, OtherType:
		return "it does not host this instance type"
	case OtherZones:
		return "it has other zones"
	case Unlabelled, Tainted:
		return "it is kept for other services"
	case WasRejected:
		return "it had no room when it was asked"
	case LimitReached, NoRoom:
		return "it has no room"
	case NoVersion:
		return "it does not offer the wanted version"
	}
	return "another one came first"
}

// bar tells what keeps the order from a cluster, room apart.
func (k *Known) bar(w *Wanted) Refusal {
	s := &k.Spec
	no := func(b Bar, detail string) Refusal { return Refusal{Bar: b, Detail: detail} }
	switch {
	case w.Cluster != "" && w.Cluster != k.ID:
		return no(OtherTenant, "the order names another cluster")
	case w.Cluster != "" && (s.Org == "" || s.Org != w.Org):
		return no(OtherTenant, "an order can name only a cluster of its own organisation")
	case w.Cluster == "" && s.Org != "":
		return no(OtherTenant, "a tenant's own cluster hosts only what names it")
	case s.Provider != w.Provider || s.Region != w.Region:
		return no(OtherPlace, fmt.Sprintf("region %s of %s", s.Region, s.Provider))
	case s.Deleted || s.Abandoned != "":
		return no(Leaving, "")
	case k.Phase != Ready:
		return no(NotReady, k.Phase)
	case s.Draining:
		return no(Draining, "")
	case s.Unschedulable:
		return no(Unschedulable, "")
	case s.Offering != "" && w.Offering != "" && s.Offering != w.Offering:
		return no(OtherOffering, s.Offering)
	case len(s.Types) > 0 && w.Type != "" && !slices.Contains(s.Types, w.Type):
		return no(OtherType, strings.Join(s.Types, ", "))
	case s.MultiAZ != nil && !w.AnyZones && *s.MultiAZ != w.MultiAZ:
		return no(OtherZones, zones(*s.MultiAZ))
	}
	for name, want := range w.Rules.Labels {
		if have, ok := s.Labels[name]; !ok || have != want {
			// The first by name, so that the reason is the same each time.
			return no(Unlabelled, missing(w.Rules.Labels, s.Labels))
		}
	}
	for _, t := range s.Taints {
		if !slices.Contains(w.Rules.Tolerates, t) {
			return no(Tainted, t)
		}
	}
	if w.Offering != "" {
		if step := k.Status.unfit(w.Offering); step != nil {
			return no(Unfit, step.Name+" is "+step.State)
		}
	}
	return Refusal{}
}

func zones(multi bool) string {
	if multi {
		return "multi_az"
	}
	return "not multi_az"
}

func missing(want, have map[string]string) string {
	least := ""
	for name, value := range want {
		if v, ok := have[name]; ok && v == value {
			continue
		}
		if text := name + "=" + value; least == "" || text < least {
			least = text
		}
	}
	return least
}

// Verdict is where an order goes, and why not elsewhere.
type Verdict struct {
	Cluster string // empty: nowhere
	Why     string // in words for users; it names no cluster
	Ranked  []Candidate
	Others  []Judgement // every other cluster, oldest first
}

// Judgement is why an order does not go to a cluster.
type Judgement struct {
	Cluster string
	Refusal
}

// Choose decides where an order goes. It is pure, and the order of the clusters
// does not matter: the oldest is first, and ids break ties.
func Choose(order Order, clusters []Candidate) Verdict {
	sorted := make([]*Candidate, len(clusters))
	for i := range clusters {
		sorted[i] = &clusters[i]
	}
	slices.SortFunc(sorted, (*Candidate).older)
	refusals := make([]Refusal, len(sorted))
	ranked := make([]*Candidate, 0, len(sorted))
	for i, c := range sorted {
		if refusals[i] = order.refuse(c); refusals[i].Bar == "" {
			ranked = append(ranked, c)
		}
	}
	how := order.strategy()
	slices.SortStableFunc(ranked, how.compare)
	var v Verdict
	if len(ranked) > 0 {
		v.Cluster, v.Why = ranked[0].ID, how.why(&order, ranked[0], len(ranked)+order.Unlisted)
		v.Ranked = make([]Candidate, len(ranked))
		for i, c := range ranked {
			v.Ranked[i] = *c
		}
	}
	v.Others = make([]Judgement, 0, len(sorted))
	for i, c := range sorted {
		switch {
		case refusals[i].Bar != "":
			v.Others = append(v.Others, Judgement{c.ID, refusals[i]})
		case c != ranked[0]:
			v.Others = append(v.Others, Judgement{c.ID, Refusal{Bar: Passed, Detail: how.passed}})
		}
	}
	return v
}

// Rank lists the clusters that can take an order, the best first.
func Rank(order Order, clusters []Candidate) []Candidate {
	how := order.strategy()
	var out []Candidate
	for i := range clusters {
		if order.refuse(&clusters[i]).Bar == "" {
			out = append(out, clusters[i])
		}
	}
	slices.SortFunc(out, func(a, b Candidate) int { return cmp.Or(how.compare(&a, &b), a.older(&b)) })
	return out
}

func (o *Order) refuse(c *Candidate) Refusal {
	switch {
	case c.Refusal.Bar != "":
		return c.Refusal
	case slices.Contains(o.Rejected, c.ID):
		return Refusal{Bar: WasRejected}
	case c.Free() < o.Units && c.limited:
		return Refusal{Bar: LimitReached, Free: max(c.Free(), 0), Units: o.Units}
	case c.Free() < o.Units:
		return Refusal{Bar: NoRoom, Free: max(c.Free(), 0), Units: o.Units}
	case slices.Contains(o.Lacking, c.ID):
		return Refusal{Bar: NoVersion}
	}
	return Refusal{}
}

func (c *Candidate) older(d *Candidate) int {
	if c.cluster != nil && d.cluster != nil {
		if older := c.cluster.Created.Compare(d.cluster.Created); older != 0 {
			return older
		}
	}
	return strings.Compare(c.ID, d.ID)
}

// strategy is a way to choose among clusters with room.
type strategy struct {
	compare func(a, b *Candidate) int // those that are alike stay in the order of their age
	words   func(o *Order, c *Candidate, among int) string
	passed  string
}

func (s strategy) why(o *Order, c *Candidate, among int) string {
	text := fmt.Sprintf("%d of its %d units were free, %d are taken", c.Free(), max(c.Capacity, c.Free()), o.Units)
	if among == 1 {
		return "it is the only cluster with room: " + text
	}
	return s.words(o, c, among) + ": " + text
}

func among(what string) func(*Order, *Candidate, int) string {
	return func(_ *Order, _ *Candidate, n int) string {
		return fmt.Sprintf("it is the %s of %d clusters with room", what, n)
	}
}

func (o *Order) strategy() strategy {
	switch {
	case o.Cluster != "":
		return strategy{func(a, b *Candidate) int { return 0 }, func(*Order, *Candidate, int) string { return "the order names it" }, "the order names another"}
	case o.Rules.Strategy == offering.BestFit:
		return strategy{func(a, b *Candidate) int { return cmp.Compare(a.Free(), b.Free()) }, among("fullest"), "another that has room is fuller"}
	case o.Rules.Strategy == offering.Spread:
		words := func(_ *Order, c *Candidate, n int) string {
			return fmt.Sprintf("of %d clusters with room it is in the zone with the fewest instances of the offering (%d)", n, c.Peers)
		}
		passed := "another zone has fewer instances of the offering, or an older cluster of its zone came first"
		if o.Rules.By == offering.ByTenant {
			words = func(_ *Order, c *Candidate, n int) string {
				return fmt.Sprintf("of %d clusters with room it has the fewest of the tenant's instances (%d)", n, c.Peers)
			}
			passed = "another has fewer of the tenant's instances, or is older"
		}
		return strategy{func(a, b *Candidate) int { return cmp.Compare(a.Peers, b.Peers) }, words, passed}
	}
	return strategy{func(a, b *Candidate) int { return 0 }, among("oldest"), "an older one has room too"}
}

// Known is a cluster as it was read, decoded once.
type Known struct {
	ID, Phase string
	Spec      Spec
	Status    Status
	Created   time.Time
	version   int64
	room      string // CapacityCounter
}
