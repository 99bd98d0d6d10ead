package policy

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"sync"
	"time"

	"github.com/droverhq/drover/internal/access"
	"github.com/droverhq/drover/internal/document"
	"github.com/droverhq/drover/internal/fault"
	"github.com/droverhq/drover/internal/ledger"
)

// Reviewer is somebody else's record of who has accepted what. Faults:
// Unavailable where it cannot be asked.
type Reviewer interface {
	// Required tells whether the user has yet to accept the terms, and where.
	Required(ctx context.Context, user, terms string) (required bool, url string, err error)
}

// Accepted asks the ledger first, then the reviewer. A yes is remembered: of the
// ledger for good, as acceptances are not taken back, of the reviewer for a while.
func (s *Service) Accepted(ctx context.Context, who access.Principal, terms string) error {
	if terms == "" {
		return nil
	}
	t := s.tables.Load().terms[terms]
	if t == nil && s.Review == nil {
		return fault.New(fault.Denied, "the terms %q are to be accepted first, but the operator has not published them", terms).Because("terms")
	}
	version, where := "", ""
	if t != nil {
		version, where = t.Version, t.URL
	}
	id := acceptance(who, terms, version)
	if s.accepted.holds(id, s.Now()) {
		return nil
	}
	if t != nil {
		o, err := s.stored(ctx, ledger.Ref{Kind: KindAcceptance.Name, ID: id})
		if err != nil {
			return err
		}
		if o.Version > 0 && o.Deleted.IsZero() {
			s.accepted.keep(id, time.Time{})
			return nil
		}
	}
	if s.Review != nil {
		required, url, err := s.Review.Required(ctx, who.User, terms)
		if err != nil {
			return fmt.Errorf("cannot ask whether the terms %s are accepted: %w", terms, err)
		}
		if !required {
			s.accepted.keep(id, s.Now().Add(s.ReviewFor))
			return nil
		}
		if url != "" {
			where = url
		}
	}
	if where != "" {
		where = ": see " + where
	}
	return fault.New(fault.Denied, "the terms %q have not been accepted%s", terms, where).Because("terms")
}

// Accept records that the caller accepts terms. A version says which one was
// read; empty: the present one. Accepting again changes nothing. Faults:
// NotFound, Conflict (reason "version") where there is a newer version, Denied
// for who is no user.
func (s *Service) Accept(ctx context.Context, who access.Principal, terms, version string) (ledger.Object, bool, error) {
	if who.User == "" {
		return ledger.Object{}, false, fault.New(fault.Denied, "only a user can accept terms")
	}
	t := s.tables.Load().terms[terms]
	if t == nil {
		return ledger.Object{}, false, fault.New(fault.NotFound, "there are no terms %.64q", terms)
	}
	if version != "" && version != t.Version {
		return ledger.Object{}, false, fault.New(fault.Conflict, "the terms %s are in version %s by now: read it first", terms, t.Version).Because("version")
	}
	ref := ledger.Ref{Kind: KindAcceptance.Name, ID: acceptance(who, terms, t.Version)}
	before, err := s.stored(ctx, ref)
	if err != nil {
		return ledger.Object{}, false, err
	}
	if before.Version > 0 {
		return before, false, nil
	}
	spec, err := document.Encode(map[string]string{"terms": terms, "version": t.Version, "user": who.User})
	if err != nil {
		return ledger.Object{}, false, fmt.Errorf("cannot encode the acceptance: %w", err)
	}
	set := s.set(ctx)
	set.Puts = []ledger.Put{{Op: "create", Object: ledger.Object{
		Ref: ref, Org: who.Org, Owner: who.User, Name: terms, Parent: terms, Spec: spec,
		Fields: ledger.Fields{"terms": terms, "terms_version": t.Version},
	}}}
	result, err := s.Store.Commit(ctx, set)
	if fault.Reason(err) == "exists" {
		o, err := s.stored(ctx, ref) // the same user was faster elsewhere
		return o, false, err
	}
	if err != nil {
		return ledger.Object{}, false, fmt.Errorf("cannot record the acceptance: %w", err)
	}
	s.accepted.keep(ref.ID, time.Time{})
	return result.Objects[0], true, nil
}

// acceptance is the id of what a user has accepted: a name alone says nothing
// across organisations.
func acceptance(who access.Principal, terms, version string) string {
	sum := sha256.Sum256(fmt.Appendf(nil, "%q %q %q %q", who.Org, who.User, terms, version))
	return hex.EncodeToString(sum[:16])
}

// remembered holds acceptances that need not be asked for again.
type remembered struct {
	mu    sync.Mutex
	until map[string]time.Time // zero: for good
}

const maxRemembered = 100_000

func (r *remembered) holds(id string, now time.Time) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	until, ok := r.until[id]
	if ok && !until.IsZero() && !now.Before(until) {
		delete(r.until, id)
		return false
	}
	return ok
}

func (r *remembered) keep(id string, until time.Time) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.until == nil || len(r.until) >= maxRemembered {
		r.until = map[string]time.Time{} // whoever is forgotten is asked for again
	}
	r.until[id] = until
}
