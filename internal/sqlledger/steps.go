package sqlledger

import (
	"context"
	"encoding/json"
	"fmt"

	"github.com/droverhq/drover/internal/ledger"
)

// stepping goes breadth first with a query for every few ends, where a query is no
// round trip: it reads no edge behind the last that it needs, however many lead on
// from there.
type stepping struct {
	*Ledger
	reach *ledger.Reach
	sql   string
	met   map[string]bool
	out   []ledger.Reached
}

func (l *Ledger) steps(ctx context.Context, reach *ledger.Reach, near, far string) ([]ledger.Reached, error) {
	const most = 256
	w := &stepping{Ledger: l, reach: reach, met: map[string]bool{reach.From: true},
		// One end after the other, and the edges of each in the order of their index:
		// to ask for that order would have all of them read and sorted.
		sql: fmt.Sprintf("SELECT f.key, e.%[2]s FROM json_each($1) AS f CROSS JOIN edges AS e WHERE e.%[1]s = f.value AND e.%[2]s > $2 LIMIT $3", near, far)}
	queue := []ledger.Reached{{End: reach.From}}
	for size := 4; len(queue) > 0 && !w.enough(); size = min(4*size, most) { // few may lead to enough
		chunk := queue[:min(size, len(queue))]
		for reach.Depth > 0 && len(chunk) > 0 && chunk[len(chunk)-1].Depth == reach.Depth {
			chunk = chunk[:len(chunk)-1]
		}
		if len(chunk) == 0 {
			break
		}
		found := len(w.out)
		if err := w.step(ctx, chunk); err != nil {
			return nil, err
		}
		queue = append(queue[len(chunk):], w.out[found:]...)
	}
	return w.out, nil
}

func (w *stepping) enough() bool { return len(w.out) == w.reach.Limit }

// step follows the edges of some ends, one after the other, until there are enough.
func (w *stepping) step(ctx context.Context, from []ledger.Reached) error {
	for len(from) > 0 && !w.enough() {
		more, at, last, err := w.read(ctx, from, "")
		if err != nil || !more {
			return err
		}
		for more && err == nil && !w.enough() { // it ended among the edges of this one
			more, _, last, err = w.read(ctx, from[at:at+1], last)
		}
		if err != nil {
			return err
		}
		from = from[at+1:]
	}
	return nil
}

// read follows edges behind one end, and tells whether there may be more and where
// it has ended.
func (w *stepping) read(ctx context.Context, from []ledger.Reached, after string) (more bool, at int, last string, err error) {
	ends := make([]string, len(from))
	for i, r := range from {
		ends[i] = r.End
	}
	list, err := json.Marshal(ends)
	if err != nil {
		return false, 0, "", err
	}
	limit := int64(w.reach.Limit + 256) // some are met already
	rows, key := int64(0), int64(0)
	err = w.engine.read(ctx, w.sql, []any{string(list), after, limit}, func(scan scanner) error {
		rows++
		if err := scan(&key, &last); err != nil || w.met[last] || w.enough() {
			return err
		}
		w.met[last] = true
		w.out = append(w.out, ledger.Reached{End: last, Via: from[key].End, Depth: from[key].Depth + 1})
		return nil
	})
	return rows == limit, int(key), last, err
}
