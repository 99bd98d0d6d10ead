package instance

import (
	"context"
	"net/url"
	"regexp"
	"slices"
	"strings"

	"golang.org/x/sync/errgroup"

	"github.com/droverhq/drover/internal/fault"
	"github.com/droverhq/drover/internal/ledger"
	"github.com/droverhq/drover/internal/trace"
)

// Observation is what an agent says of one instance.
type Observation struct {
	ID         string
	Generation int64
	State      string // as package runtime names them
	Message    string
	Versions   map[string]string
	Upgrading  []string      // components whose version it is changing
	Routes     []RouteReport // none: nothing is said of them
	AdminURL   string        // of the instance's own API
	Conditions []Condition
	Leaf       uint64 // of all that the agent said of it; 0: its protocol has none
	Trace      string // of what was done to it; empty: nobody follows that
}

// Outcome is what became of observations.
type Outcome struct {
	Refused []string // that make no sense; telling them again mends nothing
	// Strangers are refused ones of what the ledger has nothing of in this
	// cluster: instances that nobody knows, that are gone, or that are elsewhere.
	Strangers []string
	Later     []string        // that may be taken once their offering is loaded
	Written   []Written       // that were news
	Known     []ledger.Object // instances of which they were none, as the ledger has them
}

// Written is an instance as a report left it.
type Written struct {
	Object ledger.Object
	Seq    int64 // 0: it was not written, the report was no news
}

// RouteReport is where the data plane takes traffic for a host of the instance:
// the host with the prefix and a "-" in front, or without one the route of that
// name, else the instance's own host.
type RouteReport struct {
	Name   string
	Prefix string
	Router string
}

const (
	reportWriters = 64 // sets of one report that share commits
	maxMessage    = 1024
	maxHost       = 253
	noOffering    = "offering"
)

// Report is Observe for those who need not know more than what was refused.
func (s *Service) Report(ctx context.Context, clusterID string, items []Observation) (refused []string, err error) {
	out, err := s.Observe(ctx, clusterID, items)
	if err == nil && len(out.Later) > 0 {
		err = fault.New(fault.Unavailable, "the offering of %s is not loaded", out.Later[0]).Because(noOffering)
	}
	return out.Refused, err
}

// stranger is the reason of refusals of what is not in this cluster.
const stranger = "stranger"

// Observe writes what an agent observed, as far as it is news, and wakes what it
// is about. An observation that makes no sense (of an instance elsewhere, of a
// generation that never was, in an unknown state) changes nothing and is
// returned as refused, and so is one of an instance that cannot be read or
// shown: telling it again mends nothing. The others are not harmed, nor are they
// by one that cannot be written now, for which the first error is returned.
func (s *Service) Observe(ctx context.Context, clusterID string, items []Observation) (Outcome, error) {
	ctx, giveUp := context.WithCancel(ctx)
	defer giveUp()
	var group errgroup.Group
	group.SetLimit(reportWriters)
	fates, written := make([]error, len(items)), make([]Written, len(items))
	for i, item := range items {
		group.Go(func() error {
			var err error
			written[i], err = s.observe(ctx, clusterID, item)
			switch kind := fault.Of(err); {
			case err == nil:
			case kind == fault.Invalid, kind == fault.NotFound, kind == fault.Internal && ctx.Err() == nil, fault.Reason(err) == noOffering:
				fates[i] = err
				return nil
			case kind == fault.Unavailable:
				giveUp() // the store is away for all of them
			}
			return err
		})
	}
	err := group.Wait()
	var out Outcome
	for i, item := range items {
		switch fate := fates[i]; {
		case fault.Reason(fate) == noOffering:
			out.Later = append(out.Later, item.ID)
		case fate != nil:
			out.Refused = append(out.Refused, item.ID)
			if fault.Is(fate, fault.NotFound) || fault.Reason(fate) == stranger {
				out.Strangers = append(out.Strangers, item.ID)
			}
		case written[i].Seq > 0:
			out.Written = append(out.Written, written[i])
		case written[i].Object.ID != "":
			out.Known = append(out.Known, written[i].Object)
		}
	}
	return out, err
}

