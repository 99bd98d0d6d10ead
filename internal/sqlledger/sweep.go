package sqlledger

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/droverhq/drover/internal/fault"
	"github.com/droverhq/drover/internal/ledger"
)

const (
	sweepMost = 500_000 // blobs that one sweep looks at; the next goes on behind them
	sweepPage = 500     // objects that are read, and marks that are written, at a time

	sweepPatience = time.Minute // for one query: nobody waits for it
)

// sweep is one walk over blobs and objects.
type sweep struct {
	*Ledger
	ledger.Sweep
	start int64            // by the store's clock, before anything was read
	idle  map[string]int64 // blobs that are old enough, and since when nobody names them
	named []any            // of them, those that objects name though they were taken for idle
	out   ledger.Swept
}

// Sweep implements ledger.Sweeper. What was found idle is erased by a later sweep,
// if it was not put and not named since: naming and putting reset the mark in the
// commit that does so, and the mark is looked at again in the one that erases.
func (l *Ledger) Sweep(ctx context.Context, how ledger.Sweep) (ledger.Swept, error) {
	if _, err := l.keys(); err != nil {
		return ledger.Swept{}, err
	}
	l.sweeping.Lock()
	defer l.sweeping.Unlock()
	s := &sweep{Ledger: l, Sweep: how, idle: map[string]int64{}}
	for _, step := range []func(context.Context) error{s.known, s.adopt, s.candidates, s.objects, s.mark, s.erase} {
		if err := step(ctx); err != nil {
			return s.out, err
		}
	}
	return s.out, nil
}

// known makes sure that all objects can be read, and looks at the clock.
func (s *sweep) known(ctx context.Context) error {
	err := s.read(ctx, "SELECT DISTINCT kind FROM declared", nil, func(scan scanner) error {
		var kind string
		if err := scan(&kind); err != nil {
			return err
		}
		if s.stores[kind] == nil {
			return fault.New(fault.Conflict, "the ledger has objects of kind %s, which this program does not know: what they name cannot be told", kind)
		}
		return nil
	})
	if err != nil {
		return err
	}
	var b binder
	return s.read(ctx, "SELECT "+s.dialect.now(&b, s.config.Now)+" FROM head", b.args, func(scan scanner) error { return scan(&s.start) })
}

// adopt gives a mark to blobs of an earlier program, as if they were put now.
func (s *sweep) adopt(ctx context.Context) error {
	var found []any
	err := s.read(ctx, "SELECT digest FROM blobs AS b WHERE NOT EXISTS (SELECT 1 FROM blobmarks AS m WHERE m.digest = b.digest) LIMIT $1", []any{int64(sweepMost)},
		func(scan scanner) error {
			var digest string
			err := scan(&digest)
			found = append(found, digest)
			return err
		})
	if err != nil {
		return err
	}
	return s.write(ctx, found, func(digests []any, b *binder) string {
		return "INSERT INTO blobmarks (digest, at, idle, gone) SELECT digest, CAST(" + b.bind(s.start) + " AS BIGINT), 0, 0 FROM blobs WHERE " +
			s.dialect.among("digest", digests, true, b) + " ON CONFLICT (digest) DO NOTHING"
	})
}

// candidates reads which blobs are not young. Those of one sweep are bounded.
func (s *sweep) candidates(ctx context.Context) error {
	last := ""
	err := s.read(ctx, "SELECT digest, idle FROM blobmarks WHERE digest > $1 AND gone = 0 AND at < $2 ORDER BY digest LIMIT $3",
		[]any{s.swept, s.start - s.Young.Microseconds(), int64(sweepMost)}, func(scan scanner) error {
			var idle int64
			err := scan(&last, &idle)
			s.idle[last] = idle
			return err
		})
	if s.swept = last; len(s.idle) < sweepMost {
		s.swept = ""
	}
	s.out.Blobs = len(s.idle)
	return err
}

