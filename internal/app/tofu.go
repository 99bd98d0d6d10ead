package app

import (
	"context"
	"net/url"
	"path/filepath"
	"time"

	"github.com/droverhq/drover/internal/environment"
	"github.com/droverhq/drover/internal/executor"
	"github.com/droverhq/drover/internal/executor/terraform"
	"github.com/droverhq/drover/internal/fault"
	"github.com/droverhq/drover/internal/httpapi"
)

// tofu makes the executor of modules: their states are in the ledger, and OpenTofu
// comes to them by this server's own address.
func (s *Server) tofu() (executor.Executor, error) {
	given := pairs(s.cfg.Executors)
	dir, err := filepath.Abs(filepath.Join(s.cfg.DataDir, "tofu"))
	if err != nil {
		return nil, fault.New(fault.Invalid, "cannot use the data directory: %w", err)
	}
	settings := given["terraform.config"]
	if settings != "" {
		if settings, err = filepath.Abs(settings); err != nil {
			return nil, fault.New(fault.Invalid, "cannot use terraform.config: %w", err)
		}
	}
	return terraform.New(terraform.Config{
		Binary: given["terraform.binary"], Settings: settings,
		Work: filepath.Join(dir, "runs"), Cache: filepath.Join(dir, "providers"), States: states{s},
	})
}

// states are those of the server's environments.
type states struct{ s *Server }

func (t states) kept() *environment.States {
	return &environment.States{Store: t.s.ledger, Keeper: t.s.ledger}
}

// Read implements terraform.States.
func (t states) Read(ctx context.Context, resource string) (terraform.Head, []byte, error) {
	now, data, err := t.kept().Read(ctx, resource)
	head := terraform.Head{Serial: now.Serial, Lineage: now.Lineage}
	if l := now.Lock; l != nil {
		head.Lock = &terraform.Lock{ID: l.ID, Host: l.Host, Run: l.Run, Since: l.Since}
	}
	return head, data, err
}

// Access implements terraform.States.
func (t states) Access(ctx context.Context, run terraform.Run) (terraform.Access, error) {
	token, _, err := t.s.issuer.IssueErrand(ctx, httpapi.ErrandState, run.Resource, max(run.Within, time.Minute))
	return terraform.Access{
		URL:  t.s.statesURL() + statesPath + url.PathEscape(run.Resource),
		User: httpapi.RunName(run.Host, run.Dir, run.Fence), Password: token,
	}, err
}

// Rescue implements terraform.States.
func (t states) Rescue(ctx context.Context, resource string, state []byte) error {
	return t.kept().Write(ctx, resource, environment.StateWrite{Data: state})
}

// Break implements terraform.States.
func (t states) Break(ctx context.Context, resource, lock string) error {
	return t.kept().Unlock(ctx, resource, lock)
}

// Forget implements terraform.States.
func (t states) Forget(ctx context.Context, resource string) error {
	return t.kept().Forget(ctx, resource)
}
