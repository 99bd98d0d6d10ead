package kubernetes

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"strconv"
	"sync"
	"testing"
	"time"

	authv1 "k8s.io/api/authentication/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
	clientapi "k8s.io/client-go/tools/clientcmd/api"

	"github.com/droverhq/drover/test/servers"
	"github.com/droverhq/drover/test/servers/built"
	"github.com/droverhq/drover/test/servers/process"
)

// patience bounds a start, which takes 3 to 20 seconds.
const patience = 5 * time.Minute

// Process is one server of a cluster.
type Process = process.Process

// Cluster is a running Kubernetes without nodes.
type Cluster struct {
	URL string // of the API server

	// The servers, for tests that stop, kill or pause them. All are nil in a
	// cluster that somebody else runs; Controllers also where none were asked for.
	Etcd, API, Controllers *Process

	admin *rest.Config
	ca    *authority
	leash *process.Leash

	etcdPort string
	ports    []string
}

// Option changes what is started.
type Option func(*options)

type options struct {
	controllers bool
	workloads   bool
	quota       int64
	flags       []string
}

// WithControllers adds the controllers that finish deletions (of namespaces and of
// what is owned), make service accounts and count quotas. Deployments have none:
// their status is set by hand.
func WithControllers() Option { return func(o *options) { o.controllers = true } }

// WithQuota bounds the bytes that etcd keeps, for tests in which it is full.
func WithQuota(bytes int64) Option { return func(o *options) { o.quota = bytes } }

// WithFlags adds flags of the API server.
func WithFlags(flags ...string) Option {
	return func(o *options) { o.flags = append(o.flags, flags...) }
}

// Start runs a cluster of the test's own, which ends with it.
func Start(t testing.TB, with ...Option) *Cluster {
	t.Helper()
	need(t)
	c, err := New(with...)
	if err != nil {
		t.Fatalf("cannot run Kubernetes: %v", err)
	}
	t.Cleanup(c.Close)
	return c
}

// Shared returns the test process's one cluster, with controllers. Tests keep
// apart by namespaces, and stop none of its servers.
func Shared(t testing.TB) *Cluster {
	t.Helper()
	need(t)
	c, err := shared()
	if err != nil {
		t.Fatalf("cannot run Kubernetes: %v", err)
	}
	return c
}

func need(t testing.TB) {
	if os.Getenv("DROVER_TEST_NO_KUBERNETES") == "1" {
		t.Skip("there is no Kubernetes: `test/with-kubernetes.sh true` brings it")
	}
}

// The process's end stops it, by its leash.
var shared = sync.OnceValues(func() (*Cluster, error) {
	if path := os.Getenv("DROVER_TEST_KUBECONFIG"); path != "" {
		admin, err := clientcmd.BuildConfigFromFlags("", path)
		if err != nil {
			return nil, err
		}
		return &Cluster{URL: admin.Host, admin: admin}, nil
	}
	return New(WithControllers())
})

// New runs a cluster until it is closed, or until the process ends.
func New(with ...Option) (*Cluster, error) {
	var o options
	for _, w := range with {
		w(&o)
	}
	ctx, cancel := context.WithTimeout(context.Background(), 40*time.Minute)
	defer cancel()
	etcd, err := servers.Build(ctx, built.Etcd, os.Stderr)
	if err != nil {
		return nil, err
	}
	kube, err := servers.Build(ctx, built.Kubernetes, os.Stderr)
	if err != nil {
		return nil, err
	}
	// A port that was free may be taken by the time that it is used.
	for range 3 {
		var c *Cluster
		if c, err = launch(etcd, kube, o); err == nil {
			return c, nil
		}
	}
	return nil, err
}

