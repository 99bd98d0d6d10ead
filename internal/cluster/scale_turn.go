package cluster

import (
	"context"
	"fmt"
	"net/url"

	"github.com/droverhq/drover/internal/fault"
	"github.com/droverhq/drover/internal/ledger"
)

// Several profiles may serve one place, and each would make a cluster for the
// same shortage. So whoever makes one takes the place's turn first, in the same
// commit that says what it is about to do; it looks once more while it has the
// turn, and gives it back when the cluster is there for all to see.

const turnSpace = "cluster/scaling"

// turnOf is the name that stands for the turn of a place.
func turnOf(spec Spec) string {
	return url.PathEscape(spec.Provider) + "/" + url.PathEscape(spec.Region)
}

func turnName(turn string) ledger.Name { return ledger.Name{Space: turnSpace, Name: turn} }

// mayCome takes the turn of a place; the answer is why it cannot be had now.
func (r *scaling) mayCome(ctx context.Context, at spot) (turn, held string, err error) {
	turn = turnOf(at.spec)
	for _, c := range r.claims {
		if c.Name.Name == turn {
			return "", "another cluster of this profile is made there first", nil
		}
	}
	holder, err := r.Clusters.store.Lookup(ctx, turnName(turn))
	switch {
	case fault.Is(err, fault.NotFound):
	case err != nil:
		return "", "", err
	case holder != r.ref:
		busy, err := r.busy(ctx, holder, turn)
		if err != nil || busy {
			return "", fmt.Sprintf("profile %s makes a cluster there at the moment", holder.ID), err
		}
	}
	r.claims = append(r.claims, ledger.Claim{Name: turnName(turn), Holder: r.ref})
	return turn, "", nil
}

// busy reports whether a profile uses the turn that it has; one that it has
// forgotten, because it was deleted or changed meanwhile, is taken from it.
func (r *scaling) busy(ctx context.Context, holder ledger.Ref, turn string) (bool, error) {
	o, err := r.Clusters.store.Get(ctx, holder)
	if err != nil {
		return true, err
	}
	for _, s := range Scalings(o) {
		if s.Pending && s.Turn == turn && o.Deleted.IsZero() {
			return true, nil
		}
	}
	_, err = r.Clusters.store.Commit(ctx, ledger.Set{
		Actor: "system", Cause: ledger.BySchedule("scaling"), Puts: []ledger.Put{{Object: o, Expect: o.Version, Op: "scale"}},
		Frees: []ledger.Claim{{Name: turnName(turn), Holder: holder}},
	})
	if fault.Reason(err) == "version" {
		return true, nil // it has something to do after all: it is looked at again
	}
	return err != nil, err
}

// given lists the turns that are not used any more.
func (r *scaling) given(before map[string]ScaleState, now []ScaleState) []ledger.Claim {
	var out []ledger.Claim
	for _, was := range before {
		used := false
		for _, s := range now {
			used = used || s.Turn == was.Turn
		}
		if was.Turn != "" && !used {
			out = append(out, ledger.Claim{Name: turnName(was.Turn), Holder: r.ref})
		}
	}
	return out
}

// dropPending forgets what a profile was about to do when scaling was turned off:
// others wait for its turn, and what was decided then need not be right when
// scaling is turned on again.
func dropPending(profile ledger.Object) (ledger.Set, error) {
	states, turns, found := Scalings(profile), []ledger.Claim(nil), false
	for i := range states {
		s := &states[i]
		if s.Turn != "" {
			turns = append(turns, ledger.Claim{Name: turnName(s.Turn), Holder: profile.Ref})
		}
		if s.Pending || s.Turn != "" {
			s.Do, s.Code, s.Reason, s.Pending, s.Turn, found = Stay, "off", "scaling was turned off before it was done", false, "", true
		}
	}
	if !found {
		return ledger.Set{}, nil
	}
	version := profile.Version
	var err error
	if profile.Status, err = withScalings(profile.Status, states); err != nil {
		return ledger.Set{}, err
	}
	return ledger.Set{
		Actor: "system", Cause: ledger.BySchedule("scaling"), Frees: turns,
		Puts: []ledger.Put{{Object: profile, Expect: version, Op: "scale"}},
	}, nil
}

// still reports whether a cluster is needed at a place that was decided to need
// one: another may have come before the turn was had.
func (r *scaling) still(ctx context.Context, at spot, state ScaleState) (bool, string, error) {
	p, _, err := r.gather(ctx, at, ScaleState{Spare: state.Spare})
	if err != nil {
		return false, "", err
	}
	d := Scale(p, r.profile.Scaling, r.now)
	return d.Do == Up, d.Reason, nil
}
