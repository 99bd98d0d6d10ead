package argocd

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/rest"

	"github.com/droverhq/drover/test/kubernetes"
	"github.com/droverhq/drover/test/servers"
	"github.com/droverhq/drover/test/servers/built"
	"github.com/droverhq/drover/test/servers/process"
)

// patience bounds a start, which takes 2 to 20 seconds.
const patience = 3 * time.Minute

// Server is one Argo CD.
type Server struct {
	Namespace string // where its settings, projects and repositories are
	Cluster   *kubernetes.Cluster

	// For tests that stop, kill or pause them; Ready brings them back.
	Redis, RepoServer, Controller *process.Process
	RedisAddress                  string

	leash  *process.Leash
	client dynamic.Interface
	health map[*process.Process]string // URL that answers once it is ready
	ended  context.CancelFunc          // stops the kubelet's part
	gone   chan struct{}               // closed once that has stopped
}

// Option changes what is started.
type Option func(*options)

type options struct {
	namespace  string
	namespaces string
	resync     time.Duration
	settings   map[string]string
	flags      []string
}

// WithNamespace says where it is installed. Several in one cluster need a
// namespace each; the default is argocd.
func WithNamespace(name string) Option { return func(o *options) { o.namespace = name } }

// WithApplicationsIn lets Applications be in further namespaces (patterns, with
// commas between them), if their project lets them too.
func WithApplicationsIn(patterns string) Option { return func(o *options) { o.namespaces = patterns } }

// WithResync says how often it looks into Git without being asked to. The default
// is a minute; a test of being asked wants it to be long.
func WithResync(every time.Duration) Option { return func(o *options) { o.resync = every } }

// WithSettings adds to its ConfigMap argocd-cm.
func WithSettings(settings map[string]string) Option {
	return func(o *options) { o.settings = settings }
}

// WithFlags adds flags of the application controller.
func WithFlags(flags ...string) Option {
	return func(o *options) { o.flags = append(o.flags, flags...) }
}

// Start runs an Argo CD of the test's own in a cluster, which ends with it. The
// cluster has controllers.
func Start(t testing.TB, cluster *kubernetes.Cluster, with ...Option) *Server {
	t.Helper()
	need(t)
	s, err := New(cluster, with...)
	if err != nil {
		t.Fatalf("cannot run Argo CD: %v", err)
	}
	t.Cleanup(s.Close)
	s.explain(t)
	return s
}

// Shared returns the test process's one Argo CD, in the cluster that
// [kubernetes.Shared] returns. Tests keep apart by the names of their
// Applications and projects, and stop none of its servers.
func Shared(t testing.TB) *Server {
	t.Helper()
	need(t)
	cluster := kubernetes.Shared(t)
	once.Do(func() { shared, failed = New(cluster) })
	if failed != nil {
		t.Fatalf("cannot run Argo CD: %v", failed)
	}
	shared.explain(t)
	return shared
}

// The process's end stops it, by its leash.
var (
	once   sync.Once
	shared *Server
	failed error
)

func need(t testing.TB) {
	if os.Getenv("DROVER_TEST_NO_ARGOCD") == "1" {
		t.Skip("there is no Argo CD: `test/with-argocd.sh true` brings it")
	}
}

// explain shows what the servers said, if the test fails.
func (s *Server) explain(t testing.TB) {
	t.Cleanup(func() {
		if t.Failed() {
			for _, p := range []*process.Process{s.RepoServer, s.Controller} {
				t.Logf("%s said last: %s", p.Name, p.Log())
			}
		}
	})
}

// New runs an Argo CD until it is closed, or until the process ends.
func New(cluster *kubernetes.Cluster, with ...Option) (*Server, error) {
	o := options{namespace: "argocd", resync: time.Minute}
	for _, w := range with {
		w(&o)
	}
	ctx, cancel := context.WithTimeout(context.Background(), 40*time.Minute)
	defer cancel()
	p := programs{}
	for _, want := range []struct {
		server servers.Built
		dir    *string
	}{{built.ArgoCD, &p.argocd}, {built.Helm, &p.helm}, {built.Kustomize, &p.kustomize}} {
		dir, err := servers.Build(ctx, want.server, os.Stderr)
		if err != nil {
			return nil, err
		}
		*want.dir = dir
	}
	var err error
	if p.redis, err = exec.LookPath("redis-server"); err != nil {
		return nil, fmt.Errorf("there is no Redis (apt-get install -y redis-server): %w", err)
	}
	// A port that was free may be taken by the time that it is used.
	for range 3 {
		var s *Server
		if s, err = launch(cluster, p, o); err == nil {
			return s, nil
		}
	}
	return nil, err
}

// programs are the directories that they are built into, and Redis.
type programs struct{ argocd, helm, kustomize, redis string }

func launch(cluster *kubernetes.Cluster, p programs, o options) (s *Server, err error) {
	s = &Server{Namespace: o.namespace, Cluster: cluster, ended: func() {}, gone: make(chan struct{})}
	if s.leash, err = process.NewLeash("argocd"); err != nil {
		return nil, err
	}
	watching := false
	defer func() {
		if err != nil {
			if !watching {
				close(s.gone)
			}
			s.Close()
		}
	}()
	admin := cluster.Admin()
	admin.WarningHandler = rest.NoWarnings{} // of the name of Argo CD's finalizer
	if s.client, err = dynamic.NewForConfig(admin); err != nil {
		return nil, err
	}
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	if err := s.install(ctx, p.argocd, o); err != nil {
		return nil, fmt.Errorf("cannot install it: %w", err)
	}
	if err := os.WriteFile(s.leash.File("kubeconfig"), cluster.Kubeconfig(), 0o600); err != nil {
		return nil, err
	}
	for _, dir := range []string{"tls", "ssh", "gpg-keys", "gpg-source", "plugins", "conf"} {
		if err := os.Mkdir(s.leash.File(dir), 0o700); err != nil {
			return nil, err
		}
	}
	ports, err := s.leash.Ports(4)
	if err != nil {
		return nil, err
	}
	s.processes(p, ports, o)
	// Ends with Close.
	play, stop := context.WithCancel(context.Background())
	s.ended, watching = stop, true
	go func() { defer close(s.gone); s.mount(play) }()
	return s, s.Ready(ctx)
}

// Ready starts what was stopped, and waits until all of it is at work.
func (s *Server) Ready(ctx context.Context) error {
	for _, p := range []*process.Process{s.Redis, s.RepoServer, s.Controller} {
		if err := p.Ready(ctx, func(ctx context.Context) error { return answers(ctx, s.health[p]) }); err != nil {
			return err
		}
	}
	return nil
}

// answers asks a server whether it is well. Of Redis it is enough that it listens.
func answers(ctx context.Context, url string) error {
	if at, is := strings.CutPrefix(url, "redis://"); is {
		c, err := new(net.Dialer).DialContext(ctx, "tcp", at)
		if err != nil {
			return err
		}
		return c.Close()
	}
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
	if err != nil {
		return err
	}
	res, err := http.DefaultClient.Do(req)
	if err != nil {
		return err
	}
	defer res.Body.Close()
	if res.StatusCode != http.StatusOK {
		return errors.New(res.Status)
	}
	return nil
}

// Close ends the servers and removes their data. What they have made in the
// cluster stays.
func (s *Server) Close() {
	s.ended()
	<-s.gone
	s.leash.Release()
}

// file is one in the servers' own directory.
func (s *Server) file(names ...string) string {
	return filepath.Join(append([]string{s.leash.Dir}, names...)...)
}
