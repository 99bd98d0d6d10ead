package sqlledger

import (
	"context"
	"fmt"
	"time"

	"github.com/droverhq/drover/internal/ledger"
)

// Examination is how the database is, for whoever operates it.
type Examination struct {
	Engine string    // SQLite, PostgreSQL
	Schema int64     // version that the database has
	Knows  int64     // that this program knows
	Clock  time.Time // of the database; zero: it goes by this program's
	// Failing is the work that failed at least so often in a row, worst first.
	Failing []ledger.WorkRow
}

// Examine looks at what no object tells: one row, and as much of the work that fails
// as is asked for.
func (l *Ledger) Examine(ctx context.Context, tries, limit int) (Examination, error) {
	ctx, cancel := l.patient(ctx)
	defer cancel()
	out := Examination{Engine: "SQLite", Knows: int64(len(migrations))}
	if l.dialect.clock != "" {
		out.Engine = "PostgreSQL"
	}
	var b binder
	now := int64(0)
	err := l.engine.read(ctx, "SELECT schema_version, "+l.dialect.now(&b, l.config.Now)+" FROM head", b.args, func(scan scanner) error { return scan(&out.Schema, &now) })
	if err != nil {
		return out, err
	}
	if l.dialect.clock != "" {
		out.Clock = instant(now)
	}
	b = binder{}
	err = l.engine.read(ctx, failing(&b, tries, limit), b.args, func(scan scanner) error {
		row, _, err := scanWork(scan)
		out.Failing = append(out.Failing, row)
		return err
	})
	return out, err
}

// failing is the question for the worst. That attempts are more than none says which
// index has them.
func failing(b *binder, tries, limit int) string {
	return "SELECT " + names(workTable.columns, "") + " FROM work WHERE attempts > 0 AND attempts >= " + b.bind(int64(max(tries, 1))) +
		" ORDER BY attempts DESC, kind, id LIMIT " + b.bind(int64(limit))
}

// backlog is the question for how much work there is. Each half reads one index, and
// no row but those that somebody works on: what waits is by far the most.
func backlog(now string) string {
	return fmt.Sprintf(`SELECT kind, CAST(sum(due) AS bigint), CAST(sum(running) AS bigint), CAST(sum(waiting) AS bigint), max(oldest) FROM (
		SELECT kind, sum(CASE WHEN due <= %[1]s THEN 1 ELSE 0 END) AS due, 0 AS running, sum(CASE WHEN due > %[1]s THEN 1 ELSE 0 END) AS waiting,
			coalesce(max(CASE WHEN due <= %[1]s THEN %[1]s - due END), 0) AS oldest
			FROM work WHERE token = 0 GROUP BY kind
		UNION ALL
		SELECT kind, sum(CASE WHEN until <= %[1]s THEN 1 ELSE 0 END), sum(CASE WHEN until > %[1]s THEN 1 ELSE 0 END), 0,
			coalesce(max(CASE WHEN until <= %[1]s THEN %[1]s - due END), 0)
			FROM work WHERE token <> 0 GROUP BY kind
		) AS halves GROUP BY kind ORDER BY kind`, now)
}
