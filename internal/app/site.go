package app

import (
	"cmp"
	"context"
	"crypto/rand"
	"log/slog"
	"net/http"
	"os"
	"sync"
	"time"

	v1 "github.com/droverhq/drover/api/v1"
	"github.com/droverhq/drover/internal/bus"
	"github.com/droverhq/drover/internal/fault"
	"github.com/droverhq/drover/internal/resilience"
	"github.com/droverhq/drover/internal/site"
	"github.com/droverhq/drover/internal/sqlledger"
)

const (
	followEach = 50 * time.Millisecond // between looks at a standby: changes are read no later
	leadEach   = 500 * time.Millisecond
	lookTime   = 3 * time.Second
	siteFile   = "site.json"
)

// keeper keeps a site in its state, over all lives of the server in this process: a
// site that comes to lead, or has to stop, has its rooms put together anew.
//
// It runs up to five goroutines, which end with run: one looks at the database, one asks the
// other site, one has the lease, one hears signals and one sends them.
type keeper struct {
	cfg    Config
	log    *slog.Logger
	needs  *own // what opens doors, over all lives: none has to ask for it anew
	calls  *relay
	bus    bus.Bus       // for signals; nil: there are none
	poke   chan struct{} // has the other site asked at once
	at     sqlledger.Config
	probe  *sqlledger.Probe
	lease  *site.Lease // nil: there is no witness
	client *http.Client
	self   string // this process
	named  bool   // the settings say where the other site is

	promoting sync.Mutex // one at a time

	mu       sync.Mutex
	view     site.View
	decision site.Decision
	changed  chan struct{} // closed with each decision that is another one
	standing sqlledger.Standing
	looked   time.Time // when the database said that
	away     error     // why it does not any more
	asked    error     // why the witness could not be asked
	peer     peer
	url      string // where others reach this site
	refused  string // where it was not believed to be reached, so that it is said once
	ledger   *sqlledger.Ledger
	token    func(ctx context.Context, own string) (string, error)
	vouch    vouching
	followed int64 // the newest epoch that the other site had a copy of
	moved    bool  // where that is was heard since it was last written down
	unnoted  string
	drained  site.Drain  // the other site's word that it ends
	ending   bool        // this one has begun to
	hinted   int64       // the highest epoch that an agent told of
	acts     bool        // the rooms of this life act
	lapse    *time.Timer // decides anew when the lease ends
}

// role is what the settings make of this site.
func (c *Config) role() site.Role {
	switch {
	case c.Primary:
		return site.Primary
	case c.PrimaryURL != "" || c.PrimaryCluster != "":
		return site.Secondary
	}
	return site.Standalone
}

func newKeeper(ctx context.Context, c Config) (*keeper, error) {
	if c.Primary && (c.PrimaryURL != "" || c.PrimaryCluster != "") {
		return nil, fault.New(fault.Invalid, "--primary is for the one site, --primary-url or --primary-cluster-name for the other")
	}
	if c.Site == "" {
		return nil, fault.New(fault.Invalid, "one of two sites needs a name that stays, another one at each: --site NAME")
	}
	k := &keeper{cfg: c, log: newLogger(c.LogLevel, c.LogFormat), self: rand.Text(), changed: make(chan struct{}), poke: make(chan struct{}, 1), calls: &relay{}}
	if c.Witness != "" {
		register, err := newWitness(c.Witness, pairs(c.WitnessOptions), k.calls)
		if err != nil {
			return nil, err
		}
		k.lease = &site.Lease{Register: register, Site: c.Site, Replica: k.self}
	}
	k.view = site.View{Role: c.role(), Site: c.Site, Witness: k.lease != nil}
	if err := os.MkdirAll(c.DataDir, 0o700); err != nil {
		return nil, fault.New(fault.Invalid, "cannot use the data directory: %w", err)
	}
	known, err := k.recall()
	if err != nil {
		return nil, err
	}
	if k.needs, err = openOwn(&k.cfg, k.calls); err != nil {
		return nil, err
	}
	if k.client, err = peerClient(k.needs.names, "site-options", pairs(c.SiteOptions), resilience.New(siteConfig(toPeer, k.calls))); err != nil {
		return nil, err
	}
	if err := k.openSignals(); err != nil {
		return nil, err
	}
	k.named = k.configured() != ""
	k.view.Seen, k.followed, k.drained = known.Seen, known.Followed, known.Drained
	if usable(known.Peer) && k.safe(known.Peer) {
		k.peer.told = known.Peer
	}
	k.peer.url = cmp.Or(k.configured(), k.peer.told)
	k.decision = site.Plan(k.view, time.Now())
	if k.at, err = k.needs.database(); err == nil {
		k.at.Site = c.Site
		k.probe, err = sqlledger.OpenProbe(ctx, k.at)
	}
	if err != nil {
		k.needs.close()
	}
	return k, err
}

