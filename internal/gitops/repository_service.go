package gitops

import (
	"context"
	"reflect"
	"slices"

	"github.com/droverhq/drover/internal/ledger"
)

// repositorySecretType is the type of Secrets that hold a credential.
const repositorySecretType = "managed-gitops.redhat.com/repository-credential"

const (
	maxSecretValue = 64 << 10
	maxKnownHosts  = 32 << 10 // it stands in objects, twice
	maxUser        = 1 << 10
)

// IntendRepository takes a credential's intent with what its Secret holds, which
// is sealed before it is written down. What its Secret lacks is written down as a
// Problem, for the user. Faults are those of IntendDeployment.
func (s *Service) IntendRepository(ctx context.Context, in RepositoryIntent) error {
	for attempt := 0; ; attempt++ {
		err := s.intendRepository(ctx, in)
		if !again(err, attempt) {
			return err
		}
	}
}

func (s *Service) intendRepository(ctx context.Context, in RepositoryIntent) error {
	o, known, err := s.known(ctx, KindRepository.Name, in.Intent)
	if err != nil {
		return err
	}
	r, err := DecodeRepository(o)
	if err != nil {
		return err
	}
	if in.Gone {
		var over bool
		if r.Spec.Origin, over, err = s.goneAlready(ctx, KindRepository.Name, in.Intent, r.Object, r.Spec.Deleted, r.Spec.Origin); over || err != nil {
			return err
		}
		return s.dropRepository(ctx, r, actorOf(in.Intent))
	}
	forged, err := s.admit(ctx, in.Intent, known, o, r.Spec.Deleted, r.Spec.Origin)
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
	if known && r.Org != ws.Org { // the namespace is another's by now
		r.Org, set.Wakes = ws.Org, []ledger.Wake{{Ref: r.Ref, Org: ws.Org}}
	}
	if forged {
		revive(&r.Object, in.Name, Pending)
		set.Wakes = []ledger.Wake{{Ref: r.Ref, Org: ws.Org}}
	}
	if !known {
		r.Object = ledger.Object{Ref: ledger.Ref{Kind: KindRepository.Name, ID: in.UID}, Org: ws.Org, Name: in.Name, Phase: Pending, Parent: ws.ID}
	}
	want := repositoryWanted(in)
	want.spec.Origin = in.origin()
	return s.mended(ctx, r.Ref, in.Intent, forged, s.writeRepository(ctx, r, want, set))
}

// wantedRepository is a credential as it was asked for, its secrets still open.
type wantedRepository struct {
	spec             RepositorySpec
	password, sshKey []byte
}

// repositoryWanted reads a custom resource and its Secret.
func repositoryWanted(in RepositoryIntent) wantedRepository {
	w := wantedRepository{spec: RepositorySpec{URL: cut(in.URL, maxURL+1), Secret: cut(in.SecretName, 253)}}
	switch {
	case in.SecretName == "":
		w.spec.Problem = secretNotSpecified
		return w
	case in.Secret == nil:
		w.spec.Problem = secretNotFound
		return w
	case in.Secret.Type != repositorySecretType:
		w.spec.Problem = secretInvalidType
		return w
	}
	data := in.Secret.Data
	user, hosts := data["username"], data["knownHosts"]
	w.password, w.sshKey = data["password"], data["sshPrivateKey"]
	if len(w.password)+len(w.sshKey) == 0 || max(len(w.password), len(w.sshKey)) > maxSecretValue || len(hosts) > maxKnownHosts || len(user) > maxUser || hidden(string(user)) {
		w.spec.Problem, w.password, w.sshKey = invalidCredentials, nil, nil
		return w
	}
	w.spec.Username, w.spec.KnownHosts = string(user), cut(string(hosts), maxKnownHosts)
	return w
}

