// Package policy owns who may use what: quotas, the deny list, the access list
// and terms of use, all documents that an operator changes while the server runs.
//
// It must not know instances, nor any offering by name, nor HTTP.
package policy

import (
	"context"
	"time"

	"github.com/droverhq/drover/internal/access"
	"github.com/droverhq/drover/internal/ledger"
)

// The kinds of policies. The id of a document is its name, its spec is one of
// the structs below, its status a Status.
var (
	KindQuota      = ledger.Kind{Name: "quota", Totals: [][]string{{}}}
	KindDenyList   = ledger.Kind{Name: "denylist", Totals: [][]string{{}}}
	KindAccessList = ledger.Kind{Name: "accesslist", Totals: [][]string{{}}}
	KindTerms      = ledger.Kind{Name: "terms", Totals: [][]string{{}}}
	// KindAcceptance is that a user has accepted a version of some terms.
	KindAcceptance = ledger.Kind{
		Name: "acceptance", Scope: []string{"org", "owner"}, Totals: [][]string{{}, {"org", "owner"}},
		Fields: []ledger.Field{{Name: "terms", Type: ledger.Text}, {Name: "terms_version", Type: ledger.Text}},
	}
)

// Kinds declares them to the ledger.
func Kinds() []ledger.Kind {
	return []ledger.Kind{KindQuota, KindDenyList, KindAccessList, KindTerms, KindAcceptance}
}

// Status of a document in the ledger.
type Status struct {
	Source string `json:"source"` // of the version in force
	Digest string `json:"digest"`
	// Message says in a line what is in force, for people.
	Message string `json:"message,omitempty"`
	// Said holds the digest that each file has brought last. A file that says
	// what it said before is not applied again, so that a restart does not undo
	// what somebody has applied since.
	Said map[string]string `json:"said,omitempty"`
	// Pending are the holders ("org/acme", "owner/alice") whose instances are
	// yet to be told of the change; Everybody: all that the spec names.
	Pending   []string `json:"pending,omitempty"`
	Everybody bool     `json:"everybody,omitempty"`
	// Told: once already. They are told again when every replica knows of the
	// change: one that did not may have run them meanwhile.
	Told bool `json:"told,omitempty"`
}

// Quota is what an organisation or a single account may have: one document each.
type Quota struct {
	// Organisation or Account: exactly one is named. An organisation's quota
	// goes before that of an account.
	Organisation string `json:"organisation,omitempty"`
	Account      string `json:"account,omitempty"` // user name
	// AnyUser of the organisation; otherwise only Users.
	AnyUser      bool     `json:"anyUser,omitempty"`
	Users        []string `json:"users,omitempty"`
	MaxInstances int64    `json:"maxInstances,omitempty"` // of one offering, over all types; 0: no such bound
	Grants       []Grant  `json:"grants,omitempty"`
}

// Grant of a quota.
type Grant struct {
	Offering string    `json:"offering"`
	Type     string    `json:"type"`
	Billing  []Allowed `json:"billing,omitempty"` // by model; none: Units under any model
	Units    int64     `json:"units,omitempty"`   // negative: no limit
	Expires  time.Time `json:"expires,omitzero"`  // zero: never
}

// Allowed is what a billing model is granted.
type Allowed struct {
	Model   string    `json:"model"`
	Units   int64     `json:"units"` // negative: no limit
	Expires time.Time `json:"expires,omitzero"`
}

// DenyList names users who may do nothing, and whose instances go, and organisations
// that may have nothing new done: what those have goes on.
type DenyList struct {
	Users         []string `json:"users"`
	Organisations []string `json:"organisations,omitempty"`
}

// AccessList names the organisations that are let in while it is enabled; all
// others are told that the service is under maintenance.
type AccessList struct {
	Enabled       bool     `json:"enabled"`
	Organisations []string `json:"organisations"`
}

// Terms are what a user accepts once per version.
type Terms struct {
	Version string `json:"version"`
	URL     string `json:"url,omitempty"`
	Text    string `json:"text,omitempty"`
}

// Decisions is what other rooms ask. *Service implements it, and
// entitlement.Source besides, from the quotas.
type Decisions interface {
	// Admit says whether the caller may use the service at all. Faults: Denied,
	// reasons "denied" (deny list) and "maintenance" (access list).
	Admit(who access.Principal) error
	// Accepted says whether the user has accepted the named terms in their
	// present version; "" needs no acceptance. Faults: Denied, reason "terms";
	// Unavailable where a remote check cannot be asked.
	Accepted(ctx context.Context, who access.Principal, terms string) error
	// Denied reports whether a user is on the deny list.
	Denied(user string) bool
}
