//go:build e2e

package dataplane_test

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/droverhq/drover/api/client"
	v1 "github.com/droverhq/drover/api/v1"
	"github.com/droverhq/drover/internal/app"
	"github.com/droverhq/drover/internal/cluster"
	"github.com/droverhq/drover/internal/ledger"
	"github.com/droverhq/drover/internal/sqlledger"
	"github.com/droverhq/drover/test/drover"
)

// With mortalVar set this binary is a control plane that dies at a chosen commit:
// its data directory, where it listens, a file whose presence starts the counting,
// the number of the commit (0: never), and instead of that a phase and the cluster
// that a commit brings there, separated by |.
const mortalVar = "DROVER_TEST_MORTAL"

func serveUntilKilled(setting string) {
	part := strings.Split(setting, "|")
	at, err := strconv.Atoi(part[3])
	if err != nil {
		panic(err)
	}
	c := app.Config{Observer: &killer{dir: part[0], listen: part[1], armed: part[2], death: death{at, part[4], part[5]}}}
	c.DataDir, c.Listen, c.OfferingsDir = part[0], part[1], "testdata"
	c.Lease = time.Second // what a dead one has claimed waits for its end, each time
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()
	if err := app.Serve(ctx, c); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	os.Exit(0)
}

// death is the commit at which a control plane dies. Nothing: none.
type death struct {
	at    int    // its number, or
	phase string // where it brings ...
	of    string // ... this cluster
}

func (d death) String() string {
	if d.phase != "" {
		return "the commit that makes it " + d.phase
	}
	return fmt.Sprint("commit ", d.at)
}

// killer ends the process once a commit is durable, before there is another one.
type killer struct {
	death
	dir, listen, armed string
	n                  int // the committer's alone, of which there is one
}

func (k *killer) Committed(_, changes int, _ time.Duration, err error) {
	if k.death == (death{}) || err != nil || changes == 0 {
		return
	}
	if _, err := os.Stat(k.armed); err != nil {
		return
	}
	if k.n++; k.phase == "" && k.n == k.at || k.phase != "" && k.seen() == k.phase {
		self, _ := os.FindProcess(os.Getpid())
		_ = self.Kill()
		select {} // until the signal has arrived
	}
}

// seen is the phase of the cluster, which nobody changes while the committer is here.
func (k *killer) seen() string {
	c, err := admin(k.dir, k.listen)
	if err != nil {
		panic(err)
	}
	phase, _ := (&world{c: c}).get("clusters", k.of)
	return phase
}

func (k *killer) Warned(string) {}

// admin speaks to the control plane of a directory.
func admin(dir, listen string) (*client.Client, error) {
	token, err := os.ReadFile(filepath.Join(dir, "admin.token"))
	if err != nil {
		return nil, err
	}
	return client.New(client.Config{Server: "http://" + listen, Token: strings.TrimSpace(string(token)), Timeout: time.Minute})
}

// mortal is such a control plane.
type mortal struct {
	*world
	dir, listen string
	cmd         *exec.Cmd
	done        chan struct{}
}

func newMortal(t *testing.T) *mortal {
	m := &mortal{world: &world{t: t}, dir: t.TempDir(), listen: drover.FreeAddress(t)}
	t.Cleanup(m.kill)
	return m
}

func (m *mortal) armed() string { return filepath.Join(m.dir, "armed") }

func (m *mortal) kill() {
	if m.cmd != nil {
		_ = m.cmd.Process.Kill()
		<-m.done
	}
}

func (m *mortal) died() bool {
	select {
	case <-m.done:
		return true
	default:
		return false
	}
}

