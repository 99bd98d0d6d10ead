//go:build e2e

package site

import (
	"bytes"
	"encoding/json"
	"io"
	"net/http"
	"slices"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/droverhq/drover/test/drover"
)

// An agent has followed the promoted site, which is cut off then; a false word has the old
// primary lead in its old epoch, and somebody orders there. The old primary refuses the agent;
// behind somebody who hides from it what the agent has followed it does not, and the agent
// refuses its orders. Nothing is applied, what runs goes on, and the agent says why, until the
// promoted site is back.
func TestAgentFreezesAtALowerEpoch(t *testing.T) {
	w := pair(t, given{})
	token := w.a.Cluster(t, "edge")
	liar := drover.HTTPProxy(t, w.a.URL())
	agent := drover.Join(t, w.a.URL(), "edge", token, "--heartbeat", "1s")
	placed := func(s *drover.Server, name string) (id string) {
		t.Helper()
		if err := order(t.Context(), call(t, s), name); err != nil {
			t.Fatalf("%s is not taken: %v", name, err)
		}
		o, err := call(t, s).Get(t.Context(), "dinosaurs", name, "")
		if err != nil {
			t.Fatal(err)
		}
		return o.ID
	}
	placed(w.a, "rex")
	awaitPhase(t, call(t, w.a), "rex", "ready")

	w.a.Kill()
	if _, stderr, code := w.b.Run("dr", "promote", "--primary-is-gone"); code != 0 {
		t.Fatalf("drover dr promote: %d %s", code, stderr)
	}
	placed(w.b, "tina")
	awaitPhase(t, call(t, w.b), "tina", "ready") // the agent has followed
	w.b.Kill()

	if err := w.a.Launch(); err != nil {
		t.Fatal(err)
	}
	saying(t, w.a, "waiting", "does not answer, and may lead")
	if _, stderr, code := w.a.Run("dr", "promote", "--primary-is-gone"); code != 0 {
		t.Fatalf("drover dr promote: %d %s", code, stderr)
	}
	if at := awaitState(t, w.a, "leading"); at.Epoch != 1 {
		t.Fatalf("the old primary leads in epoch %d", at.Epoch)
	}
	runs := drover.Instances(agent.DataDir)
	if len(runs) != 2 {
		t.Fatalf("%d instances run", len(runs))
	}
	split := placed(w.a, "split")
	drover.Until(t, "the old primary to refuse the agent", func() bool {
		return strings.Contains(agent.Log(), "has followed epoch 2, this ledger is in 1") || strings.Contains(w.a.Log(), "an agent has followed a higher epoch")
	})

	var offered atomic.Int64 // answers of the first epoch that name the order
	liar.Meddle(func(_ http.ResponseWriter, r *http.Request) bool {
		body, err := io.ReadAll(r.Body)
		var said map[string]any
		if err == nil && json.Unmarshal(body, &said) == nil && said["epoch"] != nil {
			said["epoch"], said["seq"] = 1, 0
			said["ready"] = true
			delete(said, "message")
			body, err = json.Marshal(said)
		}
		if err != nil {
			t.Error(err)
		}
		r.Body, r.ContentLength = io.NopCloser(bytes.NewReader(body)), int64(len(body))
		return false
	})
	liar.Twist(func(r *http.Response) error {
		body, err := io.ReadAll(r.Body)
		if err == nil && bytes.Contains(body, []byte(split)) && bytes.Contains(body, []byte(`"epoch":1`)) {
			offered.Add(1)
		}
		r.Body = io.NopCloser(bytes.NewReader(body))
		return err
	})
	agent.Kill()
	agent.Server = "http://" + liar.Addr
	agent.Start(t)
	drover.Until(t, "the agent to say why it applies nothing", func() bool {
		return strings.Contains(agent.Log(), "applies nothing any more") && strings.Contains(agent.Log(), "the control plane is in epoch 1, this agent has followed 2")
	})
	drover.Until(t, "the order to be offered again and again", func() bool { return offered.Load() >= 3 })
	if now := drover.Instances(agent.DataDir); !slices.Equal(now, runs) {
		t.Errorf("%v ran before, %v after an order of the old epoch", runs, now)
	}
	if got := phase(call(t, w.a), "split"); got == "ready" {
		t.Error("the old primary says that its order is ready")
	}

	w.b.Start(t)
	saying(t, w.a, "fenced", "epoch 2")
	placed(w.b, "after")
	awaitPhase(t, call(t, w.b), "after", "ready")
	if now := drover.Instances(agent.DataDir); len(now) != 3 || !slices.Contains(now, runs[0]) || !slices.Contains(now, runs[1]) {
		t.Errorf("%v ran before, %v after the promoted site is back", runs, now)
	}
}
