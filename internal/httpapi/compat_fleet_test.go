package httpapi_test

import (
	"context"
	"encoding/json"
	"fmt"
	"math"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/droverhq/drover/internal/access"
	"github.com/droverhq/drover/internal/account"
	"github.com/droverhq/drover/internal/cluster"
	"github.com/droverhq/drover/internal/entitlement"
	"github.com/droverhq/drover/internal/fault"
	"github.com/droverhq/drover/internal/httpapi"
	"github.com/droverhq/drover/internal/instance"
	"github.com/droverhq/drover/internal/ledger"
	"github.com/droverhq/drover/internal/metric"
	"github.com/droverhq/drover/offerings"
)

const (
	kafkaAPI = "/api/kafkas_mgmt/v1"
	kafkas   = kafkaAPI + "/kafkas"
)

// fleet is a rig that sells kafkas too, with everything around it that can be
// asked: quotas, a policy, service accounts, metrics.
type fleet struct {
	*rig
	quota    *grants
	policy   *doorman
	accounts *ledgerOfAccounts
	metrics  *gauges
}

func newFleet(t testing.TB, edit ...func(*httpapi.Config)) *fleet {
	t.Helper()
	f := &fleet{quota: &grants{}, policy: &doorman{}, accounts: &ledgerOfAccounts{}, metrics: &gauges{}}
	shelves := &shelf{}
	for _, file := range []string{"dinosaur.yaml", "kafka.yaml"} {
		data, err := offerings.FS.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		shelves.put(t, data)
	}
	all := append([]func(*httpapi.Config){func(c *httpapi.Config) {
		c.Offerings = shelves
		c.Instances = instance.NewService(instance.Config{
			Store: c.Ledger, Offerings: shelves, Clusters: c.Clusters, Quota: f.quota, Policy: f.policy, Metrics: f.metrics,
		})
		c.Policy, c.Accounts, c.Version, c.URL = f.policy, f.accounts, "1.2.3", "https://drover.example.com"
		c.SSO = func() httpapi.SSO {
			return httpapi.SSO{Name: "builtin", BaseURL: "https://sso.example.com", Realm: "drover", Issuer: "https://sso.example.com/auth/realms/drover",
				TokenURL: "https://sso.example.com/token", JWKSURL: "https://sso.example.com/jwks"}
		}
	}}, edit...)
	f.rig = newRig(t, append(all, func(c *httpapi.Config) { f.instancesOf(c) })...)
	f.instances = f.quota.service
	f.shelf = shelves
	return f
}

// instancesOf keeps the service that the API was given at last.
func (f *fleet) instancesOf(c *httpapi.Config) { f.quota.service = c.Instances }

// kafka orders one and returns its id.
func (f *fleet) kafka(t testing.TB, token, name string) string {
	t.Helper()
	return f.do(t, token, "POST", kafkas+"?async=true", `{"name":"`+name+`"}`).ok(202).object()["id"].(string)
}

// move puts an instance into a phase, as the loop would in the end.
func (f *fleet) move(t testing.TB, id, phase string) {
	t.Helper()
	ctx := context.Background()
	o, err := f.ledger.Get(ctx, ledger.Ref{Kind: instance.Kind.Name, ID: id})
	if err != nil {
		t.Fatal(err)
	}
	version := o.Version
	o.Phase = phase
	if _, err := f.ledger.Commit(ctx, ledger.Set{Actor: "test", Cause: ledger.ByRequest("test"), Puts: []ledger.Put{{Object: o, Expect: version, Op: "test"}}}); err != nil {
		t.Fatal(err)
	}
}

// room brings a cluster with some units.
func (f *fleet) room(t testing.TB, id, provider, region string, units int64) {
	t.Helper()
	ctx := context.Background()
	if _, err := f.clusters.Register(ctx, id, cluster.Spec{Provider: provider, Region: region}); err != nil {
		t.Fatal(err)
	}
	if err := f.clusters.Report(ctx, id, cluster.Report{Agent: "a-" + id, Installation: "i-" + id, Number: 1, Ready: true, Capacity: units}); err != nil {
		t.Fatal(err)
	}
}

