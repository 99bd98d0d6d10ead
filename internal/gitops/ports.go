package gitops

import (
	"context"

	"github.com/droverhq/drover/internal/ledger"
	"github.com/droverhq/drover/internal/source"
)

// Store is what the room needs of the ledger.
type Store interface {
	ledger.Committer
	ledger.Reader
	// Changes are as ledger.Log has them.
	Changes(ctx context.Context, query ledger.ChangeQuery) ([]ledger.Change, error)
}

// Engines are the clusters whose agents can carry deployments out.
type Engines interface {
	// Engine returns a cluster. Faults: NotFound.
	Engine(ctx context.Context, id string) (Engine, error)
	// Engines returns all that are there, ready or not. An error means that it is
	// not known which there are.
	Engines(ctx context.Context) ([]Engine, error)
}

// Tenants says who may have anything done.
type Tenants interface {
	// Barred reports whether nothing new is to be done for an organisation. What it
	// has goes on.
	Barred(org string) bool
}

// Engine is a cluster as far as deployments go.
type Engine struct {
	ID      string
	Org     string            // whose own it is; empty: the fleet's
	Runtime string            // argocd, kubernetes; empty: its agent was never there
	Labels  map[string]string // with region and provider
	Ready   bool
	Leaving bool // it is being removed: nothing new goes there, and what is there goes
	// Quiet says since when nothing is heard of its agent, for the user; empty: it
	// is heard, or never was.
	Quiet string
}

// Mirror writes what became of intent into the custom resources that it came from.
type Mirror interface {
	// Tell writes the status of a custom resource, if the one with that UID is
	// still there: fault.NotFound otherwise. kind is KindDeployment.Name and so on,
	// status a DeploymentView, SyncRunView, RepositoryView or TargetView.
	Tell(ctx context.Context, kind, uid string, of Origin, status any) error
	// Release takes the finalizer off. Nothing there is fine.
	Release(ctx context.Context, kind, uid string, of Origin) error
	// Stands asks the API itself for the generation of the custom resource with that
	// UID: fault.NotFound where it is not there, or on its way out.
	Stands(ctx context.Context, kind, uid string, of Origin) (generation int64, err error)
	// Mended says at the custom resource that somebody had changed what the ledger has
	// of it. Nothing fails for want of it.
	Mended(ctx context.Context, kind, uid string, of Origin)
}

// Prober asks a repository's server what there is, with nothing transferred but a
// list of references.
type Prober interface {
	// Probe resolves a revision ("" for HEAD) to a commit. Faults: NotFound (no such
	// repository or revision), Denied (the credential), Invalid, Unavailable.
	Probe(ctx context.Context, at source.Location, with source.Credential) (commit string, err error)
}

// Remote speaks to clusters that tenants bring along.
type Remote interface {
	// Check looks whether the cluster can be used. Its fault's reason is one of the
	// reasons of a managed environment's condition.
	Check(ctx context.Context, at RemoteCluster) error
	// Install makes a service account with a token, or returns the one there is.
	Install(ctx context.Context, at RemoteCluster, account string) (token string, err error)
	// Remove takes the account away, with its rights. Nothing there is fine.
	Remove(ctx context.Context, at RemoteCluster, account string) error
}

// RemoteCluster is how one is reached.
type RemoteCluster struct {
	Server           string
	Token            string
	Kubeconfig       []byte // used in place of Token where it is given
	CA               []byte
	Insecure         bool
	Namespaces       []string
	ClusterResources bool
}
