// Package remote asks an account management service over HTTP what tenants are
// entitled to: quota cost per organisation, reservations as subscriptions.
//
// It owns the wire of that service and how long an answer holds. It must not
// know instances, nor who else grants anything.
package remote

import (
	"context"
	"encoding/json"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/droverhq/drover/internal/entitlement"
	"github.com/droverhq/drover/internal/fault"
	"github.com/droverhq/drover/internal/resilience"
)

// Config of a Source.
type Config struct {
	// URL of the service, without /api/accounts_mgmt.
	URL string
	// Title is what users read of; default "the entitlement service".
	Title string
	// TokenFile holds a bearer token that somebody renews; or
	TokenFile string
	// TokenURL gives one for ClientID and ClientSecret, or what is in SecretFile;
	// neither: no token is sent.
	TokenURL, ClientID, ClientSecret, SecretFile string

	Timeout time.Duration // of one request; default 5 s
	// Fresh is how long grants hold; default 1 min. Stale is how much longer
	// they do for what is there already, while the service is away; default 24 h.
	Fresh, Stale time.Duration
	HTTPClient   *http.Client        // default: one of its own
	Observer     resilience.Observer // nil: none
	Now          func() time.Time    // default: time.Now
	// Policy of calls; default: made of the above.
	Policy *resilience.Policy
}

// Source asks. It has no goroutines of its own.
type Source struct {
	cfg    Config
	base   string
	tokens *tokens
	policy *resilience.Policy

	mu     sync.Mutex
	grants map[question]answer
	orgs   map[string]string // ids there by those here
}

// question is what a grant depends on.
type question struct {
	org, resource, name, models string
}

type answer struct {
	grant entitlement.Grant
	at    time.Time
}

var _ entitlement.Source = (*Source)(nil)

// New checks the configuration; it does not connect. Faults: Invalid.
func New(c Config) (*Source, error) {
	u, err := url.Parse(c.URL)
	if err != nil || u.Host == "" || u.Scheme != "https" && u.Scheme != "http" || u.User != nil {
		return nil, fault.New(fault.Invalid, "the entitlement service is named by an http or https URL")
	}
	if c.TokenURL != "" {
		if t, err := url.Parse(c.TokenURL); err != nil || t.Host == "" || c.ClientID == "" || (c.ClientSecret == "") == (c.SecretFile == "") {
			return nil, fault.New(fault.Invalid, "tokens for the entitlement service need a URL, a client id and its secret")
		}
	}
	if c.Title == "" {
		c.Title = "the entitlement service"
	}
	if c.Timeout <= 0 {
		c.Timeout = 5 * time.Second
	}
	if c.Fresh <= 0 {
		c.Fresh = time.Minute
	}
	if c.Stale <= 0 {
		c.Stale = 24 * time.Hour
	}
	if c.Now == nil {
		c.Now = time.Now
	}
	if c.HTTPClient == nil {
		c.HTTPClient = &http.Client{
			Transport: http.DefaultTransport.(*http.Transport).Clone(),
			// A token must not travel to another host.
			CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
		}
	}
	if c.Policy == nil {
		c.Policy = resilience.New(resilience.Config{Name: c.Title, Timeout: c.Timeout, Observer: c.Observer})
	}
	return &Source{
		cfg: c, base: strings.TrimSuffix(c.URL, "/"), policy: c.Policy, tokens: &tokens{cfg: c, client: c.HTTPClient},
		grants: map[question]answer{}, orgs: map[string]string{},
	}, nil
}

// Name is what instances remember as their quota_type.
func (s *Source) Name() string { return "ams" }

// most bounds what is remembered.
const most = 10_000

