package sqlledger

import "fmt"

// recent remembers rows as they were last committed, so that an object that
// goes through several transitions is not read from the file each time. Only
// for a database that no one else writes; the committer's alone.
type recent struct {
	rows map[*table]map[string][]any
	n    int
}

const (
	recentRows = 8192
	recentSize = 16 << 10 // longer rows are not kept
)

func rowKey(key []any) string {
	if len(key) == 1 {
		return key[0].(string)
	}
	return key[0].(string) + "\x00" + key[1].(string) // no text holds a zero byte
}

// get returns a scanner of the row, nil if it is known to be gone.
func (r *recent) get(t *table, key []any) (scan scanner, known bool) {
	row, known := r.rows[t][rowKey(key)]
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

// committed takes over what a transaction has written.
func (r *recent) committed(statements []statement) {
	if r.n > recentRows {
		r.forget()
	}
	for i := range statements {
		s := &statements[i]
		if s.table == edgeTable || s.table != nil && s.table.of != nil {
			continue // never loaded by their keys
		}
		switch s.op {
		case insert, update:
			for _, row := range s.rows {
				r.put(s.table, rowKey(row[:s.table.key]), row)
			}
		case remove:
			for _, key := range s.rows {
				r.put(s.table, rowKey(key), nil)
			}
		}
	}
}

func (r *recent) put(t *table, key string, row []any) {
	size := 0
	for _, v := range row {
		if s, ok := v.(string); ok {
			size += len(s)
		}
	}
	if size > recentSize {
		delete(r.rows[t], key)
		return
	}
	if r.rows == nil {
		r.rows = map[*table]map[string][]any{}
	}
	if r.rows[t] == nil {
		r.rows[t] = map[string][]any{}
	}
	if _, known := r.rows[t][key]; !known {
		r.n++
	}
	r.rows[t][key] = row
}

// forget is for when the file may differ from what is remembered.
func (r *recent) forget() { *r = recent{} }
