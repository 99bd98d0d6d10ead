package instance

import (
	"context"
	"encoding/json"
	"slices"
	"time"

	"github.com/droverhq/drover/internal/cluster"
	"github.com/droverhq/drover/internal/fault"
	"github.com/droverhq/drover/internal/ledger"
	"github.com/droverhq/drover/internal/offering"
)

// An instance whose offering says that it has no data of its own on its cluster
// can move to another. A second copy is made there, and nothing is taken away
// before that is ready and the hosts point at it. Each step is one commit that
// says which copies there are, so that whoever goes on after a crash knows both.

// Copy is what a cluster holds of an instance beside the one that serves.
type Copy struct {
	Role      string            `json:"role"`
	Since     time.Time         `json:"since,omitzero"` // it was ordered
	Cluster   string            `json:"cluster"`
	Namespace string            `json:"namespace,omitempty"`
	Placement string            `json:"placement"`
	Placed    string            `json:"placed,omitempty"`
	Units     int64             `json:"units,omitempty"`
	Room      []Hold            `json:"room,omitempty"`
	Versions  map[string]string `json:"versions,omitempty"`
	// Desired is the document for its data plane, as of the instance's.
	Desired    json.RawMessage `json:"desired,omitempty"`
	Digest     string          `json:"digest,omitempty"`
	Generation int64           `json:"generation,omitempty"`
	Rendered   int64           `json:"rendered,omitempty"`
	Token      int64           `json:"token,omitempty"`
	Routes     []Route         `json:"routes,omitempty"`
	Observed   *Observed       `json:"observed,omitempty"`
}

// Roles of a copy.
const (
	Arriving = "arriving" // it is to serve once it is ready
	Staying  = "staying"  // it has served, and stays until the hosts point elsewhere
	Leaving  = "leaving"  // it is to be removed
)

const (
	moveWithin = 30 * time.Minute // a copy that is not ready by then is given up
	moveLook   = time.Minute      // whether the cluster of a copy is still there
)

func (c *Copy) says(state string) bool {
	return c.Observed != nil && c.Observed.Placement == c.Placement && c.Observed.State == state
}

func (c *Copy) ready() bool {
	return c.says(stateReady) && c.Observed.Generation >= c.Generation && len(c.Desired) > 0
}

// hopeless reports whether its cluster refuses it, or it takes too long.
func (c *Copy) hopeless(now time.Time) bool {
	return c.says(stateError) || c.says(stateRejected) || now.Sub(c.Since) >= moveWithin
}

// planCopy goes on with a move. It is pure.
func planCopy(in Instance, facts Facts, now time.Time) []Action {
	c := in.Status.Other
	if c == nil {
		return nil
	}
	look := []Action{Come{After: moveLook, Why: "it moves: its other copy is looked at again"}}
	wanted := in.Phase == Ready && !in.Spec.Suspended && in.Status.Lost == ""
	switch {
	case facts.OtherLost: // nobody is left to say anything of it
		return []Action{Forget{}}
	case c.Role == Arriving && c.ready() && (wanted || in.Phase == Failed):
		return []Action{Swap{}}
	case c.Role == Arriving && len(c.Desired) == 0 && (!wanted || c.hopeless(now)):
		return []Action{Forget{}} // it never reached a data plane
	case c.Role == Arriving && (!wanted || c.hopeless(now)):
		return []Action{Recall{Rejected: wanted}}
	case c.Role == Arriving && c.Rendered != in.Generation:
		return []Action{Furnish{}}
	case c.Role == Staying && (!facts.Names || in.published() || in.Phase == Deprovision):
		return []Action{Recall{}}
	case c.Role == Leaving && c.says(stateDeleted):
		return []Action{Forget{}}
	}
	return look
}

// furnish makes the document of the copy.
func (r *run) furnish(ctx context.Context) error {
	c := *r.in.Status.Other
	shadow := r.in
	shadow.Status.Cluster, shadow.Status.Namespace, shadow.Status.Placement, shadow.Status.Versions = c.Cluster, c.Namespace, c.Placement, c.Versions
	around, err := r.around(ctx, c.Cluster)
	if err != nil {
		return err
	}
	doc, err := r.off.Desired(ctx, facts(&shadow, r.off), around)
	if err != nil {
		return err
	}
	if digest := digestOf(doc); digest != c.Digest {
		c.Desired, c.Digest, c.Generation, c.Token = doc, digest, r.in.Generation, r.task.Token
	}
	c.Rendered = r.in.Generation
	r.in.Status.Other, r.op = &c, "move"
	return nil
}

