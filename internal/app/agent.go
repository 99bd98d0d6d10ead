package app

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/droverhq/drover/api/client"
	"github.com/droverhq/drover/api/client/keypair"
	"github.com/droverhq/drover/internal/agent"
	"github.com/droverhq/drover/internal/fault"
	"github.com/droverhq/drover/internal/runtime"
	"github.com/droverhq/drover/internal/runtime/process"
	"github.com/droverhq/drover/internal/runtime/simulated"
	"github.com/droverhq/drover/internal/trace"
)

// dataPlane is a runtime with what comes along with it. Only runtime has no
// default.
type dataPlane struct {
	config   AgentConfig
	log      *slog.Logger
	runtime  runtime.Runtime
	store    agent.Store  // of the agent; default: files in the data directory
	listener net.Listener // where instances are reached; nil: elsewhere
	// around runs the agent's work, for instance while this replica has the
	// lease; it may do so more than once. Default: the work and nothing else.
	around func(ctx context.Context, work func(context.Context) error) error
	close  func() error // default: nothing
	health health
	tracer *trace.Tracer // nil: nothing is followed
	web    *http.Client  // to the server; default: over the network, with the files of the settings
	calls  agentCalls    // that the runtime makes
}

// openDataPlane opens the runtime that the settings name.
func openDataPlane(c AgentConfig, calls agentCalls) (*dataPlane, error) {
	open, ok := runtimes[c.Runtime]
	if !ok {
		return nil, fault.New(fault.Invalid, "there is no runtime %q: use %s", c.Runtime, strings.Join(runtimeNames(), ", "))
	}
	if err := os.MkdirAll(c.DataDir, 0o700); err != nil {
		return nil, fault.New(fault.Invalid, "cannot use the data directory: %w", err)
	}
	plane, err := open(c.AgentSettings, calls)
	if err != nil {
		return nil, err
	}
	plane.config, plane.log, plane.calls = c, calls.log, calls
	plane.health.metrics = calls.metrics()
	if plane.store == nil {
		plane.store = agent.Dir(filepath.Join(c.DataDir, "agent"))
	}
	return plane, nil
}

func runtimeNames() []string {
	var names []string
	for name := range runtimes {
		names = append(names, name)
	}
	slices.Sort(names)
	return names
}

// Run runs the agent until ctx ends; the instances go on.
func (p *dataPlane) Run(ctx context.Context) error {
	if p.close != nil {
		defer p.close()
	}
	end, err := p.health.serve(ctx, p.config.Health, p.log)
	if err != nil {
		return err
	}
	defer end()
	if p.around == nil {
		return p.work(ctx)
	}
	return p.around(ctx, p.work)
}

// work is one life of the agent. What it keeps is read when it begins: another
// replica may have worked before.
func (p *dataPlane) work(ctx context.Context) error {
	c := p.config
	tokens, err := agent.NewTokens(p.store, c.Token)
	if err != nil {
		return err
	}
	web := p.web
	if web == nil {
		if web, err = c.web(2, nil); err != nil {
			return err
		}
	}
	sites, err := agent.NewSites(p.store, c.Server, func(server string) (agent.Client, error) {
		at := c // the same rule as for the one that it was started with
		if at.Server = server; server != c.Server && at.plain() != nil {
			return nil, at.plain()
		}
		return client.New(client.Config{Server: server, Bearer: tokens.Bearer, UserAgent: "drover-agent/" + c.Version, HTTPClient: web, Plaintext: true})
	}, p.log)
	if err != nil {
		return fault.New(fault.Invalid, "%w", err)
	}
	a, err := agent.New(agent.Config{
		Client: sites, Cluster: c.Cluster, Runtime: p.runtime, Store: p.store, Tokens: tokens,
		Version: c.Version, Heartbeat: c.Heartbeat, Logger: p.log, Tracer: p.tracer, Resting: p.calls.Resting,
	})
	if err != nil {
		return err
	}
	p.health.set(a.Ready)
	defer p.health.set(nil)
	return a.Run(ctx)
}

// web connects to the server with the files of the settings, which are read anew
// when they change: an agent lives for months. Change is done to the transport first.
func (c AgentConfig) web(connections int, change func(*http.Transport)) (*http.Client, error) {
	web := patient(connections)
	wires := web.Transport.(*http.Transport)
	if c.names != nil {
		wires.DialContext = c.names.DialContext
	}
	if change != nil {
		change(wires)
	}
	files := keypair.Files{CA: c.CA, Certificate: c.ClientCert, Key: c.ClientKey, Name: c.ServerName}
	if files == (keypair.Files{}) {
		return web, nil
	}
	r, err := keypair.Open(files)
	if err != nil {
		return nil, fault.New(fault.Invalid, "cannot connect with --ca-file, --client-certificate-file and --client-key-file: %w", err)
	}
	web.Transport = r.Transport(wires)
	return web, nil
}

