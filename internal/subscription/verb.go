package subscription

import (
	"context"

	"github.com/droverhq/drover/internal/fault"
	"github.com/droverhq/drover/internal/ledger"
)

// Change is what may be changed of a webhook; nil leaves it.
type Change struct {
	URL, Description *string
	Kinds            *[]string
	Off              *bool // false switches one on again that was disabled
	Rotate           bool  // gives it a new secret
}

// Update changes a webhook. What it has not been told while it was off is told when
// it is on again. The secret is there if it was made anew.
func (s *Service) Update(ctx context.Context, id string, c Change) (Subscription, string, error) {
	sub, err := s.webhook(ctx, id)
	if err != nil {
		return sub, "", err
	}
	old, secret := "", ""
	if c.URL != nil {
		sub.Spec.URL = *c.URL
	}
	if c.Description != nil {
		sub.Spec.Description = *c.Description
	}
	if c.Kinds != nil {
		sub.Spec.Kinds = *c.Kinds
	}
	if err := sub.Spec.Validate(s.Kinds); err != nil {
		return sub, "", err
	}
	if c.Rotate {
		secret, old = newSecret(), sub.Spec.Secret
		if sub.Spec.Secret, err = s.Keeper.Seal(ctx, []byte(secret)); err != nil {
			return sub, "", err
		}
	}
	if c.Off != nil {
		if sub.Spec.Off = *c.Off; sub.Spec.Off {
			sub.Phase, sub.Status.Message = Disabled, "switched off"
		} else {
			sub.Phase, sub.Status = Active, Status{Cursor: sub.Status.Cursor, Ledger: sub.Status.Ledger, Epoch: sub.Status.Epoch, Told: sub.Status.Told, Last: sub.Status.Last}
		}
	}
	put, err := sub.put("update")
	if err != nil {
		return sub, "", err
	}
	res, err := s.Store.Commit(ctx, ledger.Set{Actor: actor(ctx), Cause: ledger.CauseOf(ctx), Puts: []ledger.Put{put}, Wakes: []ledger.Wake{{Ref: sub.Ref, Org: sub.Org}}})
	if err != nil {
		if c.Rotate {
			ledger.Discard(ctx, s.Keeper, err, sub.Spec.Secret)
		}
		if fault.Reason(err) == "version" {
			err = fault.New(fault.Conflict, "the webhook was changed at the same time: try again").Because("version")
		}
		return sub, "", err
	}
	if old != "" {
		_ = s.Keeper.Shred(ctx, old) // it signs nothing any more
	}
	sub, err = Decode(res.Objects[0])
	return sub, secret, err
}

// Delete removes a webhook.
func (s *Service) Delete(ctx context.Context, id string) error {
	sub, err := s.webhook(ctx, id)
	if err != nil {
		return err
	}
	secret := sub.Spec.Secret
	sub.Deleted, sub.Spec.Secret = s.Now().UTC(), ""
	put, err := sub.put("delete")
	if err != nil {
		return err
	}
	_, err = s.Store.Commit(ctx, ledger.Set{
		Actor: actor(ctx), Cause: ledger.CauseOf(ctx), Puts: []ledger.Put{put},
		Frees:  []ledger.Claim{{Name: name(sub.Org, sub.Name), Holder: sub.Ref}},
		Counts: []ledger.Count{{Name: "subscriptions:" + sub.Org, Delta: -1, Max: -1}},
	})
	if err == nil && secret != "" {
		_ = s.Keeper.Shred(ctx, secret)
	}
	return err
}

// webhook reads one that the caller may change.
func (s *Service) webhook(ctx context.Context, id string) (Subscription, error) {
	sub, err := s.get(ctx, id)
	if err != nil {
		return sub, err
	}
	if sub.Spec.To != ToWebhook {
		return sub, fault.New(fault.Invalid, "the broker's subscription is kept by the server: switch the bus off instead")
	}
	return sub, may(ctx, sub.Org)
}

// Unsettled implements reconcile.Resyncer: those that tell may have missed a wake.
func (s *Service) Unsettled(ctx context.Context, after string, limit int) ([]ledger.Wake, string, error) {
	found, err := s.Store.List(ctx, ledger.Query{Kind: Kind.Name, AfterID: after, Limit: limit})
	if err != nil {
		return nil, "", err
	}
	var wakes []ledger.Wake
	next := ""
	for _, o := range found {
		next = o.ID
		if o.Phase != Disabled {
			wakes = append(wakes, ledger.Wake{Ref: o.Ref, Org: o.Org})
		}
	}
	if len(found) < limit {
		next = ""
	}
	return wakes, next, nil
}
