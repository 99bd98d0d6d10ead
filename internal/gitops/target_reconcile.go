package gitops

import (
	"cmp"
	"context"
	"fmt"
	"reflect"
	"strings"
	"time"

	"github.com/droverhq/drover/internal/fault"
	"github.com/droverhq/drover/internal/ledger"
	"github.com/droverhq/drover/internal/reconcile"
	"github.com/droverhq/drover/internal/runtime"
)

// Targets keeps the clusters checked that tenants bring along.
type Targets struct{ *Service }

var (
	_ reconcile.Reconciler = Targets{}
	_ reconcile.Resyncer   = Targets{}
)

const remoteTimeout = 45 * time.Second

// Reconcile looks at a cluster where that is due, makes an account on it where one
// is asked for, and hands what works to deployments.
func (c Targets) Reconcile(ctx context.Context, task reconcile.Task) (reconcile.Result, error) {
	o, err := c.Store.Get(ctx, task.Ref)
	if fault.Is(err, fault.NotFound) {
		return reconcile.Result{}, nil
	}
	if err != nil {
		return reconcile.Result{}, err
	}
	t, err := sound(ctx, c.Service, o, DecodeTarget)
	if err != nil {
		return reconcile.Result{}, gaveUp(err)
	}
	now := c.Now()
	set := ledger.Set{Actor: "system", Cause: ledger.ByChange(t.Ref, t.Version)}
	t.Status.Checked = c.checks.newest(t.Ref, t.Status.Checked)
	barred := c.barred(t.Org)
	step, left := planTarget(t, barred != "", now)
	switch step {
	case targetDetach:
		return c.detach(ctx, t, set)
	case targetClear:
		return c.clear(ctx, t, set)
	case targetEnd:
		return c.end(ctx, t, set)
	case targetBury:
		var odd error
		if t.Status.Retired, odd, err = c.destroy(ctx, "target", t.ID, t.Status.Retired); err != nil {
			return reconcile.Result{}, err
		}
		result, err := c.write(ctx, t, set, left, len(t.Status.Retired) > 0)
		return beside(result, err, odd)
	case targetBar:
		t.Status = settleTarget(t, targetFound{flaw: flawed(notPermitted, "%s", barred)}, now)
		left = targetEvery
	case targetJudge:
		t.Status = settleTarget(t, targetFound{flaw: obviousFlaw(t.Spec)}, now)
		left = targetEvery
	case targetCheck:
		return c.check(ctx, t, set, now)
	}
	return c.settle(ctx, t, set, left, false)
}

// check looks at the cluster. A new kubeconfig takes the place of the old one as
// soon as it was found to work, whether or not the old one still does.
func (c Targets) check(ctx context.Context, t Target, set ledger.Set, now time.Time) (reconcile.Result, error) {
	box := &sealing{Service: c.Service}
	was, regular := t.Status.Access, t.Status.Seen == t.Generation
	found, err := c.look(ctx, t, box)
	if err == nil {
		err = ctx.Err() // then nothing was found out
	}
	if err != nil {
		box.drop(ctx, err)
		return reconcile.Result{}, err
	}
	t.Status = settleTarget(t, found, now)
	changed := accessDiffers(was, t.Status.Access)
	if changed {
		t.Status.Since = later(t.Status.Since, now)
	}
	if !reflect.DeepEqual(was, t.Status.Access) {
		if set.Wakes, err = c.targetUsers(ctx, t); err != nil {
			box.drop(ctx, err)
			return reconcile.Result{}, err
		}
	}
	if t.Status.Ready && regular {
		c.tidy(ctx, &t, now)
	}
	left := targetEvery
	if t.Status.Unreached > 0 {
		left = targetSoon
	}
	return c.settle(ctx, t, set, left, changed)
}

// accessDiffers reports whether the cluster is reached in another way.
func accessDiffers(a, b *Access) bool {
	if a == nil || b == nil {
		return a != b
	}
	x, y := *a, *b
	x.Of, y.Of = "", ""
	return !reflect.DeepEqual(x, y)
}

