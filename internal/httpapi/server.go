package httpapi

import (
	"cmp"
	"context"
	"log/slog"
	"net/http"
	"net/netip"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promhttp"

	"github.com/droverhq/drover/internal/access"
	"github.com/droverhq/drover/internal/account"
	"github.com/droverhq/drover/internal/audit"
	"github.com/droverhq/drover/internal/cluster"
	"github.com/droverhq/drover/internal/environment"
	"github.com/droverhq/drover/internal/fault"
	"github.com/droverhq/drover/internal/gitops"
	"github.com/droverhq/drover/internal/instance"
	"github.com/droverhq/drover/internal/ledger"
	"github.com/droverhq/drover/internal/offering"
	"github.com/droverhq/drover/internal/policy"
	"github.com/droverhq/drover/internal/subscription"
	spans "github.com/droverhq/drover/internal/trace"
)

// Config is what the API is made of. Ledger, Offerings, Instances,
// Clusters and Authenticator are required.
type Config struct {
	Ledger    ledger.Ledger
	Feed      *ledger.Feed // for watches
	Offerings Offerings
	// OfferingWriter brings offerings into force; nil: they cannot be changed here.
	OfferingWriter OfferingWriter
	// PolicyWriter changes quotas, lists and terms; nil: they cannot be changed here.
	PolicyWriter PolicyWriter
	// Approvals decides about removals that wait; nil: nothing does.
	Approvals Approvals
	Instances *instance.Service
	Clusters  *cluster.Service
	// Environments and Templates; nil: this server has none.
	Environments *environment.Service
	Templates    Templates
	// Deployments; nil: this server has none.
	Deployments *gitops.Service
	// Subscriptions; nil: nobody is told of changes but by watching.
	Subscriptions *subscription.Service
	// Audit tells who did what, and proves it; nil: nothing does.
	Audit *audit.Service
	// Doctor says how the server is; nil: nobody does.
	Doctor Doctor
	// Site is this one of two; nil: it stands alone.
	Site Site
	// Proxies are the networks of proxies whose word counts for where a request came
	// from; none: it came from the peer.
	Proxies []netip.Prefix
	// Rejected is what was put aside of messages; nil: there is no bus.
	Rejected Rejected
	// NoBroker: the bus is within the process. Default: there is a broker.
	NoBroker bool
	// Policy says who may use the service at all; nil: everybody who has a token.
	Policy policy.Decisions
	// Users are the people of the server's own identity provider; nil: people
	// log in elsewhere.
	Users Users
	// Accounts are the service accounts of tenants; nil: there are none to be had.
	Accounts account.Verbs
	// SSO tells where tokens come from; nil: nowhere that users could be told.
	SSO func() SSO
	// URL where agents reach the server, as they are told.
	URL string
	// AgentImage is the container image of agents; default: droverhq/drover of
	// the server's version.
	AgentImage string
	// AgentTrace is the collector that agents are told to send their traces to; empty: none.
	AgentTrace string
	// AgentTLS is the Secret that agents find their certificates in, and AgentPlaintext
	// says that they may come without: see [cluster.InstallConfig].
	AgentTLS       string
	AgentPlaintext bool
	// Version of the server, as its APIs show it; empty: they do not.
	Version string
	// Tracer follows requests; nil: nobody does.
	Tracer *spans.Tracer
	// Authenticator turns a bearer token into a principal.
	Authenticator Authenticator
	// AgentCertificates says that an agent's token is good only together with a
	// certificate, see [access.Peer].
	AgentCertificates bool
	// Issuer signs tokens and publishes its keys; nil: there is no built-in issuer.
	Issuer *access.Issuer

	// Writable says why the ledger takes no writes at the moment, nil if it
	// does as far as is known; default: it does.
	Writable func() error

	Log     *slog.Logger         // default: slog.Default
	Metrics *prometheus.Registry // default: a registry of its own
	Clock   func() time.Time     // default: time.Now

	MaxBody int64         // bytes of a request's body; default 1 MiB
	Timeout time.Duration // of a request that is not a stream; default 30s
	// SlowReader is how long the client of a stream may take to accept a piece
	// of it before it is cut off; default 10s.
	SlowReader time.Duration
	// Heartbeat is how often a quiet stream says that it is alive, and how
	// often its token is looked at again; default 15s.
	Heartbeat time.Duration
	// Interval between two messages of an agent that has no news, and how long
	// its message is held; default 10s, at most 15s: who is silent for 30s is away.
	Interval time.Duration
	// Begin, when it closes, says that everything is there that the index of data
	// planes is made of; nil: it is when the first agent comes.
	Begin <-chan struct{}
	// Admissions is how many agents that are new here are let in per second;
	// default 400. The others are told when to come again.
	Admissions int
	// Ending, when it ends, ends the streams, which would go on for ever;
	// other requests are answered. Default: it never does.
	Ending   context.Context
	Behind   *Behind // what is written behind answers; default: one that nobody waits for
	InFlight int     // requests worked on at once, others wait; default 1024
	Rate     float64 // requests per second and principal; 0 = no limit
	Burst    int     // default: twice the rate
}

