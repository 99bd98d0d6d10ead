package app

import (
	"context"
	"encoding/json"
	"fmt"
	"path/filepath"

	"github.com/droverhq/drover/internal/connection"
	"github.com/droverhq/drover/internal/environment"
	"github.com/droverhq/drover/internal/executor"
	"github.com/droverhq/drover/internal/fault"
)

// handOver gives the environment to the Drover that runs in it, and waits until that
// one has it. Both sides do it again without doing anything twice.
func (b *bootstrap) handOver(ctx context.Context) (fresh bool, err error) {
	s, err := b.laptop(ctx, b.ledgerDir())
	if err != nil {
		return false, err
	}
	defer s.Close()
	if err := b.where.revive(ctx, b); err != nil {
		return false, err
	}
	out, err := s.environments.Outputs(ctx, metaName, true)
	if err != nil {
		return false, err
	}
	if b.report.Outputs, err = s.environments.Outputs(ctx, metaName, false); err != nil {
		return false, err
	}
	text := func(name string) string { t, _ := out[name].(string); return t }
	server, database, key := text("server"), text("database"), text("master_key")
	b.report.Server, b.report.Data = server, text("data")
	if server == "" || database == "" || key == "" {
		return false, fault.New(fault.Invalid, "the meta template has no outputs server, database and master_key: it cannot be handed over").Because("outputs")
	}
	// Before the mark: whoever cannot get in keeps what he has made.
	at, err := b.doors(text, "database")
	if err != nil {
		return false, err
	}
	if err := b.tunnel.answers(server, text("server_secret")); err != nil {
		return false, err
	}
	bundle, err := s.environments.HandOver(ctx, metaName, server)
	if err != nil {
		return false, err
	}
	var spec environment.Spec
	if err := json.Unmarshal(bundle.Environment.Spec, &spec); err != nil {
		return false, err
	}
	tree, err := s.templates.Tree(ctx, spec.Version)
	if err != nil {
		return false, err
	}
	to, err := b.replica(ctx, at, key)
	if err != nil {
		return false, err
	}
	defer to.Close()
	if _, _, err := to.templates.AddTree(ctx, tree, "drover bootstrap"); err != nil {
		return false, err
	}
	o, fresh, err := to.environments.TakeOver(ctx, bundle)
	if err != nil {
		return fresh, err
	}
	if fresh {
		b.tell("handover", metaName, o.Phase, "the Drover at "+server+" keeps the environment "+metaName+" from now on")
	}
	return fresh, nil
}

// replica is one of the new control plane's, for a moment: its ledger is the only door.
func (b *bootstrap) replica(ctx context.Context, at doors, key string) (*Server, error) {
	s, err := New(ctx, Config{Version: b.Version, hosts: at.hosts, Settings: Settings{
		DataDir: filepath.Join(b.State, "replica"), Listen: "127.0.0.1:0", LogLevel: "error", Database: at.database, MasterKey: key, Plaintext: at.plaintext,
	}})
	if err != nil {
		return nil, fmt.Errorf("the new ledger cannot be opened: %w", err)
	}
	return s, nil
}

// processes is the connection of the programs of this machine.
func (b *bootstrap) processes(dir, path string) (connection.Connection, executor.Connection) {
	options := map[string]string{"directory": dir, "path": path}
	return connection.Connection{Name: "default", Executor: "process", Options: options}, executor.Connection(options)
}