// grants is a source of quota: units by organisation, type and model.
type grants struct {
	mu      sync.Mutex
	units   map[string]int64
	away    bool
	service *instance.Service
}

func (g *grants) give(org, typ, model string, units int64) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.units == nil {
		g.units = map[string]int64{}
	}
	g.units[org+"/"+typ+"/"+model] = units
}

func (g *grants) Name() string { return "quota-management-list" }

func (g *grants) Grant(_ context.Context, who entitlement.Who, p entitlement.Product) (entitlement.Grant, error) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.away {
		return entitlement.Grant{}, fault.New(fault.Unavailable, "it is away")
	}
	return entitlement.Grant{Units: g.units[who.Org+"/"+p.Type+"/"+p.Billing], Holder: "org/" + who.Org}, nil
}

func (g *grants) Reserve(context.Context, entitlement.Who, entitlement.Product, string, int64) (string, error) {
	return "", nil
}

func (g *grants) Release(context.Context, string, string) error { return nil }

// doorman decides as it is told.
type doorman struct {
	mu          sync.Mutex
	denied      map[string]bool // users
	maintenance bool
	unaccepted  bool
}

func (d *doorman) set(edit func(*doorman)) {
	d.mu.Lock()
	defer d.mu.Unlock()
	edit(d)
}

func (d *doorman) Admit(who access.Principal) error {
	d.mu.Lock()
	defer d.mu.Unlock()
	switch {
	case d.denied[who.User]:
		return fault.New(fault.Denied, "user %q is on the deny list", who.User).Because("denied")
	case d.maintenance:
		return fault.New(fault.Denied, "under maintenance").Because("maintenance")
	}
	return nil
}

func (d *doorman) Accepted(context.Context, access.Principal, string) error {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.unaccepted {
		return fault.New(fault.Denied, "accept the terms first").Because("terms")
	}
	return nil
}

func (d *doorman) Denied(user string) bool {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.denied[user]
}

// ledgerOfAccounts keeps service accounts in memory, by organisation.
type ledgerOfAccounts struct {
	mu   sync.Mutex
	list []account.Account
	err  error
	made int
}

func (l *ledgerOfAccounts) Create(ctx context.Context, name, description string) (account.Account, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	who := access.From(ctx)
	switch {
	case l.err != nil:
		return account.Account{}, l.err
	case name == "" || strings.ToLower(name) != name:
		return account.Account{}, fault.New(fault.Invalid, "bad name").Because("account-name")
	case strings.ContainsAny(description, "<>"):
		return account.Account{}, fault.New(fault.Invalid, "bad description").Because("account-description")
	case len(l.list) >= 3:
		return account.Account{}, fault.New(fault.Denied, "too many").Because("account-limit")
	}
	l.made++
	a := account.Account{
		ID: fmt.Sprintf("id-%d", l.made), ClientID: fmt.Sprintf("srvc-acct-%d", l.made), Name: name, Description: description,
		Owner: who.User, Org: who.Org, Created: time.Unix(1_700_000_000, 0), Secret: fmt.Sprintf("secret-%d", l.made),
	}
	l.list = append(l.list, a)
	return a, nil
}

func (l *ledgerOfAccounts) List(ctx context.Context, clientID string, page, size int) ([]account.Account, int64, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.err != nil {
		return nil, 0, l.err
	}
	var out []account.Account
	for _, a := range l.list {
		if a.Org == access.From(ctx).Org && (clientID == "" || a.ClientID == clientID) {
			out = append(out, a) // with its secret: the API must not rely on anybody
		}
	}
	from := min((page-1)*size, len(out))
	return out[from:min(from+size, len(out))], int64(len(out)), nil
}

func (l *ledgerOfAccounts) find(ctx context.Context, id string) (*account.Account, int, error) {
	if l.err != nil {
		return nil, 0, l.err
	}
	for i, a := range l.list {
		if a.Org == access.From(ctx).Org && (a.ID == id || a.ClientID == id) {
			return &l.list[i], i, nil
		}
	}
	return nil, 0, fault.New(fault.NotFound, "no such service account").Because("account")
}

