package keep

import (
	"context"
	"errors"
	"log/slog"
	"net/http"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/leaderelection"
	"k8s.io/client-go/tools/leaderelection/resourcelock"

	"github.com/droverhq/drover/internal/fault"
)

// guard stands before every request of this replica. While it is not this
// replica's turn nothing that could change anything leaves the process.
type guard struct {
	next func(http.RoundTripper) http.RoundTripper // nil: nobody

	mu   sync.Mutex
	turn func() error // nil: it is not our turn
}

func (g *guard) open(turn func() error) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.turn = turn
}

func (g *guard) check() error {
	g.mu.Lock()
	turn := g.turn
	g.mu.Unlock()
	if turn == nil {
		return fault.New(fault.Unavailable, "another replica of the agent is at work on this cluster").Because("not-leading")
	}
	return turn()
}

func (g *guard) wrap(next http.RoundTripper) http.RoundTripper {
	if g.next != nil {
		next = g.next(next)
	}
	return passage{g, next}
}

type passage struct {
	g    *guard
	next http.RoundTripper
}

func (p passage) RoundTrip(r *http.Request) (*http.Response, error) {
	if r.Method != http.MethodGet && r.Method != http.MethodHead {
		if err := p.g.check(); err != nil {
			return nil, err
		}
		return p.next.RoundTrip(r)
	}
	// A question that got lost is asked again: an item needs several answers, and
	// waits longer and longer when one fails.
	for again := 0; ; again++ {
		res, err := p.next.RoundTrip(r)
		if err == nil || again == 2 || r.Context().Err() != nil {
			return res, err
		}
	}
}

// Lead waits until it is this replica's turn, calls work, and returns what it
// returns. Its context ends when the lease is lost; from then on nothing is
// written, and Lead returns fault.Unavailable because "lease-lost". Without a
// lease there is only one replica, and work is called at once.
func (d *Desk) Lead(ctx context.Context, work func(context.Context) error) error {
	return d.LeadAfter(ctx, func() bool { return true }, work)
}

// LeadAfter is Lead for one that holds another lease first, which ready tells. This
// one is looked at from the beginning, so that leases of a replica that died run
// out side by side, and taken no earlier: two replicas never hold one each.
func (d *Desk) LeadAfter(ctx context.Context, ready func() bool, work func(context.Context) error) error {
	if d.cfg.Lease == "" {
		defer d.end()
		return work(ctx)
	}
	lock, err := d.lock(ctx)
	if err != nil {
		return err
	}
	lock.ready = ready
	// The elector's context ends after the work has: the lease is given back
	// only when nobody works under it.
	elect, release := context.WithCancel(context.WithoutCancel(ctx))
	defer release()
	var (
		elector *leaderelection.LeaderElector
		result  error
		worked  = make(chan struct{})
		began   bool
		once    sync.Mutex
	)
	elector, err = leaderelection.NewLeaderElector(leaderelection.LeaderElectionConfig{
		Lock: lock, Name: d.cfg.Lease, ReleaseOnCancel: true,
		LeaseDuration: d.cfg.LeaseTime, RenewDeadline: d.cfg.LeaseTime * 2 / 3, RetryPeriod: d.cfg.LeaseTime / 7,
		Callbacks: leaderelection.LeaderCallbacks{
			OnStartedLeading: func(lease context.Context) {
				once.Lock()
				began = true
				once.Unlock()
				defer close(worked)
				defer release()
				result = d.shiftUnder(ctx, lease, lock, elector, work)
			},
			OnStoppedLeading: func() { d.guard.open(nil) },
		},
	})
	if err != nil {
		return fault.New(fault.Invalid, "cannot stand for the lease %s: %w", d.cfg.Lease, err)
	}
	stop := context.AfterFunc(ctx, func() {
		once.Lock()
		defer once.Unlock()
		if !began {
			release()
		}
	})
	defer stop()
	elector.Run(elect)
	d.guard.open(nil)
	once.Lock()
	working := began
	once.Unlock()
	if !working {
		return ctx.Err()
	}
	<-worked
	return result
}

