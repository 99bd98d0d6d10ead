package agent_test

import (
	"bytes"
	"context"
	"log/slog"
	"net/http"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/droverhq/drover/api/client"
	v1 "github.com/droverhq/drover/api/v1"
	"github.com/droverhq/drover/internal/agent"
	"github.com/droverhq/drover/internal/runtime"
	"github.com/droverhq/drover/internal/runtime/simulated"
)

// passing is a way to the server on which a message that waits is overtaken by
// the next one, once.
type passing struct {
	*server
	over   atomic.Bool
	once   sync.Once
	passed chan struct{}
}

func (p *passing) Sync(ctx context.Context, cluster string, m v1.Sync) (v1.Synced, error) {
	if m.Wait && p.over.CompareAndSwap(true, false) {
		<-p.passed
		return v1.Synced{}, &client.Error{Status: http.StatusConflict, Detail: v1.Error{Reason: "a later message came first"}}
	}
	if !m.Wait && m.Items != nil && m.Items[0].State == string(runtime.Error) {
		defer p.once.Do(func() { close(p.passed) })
	}
	return p.server.Sync(ctx, cluster, m)
}

func TestOvertakenMessageIsNoLoss(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var log bytes.Buffer
		p, rt := &passing{server: newServer(), passed: make(chan struct{})}, simulated.New(simulated.Config{})
		stop := start(t, p, rt, t.TempDir(), func(c *agent.Config) { c.Logger = slog.New(slog.NewTextHandler(&log, nil)) })
		p.say(1, item("a", 1))
		settle(15 * time.Second)
		p.over.Store(true)
		settle(10 * time.Second) // a message waits that will be overtaken
		rt.Set("a", runtime.Error, "it fell over")
		settle(5 * time.Second)
		if p.over.Load() {
			t.Fatal("nothing was overtaken: the test shows nothing")
		}
		if got := p.known()["a"].State; got != "error" {
			t.Errorf("the server knows %q", got)
		}
		stop()
		if strings.Contains(log.String(), "lost the control plane") {
			t.Errorf("it is said to be lost:\n%s", log.String())
		}
	})
}