func launch(etcd, kube string, o options) (c *Cluster, err error) {
	c = &Cluster{}
	if c.leash, err = process.NewLeash("kubernetes"); err != nil {
		return nil, err
	}
	defer func() {
		if err != nil {
			c.Close()
		}
	}()
	if c.ca, err = newAuthority(); err != nil {
		return c, err
	}
	if err = c.ca.lay(c.leash.Dir); err != nil {
		return c, err
	}
	ports, err := freePorts(3)
	if err != nil {
		return c, err
	}
	c.ports = ports
	c.URL = "https://127.0.0.1:" + ports[2]
	token := rand.Text()
	c.admin = &rest.Config{Host: c.URL, BearerToken: token, TLSClientConfig: rest.TLSClientConfig{CAData: c.ca.pem}, QPS: 500, Burst: 1000}
	if err = os.WriteFile(c.file("tokens"), []byte(token+",admin,admin,system:masters\n"), 0o600); err != nil {
		return c, err
	}
	kubeconfig, err := c.kubeconfig()
	if err != nil {
		return c, err
	}
	if err = os.WriteFile(c.file("kubeconfig"), kubeconfig, 0o600); err != nil {
		return c, err
	}
	c.etcdPort = ports[0]
	c.Etcd = c.process("etcd", filepath.Join(etcd, "etcd"), c.etcdFlags(ports[0], ports[1], o))
	c.API = c.process("kube-apiserver", filepath.Join(kube, "kube-apiserver"), c.apiFlags(ports[0], ports[2], o))
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	for _, p := range []*Process{c.Etcd, c.API} {
		if err = p.Start(); err != nil {
			return c, err
		}
	}
	if err = c.Ready(ctx); err != nil || !o.controllers {
		return c, err
	}
	// They give up where the API server is not well within ten seconds, and on a busy
	// machine it is not: they begin when it is.
	c.Controllers = c.process("kube-controller-manager", filepath.Join(kube, "kube-controller-manager"), c.controllerFlags(o))
	if err = c.Controllers.Start(); err != nil {
		return c, err
	}
	return c, c.Ready(ctx)
}

func (c *Cluster) process(name, path string, args []string) *Process {
	return c.leash.Process(name, path, args...)
}

func (c *Cluster) processes() []*Process {
	var list []*Process
	for _, p := range []*Process{c.Etcd, c.API, c.Controllers} {
		if p != nil {
			list = append(list, p)
		}
	}
	return list
}

func (c *Cluster) file(name string) string { return c.leash.File(name) }

// Close ends the servers and removes their data.
func (c *Cluster) Close() {
	if c.leash != nil { // not somebody else's
		c.leash.Release()
		for _, port := range c.ports {
			given.Delete(port)
		}
	}
}

// Ready waits until the API server takes writes and, where there are controllers,
// until these are at work. After a stop it may be called again.
func (c *Cluster) Ready(ctx context.Context) error {
	client, err := kubernetes.NewForConfig(c.admin)
	if err != nil {
		return err
	}
	for {
		err := c.look(ctx, client)
		// Also where somebody answers: it may be another's server, on a port that was ours.
		for _, p := range c.processes() {
			if !p.Running() {
				return fmt.Errorf("%s has ended; its log: %s", p.Name, p.Log())
			}
		}
		if err == nil {
			return nil
		}
		select {
		case <-ctx.Done():
			if c.API == nil {
				return err
			}
			return fmt.Errorf("the API server is not ready: %w; its log: %s", err, c.API.Log())
		case <-time.After(100 * time.Millisecond): // the server offers no signal to wait for
		}
	}
}

func (c *Cluster) look(ctx context.Context, client kubernetes.Interface) error {
	ctx, cancel := context.WithTimeout(ctx, 5*time.Second)
	defer cancel()
	if _, err := client.Discovery().RESTClient().Get().AbsPath("/readyz").DoRaw(ctx); err != nil {
		return err
	}
	if _, err := client.CoreV1().Namespaces().Get(ctx, metav1.NamespaceDefault, metav1.GetOptions{}); err != nil {
		return err
	}
	if c.Controllers == nil {
		return nil
	}
	_, err := client.CoreV1().ServiceAccounts(metav1.NamespaceDefault).Get(ctx, "default", metav1.GetOptions{})
	if apierrors.IsNotFound(err) {
		return errors.New("the controllers have made no service account yet")
	}
	return err
}