// patient is an HTTP client for answers that are held back: how long to wait is
// up to each request. A connection that is dead is found out by pings where
// requests share it, and by the requests' deadlines elsewhere.
func patient(connections int) *http.Client {
	return &http.Client{
		Transport: &http.Transport{
			Proxy:               http.ProxyFromEnvironment,
			DialContext:         (&net.Dialer{Timeout: 10 * time.Second, KeepAlive: 15 * time.Second}).DialContext,
			TLSHandshakeTimeout: 10 * time.Second,
			ForceAttemptHTTP2:   true,
			HTTP2:               &http.HTTP2Config{SendPingTimeout: 15 * time.Second, PingTimeout: 10 * time.Second},
			MaxIdleConnsPerHost: connections,
			IdleConnTimeout:     time.Minute,
		},
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
	}
}

// processPlane runs instances as child processes behind a proxy.
func processPlane(c AgentSettings, calls agentCalls) (*dataPlane, error) {
	log := calls.log
	if err := pairs(c.RuntimeOptions).check("runtime-options"); err != nil {
		return nil, err
	}
	orText(&c.Routes, "127.0.0.1:8080")
	listener, err := listen(context.Background(), c.Routes, "--routes", handover)
	if err != nil {
		return nil, err
	}
	rt, err := process.Open(process.Config{Dir: filepath.Join(c.DataDir, "runtime"), Capacity: c.Capacity, Logger: log})
	if err != nil {
		listener.Close()
		return nil, err
	}
	around := func(ctx context.Context, work func(context.Context) error) error {
		web := &http.Server{Handler: rt.Routes(), ReadHeaderTimeout: 10 * time.Second, IdleTimeout: 2 * time.Minute,
			ErrorLog: slog.NewLogLogger(log.Handler(), slog.LevelDebug)}
		defer web.Close()
		ctx, cancel := context.WithCancelCause(ctx)
		defer cancel(nil)
		go func() { // ends with web.Close
			if err := web.Serve(listener); !errors.Is(err, http.ErrServerClosed) {
				cancel(fmt.Errorf("the proxy of the instances ended: %w", err))
			}
		}()
		if err := work(ctx); err != nil || errors.Is(context.Cause(ctx), context.Canceled) {
			return err
		}
		return context.Cause(ctx)
	}
	return &dataPlane{runtime: rt, listener: listener, around: around, close: rt.Close}, nil
}

// simulatedPlane is a data plane of nothing.
func simulatedPlane(c AgentSettings, _ agentCalls) (*dataPlane, error) {
	if err := pairs(c.RuntimeOptions).check("runtime-options"); err != nil {
		return nil, err
	}
	return &dataPlane{runtime: simulated.New(pretend(c, c.Cluster)), store: agent.Dir(filepath.Join(c.DataDir, "agent"))}, nil
}

// Agent runs an agent by itself until ctx ends, or a simulated fleet of them.
func Agent(ctx context.Context, c AgentConfig) error {
	orText(&c.DataDir, ".drover-agent")
	orText(&c.Runtime, "process")
	if err := c.plain(); err != nil {
		return err
	}
	log := newLogger(c.LogLevel, c.LogFormat)
	calls := newAgentCalls(log)
	var err error
	if c.names, err = openNames(c.Consul, c.ConsulOptions, c.Plaintext, calls); err != nil {
		return err
	}
	c.Server = c.names.url(c.Server)
	traced, err := openTracing(ctx, c.TraceEndpoint, "drover-agent", c.Version, c.TraceSample, log, calls)
	if err != nil {
		return err
	}
	defer traced.flush()
	if c.Clusters > 0 {
		return simulateFleet(ctx, c, traced.tracer)
	}
	if c.Server == "" || c.Cluster == "" || c.Token == "" {
		return fault.New(fault.Invalid, "an agent needs --server, --cluster and --token (or --token-file); make a token with `drover token --cluster ID`")
	}
	plane, err := openDataPlane(c, calls)
	if err != nil {
		return err
	}
	plane.tracer = traced.tracer
	if c.Out != nil {
		where := ""
		if plane.listener != nil {
			where = "; instances answer on port " + port(plane.listener)
		}
		fmt.Fprintf(c.Out, "agent of cluster %s for %s (%s)%s\n", c.Cluster, c.Server, c.Runtime, where)
	}
	return plane.Run(ctx)
}

func port(l net.Listener) string {
	_, p, _ := net.SplitHostPort(l.Addr().String())
	return p
}
