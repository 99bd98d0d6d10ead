package gitops

import (
	"context"
	"encoding/json"
	"fmt"
	"time"

	"github.com/droverhq/drover/internal/fault"
	"github.com/droverhq/drover/internal/ledger"
	"github.com/droverhq/drover/internal/reconcile"
	"github.com/droverhq/drover/internal/runtime"
	"github.com/droverhq/drover/internal/source"
)

// Repositories keeps credentials checked.
type Repositories struct{ *Service }

var (
	_ reconcile.Reconciler = Repositories{}
	_ reconcile.Resyncer   = Repositories{}
)

const probeTimeout = 20 * time.Second

// Reconcile asks a repository's server about its credential where that is due, and
// hands a good one to deployments.
func (c Repositories) Reconcile(ctx context.Context, task reconcile.Task) (reconcile.Result, error) {
	o, err := c.Store.Get(ctx, task.Ref)
	if fault.Is(err, fault.NotFound) {
		return reconcile.Result{}, nil
	}
	if err != nil {
		return reconcile.Result{}, err
	}
	r, err := sound(ctx, c.Service, o, DecodeRepository)
	if err != nil {
		return reconcile.Result{}, gaveUp(err)
	}
	now := c.Now()
	set := ledger.Set{Actor: "system", Cause: ledger.ByChange(r.Ref, r.Version)}
	r.Status.Checked = c.checks.newest(r.Ref, r.Status.Checked)
	before := r.Status
	barred := c.barred(r.Org)
	step, left := planRepository(r, barred != "", now)
	switch step {
	case repositoryLose:
		return c.lose(ctx, r, set)
	case repositoryBury:
		var odd error
		if r.Status.Retired, odd, err = c.destroy(ctx, "credential", r.ID, r.Status.Retired); err != nil {
			return reconcile.Result{}, err
		}
		result, err := c.write(ctx, r, set, left, len(r.Status.Retired) > 0)
		return beside(result, err, odd)
	case repositoryBar:
		r.Status = settleRepository(r, verdict{reason: notPermitted, message: barred}, now)
		left = repositoryEvery
	case repositoryJudge:
		r.Status = settleRepository(r, *obviousVerdict(r.Spec), now)
		left = repositoryEvery
	case repositoryProbe:
		r.Status = settleRepository(r, c.probe(ctx, r.Spec), now)
		if ctx.Err() != nil { // nothing was found out, and nobody waits for it
			return reconcile.Result{}, ctx.Err()
		}
		if opensDiffer(before, r.Status) || before.Valid != r.Status.Valid { // another may be better now
			if set.Wakes, err = c.repositoryUsers(ctx, r, before.Good); err != nil {
				return reconcile.Result{}, err
			}
		}
		if left = repositoryEvery; r.Status.Unreached > 0 {
			left = repositorySoon
		}
	}
	r.Phase = Failed
	switch {
	case r.Status.Valid:
		r.Phase = phaseReady
	case r.Status.Seen == 0:
		r.Phase = Pending
	}
	used := append(r.Spec.refs(), r.Status.Good.refs()...)
	var odd error
	if r.Status.Retired, odd, err = c.destroy(ctx, "credential", r.ID, retire(r.Status.Retired, nil, used, now)); err != nil {
		return reconcile.Result{}, err
	}
	var done *runtime.DeploymentOperation
	if r.Status.Operation != "" && r.Status.Seen == r.Generation {
		why := ""
		if !r.Status.Valid {
			why = r.message()
		}
		if done, err = c.endCheck(ctx, &r.Status.Operation, &set, why); err != nil {
			return reconcile.Result{}, err
		}
	}
	made, refused := fate(done)
	if opensDiffer(before, r.Status) {
		r.Status.Since, r.Status.Shown, r.Status.Refused = later(before.Since, now), made, nil
	}
	if refused != nil {
		r.Status.Refused = refused
		users, err := c.wakesOf(ctx, map[string]any{"credential": r.ID})
		if err != nil {
			return reconcile.Result{}, err
		}
		set.Wakes = append(set.Wakes, users...)
	}
	result, err := c.write(ctx, r, set, left, true)
	return beside(result, err, odd)
}

// later is a time that comes after another one: now, unless a clock was set back.
func later(before, now time.Time) time.Time {
	if after := before.Add(time.Microsecond); now.Before(after) {
		return after
	}
	return now.UTC()
}

// opensDiffer reports whether the repository is opened with something else: then
// deployments are to have that.
func opensDiffer(a, b RepositoryStatus) bool {
	with := func(s RepositoryStatus) [6]string {
		if s.Good == nil {
			return [6]string{}
		}
		return [6]string{NormaliseRepository(s.Good.URL), s.Good.Username, s.Good.Password, s.Good.SSHKey, s.Good.KnownHosts, s.HostKey}
	}
	return with(a) != with(b)
}

// repositoryUsers are the deployments that have the credential, or are to have it.
func (s *Service) repositoryUsers(ctx context.Context, r Repository, was *RepositorySpec) ([]ledger.Wake, error) {
	of := func(url string) map[string]any {
		return map[string]any{"workspace": r.Parent, "repository": NormaliseRepository(url)}
	}
	scopes := []map[string]any{of(r.Spec.URL)}
	if was != nil {
		scopes = append(scopes, of(was.URL))
	}
	return s.wakesOfAll(ctx, append(scopes, map[string]any{"credential": r.ID})...)
}

