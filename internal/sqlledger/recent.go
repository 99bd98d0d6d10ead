package sqlledger

import (
	"fmt"
	"sync"
	"time"
)

// recent remembers rows as they were last committed, so that an object that
// goes through several transitions is not read from the file each time, neither
// by the committer nor by readers. Only for a database that no one else is meant to
// write: whether somebody has is asked with each transaction, and then all is
// forgotten. The committer alone changes it; rows in it never change.
//
// It holds two halves: when the younger is full, the older is forgotten.
type recent struct {
	mu         sync.RWMutex
	young, old rows
	n, size    int       // of the young
	foreign    int64     // what SQLite counts of the writes of others
	asked      time.Time // when it was last asked for that
}

type rows map[*table]map[string][]any

const (
	recentRows  = 8192
	recentTexts = 16 << 20
	recentSize  = 16 << 10 // longer rows are not kept
	// recentTrust is how long readers take it that nobody else has written. While
	// there are transactions it never ends; otherwise the file is not busy.
	recentTrust = 5 * time.Second
)

func rowKey(key []any) string {
	if len(key) == 1 {
		return key[0].(string)
	}
	return key[0].(string) + "\x00" + key[1].(string) // no text holds a zero byte
}

// trusted reports whether readers may be told what is remembered.
func (r *recent) trusted(now time.Time) bool {
	r.mu.RLock()
	defer r.mu.RUnlock()
	return now.Sub(r.asked) < recentTrust
}

// checked takes the count of others' writes: with another one than before, nothing
// that is remembered is sure, and it reports so.
func (r *recent) checked(foreign int64, now time.Time) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.asked = now
	if r.foreign == foreign {
		return false
	}
	r.foreign = foreign
	r.young, r.old, r.n, r.size = nil, nil, 0, 0
	return true
}

// get returns a scanner of the row, nil if it is known to be gone.
func (r *recent) get(t *table, key []any) (scan scanner, known bool) {
	k := rowKey(key)
	r.mu.RLock()
	row, known := r.young[t][k]
	if !known {
		row, known = r.old[t][k]
	}
	r.mu.RUnlock()
	if row == nil {
		return nil, known
	}
	return func(dest ...any) error {
		for i, d := range dest {
			switch d := d.(type) {
			case *string:
				*d = row[i].(string)
			case *int64:
				*d = row[i].(int64)
			case *[]byte:
				*d = []byte(row[i].(string))
			default:
				return fmt.Errorf("cannot scan into %T", d)
			}
		}
		return nil
	}, true
}

// committing forgets what a transaction is about to change: until it has, or has
// not, readers look at the file. Otherwise one who has seen the new row there could
// be told the old one here.
func (r *recent) committing(statements []statement) {
	r.mu.Lock()
	defer r.mu.Unlock()
	keyed(statements, func(t *table, key string, _ []any) {
		if row, known := r.young[t][key]; known {
			r.n, r.size = r.n-1, r.size-texts(row)
			delete(r.young[t], key)
		}
		delete(r.old[t], key)
	})
}

// committed takes over what a transaction has written.
func (r *recent) committed(statements []statement) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.n > recentRows || r.size > recentTexts {
		r.young, r.old, r.n, r.size = nil, r.young, 0, 0
	}
	keyed(statements, r.put)
}

// keyed calls do for the rows that are loaded by their keys; those that are removed
// are nil.
func keyed(statements []statement, do func(t *table, key string, row []any)) {
	for i := range statements {
		s := &statements[i]
		if s.table == edgeTable || s.table != nil && s.table.of != nil {
			continue
		}
		switch s.op {
		case insert, update:
			for _, row := range s.rows {
				do(s.table, rowKey(row[:s.table.key]), row)
			}
		case remove:
			for _, key := range s.rows {
				do(s.table, rowKey(key), nil)
			}
		}
	}
}

func (r *recent) put(t *table, key string, row []any) {
	size := texts(row)
	if size > recentSize {
		return
	}
	if r.young == nil {
		r.young = rows{}
	}
	if r.young[t] == nil {
		r.young[t] = map[string][]any{}
	}
	r.young[t][key] = row
	r.n, r.size = r.n+1, r.size+size
}

// texts is how much of them a row holds.
func texts(row []any) (size int) {
	for _, v := range row {
		if s, ok := v.(string); ok {
			size += len(s)
		}
	}
	return size
}

// forget is for when the file may differ from what is remembered.
func (r *recent) forget() {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.young, r.old, r.n, r.size = nil, nil, 0, 0
}
