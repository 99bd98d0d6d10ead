package remote

import (
	"context"
	"io"
	"net"
	"net/http"
	"strings"
	"time"

	core "k8s.io/api/core/v1"
	rbac "k8s.io/api/rbac/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/droverhq/drover/internal/fault"
	"github.com/droverhq/drover/internal/gitops"
	"github.com/droverhq/drover/internal/resilience"
)

// Config of Clients. The zero value is ready.
type Config struct {
	// Resilience of calls to one cluster; each has its own breaker. Defaults: 10 s
	// for an attempt, one retry, 8 at once.
	Resilience resilience.Config
	// Patience with a cluster that is to make a token; default 20 s.
	Patience time.Duration
	// Wrap sees every request, for tests; nil: nobody does.
	Wrap func(http.RoundTripper) http.RoundTripper
}

// Clients implements gitops.Remote. It is safe for concurrent use, and keeps no
// connections.
type Clients struct {
	cfg      Config
	policies *resilience.Group // by host
}

var _ gitops.Remote = (*Clients)(nil)

const maxBody = 8 << 20 // of one answer

// New makes clients.
func New(c Config) *Clients {
	if c.Resilience.Name == "" {
		c.Resilience.Name = "the cluster" // one for all: hosts are a tenant's choice
	}
	if c.Resilience.Timeout <= 0 {
		c.Resilience.Timeout = 10 * time.Second
	}
	if c.Resilience.Retries == 0 {
		c.Resilience.Retries = 1
	}
	if c.Resilience.AtOnce <= 0 {
		c.Resilience.AtOnce = 8
	}
	if c.Patience <= 0 {
		c.Patience = 20 * time.Second
	}
	return &Clients{cfg: c, policies: resilience.NewGroup(c.Resilience)}
}

// session is one conversation with one cluster.
type session struct {
	client.Client
	http   *http.Client
	host   string
	policy *resilience.Policy
	reason string // of the condition that a failure is told by
}

// do makes one call, which may be made twice.
func (s *session) do(ctx context.Context, call func(ctx context.Context) error) error {
	return s.policy.Do(ctx, func(ctx context.Context) error { return s.explain(call(ctx)) })
}

func (s *session) close() { s.http.CloseIdleConnections() }

// open prepares a conversation; nothing is sent yet.
func (c *Clients) open(at gitops.RemoteCluster, reason string) (*session, error) {
	cfg, err := c.config(at)
	if err != nil {
		return nil, err
	}
	hc, err := rest.HTTPClientFor(cfg)
	if err != nil { // it may quote the certificate
		return nil, fault.New(fault.Invalid, "the certificates of the kubeconfig cannot be read").Because("UnableToCreateClient")
	}
	hc.CheckRedirect = func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }
	kube, err := client.New(cfg, client.Options{HTTPClient: hc, Scheme: scheme, Mapper: mapper})
	if err != nil {
		return nil, fault.New(fault.Invalid, "the address of the cluster cannot be used").Because("UnableToCreateClient")
	}
	return &session{Client: kube, http: hc, host: strings.TrimRight(cfg.Host, "/"), policy: c.policies.Of(strings.ToLower(cfg.Host)), reason: reason}, nil
}

// config takes only what is understood: no program is started, no file is read.
func (c *Clients) config(at gitops.RemoteCluster) (*rest.Config, error) {
	cfg := &rest.Config{
		Host: at.Server, BearerToken: at.Token, Timeout: c.cfg.Resilience.Timeout, QPS: 50, Burst: 100,
		UserAgent: "drover", WarningHandler: rest.NoWarnings{}, Dial: dial,
		TLSClientConfig: rest.TLSClientConfig{CAData: at.CA, Insecure: at.Insecure},
	}
	if len(at.Kubeconfig) > 0 {
		if err := login(cfg, at.Kubeconfig); err != nil {
			return nil, err
		}
	}
	if cfg.Insecure {
		cfg.CAData, cfg.ServerName = nil, ""
	}
	if !strings.HasPrefix(strings.ToLower(cfg.Host), "https://") {
		return nil, fault.New(fault.Invalid, "cluster api url must start with https://").Because("UnableToCreateClient")
	}
	cfg.Wrap(func(rt http.RoundTripper) http.RoundTripper { return bounded{rt} })
	if c.cfg.Wrap != nil {
		cfg.Wrap(c.cfg.Wrap)
	}
	return cfg, nil
}

func login(cfg *rest.Config, kubeconfig []byte) error {
	bad := fault.New(fault.Invalid, "the kubeconfig cannot be used: it must hold a token or a certificate itself").Because("UnableToRetrieveRestConfig")
	k, err := clientcmd.Load(kubeconfig)
	if err != nil {
		return bad
	}
	at := k.Contexts[k.CurrentContext]
	if at == nil || k.Clusters[at.Cluster] == nil || k.AuthInfos[at.AuthInfo] == nil {
		return bad
	}
	cluster, user := k.Clusters[at.Cluster], k.AuthInfos[at.AuthInfo]
	if user.Exec != nil || user.AuthProvider != nil || user.TokenFile != "" || user.ClientCertificate != "" || user.ClientKey != "" ||
		user.Impersonate != "" || cluster.CertificateAuthority != "" || cluster.ProxyURL != "" {
		return bad
	}
	cfg.BearerToken, cfg.Username, cfg.Password = user.Token, user.Username, user.Password
	cfg.CertData, cfg.KeyData = user.ClientCertificateData, user.ClientKeyData
	cfg.ServerName = cluster.TLSServerName
	if len(cluster.CertificateAuthorityData) > 0 {
		cfg.CAData = cluster.CertificateAuthorityData
	}
	return nil
}

// What is asked for is known beforehand, so nobody has to be asked what there is.
var scheme, mapper = func() (*runtime.Scheme, meta.RESTMapper) {
	s := runtime.NewScheme()
	for _, add := range []func(*runtime.Scheme) error{core.AddToScheme, rbac.AddToScheme} {
		if err := add(s); err != nil {
			panic(err) // of two packages that do not fit each other
		}
	}
	m := meta.NewDefaultRESTMapper([]schema.GroupVersion{core.SchemeGroupVersion, rbac.SchemeGroupVersion})
	for _, kind := range []string{"Namespace"} {
		m.Add(core.SchemeGroupVersion.WithKind(kind), meta.RESTScopeRoot)
	}
	for _, kind := range []string{"ServiceAccount", "Secret"} {
		m.Add(core.SchemeGroupVersion.WithKind(kind), meta.RESTScopeNamespace)
	}
	for _, kind := range []string{"ClusterRole", "ClusterRoleBinding"} {
		m.Add(rbac.SchemeGroupVersion.WithKind(kind), meta.RESTScopeRoot)
	}
	for _, kind := range []string{"Role", "RoleBinding"} {
		m.Add(rbac.SchemeGroupVersion.WithKind(kind), meta.RESTScopeNamespace)
	}
	return s, m
}()

// dial keeps away from what only this machine's own network answers: metadata
// services are there.
func dial(ctx context.Context, network, address string) (net.Conn, error) {
	d := net.Dialer{Timeout: 5 * time.Second, Control: resilience.Control}
	return d.DialContext(ctx, network, address)
}

// bounded reads no more of an answer than anybody would have to send.
type bounded struct{ http.RoundTripper }

func (b bounded) RoundTrip(r *http.Request) (*http.Response, error) {
	res, err := b.RoundTripper.RoundTrip(r)
	if err != nil {
		return nil, err
	}
	res.Body = struct {
		io.Reader
		io.Closer
	}{io.LimitReader(res.Body, maxBody), res.Body}
	return res, nil
}
