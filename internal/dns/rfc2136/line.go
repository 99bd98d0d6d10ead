package rfc2136

import (
	"context"
	"errors"
	"io"
	"net"
	"time"

	"github.com/miekg/dns"

	"github.com/droverhq/drover/internal/fault"
)

// spares is how many connections more a question may cost. A look-up uses many
// at once, and without spares the first one that breaks would fail it for all
// hosts of the batch: where a fifth of the connections break, nearly always.
const spares = 3

// line is a connection to the server that is replaced when it breaks. Whoever
// must not ask twice has no spare ones.
type line struct {
	provider *Provider
	spare    int
	conn     *dns.Conn
}

func (l *line) close() {
	if l.conn != nil {
		l.conn.Close()
		l.conn = nil
	}
}

func (l *line) exchange(ctx context.Context, m *dns.Msg) (*dns.Msg, error) {
	for {
		if l.conn == nil {
			conn, err := (&dns.Client{Net: "tcp", TsigSecret: l.provider.secrets}).DialContext(ctx, l.provider.server)
			if err != nil {
				return nil, err // nobody is there: another try would not find him either
			}
			l.conn = conn
		}
		a, err := l.provider.exchange(ctx, l.conn, m.Copy())
		if err == nil || l.spare == 0 || ctx.Err() != nil || !broke(err) {
			return a, err
		}
		l.spare--
		l.close()
	}
}

// broke reports whether a connection ended before its answer, in contrast to
// one on which nothing came.
func broke(err error) bool {
	if errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) {
		return true
	}
	var network *net.OpError
	return errors.As(err, &network) && !network.Timeout()
}

// exchange signs the question and wants the answer signed by the same key.
func (p *Provider) exchange(ctx context.Context, conn *dns.Conn, m *dns.Msg) (*dns.Msg, error) {
	if p.key != "" {
		m.SetTsig(p.key, p.algorithm, 300, time.Now().Unix())
	}
	timeout := 10 * time.Second
	if t, ok := ctx.Deadline(); ok {
		timeout = time.Until(t)
	}
	// A Conn signs each message as the answer to the one before: it is good for one.
	conn = &dns.Conn{Conn: conn.Conn, TsigSecret: p.secrets}
	stop := context.AfterFunc(ctx, func() { conn.SetDeadline(time.Unix(1, 0)) })
	defer stop()
	a, _, err := (&dns.Client{Net: "tcp", Timeout: timeout, TsigSecret: p.secrets}).ExchangeWithConnContext(ctx, m, conn)
	if err != nil {
		return nil, err
	}
	if p.key != "" && a.IsTsig() == nil && a.Rcode != dns.RcodeNotAuth && a.Rcode != dns.RcodeRefused {
		return nil, fault.New(fault.Unavailable, "the answer is not signed with the key %s", p.key)
	}
	return a, nil
}
