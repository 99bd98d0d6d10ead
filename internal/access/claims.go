package access

import (
	"encoding/json"
	"slices"
	"strconv"
	"time"
	"unicode"
	"unicode/utf8"

	"github.com/droverhq/drover/internal/fault"
)

// RoleAgent is the role that an agent's token has besides its cluster's claim.
const RoleAgent = "fleetshard_operator"

// RoleAdmin makes its holder an operator of the control plane.
const RoleAdmin = "drover-admin"

// maxName bounds what a token may call a user, an organisation or a cluster:
// all of them become indexed columns.
const maxName = 256

// claims are the parts of a token that make a principal. Where the reference
// systems knew an alternate name for a claim, both are read.
type claims struct {
	Issuer    text `json:"iss"`
	Use       text `json:"typ"`
	Username  text `json:"username"`
	Preferred text `json:"preferred_username"`
	ClientID  text `json:"clientId"`
	Party     text `json:"azp"`
	Org       text `json:"org_id"`
	OrgOther  text `json:"rh-org-id"`
	Account   text `json:"account_id"`
	OrgAdmin  flag `json:"is_org_admin"`
	Cluster   text `json:"fleetshard-operator-cluster-id"`
	Issued    date `json:"iat"`
	Realm     struct {
		Roles []string `json:"roles"`
	} `json:"realm_access"`
}

// date is a moment as tokens have it; what is none is the beginning of time.
type date struct{ time.Time }

// UnmarshalJSON implements json.Unmarshaler.
func (d *date) UnmarshalJSON(data []byte) error {
	var seconds float64
	if json.Unmarshal(data, &seconds) == nil && seconds > 0 && seconds < 1<<40 {
		d.Time = time.Unix(int64(seconds), 0)
	}
	return nil
}

// trust is what an issuer's word is taken for beyond who a user is.
type trust struct{ admins, agents bool }

func (c *claims) principal(t trust) (Principal, error) {
	switch c.Use {
	case "ID", "Refresh", "Offline", "Logout", errandUse:
		// Made for the application that a person logs in to: whoever holds it
		// may not act for the person here.
		return Principal{}, fault.New(fault.Denied, "the token is no access token")
	}
	p := Principal{
		User:     first(c.Username, c.Preferred, c.ClientID),
		Org:      first(c.Org, c.OrgOther),
		Account:  string(c.Account),
		OrgAdmin: bool(c.OrgAdmin),
		Roles:    c.Realm.Roles,
		Client:   c.client(),
		Issuer:   string(c.Issuer),
	}
	if p.User == "" {
		p.User = p.Client
	}
	if !t.admins {
		p.Roles = nil // a role is power over others: not every issuer may give it
	}
	if c.Cluster != "" && t.agents && slices.Contains(c.Realm.Roles, RoleAgent) {
		// An agent is nobody else besides: what its token also says of a
		// user opens nothing.
		p = Principal{Cluster: string(c.Cluster), Roles: c.Realm.Roles, Client: p.Client, Issuer: p.Issuer, Issued: c.Issued.Time}
	}
	p.Admin = p.Cluster == "" && t.admins && slices.Contains(p.Roles, RoleAdmin)
	if p.User == "" && p.Cluster == "" {
		return Principal{}, fault.New(fault.Denied, "the token names no user")
	}
	for _, s := range []string{p.User, p.Org, p.Account, p.Cluster, p.Client} {
		if !presentable(s) {
			return Principal{}, fault.New(fault.Denied, "the token's claims are not plain text of at most %d bytes", maxName)
		}
	}
	return p, nil
}

// client names the program whose own token this is. A person's token has the
// program that they use as its azp, which must not make the person that program.
func (c *claims) client() string {
	if c.ClientID != "" {
		return string(c.ClientID)
	}
	if c.Party != "" && c.Username == "" && (c.Preferred == "" || c.Preferred == "service-account-"+c.Party) {
		return string(c.Party)
	}
	return ""
}

func first(of ...text) string {
	for _, s := range of {
		if s != "" {
			return string(s)
		}
	}
	return ""
}

// presentable keeps out of log and ledger what could be mistaken there for
// something else.
func presentable(s string) bool {
	if len(s) > maxName || !utf8.ValidString(s) {
		return false
	}
	for _, r := range s {
		if !unicode.IsPrint(r) {
			return false
		}
	}
	return true
}

// text is a claim that some issuers write as a number.
type text string

func (t *text) UnmarshalJSON(data []byte) error {
	var s string
	if err := json.Unmarshal(data, &s); err == nil {
		*t = text(s)
		return nil
	}
	var n json.Number
	if err := json.Unmarshal(data, &n); err != nil {
		return err
	}
	*t = text(n.String())
	return nil
}

// flag is a claim that some issuers write as text.
type flag bool

func (f *flag) UnmarshalJSON(data []byte) error {
	var b bool
	if err := json.Unmarshal(data, &b); err == nil {
		*f = flag(b)
		return nil
	}
	var s string
	if err := json.Unmarshal(data, &s); err != nil {
		return err
	}
	b, err := strconv.ParseBool(s)
	*f = flag(b)
	return err
}