// run looks, asks and holds until ctx ends.
func (k *keeper) run(ctx context.Context) {
	var wg sync.WaitGroup
	wg.Go(func() { each(ctx, k.pace, nil, k.look) })
	wg.Go(func() { each(ctx, func() time.Duration { return askEach }, k.poke, k.ask) })
	if k.lease != nil {
		wg.Go(func() { each(ctx, k.lease.Each, nil, func(ctx context.Context) { k.hold(ctx, 0) }) })
	}
	if k.bus != nil {
		wg.Go(func() { k.listenSignals(ctx) })
		wg.Go(func() { k.tell(ctx) })
	}
	wg.Wait()
	if k.lease != nil {
		k.release(ctx)
	}
}

// release gives the lease back when nothing acts any more: whoever waits for it need
// not wait for its end.
func (k *keeper) release(ctx context.Context) {
	k.mu.Lock()
	k.view.Until = time.Time{}
	if k.lapse != nil {
		k.lapse.Stop()
	}
	k.mu.Unlock()
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), lookTime)
	defer cancel()
	if err := k.lease.Release(ctx); err != nil {
		k.log.Warn("cannot give the lease back; it ends by itself", "error", err)
	}
}

func each(ctx context.Context, pause func() time.Duration, poke <-chan struct{}, do func(context.Context)) {
	timer := time.NewTimer(0)
	defer timer.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-timer.C:
		case <-poke:
		}
		do(ctx)
		timer.Reset(pause())
	}
}

func (k *keeper) pace() time.Duration {
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.decision.State == site.Following {
		return followEach
	}
	return leadEach
}

// look asks the database. While it is away, what it said last counts: a leading site
// whose database restarts goes on with it.
func (k *keeper) look(ctx context.Context) {
	ctx, cancel := context.WithTimeout(ctx, lookTime)
	defer cancel()
	began := time.Now()
	s, err := k.probe.Look(ctx)
	k.stands(s, began, err)
	if err == nil && !s.Recovering {
		k.note(ctx, s.Heard)
	}
}

func (k *keeper) stands(s sqlledger.Standing, began time.Time, err error) {
	k.mu.Lock()
	defer k.mu.Unlock()
	if fault.Reason(err) == "no-ledger" && k.view.Role == site.Primary && !s.Recovering {
		k.view.Database = site.Database{Known: true} // the first life makes it
		k.decide()
		return
	}
	if k.away = err; err != nil {
		k.decide()
		return
	}
	k.learn(s.Heard)
	moved := s.Seq != k.standing.Seq || s.Epoch != k.standing.Epoch
	k.standing, k.looked = s, began
	k.view.Database = site.Database{Known: true, Recovering: s.Recovering, Epoch: s.Epoch, Begun: s.Begun}
	if moved && k.ledger != nil {
		k.ledger.Nudge()
	}
	k.decide()
}

// hold has the lease taken or kept where the decision says so. epoch is the one that a
// promotion is about to begin; 0: that of the ledger.
func (k *keeper) hold(ctx context.Context, epoch int64) {
	k.mu.Lock()
	acquire := k.decision.Acquire
	if epoch == 0 {
		epoch = k.view.Database.Epoch
		acquire = acquire && k.decision.State != site.Following // a promotion does that itself
	}
	k.mu.Unlock()
	ctx, cancel := context.WithTimeout(ctx, lookTime)
	defer cancel()
	err := k.lease.Step(ctx, acquire, epoch)
	k.mu.Lock()
	defer k.mu.Unlock()
	k.asked, k.view.Until = err, k.lease.Until()
	if k.lapse != nil {
		k.lapse.Stop()
	}
	k.lapse = time.AfterFunc(time.Until(k.view.Until), func() { // what acts stops then, and not when somebody looks next
		k.mu.Lock()
		defer k.mu.Unlock()
		k.decide()
	})
	k.saw(k.lease.Foreign())
	k.decide()
}

// Saw implements httpapi.Site. An agent's word is a hint for people: one that lies
// must not be able to stop a site.
func (k *keeper) Saw(epoch int64) {
	k.mu.Lock()
	defer k.mu.Unlock()
	if epoch > max(k.hinted, k.view.Database.Epoch) {
		k.hinted = epoch
		k.log.Warn("an agent has followed a higher epoch than this site's: another one may lead; see `drover dr status` there", "epoch", epoch, "own", k.view.Database.Epoch)
	}
}

