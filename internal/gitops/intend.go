package gitops

import (
	"cmp"
	"context"

	"github.com/droverhq/drover/internal/fault"
	"github.com/droverhq/drover/internal/ledger"
)

// maxConflicts is how often a verb looks again because somebody else wrote.
const maxConflicts = 16

// again reports whether a verb must look again: what it read is no longer so.
func again(err error, attempt int) bool {
	switch fault.Reason(err) {
	case "version", "exists", "name-taken":
		return attempt < maxConflicts
	}
	return false
}

// IntendDeployment takes a custom resource's intent: in one commit the workspace,
// the deployment, its operation and its due work. What cannot be carried out is
// written down as Invalid, for the user. Faults: Conflict (reason "terminating",
// "stale"), NotFound (reason "namespace", "unknown": gone, and never known),
// Denied (reason "workspace"). Any number of replicas may tell the same.
func (s *Service) IntendDeployment(ctx context.Context, in DeploymentIntent) error {
	for attempt := 0; ; attempt++ {
		err := s.intendDeployment(ctx, in)
		if !again(err, attempt) {
			return err
		}
	}
}

func (s *Service) intendDeployment(ctx context.Context, in DeploymentIntent) error {
	o, known, err := s.known(ctx, KindDeployment.Name, in.Intent)
	if err != nil {
		return err
	}
	d, err := Decode(o)
	if err != nil {
		return err
	}
	if in.Gone {
		var over bool
		if d.Spec.Origin, over, err = s.goneAlready(ctx, KindDeployment.Name, in.Intent, d.Object, d.Spec.Deleted, d.Spec.Origin); over || err != nil {
			return err
		}
		return s.drop(ctx, d, actorOf(in.Intent))
	}
	forged, err := s.admit(ctx, in.Intent, known, o, d.Spec.Deleted, d.Spec.Origin)
	if err != nil {
		return err
	}
	home := in.Namespace
	home.Terminating = home.Terminating && !known // what is there may still change on its way out
	ws, puts, err := s.homeWorkspace(ctx, home)
	if err != nil {
		if !known {
			s.refuse(ctx, KindDeployment.Name, in.Intent, err, func(c Condition) any { return DeploymentView{Conditions: []Condition{c}} })
		}
		return err
	}
	set := ledger.Set{Actor: actorOf(in.Intent), Cause: ledger.CauseOf(ctx), Puts: puts}
	if ws.Version > 0 && len(puts) > 0 { // all of it may go to another engine from now on
		if set.Wakes, err = s.wakesOf(ctx, map[string]any{"workspace": ws.ID}); err != nil {
			return err
		}
	}
	if known && !forged && !moved(in.Intent, d.Spec.Origin) && d.Org == ws.Org && d.Spec.digest() == in.Asks() {
		if len(puts) > 0 {
			_, err = s.Store.Commit(ctx, set)
		}
		return err
	}
	spec, verb := specOf(in, known), "update"
	changed := spec.asks(d.Spec) || !o.Deleted.IsZero()
	if forged {
		d.comeBack(in.Name, s.Now())
	}
	if !known {
		verb, changed = "create", true
		d.Object = ledger.Object{
			Ref: ledger.Ref{Kind: KindDeployment.Name, ID: in.UID}, Org: ws.Org, Name: in.Name, Phase: Pending, Parent: ws.ID,
			Fields: ledger.Fields{"workspace": ws.ID},
		}
		w, err := DecodeWorkspace(ws)
		if err != nil {
			return err
		}
		d.Status.Since, d.Status.Wanted = s.Now().UTC(), w.Spec.Engine // whose agent may join before anybody has looked
	}
	d.Spec, d.Org = spec, ws.Org
	d.Status.Mirrored = "" // a run on what was wanted before may have told what it cannot write down any more
	if !known {
		if set.Claims, err = s.claimName(ctx, &d); err != nil {
			return err
		}
		runs, err := s.runsOf(ctx, d) // they may have waited for it
		if err != nil {
			return err
		}
		set.Wakes = append(set.Wakes, runs...)
	}
	if changed {
		if err := s.begin(ctx, &d, verb, &set); err != nil {
			return err
		}
	}
	_, err = s.writeDeployment(ctx, &d, verb, set)
	return s.mended(ctx, d.Ref, in.Intent, forged, err)
}

