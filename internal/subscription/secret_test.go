package subscription_test

import (
	"context"
	"path/filepath"
	"testing"

	"github.com/droverhq/drover/internal/fault"
	"github.com/droverhq/drover/internal/ledger"
	"github.com/droverhq/drover/internal/subscription"
)

// forgetful is a ledger whose next commit is answered otherwise than it went, or not made.
type forgetful struct {
	subscription.Store
	says error
	lost bool // it is written all the same
}

func (f *forgetful) Commit(ctx context.Context, set ledger.Set) (ledger.Result, error) {
	says := f.says
	if f.says = nil; says == nil || f.lost {
		res, err := f.Store.Commit(ctx, set)
		if says == nil || err != nil {
			return res, err
		}
	}
	return ledger.Result{}, says
}

// sealed remembers the references that it has given.
type sealed struct {
	subscription.Keeper
	refs []string
}

func (s *sealed) Seal(ctx context.Context, plain []byte) (string, error) {
	ref, err := s.Keeper.Seal(ctx, plain)
	s.refs = append(s.refs, ref)
	return ref, err
}

// A webhook whose making or rotation may have been written signs with the secret that was
// made for it; one that was not written leaves no secret behind.
func TestSecretOfAnUnknownOutcome(t *testing.T) {
	unknown := fault.New(fault.Unavailable, "the answer was lost").Because("outcome-unknown")
	refused := fault.New(fault.Unavailable, "away").Because("database-away")
	for _, tc := range []struct {
		reason string
		rotate bool
		says   error
		kept   bool
	}{
		{"made, and nobody knows", false, unknown, true},
		{"not made", false, refused, false},
		{"rotated, and nobody knows", true, unknown, true},
		{"not rotated", true, refused, false},
	} {
		t.Run(tc.reason, func(t *testing.T) {
			w := newWorld(t, filepath.Join(t.TempDir(), "ledger.db"))
			store, keeper := &forgetful{Store: w.store, lost: tc.kept}, &sealed{Keeper: w.store}
			w.service.Store, w.service.Keeper = store, keeper
			var err error
			if tc.rotate {
				var sub subscription.Subscription
				if sub, _, err = w.service.Create(admin("acme"), "ours", subscription.Spec{URL: "https://a.example/x"}); err != nil {
					t.Fatal(err)
				}
				store.says = tc.says
				_, _, err = w.service.Update(admin("acme"), sub.ID, subscription.Change{Rotate: true})
			} else {
				store.says = tc.says
				_, _, err = w.service.Create(admin("acme"), "ours", subscription.Spec{URL: "https://a.example/x"})
			}
			if fault.Reason(err) != fault.Reason(tc.says) {
				t.Fatalf("it says %v", err)
			}
			made := keeper.refs[len(keeper.refs)-1]
			if _, err := w.store.Unseal(t.Context(), made); (err == nil) != tc.kept {
				t.Errorf("the new secret: %v", err)
			}
			found, err := w.store.List(t.Context(), ledger.Query{Kind: subscription.Kind.Name})
			if err != nil {
				t.Fatal(err)
			}
			for _, o := range found {
				sub, err := subscription.Decode(o)
				if err != nil {
					t.Fatal(err)
				}
				if _, err := w.store.Unseal(t.Context(), sub.Spec.Secret); err != nil {
					t.Errorf("the webhook cannot sign: %v", err)
				}
			}
		})
	}
}
