package gitops

import (
	"bytes"
	"context"
	"crypto/subtle"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/droverhq/drover/internal/access"
	"github.com/droverhq/drover/internal/fault"
	"github.com/droverhq/drover/internal/ledger"
	"github.com/droverhq/drover/internal/reconcile"
)

const phaseReady = "ready"

// Retired is a sealed secret that nothing new uses. It is destroyed once every
// deployment that may have had it has taken up another.
type Retired struct {
	Ref   string    `json:"ref"`
	Since time.Time `json:"since"`
}

// retireAfter is how long a secret is kept at least after another came in its
// place: an agent may be fetching what still names it.
const retireAfter = 10 * time.Minute

// retireAtLast is how long one is kept at most for deployments that are told nothing
// new: what somebody replaced is not to be opened for ever.
const retireAtLast = 24 * time.Hour

// retire adds what was used before and is not any more, and takes out what is
// used again.
func retire(list []Retired, before, after []string, now time.Time) []Retired {
	var out []Retired
	known := map[string]bool{"": true}
	for _, ref := range after {
		known[ref] = true
	}
	for _, r := range list {
		if !known[r.Ref] {
			known[r.Ref] = true
			out = append(out, r)
		}
	}
	for _, ref := range before {
		if !known[ref] {
			known[ref] = true
			out = append(out, Retired{Ref: ref, Since: now.UTC()})
		}
	}
	return out
}

// destroy shreds what was retired long enough ago and is in no deployment's hands: of
// those that have the credential or the target (column) none was told it last. It
// returns what is left. What is no reference is not: no try would destroy it, and odd
// says so, for once.
func (s *Service) destroy(ctx context.Context, column, id string, list []Retired) (left []Retired, odd, err error) {
	for _, r := range list {
		age := s.Now().Sub(r.Since)
		if age < retireAfter {
			left = append(left, r)
			continue
		}
		if age < retireAtLast {
			held, err := s.holds(ctx, column, id, r.Ref)
			if err != nil {
				return list, nil, err
			}
			if held {
				left = append(left, r)
				continue
			}
		}
		switch err := s.Keeper.Shred(ctx, r.Ref); {
		case err == nil, fault.Is(err, fault.NotFound):
		case fault.Is(err, fault.Invalid):
			odd = fault.New(fault.Invalid, "somebody else has changed a reference of a replaced secret of this %s in the ledger: it is let go, and the secret that it was is not destroyed", column)
		default:
			left = append(left, r)
		}
	}
	return left, odd, nil
}

// beside ends a run that has something odd to tell: what it writes says that it is told.
func beside(result reconcile.Result, err, odd error) (reconcile.Result, error) {
	if odd == nil {
		return result, err
	}
	return result, errors.Join(err, odd)
}

// holds reports whether what a deployment's agent was told last names a secret. That
// it was written since says nothing: reports are written, too, and one that waits for
// something is not told anew.
func (s *Service) holds(ctx context.Context, column, id, ref string) (bool, error) {
	for after := ""; ; {
		found, err := s.Store.List(ctx, ledger.Query{Kind: KindDeployment.Name, Scope: map[string]any{column: id}, AfterID: after, Limit: wakesPage})
		if err != nil {
			return false, err
		}
		for _, o := range found {
			after = o.ID
			d, err := sound(ctx, s, o, Decode)
			if err != nil {
				return false, err
			}
			if d.Status.Desired == "" || d.Status.Runtime == kubernetes {
				continue // bodies for agents without Argo CD have none
			}
			body, err := s.Keeper.Blob(ctx, d.Status.Desired)
			if err != nil && !fault.Is(err, fault.NotFound) {
				return false, err
			}
			if bytes.Contains(body, []byte(ref)) {
				return true, nil
			}
		}
		if len(found) < wakesPage {
			return false, nil
		}
	}
}

// sealing seals what is new and remembers it, for the case that the commit that
// names it fails.
type sealing struct {
	*Service
	fresh []string
}

// keep returns the reference of a secret: the old one where it holds the same.
// Nothing is told of either but whether they are equal.
func (k *sealing) keep(ctx context.Context, old string, plain []byte) (string, error) {
	if len(plain) == 0 {
		return "", nil
	}
	if old != "" {
		was, err := k.Keeper.Unseal(ctx, old)
		if err != nil && !fault.Is(err, fault.NotFound) && !fault.Is(err, fault.Invalid) { // invalid: somebody has written something else there
			return "", fmt.Errorf("cannot compare the secret with the one there is: %w", err)
		}
		if err == nil && subtle.ConstantTimeCompare(was, plain) == 1 {
			return old, nil
		}
	}
	ref, err := k.Keeper.Seal(ctx, plain)
	if err != nil {
		return "", fmt.Errorf("cannot seal the secret: %w", err)
	}
	k.fresh = append(k.fresh, ref)
	return ref, nil
}

// drop destroys what was sealed for a commit that failed for sure.
func (k *sealing) drop(ctx context.Context, err error) {
	ledger.Discard(ctx, k.Keeper, err, k.fresh...)
}

// digestOf tells sets of sealed secrets apart by their references: other secrets
// have others, and nothing can be learned from them.
func digestOf(refs ...string) string {
	refs = slices.DeleteFunc(refs, func(r string) bool { return r == "" })
	if len(refs) == 0 {
		return ""
	}
	return ledger.Digest([]byte(strings.Join(refs, "\n")))[:len("sha256:")+32]
}

// writer is who a change of a credential or a target is logged for.
func writer(ctx context.Context) string {
	if a := access.From(ctx).Actor(); a != "" {
		return a
	}
	return "system"
}
