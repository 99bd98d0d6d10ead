package httpapi

import (
	"cmp"
	"context"
	"fmt"
	"net/http"
	"strings"

	"github.com/danielgtaylor/huma/v2"

	v1 "github.com/droverhq/drover/api/v1"
	"github.com/droverhq/drover/internal/access"
	"github.com/droverhq/drover/internal/fault"
)

// Site is this one of two.
type Site interface {
	// Status is how it stands; it costs nothing.
	Status() v1.Site
	// Refuse says why no write is taken here at the moment; nil: it is.
	Refuse() error
	// Mark says in the header of an answer what it is worth.
	Mark(h http.Header)
	// Saw is told of an epoch that an agent has followed.
	Saw(epoch int64)
	// Promote is an operator's word that this site is to lead.
	Promote(ctx context.Context, word v1.PromoteSite) (v1.Site, error)
}

const promotePath = "/api/v1/site/promote"

func (o *own) routesSite() {
	if o.Site == nil {
		return
	}
	tags := []string{"operator"}
	huma.Register(o.api, huma.Operation{
		OperationID: "get-site", Method: http.MethodGet, Path: "/api/v1/site", Tags: tags,
		Summary:     "Which of two sites this is, and how it stands; operators only",
		Description: "A site that does not lead answers reads, each with the headers Drover-Role, Drover-Lag (seconds) and Drover-Primary, and refuses writes with 421 and the primary's address.",
	}, func(ctx context.Context, _ *struct{}) (*body[v1.Site], error) {
		if !access.From(ctx).Admin {
			return nil, fault.New(fault.Denied, "only an operator may see how the sites stand")
		}
		return &body[v1.Site]{o.Site.Status()}, nil
	})
	huma.Register(o.api, huma.Operation{
		OperationID: "promote-site", Method: http.MethodPost, Path: promotePath, Tags: tags, DefaultStatus: http.StatusOK,
		Summary:     "Have this site lead; operators only",
		Description: "Promotes its database and begins a new epoch. It is refused while the other site is heard to lead, and where there is a witness it needs its lease.",
	}, func(ctx context.Context, in *struct{ Body v1.PromoteSite }) (*body[v1.Site], error) {
		if !access.From(ctx).Admin {
			return nil, fault.New(fault.Denied, "only an operator may have a site promoted")
		}
		out, err := o.Site.Promote(ctx, in.Body)
		if err != nil {
			return nil, err
		}
		return &body[v1.Site]{out}, nil
	})
}

// reading are the calls that write nothing, whatever their method says.
var reading = map[string]bool{"/api/v1/ledger/verify": true, "/api/v1/placement/explain": true, promotePath: true}

// elsewhere refuses what this site does not do: another one leads.
func (s *server) elsewhere(r *http.Request) error {
	if s.Site == nil || !strings.HasPrefix(r.URL.Path, "/api/") && !strings.Contains(r.URL.Path, accountsPath) || reading[r.URL.Path] {
		return nil
	}
	switch r.Method {
	case http.MethodGet, http.MethodHead, http.MethodOptions:
		return nil
	}
	return s.Site.Refuse()
}

// saw hands on what an agent has followed; of a site that stands alone nobody asks.
func (s *server) saw(epoch int64) {
	if s.Site != nil {
		s.Site.Saw(epoch)
	}
}

// sites are where agents go when this server is gone.
func (s *server) sites() []string {
	if s.Site == nil {
		return nil
	}
	return s.Site.Status().Sites
}

// standing is what a probe is told of the site that answers. One that follows is there
// for reads; one that is fenced may hold what nobody else has seen.
func (s *server) standing() (status int, text string) {
	if s.Site == nil {
		return http.StatusOK, "ready\n"
	}
	at := s.Site.Status()
	switch {
	case at.State == "leading":
		return http.StatusOK, "ready\n"
	case at.State == "following" && at.Lag != nil:
		return http.StatusOK, fmt.Sprintf("ready: reads alone, %.3f s behind; write to %s\n", at.Lag.Seconds, cmp.Or(at.Primary, "the primary"))
	}
	return http.StatusServiceUnavailable, at.State + ": " + at.Why + "\n"
}
