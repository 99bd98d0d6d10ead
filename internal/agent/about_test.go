package agent_test

import (
	"context"
	"encoding/json"
	"log/slog"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/droverhq/drover/internal/agent"
	"github.com/droverhq/drover/internal/ledger"
	"github.com/droverhq/drover/internal/runtime/simulated"
)

// lines keeps what is logged, each with what its context knows.
type lines struct {
	slog.Handler
	mu  sync.Mutex
	all []string
}

func (l *lines) Handle(ctx context.Context, r slog.Record) error {
	cause, _ := ledger.KnownCause(ctx)
	l.mu.Lock()
	defer l.mu.Unlock()
	l.all = append(l.all, strings.Join([]string{r.Message, string(cause), ledger.OrgOf(ctx)}, "|"))
	return nil
}

func (l *lines) Enabled(context.Context, slog.Level) bool { return true }
func (l *lines) WithAttrs([]slog.Attr) slog.Handler       { return l }

// count forgets what was logged before.
func (l *lines) count(line string) (n int) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, one := range l.all {
		if one == line {
			n++
		}
	}
	l.all = nil
	return n
}

// What an agent says of an item goes back to the request that wanted it, also when the
// agent is started anew, and names whose it is, also of a removal, which has no body.
func TestLinesGoBackToWhatWantedTheItem(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s, dir, log := newServer(), t.TempDir(), &lines{}
		begin := func() func() {
			return start(t, s, failing{simulated.New(simulated.Config{})}, dir, func(c *agent.Config) { c.Logger = slog.New(log) })
		}
		stop := begin()
		a := item("a", 1)
		a.Cause, a.Org = "request:night-shift-4711", "acme"
		s.say(1, a)
		settle(time.Minute)
		if n := log.count("cannot apply an item|request:night-shift-4711|acme"); n != 1 {
			t.Errorf("it is told %d times", n)
		}
		stop()
		s.do(func() { s.items = nil }) // nobody tells it again
		stop = begin()
		defer func() { stop() }()
		settle(time.Minute)
		if n := log.count("cannot apply an item|request:night-shift-4711|acme"); n != 1 {
			t.Errorf("after a restart it is told %d times", n)
		}
		gone := removal("a", 2)
		gone.Body, gone.Cause = nil, "request:morning-1"
		s.say(2, gone)
		settle(time.Minute)
		if n := log.count("cannot apply an item|request:morning-1|acme"); n != 1 {
			t.Errorf("the removal is told %d times", n)
		}
		b := item("b", 1)
		b.Cause, b.Org, b.Body = "request:morning-2", "acme", json.RawMessage(`{"other":true}`)
		s.say(3, gone, b)
		settle(time.Minute)
		if n := log.count("an item is not followed; what runs of it is left alone|request:morning-2|acme"); n != 1 {
			t.Errorf("the refusal is told %d times", n)
		}
	})
}
