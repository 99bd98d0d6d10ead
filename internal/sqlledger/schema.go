package sqlledger

import (
	"context"
	"crypto/rand"
	"fmt"
	"strings"

	"github.com/droverhq/drover/internal/fault"
)

var (
	nameTable    = &table{name: "names", key: 2, columns: text("space", "name", "kind", "id")}
	counterTable = &table{name: "counters", key: 1, columns: concat(text("name"), whole("value"))}
	totalTable   = &table{name: "totals", key: 1, columns: concat(text("name"), whole("value"))}
	workTable    = &table{name: "work", key: 2, columns: concat(text("kind", "id", "org"),
		whole("dirty", "attempts", "due", "turn", "token", "until"), text("holder", "cause", "note"))}
	edgeTable = &table{name: "edges", key: 2, columns: text("src", "dst")} // of objects that are not gone
	logTable  = &table{name: "log", key: 1, columns: concat(whole("seq", "at"),
		text("actor", "cause", "op", "kind", "id", "org"), whole("version"), text("state", "origin"))}
)

// migrations are applied in order, each once. {text}, {int} and {bytes} become
// the database's types; a line that starts with "pg:" or "lite:" is for one
// database only. Never change one that was released: add another.
var migrations = [][]string{{
	`CREATE TABLE head (one {int} PRIMARY KEY CHECK (one = 1), ledger {text} NOT NULL, epoch {int} NOT NULL,
	  seq {int} NOT NULL, at {int} NOT NULL, fence {int} NOT NULL, schema_version {int} NOT NULL, key_check {bytes} NOT NULL)`,
	`CREATE TABLE log (seq {int} PRIMARY KEY, at {int} NOT NULL, actor {text} NOT NULL, cause {text} NOT NULL, op {text} NOT NULL,
	  kind {text} NOT NULL, id {text} NOT NULL, org {text} NOT NULL, version {int} NOT NULL, state {text} NOT NULL, seal {bytes})`,
	`CREATE INDEX log_object ON log (kind, id, seq)`,
	`CREATE INDEX log_org ON log (org, seq)`,
	`CREATE TABLE names (space {text} NOT NULL, name {text} NOT NULL, kind {text} NOT NULL, id {text} NOT NULL, PRIMARY KEY (space, name)){compact}`,
	`CREATE TABLE counters (name {text} PRIMARY KEY, value {int} NOT NULL){compact}`,
	`CREATE TABLE totals (name {text} PRIMARY KEY, value {int} NOT NULL){compact}`,
	`CREATE TABLE work (kind {text} NOT NULL, id {text} NOT NULL, org {text} NOT NULL, dirty {int} NOT NULL, attempts {int} NOT NULL,
	  due {int} NOT NULL, turn {int} NOT NULL, token {int} NOT NULL, until {int} NOT NULL, holder {text} NOT NULL,
	  cause {text} NOT NULL, note {text} NOT NULL, PRIMARY KEY (kind, id)){compact}`,
	`CREATE INDEX work_turn ON work (turn, due, kind) WHERE token = 0`,
	`CREATE INDEX work_due ON work (kind, due) WHERE token = 0`,
	`CREATE INDEX work_until ON work (kind, until) WHERE token <> 0`,
	`CREATE TABLE blobs (digest {text} PRIMARY KEY, data {bytes} NOT NULL)`,
	`CREATE TABLE secrets (id {text} PRIMARY KEY, secret_key {bytes} NOT NULL, data {bytes} NOT NULL)`,
	`CREATE TABLE declared (kind {text} NOT NULL, what {text} NOT NULL, type {text} NOT NULL, PRIMARY KEY (kind, what))`,
	`pg:CREATE SEQUENCE fence`,
	// Rows come and go by the thousand here; the default waits for a fifth of the table to be dead.
	`pg:ALTER TABLE work SET (autovacuum_vacuum_scale_factor = 0.02, fillfactor = 70)`,
}, {
	`CREATE TABLE edges (src {text} NOT NULL, dst {text} NOT NULL, PRIMARY KEY (src, dst)){compact}`,
	`CREATE INDEX edges_back ON edges (dst, src)`,
}, {
	// Beside the blobs, whose rows are large and are written once. At is when one was
	// put, or newly named by an object; idle since when no object names it; gone when
	// it was erased; 0: it is not so.
	`CREATE TABLE blobmarks (digest {text} PRIMARY KEY, at {int} NOT NULL, idle {int} NOT NULL, gone {int} NOT NULL){compact}`,
}, {
	`ALTER TABLE log ADD COLUMN origin {text} NOT NULL DEFAULT ''`,
	// Of sealed blocks, and of what truncation has left. Seals are packed: one row for
	// thousands of changes is what keeps sealing out of the way of those who write.
	`CREATE TABLE blocks (number {int} PRIMARY KEY, first_seq {int} NOT NULL, last_seq {int} NOT NULL, epoch {int} NOT NULL, at {int} NOT NULL,
	  root {bytes} NOT NULL, previous {bytes} NOT NULL, key_id {text} NOT NULL, signature {bytes} NOT NULL, seals {bytes} NOT NULL)`,
	`CREATE UNIQUE INDEX blocks_last ON blocks (last_seq)`,
	// Pruned is the block up to which what it drops is gone.
	`CREATE TABLE checkpoints (block {int} PRIMARY KEY, last_seq {int} NOT NULL, last_at {int} NOT NULL, head {bytes} NOT NULL, kept {int} NOT NULL,
	  root {bytes} NOT NULL, at {int} NOT NULL, key_id {text} NOT NULL, signature {bytes} NOT NULL, pruned {int} NOT NULL)`,
}, {
	// Of what fails, which is little: whoever asks for the worst need not read all work.
	`CREATE INDEX work_failing ON work (attempts DESC, kind, id) WHERE attempts > 0`,
}, {
	// Where each epoch begins. What is there already counts as of the one that the ledger is in.
	`CREATE TABLE epochs (epoch {int} PRIMARY KEY, after_seq {int} NOT NULL)`,
	`INSERT INTO epochs (epoch, after_seq) SELECT epoch, 0 FROM head WHERE epoch > 1`,
}, {
	// Which site began it by a promotion: a copy of this database is no reason to lead.
	`ALTER TABLE epochs ADD COLUMN site {text} NOT NULL DEFAULT ''`,
}, {
	// What each site has heard of the other one. A row is written where that site's
	// database takes writes, and travels to the other as everything does.
	`CREATE TABLE sites (site {text} PRIMARY KEY, seen {int} NOT NULL, followed {int} NOT NULL, peer {text} NOT NULL)`,
}}