// shiftUnder works while the lease holds.
func (d *Desk) shiftUnder(ctx, lease context.Context, lock *openLock, elector *leaderelection.LeaderElector, work func(context.Context) error) error {
	both, stop := context.WithCancel(ctx)
	defer stop()
	defer context.AfterFunc(lease, stop)()
	// Others may take the lease when it was not renewed for its whole time; a
	// replica that was asleep must notice before they do.
	margin := d.cfg.LeaseTime / 5
	d.guard.open(func() error {
		if !elector.IsLeader() || elector.Check(-margin) != nil {
			return fault.New(fault.Unavailable, "the lease of this replica has run out").Because("lease-lost")
		}
		return nil
	})
	defer d.guard.open(nil)
	defer d.end()
	var rec *resourcelock.LeaderElectionRecord
	held := func() (err error) {
		rec, _, err = lock.look.Get(both)
		if err != nil || rec.HolderIdentity != lock.Identity() {
			return fault.New(fault.Unavailable, "the lease %s cannot be read", d.cfg.Lease).Because("lease-lost")
		}
		return nil
	}
	if err := held(); err != nil {
		return err
	}
	d.mu.Lock()
	_, err := d.beginLocked(both, int64(rec.LeaderTransitions)+1, held)
	d.mu.Unlock()
	if err != nil {
		return err
	}
	d.Notify()
	err = work(both)
	if lease.Err() != nil && ctx.Err() == nil {
		return fault.New(fault.Unavailable, "the lease was not renewed in time: another replica of the agent takes over, or the cluster takes no writes").Because("lease-lost")
	}
	return err
}

func (d *Desk) lock(ctx context.Context) (*openLock, error) {
	// The lease is taken past the guard, which the lease itself opens.
	cfg := d.cluster.REST()
	cfg.WrapTransport = nil
	if d.cfg.Wrap != nil {
		cfg.Wrap(d.cfg.Wrap)
	}
	cfg.Timeout = max(d.cfg.LeaseTime/3, time.Second)
	hc, err := rest.HTTPClientFor(cfg)
	if err != nil {
		return nil, err
	}
	c, err := kubernetes.NewForConfigAndClient(cfg, hc)
	if err != nil {
		return nil, err
	}
	// Where the namespace is missing and may be made, it is; where not, the lease
	// will tell.
	_, err = c.CoreV1().Namespaces().Create(ctx, &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: d.cfg.Namespace}}, metav1.CreateOptions{})
	if err != nil {
		d.cfg.Logger.Debug("the agent's namespace was not made", "error", err)
	}
	open := func() resourcelock.Interface {
		return &resourcelock.LeaseLock{
			LeaseMeta: metav1.ObjectMeta{Namespace: d.cfg.Namespace, Name: d.cfg.Lease}, Client: c.CoordinationV1(),
			LockConfig: resourcelock.ResourceLockConfig{Identity: d.cfg.Identity},
		}
	}
	return &openLock{log: d.cfg.Logger, Interface: open(), look: open()}, ctx.Err()
}

// openLock says what keeps this replica from its lease, once until it changes:
// the elector tries again without a word.
type openLock struct {
	resourcelock.Interface
	// look is for those who only look: a lock remembers what it has read last,
	// and the elector writes over that while it renews.
	look resourcelock.Interface
	log  *slog.Logger
	// ready is asked until it is so: what was taken is given back in any case.
	ready func() bool

	mu    sync.Mutex
	taken bool
	said  string
}

// early keeps a lease from being taken before its time.
func (l *openLock) early() error {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.taken = l.taken || l.ready(); !l.taken {
		return errors.New("another lease comes first")
	}
	return nil
}

func (l *openLock) Get(ctx context.Context) (*resourcelock.LeaderElectionRecord, []byte, error) {
	rec, raw, err := l.Interface.Get(ctx)
	if err != nil { // that it can be read is no news
		err = l.tell(err)
	}
	return rec, raw, err
}

func (l *openLock) Create(ctx context.Context, rec resourcelock.LeaderElectionRecord) error {
	if err := l.early(); err != nil {
		return err
	}
	return l.tell(l.Interface.Create(ctx, rec))
}

func (l *openLock) Update(ctx context.Context, rec resourcelock.LeaderElectionRecord) error {
	if err := l.early(); err != nil {
		return err
	}
	return l.tell(l.Interface.Update(ctx, rec))
}

func (l *openLock) tell(err error) error {
	if apierrors.IsNotFound(err) || apierrors.IsConflict(err) || apierrors.IsAlreadyExists(err) {
		return err // it is new, or another replica was faster
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	said := ""
	if err != nil {
		said = err.Error()
	}
	if said != "" && said != l.said {
		l.log.Warn("cannot have the lease, and does nothing without it; what runs keeps running", "lease", l.Describe(), "error", err)
	}
	l.said = said
	return err
}
