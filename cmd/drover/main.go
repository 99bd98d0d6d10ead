// Command drover is the whole product in one binary: control plane, agent and
// command line.
package main

import (
	"context"
	"os"
	"os/signal"
	"syscall"

	"github.com/droverhq/drover/internal/app"
	"github.com/droverhq/drover/internal/cli"
)

// version is set by the linker.
var version = "dev"

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	// A second signal ends the process at once.
	context.AfterFunc(ctx, stop)
	code := cli.New(cli.Config{
		Version: version,
		Rights:  func(r cli.DeployRights) ([]byte, error) { return app.Rights(app.RightsConfig(r)) },
		Up:      func(ctx context.Context, s cli.ServerSettings) error { return ended(app.Up(ctx, config(s))) },
		Server:  func(ctx context.Context, s cli.ServerSettings) error { return ended(app.Serve(ctx, config(s))) },
		Agent:   func(ctx context.Context, s cli.AgentSettings) error { return ended(app.Agent(ctx, agentConfig(s))) },
		Verify: func(ctx context.Context, s cli.ServerSettings, heads []byte, progress func(changes, of int64)) (cli.Verification, error) {
			return app.Verify(ctx, config(s), heads, progress)
		},
		Docs: app.Docs, Manifests: app.Manifests, Webhook: app.Webhook, CA: app.CertificateAuthority, Bootstrap: bootstrapper{},
		Drill: func(ctx context.Context, s cli.ServerSettings, bin string) (cli.Rehearsal, error) {
			return app.Drill(ctx, config(s), bin)
		},
	}).Run(ctx, os.Args[1:])
	stop()
	os.Exit(code)
}

// ended tells what is wrong with a configuration from what went wrong later.
func ended(err error) error {
	if app.Misconfigured(err) {
		return cli.Misconfigured(err)
	}
	return err
}

func config(s cli.ServerSettings) app.Config {
	return app.Config{Settings: app.Settings(s), Version: version, Out: os.Stdout}
}

func agentConfig(s cli.AgentSettings) app.AgentConfig {
	return app.AgentConfig{AgentSettings: app.AgentSettings(s), Version: version, Out: os.Stdout}
}

// bootstrapper runs bootstraps.
type bootstrapper struct{}

func boot(s cli.BootstrapSettings, tell func(cli.BootstrapEvent)) app.BootstrapConfig {
	return app.BootstrapConfig{BootstrapSettings: app.BootstrapSettings(s), Version: version, Tell: func(e app.BootstrapEvent) { tell(cli.BootstrapEvent(e)) }}
}

func (bootstrapper) Run(ctx context.Context, s cli.BootstrapSettings, tell func(cli.BootstrapEvent)) (cli.BootstrapReport, error) {
	r, err := app.Bootstrap(ctx, boot(s, tell))
	return cli.BootstrapReport{Outcome: r.Outcome, Location: r.Location, State: r.State, Server: r.Server, Data: r.Data, Namespace: r.Namespace, Left: r.Left, Seconds: r.Seconds, Whole: r}, err
}

func (bootstrapper) Status(ctx context.Context, s cli.BootstrapSettings) (map[string]bool, error) {
	return app.BootstrapStatus(ctx, boot(s, nil))
}

func (bootstrapper) Destroy(ctx context.Context, s cli.BootstrapSettings, tell func(cli.BootstrapEvent)) error {
	return app.BootstrapDestroy(ctx, boot(s, tell))
}