func (s *Service) observe(ctx context.Context, clusterID string, item Observation) (Written, error) {
	if item.Trace == "" {
		return s.take(ctx, clusterID, item)
	}
	ctx, span := trace.From(ctx).Continue(ctx, item.Trace, "report instance")
	out, err := s.take(span.Hold(ctx), clusterID, item)
	if span != nil && (err != nil || out.Seq > 0) { // what says nothing new is not told
		span.Set(trace.Text("drover.id", item.ID), trace.Text("drover.cluster", clusterID), trace.Text("drover.state", item.State))
		span.Done(err)
	}
	return out, err
}

// take writes one observation into the instance as it is now.
func (s *Service) take(ctx context.Context, clusterID string, item Observation) (Written, error) {
	var none Written
	if !slices.Contains(states, item.State) {
		return none, fault.New(fault.Invalid, "unknown state")
	}
	if err := item.check(); err != nil {
		return none, err
	}
	item.shorten()
	if u, err := url.Parse(item.AdminURL); err != nil || u.Host == "" || u.Scheme != "https" && u.Scheme != "http" || len(item.AdminURL) > maxMessage {
		item.AdminURL = "" // users are sent there
	}
	for attempt := 0; ; attempt++ {
		o, err := s.Store.Get(ctx, ledger.Ref{Kind: Kind.Name, ID: item.ID})
		if err != nil {
			return none, err
		}
		in, err := Decode(o)
		if err != nil {
			return none, err
		}
		if c := in.Status.Other; c != nil && c.Cluster == clusterID && o.Deleted.IsZero() {
			out, err := s.observeOther(ctx, in, item)
			if fault.Reason(err) == "version" && attempt < maxConflicts {
				continue
			}
			return out, err
		}
		if in.Status.Cluster != clusterID {
			return none, fault.New(fault.Invalid, "not of this cluster").Because(stranger)
		}
		if item.Generation < 0 || item.Generation > in.Generation {
			return none, fault.New(fault.Invalid, "not of this generation")
		}
		if in.Status.Lost != "" {
			out, err := s.buried(ctx, in, item)
			if fault.Reason(err) == "version" && attempt < maxConflicts {
				continue
			}
			return out, err
		}
		if !o.Deleted.IsZero() || o.Phase == Deleting { // a late word on what is gone
			if item.State == stateDeleted || item.Leaf == 0 || o.Deleted.IsZero() {
				return Written{Object: o}, nil
			}
			return none, fault.New(fault.Invalid, "it is gone").Because(stranger)
		}
		seen := &Observed{
			Generation: item.Generation, State: item.State, Message: item.Message,
			Versions: item.Versions, Placement: in.Status.Placement,
			Upgrading: slices.Sorted(slices.Values(item.Upgrading)), AdminURL: item.AdminURL,
			Conditions: item.Conditions, Leaf: item.Leaf,
		}
		claims, err := in.route(item.Routes)
		if err != nil {
			return none, err
		}
		rerouted, last := claims != nil, in.Status.Observed
		if last.equal(seen) && !rerouted || last != nil && last.Placement == seen.Placement && last.Generation > seen.Generation {
			return Written{Object: o}, nil
		}
		off, ok := s.Offerings.Get(in.Spec.Offering)
		if !ok {
			return none, fault.New(fault.Unavailable, "offering %q is not loaded", in.Spec.Offering).Because(noOffering)
		}
		in.Status.Observed = seen
		put, err := encode(ctx, off, &in, "report")
		if err != nil {
			return none, err
		}
		set := ledger.Set{Actor: "agent:" + clusterID, Cause: ledger.CauseOf(ctx), Puts: []ledger.Put{put}, Claims: claims}
		if !last.says(seen) || rerouted { // the same in other words is nobody's work
			set.Wakes = []ledger.Wake{{Ref: o.Ref, Org: o.Org}}
		}
		r, err := s.Store.Commit(ctx, set)
		if err == nil {
			return Written{r.Objects[0], r.Seq}, nil
		}
		if fault.Reason(err) == "name-taken" {
			return none, fault.New(fault.Invalid, "a host is another instance's: %w", err)
		}
		if fault.Reason(err) != "version" || attempt >= maxConflicts {
			return none, err
		}
	}
}

