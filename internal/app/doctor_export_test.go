package app

import (
	"context"
	"net/http"
	"net/http/httptest"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/droverhq/drover/internal/access"
	"github.com/droverhq/drover/internal/doctor"
	"github.com/droverhq/drover/internal/ledger"
	"github.com/droverhq/drover/internal/resilience"
	"github.com/droverhq/drover/internal/source"
)

// Store is the ledger of a server.
func (s *Server) Store() ledger.Ledger { return s.ledger }

// AskAsOperator has the API answer a GET.
func (s *Server) AskAsOperator(ctx context.Context, path string) (*httptest.ResponseRecorder, error) {
	token, _, err := s.issuer.Issue(ctx, access.Claims{User: "root", Admin: true}, time.Hour)
	if err != nil {
		return nil, err
	}
	r := httptest.NewRequestWithContext(ctx, http.MethodGet, path, nil)
	r.Header.Set("Authorization", "Bearer "+token)
	w := httptest.NewRecorder()
	s.handler.ServeHTTP(w, r)
	return w, nil
}

// Watcher remembers how calls out go.
type Watcher interface {
	resilience.Observer
	Calls() []doctor.Side
}

// NewWatcher makes one.
func NewWatcher(r prometheus.Registerer) Watcher { return newCallMetrics(r) }

// Repository reads Git as the server does.
type Repository interface {
	source.Source
	Probe(ctx context.Context, at source.Location, with source.Credential) (string, error)
}

// NewRepositories makes one.
func NewRepositories(o resilience.Observer) Repository { return newRepositories(o) }

// IssuerClient asks issuers for their keys.
func IssuerClient(o resilience.Observer) *http.Client { return issuerClient(o) }

// Theirs are those who are called that tenants name.
var Theirs = theirs

// FollowSubscriptions has a server know of subscriptions, until ctx ends.
func (s *Server) FollowSubscriptions(ctx context.Context) error { return s.subscriptions.Follow(ctx) }
