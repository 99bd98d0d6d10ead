package cluster

import (
	"cmp"
	"context"
	"encoding/json"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/droverhq/drover/internal/ledger"
	"github.com/droverhq/drover/internal/offering"
)

// Sold lists the offerings that there are.
type Sold interface{ List() []*offering.Offering }

// Demand tells what is asked of a region.
type Demand interface {
	// Demand lists, by instance type, what was taken of the region's limits and
	// who waits for room there. Types that nobody wants may be left out.
	Demand(ctx context.Context, provider, region string) ([]Demanded, error)
}

// Demanded is what is asked of a region of one instance type.
type Demanded struct {
	Offering, Type string
	Taken          int64   // units, of the region's limit
	Queued         []int64 // units of each order that waits
}

// comesWithin is how long a cluster may take to come before it is not counted
// on any more.
const comesWithin = 2 * time.Hour

// spot is a place with what a new cluster there would be.
type spot struct {
	key  string
	spec Spec
}

// spots lists where clusters of a profile may be made.
func (p *Profile) spots(name string) []spot {
	var out []spot
	for _, s := range p.Serves {
		for _, region := range s.Regions {
			key := strings.TrimRight(strings.Join([]string{s.Provider, region, s.Offering, strings.Join(s.Types, "+")}, "/"), "/")
			if s.MultiAZ != nil {
				key += " (" + zones(*s.MultiAZ) + ")"
			}
			if slices.ContainsFunc(out, func(o spot) bool { return o.key == key }) {
				continue
			}
			out = append(out, spot{key, Spec{
				Provider: s.Provider, Region: region, MultiAZ: s.MultiAZ, Types: s.Types, Offering: s.Offering,
				Nodes: p.Nodes, Profile: name, Labels: maps.Clone(p.Labels), Taints: slices.Clone(p.Taints), Fleet: true,
			}})
		}
	}
	return out
}

// want is a need with what is asked of clusters for it.
type want struct {
	Need
	Wanted
	warm int64
}

// needsOf lists the instance types that a region sells, with what they need.
func needsOf(sold []*offering.Offering, at *Spec, demanded []Demanded) []want {
	var out []want
	for _, off := range sold {
		_, region, err := off.Place(at.Provider, at.Region)
		for _, t := range off.Spec.Types {
			if err != nil || !region.Sells(t.Name) {
				continue
			}
			w := want{
				Need:   Need{Offering: off.Metadata.Name, Type: t.Name},
				Wanted: Wanted{Provider: at.Provider, Region: at.Region, Offering: off.Metadata.Name, Type: t.Name, Rules: off.Spec.Placement},
				warm:   off.Warm(t.Name),
			}
			switch {
			case t.MultiAZ != nil:
				w.MultiAZ = *t.MultiAZ
			case at.MultiAZ != nil:
				w.MultiAZ = *at.MultiAZ
			default:
				w.AnyZones = true
			}
			left := int64(-1)
			slack := off.Spec.Placement.Slack[t.Name]
			limit, limited := region.Limits[t.Name]
			for _, d := range demanded {
				if d.Offering == w.Need.Offering && d.Type == t.Name {
					w.Queued = d.Queued
					limit -= d.Taken
				}
			}
			if limited {
				left = max(limit, 0)
				slack = min(slack, left)
			}
			w.Largest, w.Slack = t.Largest(left), slack
			out = append(out, w)
		}
	}
	return out
}

// placeOf gathers what is decided by at one spot.
func placeOf(at spot, units int64, wanted []want, known []*Known, counters map[string]int64, now time.Time) Place {
	p := Place{Profile: at.spec.Profile, Provider: at.spec.Provider, Region: at.spec.Region, Units: units}
	fresh := &Known{Phase: Ready, Spec: at.spec}
	var all []want
	for _, w := range wanted {
		w.Ours = fresh.bar(&w.Wanted).Bar == ""
		if w.Ours {
			p.Units -= w.warm
		}
		hosted := w.Ours
		for _, k := range known {
			hosted = hosted || k.Spec.Profile == p.Profile && k.Spec.Fleet && k.hosts(&w.Wanted)
		}
		if hosted {
			all, p.Needs = append(all, w), append(p.Needs, w.Need)
		}
	}
	for _, k := range known {
		if k.Spec.Org == "" && k.Spec.Provider == p.Provider && k.Spec.Region == p.Region {
			p.Hosts = append(p.Hosts, k.host(all, units, counters, now))
		}
	}
	return p
}