// migrate brings the schema to this program's version, in one transaction and
// under a lock, and refuses a database that a newer program has changed.
func (l *Ledger) migrate(ctx context.Context) error {
	if err := l.engine.load(ctx, l.dialect.lockSchema()); err != nil {
		return err
	}
	defer l.engine.abandon()
	var version int64
	present := false
	err := l.engine.load(ctx, []query{{sql: l.dialect.tableExists, args: []any{"head"}, each: func(scan scanner) error {
		var n int64
		err := scan(&n)
		present = n > 0
		return err
	}}})
	if err != nil {
		return err
	}
	if present {
		if err := l.engine.load(ctx, []query{{sql: "SELECT schema_version FROM head", each: func(scan scanner) error {
			return scan(&version)
		}}}); err != nil {
			return err
		}
	}
	if err := newerSchema(version); err != nil {
		return err
	}
	var todo []statement
	for _, m := range migrations[version:] {
		for _, line := range m {
			if sql, ok := l.dialect.render(line); ok {
				todo = append(todo, statement{op: define, sql: sql})
			}
		}
	}
	if !present {
		todo = append(todo, statement{op: raw, sql: `INSERT INTO head (one, ledger, epoch, seq, at, fence, schema_version, key_check)
			VALUES (1, $1, 1, 0, 0, 0, 0, $2)`, args: []any{strings.ToLower(rand.Text()), []byte{}}})
	}
	if len(todo) > 0 {
		todo = append(todo, statement{op: raw, sql: "UPDATE head SET schema_version = $1", args: []any{int64(len(migrations))}})
	}
	if l.config.Epoch > 1 {
		todo = append(todo, statement{op: raw, sql: "INSERT INTO epochs (epoch, after_seq, site) SELECT CAST($1 AS bigint), seq, CAST($2 AS text) FROM head WHERE epoch < CAST($1 AS bigint)", args: []any{l.config.Epoch, l.config.Site}},
			statement{op: raw, sql: "UPDATE head SET epoch = $1 WHERE epoch < $1", args: []any{l.config.Epoch}})
	}
	return l.engine.save(ctx, todo, false)
}

// newerSchema refuses what this program does not know.
func newerSchema(version int64) error {
	if version <= int64(len(migrations)) {
		return nil
	}
	return fault.New(fault.Conflict, "the database has schema version %d, this program knows versions up to %d: run a newer program",
		version, len(migrations)).Because("newer-schema")
}

// render turns a migration into the database's SQL; false if it is not for it.
func (d *dialect) render(line string) (string, bool) {
	for _, name := range []string{"pg", "lite"} {
		if rest, ok := strings.CutPrefix(line, name+":"); ok {
			if name != d.name {
				return "", false
			}
			line = rest
		}
	}
	return strings.NewReplacer("{text}", d.text, "{int}", d.whole, "{bytes}", d.bytes, "{compact}", d.compact).Replace(line), true
}

// checkKey remembers, encrypted, a fixed text, so that a wrong key is refused
// at start and not when the first secret is needed.
func (l *Ledger) checkKey(ctx context.Context) error {
	if l.vault == nil {
		return nil
	}
	if err := l.engine.load(ctx, l.dialect.lockSchema()); err != nil {
		return err
	}
	defer l.engine.abandon()
	// Under the lock: of replicas that start at once, one gives the key.
	var stored []byte
	err := l.engine.load(ctx, []query{{sql: "SELECT key_check FROM head", each: func(scan scanner) error { return scan(&stored) }}})
	if err != nil {
		return err
	}
	if len(stored) > 0 {
		if err := l.vault.Check(stored); err != nil {
			return wrongKey()
		}
		return nil
	}
	err = l.engine.save(ctx, []statement{{op: raw, sql: "UPDATE head SET key_check = $1", args: []any{l.vault.Token()}}}, false)
	if err != nil {
		return fmt.Errorf("cannot store the key's check value: %w", err)
	}
	return nil
}

func wrongKey() error {
	return fault.New(fault.Invalid, "the master key is not the one that this ledger was made with").Because("wrong-key")
}
