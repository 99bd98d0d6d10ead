package app

import (
	"context"
	"path/filepath"
	"strings"

	"github.com/droverhq/drover/internal/breaker"
	"github.com/droverhq/drover/internal/environment"
	"github.com/droverhq/drover/internal/executor"
	"github.com/droverhq/drover/internal/executor/action"
	"github.com/droverhq/drover/internal/fault"
	"github.com/droverhq/drover/internal/instance"
	"github.com/droverhq/drover/internal/source"
	"github.com/droverhq/drover/internal/source/git"
	"github.com/droverhq/drover/internal/template"
)

// environmentRooms puts templates and environments together.
func (s *Server) environmentRooms(guard *breaker.Service, instances *instance.Service) error {
	given := pairs(s.cfg.Executors)
	if err := given.check("executor-options", "action.allow", "terraform.binary", "terraform.config"); err != nil {
		return err
	}
	s.runner = action.NewRunner(action.Config{Cache: filepath.Join(s.cfg.DataDir, "programs"), Allow: strings.FieldsFunc(given["action.allow"], func(r rune) bool { return r == ':' })})
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
		Source: source.Choose{Git: git.Source{}}, // directories are sent along by whoever has them
	})
	s.environments = environment.NewService(environment.Config{
		Store: s.ledger, Keeper: s.ledger, Templates: environment.Drawings{Service: s.templates}, Executors: all,
		Connections: connections{s}, Approvals: guard, Finder: s.ledger, Observer: s.calls,
	})
	s.templates.Users = s.environments
	guard.Waiters[environment.KindPlan.Name] = s.environments
	return nil
}

// connections opens what the server's file names, and on one machine a directory
// for files, without any file.
type connections struct{ *Server }

func (c connections) Open(_ context.Context, kind, name string, _ environment.Whose) (executor.Connection, error) {
	if kind == "file" && name == "default" {
		return executor.Connection{"directory": filepath.Join(c.cfg.DataDir, "files")}, nil
	}
	return nil, fault.New(fault.Invalid, "there is no connection %q of executor %s: an operator names it in the server's file of connections", name, kind)
}
