package account

import (
	"context"
	"time"

	"github.com/droverhq/drover/internal/access"
	"github.com/droverhq/drover/internal/fault"
	"github.com/droverhq/drover/internal/ledger"
	"github.com/droverhq/drover/internal/sso"
)

// Store is what the room needs of the ledger.
type Store interface {
	ledger.Committer
	ledger.Reader
	ledger.Keeper
}

// Config of the service. Store and Provider are needed.
type Config struct {
	Store    Store
	Provider sso.Provider
	// Limit of accounts in an organisation; default 50, negative: none.
	Limit int64
	// Exempt names organisations without a limit; nil: none is.
	Exempt func(org string) bool
	// Recheck is how often the identity provider is made to have what it should
	// have; default 10 min.
	Recheck time.Duration
	// Patience is how long a creation or a reset may take before the loop takes
	// it back; default 1 min.
	Patience time.Duration
	Now      func() time.Time // default time.Now
}

// Service holds the verbs on accounts, and reconciles them.
type Service struct {
	cfg   Config
	store Store
	now   func() time.Time
}

var _ Verbs = (*Service)(nil)

// NewService makes the service.
func NewService(c Config) *Service {
	if c.Limit == 0 {
		c.Limit = 50
	}
	if c.Recheck <= 0 {
		c.Recheck = 10 * time.Minute
	}
	if c.Patience <= 0 {
		c.Patience = time.Minute
	}
	if c.Now == nil {
		c.Now = time.Now
	}
	return &Service{cfg: c, store: c.Store, now: c.Now}
}

// Endpoints tells users of the accounts where the identity provider is.
func (s *Service) Endpoints() sso.Endpoints { return s.cfg.Provider.Endpoints() }

func actor(ctx context.Context) string {
	if a := access.From(ctx).Actor(); a != "" {
		return a
	}
	return "system"
}

// Create makes an account of the caller's. It is written down first: whatever
// happens then, the loop brings it to an end.
func (s *Service) Create(ctx context.Context, name, description string) (Account, error) {
	p := access.From(ctx)
	if p.User == "" {
		return Account{}, fault.New(fault.Denied, "only users have service accounts").Because("denied")
	}
	if err := checkNew(name, description); err != nil {
		return Account{}, err
	}
	// The loop takes the account back when Patience is over; nothing may reach
	// the identity provider after that.
	ctx, cancel := context.WithTimeout(ctx, s.cfg.Patience/2)
	defer cancel()
	f, err := s.prepare(ctx, ledger.Object{Org: p.Org, Owner: p.User, Name: name},
		Spec{Use: tenant, Description: description, User: p.Account})
	if err != nil {
		return Account{}, err
	}
	count := ledger.Count{Name: counter(p.Org, p.User), Delta: 1, Max: s.cfg.Limit}
	if s.cfg.Exempt != nil && s.cfg.Exempt(p.Org) {
		count.Max = -1
	}
	r, err := s.commit(ctx, ledger.Set{
		Puts:   []ledger.Put{{Object: f.object, Op: "create"}},
		Claims: names(f.object, f.spec),
		Counts: []ledger.Count{count},
		Wakes:  []ledger.Wake{{Ref: f.object.Ref, Org: p.Org, After: s.cfg.Patience}},
	})
	if err != nil {
		ledger.Discard(ctx, s.store, err, f.spec.Secret)
		if fault.Is(err, fault.Exhausted) {
			return Account{}, fault.New(fault.Denied, "there are %d service accounts already, which is the limit", s.cfg.Limit).Because("account-limit")
		}
		return Account{}, err
	}
	o := r.Objects[0]
	err = s.cfg.Provider.Apply(ctx, client(o, f.spec, f.secret))
	if err == nil {
		if o, err = s.settle(ctx, o, f.spec); err == nil {
			a := present(o, f.spec)
			a.Secret = f.secret
			return a, nil
		}
	}
	s.takeBack(ctx, o, f.spec, err)
	return Account{}, culprit(err, "account-create", "cannot create the service account")
}

// takeBack ends an account that was not made. Where this fails too, the loop
// does it when Patience is over.
func (s *Service) takeBack(ctx context.Context, o ledger.Object, spec Spec, why error) {
	ctx, cancel := after(ctx)
	defer cancel()
	set, err := leave(o, spec, why.Error())
	if err == nil {
		_, _ = s.commit(ctx, set)
	}
}

