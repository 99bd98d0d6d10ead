package rabbitmq

import (
	"context"
	"errors"
	"net"
	"time"

	amqp "github.com/rabbitmq/amqp091-go"

	"github.com/droverhq/drover/internal/bus"
	"github.com/droverhq/drover/internal/fault"
	"github.com/droverhq/drover/internal/resilience"
)

// retiring is how long a connection that was replaced may take to end what it was in
// the middle of. What is not done by then comes again.
const retiring = time.Minute

// Login knows who opens the broker at the moment. It is asked for every connection.
type Login interface {
	// Get returns a name, which is the URL's if it is empty, and a password.
	Get(ctx context.Context) (name, password string, err error)
	// Changed returns what is closed when there is another. Connections are replaced
	// then, without a message being lost or coming twice.
	Changed() <-chan struct{}
	// Refused tells that the broker does not know one that Get has returned.
	Refused(name, password string)
}

// Outside is what a bus is given besides its settings. Everything has a default.
type Outside struct {
	Observer resilience.Observer // hears how connecting goes; default: nobody
	// Dial connects; default: that of a net.Dialer.
	Dial  func(ctx context.Context, network, addr string) (net.Conn, error)
	Login Login // default: the settings
	// Guard keeps the tokens of messages that were put aside, and may lie there for long,
	// from whoever reads them there; default: nobody does.
	Guard Guard
	// Lost hears of a queue that somebody has deleted, with what was in it; default:
	// nobody does.
	Lost func(queue string)
	// Dead hears of each message that the broker itself has put aside (it is too large, it
	// expired, or whoever took it ended again and again), so that its sender can be told. What
	// it could not do is tried again, as of Consume. Default: nobody does, and Consume hands over what
	// is too large.
	Dead func(ctx context.Context, queue string, d bus.Delivery) error
	// Away hears, once, that the broker (its host) cannot be reached or was lost, and why; Back
	// that it is there again, and for how long it was not. Default: nobody does.
	Away func(broker string, why error)
	Back func(broker string, after time.Duration)
	// Had tells whether a queue that is not there was consumed before this process began;
	// default: none was.
	Had func(ctx context.Context, queue string) bool
}

// Connect makes a bus that is given more than settings; the broker may be away.
func Connect(o bus.Options, with Outside) (bus.Bus, error) {
	b, err := New(o)
	if err != nil {
		return nil, err
	}
	b.outside = with
	b.out, b.in = newLink(b, "out", with.Observer), newLink(b, "in", with.Observer)
	if with.Login != nil {
		changed := with.Login.Changed() // before anybody connects
		// One goroutine, which ends with the bus.
		b.running.Go(func() { b.follow(changed) })
	}
	return b, nil
}

// identity is who has opened a connection, as the Login said.
type identity struct{ name, password string }

// login asks who opens a connection now.
func (b *Bus) login(ctx context.Context, u amqp.URI) (who identity, sasl amqp.Authentication, secrets []string, err error) {
	if b.outside.Login == nil {
		sasl, secrets, err = b.settings.login(u)
		return who, sasl, secrets, err
	}
	if who.name, who.password, err = b.outside.Login.Get(ctx); err != nil {
		return who, nil, nil, fault.New(fault.Unavailable, "there is nothing to open the broker with: %w", err).Because("no-credential")
	}
	name := who.name
	if name == "" {
		name = u.Username
	}
	return who, &amqp.PlainAuth{Username: name, Password: who.password}, []string{who.password}, nil
}

// refused tells the login of an error that means that it is not known.
func (b *Bus) refused(who identity, err error) {
	var no *amqp.Error
	if b.outside.Login != nil && (errors.Is(err, amqp.ErrCredentials) || errors.As(err, &no) && no.Code == amqp.AccessRefused) {
		b.outside.Login.Refused(who.name, who.password)
	}
}

// follow replaces connections whenever the login has changed.
func (b *Bus) follow(changed <-chan struct{}) {
	for {
		select {
		case <-changed:
		case <-b.life.Done():
			return
		}
		changed = b.outside.Login.Changed() // before it is asked
		for _, l := range []*link{b.out, b.in} {
			for pause := firstPause; !l.renew(); pause = min(2*pause, lastPause) {
				if !bus.Rest(b.life, pause) {
					return
				}
			}
		}
	}
}

// renew replaces a connection that somebody else than the login of now has opened, and
// tells whether there is none any more. Until another is there, the old one goes on.
func (l *link) renew() bool {
	name, password, err := l.bus.outside.Login.Get(l.bus.life)
	if err != nil {
		return false
	}
	l.mu.Lock()
	old, dialing := l.session, l.dialing
	l.mu.Unlock()
	switch {
	case dialing:
		return false // it may have asked before the change
	case old == nil || old.who == identity{name, password}:
		return true // the next one is opened by whoever it is then
	}
	s, err := l.dial()
	if err != nil {
		return false
	}
	l.mu.Lock()
	if l.session != old || l.bus.life.Err() != nil { // it was lost meanwhile
		l.mu.Unlock()
		s.end()
		return l.bus.life.Err() != nil
	}
	l.session, l.trouble = s, nil
	l.mu.Unlock()
	l.keep(s)
	close(old.retired)
	// One goroutine per replaced connection, which ends it.
	l.bus.running.Go(func() { old.retire(l.bus.life) })
	return true
}

// retire ends a connection once nobody uses it, or time is up.
func (s *session) retire(life context.Context) {
	idle := make(chan struct{})
	go func() { // ends at the latest when those who use it have lost it
		s.users.wait()
		close(idle)
	}()
	timer := time.NewTimer(retiring)
	defer timer.Stop()
	select {
	case <-idle:
	case <-timer.C:
	case <-s.ended:
	case <-life.Done():
		// Close waits for whoever handles messages before it ends connections.
		select {
		case <-idle:
		case <-timer.C:
		}
	}
	s.end()
}
