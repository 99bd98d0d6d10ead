package cluster

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/droverhq/drover/internal/offering"
)

// Place is where the fleet may make clusters of a profile: what one entry of
// the profile serves in one region, with everything that decides by how many.
type Place struct {
	Profile, Provider, Region string
	Units                     int64     // that a new cluster is expected to hold
	Needs                     []Need    // of the instance types that can be there
	Hosts                     []Host    // the region's clusters, whoever made them
	Last                      time.Time // of the decision before; zero: there was none
}

// Need is what an instance type needs of a place.
type Need struct {
	Offering, Type string
	Ours           bool  // clusters of this place would host it
	Largest        int64 // units of the largest size that can still be sold; 0: none, the region's limit is reached
	Slack          int64 // units that are to be free
	Queued         []int64
}

// Stand is what can be expected of a cluster.
type Stand int

// Stands. Nothing is ever removed because of Silent or Broken.
const (
	Serving Stand = iota
	Coming        // it is being made
	Silent        // its agent was ready, and is not
	Broken        // it failed, or takes too long
	Going         // it is being taken away
)

// Host is a cluster as scaling sees it.
type Host struct {
	ID      string
	Profile string
	Fleet   bool // the fleet made it
	Stand   Stand
	Since   time.Time // it stands so
	Empty   bool
	Limited bool // an operator lets it hold less than it could
	Created time.Time
	Spare   time.Time // since when it is not needed; zero: it is
	// Free units by need, what is kept warm aside; negative: it hosts none of that.
	Free []int64
}

// Acts of scaling.
const (
	Stay = "stay"
	Up   = "up"
	Down = "down"
)

// Decision is what is to be done at a place.
type Decision struct {
	Do      string // Stay, Up, Down
	Cluster string // that goes
	Code    string // of the reason: it stays the same while the reason does
	Reason  string // in words
	// Spare are the clusters that are not needed, since when: to be remembered.
	Spare map[string]time.Time
}

const (
	defaultCooldown = 10 * time.Minute
	defaultIdle     = 30 * time.Minute
	// maxBroken is how many clusters may fail to come before the fleet stops
	// making more of them: somebody must look.
	maxBroken = 3
)

func orElse(d offering.Duration, standard time.Duration) time.Duration {
	if d > 0 {
		return time.Duration(d)
	}
	return standard
}

// Scale decides about one place. It is pure. It makes one cluster at a time
// when something does not fit, and takes one away only if everything would fit
// without it and without anything that is only expected.
func Scale(p Place, policy Scaling, now time.Time) Decision {
	cooldown := orElse(policy.Cooldown, defaultCooldown)
	d := Decision{Do: Stay, Code: "enough", Reason: "there is room for the largest size, and the slack is kept", Spare: p.spare(policy, now)}
	stay := func(code, format string, args ...any) Decision {
		d.Code, d.Reason = code, fmt.Sprintf(format, args...)
		return d
	}
	cooling := !p.Last.IsZero() && now.Sub(p.Last) < cooldown
	short := p.short("", func(h *Host) bool {
		return h.Stand == Serving || h.Stand == Coming || h.Stand == Silent && now.Sub(h.Since) < cooldown
	}, true)
	mine, broken, coming := p.census()
	switch {
	case short.why == "" && mine-broken < policy.Min:
		short = shortage{need: -1, why: fmt.Sprintf("there are %d clusters, and %d are to be kept", mine-broken, policy.Min)}
	case short.why == "":
		return p.shrink(policy, d, cooling, cooldown, now)
	}
	switch {
	case p.Units <= 0:
		return stay("units", "%s, but the profile does not say how many units a new cluster holds", short.why)
	case short.need >= 0 && !p.helps(short):
		return stay("too-small", "%s, and a new cluster would not be large enough: it holds %d units", short.why, p.largestNew(short.need))
	case short.need < 0 && coming > 0 || short.need >= 0 && p.comes(short.need):
		return stay("coming", "%s; a cluster is being made", short.why)
	case broken >= maxBroken:
		return stay("broken", "%s, but %d clusters did not come: look at them and delete them", short.why, broken)
	case policy.Max > 0 && mine >= policy.Max:
		return stay("max", "%s, but there may be at most %d clusters", short.why, policy.Max)
	case cooling:
		return stay("cooldown", "%s; the last decision was less than %s ago", short.why, cooldown)
	}
	d.Do, d.Code, d.Reason = Up, "short", short.why
	return d
}

