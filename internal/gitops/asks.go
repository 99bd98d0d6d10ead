package gitops

import (
	"encoding/json"

	"github.com/droverhq/drover/internal/ledger"
)

// What custom resources ask for has a digest, so that what the ledger has of them can be
// compared with them in memory. It is made of their specs alone: Secrets would have to be
// read. What came out of those has a seal instead.

// reading counts the ways in which custom resources were read. Whatever gives the same
// resource another digest, or the same row another seal, counts it up: else an upgrade
// takes what the version before has written for the work of somebody else.
const reading = 0

// Asks is the digest of what it asks for.
func (in DeploymentIntent) Asks() string { return specOf(in, true).digest() }

// Asks is the digest of what it asks for.
func (in SyncRunIntent) Asks() string { return runOf(in).digest() }

// Asks is the digest of what it asks for.
func (in RepositoryIntent) Asks() string { return repositoryWanted(in).spec.digest() }

// Asks is the digest of what it asks for.
func (in TargetIntent) Asks() string {
	spec, _ := targetWanted(in)
	return spec.digest()
}

// altered is the digest of what is not as it was written: nothing asks for that.
const altered = "altered"

func (s Spec) digest() string {
	s.Origin, s.Previous, s.Deleted = nil, "", false
	if s.Invalid == badNamespaceUpdate { // the same, of one that is known
		s.Invalid = badNamespaceNew
	}
	return digestOfSpec(s)
}

// digest of a sync run is empty where it cannot be told: what it was made with is not
// known to its resource any more.
func (s SyncRunSpec) digest() string {
	var prune bool
	switch {
	case s.forged():
		return altered
	case s.Origin.Generation <= 1:
		prune = s.Prune
	case s.Invalid != "":
		return ""
	}
	return digestOfSpec(SyncRunSpec{Deployment: s.Deployment, Revision: s.Revision, Prune: prune, Invalid: s.Invalid})
}

// seal is the digest of all that was written.
func (s SyncRunSpec) seal() string {
	s.Origin, s.Deleted, s.Seal = nil, false, ""
	return digestOfSpec(s)
}

// forged reports whether somebody else has written it, as far as that can be told.
func (s SyncRunSpec) forged() bool { return s.Seal != "" && s.Seal != s.seal() }

func (s RepositorySpec) digest() string {
	if s.Seal != "" && s.Seal != s.seal() {
		return altered
	}
	return digestOfSpec(RepositorySpec{URL: s.URL, Secret: s.Secret})
}

// seal is the digest of all that was written.
func (s RepositorySpec) seal() string {
	s.Origin, s.Deleted, s.Seal = nil, false, ""
	return digestOfSpec(s)
}

func (s TargetSpec) digest() string {
	if s.Seal != "" && s.Seal != s.seal() {
		return altered
	}
	return digestOfSpec(TargetSpec{
		URL: s.URL, Secret: s.Secret, Insecure: s.Insecure, NewAccount: s.NewAccount, Namespaces: s.Namespaces, ClusterResources: s.ClusterResources,
	})
}

// seal is the digest of all that was written.
func (s TargetSpec) seal() string {
	s.Origin, s.Deleted, s.Seal = nil, false, ""
	return digestOfSpec(s)
}

func digestOfSpec(spec any) string {
	raw, err := json.Marshal(spec)
	if err != nil { // texts, truths and numbers
		panic(err)
	}
	return ledger.Digest(raw)
}

// digests reads the spec of an object by its kind.
var digests = map[string]func(json.RawMessage) (asked, error){
	KindDeployment.Name: read[Spec],
	KindSyncRun.Name:    read[SyncRunSpec],
	KindRepository.Name: read[RepositorySpec],
	KindTarget.Name:     read[TargetSpec],
}

// asked is a spec as a resource of its home wrote it.
type asked interface {
	digest() string
	origin() (of *Origin, deleted bool)
}

func read[T asked](raw json.RawMessage) (asked, error) {
	var spec T
	err := json.Unmarshal(raw, &spec)
	return spec, err
}

func (s Spec) origin() (*Origin, bool)           { return s.Origin, s.Deleted }
func (s SyncRunSpec) origin() (*Origin, bool)    { return s.Origin, s.Deleted }
func (s RepositorySpec) origin() (*Origin, bool) { return s.Origin, s.Deleted }
func (s TargetSpec) origin() (*Origin, bool)     { return s.Origin, s.Deleted }
