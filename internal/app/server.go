package app

import (
	"context"
	"errors"
	"log/slog"
	"maps"
	"net"
	"net/http"
	"os"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"
	"golang.org/x/sync/errgroup"

	"github.com/droverhq/drover/api/client"
	"github.com/droverhq/drover/internal/access"
	"github.com/droverhq/drover/internal/account"
	"github.com/droverhq/drover/internal/audit"
	"github.com/droverhq/drover/internal/breaker"
	"github.com/droverhq/drover/internal/bus"
	"github.com/droverhq/drover/internal/cluster"
	"github.com/droverhq/drover/internal/command"
	"github.com/droverhq/drover/internal/connection"
	"github.com/droverhq/drover/internal/environment"
	"github.com/droverhq/drover/internal/executor/action"
	"github.com/droverhq/drover/internal/fault"
	"github.com/droverhq/drover/internal/gitops"
	"github.com/droverhq/drover/internal/hook"
	"github.com/droverhq/drover/internal/httpapi"
	"github.com/droverhq/drover/internal/instance"
	"github.com/droverhq/drover/internal/kubeapi"
	"github.com/droverhq/drover/internal/ledger"
	"github.com/droverhq/drover/internal/offering"
	"github.com/droverhq/drover/internal/policy"
	"github.com/droverhq/drover/internal/reconcile"
	"github.com/droverhq/drover/internal/sqlledger"
	"github.com/droverhq/drover/internal/subscription"
	"github.com/droverhq/drover/internal/template"
	"github.com/droverhq/drover/offerings"
)

// store is the ledger, which whoever opened it closes.
type store interface {
	ledger.Ledger
	Close() error
}

// Server is a control plane that has been put together and not started yet.
type Server struct {
	cfg           Config
	log           *slog.Logger
	listener      net.Listener
	ledger        store
	opened        *sqlledger.Ledger // which is behind it
	feed          *ledger.Feed
	issuer        *access.Issuer
	offering      *offering.Service
	clusters      *cluster.Service
	policy        *policy.Service
	audit         *audit.Service
	behind        *httpapi.Behind
	users         *access.Users
	runner        *action.Runner
	connections   *connection.Book
	files         string // the directory of files that needs no connection
	templates     *template.Service
	environments  *environment.Service
	deployments   *gitops.Service
	home          *kubeapi.Home // nil: no custom resources are followed
	controllers   *kubeapi.Controllers
	outside       outside
	bus           bus.Bus
	commands      *command.Service
	subscriptions *subscription.Service
	told          *messageMetrics
	keys          messageKeys
	calls         *callMetrics
	git           *repositories
	metrics       *prometheus.Registry
	loop          *reconcile.Loop
	handler       http.Handler
	ending        context.Context // of streams: they would keep the end waiting
	end           context.CancelFunc
	begin         chan struct{} // closed when Run begins
	routes        string        // up: where instances are reached, for the command line

	tracing
	secured secured
	own     *own // what the server itself needs; nil before it was read
}

// New opens the ledger and puts everything together. Whatever can be wrong with
// the configuration is found here.
func New(ctx context.Context, c Config) (*Server, error) {
	c.defaults()
	if err := c.plain(); err != nil {
		return nil, err
	}
	s := &Server{cfg: c, log: newLogger(c.LogLevel, c.LogFormat), begin: make(chan struct{}), behind: httpapi.NewBehind()}
	if err := os.MkdirAll(c.DataDir, 0o700); err != nil {
		return nil, fault.New(fault.Invalid, "cannot use the data directory: %w", err)
	}
	if c.OfferingsDir != "" {
		if _, err := os.ReadDir(c.OfferingsDir); err != nil {
			return nil, fault.New(fault.Invalid, "cannot read the directory of offerings: %w", err)
		}
	}
	if err := s.secure(); err != nil {
		return nil, err
	}
	listener, err := listen(ctx, c.Listen, "--listen", handover)
	if err != nil {
		s.Close()
		return nil, err
	}
	s.listener = listener
	s.metrics = prometheus.NewRegistry()
	s.calls = newCallMetrics(s.metrics)
	if s.tracing, err = openTracing(ctx, c.TraceEndpoint, "drover", c.Version, c.TraceSample, s.log, s.calls); err == nil {
		err = s.open(ctx)
	}
	if err != nil {
		s.Close()
		return nil, err
	}
	return s, nil
}

