// Package vault takes a credential from Vault or OpenBao: one with a lease, which is
// renewed at two thirds of its life and replaced when it cannot be, or one that is
// just kept there and read anew.
//
// It owns leases. Sessions are internal/vault's, and shared by all sources of a server.
package vault

import (
	"cmp"
	"context"
	"strings"
	"sync"
	"time"

	"github.com/openbao/openbao/api/v2"

	"github.com/droverhq/drover/internal/credential"
	"github.com/droverhq/drover/internal/fault"
	"github.com/droverhq/drover/internal/vault"
)

// Config of a source.
type Config struct {
	Client *vault.Client
	Path   string // database/creds/drover, rabbitmq/creds/drover, secret/data/drover
	// Refresh is how often what has no lease is read anew; default 30 s.
	Refresh time.Duration
	// Pause after a failure; default 1 s.
	Pause time.Duration
	Now   func() time.Time // default time.Now
}

// Source is one path's.
type Source struct {
	credential.Held
	cfg  Config
	stop context.CancelFunc
	wg   sync.WaitGroup

	turn  chan struct{} // held by whoever asks the server
	lease lease

	refused chan struct{} // what there is does not open the door
	asked   time.Time     // when another was had for that; guarded by turn
}

// insist is how often another is had because the door does not open: each is one more
// user in the database until its lease ends.
const insist = 30 * time.Second

// lease is what was had last.
type lease struct {
	id      string // empty: it has none
	session int64
	full    time.Duration // its life when it began
	renews  bool
	care    time.Time
}

var _ credential.Source = (*Source)(nil)

// New makes a source. It calls nobody; one goroutine takes care of what Get has had,
// until Close.
func New(c Config) *Source {
	c.Refresh, c.Pause = cmp.Or(c.Refresh, 30*time.Second), cmp.Or(c.Pause, time.Second)
	if c.Now == nil {
		c.Now = time.Now
	}
	ctx, cancel := context.WithCancel(context.Background())
	s := &Source{cfg: c, stop: cancel, turn: make(chan struct{}, 1), refused: make(chan struct{}, 1)}
	s.wg.Go(func() { s.care(ctx) })
	return s
}

// Close implements credential.Source.
func (s *Source) Close() {
	s.stop()
	s.wg.Wait()
}

// Get implements credential.Source.
func (s *Source) Get(ctx context.Context) (credential.Credential, error) {
	if c, ok := s.Now(); ok {
		return c, nil
	}
	if _, err := s.step(ctx); err != nil {
		return credential.Credential{}, err
	}
	c, _ := s.Now()
	return c, nil
}

// care does what is due, again and again.
func (s *Source) care(ctx context.Context) {
	timer := time.NewTimer(s.cfg.Pause) // Get is faster
	defer timer.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-timer.C:
		case <-s.refused:
			s.doubt(ctx)
		}
		wait := s.cfg.Pause
		if _, ok := s.Now(); ok {
			if next, err := s.step(ctx); err == nil {
				wait = max(next.Sub(s.cfg.Now()), 10*time.Millisecond)
			}
		}
		timer.Reset(wait)
	}
}

// Refused implements credential.Source. What has a lease may have been taken back by
// somebody, and what has none may be another by now.
func (s *Source) Refused(c credential.Credential) {
	if now, ok := s.Now(); !ok || !now.Same(c) {
		return
	}
	select {
	case s.refused <- struct{}{}:
	default:
	}
}

// doubt has what there is taken anew by the next step.
func (s *Source) doubt(ctx context.Context) {
	select {
	case s.turn <- struct{}{}:
	case <-ctx.Done():
		return
	}
	defer func() { <-s.turn }()
	if now := s.cfg.Now(); now.Sub(s.asked) >= insist {
		s.asked, s.lease.renews, s.lease.care = now, false, time.Time{}
	}
}

// step does what is due, and returns when something is next.
func (s *Source) step(ctx context.Context) (next time.Time, err error) {
	select {
	case s.turn <- struct{}{}:
	case <-ctx.Done():
		return next, ctx.Err()
	}
	defer func() { <-s.turn }()
	state, err := s.cfg.Client.Keep(ctx)
	if err == nil {
		err = s.do(ctx, state)
	}
	if err != nil {
		if ctx.Err() == nil {
			s.Fail(err)
		}
		return next, err
	}
	next = s.lease.care
	if !state.Care.IsZero() && state.Care.Before(next) {
		next = state.Care
	}
	return next, nil
}

func (s *Source) do(ctx context.Context, state vault.State) error {
	now := s.cfg.Now()
	_, have := s.Now()
	switch l := s.lease; {
	case !have, l.id != "" && l.session != state.Number: // the session that it was taken in is about to end, and it with that
	case now.Before(l.care):
		return nil
	case l.id != "" && l.renews:
		if on, err := s.renew(ctx, now); on || err != nil {
			return err
		}
	}
	return s.take(ctx, now)
}

// renew has a lease live on, and tells whether it does for long enough.
func (s *Source) renew(ctx context.Context, now time.Time) (bool, error) {
	out, err := s.cfg.Client.Write(ctx, "sys/leases/renew", map[string]any{"lease_id": s.lease.id})
	switch kind := fault.Of(err); {
	case err != nil && kind != fault.Invalid && kind != fault.Denied && kind != fault.NotFound:
		return false, err
	case err != nil || out == nil:
		return false, nil // it is over, or may not be renewed: there are others
	}
	life := time.Duration(out.LeaseDuration) * time.Second
	c, _ := s.Now()
	c.Ends = now.Add(life)
	s.lease.care, s.lease.renews, s.lease.full = now.Add(life*2/3), out.Renewable, max(life, s.lease.full)
	s.Set(c)
	// One that was renewed for less comes to its longest life: there is time for another.
	return life > 0 && life >= s.lease.full*2/3, nil
}

func (s *Source) take(ctx context.Context, now time.Time) error {
	out, session, err := s.cfg.Client.Take(ctx, s.cfg.Path)
	if err != nil {
		return err
	}
	c, err := s.read(out)
	if err != nil {
		return err
	}
	s.lease = lease{care: now.Add(s.cfg.Refresh)}
	if out.LeaseID != "" && out.LeaseDuration > 0 {
		life := time.Duration(out.LeaseDuration) * time.Second
		s.lease = lease{id: out.LeaseID, session: session, full: life, renews: out.Renewable, care: now.Add(life * 2 / 3)}
		c.Ends = now.Add(life)
	}
	s.Set(c)
	return nil
}

// read finds the credential in an answer: of an engine that makes it, or of KV in
// either version.
func (s *Source) read(out *api.Secret) (credential.Credential, error) {
	data := out.Data
	if inner, ok := data["data"].(map[string]any); ok && data["metadata"] != nil {
		data = inner
	}
	var c credential.Credential
	c.Username, _ = data["username"].(string)
	if c.Password, _ = data["password"].(string); c.Password == "" {
		hint := ""
		if !strings.Contains(s.cfg.Path, "/data/") {
			hint = "; of a KV engine of version 2 the path is MOUNT/data/NAME"
		}
		return c, fault.New(fault.Invalid, "%s has no password at %s%s", s.cfg.Client.Name(), s.cfg.Path, hint).Because("credential")
	}
	return c, nil
}
