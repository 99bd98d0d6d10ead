package app

import (
	"context"
	"fmt"
	"net/netip"
	"strings"

	v1 "github.com/droverhq/drover/api/v1"
	"github.com/droverhq/drover/internal/audit"
	"github.com/droverhq/drover/internal/fault"
	"github.com/droverhq/drover/internal/httpapi"
	"github.com/droverhq/drover/internal/ledger"
	"github.com/droverhq/drover/internal/sqlledger"
)

// auditRoom puts together what seals the log and tells of it.
func (s *Server) auditRoom() (err error) {
	s.audit, err = audit.NewService(audit.Config{Store: s.ledger, Kinds: kindNames(), Retain: s.cfg.LogRetention, Sealed: func(of string, h ledger.SealedHead) {
		// The line as `drover ledger heads` prints it: where this log goes elsewhere, heads are kept.
		_, line, _ := strings.Cut(ledger.Heads{Ledger: of, Heads: []ledger.SealedHead{h}}.String(), "\n")
		s.log.Info("the log was sealed", "ledger", of, "head", strings.TrimSpace(line))
	}})
	return err
}

func kindNames() (out []string) {
	for _, k := range Kinds() {
		out = append(out, k.Name)
	}
	return out
}

// proxies reads the networks of those whose word counts for where a call came from.
func (c *Config) proxies() ([]netip.Prefix, error) {
	var out []netip.Prefix
	for _, text := range c.Proxies {
		p, err := netip.ParsePrefix(text)
		if err != nil {
			return nil, fault.New(fault.Invalid, "%q is not a network of proxies such as 10.0.0.0/8", text)
		}
		out = append(out, p)
	}
	return out, nil
}

// openLedger opens what a server has written, without the master key: nothing that
// is sealed is read. It writes nothing, and makes no ledger where there is none. End
// closes it.
func openLedger(ctx context.Context, c Config) (l *sqlledger.Ledger, end func(), err error) {
	c.defaults()
	needs, err := openOwn(&c, nil)
	if err != nil {
		return nil, nil, err
	}
	at, err := needs.database()
	if err == nil {
		at.Kinds, at.ReadOnly = Kinds(), true
		l, err = sqlledger.Open(ctx, at)
	}
	switch fault.Reason(err) {
	case "locked":
		err = fmt.Errorf("%w: stop it, or verify a copy, or without --data-dir through its API", err)
	case "no-ledger":
		err = fmt.Errorf("%w: name another with --data-dir or --database", err)
	}
	if err != nil {
		needs.close()
		return nil, nil, err
	}
	return l, func() { l.Close(); needs.close() }, nil
}

// Verify looks at a ledger without a server, against heads that somebody has kept.
func Verify(ctx context.Context, c Config, heads []byte, progress func(changes, of int64)) (v1.Verification, error) {
	var kept ledger.Heads
	if len(heads) > 0 {
		var err error
		if kept, err = ledger.ParseHeads(heads); err != nil {
			return v1.Verification{}, err
		}
	}
	l, end, err := openLedger(ctx, c)
	if err != nil {
		return v1.Verification{}, err
	}
	defer end()
	room, err := audit.NewService(audit.Config{Store: l, Kinds: kindNames()})
	if err != nil {
		return v1.Verification{}, err
	}
	report, err := room.Verify(ctx, kept, progress)
	return httpapi.WireReport(report), err
}
