package gitops

import (
	"time"

	"github.com/droverhq/drover/internal/ledger"
	"github.com/droverhq/drover/internal/runtime"
)

// KindTarget declares the clusters that workspaces bring along (managed
// environments). The parent is the workspace.
var KindTarget = ledger.Kind{
	Name:   "target",
	Fields: []ledger.Field{{Name: "workspace", Type: ledger.Text}, {Name: "url", Type: ledger.Text}},
	Totals: [][]string{{}, {"org"}},
	Text:   []string{"name"},
	Lookup: []string{"workspace"},
}

// TargetSpec says how the cluster is reached.
type TargetSpec struct {
	URL    string `json:"url"`
	Secret string `json:"secret,omitempty"`
	// Problem with that Secret: "", SecretNotSpecified, SecretNotFound,
	// InvalidSecretType, MissingKubeConfigField, UnableToParseKubeconfigData (it is
	// too large), KubernetesError (it cannot be read).
	Problem    string `json:"problem,omitempty"`
	SecretType string `json:"secret_type,omitempty"` // that is not the right one
	Kubeconfig string `json:"kubeconfig,omitempty"`  // reference of the sealed one
	Digest     string `json:"digest,omitempty"`      // of it, keyed
	Insecure   bool   `json:"insecure,omitempty"`
	// NewAccount: a service account is made there, whose token is used; otherwise
	// the token of the kubeconfig is.
	NewAccount       bool     `json:"new_account,omitempty"`
	Namespaces       []string `json:"namespaces,omitempty"`
	ClusterResources bool     `json:"cluster_resources,omitempty"`
	Deleted          bool     `json:"deleted,omitempty"`
	Origin           *Origin  `json:"origin,omitempty"`
	Seal             string   `json:"seal,omitempty"` // as for credentials of repositories
}

// TargetStatus is what the cluster said.
type TargetStatus struct {
	Ready     bool       `json:"ready"`
	Condition *Condition `json:"condition,omitempty"`
	Checked   time.Time  `json:"checked,omitzero"`
	Access    *Access    `json:"access,omitempty"`   // what deployments use
	Accounts  []string   `json:"accounts,omitempty"` // that were made there
	Mirrored  string     `json:"mirrored,omitempty"`
	// Seen is the generation that Condition is about. Unreached counts the checks in
	// a row for which the cluster did not answer, Tries those of a removal.
	Seen      int64 `json:"seen,omitempty"`
	Unreached int   `json:"unreached,omitempty"`
	Barred    bool  `json:"barred,omitempty"` // as for credentials of repositories
	Tries     int   `json:"tries,omitempty"`
	// Left are accounts on a cluster that the target was before.
	Left      []LeftAccount `json:"left,omitempty"`
	Retired   []Retired     `json:"retired,omitempty"`
	Operation string        `json:"operation,omitempty"` // that runs
	// Since when Access is what it is, and the operation that made it so, which agents that
	// are told it show; nil: none did.
	Since time.Time                    `json:"since,omitzero"`
	Shown *runtime.DeploymentOperation `json:"shown,omitempty"`
	// Refused is the last operation that failed since, which agents that have Access show.
	Refused *runtime.DeploymentOperation `json:"refused,omitempty"`
}

// LeftAccount is one that is still to be removed from where it was made.
type LeftAccount struct {
	URL        string `json:"url"`
	Kubeconfig string `json:"kubeconfig"` // reference of the sealed one
	Insecure   bool   `json:"insecure,omitempty"`
	Account    string `json:"account"`
	Tries      int    `json:"tries,omitempty"`
}

// Access to a cluster, as it was found to work: all of it of one spec.
type Access struct {
	Server string `json:"server"`
	Token  string `json:"token"`        // reference of the sealed one
	CA     string `json:"ca,omitempty"` // PEM
	Of     string `json:"of,omitempty"` // Digest of the spec that it was made by

	Insecure         bool     `json:"insecure,omitempty"`
	Namespaces       []string `json:"namespaces,omitempty"`
	ClusterResources bool     `json:"cluster_resources,omitempty"`
}

// Target is an object with its documents decoded.
type Target struct {
	ledger.Object
	Spec   TargetSpec
	Status TargetStatus
}

// DecodeTarget reads a target.
func DecodeTarget(o ledger.Object) (Target, error) {
	t := Target{Object: o}
	return t, decode(o, &t.Spec, &t.Status)
}

// TargetBrief is what lists show of a target: its View in the ledger.
type TargetBrief struct {
	URL     string    `json:"url"`
	Ready   bool      `json:"ready"`
	Message string    `json:"message,omitempty"`
	Checked time.Time `json:"checked,omitzero"`
}

func (t *Target) put(op string) (ledger.Put, error) {
	o := t.Object
	o.Fields = ledger.Fields{"workspace": t.Parent, "url": cut(t.Spec.URL, maxURL)}
	brief := TargetBrief{URL: t.Spec.URL, Ready: t.Status.Ready, Checked: t.Status.Checked}
	if t.Status.Condition != nil {
		brief.Message = t.Status.Condition.Message
	}
	err := documents(&o, t.Spec, t.Status, brief)
	return ledger.Put{Object: o, Expect: t.Version, Op: op}, err
}

// refs are the sealed secrets that a target has in use.
func (t *Target) refs() []string {
	return append(t.made(), t.Spec.Kubeconfig)
}

// own is those of them that are the target's: not a kubeconfig's that somebody else has
// changed in the ledger, see RepositorySpec.own.
func (t *Target) own() []string {
	if t.Spec.Digest != digestOf(t.Spec.Kubeconfig) {
		return t.made()
	}
	return t.refs()
}

// made is those that came of its checks.
func (t *Target) made() (out []string) {
	if t.Status.Access != nil {
		out = append(out, t.Status.Access.Token)
	}
	for _, l := range t.Status.Left {
		out = append(out, l.Kubeconfig)
	}
	return out
}

// account is the name of the service account that is made for a target: one for
// each, so that several live side by side on one cluster.
func (t *Target) account() string { return "argocd-manager-" + t.ID }