// Grant tells what an organisation may have of a product. Whoever has none is
// asked for again at once.
func (s *Source) Grant(ctx context.Context, who entitlement.Who, p entitlement.Product) (entitlement.Grant, error) {
	if who.Org == "" || p.Resource == "" {
		return entitlement.Grant{}, nil
	}
	q := question{who.Org, p.Resource, p.Name, strings.Join(p.Models, " ")}
	s.mu.Lock()
	last, known := s.grants[q]
	s.mu.Unlock()
	age := s.cfg.Now().Sub(last.at)
	if known && last.grant.Units != 0 && age < s.cfg.Fresh {
		return last.grant, nil
	}
	units, said, err := s.quota(ctx, who.Org, p)
	if err != nil {
		// An old answer may keep something, and never takes anything away.
		if known && last.grant.Units != 0 && entitlement.IsChecking(ctx) && fault.Is(err, fault.Unavailable) && age < s.cfg.Fresh+s.cfg.Stale {
			return last.grant, nil
		}
		return entitlement.Grant{}, err
	}
	g := entitlement.Grant{Units: units}
	if said {
		g.Holder = "org/" + who.Org
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if len(s.grants) >= most {
		s.grants = map[question]answer{}
	}
	s.grants[q] = answer{g, s.cfg.Now()}
	return g, nil
}

// quotaCost is what an organisation may have of some resources.
type quotaCost struct {
	Allowed int64 `json:"allowed"`
	Related []struct {
		Resource string `json:"resource_name"`
		Product  string `json:"product"`
		Billing  string `json:"billing_model"`
		Cost     int64  `json:"cost"`
	} `json:"related_resources"`
}

// quota sums up the units of a product. A resource that costs nothing is free.
func (s *Source) quota(ctx context.Context, org string, p entitlement.Product) (units int64, said bool, err error) {
	id, err := s.organisation(ctx, org)
	if err != nil || id == "" {
		return 0, false, err
	}
	var list struct {
		Items []quotaCost `json:"items"`
	}
	err = s.ask(ctx, request{
		method: http.MethodGet, path: "/organizations/" + url.PathEscape(id) + "/quota_cost",
		query: url.Values{"fetchRelatedResources": {"true"}, "forceRecalc": {"true"}},
	}, &list)
	if fault.Is(err, fault.NotFound) { // it has another id by now, or none
		s.mu.Lock()
		delete(s.orgs, org)
		s.mu.Unlock()
	}
	if err != nil {
		return 0, false, err
	}
	for _, item := range list.Items {
		if item.Allowed < 0 {
			return 0, false, s.lies()
		}
		for _, r := range item.Related {
			if r.Resource != p.Resource || r.Product != p.Name || !slices.Contains(p.Models, r.Billing) {
				continue
			}
			if r.Cost < 0 {
				return 0, false, s.lies()
			}
			if r.Cost == 0 {
				return -1, true, nil
			}
			said = true
			units += item.Allowed / r.Cost
			break // the same quota pays for it under either model
		}
	}
	return units, said, nil
}

// organisation finds the id that the service has for an organisation; empty if
// it knows none.
func (s *Source) organisation(ctx context.Context, org string) (string, error) {
	s.mu.Lock()
	id, ok := s.orgs[org]
	s.mu.Unlock()
	if ok {
		return id, nil
	}
	var list struct {
		Items []struct {
			ID string `json:"id"`
		} `json:"items"`
	}
	err := s.ask(ctx, request{method: http.MethodGet, path: "/organizations", query: url.Values{"search": {"external_id=" + quote(org)}, "size": {"2"}}}, &list)
	if err != nil || len(list.Items) == 0 {
		return "", err
	}
	if id = list.Items[0].ID; id == "" || len(list.Items) > 1 {
		return "", s.lies()
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if len(s.orgs) >= most {
		s.orgs = map[string]string{}
	}
	s.orgs[org] = id
	return id, nil
}

// quote writes text into a search. The service takes two quotes for one.
func quote(s string) string { return "'" + strings.ReplaceAll(s, "'", "''") + "'" }

// lies is the fault of an answer that cannot be true. The source is then as good
// as away: nothing is granted or taken because of it.
func (s *Source) lies() error {
	return fault.New(fault.Unavailable, "%s gave an answer that cannot be understood; it is tried again by itself", s.cfg.Title).Because("quota-check")
}

func decodeAnswer(data []byte, into any) bool {
	return len(data) > 0 && data[0] == '{' && json.Unmarshal(data, into) == nil
}