func (s *Server) open(ctx context.Context) error {
	registry := s.metrics
	registry.MustRegister(collectors.NewGoCollector(), collectors.NewProcessCollector(collectors.ProcessCollectorOpts{}))
	s.git = newRepositories(s.calls)
	commits := newLedgerMetrics(registry, s.log, s.cfg.Observer)
	var err error
	if s.own, err = s.owned(); err != nil {
		return err
	}
	_, missing := os.Stat(s.cfg.MasterKeyFile)
	at, err := s.own.database()
	if err != nil {
		return err
	}
	if at.Key, err = s.own.masterKey(ctx); err != nil {
		return err
	}
	if s.keys, err = newMessageKeys(at.Key); err != nil {
		return err
	}
	at.Kinds, at.Epoch, at.Observer = Kinds(), s.cfg.Epoch, commits
	opened, err := s.openStore(ctx, at)
	if fault.Reason(err) == "wrong-key" && s.cfg.MasterKey == "" && os.IsNotExist(missing) {
		os.Remove(s.cfg.MasterKeyFile) // the one just made must not be taken for the right one
		return fault.New(fault.Invalid, "%s is missing, and the ledger was made with it: copy it from the first replica or a backup", s.cfg.MasterKeyFile)
	}
	if err != nil {
		return err
	}
	if s.ledger, err = steady(opened, s.begin); err != nil {
		return err
	}
	s.ledger = recorded(insist(s.sited(s.ledger), s.calls))
	s.feed = ledger.NewFeed(s.ledger)
	s.users = access.NewUsers(s.ledger)
	s.policy = policy.NewService(policy.Config{Store: s.ledger, Log: s.log})
	s.clusters = cluster.NewService(s.ledger)
	s.offering = offering.NewService(offering.Config{Store: s.ledger, Log: s.log})
	if err := s.connect(ctx); err != nil {
		return err
	}
	if err := s.auditRoom(); err != nil {
		return err
	}
	proxies, err := s.cfg.proxies()
	if err != nil {
		return err
	}
	sold := s.offering.Registry()
	limit, err := breaker.ParseLimit(s.cfg.Breaker)
	if err != nil {
		return err
	}
	guard := breaker.NewService(breaker.Config{Store: s.ledger, Limit: limit})
	if limit.Percent >= 100 {
		s.log.Warn("rules may remove everything at once without an approval", "breaker", limit.String())
	}
	accounts := account.NewService(account.Config{Store: s.ledger, Provider: s.outside.sso})
	kept := instance.Config{
		Store: s.ledger, Keeper: s.ledger, Offerings: sold, Clusters: s.clusters, Hooks: hook.New(s.calls),
		Quota: s.outside.quota, Policy: s.policy, SSO: s.outside.sso, DNS: s.outside.dns,
		Certificates: s.outside.certificates, Metrics: s.outside.metrics, Breaker: guard,
	}
	instances := instance.NewService(kept)
	s.offering.Instances, s.clusters.Tenants, s.clusters.Accounts = instances, instances, accounts // the rooms know each other only here
	s.clusters.Logins, s.clusters.Keeper, s.clusters.Offerings, s.clusters.Hosted = accounts, s.ledger, sold, hosted{s.ledger}
	s.clusters.Deployed = deployed{s.ledger}
	s.clusters.Left, s.clusters.Guard = left, guard
	guard.Waiters = map[string]breaker.Waiters{instance.Kind.Name: instances, cluster.StepKind: s.clusters}
	if err := s.deploymentRooms(); err != nil {
		return err
	}
	if err := s.environmentRooms(guard, instances); err != nil {
		return err
	}
	s.clusters.Terraformer, s.clusters.Around = newTerraformer(s.calls), s.around
	s.clusters.Installs = &cluster.Installs{Server: s.publicURL(), Image: s.cfg.AgentImage, Trace: elsewhere(s.cfg.TraceEndpoint), Token: s.firstToken, TLSSecret: s.cfg.AgentTLS, Plaintext: client.Exposed(s.publicURL())}
	if s.clusters.Makers, err = s.clusterMakers(); err != nil {
		return err
	}
	authenticator, err := s.authenticator()
	if err != nil {
		return err
	}
	s.told = newMessageMetrics(registry)
	if err := s.messageRooms(authenticator, kept.Hooks.(*hook.Caller)); err != nil {
		return err
	}
	newStateMetrics(registry, s.ledger, s.bus.Aside())
	reconcilers := map[string]reconcile.Reconciler{
		subscription.Kind.Name: s.telling(s.subscriptions), command.Kind.Name: s.commands,
		instance.Kind.Name: instance.NewReconciler(kept), cluster.Kind.Name: s.clusters, account.Kind.Name: accounts,
		breaker.KindApproval.Name: &breaker.Reconciler{Service: guard}, audit.Kind.Name: s.audit,
	}
	scaling := &cluster.ScaleReconciler{
		Clusters: s.clusters, Sold: sold, Demand: instances, Fleet: cluster.Scaled{Service: s.clusters}, Guard: guard,
	}
	reconcilers[cluster.KindProfile.Name], guard.Waiters[cluster.Kind.Name] = scaling, scaling
	for _, kind := range []string{policy.KindQuota.Name, policy.KindDenyList.Name, policy.KindAccessList.Name, policy.KindTerms.Name} {
		reconcilers[kind] = &policy.Reconciler{Store: s.ledger, Tenants: instances, Deployers: s.deployments}
	}
	maps.Copy(reconcilers, s.environments.Reconcilers())
	maps.Copy(reconcilers, s.deployments.Reconcilers())
	runs := newLoopMetrics(registry, s.ledger)
	s.loop = reconcile.New(reconcile.Config{
		Ledger:  outcomes{fleetLedger{s.ledger, newFleetMetrics(registry, s.ledger)}, s.log},
		Workers: s.cfg.Workers, Lease: s.cfg.Lease, Logger: s.log, Tracer: s.tracer, Request: (&requests{log: s.ledger}).of,
		Observer: runs, Reconcilers: reconcilers,
	})
	var people httpapi.Users // of the server's own identity provider alone
	if s.outside.login != nil {
		people = s.users
	}
	s.ending, s.end = context.WithCancel(context.Background())
	apiConfig := httpapi.Config{
		Ending: s.ending, Begin: s.begin, Behind: s.behind,
		Ledger: s.ledger, Feed: s.feed, Offerings: sold, OfferingWriter: s.offering, PolicyWriter: s.policy, Approvals: guard, Audit: s.audit, Proxies: proxies,
		Instances: instances, Clusters: s.clusters, Environments: s.environments, Templates: s.templates, Deployments: s.deployments, Subscriptions: s.subscriptions, Rejected: putAside{s.bus.Aside()}, NoBroker: s.cfg.Bus == inProcess, Policy: s.policy, Accounts: accounts, Users: people,
		SSO: func() httpapi.SSO { return httpapi.SSO(accounts.Endpoints()) }, URL: s.publicURL(), Version: s.cfg.Version, AgentImage: s.cfg.AgentImage, AgentTrace: elsewhere(s.cfg.TraceEndpoint), AgentTLS: s.cfg.AgentTLS, AgentPlaintext: client.Exposed(s.publicURL()),
		Authenticator: authenticator, Issuer: s.issuer, Writable: commits.writable, Tracer: s.tracer, AgentCertificates: s.cfg.TLSClientCA != "",
		Doctor: &examiner{Server: s, store: opened, commits: commits, runs: runs},
		Log:    s.log, Metrics: registry, Rate: s.cfg.RateLimit,
	}
	if s.cfg.site != nil {
		apiConfig.Site = s.cfg.site
		s.cfg.site.register(registry)
	}
	api, err := httpapi.New(apiConfig)
	if err != nil {
		return err
	}
	s.handler = s.known(s.mount(api, authenticator))
	s.commands.API = api
	ctx = ledger.WithCause(ctx, ledger.BySchedule("start"))
	if err := errors.Join(s.offering.Load(ctx), s.policy.Load(ctx)); err != nil {
		return err
	}
	if s.reads() {
		return nil
	}
	return s.offering.Seed(ctx, offerings.FS)
}

