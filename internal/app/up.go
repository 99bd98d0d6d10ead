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
	"time"

	"github.com/droverhq/drover/api/client"
	"github.com/droverhq/drover/internal/access"
	"github.com/droverhq/drover/internal/agent"
	"github.com/droverhq/drover/internal/cluster"
	"github.com/droverhq/drover/internal/fault"
	"github.com/droverhq/drover/internal/ledger"
	"github.com/droverhq/drover/internal/runtime/process"
)

// The data plane that `drover up` brings along.
const (
	localCluster = "local"
	agentTTL     = 365 * 24 * time.Hour
)

var localSpec = cluster.Spec{Provider: "local", Region: "local"}

// Up runs a control plane with a data plane of local processes until ctx ends.
// The instances go on without it, and the next Up finds them again.
func Up(ctx context.Context, c Config) error {
	s, err := New(ctx, c)
	if err != nil {
		return err
	}
	plane, err := s.dataPlane(ctx)
	if err != nil {
		s.Close()
		return err
	}
	s.routes = reachable(plane.listener.Addr())
	where := ""
	if s.cfg.DataDir != defaultDataDir {
		where = " --data-dir " + s.cfg.DataDir
	}
	fmt.Fprintf(s.cfg.Out, `drover %s serves %s (%s, data in %s)
  instances answer at http://<host>:%s
  try, in another terminal:
    %s create dinosaur rex --wait%s
Ctrl-C stops the control plane and the routes; the instances' processes go on and are found again by the next up.
`, c.Version, s.URL(), databaseName(s.cfg.Database), s.cfg.DataDir, port(plane.listener), os.Args[0], where)
	return s.Run(ctx, plane.Run)
}

// dataPlane is an agent with its runtime and the proxy in front of the instances.
type dataPlane struct {
	agent    *agent.Agent
	runtime  *process.Runtime
	listener net.Listener
	log      *slog.Logger
}

func (s *Server) dataPlane(ctx context.Context) (*dataPlane, error) {
	ctx = ledger.WithCause(ctx, ledger.BySchedule("start"))
	if _, err := s.clusters.Register(ctx, localCluster, localSpec); err != nil {
		return nil, err
	}
	token, _, err := s.issuer.Issue(ctx, access.Claims{Cluster: localCluster}, agentTTL)
	if err != nil {
		return nil, err
	}
	return newDataPlane(AgentSettings{
		Server: s.URL(), Token: token, Cluster: localCluster, DataDir: s.cfg.DataDir, Routes: s.cfg.Routes,
	}, s.log)
}

func newDataPlane(c AgentSettings, log *slog.Logger) (*dataPlane, error) {
	dir := filepath.Join(c.DataDir, "agent")
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return nil, fault.New(fault.Invalid, "cannot use the data directory: %w", err)
	}
	api, err := client.New(client.Config{Server: c.Server, Token: c.Token, UserAgent: "drover-agent"})
	if err != nil {
		return nil, fault.New(fault.Invalid, "%w", err)
	}
	listener, err := net.Listen("tcp", c.Routes)
	if err != nil {
		return nil, fault.New(fault.Unavailable, "cannot listen on %s: %w (use --routes for another address)", c.Routes, err)
	}
	runtime, err := process.Open(process.Config{Dir: filepath.Join(c.DataDir, "runtime"), Logger: log})
	if err != nil {
		listener.Close()
		return nil, err
	}
	a, err := agent.New(agent.Config{
		Client: api, Cluster: c.Cluster, Runtime: runtime, Dir: dir, Heartbeat: c.Heartbeat, Logger: log,
	})
	if err != nil {
		listener.Close()
		runtime.Close()
		return nil, err
	}
	return &dataPlane{agent: a, runtime: runtime, listener: listener, log: log}, nil
}

// Run runs the agent and the proxy until ctx ends; the instances go on.
func (p *dataPlane) Run(ctx context.Context) error {
	defer p.runtime.Close()
	web := &http.Server{Handler: p.runtime.Routes(), ReadHeaderTimeout: 10 * time.Second, IdleTimeout: 2 * time.Minute,
		ErrorLog: slog.NewLogLogger(p.log.Handler(), slog.LevelDebug)}
	failed := make(chan error, 1)
	go func() { // ends with web.Close
		if err := web.Serve(p.listener); !errors.Is(err, http.ErrServerClosed) {
			failed <- err
		}
	}()
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	ended := make(chan error, 1)
	go func() { ended <- p.agent.Run(ctx) }() // ends with ctx
	select {
	case err := <-failed:
		cancel()
		<-ended
		return err
	case err := <-ended:
		web.Close()
		return err
	}
}

// Agent runs an agent by itself until ctx ends.
func Agent(ctx context.Context, c AgentConfig) error {
	if c.Server == "" || c.Cluster == "" || c.Token == "" {
		return fault.New(fault.Invalid, "an agent needs --server, --cluster and --token (or --token-file); make a token with `drover token --cluster ID`")
	}
	orText(&c.DataDir, ".drover-agent")
	orText(&c.Routes, "127.0.0.1:8080")
	plane, err := newDataPlane(c.AgentSettings, newLogger(c.LogLevel, c.LogFormat))
	if err != nil {
		return err
	}
	if c.Out != nil {
		fmt.Fprintf(c.Out, "agent of cluster %s for %s; instances answer on port %s\n", c.Cluster, c.Server, port(plane.listener))
	}
	return plane.Run(ctx)
}

func port(l net.Listener) string {
	_, p, _ := net.SplitHostPort(l.Addr().String())
	return p
}
