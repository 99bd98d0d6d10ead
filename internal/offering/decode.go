package offering

import (
	"reflect"
	"strings"
	"time"
)

// decode fills a Go value from a node and reports everything that does not fit.
// Field names are those of the json tags.
func (f *file) decode(n *node, into reflect.Value, path []any) {
	if n.value == nil {
		return // a key without a value is as good as none
	}
	if into.Type() == reflect.TypeFor[Duration]() {
		f.duration(n, into, path)
		return
	}
	switch into.Kind() {
	case reflect.Pointer:
		into.Set(reflect.New(into.Type().Elem()))
		f.decode(n, into.Elem(), path)
	case reflect.String:
		if s, ok := n.value.(string); ok {
			into.SetString(s)
			return
		}
		hint := ""
		switch n.value.(type) {
		case int64, float64, bool:
			hint = ": put it in quotes"
		}
		f.at(path, "must be text, not %s%s", n.what(), hint)
	case reflect.Bool:
		if b, ok := n.value.(bool); ok {
			into.SetBool(b)
			return
		}
		f.at(path, "must be true or false, not %s", n.what())
	case reflect.Int64:
		if i, ok := n.value.(int64); ok {
			into.SetInt(i)
			return
		}
		f.at(path, "must be a whole number, not %s", n.what())
	case reflect.Slice:
		entries, ok := n.value.([]*node)
		if !ok {
			f.at(path, "must be a list, not %s", n.what())
			return
		}
		into.Set(reflect.MakeSlice(into.Type(), len(entries), len(entries)))
		for i, e := range entries {
			if e.value == nil {
				f.at(under(path, i), "must not be empty")
				continue
			}
			f.decode(e, into.Index(i), under(path, i))
		}
	case reflect.Map:
		f.mapping(n, into, path)
	case reflect.Struct:
		f.structure(n, into, path)
	}
}

func (f *file) duration(n *node, into reflect.Value, path []any) {
	s, _ := n.value.(string)
	d, err := time.ParseDuration(s)
	if err != nil || d < 0 {
		f.at(path, "must be a duration such as 48h or 30s")
		return
	}
	into.SetInt(int64(d))
}

func (f *file) mapping(n *node, into reflect.Value, path []any) {
	members, ok := n.value.([]member)
	if !ok {
		f.at(path, "must be a map, not %s", n.what())
		return
	}
	if into.Type().Elem().Kind() == reflect.Interface {
		into.Set(reflect.ValueOf(n.plain()))
		return
	}
	into.Set(reflect.MakeMap(into.Type()))
	for _, m := range members {
		v := reflect.New(into.Type().Elem()).Elem()
		f.decode(m.value, v, under(path, m.key))
		into.SetMapIndex(reflect.ValueOf(m.key), v)
	}
}

func (f *file) structure(n *node, into reflect.Value, path []any) {
	members, ok := n.value.([]member)
	if !ok {
		f.at(path, "must be a map, not %s", n.what())
		return
	}
	fields := map[string]int{}
	for i := range into.NumField() {
		name, _, _ := strings.Cut(into.Type().Field(i).Tag.Get("json"), ",")
		fields[name] = i
	}
	for _, m := range members {
		i, known := fields[m.key]
		if !known {
			message := "there is no such field"
			if near := nearest(m.key, fields); near != "" {
				message += "; did you mean " + near + "?"
			}
			f.report(m.at, under(path, m.key), message)
			continue
		}
		f.decode(m.value, into.Field(i), under(path, m.key))
	}
}

// nearest returns the known name that is at most two letters away.
func nearest(name string, known map[string]int) string {
	best, least := "", 3
	for k := range known {
		if d := distance(strings.ToLower(name), strings.ToLower(k)); d < least || d == least && k < best {
			best, least = k, d
		}
	}
	return best
}

// distance counts the letters to add, drop or replace.
func distance(a, b string) int {
	if len(a) > 64 || len(b) > 64 {
		return 64
	}
	row := make([]int, len(b)+1)
	for j := range row {
		row[j] = j
	}
	for i := range len(a) {
		left := row[0]
		row[0] = i + 1
		for j := range len(b) {
			cost := left
			if a[i] != b[j] {
				cost = 1 + min(left, row[j], row[j+1])
			}
			left, row[j+1] = row[j+1], cost
		}
	}
	return row[len(b)]
}
