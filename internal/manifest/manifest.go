// Package manifest applies sets of Kubernetes objects to a cluster: server-side
// apply with field ownership, in the order that the kinds need, pruned by
// inventory, and tells what has become of them.
//
// It wraps fluxcd's ssa and kstatus; it must not know what the objects are for.
package manifest

import (
	"net/http"
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
	"k8s.io/klog/v2"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/apiutil"
	"sigs.k8s.io/controller-runtime/pkg/log"

	"github.com/droverhq/drover/internal/fault"
)

// The label and the annotation that tell whose an object is. A label value is
// short, so a long owner is a digest there and spelled out in the annotation.
const (
	OwnerLabel      = "drover.dev/owner"
	OwnerAnnotation = "drover.dev/owned-by"
)

// Config of a Client. The zero value is for a program that runs in the cluster.
type Config struct {
	// Kubeconfig to reach the cluster with; nil: the account of the pod that the
	// program runs in. It may neither start programs nor name files: it may come
	// from somebody who has no business on this machine.
	Kubeconfig []byte
	// Manager is the name under which fields are owned; default "drover".
	Manager string
	// Timeout of one request; default 15 s.
	Timeout time.Duration
	// Establish is how long to wait for new kinds to be served; default 30 s.
	Establish time.Duration
	// Renew is how long a watch lives before another goes on from where it was;
	// default 40 s: what one kept back is told within a minute.
	Renew time.Duration
	// Wrap sees every request, for fences and tests; nil: nobody does.
	Wrap func(http.RoundTripper) http.RoundTripper
}

// Client applies to one cluster. Methods may be called concurrently.
type Client struct {
	cfg    Config
	rest   *rest.Config
	http   *http.Client
	kube   client.Client
	mapper meta.RESTMapper
}

// Open prepares to talk to a cluster; nothing is sent yet.
func Open(cfg Config) (*Client, error) {
	if cfg.Manager == "" {
		cfg.Manager = "drover"
	}
	if cfg.Timeout <= 0 {
		cfg.Timeout = 15 * time.Second
	}
	if cfg.Establish <= 0 {
		cfg.Establish = 30 * time.Second
	}
	if cfg.Renew <= 0 {
		cfg.Renew = 40 * time.Second
	}
	reach, err := reach(cfg.Kubeconfig)
	if err != nil {
		return nil, err
	}
	// The server has its own fair queues; ours only keeps one agent from being a flood.
	reach.QPS, reach.Burst = 100, 200
	reach.UserAgent = cfg.Manager
	if cfg.Wrap != nil {
		reach.Wrap(cfg.Wrap)
	}
	reach.Wrap(func(next http.RoundTripper) http.RoundTripper { return renewing{next, cfg.Renew} })
	// Kubernetes warns about deprecated kinds on the standard error of whoever
	// asks; that is not ours to write to.
	reach.WarningHandler = rest.NoWarnings{}
	hc, err := rest.HTTPClientFor(reach)
	if err != nil {
		return nil, fault.New(fault.Invalid, "the kubeconfig cannot be used: %w", err)
	}
	mapper, err := apiutil.NewDynamicRESTMapper(reach, hc)
	if err != nil {
		return nil, fault.New(fault.Invalid, "the kubeconfig cannot be used: %w", err)
	}
	quiet()
	kube, err := client.New(reach, client.Options{HTTPClient: hc, Mapper: mapper})
	if err != nil {
		return nil, fault.New(fault.Invalid, "the kubeconfig cannot be used: %w", err)
	}
	return &Client{cfg: cfg, rest: reach, http: hc, kube: kube, mapper: mapper}, nil
}

// quiet keeps the libraries from writing to the standard error: errors are
// returned, and logged by whoever gets them.
var quiet = sync.OnceFunc(func() {
	log.SetLogger(klog.Logger{})
	klog.SetLogger(klog.Logger{})
})

func reach(kubeconfig []byte) (*rest.Config, error) {
	if kubeconfig == nil {
		cfg, err := rest.InClusterConfig()
		if err != nil {
			return nil, fault.New(fault.Invalid, "there is no kubeconfig, and the program does not run in a cluster: %w", err)
		}
		return cfg, nil
	}
	loaded, err := clientcmd.Load(kubeconfig)
	if err != nil {
		// What cannot be read may hold a token, so it is not quoted.
		return nil, fault.New(fault.Invalid, "the kubeconfig cannot be read as one")
	}
	for _, user := range loaded.AuthInfos {
		if user.Exec != nil || user.AuthProvider != nil {
			return nil, fault.New(fault.Invalid, "the kubeconfig starts a program to log in: use one with a token or a certificate")
		}
		if user.TokenFile != "" || user.ClientCertificate != "" || user.ClientKey != "" {
			return nil, fault.New(fault.Invalid, "the kubeconfig names files: use one that holds token and certificates itself (kubectl config view --flatten --raw)")
		}
	}
	for _, c := range loaded.Clusters {
		if c.CertificateAuthority != "" {
			return nil, fault.New(fault.Invalid, "the kubeconfig names files: use one that holds token and certificates itself (kubectl config view --flatten --raw)")
		}
	}
	cfg, err := clientcmd.NewDefaultClientConfig(*loaded, &clientcmd.ConfigOverrides{}).ClientConfig()
	if err != nil {
		return nil, fault.New(fault.Invalid, "the kubeconfig names no cluster that can be reached: it needs a current context with a cluster and a user")
	}
	return cfg, nil
}

// REST is how the cluster is reached, for those who watch it.
func (c *Client) REST() *rest.Config { return rest.CopyConfig(c.rest) }

// HTTP is the connection that all requests share.
func (c *Client) HTTP() *http.Client { return c.http }

// Mapper knows the kinds that the cluster serves, new ones included.
func (c *Client) Mapper() meta.RESTMapper { return c.mapper }

// Kube reads and writes single objects.
func (c *Client) Kube() client.Client { return c.kube }
