package account

import (
	"context"
	"crypto/rand"
	"encoding/json"
	"fmt"
	"time"

	"github.com/droverhq/drover/internal/fault"
	"github.com/droverhq/drover/internal/ledger"
)

// fresh is an account to be created, with its secret.
type fresh struct {
	object ledger.Object
	spec   Spec
	secret string
}

// prepare seals a new secret for an account that is not written yet.
func (s *Service) prepare(ctx context.Context, o ledger.Object, spec Spec) (fresh, error) {
	secret, ref, err := s.seal(ctx)
	if err != nil {
		return fresh{}, err
	}
	spec.Client, spec.Secret = "srvc-acct-"+uuid(), ref
	o.Ref, o.Phase = ledger.Ref{Kind: Kind.Name, ID: uuid()}, Creating
	o.Fields = ledger.Fields{"use": spec.Use, "client": spec.Client}
	if o.Spec, err = json.Marshal(spec); err != nil {
		return fresh{}, err
	}
	return fresh{object: o, spec: spec, secret: secret}, nil
}

func (s *Service) seal(ctx context.Context) (secret, ref string, err error) {
	secret = rand.Text()
	if ref, err = s.store.Seal(ctx, []byte(secret)); err != nil {
		return "", "", fmt.Errorf("cannot seal the secret: %w", err)
	}
	return secret, ref, nil
}

// names are what an account holds while the identity provider may have it.
func names(o ledger.Object, spec Spec) []ledger.Claim {
	out := []ledger.Claim{{Name: ledger.Name{Space: clientSpace, Name: spec.Client}, Holder: o.Ref}}
	switch spec.Use {
	case agent:
		out = append(out, ledger.Claim{Name: ledger.Name{Space: agentSpace, Name: spec.Cluster}, Holder: o.Ref})
	case login:
		out = append(out, ledger.Claim{Name: ledger.Name{Space: loginSpace, Name: spec.Cluster}, Holder: o.Ref})
	}
	return out
}

// leave is the set that ends an account: the identity provider is told by the
// loop. Room for another one is there at once.
func leave(o ledger.Object, spec Spec, why string) (ledger.Set, error) {
	version := o.Version
	o.Phase = Deleting
	if why != "" {
		status, err := json.Marshal(Status{Fault: why})
		if err != nil {
			return ledger.Set{}, err
		}
		o.Status = status
	}
	set := ledger.Set{
		Puts:  []ledger.Put{{Object: o, Expect: version, Op: Deleting}},
		Frees: names(o, spec)[1:], // a cluster may have a new account at once
		Wakes: []ledger.Wake{{Ref: o.Ref, Org: o.Org}},
	}
	if spec.Use == tenant {
		set.Counts = []ledger.Count{{Name: counter(o.Org, o.Owner), Delta: -1}}
	}
	return set, nil
}

// enter is the put of an account's next state.
func enter(o ledger.Object, spec Spec, phase, op string) (ledger.Put, error) {
	body, err := json.Marshal(spec)
	version := o.Version
	o.Phase, o.Spec = phase, body
	return ledger.Put{Object: o, Expect: version, Op: op}, err
}

// settle makes an account ready after the identity provider has it. The wakes
// are for what the loop may have brought there meanwhile, from an older state.
func (s *Service) settle(ctx context.Context, o ledger.Object, spec Spec, wakes ...ledger.Wake) (ledger.Object, error) {
	put, err := enter(o, spec, Ready, Ready)
	if err != nil {
		return o, err
	}
	r, err := s.commit(ctx, ledger.Set{Puts: []ledger.Put{put}, Wakes: wakes})
	if err != nil {
		return o, err
	}
	return r.Objects[0], nil
}

func (s *Service) commit(ctx context.Context, set ledger.Set) (ledger.Result, error) {
	set.Actor, set.Cause = actor(ctx), ledger.CauseOf(ctx)
	return s.store.Commit(ctx, set)
}

// after returns a context for what must be written although the caller may have
// left.
func after(ctx context.Context) (context.Context, context.CancelFunc) {
	return context.WithTimeout(context.WithoutCancel(ctx), 10*time.Second)
}

// shred destroys secrets that nobody can use any more. One that stays, stays
// sealed and without a use: that is no reason to fail.
func (s *Service) shred(ctx context.Context, refs ...string) {
	for _, ref := range refs {
		if ref != "" {
			_ = s.store.Shred(ctx, ref)
		}
	}
}

func uuid() string {
	var b [16]byte
	rand.Read(b[:])
	b[6], b[8] = b[6]&0x0f|0x40, b[8]&0x3f|0x80
	return fmt.Sprintf("%x-%x-%x-%x-%x", b[:4], b[4:6], b[6:8], b[8:10], b[10:])
}

// culprit puts what the identity provider said into the words of a verb. Its
// errors hold no secrets, by the contract of the port.
func culprit(err error, reason, format string, args ...any) error {
	return fault.New(fault.Unavailable, "%s: %w", fmt.Sprintf(format, args...), err).Because(reason)
}
