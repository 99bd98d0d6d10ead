package rabbitmq

import (
	"context"
	"errors"
	"net"
	"sync"
	"sync/atomic"
	"time"

	amqp "github.com/rabbitmq/amqp091-go"

	"github.com/droverhq/drover/internal/bus"
	"github.com/droverhq/drover/internal/fault"
	"github.com/droverhq/drover/internal/resilience"
)

const (
	dialTime  = 15 * time.Second // for one try, with all of its handshakes
	heartbeat = 10 * time.Second // the library asks for one in half of it, and gives a connection up after three of those
	writeTime = 30 * time.Second // for what the network does not take
	closeTime = 2 * time.Second

	firstPause, lastPause = 50 * time.Millisecond, 5 * time.Second
)

// reasonAway is that of what a broker does not answer.
const reasonAway = "broker-away"

// session is a connection while it lasts.
type session struct {
	conn  *amqp.Connection
	wire  net.Conn      // below all else, to end what hangs
	ended chan struct{} // closed when it is over
	who   identity      // has opened it
	at    string        // host and port
	why   *amqp.Error   // it is over; nil: nobody said
	users tasks         // those who are in the middle of something

	retired chan struct{} // closed when another has taken its place

	mu      sync.Mutex
	blocked string        // why the broker takes no messages; empty: it does
	changed chan struct{} // closed and replaced when blocked has changed
}

// wire gives up what it cannot write: the library would wait for it, and for
// nothing else meanwhile, not even its heartbeat. It notes when something came, be it a
// heartbeat.
type wire struct {
	net.Conn
	heard *atomic.Int64
}

func (w wire) Read(p []byte) (int, error) {
	n, err := w.Conn.Read(p)
	if n > 0 {
		w.heard.Store(time.Now().UnixNano())
	}
	return n, err
}

func (w wire) Write(p []byte) (int, error) {
	if err := w.SetWriteDeadline(time.Now().Add(writeTime)); err != nil {
		return 0, err
	}
	return w.Conn.Write(p)
}

// dial opens a connection to the first broker that answers, and gives each a while to do so.
// Its name tells operators of the broker what it is for.
func (b *Bus) dial(ctx context.Context, name string, each time.Duration) (*session, error) {
	var last error
	for _, u := range b.settings.urls {
		one, cancel := context.WithTimeout(ctx, each)
		s, err := b.dialOne(one, name, u)
		cancel()
		if err == nil {
			return s, nil
		}
		last = err
		if ctx.Err() != nil {
			break
		}
	}
	return nil, last
}

func (b *Bus) dialOne(ctx context.Context, name string, u amqp.URI) (*session, error) {
	who, sasl, secrets, err := b.login(ctx, u)
	if err != nil {
		return nil, err
	}
	vhost := u.Vhost
	if v := b.settings.options["vhost"]; v != "" {
		vhost = v
	}
	properties := amqp.NewConnectionProperties()
	properties.SetClientConnectionName("drover " + name + " " + b.settings.prefix)
	s := &session{ended: make(chan struct{}), changed: make(chan struct{}), retired: make(chan struct{}), who: who, at: host(u)}
	stop := func() bool { return true }
	config := amqp.Config{
		SASL: []amqp.Authentication{sasl}, Vhost: vhost, Heartbeat: heartbeat, Properties: properties,
		Dial: func(network, addr string) (net.Conn, error) {
			dial := b.outside.Dial
			if dial == nil {
				dial = (&net.Dialer{Timeout: dialTime}).DialContext
			}
			c, err := dial(ctx, network, addr)
			if err != nil {
				return nil, err
			}
			stop = context.AfterFunc(ctx, func() { c.Close() })
			s.wire = wire{c, &b.heard}
			return s.wire, c.SetDeadline(time.Now().Add(dialTime)) // the library lifts it after its handshake
		},
	}
	u.Username, u.Password = "", "" // they are in the login
	if u.Scheme == "amqps" {
		if config.TLSClientConfig, err = b.settings.tls(); err != nil {
			return nil, err
		}
	}
	s.conn, err = amqp.DialConfig(u.String(), config)
	if !stop() && err == nil {
		err = ctx.Err()
	}
	if err != nil {
		if s.wire != nil {
			s.wire.Close()
		}
		b.refused(who, err)
		return nil, errors.New(scrub(err.Error(), secrets...))
	}
	blocks, ends := s.conn.NotifyBlocked(make(chan amqp.Blocking, 1)), s.conn.NotifyClose(make(chan *amqp.Error, 1))
	// One goroutine per connection, which ends with it.
	b.running.Go(func() { s.watch(blocks, ends) })
	return s, nil
}

func (s *session) watch(blocks <-chan amqp.Blocking, ends <-chan *amqp.Error) {
	for n := range blocks { // until the connection is over
		s.mu.Lock()
		s.blocked = ""
		if n.Active {
			s.blocked = "it takes no messages at the moment (" + n.Reason + "): free disk or memory of the broker"
		}
		close(s.changed)
		s.changed = make(chan struct{})
		s.mu.Unlock()
	}
	s.why = <-ends
	close(s.ended)
}

