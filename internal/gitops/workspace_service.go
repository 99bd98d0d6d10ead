package gitops

import (
	"cmp"
	"context"
	"slices"

	"github.com/droverhq/drover/internal/access"
	"github.com/droverhq/drover/internal/fault"
	"github.com/droverhq/drover/internal/ledger"
)

// WorkspaceOrder is what operators say of a workspace.
type WorkspaceOrder struct {
	Name, Org, Engine string
	Reach             []Reach
	ClusterResources  bool
}

const maxReach = 1000

// PutWorkspace makes or changes an organisation's workspace; operators alone. One
// without a name, or named after the organisation (as one of nobody else's is), is
// the one that it uses when it names none. Faults: Denied, Invalid, NotFound (cluster).
func (s *Service) PutWorkspace(ctx context.Context, o WorkspaceOrder) (Workspace, error) {
	for attempt := 0; ; attempt++ {
		w, err := s.putWorkspace(ctx, o)
		if !again(err, attempt) {
			return w, err
		}
	}
}

func (s *Service) putWorkspace(ctx context.Context, o WorkspaceOrder) (w Workspace, err error) {
	if !access.From(ctx).Admin {
		return w, fault.New(fault.Denied, "only operators say what a workspace may reach").Because("permission")
	}
	if o.Org = cmp.Or(o.Org, o.Name); o.Name == o.Org {
		o.Name = ""
	}
	name := cmp.Or(o.Name, defaultWorkspace)
	switch {
	case o.Org == "" || len(o.Org) > 253 || hidden(o.Org):
		return w, fault.New(fault.Invalid, "say whose workspace it is").Because("org")
	case !label.MatchString(name):
		return w, fault.New(fault.Invalid, "%.80q is no name of a workspace: want up to 63 lower-case letters, digits and hyphens", name).Because("name")
	}
	if err := checkReach(o.Reach); err != nil {
		return w, err
	}
	if err := s.thereAre(ctx, o); err != nil {
		return w, err
	}
	claim := ledger.Name{Space: workspaceSpace, Name: o.Org + "/" + name}
	op, set := "update", s.set(ctx)
	held, err := s.Store.Lookup(ctx, claim)
	switch {
	case fault.Is(err, fault.NotFound):
		op = "create"
		w.Object = ledger.Object{Ref: ledger.Ref{Kind: KindWorkspace.Name, ID: ledger.NewID()}, Org: o.Org, Name: name, Phase: phaseReady}
		set.Claims = []ledger.Claim{{Name: claim, Holder: w.Ref}}
	case err != nil:
		return w, err
	default:
		if w, err = s.workspace(ctx, held.ID); err != nil {
			return w, err
		}
	}
	w.Spec.Engine, w.Spec.Reach, w.Spec.ClusterResources = o.Engine, o.Reach, o.ClusterResources
	put, err := w.put(op)
	if err != nil {
		return w, err
	}
	set.Puts = []ledger.Put{put}
	if op == "update" { // what is told to agents may change
		if set.Wakes, err = s.wakesOf(ctx, map[string]any{"workspace": w.ID}); err != nil {
			return w, err
		}
	}
	done, err := s.Store.Commit(ctx, set)
	if err != nil {
		return w, err
	}
	return DecodeWorkspace(done.Objects[0])
}

// DeleteWorkspace forgets a workspace in which nothing is any more; operators alone.
// A namespace's comes back with the next custom resource in it. Faults: Denied,
// NotFound, Conflict (something is in it).
func (s *Service) DeleteWorkspace(ctx context.Context, id string) error {
	for attempt := 0; ; attempt++ {
		if err := s.deleteWorkspace(ctx, id); !again(err, attempt) {
			return err
		}
	}
}

func (s *Service) deleteWorkspace(ctx context.Context, id string) error {
	if !access.From(ctx).Admin {
		return fault.New(fault.Denied, "only operators delete workspaces").Because("permission")
	}
	w, err := s.workspace(ctx, cut(id, 253))
	if fault.Is(err, fault.NotFound) || err == nil && !w.Object.Deleted.IsZero() {
		return fault.New(fault.NotFound, "there is no workspace %.80q", id).Because("workspace")
	}
	if err != nil {
		return err
	}
	held, err := s.within(ctx, w.ID)
	if err != nil {
		return err
	}
	if held != nil {
		return fault.New(fault.Conflict, "workspace %s holds the %s %s: delete what is in it first", w.Name, held.Kind, held.Name).Because("in-use")
	}
	w.Object.Deleted = s.Now().UTC()
	put, err := w.put("delete")
	if err != nil {
		return err
	}
	set := s.set(ctx)
	set.Puts = []ledger.Put{put}
	owner := w.Org
	if owner == "" {
		owner = "~" + w.Owner
	}
	claim := ledger.Name{Space: workspaceSpace, Name: owner + "/" + w.Name}
	if held, err := s.Store.Lookup(ctx, claim); err == nil && held == w.Ref {
		set.Frees = []ledger.Claim{{Name: claim, Holder: w.Ref}}
	} else if err != nil && !fault.Is(err, fault.NotFound) {
		return err
	}
	_, err = s.Store.Commit(ctx, set)
	return err
}

// thereAre refuses clusters that nobody knows.
func (s *Service) thereAre(ctx context.Context, o WorkspaceOrder) error {
	named := []string{o.Engine}
	for _, r := range o.Reach {
		named = append(named, r.Cluster)
	}
	slices.Sort(named)
	for _, id := range slices.Compact(named) {
		if id == "" || id == "*" {
			continue
		}
		if _, err := s.Engines.Engine(ctx, id); fault.Is(err, fault.NotFound) {
			return fault.New(fault.NotFound, "there is no cluster %.80q", id).Because("cluster")
		} else if err != nil {
			return err
		}
	}
	return nil
}

func checkReach(reach []Reach) error {
	if len(reach) > maxReach {
		return fault.New(fault.Invalid, "a workspace reaches at most %d clusters", maxReach).Because("reach")
	}
	for _, r := range reach {
		bad := r.Cluster == "" || len(r.Namespaces) == 0 || len(r.Namespaces) > maxReach || slices.ContainsFunc(r.Namespaces, func(n string) bool {
			if len(n) > 0 && n[len(n)-1] == '*' {
				n = n[:len(n)-1] + "x"
			}
			return !label.MatchString(n)
		})
		if bad {
			return fault.New(fault.Invalid, "a reach needs a cluster (or *) and namespaces of it: names, or beginnings with * behind them").Because("reach")
		}
	}
	return nil
}

// workspace reads one by its id.
func (s *Service) workspace(ctx context.Context, id string) (Workspace, error) {
	o, err := s.Store.Get(ctx, ledger.Ref{Kind: KindWorkspace.Name, ID: id})
	if err != nil {
		return Workspace{}, err
	}
	return sound(ctx, s, o, DecodeWorkspace)
}