func (l *ledgerOfAccounts) Get(ctx context.Context, id string) (account.Account, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	a, _, err := l.find(ctx, id)
	if err != nil {
		return account.Account{}, err
	}
	return *a, nil
}

func (l *ledgerOfAccounts) Delete(ctx context.Context, id string) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	_, i, err := l.find(ctx, id)
	if err == nil {
		l.list = append(l.list[:i:i], l.list[i+1:]...)
	}
	return err
}

func (l *ledgerOfAccounts) Reset(ctx context.Context, id string) (account.Account, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	a, _, err := l.find(ctx, id)
	if err != nil {
		return account.Account{}, err
	}
	a.Secret += "-new"
	return *a, nil
}

func (l *ledgerOfAccounts) Update(ctx context.Context, id string, name, description *string) (account.Account, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	a, _, err := l.find(ctx, id)
	if err != nil {
		return account.Account{}, err
	}
	if name != nil {
		a.Name = *name
	}
	if description != nil {
		a.Description = *description
	}
	return *a, nil
}

func (l *ledgerOfAccounts) fails(err error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.err = err
}

// gauges is a source of metrics that remembers what it was asked.
type gauges struct {
	mu    sync.Mutex
	asked []string
	span  metric.Range
	err   error
}

func (g *gauges) Query(_ context.Context, promql string, r metric.Range) ([]metric.Series, error) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.asked, g.span = append(g.asked, promql), r
	at := time.UnixMilli(1_700_000_000_500)
	return []metric.Series{
		{Labels: map[string]string{"__name__": "up", "a": "b"}, Points: []metric.Point{{At: at, Value: 1.5}}},
		{Labels: map[string]string{"__name__": "odd"}, Points: []metric.Point{{At: at, Value: math.NaN()}}},
		{Labels: map[string]string{"__name__": "far"}, Points: []metric.Point{{At: at, Value: math.Inf(-1)}}},
	}, g.err
}

func (g *gauges) Federate(_ context.Context, selectors []string) ([]byte, error) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.asked = append(g.asked, selectors...)
	return []byte("up 1\n"), g.err
}

// noNulls fails where something on the wire is null or an empty text: absent
// is how the fleet managers say that.
func noNulls(t testing.TB, where string, data []byte) {
	t.Helper()
	var tree any
	if err := json.Unmarshal(data, &tree); err != nil {
		t.Fatalf("%s is no JSON: %.200s", where, data)
	}
	var walk func(path string, v any)
	walk = func(path string, v any) {
		switch x := v.(type) {
		case nil:
			t.Errorf("%s: %s is null", where, path)
		case string:
			if x == "" {
				t.Errorf("%s: %s is empty", where, path)
			}
		case map[string]any:
			for k, member := range x {
				walk(path+"."+k, member)
			}
		case []any:
			for i, member := range x {
				walk(fmt.Sprint(path, "[", i, "]"), member)
			}
		}
	}
	walk("$", tree)
}

// place gives an instance a namespace, as the loop would.
func (f *fleet) place(t testing.TB, id string) {
	t.Helper()
	ctx := context.Background()
	o, err := f.ledger.Get(ctx, ledger.Ref{Kind: instance.Kind.Name, ID: id})
	if err != nil {
		t.Fatal(err)
	}
	in, err := instance.Decode(o)
	if err != nil {
		t.Fatal(err)
	}
	version := o.Version
	in.Status.Namespace = "ns-" + id
	if o.Status, err = json.Marshal(in.Status); err != nil {
		t.Fatal(err)
	}
	if _, err := f.ledger.Commit(ctx, ledger.Set{Actor: "test", Cause: ledger.ByRequest("test"), Puts: []ledger.Put{{Object: o, Expect: version, Op: "test"}}}); err != nil {
		t.Fatal(err)
	}
}

// refusedWith is refused where several codes say the same.
func (r reply) refusedWith(t testing.TB, reason string, status int, codes ...string) {
	t.Helper()
	var e struct{ ID string }
	r.into(&e)
	for _, code := range codes {
		if e.ID == code {
			r.refused(reason, status, code)
			return
		}
	}
	t.Errorf("%s: got %d with %s, want %v", reason, r.Code, e.ID, codes)
}
