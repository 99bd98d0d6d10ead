package httpapi

import (
	"context"
	"net/http"
	"net/url"
	"strconv"
	"strings"

	v1 "github.com/droverhq/drover/api/v1"
	"github.com/droverhq/drover/internal/access"
	"github.com/droverhq/drover/internal/account"
	"github.com/droverhq/drover/internal/fault"
	"github.com/droverhq/drover/internal/ledger"
)

// accountsPath is where SDKs look for service accounts, below the issuer.
const accountsPath = "/apis/service_accounts/v1"

// issuerAccount is a service account as the identity provider of the fleet
// managers shows it.
type issuerAccount struct {
	ID          string `json:"id"`
	ClientID    string `json:"clientId"`
	Secret      string `json:"secret,omitempty"`
	Name        string `json:"name"`
	Description string `json:"description,omitempty"`
	CreatedBy   string `json:"createdBy,omitempty"`
	CreatedAt   int64  `json:"createdAt,omitempty"` // seconds since 1970
}

func showIssuerAccount(a account.Account) issuerAccount {
	out := issuerAccount{
		ID: a.ID, ClientID: a.ClientID, Secret: a.Secret, Name: a.Name, Description: a.Description, CreatedBy: a.Owner,
	}
	if !a.Created.IsZero() {
		out.CreatedAt = a.Created.Unix()
	}
	return out
}

// issuers reports whether a path is of service accounts beside the issuer.
func issuers(path string) bool {
	if rest, ok := strings.CutPrefix(path, "/auth/realms/"); ok {
		_, path, _ = strings.Cut(rest, "/")
		path = "/" + path
	}
	return path == accountsPath || strings.HasPrefix(path, accountsPath+"/")
}

// issuerError is an error object that has, besides, what clients of that
// identity provider look at.
func issuerError(status int, e v1.Error, reason string) map[string]any {
	word := "general_failure"
	switch {
	case reason == "account-limit":
		word = "service_account_limit_exceeded"
	case status == http.StatusUnauthorized:
		word = "HTTP 401 Unauthorized"
	case status == http.StatusForbidden:
		word = "service_account_access_invalid"
	case status == http.StatusNotFound:
		word = "service_account_not_found"
	case status == http.StatusBadRequest:
		word = "invalid_field"
	}
	out := map[string]any{
		"id": e.ID, "kind": e.Kind, "href": e.Href, "code": e.Code, "reason": e.Reason, "error": word, "error_description": e.Reason,
	}
	if e.OperationID != "" {
		out["operation_id"] = e.OperationID
	}
	return out
}

// accountChanger is what changing a service account's words needs.
type accountChanger interface {
	Update(ctx context.Context, idOrClient string, name, description *string) (account.Account, error)
}

