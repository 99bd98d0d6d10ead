package httpapi_test

import (
	"context"
	"encoding/json"
	"log/slog"
	"sync"
	"testing"
	"time"

	"github.com/droverhq/drover/internal/access"
	"github.com/droverhq/drover/internal/certificate"
	"github.com/droverhq/drover/internal/cluster"
	"github.com/droverhq/drover/internal/fault"
	"github.com/droverhq/drover/internal/hook"
	"github.com/droverhq/drover/internal/httpapi"
	"github.com/droverhq/drover/internal/instance"
	"github.com/droverhq/drover/internal/ledger"
	"github.com/droverhq/drover/internal/reconcile"
	"github.com/droverhq/drover/internal/sso"
)

const realm = "https://sso.example.com/auth/realms/drover"

// staff are the callers of these tests; their name is their token.
var staff = map[string]access.Principal{
	"root":  {User: "root", Admin: true},
	"alice": {User: "alice", Org: "acme", Account: "a-1"},
	"bob":   {User: "bob", Org: "umbrella", OrgAdmin: true},
	"read":  {User: "rita", Issuer: "https://staff", Roles: []string{"KAS-Fleet-Manager-Admin-Read", "fleet-manager-admin-read"}},
	"write": {User: "will", Roles: []string{"kas-fleet-manager-admin-write", "fleet-manager-admin-write"}},
	"full":  {User: "fay", Roles: []string{"offline", "kas-fleet-manager-admin-full", "FLEET-MANAGER-ADMIN-FULL"}},
	"wrong": {User: "walt", Roles: []string{"kas-fleet-manager-admin", "drover-admin-full", "", "admin-full"}},
	"agent": {Cluster: "c1"},
	"other": {Cluster: "c2"},
	// Accounts at the identity provider: that of the agent of c1, another one's,
	// one of the same id at another issuer, a person who uses the same program.
	"account":  {User: "agent-of-c1", Client: "agent-of-c1", Issuer: realm},
	"account2": {User: "agent-of-c2", Client: "agent-of-c2", Issuer: realm},
	"forged":   {User: "agent-of-c1", Client: "agent-of-c1", Issuer: "https://elsewhere"},
	"issuers":  {User: "agent-of-c1", Issuer: realm},
	"roles":    {Cluster: "c9", Roles: []string{"kas-fleet-manager-admin-full"}},
}

type badges struct{}

func (badges) Authenticate(_ context.Context, token string) (access.Principal, error) {
	p, ok := staff[token]
	if !ok {
		return access.Principal{}, fault.New(fault.Denied, "nobody").Because("token")
	}
	return p, nil
}

// office is a fleet with a running loop, identity provider and certificates.
type office struct {
	*fleet
	sso   *clients
	certs *notary
}

// tlsKey begins the private key of every certificate.
const tlsKey = "-----BEGIN PRIVATE KEY----- tls-key-of-"

func newOffice(t *testing.T) *office {
	t.Helper()
	o := &office{sso: &clients{}, certs: &notary{}}
	var kept instance.Config
	var feed *ledger.Feed
	o.fleet = newFleet(t, func(c *httpapi.Config) {
		kept = instance.Config{
			Store: c.Ledger, Keeper: c.Ledger, Offerings: c.Offerings, Clusters: c.Clusters, Hooks: hook.New(nil),
			SSO: o.sso, Certificates: o.certs,
		}
		c.Authenticator, feed = badges{}, c.Feed
	}, func(c *httpapi.Config) {
		kept.Quota = o.quotaOf()
		c.Instances = instance.NewService(kept)
		c.Clusters.Tenants, c.Clusters.Accounts = c.Instances, agentAccounts{}
	})
	loop := reconcile.New(reconcile.Config{
		Ledger: o.ledger, Workers: 4, Logger: slog.New(slog.NewTextHandler(o.logs, nil)),
		Reconcilers: map[string]reconcile.Reconciler{instance.Kind.Name: instance.NewReconciler(kept), cluster.Kind.Name: o.clusters},
	})
	ctx, stop := context.WithCancel(context.Background())
	var running sync.WaitGroup
	running.Go(func() { _ = loop.Run(ctx) })
	running.Go(func() { _ = feed.Run(ctx) })
	t.Cleanup(func() { stop(); running.Wait() })
	return o
}

// quotaOf is generous: everybody may have anything.
func (o *office) quotaOf() *grants {
	g := &grants{}
	for _, org := range []string{"acme", "umbrella"} {
		for _, model := range []string{"standard", "marketplace", "eval", "enterprise"} {
			g.give(org, "standard", model, 100)
		}
	}
	return g
}

// agentAccounts names the account of a cluster's agent after it.
type agentAccounts struct{}

func (agentAccounts) EnsureAgent(_ context.Context, id string) (string, string, error) {
	return "agent-of-" + id, "agent-secret-of-" + id, nil
}
func (agentAccounts) RemoveAgent(context.Context, string) error { return nil }

// clients is an identity provider in memory.
type clients struct {
	mu   sync.Mutex
	list map[string]sso.Client
}

func (c *clients) Apply(_ context.Context, client sso.Client) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.list == nil {
		c.list = map[string]sso.Client{}
	}
	c.list[client.ID] = client
	return nil
}

func (c *clients) Get(_ context.Context, id string) (sso.Client, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if client, ok := c.list[id]; ok {
		return client, nil
	}
	return sso.Client{}, fault.New(fault.NotFound, "no such client")
}

func (c *clients) Delete(_ context.Context, id string) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	delete(c.list, id)
	return nil
}