// saw notes the epoch of somebody; the caller has the lock.
func (k *keeper) saw(epoch int64) {
	if epoch > k.view.Seen {
		k.view.Seen = epoch
		k.remember()
	}
}

// decide decides anew; the caller has the lock.
func (k *keeper) decide() {
	k.view.Peer.Wanted = k.cfg.SecondaryURL != "" || k.followed > 0 && k.followed >= k.view.Database.Epoch
	k.view.Peer.Named = k.named
	k.hears(k.drained.Past(max(k.view.Seen, k.view.Database.Epoch)))
	d := site.Plan(k.view, time.Now())
	if d == k.decision {
		return
	}
	if d.State != k.decision.State || d.Why != k.decision.Why {
		level := slog.LevelInfo
		if d.State == site.Fenced {
			level = slog.LevelError
		}
		k.log.Log(context.Background(), level, "this site is "+string(d.State), "site", k.view.Site, "role", string(k.view.Role), "epoch", k.view.Database.Epoch, "why", d.Why)
	}
	k.decision = d
	close(k.changed)
	k.changed = make(chan struct{})
}

// leads tells whether this site may act at this very moment: a lease that was had when
// the last decision was made may have ended since.
func (k *keeper) leads() error {
	k.mu.Lock()
	defer k.mu.Unlock()
	if d := site.Plan(k.view, time.Now()); d.State != site.Leading {
		return k.refusal(d)
	}
	return nil
}

// Refuse implements httpapi.Site.
func (k *keeper) Refuse() error {
	k.mu.Lock()
	defer k.mu.Unlock()
	d := site.Plan(k.view, time.Now())
	switch {
	case d.State == site.Leading && !k.acts:
		return fault.New(fault.Unavailable, "this site is about to lead; try again")
	case d.State == site.Leading:
		return nil
	}
	return k.refusal(d)
}

// refusal names where to write instead; the caller has the lock.
func (k *keeper) refusal(d site.Decision) error {
	to := "the site that leads (`drover dr status` shows both)"
	if at := k.primary(); at != "" {
		to = at
	}
	if d.State == site.Following && d.Why == "" {
		return fault.New(fault.Conflict, "this is the secondary site, which is there for reads: write to %s", to).Because("secondary")
	}
	return fault.New(fault.Conflict, "this site does not take writes: %s; write to %s", d.Why, to).Because("secondary")
}

// lag is how old what is read here may be, at most; the caller has the lock.
func (k *keeper) lag() time.Duration {
	lag := k.standing.Now.Sub(k.standing.At) + time.Since(k.looked)
	// An idle primary writes nothing: then it is its word that there is nothing more.
	if k.peer.leads && !k.peer.fresh.IsZero() && k.standing.Seq >= k.peer.status.Seq && k.standing.Epoch >= k.peer.status.Epoch {
		lag = min(lag, time.Since(k.peer.fresh))
	}
	return max(lag, 0)
}

// Status implements httpapi.Site.
func (k *keeper) Status() v1.Site {
	k.mu.Lock()
	defer k.mu.Unlock()
	d := site.Plan(k.view, time.Now())
	out := v1.Site{
		Site: k.view.Site, Role: string(k.view.Role), State: string(d.State), Why: d.Why, URL: k.url, Version: k.cfg.Version,
		Ledger: k.standing.Ledger, Epoch: k.standing.Epoch, Seq: k.standing.Seq, Standby: k.standing.Recovering,
	}
	if d.State == site.Leading && !k.acts {
		out.State, out.Why = string(site.Waiting), "it is about to lead"
	}
	if k.view.Database.Known {
		out.Age = time.Since(k.looked).Milliseconds()
	}
	if k.view.Database.Known && d.State != site.Leading {
		out.Lag = &v1.Lag{Seconds: k.lag().Seconds()}
	}
	if out.Primary = k.primary(); d.State == site.Leading {
		out.Primary = k.url
	}
	for _, u := range []string{k.url, k.peer.told} {
		if u != "" {
			out.Sites = append(out.Sites, u)
		}
	}
	if k.lease != nil {
		out.Lease = &v1.SiteLease{Holder: k.lease.Holder()}
		if until := k.view.Until; until.After(time.Now()) {
			out.Lease.Until = &until
		}
		if k.asked != nil {
			out.Lease.Error = k.asked.Error()
		}
	}
	if k.peer.url != "" {
		out.Peer = k.peer.wire(k.drained)
	}
	return out
}