// news are the checks of what is still there: its namespace, and that it is news.
func news(in Intent, known bool, o ledger.Object, deleted bool, of *Origin) error {
	switch {
	case in.UID == "" || in.Name == "" || in.Namespace.UID == "":
		return fault.New(fault.Invalid, "an intent needs the UID and the name of its resource, and the UID of its namespace").Because("uid")
	case known && (of == nil || of.Home != in.Namespace.Home):
		return fault.New(fault.Conflict, "%s is no custom resource of %s", o.Ref, in.Namespace.Home).Because("stranger")
	case known && (deleted || !o.Deleted.IsZero()):
		return fault.New(fault.Conflict, "%s was deleted: this is an old view of it", o.Ref).Because("stale")
	case known && in.Generation < of.Generation:
		return fault.New(fault.Conflict, "generation %d of %s is known already: this is an old view of it", of.Generation, o.Ref).Because("stale")
	case in.Namespace.Missing:
		return fault.New(fault.NotFound, "namespace %s is not there", in.Namespace.Name).Because("namespace")
	case !known && in.Namespace.Terminating:
		return fault.New(fault.Conflict, "namespace %s is being deleted: nothing new is taken from it", in.Namespace.Name).Because("terminating")
	}
	return nil
}

// refuse tells a custom resource that is written down nowhere why it is not. It is
// tried again with the intent, so what comes of it is no matter.
func (s *Service) refuse(ctx context.Context, kind string, in Intent, why error, view func(Condition) any) {
	if s.Mirror == nil || !fault.Is(why, fault.Denied) {
		return
	}
	// The time is the resource's own: the same words again are no other status.
	c := Condition{Type: errorOccurred, Status: isTrue, Reason: errorOccurred, Message: why.Error(), Changed: in.Created.UTC()}
	_ = s.Mirror.Tell(ctx, kind, in.UID, *in.origin(), view(c))
}

// moved reports whether there is anything new in what is told of a resource. That its
// spec is another one at the same generation is not the resource's doing: somebody has
// changed what the ledger has of it.
func moved(in Intent, of *Origin) bool {
	is, was := *in.origin(), *of
	is.Reading = max(is.Reading, was.Reading) // a replica of before leaves what a newer one has written
	return is != was
}

// drop wants a deployment gone.
func (s *Service) drop(ctx context.Context, d Deployment, actor string) error {
	set := ledger.Set{Actor: actor, Cause: ledger.CauseOf(ctx)}
	if err := s.dropping(ctx, &d, &set); err != nil {
		return err
	}
	_, err := s.Store.Commit(ctx, set)
	return err
}

// dropping adds to a set what makes a deployment go.
func (s *Service) dropping(ctx context.Context, d *Deployment, set *ledger.Set) error {
	d.Spec.Deleted = true
	d.Phase, d.Status.Since = Deleting, s.Now().UTC()
	if err := s.begin(ctx, d, "delete", set); err != nil {
		return err
	}
	put, err := d.put("delete")
	if err != nil {
		return err
	}
	set.Puts = append([]ledger.Put{put}, set.Puts...)
	set.Wakes = append(set.Wakes, ledger.Wake{Ref: d.Ref, Org: d.Org})
	return nil
}

// claimName takes the name if nobody has it. Otherwise the deployment waits for it.
func (s *Service) claimName(ctx context.Context, d *Deployment) ([]ledger.Claim, error) {
	name := nameOf(d.workspace(), d.Name)
	holder, err := s.Store.Lookup(ctx, name)
	switch {
	case fault.Is(err, fault.NotFound):
		return []ledger.Claim{{Name: name, Holder: d.Ref}}, nil
	case err != nil || holder == d.Ref:
		return nil, err
	}
	return nil, nil
}

// writeDeployment commits a deployment first in a set, and wakes it.
func (s *Service) writeDeployment(ctx context.Context, d *Deployment, op string, set ledger.Set) (ledger.Object, error) {
	put, err := d.put(op)
	if err != nil {
		return ledger.Object{}, err
	}
	set.Puts = append([]ledger.Put{put}, set.Puts...)
	set.Wakes = append(set.Wakes, ledger.Wake{Ref: d.Ref, Org: d.Org})
	done, err := s.Store.Commit(ctx, set)
	if err != nil {
		return ledger.Object{}, err
	}
	return done.Objects[0], nil
}

func actorOf(in Intent) string { return "kubernetes:" + cmp.Or(in.Namespace.Home, "default") }
