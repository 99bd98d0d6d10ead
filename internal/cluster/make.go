package cluster

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/droverhq/drover/internal/fault"
	"github.com/droverhq/drover/internal/ledger"
	"github.com/droverhq/drover/internal/operation"
	"github.com/droverhq/drover/internal/provider"
)

// ensure asks the maker to go on. Nothing else was changed in this run, because
// what the maker saves is written at once.
func (r *run) ensure(ctx context.Context) error {
	maker, c, err := r.ask(ctx)
	if err != nil {
		return err
	}
	done, err := r.attend(ctx, func(ctx context.Context) (provider.Progress, error) { return maker.Ensure(ctx, c) })
	switch {
	case r.stale || ctx.Err() != nil:
		return ctx.Err()
	case fault.Is(err, fault.Invalid):
		reason := fmt.Sprintf("It cannot be made: %s. Mend the profile %s, or delete the cluster.", err, r.c.Spec.Profile)
		if r.c.Spec.Profile == "" {
			reason = fmt.Sprintf("It cannot be used: %s. Delete the cluster, and register it again with another.", err)
		}
		if err := r.move(Move{To: Failed, Reason: reason}); err != nil {
			return err
		}
		return r.finish(ctx, Finish{Phase: operation.Failed, Reason: reason})
	case err != nil:
		return err
	case !done.Done:
		r.c.Status.Message = done.Message
		r.next = &Come{After: cmp.Or(done.After, makeRetry), Why: cmp.Or(done.Message, "it is being made")}
		return nil
	}
	if err := r.reached(ctx, done.Kubeconfig); err != nil || r.stale {
		return err
	}
	return r.made(ctx, done)
}

// errUnwanted ends a call whose cluster is to go.
var errUnwanted = errors.New("the cluster is not wanted any more")

// attend makes a call that may take long, and ends it where somebody deletes the
// cluster meanwhile: they need not wait for what they do not want. It starts one
// goroutine, which ends with the call.
func (r *run) attend(ctx context.Context, call func(context.Context) (provider.Progress, error)) (provider.Progress, error) {
	ctx, cancel := context.WithCancelCause(ctx)
	ref, watched := r.c.Ref, make(chan struct{})
	go func() {
		defer close(watched)
		ticker := time.NewTicker(r.glance)
		defer ticker.Stop()
		for {
			select {
			case <-ctx.Done():
				return
			case <-ticker.C:
			}
			o, err := r.store.Get(ctx, ref)
			if err != nil {
				continue // what cannot be asked is no reason to stop
			}
			if c, err := load(o); err == nil && (c.Spec.Deleted || !o.Deleted.IsZero()) {
				cancel(errUnwanted)
				return
			}
		}
	}()
	done, err := call(ctx)
	cancel(nil)
	<-watched
	if errors.Is(context.Cause(ctx), errUnwanted) {
		r.stale = true
	}
	return done, err
}

// made takes over what is known of the cluster now that it is there.
func (r *run) made(ctx context.Context, done provider.Progress) error {
	spec := &r.c.Spec
	spec.Domain, spec.Nodes = cmp.Or(spec.Domain, done.Domain), cmp.Or(done.Nodes, spec.Nodes)
	if done.External != "" && done.External != spec.External {
		holder, err := r.store.Lookup(ctx, ledger.Name{Space: externalSpace, Name: done.External})
		switch {
		case err == nil && holder != r.c.Ref:
			reason := fmt.Sprintf("Its maker says that it is %s, which is the cluster %s already. Delete one of the two.", done.External, holder.ID)
			if err := r.move(Move{To: Failed, Reason: reason}); err != nil {
				return err
			}
			return r.finish(ctx, Finish{Phase: operation.Failed, Reason: reason})
		case err != nil && !fault.Is(err, fault.NotFound):
			return err
		}
		r.set.Frees = append(r.set.Frees, spec.names(r.c.Ref)...)
		spec.External = done.External
		r.set.Claims = append(r.set.Claims, spec.names(r.c.Ref)...)
	}
	return r.move(Move{To: Provisioned})
}

// withdraw asks the maker to take the cluster away.
func (r *run) withdraw(ctx context.Context) error {
	maker, c, err := r.ask(ctx)
	if err != nil {
		return err
	}
	done, err := maker.Remove(ctx, c)
	switch {
	case r.stale || ctx.Err() != nil:
		return ctx.Err()
	case err != nil:
		return err
	case !done.Done:
		r.c.Status.Message = done.Message
		r.next = &Come{After: cmp.Or(done.After, makeRetry), Why: cmp.Or(done.Message, "it is being taken away")}
		return nil
	}
	return r.move(Move{To: Cleanup, Reason: r.c.Status.Reason})
}