// Close gives back what New has opened. Run does it by itself.
func (s *Server) Close() {
	if s.listener != nil {
		s.listener.Close()
	}
	if s.secured.states != nil {
		s.secured.states.Close()
	}
	if s.end != nil {
		s.end()
	}
	if s.bus != nil {
		s.bus.Close()
	}
	if s.ledger != nil {
		s.ledger.Close()
	}
	if s.cfg.site == nil { // else it is the site's, over all lives
		s.own.close()
	}
	s.flush()
}

const shutdown = 10 * time.Second

// Run serves until ctx ends or something fails for good, then hands work back
// and closes the ledger. It starts a handful of goroutines, which end with it:
// the HTTP server, the loop, the feed, the followers of offerings, and what the
// caller adds.
func (s *Server) Run(ctx context.Context, more ...func(ctx context.Context) error) error {
	defer s.Close()
	if !s.reads() {
		if err := s.writeAccess(ctx); err != nil {
			return err
		}
	}
	group, ctx := errgroup.WithContext(ctx)
	close(s.begin)
	web := &http.Server{
		Handler:           s.handler,
		ReadHeaderTimeout: 10 * time.Second,
		IdleTimeout:       2 * time.Minute,
		MaxHeaderBytes:    64 << 10,
		ConnContext:       mark,
		ErrorLog:          slog.NewLogLogger(s.log.Handler(), slog.LevelDebug),
	}
	for _, serve := range s.serve(web) {
		group.Go(func() error {
			if err := serve(); !errors.Is(err, http.ErrServerClosed) {
				return err
			}
			return nil
		})
	}
	group.Go(func() error {
		<-ctx.Done()
		s.end() // watches and agents' streams would keep Shutdown waiting; requests are answered
		bounded, cancel := context.WithTimeout(context.WithoutCancel(ctx), shutdown)
		defer cancel()
		return errors.Join(web.Shutdown(bounded), s.behind.Wait(bounded))
	})
	tasks := s.tasks()
	for _, run := range append(tasks, more...) {
		group.Go(func() error { return run(ctx) })
	}
	err := group.Wait()
	if errors.Is(err, context.Canceled) {
		return nil
	}
	return err
}

