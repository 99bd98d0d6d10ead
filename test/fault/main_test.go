// Package fault kills, cuts off and starves the control plane, and checks that
// nothing that was acknowledged is lost and nothing is done twice.
package fault

import (
	"context"
	"fmt"
	"os"
	"os/signal"
	"strconv"
	"sync/atomic"
	"testing"
	"time"

	"github.com/droverhq/drover/internal/app"
	"github.com/droverhq/drover/internal/cli"
)

// The test binary is also the program under test: with crashVar set it is a
// control plane that dies at a chosen commit, with "dinosaur" as its first
// argument the instance that the process runtime starts.
const (
	crashVar  = "DROVER_FAULT_CRASH_AT" // number of the commit after which to die; 0 = never
	armedVar  = "DROVER_FAULT_ARMED"    // file whose presence starts the counting
	configVar = "DROVER_FAULT_CONFIG"   // data dir, listen, routes, database, separated by |
)

func TestMain(m *testing.M) {
	if len(os.Args) > 1 && os.Args[1] == "dinosaur" {
		os.Exit(cli.New(cli.Config{}).Run(context.Background(), os.Args[1:]))
	}
	if config := os.Getenv(configVar); config != "" {
		serve(config)
	}
	os.Exit(m.Run())
}

func serve(config string) {
	var c app.Config
	for i, part := range split(config) {
		*[]*string{&c.DataDir, &c.Listen, &c.Routes, &c.Database}[i] = part
	}
	at, err := strconv.ParseInt(os.Getenv(crashVar), 10, 64)
	if err != nil {
		panic(err)
	}
	c.Observer = &killer{at: at, armed: os.Getenv(armedVar)}
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()
	if err := app.Up(ctx, c); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	os.Exit(0)
}

// killer ends the process right after a commit has become durable, before
// anybody is told of it.
type killer struct {
	at    int64
	armed string
	n     atomic.Int64
}

func (k *killer) Committed(_, _ int, _ time.Duration, err error) {
	if k.at == 0 || err != nil {
		return
	}
	if _, err := os.Stat(k.armed); err != nil {
		return
	}
	if k.n.Add(1) == k.at {
		self, _ := os.FindProcess(os.Getpid())
		_ = self.Kill()
		select {} // until the signal has arrived
	}
}

func (k *killer) Warned(string) {}