// ask prepares a question to the maker.
func (r *run) ask(ctx context.Context) (provider.Provider, provider.Cluster, error) {
	s := &r.c.Status
	maker := r.Makers[s.Maker.Name]
	if maker == nil {
		return nil, provider.Cluster{}, fault.New(fault.Unavailable, "this server has no maker of clusters %q", s.Maker.Name)
	}
	c := provider.Cluster{
		ID: r.c.ID, Cloud: r.c.Spec.Provider, Region: r.c.Spec.Region, MultiAZ: r.c.Spec.MultiAZ != nil && *r.c.Spec.MultiAZ,
		Nodes: r.c.Spec.Nodes, Labels: r.c.Spec.Labels, Options: s.Maker.Options, Save: r.save,
	}
	var err error
	if c.Kubeconfig, err = r.unseal(ctx, r.c.Spec.Kubeconfig); err != nil {
		return nil, c, err
	}
	if c.State, err = r.unseal(ctx, s.State); err != nil {
		return nil, c, err
	}
	return maker, c, nil
}

// save keeps what the maker will need to find its work again. Where the lease
// was lost nothing is kept, and the maker must not begin.
func (r *run) save(ctx context.Context, state []byte) error {
	return r.seal(ctx, state, "state", func(s *Status) *string { return &s.State })
}

// reached keeps how the cluster is reached.
func (r *run) reached(ctx context.Context, kubeconfig []byte) error {
	if kubeconfig == nil {
		return nil // only its agent reaches it
	}
	known, err := r.unseal(ctx, r.c.Status.Kubeconfig)
	if err != nil || bytes.Equal(known, kubeconfig) {
		return err
	}
	return r.seal(ctx, kubeconfig, "kubeconfig", func(s *Status) *string { return &s.Kubeconfig })
}

// seal keeps a secret and writes its reference at once, in place of the one
// before. What is not referred to is destroyed.
func (r *run) seal(ctx context.Context, plain []byte, op string, at func(*Status) *string) error {
	if r.Keeper == nil {
		return fault.New(fault.Internal, "there is nobody to keep the secrets of clusters")
	}
	ref, err := r.Keeper.Seal(ctx, plain)
	if err != nil {
		return err
	}
	before := *at(&r.c.Status)
	err = r.record(ctx, op, func(s *Status) { *at(s) = ref })
	if err == nil {
		_ = r.shred(ctx, before) // it is nowhere any more; what is left of it opens nothing
	}
	ledger.Discard(ctx, r.Keeper, err, ref)
	return err
}

// record changes the status at once, under the lease: before an effect that
// must not be forgotten.
func (r *run) record(ctx context.Context, op string, change func(*Status)) error {
	for range attempts {
		c, err := load(r.c.Object)
		if err != nil {
			return err
		}
		change(&c.Status)
		put, err := c.put(op)
		if err != nil {
			return err
		}
		set := ledger.Set{Actor: "system", Cause: ledger.ByChange(c.Ref, c.Version), Puts: []ledger.Put{put}}
		if r.task.Token != 0 {
			set.Lease = &ledger.Lease{Ref: r.c.Ref, Token: r.task.Token}
		}
		done, err := r.store.Commit(ctx, set)
		if err == nil {
			r.c.Object = done.Objects[0]
			change(&r.c.Status)
			return nil
		}
		if fault.Reason(err) != "version" {
			return err
		}
		// What is to be remembered is so whatever others want of the cluster
		// meanwhile; what was decided is not.
		r.stale = true
		if r.c.Object, err = r.store.Get(ctx, r.c.Ref); err != nil {
			return err
		}
	}
	return fault.New(fault.Unavailable, "cluster %q changes all the time", r.c.ID)
}

func (s *Service) unseal(ctx context.Context, ref string) ([]byte, error) {
	if ref == "" {
		return nil, nil
	}
	if s.Keeper == nil {
		return nil, fault.New(fault.Internal, "there is nobody to keep the secrets of clusters")
	}
	return s.Keeper.Unseal(ctx, ref)
}

// shred destroys a secret; one that is not there is fine.
func (s *Service) shred(ctx context.Context, ref string) error {
	if ref == "" || s.Keeper == nil {
		return nil
	}
	if err := s.Keeper.Shred(ctx, ref); err != nil && !fault.Is(err, fault.NotFound) {
		return err
	}
	return nil
}
