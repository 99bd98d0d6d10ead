package instance

import (
	"context"
	"crypto/rand"
	"encoding/hex"
	"errors"
	"fmt"
	"maps"
	"slices"

	"github.com/droverhq/drover/internal/dns"
	"github.com/droverhq/drover/internal/fault"
	"github.com/droverhq/drover/internal/ledger"
	"github.com/droverhq/drover/internal/operation"
	"github.com/droverhq/drover/internal/reconcile"
	"github.com/droverhq/drover/internal/sso"
)

// Who can be waited for, as messages name them.
const (
	quotaSource      = "source of quota"
	identityProvider = "identity provider"
	nameServers      = "name servers"
	certificates     = "source of certificates"
)

// trouble is an error of somebody outside, with their name.
type trouble struct {
	culprit string
	err     error
}

func (t trouble) Error() string { return fmt.Sprintf("the %s: %v", t.culprit, t.err) }
func (t trouble) Unwrap() error { return t.err }

// why is what users read. It stays the same while the trouble does: texts of
// those who cannot be reached change from one attempt to the next.
func (t trouble) why() string {
	switch fault.Of(t.err) {
	case fault.Invalid, fault.Denied, fault.Exhausted, fault.Conflict, fault.NotFound:
		text := t.err.Error()
		return text[:min(len(text), maxMessage)]
	case fault.Unavailable:
		return "no answer in time"
	}
	return "an unexpected failure"
}

// stuck ends a run that met trouble outside: it says who is waited for, once,
// and leaves the rest to the next attempt. Other errors are the loop's.
func (r *run) stuck(ctx context.Context, err error) (reconcile.Result, error) {
	var t trouble
	if !errors.As(err, &t) {
		return reconcile.Result{}, err
	}
	progress := r.in.Status
	r.begin()
	if r.in.Phase == Deleting { // what is gone outside is not asked for again
		r.in.Status = progress
	}
	if hopeless(r.in, r.facts, fault.Of(t.err), r.now) {
		reason := fmt.Sprintf("The %s failed: %s. Delete this instance and try again later.", t.culprit, t.why())
		if err := r.move(Move{To: Failed, Reason: reason}); err != nil {
			return reconcile.Result{}, err
		}
		if err := r.finish(ctx, Finish{Phase: operation.Failed, Reason: reason}); err != nil {
			return reconcile.Result{}, err
		}
		set, err := r.write(ctx)
		return reconcile.Again(set), err
	}
	r.in.Status.Message = fmt.Sprintf("waiting for the %s: %s", t.culprit, t.why())
	var set ledger.Set
	if !r.unchanged() {
		if set, err = r.write(ctx); err != nil {
			return reconcile.Result{}, err
		}
	}
	if r.in.placed() && r.in.Phase != Provisioning && r.in.Phase != Deleting || fault.Is(t.err, fault.NotFound) {
		// It runs, or there is nothing to be done but to wait: no reason to hurry.
		return reconcile.Wait(set, every(r.in.ID, lookRetry), r.in.Status.Message), nil
	}
	return reconcile.Result{Write: set, Why: r.in.Status.Message}, t
}

// unchanged reports whether a run has only seen what was known.
func (r *run) unchanged() bool {
	now, was := &r.in.Status, &r.read.Status
	return now.Message == was.Message && now.Client == was.Client && now.Secret == was.Secret &&
		now.Named == was.Named && now.Certified == was.Certified && len(now.Tickets) == len(was.Tickets) &&
		maps.Equal(now.Published, was.Published)
}

// reach does the steps that reach outside.
func (r *run) reach(ctx context.Context, a Action) error {
	switch a.(type) {
	case Reserve:
		return r.reserve(ctx)
	case Release:
		return r.releaseTickets(ctx)
	case Seal:
		return r.seal(ctx)
	case Account:
		c, err := r.client(ctx)
		if err == nil {
			err = r.SSO.Apply(ctx, c)
		}
		return troubled(identityProvider, err)
	case Certify:
		return r.certify(ctx)
	case Publish:
		return r.publish(ctx)
	case Look:
		return r.look(ctx)
	case Withdraw:
		return r.withdraw(ctx)
	}
	return nil
}

func (r *run) certify(ctx context.Context) error {
	for _, route := range r.in.Status.Routes {
		if _, err := r.Certificates.For(ctx, route.Host); err != nil {
			return trouble{certificates, err}
		}
	}
	return nil
}

func troubled(culprit string, err error) error {
	if err == nil {
		return nil
	}
	return trouble{culprit, err}
}

// reserve takes the units at the source of quota, under the instance's id.
func (r *run) reserve(ctx context.Context) error {
	in := &r.in
	if r.Quota == nil {
		return trouble{quotaSource, fault.New(fault.Unavailable, "there is none any more")}
	}
	_, size, err := r.off.Plan(in.Spec.Type + "." + in.Spec.Size)
	if err != nil {
		return err
	}
	m, _ := modelOf(r.off, in.Spec.Billing.Model)
	id := in.Status.Tickets[0].ID
	number, err := r.Quota.Reserve(ctx, in.payer(), product(r.off, in.Spec.Type, m), id, size.Quota)
	if err != nil {
		return trouble{quotaSource, err}
	}
	in.reserved(id, number)
	in.Status.Source, in.Status.Message = r.Quota.Name(), ""
	return nil
}

