package e2e

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/droverhq/drover/api/client"
	v1 "github.com/droverhq/drover/api/v1"
	"github.com/droverhq/drover/test/drover"
	"github.com/droverhq/drover/test/postgres"
)

// pair is two replicas on one database.
func pair(t *testing.T, args ...string) (a, b *drover.Server) {
	t.Helper()
	args = append([]string{"--database", postgres.Database(t), "--master-key-file", filepath.Join(t.TempDir(), "master.key")}, args...)
	a = drover.Serve(t, args...)
	b = drover.Serve(t, args...)
	return a, b
}

func TestReplicas(t *testing.T) {
	a, b := pair(t)
	cluster := a.Cluster(t, "edge")
	ca, cb := a.Client(t), b.Client(t)

	// A token of one is a token of the other.
	alice := token(t, a, "--user", "alice", "--org", "acme")
	onB := dial(t, b.URL(), alice)
	who, err := onB.WhoAmI(context.Background())
	if err != nil || who.User != "alice" || who.Org != "acme" || who.Admin {
		t.Fatalf("B takes A's token for %+v: %v", who, err)
	}

	// A watch on B sees what is written through A, in order.
	since := head(t, cb).Seq
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	phases := make(chan string, 64)
	go func() { // ends with ctx
		defer close(phases)
		last := int64(since)
		for c, err := range onB.Watch(ctx, client.WatchOptions{After: since}) {
			if err != nil {
				return
			}
			if c.Seq <= last {
				t.Errorf("change %d came after %d", c.Seq, last)
			}
			last = c.Seq
			if c.Object.Name == "rex" {
				phases <- c.Object.Phase
			}
		}
	}()

	agent := drover.Join(t, b.URL(), "edge", cluster, "--heartbeat", "1s") // it reports to B; its token is A's
	awaitCluster(t, a, "edge")
	onA := dial(t, a.URL(), alice)
	mustOrder(t, onA, "rex")
	if got := phase(onB, "rex"); got == "" || got[0] == 's' {
		t.Errorf("B does not know what A acknowledged: %s", got)
	}
	awaitPhase(t, onB, "rex", "ready")
	answers(t, agent, "rex")
	var seen []string
	for p := range phases {
		if len(seen) == 0 || seen[len(seen)-1] != p {
			seen = append(seen, p)
		}
		if p == "ready" {
			break
		}
	}
	if got := fmt.Sprint(seen); got != "[accepted preparing provisioning ready]" {
		t.Errorf("the watch on B saw %s", got)
	}

	// Both serve, B can delete what A made, and A knows.
	if _, err := onB.Delete(context.Background(), "dinosaurs", "rex"); err != nil {
		t.Fatal(err)
	}
	drover.Until(t, "rex to be gone on A", func() bool { return client.Status(errOf(ca.Get(context.Background(), "dinosaurs", "rex", ""))) == 404 })
}

func errOf(_ v1.Object, err error) error { return err }

// Two agents with one cluster's token, each at another replica: one of them
// runs the instances, and goes on to after it was killed and restarted at the
// other replica.
func TestAgentsAtTwoReplicas(t *testing.T) {
	a, b := pair(t)
	token := a.Cluster(t, "edge")
	first := drover.Join(t, a.URL(), "edge", token, "--heartbeat", "1s")
	awaitCluster(t, b, "edge")
	second := drover.Join(t, b.URL(), "edge", token, "--heartbeat", "1s")
	drover.Until(t, "the second agent to be refused", func() bool {
		return strings.Contains(second.Log(), "belongs to another agent installation")
	})
	c := b.Client(t)
	mustOrder(t, c, "rex")
	awaitPhase(t, c, "rex", "ready")
	first.Kill()
	first.Server = b.URL()
	first.Start(t)
	mustOrder(t, c, "tina")
	awaitPhase(t, c, "tina", "ready")
	drover.Until(t, "the route of rex, which the agent has found again", func() bool {
		status, _ := drover.Reach(first.Routes, host("rex"))
		return status == http.StatusOK
	})
	answers(t, first, "tina")
	if here, there := len(drover.Instances(first.DataDir)), len(drover.Instances(second.DataDir)); here != 2 || there != 0 {
		t.Errorf("the first agent runs %d, the second %d processes", here, there)
	}
}

