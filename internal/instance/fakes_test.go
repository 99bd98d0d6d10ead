package instance_test

import (
	"context"
	"maps"
	"math/rand/v2"
	"os"
	"sync"
	"testing"

	"github.com/droverhq/drover/internal/access"
	"github.com/droverhq/drover/internal/certificate"
	"github.com/droverhq/drover/internal/cluster"
	"github.com/droverhq/drover/internal/dns"
	"github.com/droverhq/drover/internal/entitlement"
	"github.com/droverhq/drover/internal/fault"
	"github.com/droverhq/drover/internal/instance"
	"github.com/droverhq/drover/internal/ledger"
	"github.com/droverhq/drover/internal/offering"
	"github.com/droverhq/drover/internal/sso"
)

// outside is everybody that instances have something at, each of whom can be
// down, refuse, or fail at random before or after the effect.
type outside struct {
	mu      sync.Mutex
	random  *rand.Rand
	rate    float64          // of failures at random
	down    map[string]error // by name: sso, dns, quota, certificate
	calls   map[string]int
	clients map[string]sso.Client
	records map[string]dns.Record
	tickets map[string]int64 // units by the id of the reservation
	grants  map[string]entitlement.Grant
	denied  map[string]bool
	certs   bool // there are certificates
	revoked int
	kept    map[string]bool // secrets that are sealed
}

func newOutside() *outside {
	return &outside{
		random: rand.New(rand.NewPCG(1, 2)), down: map[string]error{}, calls: map[string]int{}, clients: map[string]sso.Client{},
		records: map[string]dns.Record{}, tickets: map[string]int64{}, grants: map[string]entitlement.Grant{},
		denied: map[string]bool{}, certs: true, kept: map[string]bool{},
	}
}

var away = fault.New(fault.Unavailable, "connection refused")

// do has an effect, or fails before it, or after it.
func (o *outside) do(who string, effect func()) error {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.calls[who]++
	if err := o.down[who]; err != nil {
		return err
	}
	if o.rate > 0 && o.random.Float64() < o.rate {
		if o.random.IntN(2) == 0 {
			effect()
		}
		return away
	}
	effect()
	return nil
}

type identities struct{ *outside }

func (o identities) Apply(_ context.Context, c sso.Client) error {
	return o.do("sso", func() { o.clients[c.ID] = c })
}

func (o identities) Get(_ context.Context, id string) (c sso.Client, err error) {
	known := false
	if err = o.do("sso", func() { c, known = o.clients[id] }); err == nil && !known {
		err = fault.New(fault.NotFound, "no client")
	}
	return c, err
}

func (o identities) Delete(_ context.Context, id string) error {
	return o.do("sso", func() { delete(o.clients, id) })
}

func (o identities) Endpoints() sso.Endpoints {
	return sso.Endpoints{Issuer: "https://sso.example.org"}
}

type hosts struct{ *outside }

func (o hosts) Ensure(_ context.Context, records []dns.Record) error {
	return o.do("dns", func() {
		for _, r := range records {
			o.records[r.Host] = r
		}
	})
}

func (o hosts) Remove(_ context.Context, owner string, names []string) error {
	return o.do("dns", func() {
		for _, h := range names {
			if o.records[h].Owner == owner {
				delete(o.records, h)
			}
		}
	})
}

type quotas struct{ *outside }

func (quotas) Name() string { return "test-quota" }

func (o quotas) Grant(_ context.Context, _ entitlement.Who, p entitlement.Product) (g entitlement.Grant, err error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	if err := o.down["quota"]; err != nil {
		return g, err
	}
	return o.grants[p.Type+"/"+p.Billing], nil
}

func (o quotas) Reserve(_ context.Context, _ entitlement.Who, _ entitlement.Product, id string, units int64) (string, error) {
	if err := o.down["reserve"]; err != nil {
		return "", err
	}
	return "n-" + id, o.do("quota", func() { o.tickets[id] = units })
}

func (o quotas) Release(_ context.Context, _, id string) error {
	return o.do("quota", func() { delete(o.tickets, id) })
}

type certs struct{ *outside }

