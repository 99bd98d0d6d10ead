package policy

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/droverhq/drover/internal/document"
	"github.com/droverhq/drover/internal/ledger"
	"github.com/droverhq/drover/internal/reconcile"
)

// Tenants knows who has what. What is woken decides for itself what the change
// means.
type Tenants interface {
	// OwnedBy returns the wakes of what a user owns, after an id, and the id to
	// go on after: empty when that was all.
	OwnedBy(ctx context.Context, user, after string, limit int) (wakes []ledger.Wake, next string, err error)
	// OfOrg returns those of an organisation.
	OfOrg(ctx context.Context, org, after string, limit int) (wakes []ledger.Wake, next string, err error)
}

// Deployers know what organisations have deployed: those that a deny list names may
// deploy nothing new, and what they have run otherwise stays.
type Deployers interface {
	// OfOrg is as Tenants has it.
	OfOrg(ctx context.Context, org, after string, limit int) (wakes []ledger.Wake, next string, err error)
}

// Reconciler of the kinds "denylist", "quota", "accesslist" and "terms": it
// wakes those whom a change is about.
type Reconciler struct {
	Store   Store
	Tenants Tenants // nil: nobody has anything
	// Deployers; nil: nobody deploys.
	Deployers Deployers
}

// newsWithin is how long a replica may take to follow a change.
const newsWithin = 5 * time.Second

// Reconcile wakes all that is pending, at once and again when every replica
// knows why, then writes that it did. It may stop and start again anywhere: to
// be woken twice does no harm.
func (r *Reconciler) Reconcile(ctx context.Context, task reconcile.Task) (reconcile.Result, error) {
	o, err := r.Store.Get(ctx, task.Ref)
	if err != nil {
		return reconcile.Result{}, err
	}
	var status Status
	if err := json.Unmarshal(o.Status, &status); err != nil {
		return reconcile.Result{}, reconcile.Terminal(fmt.Errorf("cannot read the status of %s: %w", o.Ref, err))
	}
	holders := status.Pending
	if status.Everybody {
		value := blank(o.Kind)
		if err := json.Unmarshal(o.Spec, value); err != nil {
			return reconcile.Result{}, reconcile.Terminal(fmt.Errorf("cannot read %s: %w", o.Ref, err))
		}
		holders = append(woken(value), holders...)
	}
	if len(holders) == 0 {
		return reconcile.Done(ledger.Set{}), nil
	}
	cause := ledger.ByChange(o.Ref, o.Version)
	for _, holder := range holders {
		if err := r.wake(ctx, holder, cause); err != nil {
			return reconcile.Result{}, fmt.Errorf("cannot tell the instances of %s: %w", holder, err)
		}
	}
	if status.Told = !status.Told; !status.Told {
		status.Pending, status.Everybody = nil, false
	}
	expect := o.Version
	if o.Status, err = document.Encode(status); err != nil {
		return reconcile.Result{}, reconcile.Terminal(err)
	}
	set := ledger.Set{Actor: "system", Cause: cause, Puts: []ledger.Put{{Object: o, Expect: expect, Op: "told"}}}
	if status.Told {
		return reconcile.Wait(set, newsWithin, "until every replica knows"), nil
	}
	return reconcile.Done(set), nil
}

const (
	// wakesAtOnce bounds one commit.
	wakesAtOnce = 500
	// foundAtOnce bounds one list, which costs what the holder has in all.
	foundAtOnce = 10 * wakesAtOnce
)

func (r *Reconciler) wake(ctx context.Context, holder string, cause ledger.Cause) error {
	which, name, _ := strings.Cut(holder, "/")
	var find func(ctx context.Context, name, after string, limit int) ([]ledger.Wake, string, error)
	switch {
	case which == barred && r.Deployers != nil:
		find = r.Deployers.OfOrg
	case which == barred || r.Tenants == nil:
		return nil
	case which == "org":
		find = r.Tenants.OfOrg
	default:
		find = r.Tenants.OwnedBy
	}
	for after := ""; ; {
		wakes, next, err := find(ctx, name, after, foundAtOnce)
		if err != nil {
			return err
		}
		for some := range slices.Chunk(wakes, wakesAtOnce) {
			if _, err := r.Store.Commit(ctx, ledger.Set{Actor: "system", Cause: cause, Wakes: some}); err != nil {
				return err
			}
		}
		if next == "" || next <= after {
			return nil
		}
		after = next
	}
}

// barred is whom a deny list keeps from deploying, among holders.
const barred = "barred"

// woken are the holders whom a policy is about: users of a deny list go, its
// organisations and those of a quota look again what they may have. Access lists and
// terms are looked at when somebody comes, and take nothing away.
func woken(value any) []string {
	switch x := value.(type) {
	case *Quota:
		return []string{x.holder()}
	case *DenyList:
		out := make([]string, 0, len(x.Users)+len(x.Organisations))
		for _, u := range x.Users {
			out = append(out, "owner/"+u)
		}
		for _, o := range x.Organisations {
			out = append(out, barred+"/"+o)
		}
		return out
	}
	return nil
}

// maxPending bounds what is listed: it is kept beside the spec.
const maxPending = 500

// pending is whom a new version is to be told to: those whom it is about more
// than the one before, those whom it is about no longer (what they have may yet
// be waiting to be removed), and those who were not told of that yet. All of
// them are not listed again: the spec does.
func pending(before ledger.Object, old Status, value any) (holders []string, everybody bool) {
	about := woken(value)
	was := decode(before)
	if _, quota := value.(*Quota); quota {
		if q, ok := was.(*Quota); ok && q.holder() != about[0] {
			holders = []string{q.holder()}
		}
		for _, h := range old.Pending {
			if h != about[0] && !slices.Contains(holders, h) {
				holders = append(holders, h)
			}
		}
		return holders, true
	}
	left := relieved(woken(was), old.Pending, about)
	if len(about) == 0 {
		return left, false
	}
	if was == nil || old.Everybody {
		return left, true
	}
	told := map[string]bool{}
	for _, h := range woken(was) {
		told[h] = true
	}
	for _, h := range old.Pending {
		delete(told, h)
	}
	for _, h := range about {
		if !told[h] {
			holders = append(holders, h)
		}
	}
	if len(holders) == len(about) || len(holders) > maxPending {
		return left, true
	}
	return append(holders, left...), false
}

// relieved are those whom a policy was about, or who were yet to be told, and is
// no longer. Of very many only some are listed: the others find out by
// themselves, later.
func relieved(was, untold, about []string) []string {
	seen := map[string]bool{}
	for _, h := range about {
		seen[h] = true
	}
	var left []string
	for _, h := range slices.Concat(was, untold) {
		if !seen[h] && len(left) < maxPending {
			left = append(left, h)
		}
		seen[h] = true
	}
	return left
}
