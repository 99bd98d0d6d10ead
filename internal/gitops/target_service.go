package gitops

import (
	"context"
	"reflect"
	"slices"
	"strings"

	"github.com/droverhq/drover/internal/fault"
	"github.com/droverhq/drover/internal/ledger"
)

// targetSecretType is the type of Secrets that hold a kubeconfig.
const targetSecretType = "managed-gitops.redhat.com/managed-environment"

// IntendTarget takes a managed environment's intent with what its Secret holds,
// which is sealed before it is written down. What its Secret lacks is written down
// as a Problem, for the user. Faults are those of IntendDeployment.
func (s *Service) IntendTarget(ctx context.Context, in TargetIntent) error {
	for attempt := 0; ; attempt++ {
		err := s.intendTarget(ctx, in)
		if !again(err, attempt) {
			return err
		}
	}
}

func (s *Service) intendTarget(ctx context.Context, in TargetIntent) error {
	o, known, err := s.known(ctx, KindTarget.Name, in.Intent)
	if err != nil {
		return err
	}
	t, err := DecodeTarget(o)
	if err != nil {
		return err
	}
	if in.Gone {
		var over bool
		if t.Spec.Origin, over, err = s.goneAlready(ctx, KindTarget.Name, in.Intent, t.Object, t.Spec.Deleted, t.Spec.Origin); over || err != nil {
			return err
		}
		return s.dropTarget(ctx, t, actorOf(in.Intent))
	}
	forged, err := s.admit(ctx, in.Intent, known, o, t.Spec.Deleted, t.Spec.Origin)
	if err != nil {
		return err
	}
	home := in.Namespace
	home.Terminating = home.Terminating && !known
	ws, puts, err := s.homeWorkspace(ctx, home)
	if err != nil {
		return err
	}
	set := ledger.Set{Actor: actorOf(in.Intent), Puts: puts}
	if known && t.Org != ws.Org { // the namespace is another's by now
		t.Org, set.Wakes = ws.Org, []ledger.Wake{{Ref: t.Ref, Org: ws.Org}}
	}
	if forged {
		revive(&t.Object, in.Name, Pending)
		t.Status.Tries = 0
		set.Wakes = []ledger.Wake{{Ref: t.Ref, Org: ws.Org}}
	}
	if !known {
		t.Object = ledger.Object{Ref: ledger.Ref{Kind: KindTarget.Name, ID: in.UID}, Org: ws.Org, Name: in.Name, Phase: Pending, Parent: ws.ID}
	}
	want, kubeconfig := targetWanted(in)
	want.Origin = in.origin()
	return s.mended(ctx, t.Ref, in.Intent, forged, s.writeTarget(ctx, t, want, kubeconfig, set))
}

// targetWanted reads a custom resource and its Secret.
func targetWanted(in TargetIntent) (TargetSpec, []byte) {
	spec := TargetSpec{
		URL: cut(in.URL, maxURL+1), Secret: cut(in.SecretName, 253), Insecure: in.Insecure, NewAccount: in.NewAccount,
		ClusterResources: in.ClusterResources,
	}
	for _, n := range in.Namespaces[:min(len(in.Namespaces), maxNamespaces+1)] {
		spec.Namespaces = append(spec.Namespaces, cut(n, 128))
	}
	switch {
	case in.SecretName == "":
		spec.Problem = secretNotSpecified
		return spec, nil
	case in.Secret == nil:
		spec.Problem = secretNotFound
		return spec, nil
	case in.Secret.Unreadable:
		spec.Problem = kubernetesError
		return spec, nil
	case in.Secret.Type != targetSecretType:
		spec.Problem, spec.SecretType = invalidSecretType, cut(in.Secret.Type, 128)
		return spec, nil
	}
	kubeconfig := in.Secret.Data["kubeconfig"]
	switch {
	case len(kubeconfig) == 0:
		spec.Problem = missingKubeConfigField
	case len(kubeconfig) > maxKubeconfig:
		spec.Problem = unableToParseKubeconfig
		return spec, nil
	}
	return spec, kubeconfig
}

