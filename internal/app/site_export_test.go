package app

import (
	"context"
	"encoding/json"
	"log/slog"
	"net/http"
	"os"
	"path/filepath"
	"time"

	"github.com/droverhq/drover/internal/bus"
	"github.com/droverhq/drover/internal/discovery"
	"github.com/droverhq/drover/internal/ledger"
	"github.com/droverhq/drover/internal/resilience"
	"github.com/droverhq/drover/internal/site"
	"github.com/droverhq/drover/internal/sqlledger"
)

// ClusterURL is where a name of the primary is asked.
var ClusterURL = func(name string) string { return clusterURL(name, "") }

// DrillEnv is what PostgreSQL's programs are told apart from their arguments.
var DrillEnv = drillEnv

// NewWitness is the witness that settings name.
func NewWitness(text string, set ...string) (site.Register, error) {
	return newWitness(text, pairs(set), nil)
}

// Keeper is a site whose database has said something once.
type Keeper struct{ k *keeper }

// NewKeeper is a site at url.
func NewKeeper(c Config, url string, standing sqlledger.Standing) Keeper {
	client, err := peerClient(nil, "site-options", pairs(c.SiteOptions), resilience.New(siteConfig(toPeer, nil)))
	if err != nil {
		panic(err)
	}
	k := &keeper{cfg: c, log: slog.New(slog.DiscardHandler), client: client, self: url + c.Site, changed: make(chan struct{}), url: url, standing: standing}
	k.needs = &own{cfg: &k.cfg, names: &names{}}
	k.view = site.View{Role: c.role(), Site: c.Site, Database: site.Database{Known: true, Epoch: standing.Epoch}}
	k.peer.url = k.configured()
	k.named = k.peer.url != ""
	return Keeper{k}
}

// Find has names found by f, as with --consul.
func (x Keeper) Find(f discovery.Finder) {
	known := discovery.Remember(f)
	x.k.needs.names = &names{Dialer: discovery.Dialer{Finder: known}, finder: known}
	x.k.client, _ = peerClient(x.k.needs.names, "site-options", nil, resilience.New(siteConfig(toPeer, nil)))
	x.k.peer.url = x.k.configured()
}

// Ask asks the other site once.
func (x Keeper) Ask(ctx context.Context) (site.Peer, error) {
	x.k.ask(ctx)
	return x.k.view.Peer, x.k.peer.err
}

// Act has the rooms of the site act.
func (x Keeper) Act() { x.k.acts = true }

// End has the site begin to end.
func (x Keeper) End(ctx context.Context) { x.k.drains(ctx) }

// Drained is when the other site said that it ends, as everybody is told.
func (x Keeper) Drained() *time.Time { return x.k.Status().Peer.Drained }

type anybody struct{ vouching }

func (anybody) Errand(context.Context, string, string, string) error { return nil }

// Signal has the site hear one that is vouched for.
func (x Keeper) Signal(ctx context.Context, s site.Signal) error {
	body, err := json.Marshal(s)
	if err != nil {
		return err
	}
	x.k.vouch = anybody{}
	return x.k.signalled(ctx, bus.Delivery{Message: bus.Message{Body: body}})
}

// Kept is what a process that comes after this one would know.
func (x Keeper) Kept() (string, error) {
	data, err := os.ReadFile(filepath.Join(x.k.cfg.DataDir, siteFile))
	return string(data), err
}

// Later has what was seen last be so long ago.
func (x Keeper) Later(d time.Duration) { x.k.peer.twin = x.k.peer.twin.Add(-d) }

// Introduce has the other site say where it is, and tells where it is asked from then on.
func (x Keeper) Introduce(at string) string {
	x.k.introduced(at)
	return x.k.peer.url
}

// Answer is what the other site is told.
func (x Keeper) Answer() http.Handler { return x.k.answer(nil) }

// Released gives a lease back, and tells whether the site still counts on it.
func (x Keeper) Released(ctx context.Context, l *site.Lease) bool {
	x.k.lease, x.k.view.Witness, x.k.view.Until = l, true, time.Now().Add(time.Hour)
	x.k.release(ctx)
	return x.k.leads() == nil
}

// Hold has the lease taken once, and waits until the site does not lead on it any more.
func (x Keeper) Hold(ctx context.Context, l *site.Lease) error {
	x.k.mu.Lock()
	x.k.lease, x.k.view.Witness = l, true
	x.k.decide()
	x.k.mu.Unlock()
	x.k.hold(ctx, 0)
	if err := x.k.leads(); err != nil {
		return err
	}
	for {
		now, changed := x.k.life()
		if now != acts {
			return nil
		}
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-changed:
		}
	}
}

// Leased is a ledger that may be used while leads says so.
func Leased(s interface {
	ledger.Ledger
	Close() error
}, leads func() error) ledger.Ledger {
	return leased{s, leads}
}