// takeOver lets the copy serve, and keeps the one that did beside it.
func (r *run) takeOver() {
	s := &r.in.Status
	c := *s.Other
	last := &Copy{
		Role: Staying, Since: r.now, Cluster: s.Cluster, Namespace: s.Namespace, Placement: s.Placement, Units: s.Units, Room: r.in.room(),
		Desired: s.Desired, Digest: s.Digest, Generation: r.in.issued(), Rendered: s.Rendered, Token: s.Token, Observed: s.Observed,
	}
	if s.Other = last; s.Lost != "" { // it is nowhere any more
		s.Other, s.Lost = nil, ""
	}
	s.Cluster, s.Namespace, s.Placement, s.Placed, s.Units, s.Room, s.Versions = c.Cluster, c.Namespace, c.Placement, c.Placed, c.Units, c.Room, c.Versions
	s.Desired, s.Digest, s.Issued, s.Rendered, s.Token, s.Observed = c.Desired, c.Digest, c.Generation, c.Rendered, c.Token, c.Observed
	s.Rejected = nil
	s.Routes = slices.Clone(s.Routes)
	for i := range s.Routes {
		at := slices.IndexFunc(c.Routes, func(n Route) bool { return n.Host == s.Routes[i].Host })
		if s.Routes[i].Router = ""; at >= 0 {
			s.Routes[i].Router = c.Routes[at].Router
		}
	}
	r.op = "moved"
}

// recall has a copy removed. That is another wish, so that the removal is newer
// than whatever its data plane was told.
func (r *run) recall(a Recall) {
	c := *r.in.Status.Other
	r.in.Spec.Moves++
	c.Role, c.Generation, c.Since, c.Observed = Leaving, r.in.Generation+1, r.now, nil
	if a.Rejected && !slices.Contains(r.in.Status.Rejected, c.Cluster) {
		r.in.Status.Rejected = append(slices.Clone(r.in.Status.Rejected), c.Cluster)
	}
	r.in.Status.Other, r.op = &c, "move"
}

// forget gives the room of a copy back that is gone, and lets its cluster know.
func (r *run) forget() {
	c := r.in.Status.Other
	for _, h := range c.Room {
		r.set.Counts = append(r.set.Counts, ledger.Count{Name: h.Counter, Delta: -h.Units})
	}
	r.set.Wakes = append(r.set.Wakes, ledger.Wake{Ref: ledger.Ref{Kind: cluster.Kind.Name, ID: c.Cluster}})
	r.in.Status.Other, r.op = nil, "move"
}

// Lost tells of clusters that were given up, or are gone. Clusters that know
// implement it.
type Lost interface {
	Lost(ctx context.Context, clusterID string) (bool, error)
}

// otherLost looks whether the cluster of the other copy is still there.
func (r *Reconciler) otherLost(ctx context.Context, in Instance) (bool, error) {
	l, ok := r.Clusters.(Lost)
	if in.Status.Other == nil || !ok {
		return false, nil
	}
	return l.Lost(ctx, in.Status.Other.Cluster)
}

// movable reports whether an instance can move, now or once it is ready; why is
// what is in the way.
func (in *Instance) movable(off *offering.Offering) (now bool, why string) {
	switch {
	case in.Spec.Deleted:
		return false, "" // it goes by itself
	case off == nil || !off.Spec.Placement.Movable:
		return false, "its offering cannot move instances"
	case in.Spec.Cluster != "":
		return false, "it was ordered for this cluster"
	case in.Phase == Failed || in.Spec.Suspended || in.Phase == Suspended || in.Status.Lost != "":
		return false, "it is " + in.Phase
	}
	idle := in.Phase == Ready && in.Status.Operation == "" && in.Status.Promotion != Promoting && in.Status.Rendered == in.Generation
	return idle && in.Status.Other == nil, ""
}

// Stuck implements cluster.Movers: it names some of what cannot be moved off a
// cluster, and counts all of it.
func (s *Service) Stuck(ctx context.Context, clusterID string, limit int) (names []string, total int64, err error) {
	err = s.on(ctx, clusterID, func(in Instance) error {
		off, _ := s.Offerings.Get(in.Spec.Offering)
		if _, why := in.movable(off); why != "" {
			if total++; len(names) < limit {
				names = append(names, in.Spec.Offering+" "+in.Name+": "+why)
			}
		}
		return nil
	})
	return names, total, err
}

// Evacuate implements cluster.Movers: it lets instances move off a cluster, so
// many at a time. The new place is reserved in the commit that says so. Those
// that find none stay until there is one.
func (s *Service) Evacuate(ctx context.Context, clusterID string, most int) error {
	moving := 0
	var able []Instance
	err := s.on(ctx, clusterID, func(in Instance) error {
		off, _ := s.Offerings.Get(in.Spec.Offering)
		if in.Status.Other != nil {
			moving++
		} else if now, _ := in.movable(off); now && len(able) < 4*most {
			able = append(able, in)
		}
		return nil
	})
	if err != nil {
		return err
	}
	for _, in := range able {
		if moving >= most {
			return nil
		}
		begun, err := s.move(ctx, in)
		if err != nil {
			return err
		}
		if begun {
			moving++
		}
	}
	return nil
}