// look asks the cluster. An error is one of ours; what the cluster says is found.
func (c Targets) look(ctx context.Context, t Target, box *sealing) (targetFound, error) {
	if c.Remote == nil {
		return targetFound{away: true, flaw: flawed(unknownTargetError, "this server cannot speak to clusters")}, nil
	}
	raw, err := c.Keeper.Unseal(ctx, t.Spec.Kubeconfig)
	if err != nil {
		return unkept(fmt.Errorf("cannot open the kubeconfig: %w", err), "cannot open the kubeconfig that it has of it")
	}
	has, bad := readKubeconfig(raw, t.Spec.URL, !t.Spec.NewAccount)
	if bad != nil {
		return targetFound{flaw: bad}, nil
	}
	ctx, stop := context.WithTimeout(ctx, remoteTimeout)
	defer stop()
	at := remoteOf(t.Spec, has)
	var f targetFound
	if t.Spec.NewAccount {
		if at.Kubeconfig, err = has.kubeconfig(); err != nil {
			return f, err
		}
		if at.Token, err = c.Remote.Install(ctx, at, t.account()); err != nil {
			f = judgeRemote(err)
			f.made = t.account() // some of it may be there
			return f, nil
		}
		at.Kubeconfig, f.made = nil, t.account()
	}
	if err := c.Remote.Check(ctx, at); err != nil {
		made := f.made
		f = judgeRemote(err)
		f.made = made
		return f, nil
	}
	a := &Access{
		Server: t.Spec.URL, CA: string(has.CA), Of: t.Spec.Digest,
		Insecure: t.Spec.Insecure, Namespaces: t.Spec.Namespaces, ClusterResources: t.Spec.ClusterResources,
	}
	if a.Insecure {
		a.CA = "" // nothing is compared with it
	}
	old := ""
	if t.Status.Access != nil {
		old = t.Status.Access.Token
	}
	if a.Token, err = box.keep(ctx, old, []byte(at.Token)); err != nil {
		made := f.made
		f, err = unkept(err, "does not take the token")
		f.made = made
		return f, err
	}
	f.access = a
	return f, nil
}

// remoteOf is the cluster of a target.
func remoteOf(s TargetSpec, has kubeAccess) RemoteCluster {
	return RemoteCluster{
		Server: strings.TrimRight(s.URL, "/"), Token: has.Token, CA: has.CA, Insecure: s.Insecure,
		Namespaces: s.Namespaces, ClusterResources: s.ClusterResources,
	}
}

// detach takes the target from its deployments.
func (c Targets) detach(ctx context.Context, t Target, set ledger.Set) (reconcile.Result, error) {
	// Those that are being removed from it need it for that.
	if c.Now().Sub(t.Updated) < abandonAfter {
		leaving, err := c.Store.List(ctx, ledger.Query{
			Kind: KindDeployment.Name, Scope: map[string]any{"target": t.ID}, Limit: 1, Brief: true,
			Where: ledger.Compare{Column: "phase", Op: ledger.Eq, Values: []any{Deleting}},
		})
		if err != nil {
			return reconcile.Result{}, err
		}
		if len(leaving) > 0 {
			return reconcile.Wait(set, nameRetry, "for deployments that are being removed from it"), nil
		}
	}
	var err error
	if set.Wakes, err = c.targetUsers(ctx, t); err != nil {
		return reconcile.Result{}, err
	}
	t.Status.Retired = retire(t.Status.Retired, []string{t.Status.Access.Token}, []string{t.Spec.Kubeconfig}, c.Now())
	t.Status.Access, t.Status.Ready = nil, false
	put, err := t.put("detach")
	set.Puts = []ledger.Put{put}
	return reconcile.Again(set), err
}

// tidy removes what took its place at least one check ago: accounts where the
// user's own token is used, and those on a cluster that the target was before.
func (c Targets) tidy(ctx context.Context, t *Target, now time.Time) {
	if !t.Spec.NewAccount {
		t.Status.Accounts, _ = c.remove(ctx, t.Spec, t.Status.Accounts)
	}
	before := t.own()
	c.removeLeft(ctx, t)
	t.Status.Retired = retire(t.Status.Retired, before, t.refs(), now)
}

// removeLeft tries each a few times: a cluster that somebody moved away from is
// often gone.
func (c Targets) removeLeft(ctx context.Context, t *Target) (why string) {
	var left []LeftAccount
	for _, l := range t.Status.Left {
		still, failed := c.remove(ctx, TargetSpec{URL: l.URL, Kubeconfig: l.Kubeconfig, Insecure: l.Insecure}, []string{l.Account})
		if l.Tries++; len(still) > 0 && l.Tries < removeTries {
			left, why = append(left, l), failed
		}
	}
	t.Status.Left = left
	return why
}

// clear removes what was made on the cluster, with a few tries: a cluster that is
// gone for good keeps nobody from letting go of it.
func (c Targets) clear(ctx context.Context, t Target, set ledger.Set) (reconcile.Result, error) {
	before := t.own()
	left, why := c.remove(ctx, t.Spec, t.Status.Accounts)
	also := c.removeLeft(ctx, &t)
	if ctx.Err() != nil {
		return reconcile.Result{}, ctx.Err()
	}
	t.Status.Accounts = left
	t.Status.Retired = retire(t.Status.Retired, before, t.refs(), c.Now())
	over := len(left)+len(t.Status.Left) == 0
	if !over {
		t.Status.Tries++
	}
	pause := targetSoon / 4 << t.Status.Tries
	put, err := t.put("clear")
	set.Puts = []ledger.Put{put}
	if over || t.Status.Tries >= removeTries {
		return reconcile.Again(set), err
	}
	return reconcile.Wait(set, pause, "to remove the service account: "+cmp.Or(why, also)), err
}

