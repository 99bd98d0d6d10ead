package fault

import (
	"context"
	"fmt"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/droverhq/drover/api/client"
	v1 "github.com/droverhq/drover/api/v1"
	"github.com/droverhq/drover/test/drover"
	"github.com/droverhq/drover/test/postgres"
)

func split(s string) []string { return strings.Split(s, "|") }

// plane is a control plane with a data plane, in a process of its own.
type plane struct {
	t                        *testing.T
	dir, listen, routes, dsn string
	cmd                      *exec.Cmd
	done                     chan struct{}
	armed                    string
}

func newPlane(t *testing.T, dsn string) *plane {
	dir := t.TempDir()
	p := &plane{t: t, dir: dir, listen: drover.FreeAddress(t), routes: drover.FreeAddress(t), dsn: dsn, armed: filepath.Join(dir, "armed")}
	t.Cleanup(func() { p.kill(); killInstances(dir) })
	return p
}

// start runs the plane; it dies at commit number crashAt after arm.
func (p *plane) start(crashAt int) {
	p.t.Helper()
	os.Remove(p.armed)
	p.cmd = exec.Command(os.Args[0])
	p.cmd.Env = append(os.Environ(),
		configVar+"="+strings.Join([]string{p.dir, p.listen, p.routes, p.dsn}, "|"),
		fmt.Sprintf("%s=%d", crashVar, crashAt), armedVar+"="+p.armed)
	log, err := os.OpenFile(filepath.Join(p.dir, "log"), os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	if err != nil {
		p.t.Fatal(err)
	}
	p.cmd.Stdout, p.cmd.Stderr = log, log
	if err := p.cmd.Start(); err != nil {
		p.t.Fatal(err)
	}
	log.Close()
	p.done = make(chan struct{})
	go func(cmd *exec.Cmd, done chan struct{}) { _ = cmd.Wait(); close(done) }(p.cmd, p.done)
	p.await("the local data plane to be ready", func(ctx context.Context) bool {
		token, err := os.ReadFile(filepath.Join(p.dir, "admin.token"))
		if err != nil {
			return false
		}
		c, err := client.New(client.Config{Server: "http://" + p.listen, Token: strings.TrimSpace(string(token))})
		if err != nil {
			return false
		}
		o, err := c.Get(ctx, "clusters", "local", "")
		return err == nil && o.Phase == "ready"
	})
}

func (p *plane) arm() {
	if err := os.WriteFile(p.armed, nil, 0o600); err != nil {
		p.t.Fatal(err)
	}
}

func (p *plane) kill() {
	if p.cmd != nil {
		_ = p.cmd.Process.Kill()
		<-p.done
	}
}

func (p *plane) died() bool {
	select {
	case <-p.done:
		return true
	default:
		return false
	}
}

func (p *plane) client() *client.Client {
	p.t.Helper()
	token, err := os.ReadFile(filepath.Join(p.dir, "admin.token"))
	if err != nil {
		p.t.Fatal(err)
	}
	c, err := client.New(client.Config{Server: "http://" + p.listen, Token: strings.TrimSpace(string(token)), Timeout: patience})
	if err != nil {
		p.t.Fatal(err)
	}
	return c
}

const patience = drover.Patience

// await asks until it is so.
func (p *plane) await(what string, so func(ctx context.Context) bool) {
	p.t.Helper()
	ctx, cancel := context.WithTimeout(p.t.Context(), patience)
	defer cancel()
	tick := time.NewTicker(5 * time.Millisecond)
	defer tick.Stop()
	for !so(ctx) {
		select {
		case <-ctx.Done():
			log, _ := os.ReadFile(filepath.Join(p.dir, "log"))
			p.t.Fatalf("waited in vain for %s\n%s", what, log)
		case <-tick.C:
		}
	}
}

// step arms the crash, runs a request and lets it come to its end or to the
// crash, after which the plane is started anew. It reports whether it crashed.
func (p *plane) step(crashAt int, request func(c *client.Client) (acknowledged bool), settled func(ctx context.Context, c *client.Client) bool) (crashed bool) {
	p.t.Helper()
	p.start(crashAt)
	p.arm()
	// Who gets no answer without a crash, from a ledger that is slow for a moment, asks again.
	acknowledged := false
	p.await("an answer, or the crash", func(context.Context) bool {
		acknowledged = request(p.client())
		return acknowledged || p.died()
	})
	p.await("the crash or the end", func(ctx context.Context) bool { return p.died() || settled(ctx, p.client()) })
	crashed = p.died()
	if crashed {
		p.start(0)
		if !acknowledged {
			// Whoever got no answer asks again; a conflict says that it was written.
			request(p.client())
		}
		p.await("convergence", func(ctx context.Context) bool { return settled(ctx, p.client()) })
	}
	return crashed
}

func create(c *client.Client) bool {
	_, err := c.Create(context.Background(), "dinosaurs", v1.CreateInstance{Name: "rex"})
	return err == nil || client.Status(err) == http.StatusConflict
}

func remove(c *client.Client) bool {
	_, err := c.Delete(context.Background(), "dinosaurs", "rex")
	return err == nil || client.Status(err) == http.StatusNotFound
}

func (p *plane) ready(ctx context.Context, c *client.Client) bool {
	o, err := c.Get(ctx, "dinosaurs", "rex", "")
	return err == nil && o.Phase == "ready"
}

func (p *plane) gone(ctx context.Context, c *client.Client) bool {
	_, err := c.Get(ctx, "dinosaurs", "rex", "")
	return client.Status(err) == http.StatusNotFound
}

// answers reports whether the dinosaur can be reached through its route.
func (p *plane) answers() bool {
	req, err := http.NewRequest(http.MethodGet, "http://"+p.routes+"/", nil)
	if err != nil {
		p.t.Fatal(err)
	}
	req.Host = "rex.dinosaurs.localhost"
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		return false
	}
	resp.Body.Close()
	return resp.StatusCode == http.StatusOK
}

// The server is killed right after each commit that a creation and a deletion
// make, in turn. Every time, what was acknowledged comes true, exactly once.
func TestKilledAtEveryStep(t *testing.T) {
	databases := map[string]func(*testing.T) string{
		"SQLite":     func(*testing.T) string { return "" },
		"PostgreSQL": func(t *testing.T) string { return postgres.Database(t) },
	}
	for name, database := range databases {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			p := newPlane(t, database(t))
			steps := 0
			for n, creating, deleting := 1, true, true; creating || deleting; n++ {
				if n > 40 {
					t.Fatal("a creation does not take forty commits")
				}
				creating = p.step(n, create, p.ready)
				if got := countInstances(p.dir); got != 1 {
					t.Fatalf("killed at commit %d of the creation: %d processes run, not 1", n, got)
				}
				p.await("the route", func(context.Context) bool {
					if p.died() { // of a commit that came after it was ready
						p.start(0)
					}
					return p.answers()
				})
				p.kill()
				deleting = p.step(n, remove, p.gone)
				if got := countInstances(p.dir); got != 0 {
					t.Fatalf("killed at commit %d of the deletion: %d processes still run", n, got)
				}
				p.kill()
				steps = n
			}
			if steps < 4 {
				t.Fatalf("only %d steps were tried: the crash does not work", steps)
			}
			t.Logf("killed at each of %d commits", steps-1)
		})
	}
}