func (o certs) For(_ context.Context, host string) (c certificate.Certificate, err error) {
	found := false
	if err = o.do("certificate", func() { found = o.outside.certs }); err == nil && !found {
		err = fault.New(fault.NotFound, "there is no certificate for %s yet", host)
	}
	return certificate.Certificate{Cert: "cert of " + host, Key: "key of " + host}, err
}

func (o certs) Revoke(_ context.Context, _ string, _ int) error {
	return o.do("certificate", func() { o.revoked++ })
}

type decisions struct{ *outside }

func (o decisions) Admit(who access.Principal) error {
	if o.denied[who.User] {
		return fault.New(fault.Denied, "no").Because("denied")
	}
	return nil
}

func (o decisions) Accepted(context.Context, access.Principal, string) error { return o.down["terms"] }
func (o decisions) Denied(user string) bool                                  { return o.denied[user] }

// vault counts what is sealed.
type vault struct {
	ledger.Keeper
	*outside
}

func (v vault) Seal(ctx context.Context, plain []byte) (string, error) {
	ref, err := v.Keeper.Seal(ctx, plain)
	if err == nil {
		v.kept[ref] = true
	}
	return ref, err
}

func (v vault) Shred(ctx context.Context, ref string) error {
	err := v.Keeper.Shred(ctx, ref)
	if err == nil {
		delete(v.kept, ref)
	}
	return err
}

// ports gives instances everything there is.
func (o *outside) ports(c *instance.Config) {
	c.SSO, c.DNS, c.Quota, c.Certificates, c.Policy = identities{o}, hosts{o}, quotas{o}, certs{o}, decisions{o}
	c.Keeper = vault{c.Keeper, o}
	c.Clusters = versioned{c.Clusters.(*cluster.Service), o}
}

// versioned clusters offer versions without an operator having to report them.
type versioned struct {
	*cluster.Service
	*outside
}

func (v versioned) Offers(context.Context, string, string) (map[string][]string, error) {
	if err := v.down["versions"]; err != nil {
		return nil, err
	}
	if _, none := v.denied["versions"]; none {
		return map[string][]string{"band": {"1.0.0"}}, nil
	}
	return map[string][]string{"band": {"1.0.0", "1.1.0", "1.2.0"}, "engine": {"e-0.9.0", "e-0.10.0"}}, nil
}

func band(t testing.TB) *offering.Offering {
	t.Helper()
	source, err := os.ReadFile("testdata/band.yaml")
	if err != nil {
		t.Fatal(err)
	}
	off, err := offering.Parse("band.yaml", source)
	if err != nil {
		t.Fatal(err)
	}
	return off
}

// newStage is a world with everything outside, in which alice's organisation
// has ten units of every model.
func newStage(t testing.TB) (*world, *outside, *offering.Offering) {
	t.Helper()
	off, out := band(t), newOutside()
	for _, m := range []string{"cash", "market", "taste", "home"} {
		out.grants["stage/"+m] = entitlement.Grant{Units: 10, Holder: "org/acme"}
	}
	w := &world{t: t, dir: t.TempDir(), registry: offerings{"band": off}, ports: out.ports, room: 100, routed: true}
	w.begin()
	t.Cleanup(func() { w.ledger.Close() })
	return w, out, off
}

// nothingLeft fails where anything outside, or a counter, has outlived its instance.
func (o *outside) nothingLeft(w *world) {
	if len(o.clients) > 0 || len(o.records) > 0 || len(o.tickets) > 0 || len(o.kept) > 0 {
		w.t.Fatalf("left behind: %d clients, %d records, tickets %v, %d secrets", len(o.clients), len(o.records), maps.Clone(o.tickets), len(o.kept))
	}
	for _, name := range []string{
		"quota/band/org/acme/stage/cash", "quota/band/org/acme/stage/taste", "instances/band/org/acme", "trial/band/acme/alice",
		instance.RegionCounter("band", "local", "local", "stage"), instance.RegionCounter("band", "local", "local", "street"),
		cluster.CapacityCounter("local"), cluster.TypeCounter("local", "band", "stage"),
	} {
		if n, err := w.ledger.Counter(context.Background(), name); err != nil || n != 0 {
			w.t.Fatalf("counter %s is %d (%v)", name, n, err)
		}
	}
}
