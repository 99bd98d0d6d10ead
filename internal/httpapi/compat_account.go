package httpapi

import (
	"encoding/json"
	"net/http"
	"time"

	"github.com/droverhq/drover/internal/account"
	"github.com/droverhq/drover/internal/fault"
)

// serviceAccount is a service account as the offerings' APIs show it. The
// secret is there when it was made, and never again.
type serviceAccount struct {
	reference
	Name        string     `json:"name,omitempty"`
	Description string     `json:"description,omitempty"`
	ClientID    string     `json:"client_id,omitempty"`
	Secret      string     `json:"client_secret,omitempty"`
	Owner       string     `json:"owner,omitempty"`
	CreatedBy   string     `json:"created_by,omitempty"`
	CreatedAt   *time.Time `json:"created_at,omitempty"`
}

func showAccount(p *compatPath, a account.Account) serviceAccount {
	out := serviceAccount{
		reference: reference{ID: a.ID, Kind: "ServiceAccount", Href: offeringBase(p.off.Spec) + "/service_accounts/" + a.ID},
		Name:      a.Name, Description: a.Description, ClientID: a.ClientID, Secret: a.Secret, Owner: a.Owner, CreatedBy: a.Owner,
	}
	if !a.Created.IsZero() {
		at := a.Created.UTC()
		out.CreatedAt = &at
	}
	return out
}

// accountRoute returns the handlers of service accounts.
func (s *server) accountRoute(root string, rest []string) (string, verbs) {
	switch {
	case s.Accounts == nil:
	case len(rest) == 1:
		return root, verbs{"GET": s.accountList, "POST": s.accountCreate}
	case len(rest) == 2 && rest[1] != "":
		return root + "/{id}", verbs{"GET": s.accountGet, "DELETE": s.accountDelete}
	case len(rest) == 3 && rest[2] == "reset_credentials":
		return root + "/{id}/reset_credentials", verbs{"POST": s.accountReset}
	}
	return "", nil
}

func (s *server) accountList(w http.ResponseWriter, r *http.Request, p *compatPath) {
	// The list has no pages: an organisation has a few dozen at most.
	found, _, err := s.Accounts.List(r.Context(), r.URL.Query().Get("client_id"), 1, maxSize)
	if err != nil {
		s.fail(w, r, err)
		return
	}
	items := make([]serviceAccount, len(found))
	for i, a := range found {
		a.Secret = ""
		items[i] = showAccount(p, a)
	}
	writeJSON(w, http.StatusOK, struct {
		Kind  string           `json:"kind"`
		Items []serviceAccount `json:"items"`
	}{"ServiceAccountList", items})
}

// accountCreate answers 202, as clients have seen it for years, though the
// specification of the fleet managers has 200.
func (s *server) accountCreate(w http.ResponseWriter, r *http.Request, p *compatPath) {
	name, description, err := readAccount(r)
	if err != nil {
		s.fail(w, r, err)
		return
	}
	a, err := s.Accounts.Create(r.Context(), deref(name), deref(description))
	s.showAccount(w, r, p, http.StatusAccepted, a, err)
}

func readAccount(r *http.Request) (name, description *string, err error) {
	err = readObject(r, func(field string, value json.RawMessage) error {
		switch field {
		case "name":
			return into(field, value, &name)
		case "description":
			return into(field, value, &description)
		}
		return unknownField(field)
	})
	return name, description, err
}

func (s *server) accountGet(w http.ResponseWriter, r *http.Request, p *compatPath) {
	id, err := accountID(p.rest[1])
	var a account.Account
	if err == nil {
		a, err = s.Accounts.Get(r.Context(), id)
	}
	a.Secret = ""
	s.showAccount(w, r, p, http.StatusOK, a, err)
}

func (s *server) accountReset(w http.ResponseWriter, r *http.Request, p *compatPath) {
	id, err := accountID(p.rest[1])
	var a account.Account
	if err == nil {
		a, err = s.Accounts.Reset(r.Context(), id)
	}
	s.showAccount(w, r, p, http.StatusOK, a, err)
}

func (s *server) accountDelete(w http.ResponseWriter, r *http.Request, p *compatPath) {
	id, err := accountID(p.rest[1])
	if err == nil {
		err = s.Accounts.Delete(r.Context(), id)
	}
	if err != nil {
		s.fail(w, r, err)
		return
	}
	w.WriteHeader(http.StatusNoContent)
}

// accountID keeps away from look-ups what no id can be.
func accountID(id string) (string, error) {
	if !plainName(id) {
		return "", fault.New(fault.Invalid, "this is no id of a service account").Because("account-id")
	}
	return id, nil
}

func (s *server) showAccount(w http.ResponseWriter, r *http.Request, p *compatPath, status int, a account.Account, err error) {
	if err != nil {
		s.fail(w, r, err)
		return
	}
	w.Header().Set("Cache-Control", "no-store")
	writeJSON(w, status, showAccount(p, a))
}

// ssoProvider tells clients where to get tokens.
type ssoProvider struct {
	reference
	Name     string `json:"name,omitempty"`
	BaseURL  string `json:"base_url,omitempty"`
	TokenURL string `json:"token_url,omitempty"`
	JWKS     string `json:"jwks,omitempty"`
	Issuer   string `json:"valid_issuer,omitempty"`
}

func (s *server) compatSSO(w http.ResponseWriter, r *http.Request, p *compatPath) {
	if s.SSO == nil {
		s.fail(w, r, fault.New(fault.NotFound, "this server knows of no identity provider"))
		return
	}
	at := s.SSO()
	writeJSON(w, http.StatusOK, ssoProvider{
		reference: reference{ID: at.Name, Kind: "SsoProvider", Href: offeringBase(p.off.Spec) + "/sso_providers"},
		Name:      at.Name, BaseURL: at.BaseURL, TokenURL: at.TokenURL, JWKS: at.JWKSURL, Issuer: at.Issuer,
	})
}
