package gitops

import (
	"time"

	"github.com/droverhq/drover/internal/ledger"
	"github.com/droverhq/drover/internal/runtime"
)

// KindRepository declares the credentials of repositories. The parent is the
// workspace: nobody else's deployments are opened with them.
var KindRepository = ledger.Kind{
	Name:   "repository",
	Fields: []ledger.Field{{Name: "workspace", Type: ledger.Text}, {Name: "url", Type: ledger.Text}}, // normalised
	Totals: [][]string{{}, {"org"}},
	Text:   []string{"name"},
	Lookup: []string{"workspace", "url"},
}

// RepositorySpec says which repository is opened with what.
type RepositorySpec struct {
	URL    string `json:"url"`
	Secret string `json:"secret,omitempty"` // name of the Secret that it comes from
	// Problem with that Secret: "", SecretNotSpecified, SecretNotFound,
	// SecretInvalidType, InvalidCredentials (it holds none).
	Problem    string `json:"problem,omitempty"`
	Username   string `json:"username,omitempty"`
	Password   string `json:"password,omitempty"`    // reference of the sealed one
	SSHKey     string `json:"ssh_key,omitempty"`     // likewise
	KnownHosts string `json:"known_hosts,omitempty"` // lines; empty: the server's
	// Digest of the secrets, keyed, to tell whether others have come.
	Digest  string  `json:"digest,omitempty"`
	Deleted bool    `json:"deleted,omitempty"`
	Origin  *Origin `json:"origin,omitempty"`
	// Seal tells whether a custom resource's is as it was written; empty: it cannot.
	Seal string `json:"seal,omitempty"`
}

// RepositoryStatus is what the repository's server said.
type RepositoryStatus struct {
	Valid      bool        `json:"valid"`
	Conditions []Condition `json:"conditions,omitempty"`
	Checked    time.Time   `json:"checked,omitzero"`
	// Of the secrets that were found good last: what deployments use.
	Good *RepositorySpec `json:"good,omitempty"`
	// HostKey is what the server showed then, of SSH: of all that its known_hosts say,
	// this was seen to be so.
	HostKey  string `json:"host_key,omitempty"`
	Mirrored string `json:"mirrored,omitempty"`
	// Seen is the generation that Conditions are about. Unreached counts the checks
	// in a row for which the server did not answer.
	Seen      int64     `json:"seen,omitempty"`
	Unreached int       `json:"unreached,omitempty"`
	Barred    bool      `json:"barred,omitempty"` // they say that nothing is done for its organisation
	Retired   []Retired `json:"retired,omitempty"`
	Operation string    `json:"operation,omitempty"` // that runs
	// Since when Good is what it is, and the operation that made it so, which agents that
	// are told it show; nil: none did.
	Since time.Time                    `json:"since,omitzero"`
	Shown *runtime.DeploymentOperation `json:"shown,omitempty"`
	// Refused is the last operation that failed since, which agents that have Good show.
	Refused *runtime.DeploymentOperation `json:"refused,omitempty"`
}

// Repository is an object with its documents decoded.
type Repository struct {
	ledger.Object
	Spec   RepositorySpec
	Status RepositoryStatus
}

// DecodeRepository reads a credential.
func DecodeRepository(o ledger.Object) (Repository, error) {
	r := Repository{Object: o}
	return r, decode(o, &r.Spec, &r.Status)
}

func (r *Repository) put(op string) (ledger.Put, error) {
	o := r.Object
	o.Fields = ledger.Fields{"workspace": r.Parent, "url": NormaliseRepository(cut(r.Spec.URL, maxURL))}
	err := documents(&o, r.Spec, r.Status, RepositoryBrief{URL: r.Spec.URL, Valid: r.Status.Valid, Message: r.message(), Checked: r.Status.Checked})
	return ledger.Put{Object: o, Expect: r.Version, Op: op}, err
}

// RepositoryBrief is what lists show of a credential: its View in the ledger.
type RepositoryBrief struct {
	URL     string    `json:"url"`
	Valid   bool      `json:"valid"`
	Message string    `json:"message,omitempty"`
	Checked time.Time `json:"checked,omitzero"`
}

// message is the first condition's.
func (r *Repository) message() string {
	if len(r.Status.Conditions) == 0 {
		return ""
	}
	return r.Status.Conditions[0].Message
}

// refs are the sealed secrets of a spec.
func (s *RepositorySpec) refs() []string {
	if s == nil {
		return nil
	}
	return []string{s.Password, s.SSHKey}
}

// own is those that were written together with the spec. Where somebody else has changed
// one, none is: it may be no reference, or that of a secret which others use.
func (s *RepositorySpec) own() []string {
	if s == nil || s.Digest != digestOf(s.refs()...) {
		return nil
	}
	return s.refs()
}
