package gitops

import (
	"time"

	"github.com/droverhq/drover/internal/ledger"
	"github.com/droverhq/drover/internal/reconcile"
	"github.com/droverhq/drover/internal/resilience"
	"github.com/droverhq/drover/internal/source"
)

// Config of a Service. Store, Keeper and Engines are needed.
type Config struct {
	Store   Store
	Keeper  ledger.Keeper
	Engines Engines
	// Tenants says who may have anything done; nil: everybody.
	Tenants Tenants
	// Mirror of custom resources; nil: there are none.
	Mirror Mirror
	// Source reads repositories for clusters without an Argo CD, and tells who made
	// a commit; Prober resolves revisions and checks credentials; nil: nobody can.
	Source source.Source
	Prober Prober
	// Remote speaks to targets; nil: none can be used.
	Remote Remote
	// KnownHosts of Git servers, where a credential brings none.
	KnownHosts []byte
	// Poll is how often a repository is looked at for a cluster without Argo CD;
	// default 1 min.
	Poll     time.Duration
	Observer resilience.Observer // of calls out; nil: none
	Now      func() time.Time    // default time.Now
}

// Service holds the verbs on workspaces, deployments, sync runs, repositories and
// targets, and what their reconcilers share.
type Service struct {
	Config
	looks   looks
	heavy   heavy
	heads   lookout
	checks  checks
	commits commits
}

// NewService makes the service.
func NewService(c Config) *Service {
	if c.Now == nil {
		c.Now = time.Now
	}
	if c.Poll <= 0 {
		c.Poll = time.Minute
	}
	return &Service{Config: c}
}

// Kinds declares all kinds of the room.
func Kinds() []ledger.Kind {
	return []ledger.Kind{KindWorkspace, KindDeployment, KindSyncRun, KindRepository, KindTarget, KindWebhook, KindHome}
}

// Reconcilers by kind.
func (s *Service) Reconcilers() map[string]reconcile.Reconciler {
	return map[string]reconcile.Reconciler{
		KindDeployment.Name: &Deployments{s},
		KindSyncRun.Name:    &SyncRuns{s},
		KindRepository.Name: Repositories{s},
		KindTarget.Name:     Targets{s},
		KindWebhook.Name:    Webhooks{s},
	}
}

// Namespace is where a custom resource is, as its API has it now.
type Namespace struct {
	Home        string
	Name, UID   string
	Terminating bool
	Missing     bool
	Engine      string // the cluster that is to carry out what is intended there
	Org         string // whose namespace it is now; empty: its own, "<home>/<name>"
}

// Intent is a custom resource as it is written now. UID, Name and Namespace say
// which; the rest is nothing for one that is gone.
type Intent struct {
	Namespace  Namespace
	Name, UID  string
	Generation int64
	Created    time.Time // as its API has it; zero: now
	Gone       bool      // there is none of that UID any more, or it is being deleted
	Held       bool      // the finalizer is on it
}

// DeploymentIntent is a GitOpsDeployment.
type DeploymentIntent struct {
	Intent
	Repository, Path, Revision string
	Environment, ToNamespace   string
	Type                       string // automated, manual
	SyncOptions                []string
}

// SyncRunIntent is a GitOpsDeploymentSyncRun.
type SyncRunIntent struct {
	Intent
	Deployment, Revision string
	Prune                bool
	Phase                string // that it was told last, by us; empty: none
}

// SecretData is a Secret; nil where it stands for one that was not found.
type SecretData struct {
	Type string
	Data map[string][]byte
	// Unreadable: it may be there, and the API does not let it be read.
	Unreadable bool
}

// RepositoryIntent is a GitOpsDeploymentRepositoryCredential with its Secret.
type RepositoryIntent struct {
	Intent
	URL, SecretName string
	Secret          *SecretData
}

// TargetIntent is a GitOpsDeploymentManagedEnvironment with its Secret.
type TargetIntent struct {
	Intent
	URL, SecretName  string
	Secret           *SecretData
	Insecure         bool
	NewAccount       bool
	Namespaces       []string
	ClusterResources bool
}

// Known is what the ledger has of a home's custom resources, to find out which
// have gone while nobody watched, and whether somebody has changed what it has: uid,
// namespace and name by kind.
type Known struct {
	Kind, UID       string
	Namespace, Name string
	NamespaceUID    string
	Generation      int64
	Asks            string // digest of what it asks for, as its intent has it; empty: it cannot be told
	Dated           bool   // it was written by a version that reads resources in another way
	Engine          string // of a namespace
}