// SSO is where the identity provider is found.
type SSO struct {
	Name     string
	BaseURL  string
	Realm    string
	Issuer   string
	TokenURL string
	JWKSURL  string
}

// Authenticator says who holds a token. Faults: Denied for a bad token,
// Unavailable where its issuer cannot be asked.
type Authenticator interface {
	Authenticate(ctx context.Context, token string) (access.Principal, error)
}

// Offerings are the services that are sold, as they are at the moment.
type Offerings interface {
	Get(name string) (*offering.Offering, bool)
	ByGroup(group, version string) (*offering.Offering, bool)
	List() []*offering.Offering
}

type server struct {
	Config
	meters    *meters
	limits    *limits
	inflight  chan struct{}
	replays   chan struct{} // room for reads of the past
	verifying chan struct{} // room for verifications of the ledger
	streams   tally         // watches by caller
	served    served        // what outside agents were given
	rooms     rooms         // what is free where, for a moment
}

// New makes the handler of the whole API.
//
// Everything below /api/ and every path of service accounts needs a token before it reaches a handler, which finds
// the principal by access.From and the cause by ledger.CauseOf; errors go out
// through fail, and a handler that streams says so by streaming. Nothing but
// descriptions and probes may be registered outside of /api/.
func New(c Config) (http.Handler, error) {
	if c.Ledger == nil || c.Offerings == nil || c.Instances == nil || c.Clusters == nil || c.Authenticator == nil {
		return nil, fault.New(fault.Internal, "httpapi needs a ledger, offerings, instances, clusters and an authenticator")
	}
	c.defaults()
	s := &server{
		Config:    c,
		meters:    newMeters(c.Metrics),
		limits:    newLimits(c.Rate, c.Burst, c.Clock),
		inflight:  make(chan struct{}, c.InFlight),
		replays:   make(chan struct{}, replayReads),
		verifying: make(chan struct{}, 1),
	}
	mux := http.NewServeMux()
	mux.HandleFunc("GET /healthz", s.healthz)
	mux.HandleFunc("GET /readyz", s.readyz)
	mux.Handle("GET /metrics", promhttp.HandlerFor(c.Metrics, promhttp.HandlerOpts{}))
	if c.Issuer != nil {
		mux.HandleFunc("GET /.well-known/jwks.json", s.jwks)
	}
	s.routesAccount(mux)
	s.routesEntitled(mux)
	s.routesV1(mux)
	return s.middleware(mux), nil
}

func (c *Config) defaults() {
	if c.Log == nil {
		c.Log = slog.Default()
	}
	if c.Behind == nil {
		c.Behind = NewBehind()
	}
	if c.Metrics == nil {
		c.Metrics = prometheus.NewRegistry()
	}
	if c.Clock == nil {
		c.Clock = time.Now
	}
	if c.AgentImage == "" {
		c.AgentImage = "droverhq/drover:" + cmp.Or(c.Version, "latest")
	}
	if c.MaxBody <= 0 {
		c.MaxBody = 1 << 20
	}
	if c.Timeout <= 0 {
		c.Timeout = 30 * time.Second
	}
	if c.Heartbeat <= 0 {
		c.Heartbeat = 15 * time.Second
	}
	if c.SlowReader <= 0 {
		c.SlowReader = 10 * time.Second
	}
	if c.Interval <= 0 {
		c.Interval = 10 * time.Second
	}
	c.Interval = min(c.Interval, 15*time.Second)
	if c.Admissions <= 0 {
		c.Admissions = 400
	}
	if c.Ending == nil {
		c.Ending = context.Background()
	}
	if c.InFlight <= 0 {
		c.InFlight = 1024
	}
	if c.Burst <= 0 {
		c.Burst = max(1, int(2*c.Rate))
	}
}

// healthz says that the process answers, whatever it depends on.
func (s *server) healthz(w http.ResponseWriter, _ *http.Request) {
	writeText(w, http.StatusOK, "ok\n")
}

// readyz says that requests can be served: the ledger answers.
func (s *server) readyz(w http.ResponseWriter, r *http.Request) {
	ctx, cancel := context.WithTimeout(r.Context(), 5*time.Second)
	defer cancel()
	missing := ""
	_, err := s.Ledger.Head(ctx)
	switch {
	case err != nil:
		missing = "the ledger cannot be reached"
	case s.Writable != nil:
		if err = s.Writable(); err != nil {
			missing = "the ledger takes no writes"
		}
	}
	if err != nil {
		status, answer := s.problem(w, r, fault.New(fault.Unavailable, "not ready: %w", err))
		answer.Reason = missing + "; the server's log says why" // which must not be told to everybody
		writeJSON(w, status, answer)
		return
	}
	status, text := s.standing()
	writeText(w, status, text)
}

func (s *server) jwks(w http.ResponseWriter, r *http.Request) {
	keys, err := s.Issuer.JWKS(r.Context())
	if err != nil {
		s.fail(w, r, err)
		return
	}
	w.Header().Set("Cache-Control", "public, max-age=60")
	writeJSON(w, http.StatusOK, keys)
}
