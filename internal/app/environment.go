package app

import (
	"context"
	"crypto/sha256"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"strings"

	"github.com/droverhq/drover/internal/breaker"
	"github.com/droverhq/drover/internal/connection"
	"github.com/droverhq/drover/internal/environment"
	"github.com/droverhq/drover/internal/executor"
	"github.com/droverhq/drover/internal/executor/action"
	"github.com/droverhq/drover/internal/fault"
	"github.com/droverhq/drover/internal/instance"
	"github.com/droverhq/drover/internal/source"
	"github.com/droverhq/drover/internal/template"
)

// environmentRooms puts templates and environments together.
func (s *Server) environmentRooms(guard *breaker.Service, instances *instance.Service) error {
	given := pairs(s.cfg.Executors)
	if err := given.check("executor-options", "action.allow", "terraform.binary", "terraform.config"); err != nil {
		return err
	}
	s.runner = action.NewRunner(action.Config{Cache: filepath.Join(s.cfg.DataDir, "programs"), Allow: strings.FieldsFunc(given["action.allow"], func(r rune) bool { return r == ':' })})
	if err := s.openConnections(); err != nil {
		return err
	}
	all := map[string]executor.Executor{}
	described := map[string]executor.Description{}
	for name, open := range executors {
		made, err := open(s, instances)
		if err != nil {
			return err
		}
		all[name], described[name] = made, made.Describe()
	}
	s.templates = template.NewService(template.Config{
		Store: s.ledger, Files: s.ledger, Executors: described,
		Source: source.Choose{Git: s.git}, // directories are sent along by whoever has them
	})
	s.environments = environment.NewService(environment.Config{
		Store: s.ledger, Keeper: s.ledger, Templates: environment.Drawings{Service: s.templates}, Executors: all,
		Connections: connections{s.connections, s.files}, Approvals: guard, Finder: s.ledger, Observer: s.calls,
		Runner: actions{s.runner},
	})
	if health, ok := all["consul"].(environment.Health); ok {
		s.environments.Health = health
	}
	s.templates.Users = s.environments
	guard.Waiters[environment.KindPlan.Name] = s.environments
	return nil
}

// connections are those of the server's files, and a directory of its own.
type connections struct {
	*connection.Book
	files string
}

func (c connections) Open(ctx context.Context, kind, name string, whose environment.Whose) (executor.Connection, error) {
	opened, err := c.Book.Open(ctx, kind, name, connection.Whose(whose))
	if err != nil || kind != "file" || opened["directory"] != c.files || whose.Operator {
		return opened, err
	}
	// Organisations have the server's own directory for themselves: a path must
	// not tell what others have, nor take it from them.
	own := filepath.Join(c.files, "of-"+fmt.Sprintf("%.12x", sha256.Sum256([]byte(whose.Org))))
	if err := os.MkdirAll(own, 0o700); err != nil {
		return nil, fault.New(fault.Unavailable, "cannot use the directory of files: %w", err)
	}
	return executor.Connection{"directory": own}, nil
}

// openConnections reads the server's files of connections. Files have a directory
// without any, beside everything else of the server's.
func (s *Server) openConnections() error {
	files := filepath.Join(s.cfg.DataDir, "files")
	whole, err := filepath.Abs(files)
	if err == nil {
		err = os.MkdirAll(whole, 0o700)
	}
	if err != nil {
		return fault.New(fault.Invalid, "cannot use the data directory: %w", err)
	}
	s.files = whole
	s.connections = connection.New(connection.Config{Paths: s.cfg.Connections, Log: s.log, Own: append([]connection.Connection{
		{Name: "default", Executor: "file", Options: map[string]string{"directory": whole}, For: connection.For{Orgs: []string{"*"}}},
	}, s.cfg.own...)})
	return s.connections.Load()
}

// instanceURL is where an instance's host is reached: on one machine behind the
// local data plane's address.
func (s *Server) instanceURL(host string) string {
	_, port, err := net.SplitHostPort(s.routes)
	switch {
	case err != nil || !strings.HasSuffix(host, ".localhost"):
		return "https://" + host
	case port == "80":
		return "http://" + host
	}
	return "http://" + net.JoinHostPort(host, port)
}
