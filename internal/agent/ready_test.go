package agent_test

import (
	"context"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/droverhq/drover/internal/agent"
	"github.com/droverhq/drover/internal/runtime/simulated"
)

// An agent is ready while it follows its control plane, and without it from what
// was signed; not before it has heard anything, and not from an older ledger.
func TestReady(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s, dir := newServer(), t.TempDir()
		s.say(1, item("a", 1))
		life := func(dir string) (*agent.Agent, func()) {
			a, err := agent.New(agent.Config{Client: s, Cluster: cluster, Runtime: simulated.New(simulated.Config{}), Dir: dir})
			if err != nil {
				t.Fatal(err)
			}
			ctx, cancel := context.WithCancel(context.Background())
			ended := make(chan error, 1)
			go func() { ended <- a.Run(ctx) }()
			settle(time.Minute)
			return a, func() { cancel(); <-ended }
		}
		check := func(reason string, a *agent.Agent, want bool, why string) {
			t.Helper()
			if ready, said := a.Ready(); ready != want || !strings.Contains(said, why) {
				t.Errorf("%s: %v %q", reason, ready, said)
			}
		}
		s.goDown(true)
		a, stop := life(t.TempDir())
		check("nobody has told it anything", a, false, "has not answered yet")
		stop()
		s.goDown(false)
		a, stop = life(dir)
		check("it follows", a, true, "")
		s.goDown(true)
		settle(time.Hour)
		check("the control plane has gone", a, true, "")
		stop()
		a, stop = life(dir)
		check("started without it, it goes on from what was signed", a, true, "")
		stop()
		s.do(func() { s.epoch = 2 })
		s.goDown(false)
		a, stop = life(dir)
		check("an older copy of the ledger is not followed", a, false, "epoch 2")
		stop()
	})
}