// releaseTickets gives back what a promotion has left.
func (r *run) releaseTickets(ctx context.Context) error {
	in := &r.in
	for _, t := range in.surplus() {
		if r.Quota == nil {
			return trouble{quotaSource, fault.New(fault.Unavailable, "there is none any more")}
		}
		if err := r.Quota.Release(ctx, t.Number, t.ID); err != nil {
			return trouble{quotaSource, err}
		}
	}
	in.Status.Tickets = []Ticket{{ID: in.Status.Reserved, Number: in.Status.Ticket}}
	in.Status.Message = ""
	return nil
}

// seal makes up the account. It is written down before the provider hears of
// it: whatever happens then, it is known what to look for.
func (r *run) seal(ctx context.Context) error {
	ref, err := r.sealed(ctx)
	if err == nil {
		r.in.Status.Client, r.in.Status.Secret = "srvc-acct-"+uuid(), ref
	}
	return err
}

// sealed returns the reference to a new secret.
func (r *run) sealed(ctx context.Context) (string, error) {
	ref := r.memory.kept(r.in.ID)
	if ref != "" {
		return ref, nil
	}
	ref, err := r.Keeper.Seal(ctx, []byte(rand.Text()+rand.Text()))
	if err != nil {
		return "", fmt.Errorf("cannot seal the secret of an account: %w", err)
	}
	r.memory.keep(r.in.ID, ref)
	return ref, nil
}

func uuid() string {
	var b [16]byte
	rand.Read(b[:])
	b[6], b[8] = b[6]&0x0f|0x40, b[8]&0x3f|0x80
	h := hex.EncodeToString(b[:])
	return h[:8] + "-" + h[8:12] + "-" + h[12:16] + "-" + h[16:20] + "-" + h[20:]
}

// client is the account as it must be.
func (r *run) client(ctx context.Context) (sso.Client, error) {
	in := &r.in
	secret, err := r.Keeper.Unseal(ctx, in.Status.Secret)
	if r.memory.kept(in.ID) == in.Status.Secret {
		r.memory.drop(in.ID) // it is written down
	}
	if fault.Is(err, fault.NotFound) { // lost: a new one takes its place
		if in.Status.Secret, err = r.sealed(ctx); err == nil {
			secret, err = r.Keeper.Unseal(ctx, in.Status.Secret)
		}
	}
	if err != nil {
		return sso.Client{}, fmt.Errorf("cannot read the secret of an account: %w", err)
	}
	name := r.off.Spec.Identity.Name
	c := sso.Client{
		ID: in.Status.Client, Secret: string(secret), Name: name + "-" + in.ID,
		Description: name + " of " + r.off.Spec.Names.Singular + " " + in.ID,
	}
	if in.Org != "" {
		c.Claims = map[string]string{"rh-org-id": in.Org}
	}
	return c, nil
}

// differs reports whether what the provider has is not the account any more.
func differs(has, want sso.Client) bool {
	if has.Secret != "" && has.Secret != want.Secret || has.Name != want.Name {
		return true
	}
	for k, v := range want.Claims {
		if has.Claims[k] != v {
			return true
		}
	}
	return false
}

func (r *run) records() []dns.Record {
	var out []dns.Record
	for _, route := range r.in.Status.Routes {
		if route.Router != "" {
			out = append(out, dns.Record{Host: route.Host, Target: route.Router, Owner: r.in.Ref.String()})
		}
	}
	return out
}

func (r *run) publish(ctx context.Context) error {
	records := r.records()
	s := &r.in.Status
	var left []string // hosts that are not known to lead anywhere any more
	for host := range s.Published {
		if !slices.ContainsFunc(records, func(rec dns.Record) bool { return rec.Host == host }) {
			left = append(left, host)
		}
	}
	if r.DNS == nil || len(records)+len(left) == 0 {
		return nil
	}
	if !s.Named { // written down before it is done, like everything outside
		s.Named = true
		return nil
	}
	if len(left) > 0 {
		if err := r.DNS.Remove(ctx, r.in.Ref.String(), left); err != nil {
			return trouble{nameServers, err}
		}
	}
	if len(records) > 0 {
		if err := r.DNS.Ensure(ctx, records); err != nil {
			return trouble{nameServers, err}
		}
	}
	s.Published, s.Message = map[string]string{}, ""
	for _, rec := range records {
		s.Published[rec.Host] = rec.Target
	}
	return nil
}

// look sees after the account, the records and the certificate, each whatever
// became of the others.
func (r *run) look(ctx context.Context) error {
	in := &r.in
	if r.facts.Identity && in.Status.Client == "" { // the offering has it since
		if err := r.seal(ctx); err != nil {
			return err
		}
		return r.render(ctx)
	}
	var first error
	if r.facts.Identity {
		first = troubled(identityProvider, r.lookAtAccount(ctx))
	}
	if r.facts.Names && in.Status.Named {
		if err := r.publish(ctx); first == nil {
			first = err
		}
	}
	if r.facts.Certificate && in.Status.Certified {
		if err := r.certify(ctx); first == nil {
			first = err
		}
	}
	if first != nil {
		return first
	}
	in.Status.Message = ""
	r.looked()
	return nil
}

// looked notes that everything outside was seen.
func (r *run) looked() {
	r.memory.look(r.in.ID, r.now)
	r.facts.Looked, r.facts.NextLook = true, every(r.in.ID, or(r.facts.Timing.Observe, observeEvery))
}

func (r *run) lookAtAccount(ctx context.Context) error {
	want, err := r.client(ctx)
	if err != nil {
		return err
	}
	has, err := r.SSO.Get(ctx, want.ID)
	if err != nil && !fault.Is(err, fault.NotFound) {
		return err
	}
	if err != nil || differs(has, want) {
		return r.SSO.Apply(ctx, want)
	}
	return nil
}