// hosts reports whether a cluster is made for a type, whatever its phase.
func (k *Known) hosts(w *Wanted) bool {
	settled := Known{ID: k.ID, Phase: Ready, Spec: k.Spec}
	settled.Spec.Deleted = false
	return settled.bar(w).Bar == ""
}

// stand tells what can be expected of a cluster.
func (k *Known) stand(now time.Time) Stand {
	switch {
	case k.Spec.Deleted || k.Phase == Deprovisioning || k.Phase == Cleanup:
		return Going
	case k.Phase == Ready:
		return Serving
	case k.Phase == Failed:
		return Broken
	case k.Phase == Waiting && (k.Status.Capacity > 0 || k.Spec.Profile == ""):
		return Silent
	case now.Sub(k.Created) < comesWithin:
		return Coming
	}
	return Broken
}

// host is a cluster as scaling sees it. Of one that is being made, as many units
// are expected as its profile promises.
func (k *Known) host(wanted []want, expected int64, counters map[string]int64, now time.Time) Host {
	used := counters[CapacityCounter(k.ID)]
	h := Host{
		ID: k.ID, Profile: k.Spec.Profile, Fleet: k.Spec.Fleet, Stand: k.stand(now), Created: k.Created,
		Since: now.Add(-k.age(now)), Free: make([]int64, len(wanted)),
		// One that takes no orders was set aside by somebody, who may have a reason.
		Empty:   used == 0 && !k.Spec.Unschedulable && !k.Spec.Draining,
		Limited: k.Spec.Limit != nil && *k.Spec.Limit < k.Status.Capacity,
	}
	settled := *k
	settled.Phase, settled.Spec.Deleted = Ready, false
	settled.Status.Steps = nil // they are on their way, and a new cluster would need the same ones
	if h.Stand == Coming {
		settled.Status = Status{Capacity: expected}
	}
	var warm int64
	for _, w := range wanted {
		if settled.bar(&w.Wanted).Bar == "" {
			warm += w.warm
		}
	}
	for i, w := range wanted {
		c := Weigh(w.Wanted, &settled, counters)
		if h.Free[i] = max(c.Free()-warm, 0); c.Refusal.Bar != "" {
			h.Free[i] = -1
		}
	}
	return h
}

// ScaleState is what scaling has decided for a place, and what it remembers.
type ScaleState struct {
	Place   string `json:"place"`
	Do      string `json:"do"`
	Code    string `json:"code"`
	Reason  string `json:"reason"`
	Cluster string `json:"cluster,omitempty"` // that comes or goes
	DryRun  bool   `json:"dry_run,omitempty"` // nothing is done about it
	// At is when a cluster was last made or taken away; Pending: that is written
	// down, and not done yet.
	At      time.Time            `json:"at,omitzero"`
	Pending bool                 `json:"pending,omitempty"`
	Turn    string               `json:"turn,omitempty"`  // that is held while a cluster is being made
	Spare   map[string]time.Time `json:"spare,omitempty"` // clusters that are not needed, since when
	// Approval that the end of a cluster waits for.
	Approval string `json:"approval,omitempty"`
}

// same reports whether two states say the same, numbers in their reasons aside.
func (s *ScaleState) same(o *ScaleState) bool {
	return s.Do == o.Do && s.Code == o.Code && s.Cluster == o.Cluster && s.DryRun == o.DryRun && s.Pending == o.Pending && s.Approval == o.Approval &&
		s.At.Equal(o.At) && maps.EqualFunc(s.Spare, o.Spare, time.Time.Equal)
}

// Scalings reads what scaling has written into a profile's status.
func Scalings(profile ledger.Object) []ScaleState {
	var status struct {
		Scaling []ScaleState `json:"scaling"`
	}
	if len(profile.Status) == 0 || json.Unmarshal(profile.Status, &status) != nil {
		return nil
	}
	return status.Scaling
}

// withScalings writes it there, and leaves alone what others have written.
func withScalings(status json.RawMessage, states []ScaleState) (json.RawMessage, error) {
	all := map[string]json.RawMessage{}
	if len(status) > 0 {
		if err := json.Unmarshal(status, &all); err != nil {
			return nil, err
		}
	}
	slices.SortFunc(states, func(a, b ScaleState) int { return cmp.Compare(a.Place, b.Place) })
	body, err := json.Marshal(states)
	if err != nil {
		return nil, err
	}
	all["scaling"] = body
	return json.Marshal(all)
}