const movePage = 500

// on calls for every instance on a cluster.
func (s *Service) on(ctx context.Context, clusterID string, each func(Instance) error) error {
	for after := ""; ; {
		found, err := s.Store.List(ctx, ledger.Query{Kind: Kind.Name, Scope: map[string]any{"cluster": clusterID}, AfterID: after, Limit: movePage})
		if err != nil {
			return err
		}
		for _, o := range found {
			in, err := Decode(o)
			if err == nil {
				err = each(in)
			}
			if err != nil {
				return err
			}
			after = o.ID
		}
		if len(found) < movePage {
			return nil
		}
	}
}

// move reserves another place for an instance; false where there is none now, or
// somebody else was faster.
func (s *Service) move(ctx context.Context, in Instance) (bool, error) {
	off, _ := s.Offerings.Get(in.Spec.Offering)
	order := cluster.Order{Wanted: in.wants(off, in.Status.Units), Rejected: append(slices.Clone(in.Status.Rejected), in.Status.Cluster)}
	list, err := s.Clusters.Shortlist(ctx, order)
	if err != nil {
		return false, err
	}
	best := slices.DeleteFunc(list.Best, cluster.Candidate.Outside) // those remove what they are not told of
	if len(in.Status.Versions) > 0 {
		r := Reconciler{Config: s.Config}
		f := Facts{Open: in.Status.Versions, Offers: map[string]map[string]string{}}
		if _, err := r.offered(ctx, off, &f, best); err != nil {
			return false, err
		}
		best = slices.DeleteFunc(best, func(c cluster.Candidate) bool { return f.Offers[c.ID] == nil })
	}
	order.Unlisted = list.Room - len(list.Best)
	verdict := cluster.Choose(order, best)
	if verdict.Cluster == "" {
		return false, nil
	}
	counts := verdict.Ranked[0].Take(in.Status.Units)
	in.Spec.Moves++
	in.Status.Other = &Copy{
		Role: Arriving, Since: s.Now().UTC(), Cluster: verdict.Cluster, Namespace: in.Status.Namespace, Placement: ledger.NewID(),
		Placed: verdict.Why, Units: in.Status.Units, Room: held(counts), Versions: in.Status.Versions,
	}
	put, err := encode(ctx, off, &in, "move")
	if err != nil {
		return false, err
	}
	_, err = s.Store.Commit(ctx, ledger.Set{
		Actor: "system", Cause: ledger.CauseOf(ctx), Puts: []ledger.Put{put}, Counts: counts, Wakes: []ledger.Wake{{Ref: in.Ref, Org: in.Org}},
	})
	if fault.Is(err, fault.Exhausted) || fault.Reason(err) == "version" {
		return false, nil
	}
	return err == nil, err
}

// observeOther takes the word of an agent on the other copy.
func (s *Service) observeOther(ctx context.Context, in Instance, item Observation) (Written, error) {
	var none Written
	c := *in.Status.Other
	if item.Generation < 0 || item.Generation > in.Generation {
		return none, fault.New(fault.Invalid, "not of this generation")
	}
	shadow := in
	shadow.Status.Routes = c.Routes
	if len(c.Routes) == 0 {
		shadow.Status.Routes = slices.Clone(in.Status.Routes)
		for i := range shadow.Status.Routes {
			shadow.Status.Routes[i].Router = ""
		}
	}
	claims, err := shadow.route(item.Routes)
	if err != nil {
		return none, err
	}
	seen := &Observed{
		Generation: item.Generation, State: item.State, Message: item.Message, Versions: item.Versions, Placement: c.Placement,
		Upgrading: slices.Sorted(slices.Values(item.Upgrading)), AdminURL: item.AdminURL, Conditions: item.Conditions, Leaf: item.Leaf,
	}
	last := c.Observed
	if last.equal(seen) && claims == nil || last != nil && last.Placement == seen.Placement && last.Generation > seen.Generation {
		return Written{Object: in.Object}, nil
	}
	off, ok := s.Offerings.Get(in.Spec.Offering)
	if !ok {
		return none, fault.New(fault.Unavailable, "offering %q is not loaded", in.Spec.Offering).Because(noOffering)
	}
	c.Observed, c.Routes = seen, shadow.Status.Routes
	cluster := c.Cluster
	in.Status.Other = &c
	put, err := encode(ctx, off, &in, "report")
	if err != nil {
		return none, err
	}
	set := ledger.Set{Actor: "agent:" + cluster, Cause: ledger.CauseOf(ctx), Puts: []ledger.Put{put}, Claims: claims}
	if !last.says(seen) || claims != nil {
		set.Wakes = []ledger.Wake{{Ref: in.Ref, Org: in.Org}}
	}
	r, err := s.Store.Commit(ctx, set)
	if err != nil {
		return none, err
	}
	return Written{r.Objects[0], r.Seq}, nil
}
