package app

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"strings"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/droverhq/drover/api/client/keypair"
	"github.com/droverhq/drover/internal/fault"
	"github.com/droverhq/drover/internal/reconcile"
	"github.com/droverhq/drover/internal/site"
	"github.com/droverhq/drover/internal/sqlledger"
)

// errAnother ends a life of the server whose site has become something else.
// What acts on its behalf is to stop at once: the other site may act soon.
var errAnother = fmt.Errorf("the site has another part now: %w", reconcile.ErrAtOnce)

// life is what a server is put together for.
type life int

const (
	unborn life = iota // there is no ledger to be read yet
	reads
	acts
)

func (k *keeper) life() (life, <-chan struct{}) {
	k.mu.Lock()
	defer k.mu.Unlock()
	switch {
	case k.decision.State == site.Leading:
		return acts, k.changed
	case k.view.Database.Known:
		return reads, k.changed
	}
	return unborn, k.changed
}

// until returns when the site has another life.
func (k *keeper) until(of life) func(context.Context) error {
	return func(ctx context.Context) error {
		for {
			now, changed := k.life()
			if now != of {
				return errAnother
			}
			select {
			case <-ctx.Done():
				return nil
			case <-changed:
			}
		}
	}
}

// serveSite runs one of two sites until ctx ends: one life of the server after the
// other, on the same address.
func serveSite(ctx context.Context, c Config) error {
	c.defaults()
	if err := errors.Join(c.plain(), c.plainSites()); err != nil {
		return err
	}
	k, err := newKeeper(ctx, c)
	if err != nil {
		return err
	}
	defer k.needs.close()
	defer k.probe.Close()
	if k.bus != nil {
		defer k.bus.Close()
	}
	first, err := listen(ctx, c.Listen, "--listen", lifeEnds)
	if err != nil {
		return err
	}
	c.Listen = first.Addr().String() // the port that it was given stays its own
	k.url = strings.TrimSuffix(c.PublicURL, "/")
	if k.url == "" {
		k.url = "http://" + reachable(first.Addr())
		if c.TLSCert != "" {
			k.url = "https://" + reachable(first.Addr())
		}
	}
	first.Close()
	fmt.Fprintf(c.Out, "drover %s is the %s site %s at %s (%s)\n", c.Version, k.view.Role, k.view.Site, k.url, databaseName(c.Database))
	// The lease is kept until the last life has ended: what drains still acts.
	keep, cancel := context.WithCancel(context.WithoutCancel(ctx))
	kept := make(chan struct{})
	go func() { // ends with keep
		defer close(kept)
		k.run(keep)
	}()
	defer func() {
		cancel()
		<-kept
	}()
	drained := make(chan struct{})
	stop := context.AfterFunc(ctx, func() { // ends within drainTime
		defer close(drained)
		k.drains(ctx)
	})
	defer func() {
		if !stop() {
			<-drained
		}
	}()
	for {
		err := k.live(ctx, c)
		if ctx.Err() != nil {
			return nil
		}
		if err != nil && !errors.Is(err, errAnother) {
			return err
		}
	}
}

// live is one life. What a database says that is not there yet, or is of another
// version for now, is waited for.
func (k *keeper) live(ctx context.Context, c Config) error {
	now, _ := k.life()
	if now == unborn {
		return k.lobby(ctx, c.Listen, k.until(unborn))
	}
	c.site, c.life = k, now
	s, err := New(ctx, c)
	if err != nil {
		reason := fault.Reason(err)
		if !fault.Is(err, fault.Unavailable) && !fault.Is(err, fault.Conflict) && reason != "no-ledger" && reason != "older-schema" {
			return err
		}
		k.log.Warn("the site cannot be put together yet; it is tried again", "error", err)
		return k.lobby(ctx, c.Listen, func(ctx context.Context) error {
			rested(ctx, time.Second)
			return errAnother
		})
	}
	k.attach(s)
	defer k.detach()
	return s.Run(ctx, k.until(now))
}

// attach has the keeper know the server of this life.
func (k *keeper) attach(s *Server) {
	var one sync.Mutex // a promotion asks, too
	var token string
	var until time.Time
	k.mu.Lock()
	defer k.mu.Unlock()
	k.ledger, k.acts, k.vouch = s.opened, s.cfg.life == acts, s.issuer
	k.token = func(ctx context.Context, own string) (string, error) {
		one.Lock()
		defer one.Unlock()
		if time.Now().Before(until) {
			return token, nil
		}
		fresh, expires, err := s.issuer.IssueErrand(ctx, errandSite, own, 10*time.Minute)
		if err == nil {
			token, until = fresh, expires.Add(-5*time.Minute)
		}
		return fresh, err
	}
}

func (k *keeper) detach() {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.ledger, k.token, k.acts, k.vouch = nil, nil, false, nil
}

