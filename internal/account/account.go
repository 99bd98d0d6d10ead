// Package account owns the accounts of programs: the service accounts of
// tenants, and those of clusters' agents and of the logins to clusters. All of
// them are clients at the identity provider. Secrets are shown once.
//
// It must not know instances, clusters or any identity provider.
package account

import (
	"context"
	"encoding/json"
	"regexp"
	"time"

	"github.com/droverhq/drover/internal/access"
	"github.com/droverhq/drover/internal/fault"
	"github.com/droverhq/drover/internal/ledger"
	"github.com/droverhq/drover/internal/sso"
)

// Account is a service account as its tenant sees it.
type Account struct {
	ID          string // of the object
	ClientID    string // "srvc-acct-<uuid>"
	Name        string
	Description string
	Owner       string
	Org         string
	Created     time.Time
	Secret      string // only in the answers of Create and Reset
}

// Verbs are what the API offers; the caller comes with the context. *Service
// implements it. Faults beyond the usual: Invalid, reasons "account-name",
// "account-description", "account-id"; NotFound, reason "account"; Denied,
// reason "account-limit" (50 in an organisation, configurable); Unavailable,
// reasons "account-create", "account-get", "account-delete" where the identity
// provider cannot be reached.
type Verbs interface {
	Create(ctx context.Context, name, description string) (Account, error)
	List(ctx context.Context, clientID string, page, size int) ([]Account, int64, error)
	Get(ctx context.Context, idOrClient string) (Account, error)
	Delete(ctx context.Context, idOrClient string) error
	Reset(ctx context.Context, idOrClient string) (Account, error)
}

// Phases of an account.
const (
	Creating = "creating" // written down; the identity provider may have it or not
	Ready    = "ready"
	Deleting = "deleting" // until the identity provider has it no more
	Deleted  = "deleted"
)

// What an account is for.
const (
	tenant = "tenant"
	agent  = "agent" // of a cluster
	login  = "login" // people log in to a cluster through it
)

// Kind declares accounts to the ledger.
var Kind = ledger.Kind{
	Name: "serviceaccount",
	Fields: []ledger.Field{
		{Name: "use", Type: ledger.Text},
		{Name: "client", Type: ledger.Text},
	},
	Scope:  []string{"org", "phase", "use"},
	Totals: [][]string{{}, {"org", "phase", "use"}},
}

// Spec is what is written down of an account.
type Spec struct {
	Client      string `json:"client"`
	Description string `json:"description,omitempty"`
	Use         string `json:"use"`
	// User is the id of the owner at its issuer.
	User    string `json:"user,omitempty"`
	Cluster string `json:"cluster,omitempty"` // of agents and logins
	// Redirect is where a login sends people back to.
	Redirect string `json:"redirect,omitempty"`
	Secret   string `json:"secret"` // a reference to the sealed one
	// Next is the reference to a secret that a reset has made and not brought to
	// its end. Secret is the valid one until then.
	Next string `json:"next,omitempty"`
}

// Status is what became of an account.
type Status struct {
	Fault string `json:"fault,omitempty"` // why it was taken back
}

// Spaces of names in the ledger.
const (
	clientSpace = "serviceaccount/client"
	agentSpace  = "serviceaccount/" + agent
	loginSpace  = "serviceaccount/" + login
)

const (
	maxName        = 50
	maxDescription = 255
	maxID          = 64
)

var (
	nameForm        = regexp.MustCompile(`^[a-z]([-a-z0-9]*[a-z0-9])?$`)
	descriptionForm = regexp.MustCompile(`^[a-zA-Z0-9.,\-\s]*$`)
	idForm          = regexp.MustCompile(`^[a-zA-Z0-9]([-a-zA-Z0-9]*[a-zA-Z0-9])?$`)
)

func checkNew(name, description string) error {
	if len(name) > maxName || !nameForm.MatchString(name) {
		return fault.New(fault.Invalid, "the name of a service account has at most %d lower-case letters, digits and dashes, begins with a letter and does not end with a dash", maxName).Because("account-name")
	}
	if len(description) > maxDescription || !descriptionForm.MatchString(description) {
		return fault.New(fault.Invalid, "the description of a service account has at most %d letters, digits, spaces, dots, commas and dashes", maxDescription).Because("account-description")
	}
	return nil
}

func checkID(id string) error {
	if len(id) > maxID || !idForm.MatchString(id) {
		return fault.New(fault.Invalid, "the id of a service account has at most %d letters, digits and dashes", maxID).Because("account-id")
	}
	return nil
}

// client says what the identity provider is to have of an account.
func client(o ledger.Object, spec Spec, secret string) sso.Client {
	c := sso.Client{ID: spec.Client, Secret: secret, Name: o.Name, Description: spec.Description}
	claims := map[string]string{}
	switch spec.Use {
	case tenant:
		claims = map[string]string{
			"rh-org-id": o.Org, "org_id": o.Org, "rh-user-id": spec.User,
			"username": o.Owner, "preferred_username": o.Owner,
		}
	case agent:
		claims["fleetshard-operator-cluster-id"] = spec.Cluster
		c.Roles = []string{access.RoleAgent}
	case login:
		c.Redirects = []string{spec.Redirect}
	}
	for name, v := range claims {
		if v == "" {
			delete(claims, name)
		}
	}
	c.Claims = claims
	return c
}

// present shows an account without its secret.
func present(o ledger.Object, spec Spec) Account {
	return Account{
		ID: o.ID, ClientID: spec.Client, Name: o.Name, Description: spec.Description,
		Owner: o.Owner, Org: o.Org, Created: o.Created,
	}
}

func decode(o ledger.Object) (Spec, error) {
	var spec Spec
	if err := json.Unmarshal(o.Spec, &spec); err != nil {
		return spec, fault.New(fault.Internal, "cannot read %s: %w", o.Ref, err)
	}
	return spec, nil
}

// counter bounds the accounts of an organisation, or of a user without one.
func counter(org, owner string) string {
	if org != "" {
		return "serviceaccounts/org/" + org
	}
	return "serviceaccounts/user/" + owner
}