func (c *clients) Endpoints() sso.Endpoints {
	return sso.Endpoints{Name: "test", BaseURL: "https://sso.example.com", Realm: "drover", Issuer: realm, TokenURL: realm + "/token", JWKSURL: realm + "/certs"}
}

// secrets lists what must be seen nowhere.
func (c *clients) secrets() (out []string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, client := range c.list {
		out = append(out, client.Secret)
	}
	return out
}

// notary has a certificate for every host.
type notary struct {
	mu      sync.Mutex
	revoked map[string]int
	err     error
	only    string // the host that fails; empty: all
}

func (n *notary) fail(err error) { n.failFor("", err) }

func (n *notary) failFor(host string, err error) {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.err, n.only = err, host
}

func (n *notary) For(_ context.Context, host string) (certificate.Certificate, error) {
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.err != nil && (n.only == "" || n.only == host) {
		return certificate.Certificate{}, n.err
	}
	return certificate.Certificate{Cert: "cert-of-" + host, Key: tlsKey + host}, nil
}

func (n *notary) Revoke(_ context.Context, host string, reason int) error {
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.err != nil {
		return n.err
	}
	if n.revoked == nil {
		n.revoked = map[string]int{}
	}
	n.revoked[host] = reason
	return nil
}

// dataPlane registers a cluster, whose outside agent then says that it is ready.
func (o *office) dataPlane(t *testing.T, id, agent string) {
	t.Helper()
	spec := cluster.Spec{Provider: "aws", Region: "us-east-1", Domain: "apps.example.com", External: "ext-" + id, Nodes: 3}
	if _, err := o.clusters.Register(context.Background(), id, spec); err != nil {
		t.Fatal(err)
	}
	o.awaitCluster(t, id, "its account", func(_ ledger.Object, s cluster.Status) bool { return s.Client != "" })
	o.do(t, agent, "PUT", kafkaAPI+"/agent-clusters/"+id+"/status", clusterReady).ok(200)
}

const clusterReady = `{"conditions": [{"type": "Ready", "status": "True"}],
	"capacity": {"standard": {"maxUnits": 5, "remainingUnits": 4}, "developer": {"maxUnits": 2, "remainingUnits": 2}},
	"strimzi": [
		{"ready": true, "version": "strimzi-cluster-operator.v0.10.0", "kafkaVersions": ["3.0.0", "3.1.0"], "kafkaIbpVersions": ["3.0", "3.1"]},
		{"ready": true, "version": "strimzi-cluster-operator.v0.9.0", "kafkaVersions": ["2.8.0", "3.0.0"], "kafkaIbpVersions": ["2.8", "3.0"]},
		{"ready": false, "version": "strimzi-cluster-operator.v0.11.0", "kafkaVersions": ["3.2.0"], "kafkaIbpVersions": ["3.2"]}]}`

// await waits until something is so, looking whenever the ledger has news.
func (o *office) await(t *testing.T, what string, ok func() bool) {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), 20*time.Second)
	defer cancel()
	hints := o.ledger.Hints(ctx)
	for !ok() {
		if _, open := <-hints; !open {
			t.Fatalf("waited in vain for %s", what)
		}
	}
}

func (o *office) awaitCluster(t *testing.T, id, what string, is func(ledger.Object, cluster.Status) bool) {
	t.Helper()
	o.await(t, what+" of cluster "+id, func() bool {
		c, err := o.clusters.Get(context.Background(), id)
		if err != nil {
			return false
		}
		_, status, err := cluster.Decode(c)
		return err == nil && is(c, status)
	})
}

// awaitPhase waits until an instance is in a phase.
func (o *office) awaitPhase(t *testing.T, id, phase string) instance.Instance {
	t.Helper()
	var in instance.Instance
	o.await(t, "phase "+phase+" of "+id, func() bool {
		object, err := o.ledger.Get(context.Background(), ledger.Ref{Kind: instance.Kind.Name, ID: id})
		if err != nil {
			t.Fatal(err)
		}
		in, err = instance.Decode(object)
		if err != nil {
			t.Fatal(err)
		}
		return in.Phase == phase
	})
	return in
}

// provisioned orders a kafka and waits until the agent is to make it.
func (o *office) provisioned(t *testing.T, who, name string) string {
	t.Helper()
	id := o.kafka(t, who, name)
	o.awaitPhase(t, id, instance.Provisioning)
	return id
}

// ready has the outside agent report a kafka as ready.
func (o *office) ready(t *testing.T, agent, clusterID, id string) {
	t.Helper()
	body, _ := json.Marshal(map[string]any{id: map[string]any{
		"conditions": []any{map[string]any{"type": "Ready", "status": "True"}},
		"versions":   map[string]any{"kafka": "3.1.0", "strimzi": "strimzi-cluster-operator.v0.10.0", "kafkaIbp": "3.1"},
		"routes": []any{
			map[string]any{"name": "bootstrap", "prefix": "", "router": "ingresscontroller.kas.apps.example.com"},
			map[string]any{"name": "admin-server", "prefix": "admin-server", "router": "ingresscontroller.kas.apps.example.com"},
			map[string]any{"name": "evil", "prefix": "evil", "router": "elsewhere.example.org"},
		},
		"adminServerURI": "https://admin-server.example.com",
	}})
	o.do(t, agent, "PUT", kafkaAPI+"/agent-clusters/"+clusterID+"/kafkas/status", string(body)).ok(200)
	o.awaitPhase(t, id, instance.Ready)
}
