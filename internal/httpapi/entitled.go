package httpapi

import (
	"math"
	"net/http"
	"strings"

	"github.com/droverhq/drover/internal/access"
	"github.com/droverhq/drover/internal/fault"
)

// Command lines of the fleet managers look before they order: who am I, what may
// my organisation have, must I accept terms first. They ask an account service
// for it; these are the three answers that they need, from what is known here.
const (
	accountGroup = "/api/accounts_mgmt/v1"
	reviewGroup  = "/api/authorizations/v1"
)

func (s *server) routesEntitled(mux *http.ServeMux) {
	mux.HandleFunc("GET "+accountGroup+"/current_account", s.currentAccount)
	mux.HandleFunc("GET "+accountGroup+"/organizations/{id}/quota_cost", s.quotaCost)
	mux.HandleFunc("POST "+reviewGroup+"/self_terms_review", s.termsReview)
}

// beside reports whether a path is one of the account service's.
func beside(path string) bool {
	return strings.HasPrefix(path, accountGroup+"/") || strings.HasPrefix(path, reviewGroup+"/")
}

// organisation is what stands for the caller's: whoever has none is alone in one.
func organisation(who access.Principal) string {
	if who.Org != "" {
		return who.Org
	}
	return who.User
}

func (s *server) currentAccount(w http.ResponseWriter, r *http.Request) {
	who := access.From(r.Context())
	if who.User == "" {
		s.fail(w, r, nothingAt(r))
		return
	}
	id := who.Account
	if id == "" {
		id = who.User
	}
	org := organisation(who)
	writeJSON(w, http.StatusOK, map[string]any{
		"id": id, "kind": "Account", "href": accountGroup + "/accounts/" + id, "username": who.User,
		"organization": map[string]any{"id": org, "kind": "Organization", "href": accountGroup + "/organizations/" + org, "external_id": org, "name": org},
	})
}

type relatedResource struct {
	Zones    string `json:"availability_zone_type"`
	Model    string `json:"billing_model"`
	BYOC     string `json:"byoc"`
	Provider string `json:"cloud_provider"`
	Cost     int64  `json:"cost"`
	Product  string `json:"product"`
	Name     string `json:"resource_name"`
	Type     string `json:"resource_type"`
}

type quotaCost struct {
	Kind         string            `json:"kind"`
	Href         string            `json:"href"`
	Organisation string            `json:"organization_id"`
	Quota        string            `json:"quota_id"`
	Allowed      int64             `json:"allowed"`
	Consumed     int64             `json:"consumed"`
	Related      []relatedResource `json:"related_resources"`
	// Accounts at marketplaces are not known here. Clients go through the list
	// without looking whether there is one.
	CloudAccounts []any `json:"cloud_accounts"`
}

// quotaCost lists what the caller's organisation may have, of every offering
// whose billing models have a name at an account service.
func (s *server) quotaCost(w http.ResponseWriter, r *http.Request) {
	who := access.From(r.Context())
	org := organisation(who)
	if who.User == "" || r.PathValue("id") != org {
		s.fail(w, r, nothingAt(r))
		return
	}
	items := []quotaCost{}
	for _, off := range s.Offerings.List() {
		allowances, err := s.Instances.Allowances(r.Context(), off)
		if err != nil {
			s.fail(w, r, err)
			return
		}
		for _, a := range allowances {
			if a.Model.Product == "" {
				continue
			}
			quota := strings.ToLower("cluster|rhinfra|" + a.Model.Product + "|" + a.Model.Name)
			item := quotaCost{
				Kind: "QuotaCost", Href: accountGroup + "/organizations/" + org + "/quota_cost", Organisation: org, Quota: quota,
				Allowed: a.Allowed, Consumed: a.Consumed, CloudAccounts: []any{},
			}
			if a.Allowed < 0 || a.Allowed > math.MaxInt32 {
				item.Allowed = math.MaxInt32
			}
			for _, model := range a.Model.Models {
				item.Related = append(item.Related, relatedResource{
					Zones: "any", Model: model, BYOC: "any", Provider: "any", Cost: 1,
					Product: a.Model.Product, Name: a.Model.Resource, Type: "cluster",
				})
			}
			items = append(items, item)
		}
	}
	writeJSON(w, http.StatusOK, map[string]any{"kind": "QuotaCostList", "page": 1, "size": len(items), "total": len(items), "items": items})
}

// termsReview tells whether any offering has terms that the caller has not
// accepted, and where they are read.
func (s *server) termsReview(w http.ResponseWriter, r *http.Request) {
	who := access.From(r.Context())
	if who.User == "" {
		s.fail(w, r, nothingAt(r))
		return
	}
	answer := map[string]any{
		"account_id": who.Account, "organization_id": organisation(who), "terms_available": false, "terms_required": false,
	}
	for _, off := range s.Offerings.List() {
		if s.Policy == nil || off.Spec.Terms == "" {
			continue
		}
		err := s.Policy.Accepted(r.Context(), who, off.Spec.Terms)
		switch {
		case fault.Reason(err) == "terms":
			answer["terms_available"], answer["terms_required"] = true, true
			answer["redirect_url"] = s.URL + "/api/v1/terms/" + off.Spec.Terms
		case err != nil:
			s.fail(w, r, err)
			return
		}
	}
	writeJSON(w, http.StatusOK, answer)
}