// probe asks the server, with host keys verified.
func (c Repositories) probe(ctx context.Context, spec RepositorySpec) verdict {
	if c.Prober == nil {
		return verdict{away: true, message: "this server cannot ask repositories"}
	}
	with, err := c.openRepository(ctx, spec)
	if err != nil {
		return verdict{away: true, message: "the secret cannot be opened at the moment"}
	}
	ctx, stop := context.WithTimeout(ctx, probeTimeout)
	defer stop()
	shown := ""
	with.Presented = func(key string) { shown = key }
	_, err = c.Prober.Probe(ctx, source.Location{Repository: spec.URL}, with)
	v := judgeProbe(spec, err)
	v.hostKey = shown
	return v
}

// openRepository unseals a credential.
func (s *Service) openRepository(ctx context.Context, spec RepositorySpec) (source.Credential, error) {
	out := source.Credential{Username: spec.Username, KnownHosts: []byte(spec.KnownHosts)}
	if spec.KnownHosts == "" {
		out.KnownHosts = s.KnownHosts
	}
	for ref, into := range map[string]func([]byte){
		spec.Password: func(b []byte) { out.Password = string(b) },
		spec.SSHKey:   func(b []byte) { out.SSHKey = b },
	} {
		if ref == "" {
			continue
		}
		plain, err := s.Keeper.Unseal(ctx, ref)
		if err != nil {
			return source.Credential{}, fmt.Errorf("cannot open the credential: %w", err)
		}
		into(plain)
	}
	return out, nil
}

// lose takes a credential from its deployments, and gives its name back.
func (c Repositories) lose(ctx context.Context, r Repository, set ledger.Set) (reconcile.Result, error) {
	var err error
	if set.Wakes, err = c.repositoryUsers(ctx, r, r.Status.Good); err != nil {
		return reconcile.Result{}, err
	}
	if r.Spec.Origin != nil && c.Mirror != nil {
		if err := c.Mirror.Release(ctx, r.Kind, r.ID, *r.Spec.Origin); err != nil {
			return reconcile.Result{Why: "for the custom resource"}, err
		}
	}
	now := c.Now().UTC()
	r.Status.Retired = retire(r.Status.Retired, append(r.Status.Good.own(), r.Spec.own()...), nil, now)
	r.Status.Good, r.Status.Valid = nil, false
	r.Phase, r.Deleted = Gone, now
	set.Frees = []ledger.Claim{{Name: repositoryName(r.Parent, r.Name), Holder: r.Ref}}
	if _, err := c.endCheck(ctx, &r.Status.Operation, &set, ""); err != nil {
		return reconcile.Result{}, err
	}
	put, err := r.put(Gone)
	set.Puts = append([]ledger.Put{put}, set.Puts...)
	return reconcile.Wait(set, retireAfter, "until its secrets are out of use"), err
}

// write tells the custom resource what is new, and writes the status.
func (c Repositories) write(ctx context.Context, r Repository, set ledger.Set, left time.Duration, next bool) (reconcile.Result, error) {
	var failed error
	if r.Spec.Origin != nil && c.Mirror != nil && r.Phase != Gone {
		view := RepositoryView{Conditions: r.Status.Conditions, Checked: r.Status.Checked}
		r.Status.Mirrored, failed = c.tellOnce(ctx, r.Ref, *r.Spec.Origin, view, view.Conditions, r.Status.Mirrored)
	}
	put, err := r.put("check")
	if err != nil {
		return reconcile.Result{}, err
	}
	read, err := DecodeRepository(r.Object)
	if err != nil {
		return reconcile.Result{}, err
	}
	if c.checks.worth(read.Object, put, read.Status.Checked, r.Status.Checked) {
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

// tellOnce tells a custom resource its status unless it was told the same before,
// and returns the digest of what it was told. One that is gone needs no telling.
func (s *Service) tellOnce(ctx context.Context, of ledger.Ref, origin Origin, view, digested any, told string) (string, error) {
	raw, err := json.Marshal(digested)
	if err != nil {
		return told, err
	}
	digest := ledger.Digest(raw)
	if digest == told {
		return told, nil
	}
	if err := s.Mirror.Tell(ctx, of.Kind, of.ID, origin, view); err != nil && !fault.Is(err, fault.NotFound) {
		return told, fmt.Errorf("cannot write the status of the custom resource: %w", err)
	}
	return digest, nil
}

// Unsettled implements reconcile.Resyncer: every credential is checked again and
// again, so one without work has lost it.
func (c Repositories) Unsettled(ctx context.Context, place string, limit int) ([]ledger.Wake, string, error) {
	return c.unsettled(ctx, KindRepository.Name, place, limit)
}

func (s *Service) unsettled(ctx context.Context, kind, place string, limit int) ([]ledger.Wake, string, error) {
	list, err := s.Store.List(ctx, ledger.Query{Kind: kind, AfterID: place, Limit: limit, Brief: true})
	if err != nil || len(list) == 0 {
		return nil, "", err
	}
	wakes := make([]ledger.Wake, len(list))
	for i, o := range list {
		wakes[i] = ledger.Wake{Ref: o.Ref, Org: o.Org}
	}
	return wakes, list[len(list)-1].ID, nil
}
