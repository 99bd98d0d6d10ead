//go:build e2e && chaos

package gitops_test

import (
	"context"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"sync"
	"testing"
	"time"

	"github.com/droverhq/drover/test/argocd"
	"github.com/droverhq/drover/test/drover"
	"github.com/droverhq/drover/test/kubernetes"
	"github.com/droverhq/drover/test/servers/process"
)

// TestChaos runs the whole list on a bad day: one call in five to the ledger and to
// Kubernetes fails, and every process but Kubernetes' own is killed every 10 to 55
// seconds.
// DROVER_TEST_SEED says which bad day; where there is none it is any, and told.
// DROVER_TEST_CHAOS_BINARY is one that was built with -tags chaos.
func TestChaos(t *testing.T) {
	seed, err := strconv.ParseUint(os.Getenv("DROVER_TEST_SEED"), 10, 32)
	if err != nil {
		seed = uint64(rand.Uint32())
	}
	t.Logf("DROVER_TEST_SEED=%d", seed)
	steady := drover.Binary
	drover.Binary = frail
	t.Cleanup(func() { drover.Binary = steady })

	// There is one agent of each cluster, which need not wait for the end of the lease
	// of the one before: half of the time would be that.
	w := startBeside(t, argocd.Start(t, kubernetes.Start(t, kubernetes.WithControllers())), ",lease=none")
	w.hunted = true
	m := &mob{seed: seed, spared: map[string]bool{}, kills: map[string]int{}}
	m.chase(t, []victim{
		{"server", w.s, w.s.Launch},
		{"agent", w.edge, func() error { w.edge.Start(t); return nil }},
		{"plain agent", w.plain, func() error { w.plain.Start(t); return nil }},
		{"repo-server", &tied{w.a.RepoServer}, w.a.RepoServer.Start},
		{"controller", &tied{w.a.Controller}, w.a.Controller.Start},
		{"Redis", &tied{w.a.Redis}, w.a.Redis.Start},
	})
	w.keepsItsWord(t, m.spare)
	t.Logf("killed: %v", m.stop())
}

// frail is the binary in which calls fail.
var frail = sync.OnceValue(func() string {
	if path := os.Getenv("DROVER_TEST_CHAOS_BINARY"); path != "" {
		return path
	}
	dir, err := os.MkdirTemp("", "drover-chaos-")
	if err != nil {
		panic(err)
	}
	path := filepath.Join(dir, "drover")
	cmd := exec.Command("go", "build", "-tags", "chaos", "-o", path, "github.com/droverhq/drover/cmd/drover")
	cmd.Env = append(os.Environ(), "CGO_ENABLED=0")
	if out, err := cmd.CombinedOutput(); err != nil {
		panic(fmt.Sprintf("cannot build the binary: %v\n%s", err, out))
	}
	return path
})

// mortal is a process that can be killed.
type mortal interface {
	Kill()
	Done() <-chan struct{}
}

// victim is one, and how it is brought back.
type victim struct {
	name string
	mortal
	start func() error
}

// tied is a server on its leash. Whether it ended by itself is asked when it is
// started: one that runs stays as it is.
type tied struct{ *process.Process }

func (p *tied) Kill() { _ = p.Process.Kill() }

func (p *tied) Done() <-chan struct{} { return nil }

// mob kills processes.
type mob struct {
	seed uint64
	stop func() map[string]int

	mu     sync.Mutex // held while one is killed and brought back
	spared map[string]bool
	kills  map[string]int
}

// chase kills each of them again and again, and brings back those that ended by
// themselves, as whoever runs them would. Its goroutines, one per process, end with
// stop, or with the test.
func (m *mob) chase(t *testing.T, all []victim) {
	ctx, cancel := context.WithCancel(context.Background())
	var running sync.WaitGroup
	m.stop = func() map[string]int { cancel(); running.Wait(); return m.kills }
	t.Cleanup(func() {
		m.stop()
		os.Unsetenv("DROVER_CHAOS")
	})
	for n, v := range all {
		random := rand.New(rand.NewPCG(m.seed, uint64(n)))
		m.strike(t, v, v.name, random) // from now on its calls fail
		running.Go(func() {
			for {
				next := time.NewTimer(10*time.Second + time.Duration(random.Int64N(int64(45*time.Second))))
				m.mu.Lock()
				ended := v.Done()
				m.mu.Unlock()
				how := v.name
				select {
				case <-ctx.Done():
					next.Stop()
					return
				case <-next.C:
				case <-ended:
					next.Stop()
					how += ", by itself"
					if !pause(ctx) {
						return
					}
				}
				m.strike(t, v, how, random)
			}
		})
	}
}

// pause is between the end of a process and its next life, as with any keeper of
// processes.
func pause(ctx context.Context) bool {
	select {
	case <-ctx.Done():
		return false
	case <-time.After(time.Second):
		return true
	}
}

// strike kills one, if it is not dead yet, and brings it back.
func (m *mob) strike(t *testing.T, v victim, how string, random *rand.Rand) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.spared[v.name] {
		return
	}
	v.Kill()
	m.kills[how]++
	os.Setenv("DROVER_CHAOS", fmt.Sprintf("ledger=0.2,kubernetes=0.2,seed=%d", random.Uint32()))
	if err := v.start(); err != nil {
		t.Errorf("%s does not start again: %v", v.name, err)
	}
}

// spare leaves one alone until the function that is returned is called.
func (m *mob) spare(name string) (end func()) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.spared[name] = true
	return func() {
		m.mu.Lock()
		defer m.mu.Unlock()
		delete(m.spared, name)
	}
}
