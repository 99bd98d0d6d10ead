// Command drover is the whole product in one binary: control plane, agent and
// command line.
package main

import (
	"context"
	"os"
	"os/signal"
	"syscall"

	"github.com/droverhq/drover/internal/cli"
)

// version is set by the linker.
var version = "dev"

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	// A second signal ends the process at once.
	context.AfterFunc(ctx, stop)
	code := cli.New(cli.Config{Version: version}).Run(ctx, os.Args[1:])
	stop()
	os.Exit(code)
}