// writeRepository seals what is new of a credential and commits it, if anything of
// it is new.
func (s *Service) writeRepository(ctx context.Context, r Repository, want wantedRepository, set ledger.Set) error {
	box := &sealing{Service: s}
	before, spec := r.Spec, want.spec
	old := before
	if old.own() == nil {
		old.Password, old.SSHKey = "", ""
	}
	var err error
	if spec.Password, err = box.keep(ctx, old.Password, want.password); err == nil {
		spec.SSHKey, err = box.keep(ctx, old.SSHKey, want.sshKey)
	}
	if err != nil {
		box.drop(ctx, err)
		return err
	}
	spec.Digest = digestOf(spec.Password, spec.SSHKey)
	if spec.Origin != nil {
		spec.Seal = spec.seal()
	}
	if r.Version != 0 && len(set.Puts)+len(set.Wakes) == 0 && reflect.DeepEqual(before, spec) {
		return nil
	}
	op := "update"
	if r.Version == 0 {
		op = "create"
	}
	set.Cause, r.Spec = ledger.CauseOf(ctx), spec
	if r.Version == 0 || repositoryDiffers(before, spec) {
		r.Status.Mirrored = "" // a run on what it was before may have told what it could not write down any more
		set.Wakes = append(set.Wakes, ledger.Wake{Ref: r.Ref, Org: r.Org})
		err = s.beginCheck(ctx, op, typeRepository, r.Object, &r.Status.Operation, &set)
	}
	r.Status.Retired = retire(r.Status.Retired, old.refs(), slices.Concat(spec.refs(), r.Status.Good.refs()), s.Now())
	if err == nil {
		err = s.commitFirst(ctx, &r, op, set)
	}
	box.drop(ctx, err)
	return err
}

// commitFirst commits an object as the first one of a set.
func (s *Service) commitFirst(ctx context.Context, o interface {
	put(op string) (ledger.Put, error)
}, op string, set ledger.Set) error {
	put, err := o.put(op)
	if err != nil {
		return err
	}
	set.Puts = append([]ledger.Put{put}, set.Puts...)
	_, err = s.Store.Commit(ctx, set)
	return err
}

// repositoryDiffers reports whether a credential must be looked at anew.
func repositoryDiffers(a, b RepositorySpec) bool {
	a.Origin, b.Origin, a.Seal, b.Seal = nil, nil, "", ""
	return a != b
}

// dropRepository takes a credential away: deployments lose it.
func (s *Service) dropRepository(ctx context.Context, r Repository, actor string) error {
	r.Spec.Deleted, r.Phase = true, Deleting
	set := ledger.Set{Actor: actor, Cause: ledger.CauseOf(ctx), Wakes: []ledger.Wake{{Ref: r.Ref, Org: r.Org}}}
	if err := s.beginCheck(ctx, "delete", typeRepository, r.Object, &r.Status.Operation, &set); err != nil {
		return err
	}
	return s.commitFirst(ctx, &r, "delete", set)
}

// repositoryFor finds the credential of a workspace that opens a repository: of
// several the oldest that is valid, then the oldest that once was, so that nothing
// moves without a cause. Status.Good of it may still be nil.
func (s *Service) repositoryFor(ctx context.Context, workspace, url string) (Repository, bool, error) {
	list, err := s.Store.List(ctx, ledger.Query{
		Kind: KindRepository.Name, Scope: map[string]any{"workspace": workspace, "url": NormaliseRepository(url)}, Limit: 100,
		Order: []ledger.Order{{Column: "created"}},
	})
	if err != nil {
		return Repository{}, false, err
	}
	var best Repository
	found := false
	for _, o := range list {
		r, err := sound(ctx, s, o, DecodeRepository)
		if err != nil {
			return Repository{}, false, err
		}
		if r.Spec.Deleted {
			continue
		}
		if r.Status.Good != nil && NormaliseRepository(r.Status.Good.URL) != NormaliseRepository(url) {
			r.Status.Good, r.Status.Valid = nil, false // it was good for another repository
		}
		if r.Status.Good != nil && r.Status.Valid {
			return r, true, nil
		}
		if !found || best.Status.Good == nil && r.Status.Good != nil {
			best, found = r, true
		}
	}
	return best, found, nil
}