// objects reads all that there are, and takes what they name off the list.
func (s *sweep) objects(ctx context.Context) error {
	if len(s.idle) == 0 {
		return nil
	}
	for _, kind := range slices.Sorted(maps.Keys(s.stores)) {
		sql := "SELECT id, spec, status, view FROM " + s.stores[kind].table.name + " WHERE id > $1 AND deleted = 0 ORDER BY id LIMIT $2"
		for last, n := "", sweepPage; n == sweepPage; {
			n = 0
			err := s.read(ctx, sql, []any{last, int64(sweepPage)}, func(scan scanner) error {
				var spec, status, view string
				if err := scan(&last, &spec, &status, &view); err != nil {
					return err
				}
				n++
				for _, digest := range ledger.Named(&ledger.Object{Spec: []byte(spec), Status: []byte(status), View: []byte(view)}) {
					if idle, ok := s.idle[digest]; ok {
						delete(s.idle, digest)
						if s.out.Named++; idle != 0 {
							s.named = append(s.named, digest)
						}
					}
				}
				return nil
			})
			if err != nil {
				return err
			}
		}
	}
	return nil
}

// mark writes down who is named and who no longer is.
func (s *sweep) mark(ctx context.Context) error {
	err := s.write(ctx, s.named, func(digests []any, b *binder) string {
		return "UPDATE blobmarks SET idle = 0 WHERE " + s.dialect.among("digest", digests, true, b)
	})
	if err != nil {
		return err
	}
	return s.write(ctx, s.those(func(idle int64) bool { return idle == 0 }), func(digests []any, b *binder) string {
		return "UPDATE blobmarks SET idle = " + s.dialect.now(b, s.config.Now) + " WHERE idle = 0 AND gone = 0 AND at < " + b.bind(s.start-s.Young.Microseconds()) +
			" AND " + s.dialect.among("digest", digests, true, b)
	})
}

// erase removes what has been idle for long enough and still is. That it was there is
// remembered for as long again, and for a day at least, to refuse who would name it.
func (s *sweep) erase(ctx context.Context) error {
	before := s.start - s.Keep.Microseconds()
	old := s.those(func(idle int64) bool { return idle != 0 && idle <= before })
	err := s.write(ctx, old, func(digests []any, b *binder) string {
		return "UPDATE blobmarks SET gone = " + s.dialect.now(b, s.config.Now) + " WHERE gone = 0 AND idle <> 0 AND idle <= " + b.bind(before) +
			" AND " + s.dialect.among("digest", digests, true, b)
	}, func(digests []any, b *binder) string {
		return "DELETE FROM blobs WHERE " + s.dialect.among("digest", digests, true, b) +
			" AND EXISTS (SELECT 1 FROM blobmarks AS m WHERE m.digest = blobs.digest AND m.gone <> 0)"
	})
	if err != nil {
		return err
	}
	s.out.Erased = len(old)
	_, err = s.submit(ctx, &request{exec: []statement{{op: raw, sql: "DELETE FROM blobmarks WHERE gone <> 0 AND gone < $1",
		args: []any{s.start - max(s.Keep, s.Young, 24*time.Hour).Microseconds()}}}})
	return err
}

func (s *sweep) those(is func(idle int64) bool) []any {
	var out []any
	for _, digest := range slices.Sorted(maps.Keys(s.idle)) {
		if is(s.idle[digest]) {
			out = append(out, digest)
		}
	}
	return out
}

// write has statements done for some blobs at a time, those of one time in one commit.
func (s *sweep) write(ctx context.Context, digests []any, each ...func(digests []any, b *binder) string) error {
	for page := range slices.Chunk(digests, sweepPage) {
		var todo []statement
		for _, write := range each {
			var b binder
			sql := write(page, &b)
			todo = append(todo, statement{op: raw, sql: sql, args: b.args})
		}
		if _, err := s.submit(ctx, &request{exec: todo}); err != nil {
			return fmt.Errorf("cannot sweep: %w", err)
		}
	}
	return nil
}

func (s *sweep) read(ctx context.Context, sql string, args []any, each func(scan scanner) error) error {
	ctx, cancel := context.WithTimeout(ctx, sweepPatience)
	defer cancel()
	return s.engine.read(ctx, sql, args, each)
}