// One replica is killed while clients create on both: whatever was
// acknowledged comes true.
func TestReplicaKilledInFlight(t *testing.T) {
	a, b := pair(t)
	cluster := a.Cluster(t, "edge")
	drover.Join(t, b.URL(), "edge", cluster, "--capacity", "10000") // for all that is ordered until A is gone
	awaitCluster(t, b, "edge")
	clients := []*client.Client{a.Client(t), b.Client(t)}

	// 25 clients on either: those of A order one after the other until A is
	// gone, those of B as often as they are told to.
	const callers, killAt, most = 25, 10, 400
	type outcome struct {
		name string
		err  error
		on   int
	}
	outcomes := make(chan outcome, 2*callers*most)
	acknowledged := make(chan struct{}, callers*most)
	var wg sync.WaitGroup
	for i := range callers {
		wg.Go(func() {
			for n := range most {
				name := fmt.Sprintf("a%d-%d", i, n)
				err := order(clients[0], name)
				outcomes <- outcome{name, err, 0}
				if err != nil {
					return
				}
				acknowledged <- struct{}{}
			}
		})
		wg.Go(func() {
			name := fmt.Sprintf("b%d", i)
			outcomes <- outcome{name, order(clients[1], name), 1}
		})
	}
	for range killAt {
		<-acknowledged
	}
	a.Kill()
	wg.Wait()
	close(outcomes)

	var kept, lost []string
	for o := range outcomes {
		switch {
		case o.err == nil:
			kept = append(kept, o.name)
		case o.on == 1:
			t.Errorf("B refused %s because A died: %v", o.name, o.err)
		default:
			lost = append(lost, o.name)
		}
	}
	t.Logf("%d acknowledged, %d without an answer", len(kept), len(lost))
	if len(kept) < callers+killAt || len(lost) != callers {
		t.Errorf("%d were acknowledged, %d were not: nothing was in flight", len(kept), len(lost))
	}
	for _, name := range kept {
		awaitPhaseQuietly(t, clients[1], name, "ready")
	}
	// What got no answer is there as a whole, and then it becomes ready, or it is not.
	for _, name := range lost {
		if _, err := clients[1].Get(context.Background(), "dinosaurs", name, ""); client.Status(err) != 404 {
			awaitPhaseQuietly(t, clients[1], name, "ready")
		}
	}
}

func awaitPhaseQuietly(t *testing.T, c *client.Client, name, want string) {
	t.Helper()
	drover.Until(t, name+" to be "+want, func() bool { return phase(c, name) == want })
}

// A replica that is asked to stop in the midst of its work hands it back: the
// other one goes on without waiting for the lease, which is an hour here.
func TestGracefulStopHandsWorkBack(t *testing.T) {
	const orders = 10
	calls := make(chan struct{}, 10*orders)
	var answer atomic.Bool
	gate := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		_, _ = io.Copy(io.Discard, r.Body) // only then is the caller's end noticed
		calls <- struct{}{}
		if !answer.Load() {
			<-r.Context().Done() // until the caller goes away
		}
	}))
	t.Cleanup(gate.Close)

	args := []string{"--database", postgres.Database(t), "--master-key-file", filepath.Join(t.TempDir(), "master.key"), "--lease", "1h"}
	a := drover.Serve(t, args...)
	text := second(t, "mammoths") + fmt.Sprintf("  hooks:\n    - {phase: preparing, url: %q, timeout: 30s}\n", gate.URL)
	if _, stderr, code := a.Run("apply", "-f", write(t, filepath.Join(t.TempDir(), "mammoth.yaml"), text)); code != 0 {
		t.Fatal(stderr)
	}
	agent := drover.Join(t, a.URL(), "edge", a.Cluster(t, "edge"))
	awaitCluster(t, a, "edge")
	c := a.Client(t)
	for i := range orders {
		if _, err := c.Create(context.Background(), "mammoths", v1.CreateInstance{Name: fmt.Sprintf("m%d", i)}); err != nil {
			t.Fatal(err)
		}
	}
	for range orders {
		<-calls // A has work under way that it cannot finish
	}
	b := drover.Serve(t, args...)
	answer.Store(true)
	if code := a.Stop(); code != 0 {
		t.Errorf("the replica ends with code %d", code)
	}

	agent.Kill() // its server is gone; it is given the other one
	agent.Server = b.URL()
	agent.Start(t)
	cb := b.Client(t)
	for i := range orders {
		drover.Until(t, "what A gave back", func() bool {
			o, err := cb.Get(context.Background(), "mammoths", fmt.Sprintf("m%d", i), "")
			return err == nil && o.Phase == "ready"
		})
	}
	if got := len(drover.Instances(agent.DataDir)); got != orders {
		t.Errorf("%d processes run, not %d", got, orders)
	}
}