// writeTarget seals what is new of a target and commits it, if anything of it is
// new. While its Secret is missing the kubeconfig that was there is kept: with it
// what was made on the cluster can be removed.
func (s *Service) writeTarget(ctx context.Context, t Target, spec TargetSpec, kubeconfig []byte, set ledger.Set) error {
	box := &sealing{Service: s}
	before, used, old := t.Spec, t.own(), t.Spec
	if old.Digest != digestOf(old.Kubeconfig) {
		old.Kubeconfig = ""
	}
	var err error
	if spec.Kubeconfig = old.Kubeconfig; len(kubeconfig) > 0 {
		if spec.Kubeconfig, err = box.keep(ctx, old.Kubeconfig, kubeconfig); err != nil {
			box.drop(ctx, err)
			return err
		}
	}
	spec.Digest = digestOf(spec.Kubeconfig)
	if spec.Origin != nil {
		spec.Seal = spec.seal()
	}
	if t.Version != 0 && len(set.Puts)+len(set.Wakes) == 0 && reflect.DeepEqual(before, spec) {
		return nil
	}
	op := "update"
	if t.Version == 0 {
		op = "create"
	}
	set.Cause, t.Spec = ledger.CauseOf(ctx), spec
	if t.Version == 0 || targetDiffers(before, spec) {
		t.Status.Mirrored = "" // as for credentials of repositories
		set.Wakes = append(set.Wakes, ledger.Wake{Ref: t.Ref, Org: t.Org})
		err = s.beginCheck(ctx, op, typeTarget, t.Object, &t.Status.Operation, &set)
	}
	if err == nil && t.Version == 0 { // who asks for one of this name is told that there is one again
		var ask []ledger.Wake
		ask, err = s.targetAsked(ctx, t)
		set.Wakes = append(set.Wakes, ask...)
	}
	t.leave(old)
	t.Status.Retired = retire(t.Status.Retired, used, t.refs(), s.Now())
	if err == nil {
		err = s.commitFirst(ctx, &t, op, set)
	}
	box.drop(ctx, err)
	return err
}

// leave notes accounts that were made on a cluster which the target is no more.
func (t *Target) leave(before TargetSpec) {
	if strings.EqualFold(strings.TrimRight(before.URL, "/"), strings.TrimRight(t.Spec.URL, "/")) || before.Kubeconfig == "" {
		return
	}
	for _, account := range t.Status.Accounts {
		t.Status.Left = append(t.Status.Left, LeftAccount{URL: before.URL, Kubeconfig: before.Kubeconfig, Insecure: before.Insecure, Account: account})
	}
	t.Status.Accounts = nil
	if n := len(t.Status.Left); n > maxLeft {
		t.Status.Left = t.Status.Left[n-maxLeft:]
	}
}

// targetDiffers reports whether a target must be looked at anew.
func targetDiffers(a, b TargetSpec) bool {
	a.Origin, b.Origin, a.Seal, b.Seal = nil, nil, "", ""
	return !reflect.DeepEqual(a, b)
}

// dropTarget takes a target away: its deployments are detached, and nothing of
// theirs is deleted.
func (s *Service) dropTarget(ctx context.Context, t Target, actor string) error {
	t.Spec.Deleted, t.Phase = true, Deleting
	set := ledger.Set{Actor: actor, Cause: ledger.CauseOf(ctx), Wakes: []ledger.Wake{{Ref: t.Ref, Org: t.Org}}}
	if err := s.beginCheck(ctx, "delete", typeTarget, t.Object, &t.Status.Operation, &set); err != nil {
		return err
	}
	return s.commitFirst(ctx, &t, "delete", set)
}

// targetNamed finds a target of a workspace: of several with a name, of which all
// but one are on their way out, the one that came last. Status.Access of it may
// still be nil.
func (s *Service) targetNamed(ctx context.Context, workspace, name string) (Target, bool, error) {
	list, err := s.Store.List(ctx, ledger.Query{
		Kind: KindTarget.Name, Scope: map[string]any{"workspace": workspace, "name": name}, Limit: 100,
		Order: []ledger.Order{{Column: "created"}},
	})
	if err != nil {
		return Target{}, false, err
	}
	for _, o := range slices.Backward(list) {
		t, err := sound(ctx, s, o, DecodeTarget)
		if err != nil {
			return Target{}, false, err
		}
		if !t.Spec.Deleted {
			return t, true, nil
		}
	}
	return Target{}, false, nil
}

// orphaned reports whether a target is gone, or as good as that.
func (s *Service) orphaned(ctx context.Context, target string) (bool, error) {
	if target == "" {
		return false, nil
	}
	o, err := s.Store.Get(ctx, ledger.Ref{Kind: KindTarget.Name, ID: target})
	if fault.Is(err, fault.NotFound) {
		return true, nil
	}
	if err != nil {
		return false, err
	}
	t, err := sound(ctx, s, o, DecodeTarget)
	return !o.Deleted.IsZero() || t.Spec.Deleted && t.Status.Access == nil, err
}