const (
	maxConditions = 20
	maxWord       = 128 // bytes of a condition's type, status or reason
)

// shorten cuts what is for people to what they read.
func (o *Observation) shorten() {
	o.Message = cut(o.Message, maxMessage)
	o.Conditions = slices.Clone(o.Conditions[:min(len(o.Conditions), maxConditions)])
	for i, c := range o.Conditions {
		o.Conditions[i] = Condition{Type: cut(c.Type, maxWord), Status: cut(c.Status, maxWord), Reason: cut(c.Reason, maxWord), Message: cut(c.Message, maxMessage)}
	}
}

func cut(text string, most int) string {
	return strings.ToValidUTF8(text[:min(len(text), most)], "")
}

const (
	maxRoutes     = 64
	maxComponents = 64
	maxVersion    = 128
)

// check refuses what no data plane has to say: it is kept with the instance.
func (o Observation) check() error {
	long := len(o.Versions) > maxComponents || len(o.Upgrading) > maxComponents
	for component, version := range o.Versions {
		long = long || len(component) > maxVersion || len(version) > maxVersion
	}
	for _, component := range o.Upgrading {
		long = long || len(component) > maxVersion
	}
	if long {
		return fault.New(fault.Invalid, "more than %d components, or longer than %d bytes", maxComponents, maxVersion)
	}
	return nil
}

var (
	hostPattern   = regexp.MustCompile(`^([a-z0-9_]([a-z0-9-]{0,61}[a-z0-9])?\.)*[a-z0-9]([a-z0-9-]{0,61}[a-z0-9])?$`)
	prefixPattern = regexp.MustCompile(`^[a-z0-9]([a-z0-9-]{0,61}[a-z0-9])?$`)
)

// route takes over where the hosts are to point at, and the hosts that only the
// data plane knew of. It returns the claims to make; nil: nothing is new. What
// is not told stays as it is.
func (in *Instance) route(told []RouteReport) ([]ledger.Claim, error) {
	if len(told) > maxRoutes {
		return nil, fault.New(fault.Invalid, "more than %d routes", maxRoutes)
	}
	routes, changed := slices.Clone(in.Status.Routes), false
	for _, t := range told {
		router, host := strings.ToLower(strings.TrimSuffix(t.Router, ".")), in.host()
		if t.Prefix != "" {
			host = t.Prefix + "-" + host
		}
		if len(router) > maxHost || !hostPattern.MatchString(router) || len(t.Name) > maxHost ||
			in.host() == "" || len(host) > maxHost || t.Prefix != "" && !prefixPattern.MatchString(t.Prefix) {
			return nil, fault.New(fault.Invalid, "a route is not one")
		}
		i := slices.IndexFunc(routes, func(r Route) bool { return t.Prefix == "" && t.Name != "" && r.Name == t.Name })
		if i < 0 {
			i = slices.IndexFunc(routes, func(r Route) bool { return r.Host == host })
		}
		switch {
		case i < 0:
			routes, changed = append(routes, Route{Name: t.Name, Host: host, Router: router}), true
		case routes[i].Router != router:
			routes[i].Router, changed = router, true
		}
	}
	if !changed {
		return nil, nil
	}
	if len(routes) > max(maxRoutes, len(in.Status.Routes)) {
		return nil, fault.New(fault.Invalid, "more than %d routes in all", maxRoutes)
	}
	in.Status.Routes = routes
	return names(in), nil
}