// Admin returns how the cluster is reached by someone who may do everything.
func (c *Cluster) Admin() *rest.Config { return rest.CopyConfig(c.admin) }

// Client is the administrator's.
func (c *Cluster) Client(t testing.TB) kubernetes.Interface {
	t.Helper()
	client, err := kubernetes.NewForConfig(c.admin)
	if err != nil {
		t.Fatal(err)
	}
	return client
}

// Kubeconfig is the administrator's.
func (c *Cluster) Kubeconfig() []byte {
	data, err := c.kubeconfig()
	if err != nil {
		panic(err) // it is made of text that was made here
	}
	return data
}

func (c *Cluster) kubeconfig() ([]byte, error) {
	return write(c.URL, c.admin.CAData, &clientapi.AuthInfo{
		Token: c.admin.BearerToken, ClientCertificateData: c.admin.CertData, ClientKeyData: c.admin.KeyData,
	})
}

// KubeconfigOf is that of a user in groups, who may do nothing yet.
func (c *Cluster) KubeconfigOf(t testing.TB, user string, groups ...string) []byte {
	t.Helper()
	if c.ca == nil {
		t.Skip("somebody else's cluster signs no certificates")
	}
	cert, key, err := c.ca.client(user, groups)
	if err != nil {
		t.Fatal(err)
	}
	data, err := write(c.URL, c.ca.pem, &clientapi.AuthInfo{ClientCertificateData: cert, ClientKeyData: key})
	if err != nil {
		t.Fatal(err)
	}
	return data
}

// KubeconfigOfAccount is that of a service account, with a token as its pods have.
func (c *Cluster) KubeconfigOfAccount(t testing.TB, namespace, name string) []byte {
	t.Helper()
	request, err := c.Client(t).CoreV1().ServiceAccounts(namespace).CreateToken(t.Context(), name, &authv1.TokenRequest{}, metav1.CreateOptions{})
	if err != nil {
		t.Fatalf("cannot have a token made: %v", err)
	}
	data, err := write(c.URL, c.admin.CAData, &clientapi.AuthInfo{Token: request.Status.Token})
	if err != nil {
		t.Fatal(err)
	}
	return data
}

func write(url string, ca []byte, who *clientapi.AuthInfo) ([]byte, error) {
	config := clientapi.NewConfig()
	config.Clusters["test"] = &clientapi.Cluster{Server: url, CertificateAuthorityData: ca}
	config.AuthInfos["test"] = who
	config.Contexts["test"] = &clientapi.Context{Cluster: "test", AuthInfo: "test"}
	config.CurrentContext = "test"
	return clientcmd.Write(*config)
}

// given are the ports of this process's clusters: a server that is away for a moment
// finds its port again.
var given sync.Map

// The ports are below those that the system gives to outgoing connections, and below
// those of test/drover: one of them would be taken before its server listens. Each
// process has some of its own, since two clusters that begin at the same time may find
// the same one free, and the second API server would speak to the first one's etcd.
const firstPort, slices, slice = 10_000, 16, 250

func freePorts(n int) (ports []string, err error) {
	var held []net.Listener
	defer func() {
		for _, l := range held {
			l.Close()
		}
		if err != nil {
			for _, port := range ports {
				given.Delete(port)
			}
		}
	}()
	for tries := 0; len(ports) < n; tries++ {
		b := make([]byte, 2)
		rand.Read(b)
		port := strconv.Itoa(firstPort + os.Getpid()%slices*slice + (int(b[0])<<8|int(b[1]))%slice)
		if tries > 20*slice {
			return ports, errors.New("there are no free ports left for clusters of tests")
		}
		if _, is := given.LoadOrStore(port, true); is {
			continue
		}
		l, err := net.Listen("tcp", "127.0.0.1:"+port)
		if err != nil {
			given.Delete(port)
			continue
		}
		held, ports = append(held, l), append(ports, port)
	}
	return ports, nil
}