// state tells why the broker takes no messages, and what ends when that changes.
func (s *session) state() (string, <-chan struct{}) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.blocked, s.changed
}

// end closes the connection, with force if the broker does not listen.
func (s *session) end() {
	s.conn.CloseDeadline(time.Now().Add(closeTime)) //nolint:errcheck // it is over in any case
	s.wire.Close()
	<-s.ended
}

// link is a connection that comes back by itself.
type link struct {
	bus    *Bus
	name   string
	policy *resilience.Policy // of connecting

	mu      sync.Mutex
	session *session
	trouble error         // of the last try to connect
	dialing bool          // one goroutine does
	changed chan struct{} // closed and replaced when there is a session, or trouble
}

// newLink makes one. Its breaker rests no longer than it pauses itself: it tells
// how the broker is, and keeps nobody from it who would not wait anyway.
func newLink(b *Bus, name string, observer resilience.Observer) *link {
	return &link{bus: b, name: name, changed: make(chan struct{}), policy: resilience.New(resilience.Config{
		Name: "the broker", Timeout: time.Duration(len(b.settings.urls)+1) * dialTime, Retries: -1, Failures: 3, Rest: firstPause / 2, AtOnce: 1, Tell: true, Observer: observer,
	})}
}

// dial makes one try.
func (l *link) dial() (s *session, err error) {
	refused := l.policy.Once(l.bus.life, func(ctx context.Context) error {
		if s, err = l.bus.dial(ctx, l.name, dialTime); err != nil && ctx.Err() == nil {
			return fault.New(fault.Unavailable, "%w", err)
		}
		return err
	})
	if err == nil {
		err = refused // nothing was tried
	}
	return s, err
}

// get returns the connection, waiting for it until ctx ends. Whoever got it leaves its
// users when done.
func (l *link) get(ctx context.Context) (*session, error) {
	for {
		if err := l.bus.alive(ctx); err != nil {
			return nil, err
		}
		l.mu.Lock()
		if s := l.session; s != nil {
			select {
			case <-s.ended:
				l.session = nil
			default:
				s.users.enter()
				l.mu.Unlock()
				return s, nil
			}
		}
		if !l.dialing {
			l.dialing = true
			// One goroutine per link, which ends when there is a connection or the bus is closed.
			l.bus.running.Go(l.connect)
		}
		changed := l.changed
		l.mu.Unlock()
		select {
		case <-changed:
		case <-l.bus.life.Done():
			return nil, errClosed
		case <-ctx.Done():
			if err := l.state(); err != nil {
				return nil, fault.New(fault.Unavailable, "%w: %w", err, ctx.Err()).Because(fault.Reason(err))
			}
			return nil, fault.New(fault.Unavailable, "the broker does not answer: %w", ctx.Err()).Because(reasonAway)
		}
	}
}

func (l *link) connect() {
	pause := firstPause
	for {
		s, err := l.dial()
		l.mu.Lock()
		l.trouble = err
		if over := l.bus.life.Err() != nil; err == nil || over {
			l.dialing = false
			if !over {
				l.session = s
			}
			close(l.changed)
			l.changed = make(chan struct{})
			l.mu.Unlock()
			switch {
			case !over:
				l.keep(s)
				l.bus.there(s.at)
			case s != nil:
				s.end()
			}
			return
		}
		l.mu.Unlock()
		l.bus.gone(l.bus.hosts(), err)
		if !bus.Rest(l.bus.life, pause) {
			continue // the next try finds the bus closed
		}
		pause = min(2*pause, lastPause)
	}
}

// end closes what there is.
func (l *link) end() {
	l.mu.Lock()
	s := l.session
	l.session = nil
	l.mu.Unlock()
	if s != nil {
		s.end()
	}
}

// Trouble is what keeps the bus from its broker, or nil.
func (b *Bus) Trouble() error {
	b.mu.Lock()
	for _, err := range b.consuming {
		b.mu.Unlock()
		return err
	}
	b.mu.Unlock()
	if err := b.out.state(); err != nil {
		return err
	}
	return b.in.state()
}

// away tells whether the broker is known to be: the last try to connect has failed.
func (b *Bus) away() bool {
	return fault.Reason(b.out.state()) == reasonAway || fault.Reason(b.in.state()) == reasonAway
}

// state is what is wrong with the connection, as far as that is known.
func (l *link) state() error {
	l.mu.Lock()
	trouble, s := l.trouble, l.session
	l.mu.Unlock()
	if trouble != nil {
		return fault.New(fault.Unavailable, "the broker cannot be reached: %w", trouble).Because(reasonAway)
	}
	if s != nil {
		if blocked, _ := s.state(); blocked != "" {
			return fault.New(fault.Unavailable, "the broker is there, but %s", blocked).Because("broker-blocked")
		}
	}
	return nil
}
