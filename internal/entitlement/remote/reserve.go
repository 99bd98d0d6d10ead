package remote

import (
	"context"
	"net/http"
	"net/url"
	"slices"

	"github.com/droverhq/drover/internal/entitlement"
	"github.com/droverhq/drover/internal/fault"
)

// authorization asks for units, and reserves them under the caller's id.
type authorization struct {
	User     string     `json:"account_username"`
	Cluster  string     `json:"cluster_id"`
	External string     `json:"external_cluster_id"`
	Product  string     `json:"product_id"`
	Name     string     `json:"display_name"`
	Managed  bool       `json:"managed"`
	BYOC     bool       `json:"byoc"`
	Reserve  bool       `json:"reserve"`
	Zone     string     `json:"availability_zone"`
	Units    []resource `json:"resources"`
}

type resource struct {
	Name    string `json:"resource_name"`
	Type    string `json:"resource_type"`
	Count   int64  `json:"count"`
	Billing string `json:"billing_model"`
	BYOC    bool   `json:"byoc"`
	Zone    string `json:"availability_zone_type"`
}

type subscription struct {
	ID     string `json:"id"`
	Status string `json:"status"`
}

// live reports whether a subscription still holds its units.
func (s subscription) live() bool {
	return s.ID != "" && s.Status != "Deprovisioned" && s.Status != "Archived"
}

// Reserve takes units. It looks first whether they were taken already: then the
// answer to an earlier request was lost. Models are tried in their order.
func (s *Source) Reserve(ctx context.Context, who entitlement.Who, p entitlement.Product, id string, units int64) (string, error) {
	if id == "" || units < 1 {
		return "", fault.New(fault.Internal, "a reservation needs an id and units")
	}
	found, err := s.reserved(ctx, id)
	if err != nil {
		return "", err
	}
	if len(found) > 0 {
		return found[0], nil
	}
	models := p.Models
	if len(models) == 0 {
		models = []string{p.Billing}
	}
	refused := error(fault.New(fault.Denied, "%s grants no %d more of type %.64q", s.cfg.Title, units, p.Type).Because("quota"))
	for _, model := range models {
		var answer struct {
			Allowed      *bool        `json:"allowed"`
			Subscription subscription `json:"subscription"`
		}
		err := s.ask(ctx, request{method: http.MethodPost, path: "/cluster_authorizations", once: true, body: authorization{
			User: who.User, Cluster: id, External: id, Product: p.Name, Name: id, Managed: true, Reserve: true, Zone: "single",
			Units: []resource{{Name: p.Resource, Type: "cluster.aws", Count: units, Billing: model, Zone: "single"}},
		}}, &answer)
		switch {
		case fault.Is(err, fault.Denied):
			refused = err
		case err != nil:
			return "", err
		case answer.Allowed == nil || *answer.Allowed && answer.Subscription.ID == "":
			return "", s.lies()
		case *answer.Allowed:
			return answer.Subscription.ID, nil
		}
	}
	return "", refused
}

// reserved returns the live subscriptions of an id of the caller's: more than
// one where a request had its effect after it was given up.
func (s *Source) reserved(ctx context.Context, id string) (live []string, err error) {
	var list struct {
		Items []subscription `json:"items"`
	}
	err = s.ask(ctx, request{method: http.MethodGet, path: "/subscriptions", query: url.Values{"search": {"external_cluster_id=" + quote(id)}}}, &list)
	for _, sub := range list.Items {
		if err == nil && sub.live() {
			live = append(live, sub.ID)
		}
	}
	return live, err
}

// Release gives a reservation back, and all that is there under its id: the
// ticket may have been lost, or not be the only one.
func (s *Source) Release(ctx context.Context, ticket, id string) error {
	var all []string
	if id != "" {
		var err error
		if all, err = s.reserved(ctx, id); err != nil {
			return err
		}
	}
	if ticket != "" && !slices.Contains(all, ticket) {
		all = append(all, ticket)
	}
	for _, t := range all {
		err := s.ask(ctx, request{method: http.MethodDelete, path: "/subscriptions/" + url.PathEscape(t)}, nil)
		if err != nil && !fault.Is(err, fault.NotFound) {
			return err
		}
	}
	return nil
}

// Required tells whether a user has yet to accept terms, and where: the same
// service keeps record of that. The name of the terms is the code of the event.
func (s *Source) Required(ctx context.Context, user, terms string) (required bool, where string, err error) {
	var answer struct {
		Required  *bool  `json:"terms_required"`
		Available bool   `json:"terms_available"`
		URL       string `json:"redirect_url"`
	}
	err = s.ask(ctx, request{
		method: http.MethodPost, root: authorizations, path: "/terms_review",
		body: map[string]string{"account_username": user, "event_code": terms, "site_code": "ocm"},
	}, &answer)
	if err != nil {
		return false, "", err
	}
	if answer.Required == nil {
		return false, "", s.lies()
	}
	if u, err := url.Parse(answer.URL); err != nil || u.Scheme != "https" && u.Scheme != "http" {
		answer.URL = ""
	}
	return *answer.Required, answer.URL, nil
}
