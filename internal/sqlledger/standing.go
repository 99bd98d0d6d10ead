package sqlledger

import (
	"context"
	"errors"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"

	"github.com/droverhq/drover/internal/fault"
)

// Standing is how a database stands among its replicas, by its own clock.
type Standing struct {
	Ledger     string
	Epoch      int64
	Begun      string // the site that began the epoch by a promotion
	Seq        int64  // the newest change that can be read
	Recovering bool   // it is a standby
	Server     int64  // when its server was started, in microseconds: no two of them have the same
	Heard      Heard  // what the site of the probe has written down
	// At is a moment whose changes can all be read here; Now is when that was so. At is
	// the time of the newest change, or later where the stream from the primary says
	// that there is nothing more.
	At, Now time.Time
}

// Heard is what a site has heard of the other one, for all of its replicas and for those
// who come after them.
type Heard struct {
	Seen     int64  // the highest epoch that anybody told of
	Followed int64  // the newest epoch that the other site had a copy of
	Peer     string // where that one is reached; empty: it is not known
}

// Probe looks at a PostgreSQL apart from any ledger that is open on it.
type Probe struct {
	engine *pg
	site   string
}

// OpenProbe does not connect yet. What is written down is that of Config.Site. Close it.
func OpenProbe(ctx context.Context, c Config) (*Probe, error) {
	c.ReadOnly = true
	if !onPostgres(c.URL) {
		return nil, fault.New(fault.Invalid, "two sites need PostgreSQL, which replicates: --database postgres://...")
	}
	e, err := openPostgres(ctx, c, func() {})
	if err != nil {
		return nil, err
	}
	return &Probe{e, c.Site}, nil
}

// standing asks for all in one statement. What the receiver says is there for roles
// that may see it (pg_monitor): the end of the primary's log as of its last message,
// and when that came.
const standing = `SELECT ledger, epoch, seq, at,
	(extract(epoch FROM clock_timestamp()) * 1000000)::bigint,
	coalesce((SELECT (extract(epoch FROM last_msg_receipt_time) * 1000000)::bigint FROM pg_stat_wal_receiver
		WHERE status = 'streaming' AND latest_end_lsn <= pg_last_wal_replay_lsn()), 0),
	pg_is_in_recovery(),
	coalesce((SELECT to_jsonb(e) ->> 'site' FROM epochs AS e WHERE e.epoch = head.epoch), ''),
	(extract(epoch FROM pg_postmaster_start_time()) * 1000000)::bigint,
	coalesce(s.seen, 0), coalesce(s.followed, 0), coalesce(s.peer, '')
	FROM head LEFT JOIN `

// The second is for a ledger that an older program has prepared.
const (
	withSites    = standing + "sites AS s ON s.site = $1"
	withoutSites = standing + "(SELECT 0::bigint AS seen, 0::bigint AS followed, ''::text AS peer) AS s ON $1 = ''"
)

// Look asks the database. NotFound, reason "no-ledger": it holds none; whether it is a
// standby is told nevertheless.
func (p *Probe) Look(ctx context.Context) (Standing, error) {
	var s Standing
	var at, now, received int64
	look := func(sql string) error {
		return p.engine.read(ctx, sql, []any{p.site}, func(scan scanner) error {
			return scan(&s.Ledger, &s.Epoch, &s.Seq, &at, &now, &received, &s.Recovering, &s.Begun, &s.Server, &s.Heard.Seen, &s.Heard.Followed, &s.Heard.Peer)
		})
	}
	err := look(withSites)
	if tableless(err) {
		err = look(withoutSites)
	}
	if tableless(err) || err == nil && s.Ledger == "" {
		if err = p.engine.read(ctx, "SELECT pg_is_in_recovery()", nil, func(scan scanner) error { return scan(&s.Recovering) }); err == nil {
			err = fault.New(fault.NotFound, "there is no ledger in the database yet").Because("no-ledger")
		}
	}
	if err != nil {
		return s, err
	}
	s.At, s.Now = instant(max(at, received)), instant(now)
	if !s.Recovering {
		s.At = s.Now
	}
	return s, nil
}

func tableless(err error) bool {
	var refusal *pgconn.PgError
	return errors.As(err, &refusal) && refusal.Code == "42P01"
}

// Note writes down what the site has heard, and takes nothing back: replicas hear at
// different times. It does not wait for a standby, which is the other site.
func (p *Probe) Note(ctx context.Context, h Heard) error {
	var b pgx.Batch
	b.Queue("BEGIN READ WRITE")
	b.Queue("SET LOCAL synchronous_commit = local")
	b.Queue(`INSERT INTO sites AS s (site, seen, followed, peer) VALUES ($1, $2, $3, $4) ON CONFLICT (site) DO UPDATE SET
		seen = greatest(s.seen, excluded.seen), followed = greatest(s.followed, excluded.followed),
		peer = CASE WHEN excluded.peer = '' THEN s.peer ELSE excluded.peer END`, p.site, h.Seen, h.Followed, h.Peer)
	b.Queue("COMMIT")
	err := p.engine.pool.SendBatch(ctx, &b).Close()
	p.engine.opener.heard(err)
	return readError(err)
}

// Promote has a standby take writes. It is no error where it does already.
func (p *Probe) Promote(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, time.Minute)
	defer cancel()
	// One that this program cannot lead with stays what it is.
	var version int64
	if err := p.engine.read(ctx, "SELECT schema_version FROM head", nil, func(scan scanner) error { return scan(&version) }); err == nil {
		if err := newerSchema(version); err != nil {
			return err
		}
	}
	promoted := false
	err := p.engine.read(ctx, "SELECT CASE WHEN pg_is_in_recovery() THEN pg_promote(true, 45) ELSE true END", nil, func(scan scanner) error { return scan(&promoted) })
	if err != nil {
		// Who waits for it may be cut off by what it waits for.
		for range 50 {
			if s, looked := p.Look(ctx); looked == nil && !s.Recovering {
				return nil
			}
			select {
			case <-ctx.Done():
				return err
			case <-time.After(100 * time.Millisecond):
			}
		}
		return fault.New(fault.Of(err), "cannot promote the standby: %w (its role needs EXECUTE on pg_promote)", err)
	}
	if !promoted {
		return fault.New(fault.Unavailable, "the standby has not been promoted within its time; try again")
	}
	return nil
}

// Close gives the connections back.
func (p *Probe) Close() { p.engine.close() }

// Nudge wakes whoever waits for changes. On a standby no replica can: whoever looks at
// it does.
func (l *Ledger) Nudge() { l.hints.signal() }
