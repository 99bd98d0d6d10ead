package rabbitmq

import (
	"errors"
	"net"
	"strconv"
	"strings"
	"time"

	amqp "github.com/rabbitmq/amqp091-go"
)

// keep watches over the connection of a link: when it is lost that is told, and another is
// opened whether or not somebody waits for it, so that what is told is true.
func (l *link) keep(s *session) {
	b := l.bus
	// One goroutine per connection, which ends when there is another, or with the bus.
	b.running.Go(func() {
		<-s.ended
		select {
		case <-s.retired:
			return // another had taken its place before
		default:
		}
		var why error = errors.New("the connection was closed")
		if s.why != nil {
			why = s.why
		}
		b.gone(s.at, why)
		if next, err := l.get(b.life); err == nil {
			next.users.leave()
		}
	})
}

// gone tells that the broker is away, unless that was told.
func (b *Bus) gone(broker string, why error) {
	b.mu.Lock()
	told := !b.absent.IsZero() || b.life.Err() != nil
	if !told {
		b.absent = time.Now()
	}
	b.mu.Unlock()
	if !told && b.outside.Away != nil {
		b.outside.Away(broker, why)
	}
}

// there tells that the broker is back, once no connection waits for it.
func (b *Bus) there(broker string) {
	if b.away() {
		return
	}
	b.mu.Lock()
	since := b.absent
	b.absent = time.Time{}
	b.mu.Unlock()
	if !since.IsZero() && b.outside.Back != nil {
		b.outside.Back(broker, time.Since(since))
	}
}

// Heard is when something came from the broker last, be it a heartbeat; zero: nothing did.
func (b *Bus) Heard() time.Time {
	if at := b.heard.Load(); at != 0 {
		return time.Unix(0, at)
	}
	return time.Time{}
}

// hosts are all that are tried, without what opens them.
func (b *Bus) hosts() string {
	var all []string
	for _, u := range b.settings.urls {
		all = append(all, host(u))
	}
	return strings.Join(all, " ")
}

func host(u amqp.URI) string { return net.JoinHostPort(u.Host, strconv.Itoa(u.Port)) }