// lobby answers while there is nothing to be served: that the process is there, that it
// is not ready, and how the site stands.
func (k *keeper) lobby(ctx context.Context, address string, stay func(context.Context) error) error {
	listener, err := listen(ctx, address, "--listen", lifeEnds)
	if err != nil {
		return err
	}
	mux := http.NewServeMux()
	mux.HandleFunc("GET /healthz", func(w http.ResponseWriter, _ *http.Request) { _, _ = w.Write([]byte("ok\n")) })
	mux.HandleFunc("GET "+sitePath, k.answer(nil))
	mux.HandleFunc("/", func(w http.ResponseWriter, r *http.Request) {
		at := k.Status()
		k.Mark(w.Header())
		w.Header().Set("Retry-After", "1")
		http.Error(w, at.State+": "+at.Why, http.StatusServiceUnavailable)
	})
	web := &http.Server{Handler: mux, ReadHeaderTimeout: 10 * time.Second}
	defer web.Close()
	serve := func() { _ = web.Serve(listener) }
	if c := k.cfg; c.TLSCert != "" {
		files, err := keypair.Open(keypair.Files{CA: c.TLSClientCA, Certificate: c.TLSCert, Key: c.TLSKey})
		if err != nil {
			return errors.Join(fault.New(fault.Invalid, "cannot serve https: %w", err), listener.Close())
		}
		web.TLSConfig = files.Listener()
		serve = func() { _ = web.ServeTLS(listener, "", "") }
	}
	go serve() // ends with Close
	return stay(ctx)
}

// plainSites refuses what the sites would say to each other, or to the witness,
// unencrypted.
func (c *Config) plainSites() error {
	for _, to := range []struct{ place, at, remedy string }{
		{PlaceServer, c.PrimaryURL, "https:// in --primary-url"},
		{PlaceServer, clusterURL(c.PrimaryCluster, ""), "https:// in --primary-cluster-name"},
		{PlaceServer, c.SecondaryURL, "https:// in --secondary-url"},
		{PlaceBus, plainBroker(c.SiteBusOptions), "amqps:// and ca=FILE in --site-bus-options"},
		{PlaceConsul, strings.TrimPrefix(c.Witness, "consul:"), "https:// in --witness"},
	} {
		if u, err := url.Parse(to.at); err == nil && u.Scheme == "http" {
			if err := CheckPlaintext(c.Plaintext, to.place, u.Hostname(), to.remedy); err != nil {
				return err
			}
		}
	}
	return nil
}

// plainBroker is the first broker that is spoken to unencrypted, as a URL of http.
func plainBroker(set []string) string {
	for _, at := range strings.Fields(pairs(set)["url"]) {
		if u, err := url.Parse(at); err == nil && u.Scheme == "amqp" && CheckPlaintext(nil, PlaceBus, u.Hostname(), "") != nil {
			return "http://" + u.Host
		}
	}
	return ""
}

// lifeEnds is how long the address of a life of this process that is about to end is waited
// for.
const lifeEnds = 5 * time.Second

// reads tells that this server is there for reads alone.
func (s *Server) reads() bool { return s.cfg.site != nil && s.cfg.life == reads }

// sited is the ledger as a site may use it.
func (s *Server) sited(l store) store {
	switch {
	case s.cfg.site == nil:
		return l
	case s.reads():
		return reader{l, s.cfg.site.Refuse}
	}
	return leased{l, s.cfg.site.leads}
}

// siteRoutes puts the question of the other site beside the API.
func (s *Server) siteRoutes(mux *http.ServeMux) {
	if s.cfg.site == nil {
		return
	}
	mux.HandleFunc("GET "+sitePath, s.cfg.site.answer(func(ctx context.Context, token, from string) error {
		return s.issuer.Errand(ctx, token, errandSite, from)
	}))
}

// following are the tasks of a server that is there for reads.
func (s *Server) following() []func(context.Context) error {
	return []func(context.Context) error{
		s.feed.Run, s.refreshAccess, s.earlyAccess, s.announce,
		func(ctx context.Context) error { return s.offering.Follow(ctx, s.feed) },
		func(ctx context.Context) error { return s.policy.Follow(ctx, s.feed) },
	}
}

// earlyAccess writes the admin's token as soon as there is a key to sign it with: the
// primary makes them.
func (s *Server) earlyAccess(ctx context.Context) error {
	for warned := false; ; warned = true {
		err := s.writeAccess(ctx)
		if err == nil || ctx.Err() != nil {
			return nil
		}
		if !warned {
			s.log.Warn("cannot make the admin's token yet; it is tried again", "error", err)
		}
		rested(ctx, time.Second)
	}
}

// register tells how the site stands.
func (k *keeper) register(registry prometheus.Registerer) {
	gauge := func(name, help string, value func() float64) prometheus.Collector {
		return prometheus.NewGaugeFunc(prometheus.GaugeOpts{Name: name, Help: help}, value)
	}
	registry.MustRegister(
		gauge("drover_site_leads", "1 where this site takes writes.", func() float64 {
			if k.leads() == nil {
				return 1
			}
			return 0
		}),
		gauge("drover_site_epoch", "Epoch of this site's ledger.", func() float64 { return float64(k.Status().Epoch) }),
		gauge("drover_site_lag_seconds", "How old what is read at this site may be, at most; 0 where it leads.", func() float64 {
			if lag := k.Status().Lag; lag != nil {
				return lag.Seconds
			}
			return 0
		}),
		gauge("drover_site_peer_heard", "1 where the other site answers.", func() float64 {
			if p := k.Status().Peer; p != nil && p.Heard != nil && p.Error == "" {
				return 1
			}
			return 0
		}),
	)
}

// openStore opens the ledger as the site needs it.
func (s *Server) openStore(ctx context.Context, c sqlledger.Config) (*sqlledger.Ledger, error) {
	c.ReadOnly = s.reads()
	if c.ReadOnly {
		s.cfg.Bus = inProcess // commands are the primary's
	}
	l, err := sqlledger.Open(ctx, c)
	if fault.Reason(err) == "wrong-key" {
		s.own.forgetKey()
	}
	s.opened = l
	return l, err
}