// remove takes accounts away and returns those that are left.
func (c Targets) remove(ctx context.Context, spec TargetSpec, accounts []string) (left []string, why string) {
	switch {
	case len(accounts) == 0:
		return nil, ""
	case c.Remote == nil || spec.Kubeconfig == "":
		return accounts, "there is no way to the cluster"
	}
	raw, err := c.Keeper.Unseal(ctx, spec.Kubeconfig)
	if err != nil {
		return accounts, "its kubeconfig cannot be opened"
	}
	has, bad := readKubeconfig(raw, spec.URL, false)
	if bad != nil {
		return accounts, bad.message
	}
	at := remoteOf(spec, has)
	if at.Kubeconfig, err = has.kubeconfig(); err != nil {
		return accounts, "its kubeconfig cannot be written"
	}
	ctx, stop := context.WithTimeout(ctx, remoteTimeout)
	defer stop()
	for _, account := range accounts {
		if err := c.Remote.Remove(ctx, at, account); err != nil {
			left, why = append(left, account), err.Error()
		}
	}
	return left, why
}

// end lets go of a target.
func (c Targets) end(ctx context.Context, t Target, set ledger.Set) (reconcile.Result, error) {
	var err error
	if set.Wakes, err = c.targetUsers(ctx, t); err != nil {
		return reconcile.Result{}, err
	}
	if t.Spec.Origin != nil && c.Mirror != nil {
		if err := c.Mirror.Release(ctx, t.Kind, t.ID, *t.Spec.Origin); err != nil {
			return reconcile.Result{Why: "for the custom resource"}, err
		}
	}
	now := c.Now().UTC()
	t.Status.Retired = retire(t.Status.Retired, t.own(), nil, now)
	t.Phase, t.Deleted = Gone, now
	set.Frees = []ledger.Claim{{Name: targetName(t.Parent, t.Name), Holder: t.Ref}}
	if _, err := c.endCheck(ctx, &t.Status.Operation, &set, ""); err != nil {
		return reconcile.Result{}, err
	}
	put, err := t.put(Gone)
	set.Puts = append([]ledger.Put{put}, set.Puts...)
	return reconcile.Wait(set, retireAfter, "until its secrets are out of use"), err
}

// settle writes what was found. Changed: the cluster is reached in another way.
func (c Targets) settle(ctx context.Context, t Target, set ledger.Set, left time.Duration, changed bool) (reconcile.Result, error) {
	t.Phase = Failed
	switch {
	case t.Status.Ready:
		t.Phase = phaseReady
	case t.Status.Seen == 0:
		t.Phase = Pending
	}
	var odd, err error
	if t.Status.Retired, odd, err = c.destroy(ctx, "target", t.ID, retire(t.Status.Retired, nil, t.refs(), c.Now())); err != nil {
		return reconcile.Result{}, err
	}
	var done *runtime.DeploymentOperation
	if t.Status.Operation != "" && t.Status.Seen == t.Generation {
		why := ""
		if !t.Status.Ready && t.Status.Condition != nil {
			why = cmp.Or(t.Status.Condition.Message, t.Status.Condition.Reason)
		}
		if done, err = c.endCheck(ctx, &t.Status.Operation, &set, why); err != nil {
			return reconcile.Result{}, err
		}
	}
	made, refused := fate(done)
	if changed {
		t.Status.Shown, t.Status.Refused = made, nil
	}
	if refused != nil {
		t.Status.Refused = refused
		users, err := c.wakesOf(ctx, map[string]any{"target": t.ID})
		if err != nil {
			return reconcile.Result{}, err
		}
		set.Wakes = append(set.Wakes, users...)
	}
	result, err := c.write(ctx, t, set, left, true)
	return beside(result, err, odd)
}

// write tells the custom resource what is new, and writes the status.
func (c Targets) write(ctx context.Context, t Target, set ledger.Set, left time.Duration, next bool) (reconcile.Result, error) {
	var failed error
	if t.Spec.Origin != nil && c.Mirror != nil && t.Phase != Gone && t.Status.Condition != nil {
		view := TargetView{Conditions: []Condition{*t.Status.Condition}}
		t.Status.Mirrored, failed = c.tellOnce(ctx, t.Ref, *t.Spec.Origin, view, view, t.Status.Mirrored)
	}
	put, err := t.put("check")
	if err != nil {
		return reconcile.Result{}, err
	}
	read, err := DecodeTarget(t.Object)
	if err != nil {
		return reconcile.Result{}, err
	}
	if c.checks.worth(read.Object, put, read.Status.Checked, t.Status.Checked) {
		set.Puts = append([]ledger.Put{put}, set.Puts...)
	}
	if failed != nil {
		return reconcile.Result{Write: set, Why: "for the custom resource"}, failed
	}
	if !next {
		return reconcile.Done(set), nil
	}
	return reconcile.Wait(set, left, "until it is checked again"), nil
}

// Unsettled implements reconcile.Resyncer: every target is checked again and again,
// so one without work has lost it.
func (c Targets) Unsettled(ctx context.Context, place string, limit int) ([]ledger.Wake, string, error) {
	return c.unsettled(ctx, KindTarget.Name, place, limit)
}
