package audit

import (
	"context"
	"crypto/ed25519"
	"encoding/json"
	"fmt"
	"time"

	"github.com/droverhq/drover/internal/fault"
	"github.com/droverhq/drover/internal/ledger"
)

// Kind is that of the keys that the log is sealed with. They are never removed:
// whoever has a head of long ago needs the key of then.
var Kind = ledger.Kind{Name: "sealkey"}

const (
	ready   = "ready"
	retired = "retired" // it has vouched for the next one, and its private half is destroyed

	// rotate is how long one key signs.
	rotate = 90 * 24 * time.Hour
)

// keySpec is the spec of such an object. Private is a reference to a sealed secret.
type keySpec struct {
	ledger.SealKey
	Private string `json:"private"`
}

// key is one as it is stored.
type key struct {
	object ledger.Object
	spec   keySpec
}

// keyID has them in the order in which they were made.
func keyID(n int) string { return fmt.Sprintf("ed25519-%06d", n) }

// stored reads all keys, the first one first.
func stored(ctx context.Context, store ledger.Reader) ([]key, error) {
	var out []key
	query := ledger.Query{Kind: Kind.Name, Deleted: true, Limit: 500}
	for {
		found, err := store.List(ctx, query)
		if err != nil {
			return nil, fmt.Errorf("cannot read the keys of the log: %w", err)
		}
		for _, o := range found {
			k := key{object: o}
			if err := json.Unmarshal(o.Spec, &k.spec); err != nil {
				return nil, fault.New(fault.Internal, "the key %s of the log cannot be read: %w", o.ID, err)
			}
			out = append(out, k)
		}
		if len(found) < query.Limit {
			return out, nil
		}
		query.AfterID = found[len(found)-1].ID
	}
}

// Keys returns the public halves, the first one first.
func Keys(ctx context.Context, store ledger.Reader) ([]ledger.SealKey, error) {
	all, err := stored(ctx, store)
	out := make([]ledger.SealKey, len(all))
	for i := range all {
		out[i] = all[i].spec.SealKey
	}
	return out, err
}

// signer returns the key that signs now, and makes it where there is none or the
// last one has signed for long enough. It is called by whoever has the lease; if
// two do after all, the ledger keeps one of their keys.
func (s *Service) signer(ctx context.Context) (ed25519.PrivateKey, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	now := s.Now()
	if s.private != nil && now.Sub(s.since) < rotate {
		return s.private, nil
	}
	const tries = 3
	for range tries {
		all, err := stored(ctx, s.Store)
		if err != nil {
			return nil, err
		}
		var last ed25519.PrivateKey
		if n := len(all); n > 0 {
			if last, err = s.unlock(ctx, all[n-1].spec); err != nil {
				return nil, err
			}
			if now.Sub(all[n-1].spec.Since) < rotate {
				s.private, s.since = last, all[n-1].spec.Since
				return last, s.shred(ctx, all[:n-1])
			}
		}
		if err := s.follow(ctx, all, last, now); err != nil && !fault.Is(err, fault.Conflict) {
			return nil, err
		}
	}
	return nil, fault.New(fault.Unavailable, "others keep making keys of the log")
}

func (s *Service) unlock(ctx context.Context, k keySpec) (ed25519.PrivateKey, error) {
	seed, err := s.Store.Unseal(ctx, k.Private)
	if err != nil {
		return nil, fmt.Errorf("cannot open the key %s of the log: %w", k.ID, err)
	}
	if len(seed) != ed25519.SeedSize {
		return nil, fault.New(fault.Internal, "the key %s of the log is not one", k.ID)
	}
	private := ed25519.NewKeyFromSeed(seed)
	if ledger.KeyID(private.Public().(ed25519.PublicKey)) != k.ID {
		return nil, fault.New(fault.Internal, "the key %s of the log has another's private half", k.ID)
	}
	return private, nil
}

// follow makes the key after the last one, which vouches for it.
func (s *Service) follow(ctx context.Context, all []key, last ed25519.PrivateKey, now time.Time) error {
	head, err := s.Store.Head(ctx)
	if err != nil {
		return err
	}
	public, private, err := ed25519.GenerateKey(nil)
	if err != nil {
		return fault.New(fault.Internal, "cannot make a key: %w", err)
	}
	if last == nil {
		last = private
	}
	ref, err := s.Store.Seal(ctx, private.Seed())
	if err != nil {
		return fmt.Errorf("cannot seal a key: %w", err)
	}
	spec, err := json.Marshal(keySpec{SealKey: ledger.NewSealKey(head.Ledger, public, now, last), Private: ref})
	if err != nil {
		return fault.New(fault.Internal, "cannot write a key: %w", err)
	}
	set := ledger.Set{Actor: "system", Cause: ledger.BySchedule("key-rotation"), Puts: []ledger.Put{{Op: "create", Object: ledger.Object{
		Ref: ledger.Ref{Kind: Kind.Name, ID: keyID(len(all) + 1)}, Phase: ready, Spec: spec,
	}}}}
	if n := len(all); n > 0 {
		old := all[n-1].object
		old.Phase = retired
		set.Puts = append(set.Puts, ledger.Put{Object: old, Expect: old.Version, Op: retired})
	}
	if _, err = s.Store.Commit(ctx, set); fault.Is(err, fault.Conflict) {
		_ = s.Store.Shred(ctx, ref) // the other one's is in force; ours is nobody's
	}
	return err
}

// shred destroys what nobody signs with any more, as often as this process asks
// for the first time: whoever retired it may have been killed before.
func (s *Service) shred(ctx context.Context, old []key) error {
	for _, k := range old {
		if err := s.Store.Shred(ctx, k.spec.Private); err != nil {
			return fmt.Errorf("cannot destroy the retired key %s of the log: %w", k.spec.ID, err)
		}
	}
	return nil
}