// shrink takes away the youngest cluster that has been spare for long enough.
func (p *Place) shrink(policy Scaling, d Decision, cooling bool, cooldown time.Duration, now time.Time) Decision {
	idle := orElse(policy.Idle, defaultIdle)
	var best *Host
	for i := range p.Hosts {
		h := &p.Hosts[i]
		since, spare := d.Spare[h.ID]
		if !spare || now.Sub(since) < idle {
			continue
		}
		if best == nil || cmp.Or(best.Created.Compare(h.Created), strings.Compare(best.ID, h.ID)) < 0 {
			best = h
		}
	}
	switch {
	case best == nil && len(d.Spare) > 0:
		d.Code, d.Reason = "idle", fmt.Sprintf("clusters are spare, and go when they have been so for %s", idle)
	case best != nil && cooling:
		d.Code, d.Reason = "cooldown", fmt.Sprintf("a cluster is spare; the last decision was less than %s ago", cooldown)
	case best != nil:
		d.Do, d.Cluster, d.Code = Down, best.ID, "spare"
		d.Reason = fmt.Sprintf("cluster %s is empty, and has not been needed for %s", best.ID, idle)
	}
	return d
}

// spare lists the clusters that are not needed, with since when.
func (p *Place) spare(policy Scaling, now time.Time) map[string]time.Time {
	mine, broken, coming := p.census()
	if coming > 0 || mine-broken <= policy.Min {
		return nil
	}
	var out map[string]time.Time
	for i := range p.Hosts {
		h := &p.Hosts[i]
		if !h.Fleet || h.Profile != p.Profile || h.Stand != Serving || !h.Empty {
			continue
		}
		if p.short(h.ID, func(h *Host) bool { return h.Stand == Serving }, false).why != "" {
			continue
		}
		since := h.Spare
		if since.IsZero() || since.After(now) { // a clock that was set back has measured nothing
			since = now
		}
		if out == nil {
			out = map[string]time.Time{}
		}
		out[h.ID] = since
	}
	return out
}

// census counts the clusters of the profile.
func (p *Place) census() (mine, broken, coming int64) {
	for i := range p.Hosts {
		h := &p.Hosts[i]
		if h.Profile != p.Profile || h.Stand == Going {
			continue
		}
		mine++
		switch h.Stand {
		case Broken:
			broken++
		case Coming:
			coming++
		}
	}
	return mine, broken, coming
}

// shortage is what does not fit.
type shortage struct {
	need  int   // negative: none, there are too few clusters
	units int64 // that do not fit in one piece; 0: it is the sum that is missing
	why   string
}

// short finds what does not fit on the clusters that count, the one without.
// Only what clusters of the place would host is a reason to make one; anything
// is a reason to keep one.
func (p *Place) short(without string, counts func(*Host) bool, oursOnly bool) shortage {
	for i, n := range p.Needs {
		if oursOnly && !n.Ours {
			continue
		}
		var free, best, queued, most int64
		for j := range p.Hosts {
			if h := &p.Hosts[j]; h.ID != without && h.Free[i] > 0 && counts(h) {
				free, best = free+h.Free[i], max(best, h.Free[i])
			}
		}
		for _, units := range n.Queued {
			queued, most = queued+units, max(most, units)
		}
		what := n.Offering + " " + n.Type
		switch {
		case most > best:
			return shortage{i, most, fmt.Sprintf("an order of %s waits for %d units, which fit nowhere", what, most)}
		case n.Largest > best:
			return shortage{i, n.Largest, fmt.Sprintf("the largest size of %s (%d units) fits nowhere", what, n.Largest)}
		case queued > free:
			return shortage{i, 0, fmt.Sprintf("orders of %s wait for %d units, %d are free", what, queued, free)}
		case free-queued < n.Slack:
			return shortage{i, 0, fmt.Sprintf("%d units of %s are free, %d are to be", free-queued, what, n.Slack)}
		}
	}
	return shortage{}
}

// largestNew is what a new cluster would have for a need. One that is there and
// empty is a better witness than the profile, unless somebody has limited it.
func (p *Place) largestNew(need int) int64 {
	units := p.Units
	for i := range p.Hosts {
		if h := &p.Hosts[i]; h.Profile == p.Profile && h.Stand == Serving && h.Empty && !h.Limited && h.Free[need] >= 0 {
			units = min(units, h.Free[need])
		}
	}
	return units
}

// helps reports whether a new cluster would be of use.
func (p *Place) helps(s shortage) bool { return p.largestNew(s.need) >= max(s.units, 1) }

// comes reports whether a cluster is being made that will host a need.
func (p *Place) comes(need int) bool {
	return slices.ContainsFunc(p.Hosts, func(h Host) bool { return h.Stand == Coming && h.Free[need] >= 0 })
}