// routesAccount serves service accounts beside the issuer, under its realm and
// without. They are the same accounts as those of the offerings' APIs.
func (s *server) routesAccount(mux *http.ServeMux) {
	if s.Accounts == nil {
		return
	}
	change, changes := s.Accounts.(accountChanger)
	for _, root := range []string{accountsPath, "/auth/realms/{realm}" + accountsPath} {
		handle := func(pattern string, status int, serve func(r *http.Request) (any, error)) {
			method, path, _ := strings.Cut(pattern, " ")
			mux.HandleFunc(method+" "+root+path, func(w http.ResponseWriter, r *http.Request) {
				out, err := s.asTenant(r, serve)
				if err != nil {
					s.fail(w, r, err)
					return
				}
				w.Header().Set("Cache-Control", "no-store")
				if out == nil {
					w.WriteHeader(status)
					return
				}
				writeJSON(w, status, out)
			})
		}
		handle("GET ", http.StatusOK, s.issuerList)
		handle("POST ", http.StatusCreated, func(r *http.Request) (any, error) {
			name, description, err := readAccount(r)
			if err != nil {
				return nil, err
			}
			a, err := s.Accounts.Create(r.Context(), deref(name), deref(description))
			return showIssuerAccount(a), err
		})
		one := func(verb func(ctx context.Context, id string) (account.Account, error)) func(r *http.Request) (any, error) {
			return func(r *http.Request) (any, error) {
				id, err := accountID(r.PathValue("id"))
				if err != nil {
					return nil, err
				}
				a, err := verb(r.Context(), id)
				return showIssuerAccount(a), err
			}
		}
		handle("GET /{id}", http.StatusOK, one(func(ctx context.Context, id string) (account.Account, error) {
			a, err := s.Accounts.Get(ctx, id)
			a.Secret = ""
			return a, err
		}))
		handle("POST /{id}/resetSecret", http.StatusOK, one(s.Accounts.Reset))
		handle("DELETE /{id}", http.StatusOK, func(r *http.Request) (any, error) {
			id, err := accountID(r.PathValue("id"))
			if err != nil {
				return nil, err
			}
			return nil, s.Accounts.Delete(r.Context(), id)
		})
		if !changes {
			continue
		}
		handle("PATCH /{id}", http.StatusOK, func(r *http.Request) (any, error) {
			id, err := accountID(r.PathValue("id"))
			if err != nil {
				return nil, err
			}
			name, description, err := readAccount(r)
			if err != nil {
				return nil, err
			}
			a, err := change.Update(r.Context(), id, name, description)
			a.Secret = ""
			return showIssuerAccount(a), err
		})
	}
}

// asTenant lets in users whom the policy lets in, in the issuer's own realm.
func (s *server) asTenant(r *http.Request, serve func(r *http.Request) (any, error)) (any, error) {
	if realm := r.PathValue("realm"); realm != "" && (s.SSO == nil || s.SSO().Realm != realm) {
		return nil, nothingAt(r)
	}
	who := access.From(r.Context())
	if who.User == "" {
		return nil, fault.New(fault.Denied, "an agent's token does not open this")
	}
	if s.Policy != nil {
		if err := s.Policy.Admit(who); err != nil {
			return nil, err
		}
	}
	return serve(r)
}

const (
	issuerPage    = 20
	issuerMaxPage = 100
)

// issuerList has no total: clients ask for one more than they show.
func (s *server) issuerList(r *http.Request) (any, error) {
	query, err := url.ParseQuery(r.URL.RawQuery)
	if err != nil {
		return nil, fault.New(fault.Invalid, "the query string is malformed").Because("list")
	}
	first, err := bounded(query, "first", 0, 0, ledger.MaxPage-issuerMaxPage)
	if err != nil {
		return nil, err
	}
	most, err := bounded(query, "max", issuerPage, 1, issuerMaxPage)
	if err != nil {
		return nil, err
	}
	var found []account.Account
	if wanted := query["clientId"]; len(wanted) > 0 {
		if len(wanted) > issuerMaxPage {
			return nil, fault.New(fault.Invalid, "more than %d clients are asked for", issuerMaxPage).Because("list")
		}
		for _, id := range wanted {
			some, _, err := s.Accounts.List(r.Context(), id, 1, 1)
			if err != nil {
				return nil, err
			}
			found = append(found, some...)
		}
	} else if found, _, err = s.Accounts.List(r.Context(), "", 1, first+most); err != nil {
		return nil, err
	}
	found = found[min(first, len(found)):]
	out := make([]issuerAccount, 0, most)
	for _, a := range found[:min(most, len(found))] {
		a.Secret = ""
		out = append(out, showIssuerAccount(a))
	}
	return out, nil
}

func bounded(query url.Values, name string, value, least, most int) (int, error) {
	text := query.Get(name)
	if text == "" {
		return value, nil
	}
	n, err := strconv.Atoi(text)
	if err != nil || n < least || n > most {
		return 0, fault.New(fault.Invalid, "%s must be a number between %d and %d", name, least, most).Because("list")
	}
	return n, nil
}