// start runs it, to die at a commit after it is armed.
func (m *mortal) start(d death) {
	m.t.Helper()
	os.Remove(m.armed())
	log, err := os.OpenFile(filepath.Join(m.dir, "log"), os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	if err != nil {
		m.t.Fatal(err)
	}
	defer log.Close()
	m.cmd = exec.Command(os.Args[0])
	m.cmd.Env = append(os.Environ(), fmt.Sprintf("%s=%s|%s|%s|%d|%s|%s", mortalVar, m.dir, m.listen, m.armed(), d.at, d.phase, d.of))
	m.cmd.Stdout, m.cmd.Stderr = log, log
	if err := m.cmd.Start(); err != nil {
		m.t.Fatal(err)
	}
	m.done = make(chan struct{})
	go func(cmd *exec.Cmd, done chan struct{}) { _ = cmd.Wait(); close(done) }(m.cmd, m.done)
	m.until("the server to be ready", func() bool {
		resp, err := http.Get("http://" + m.listen + "/readyz")
		if err == nil {
			resp.Body.Close()
		}
		return err == nil && resp.StatusCode == http.StatusOK
	})
	if m.c, err = admin(m.dir, m.listen); err != nil {
		m.t.Fatal(err)
	}
}

// left is the phase in which the ledger has a cluster, while nobody serves.
func (m *mortal) left(name string) string {
	m.t.Helper()
	key, err := ledger.LoadKey(filepath.Join(m.dir, "master.key"))
	if err != nil {
		m.t.Fatal(err)
	}
	l, err := sqlledger.Open(m.t.Context(), sqlledger.Config{URL: filepath.Join(m.dir, "drover.db"), Kinds: app.Kinds(), Key: key})
	if err != nil {
		m.t.Fatal(err)
	}
	defer l.Close()
	o, err := l.Get(m.t.Context(), ledger.Ref{Kind: cluster.Kind.Name, ID: name})
	if err != nil || !o.Deleted.IsZero() {
		return "gone"
	}
	return o.Phase
}

// through asks for something of a server that is to die at a commit on the way
// there. Where it dies, the agent dies with it in every other case; both start
// again, and what was asked for comes true. It returns the phase of the death.
func (m *mortal) through(d death, name string, agent *drover.Agent, ask func() error, phase string) (died string) {
	t := m.t
	t.Helper()
	if err := os.WriteFile(m.armed(), nil, 0o600); err != nil {
		t.Fatal(err)
	}
	asked := ask() == nil
	m.until("the end or the death", func() bool {
		got, _ := m.get("clusters", name)
		return m.died() || asked && got == phase
	})
	if !m.died() { // nor may it any more
		m.kill()
		m.start(death{})
		return ""
	}
	died = m.left(name)
	both := d.at%2 == 0 || died == "waiting_for_fleetshard_operator" || died == "cleanup"
	if both {
		agent.Kill()
	}
	m.start(death{})
	if both {
		agent.Start(t)
	}
	if !asked {
		if err := ask(); err != nil && client.Status(err) != http.StatusConflict && client.Status(err) != http.StatusNotFound {
			t.Fatalf("killed at %s in %s: asked again: %v", d, died, err)
		}
	}
	m.until(fmt.Sprintf("%s to be %s after the death at %s in %s", name, phase, d, died), func() bool {
		got, _ := m.get("clusters", name)
		return got == phase
	})
	return died
}

// The server is killed at every commit of a cluster's life, and its agent with
// it every other time, and always while one waits for the other: from the order
// to ready, and to the last trace. What was asked for once comes true once.
func TestKilledInEveryPhaseOfACluster(t *testing.T) {
	t.Parallel()
	m := newMortal(t)
	killed := map[string]int{} // deaths by phase
	m.start(death{})
	m.sells()
	m.kill()
	rounds := 0
	// life is that of one cluster, and tells whether its making and its end came to the death.
	life := func(making, ending death) (made, ended bool) {
		rounds++
		name := fmt.Sprint("edge-", rounds)
		making.of, ending.of = name, name
		m.start(making)
		token, err := m.c.Token(t.Context(), v1.TokenRequest{Cluster: name})
		if err != nil {
			t.Fatal(err)
		}
		agent := drover.Join(t, "http://"+m.listen, name, token.Token, "--runtime", "simulated")
		note := func(died string, d death) bool {
			if died == "" {
				return false
			}
			t.Logf("killed at %s in %s", d, died)
			killed[died]++
			return true
		}
		made = note(m.through(making, name, agent, func() error {
			_, err := m.c.Create(context.Background(), "clusters", v1.CreateCluster{Name: name, Provider: "metal", Region: "north"})
			return err
		}, "ready"), making)
		m.until(fmt.Sprintf("the three steps to be ready, of a cluster whose server was killed at %s of its making", making), func() bool {
			_, status := m.get("clusters", name) // an agent that was killed as well begins anew
			var told struct{ Steps []struct{ State string } }
			return json.Unmarshal([]byte(status), &told) == nil && len(told.Steps) == 3 && strings.Count(status, `"state":"ready"`) == 3
		})
		m.kill()
		m.start(ending)
		ended = note(m.through(ending, name, agent, func() error {
			_, err := m.c.Delete(context.Background(), "clusters", name)
			return err
		}, "gone"), ending)
		agent.Kill()
		m.kill()
		return made, ended
	}
	for at, making, ending := 1, true, true; making || ending; at++ {
		if at > 60 {
			t.Fatal("the life of a cluster does not take sixty commits")
		}
		making, ending = life(death{at: at}, death{at: at})
	}
	// Commits of others come in between, so that a short phase may have been missed.
	for making, ending := range map[string]string{"cluster_provisioned": "deprovisioning", "waiting_for_fleetshard_operator": "cleanup"} {
		life(death{phase: making}, death{phase: ending})
	}
	t.Logf("killed in %v", killed)
	for _, phase := range []string{"cluster_provisioned", "waiting_for_fleetshard_operator", "deprovisioning", "cleanup"} {
		if killed[phase] == 0 {
			t.Errorf("nobody was killed in %s", phase)
		}
	}
	m.start(death{})
	list, err := m.c.List(t.Context(), "clusters", client.ListOptions{})
	if err != nil || len(list.Items) > 0 {
		t.Errorf("clusters are left: %v, %v", list.Items, err)
	}
	var left string
	defer func() {
		if left != "" {
			t.Log(left)
		}
	}()
	m.until("every operation to have succeeded", func() bool { // one may end a moment after what it was about
		work, err := m.c.List(t.Context(), "operations", client.ListOptions{})
		if left = fmt.Sprint("operations: ", err); err != nil || len(work.Items) == 0 {
			return false
		}
		left = ""
		for _, o := range work.Items {
			if o.Phase != "succeeded" {
				left += fmt.Sprintf("operation %s is %s: %s\n", o.ID, o.Phase, o.Status)
			}
		}
		return left == ""
	})
}
