package app

import (
	"context"
	"fmt"
	"os"
	"time"

	"github.com/droverhq/drover/internal/access"
	"github.com/droverhq/drover/internal/cluster"
	"github.com/droverhq/drover/internal/ledger"
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

func (s *Server) dataPlane(ctx context.Context) (*dataPlane, error) {
	ctx = ledger.WithCause(ctx, ledger.BySchedule("start"))
	if _, err := s.clusters.Register(ctx, localCluster, localSpec); err != nil {
		return nil, err
	}
	token, _, err := s.issuer.Issue(ctx, access.Claims{Cluster: localCluster}, agentTTL)
	if err != nil {
		return nil, err
	}
	plane, err := openDataPlane(AgentConfig{Version: s.cfg.Version, AgentSettings: AgentSettings{
		Server: s.URL(), Token: token, Cluster: localCluster, DataDir: s.cfg.DataDir, Routes: s.cfg.Routes, Runtime: "process",
	}}, newAgentCalls(s.log))
	if err == nil {
		plane.tracer = s.tracer
		if s.secured.within != nil {
			plane.config.Server, plane.web = "http://"+reachable(s.listener.Addr()), s.secured.within.client()
		}
	}
	return plane, err
}
