package sqlledger

import (
	"context"

	"github.com/droverhq/drover/internal/ledger"
)

// naming reads, and keeps from being erased, the blobs that the sets of a batch have
// objects name which did not name them before. Few sets do.
func (b *batch) naming(ctx context.Context) error {
	names := ledger.Naming(b.state, b.sets)
	if len(names) == 0 {
		return nil
	}
	keys := make([]any, len(names))
	for i, n := range names {
		keys[i] = n
	}
	var bind binder
	d := b.l.dialect
	sql := "SELECT digest, gone FROM blobmarks WHERE " + d.among("digest", keys, true, &bind) + " ORDER BY digest" + d.locked
	b.state.Lost = map[string]bool{}
	return b.l.engine.load(ctx, []query{{sql: sql, args: bind.args, each: func(scan scanner) error {
		var digest string
		var gone int64
		if err := scan(&digest, &gone); err != nil {
			return err
		}
		if gone != 0 {
			b.state.Lost[digest] = true
		} else {
			b.named = append(b.named, digest)
		}
		return nil
	}}})
}

// touches writes down that blobs are named.
func (b *batch) touches() []statement {
	if len(b.named) == 0 {
		return nil
	}
	var bind binder
	d := b.l.dialect
	return []statement{{op: raw, sql: "UPDATE blobmarks SET at = " + d.now(&bind, b.l.config.Now) + ", idle = 0 WHERE " + d.among("digest", b.named, true, &bind), args: bind.args}}
}