// List returns a page of the accounts that the caller sees, and how many there
// are. A client id leaves only that one.
func (s *Service) List(ctx context.Context, clientID string, page, size int) ([]Account, int64, error) {
	p := access.From(ctx)
	if p.User == "" && !p.Admin {
		return nil, 0, nil
	}
	q := ledger.Query{
		Kind: Kind.Name, Scope: map[string]any{"use": tenant, "phase": Ready},
		Order: []ledger.Order{{Column: "created"}}, Limit: min(max(size, 0), ledger.MaxPage),
	}
	for column, v := range p.Scope() {
		q.Scope[column] = v
	}
	if page > 1 {
		q.Offset = (page - 1) * q.Limit
	}
	if clientID != "" {
		if err := checkID(clientID); err != nil {
			return nil, 0, err
		}
		q.Where = ledger.Compare{Column: "client", Op: ledger.Eq, Values: []any{clientID}}
	}
	objects, err := s.store.List(ctx, q)
	if err != nil {
		return nil, 0, err
	}
	total, err := s.store.Total(ctx, q)
	if err != nil {
		return nil, 0, err
	}
	out := make([]Account, 0, len(objects))
	for _, o := range objects {
		spec, err := decode(o)
		if err != nil {
			return nil, 0, err
		}
		out = append(out, present(o, spec))
	}
	return out, total, nil
}

// Get returns an account that the caller sees.
func (s *Service) Get(ctx context.Context, idOrClient string) (Account, error) {
	o, spec, err := s.find(ctx, idOrClient)
	if err != nil {
		return Account{}, err
	}
	return present(o, spec), nil
}

// Delete ends an account. It is gone for its users at once; where the identity
// provider is away, the loop tells it when it is back.
func (s *Service) Delete(ctx context.Context, idOrClient string) error {
	o, spec, err := s.change(ctx, idOrClient)
	if err != nil {
		return err
	}
	set, err := leave(o, spec, "")
	if err != nil {
		return err
	}
	if _, err := s.commit(ctx, set); err != nil {
		return err
	}
	_ = s.cfg.Provider.Delete(ctx, spec.Client) // the loop does it again, until it works
	return nil
}

// Reset gives an account a new secret. The old one stays valid until the new
// one works, and remains so if that fails.
func (s *Service) Reset(ctx context.Context, idOrClient string) (Account, error) {
	o, spec, err := s.change(ctx, idOrClient)
	if err != nil {
		return Account{}, err
	}
	if spec.Next != "" {
		return Account{}, fault.New(fault.Conflict, "the secret is being reset already; try again in a minute").Because("version")
	}
	ctx, cancel := context.WithTimeout(ctx, s.cfg.Patience/2)
	defer cancel()
	late, done := after(ctx)
	defer done()
	old := spec.Secret
	secret, next, err := s.seal(ctx)
	if err != nil {
		return Account{}, err
	}
	spec.Next = next
	put, err := enter(o, spec, Ready, "reset")
	if err != nil {
		return Account{}, err
	}
	r, err := s.commit(ctx, ledger.Set{
		Puts:  []ledger.Put{put},
		Wakes: []ledger.Wake{{Ref: o.Ref, Org: o.Org, After: s.cfg.Patience}},
	})
	if err != nil {
		ledger.Discard(ctx, s.store, err, next)
		return Account{}, err
	}
	o = r.Objects[0]
	now := ledger.Wake{Ref: o.Ref, Org: o.Org}
	if err := s.cfg.Provider.Apply(ctx, client(o, spec, secret)); err != nil {
		// The provider may have it although it said no: the loop brings the old
		// one back, now or, where this cannot be written, when Patience is over.
		spec.Next = ""
		if _, err := s.settle(late, o, spec, now); err == nil {
			s.shred(late, next)
		}
		return Account{}, culprit(err, "account-create", "cannot reset the secret")
	}
	spec.Secret, spec.Next = next, ""
	if o, err = s.settle(late, o, spec, now); err != nil {
		return Account{}, err
	}
	s.shred(late, old)
	a := present(o, spec)
	a.Secret = secret
	return a, nil
}

// find returns the account if the caller sees it.
func (s *Service) find(ctx context.Context, idOrClient string) (ledger.Object, Spec, error) {
	if err := checkID(idOrClient); err != nil {
		return ledger.Object{}, Spec{}, err
	}
	absent := fault.New(fault.NotFound, "there is no service account %q", idOrClient).Because("account")
	ref := ledger.Ref{Kind: Kind.Name, ID: idOrClient}
	switch held, err := s.store.Lookup(ctx, ledger.Name{Space: clientSpace, Name: idOrClient}); {
	case err == nil:
		ref = held
	case !fault.Is(err, fault.NotFound):
		return ledger.Object{}, Spec{}, err
	}
	o, err := s.store.Get(ctx, ref)
	if fault.Is(err, fault.NotFound) {
		return o, Spec{}, absent
	}
	if err != nil {
		return o, Spec{}, err
	}
	spec, err := decode(o)
	if err != nil {
		return o, spec, err
	}
	if spec.Use != tenant || o.Phase != Ready || !access.From(ctx).Sees(o.Org, o.Owner) {
		return o, spec, absent
	}
	return o, spec, nil
}

// change returns the account if the caller may change it.
func (s *Service) change(ctx context.Context, idOrClient string) (ledger.Object, Spec, error) {
	o, spec, err := s.find(ctx, idOrClient)
	if err == nil && !access.From(ctx).MayChange(o.Org, o.Owner) {
		err = fault.New(fault.Denied, "only its owner and the administrators of the organisation may change a service account").Because("denied")
	}
	return o, spec, err
}
