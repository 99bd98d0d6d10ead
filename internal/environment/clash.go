package environment

import (
	"context"
	"fmt"
	"strings"

	"github.com/droverhq/drover/internal/executor"
	"github.com/droverhq/drover/internal/fault"
)

// clashes finds what two resources of a layout would both make: each of them could
// be planned, and one of them never applied.
func (a *asking) clashes() {
	first := map[[3]string]string{} // address by executor, connection and what is taken
	for i, takes := range a.taken {
		n := a.sheet.nodes[i]
		for _, what := range takes {
			key := [3]string{n.Executor, connection(n), what}
			other, twice := first[key]
			if !twice {
				first[key] = n.Address
				continue
			}
			if other != n.Address {
				a.fail(n, fault.New(fault.Invalid, "%s is what %s makes too: give one of the two another name", what, other))
			}
		}
	}
}

// maxHolders is how many resources are asked whether something is theirs.
const maxHolders = 100

// holder adds to a refusal of what the resource has not made which one of the
// environment has, and what to do then: a resource with another name is another one.
func (a *asking) holder(ctx context.Context, on subject, refusal error) error {
	if fault.Reason(refusal) != "not-ours" {
		return refusal
	}
	asked := 0
	for id, r := range a.there {
		if id == on.id || r.Spec.Executor != on.name || r.Spec.Connection != on.connection || asked == maxHolders {
			continue
		}
		asked++
		if !a.has(ctx, on, r, refusal.Error()) {
			continue
		}
		if _, stays := a.sheet.byID[id]; stays {
			return seemly{error: refusal, text: fmt.Sprintf("%s: %s has made it, so give one of the two another name", before(refusal), r.Spec.Address)}
		}
		return seemly{error: refusal, text: fmt.Sprintf("%s: %s has made it, which the template has no longer. A resource with another name is another one: apply a version without %s first, and then this one; or call it %s as before",
			before(refusal), r.Spec.Address, on.address, r.Spec.Address)}
	}
	return refusal
}

// before is what a refusal says, without its own advice.
func before(err error) string {
	text, _, _ := strings.Cut(err.Error(), "; ")
	return text
}

// has asks whether a resource has made what a refusal is about. It touches nothing.
func (a *asking) has(ctx context.Context, like subject, r *Resource, refusal string) bool {
	kept, err := a.keptInputs(ctx, r.Status)
	if err != nil || kept == nil {
		return false
	}
	like.id, like.address, like.tags, like.there, like.inputs = r.ID, r.Spec.Address, r.Spec.Tags, r, kept
	c, err := a.call(ctx, like)
	if err != nil {
		return false
	}
	var change executor.Change
	if err := c.do(ctx, false, func(ctx context.Context, given executor.Resource) (err error) {
		change, err = c.Plan(ctx, given)
		return err
	}); err != nil {
		return false
	}
	for _, what := range change.Takes {
		if strings.HasPrefix(refusal, what+" is there already") || strings.HasPrefix(refusal, what+" belongs to ") {
			return true
		}
	}
	return false
}