// tasks are what a server does besides answering.
func (s *Server) tasks() []func(context.Context) error {
	if s.reads() {
		return s.following()
	}
	tasks := []func(context.Context) error{
		s.loop.Run, s.feed.Run, s.refreshAccess, s.retain, s.mind, s.announce,
		func(ctx context.Context) error { return s.offering.Follow(ctx, s.feed) },
		func(ctx context.Context) error { return s.policy.Follow(ctx, s.feed) },
		func(ctx context.Context) error { return s.audit.Follow(ctx, s.feed) },
		func(ctx context.Context) error { return s.clusters.Follow(ctx, s.feed) },
		func(ctx context.Context) error { return s.clusters.Live(ctx, s.feed) },
		func(ctx context.Context) error { return s.environments.Watch(ctx, s.feed) },
		s.environments.Probe,
		func(ctx context.Context) error { return s.deployments.Follow(ctx, s.feed, s.ledger) },
	}
	tasks = append(tasks, s.converse()...)
	if s.controllers != nil {
		tasks = append(tasks, s.controllers.Run)
	}
	if s.outside.login != nil {
		tasks = append(tasks, s.outside.login.Run)
	}
	if files := s.cfg.PolicyFiles; len(files) > 0 {
		tasks = append(tasks, func(ctx context.Context) error { return s.policy.WatchFiles(ctx, files) })
	}
	if len(s.cfg.Connections) > 0 {
		tasks = append(tasks, s.connections.Watch)
	}
	if dir := s.cfg.OfferingsDir; dir != "" {
		tasks = append(tasks, func(ctx context.Context) error { return s.offering.WatchDir(ctx, dir) })
	}
	return tasks
}
