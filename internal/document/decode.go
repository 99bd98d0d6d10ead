package document

import (
	"reflect"
	"strings"
	"time"
)

// Misfit is a value, or a member, that does not fit what it is decoded into.
type Misfit struct {
	At   Place
	Path []any
	Want string // what belongs there: "text"; empty: anything but nothing
	Got  *Node
	// Unknown: it is a member whose Key nobody knows. Near is a name that may
	// have been meant, or nothing.
	Unknown   bool
	Key, Near string
}

func (m Misfit) String() string {
	switch {
	case m.Unknown && m.Near != "":
		return "there is no such field; did you mean " + m.Near + "?"
	case m.Unknown:
		return "there is no such field"
	case m.Want == "":
		return "must not be empty"
	case m.Want == wantDuration || m.Want == wantTime:
		return "must be " + m.Want
	}
	hint := ""
	switch m.Got.Value.(type) {
	case int64, float64, bool:
		if m.Want == "text" {
			hint = ": put it in quotes"
		}
	}
	return "must be " + m.Want + ", not " + m.Got.what() + hint
}

const (
	wantDuration = "a duration such as 48h or 30s"
	wantTime     = "a time such as 2030-01-31T12:00:00Z"
)

// Decode fills the Go value behind a pointer from a node and reports everything
// that does not fit, in the words of the form. Field names are those of the json tags; a
// field of type *Node takes what is there as it is.
func (f *File) Decode(n *Node, into any, path []any) {
	f.decode(n, reflect.ValueOf(into).Elem(), path)
}

func (f *File) misfit(m Misfit) {
	words := Misfit.String
	if f.form.Words != nil {
		words = f.form.Words
	}
	f.Report(m.At, m.Path, words(m))
}

// fit sets a value of one type, or tells what belongs there.
func fit[T any](f *File, n *Node, set func(T), want string, path []any) {
	if v, ok := n.Value.(T); ok {
		set(v)
		return
	}
	f.misfit(Misfit{At: n.At, Path: path, Want: want, Got: n})
}

func (f *File) decode(n *Node, into reflect.Value, path []any) {
	if n.Value == nil {
		return // a key without a value is as good as none
	}
	switch value := into.Addr().Interface().(type) {
	case **Node:
		*value = n
		return
	case *Duration:
		f.parse(n, wantDuration, path, func(s string) bool {
			d, err := time.ParseDuration(s)
			*value = Duration(max(d, 0))
			return err == nil && d >= 0
		})
		return
	case *time.Time:
		f.parse(n, wantTime, path, func(s string) bool {
			t, err := time.Parse(time.RFC3339, s)
			*value = t
			return err == nil
		})
		return
	}
	switch into.Kind() {
	case reflect.Pointer:
		into.Set(reflect.New(into.Type().Elem()))
		f.decode(n, into.Elem(), path)
	case reflect.String:
		fit(f, n, into.SetString, "text", path)
	case reflect.Bool:
		fit(f, n, into.SetBool, "true or false", path)
	case reflect.Int, reflect.Int64:
		fit(f, n, into.SetInt, "a whole number", path)
	case reflect.Interface:
		into.Set(reflect.ValueOf(n.Plain()))
	case reflect.Slice:
		fit(f, n, func(entries []*Node) { f.list(entries, into, path) }, "a list", path)
	case reflect.Map:
		fit(f, n, func(members []Member) { f.mapping(n, members, into, path) }, "a map", path)
	case reflect.Struct:
		fit(f, n, func(members []Member) { f.structure(members, into, path) }, "a map", path)
	}
}

// parse reads a value that is written as text.
func (f *File) parse(n *Node, want string, path []any, read func(string) bool) {
	if s, ok := n.Value.(string); !ok || !read(s) {
		f.misfit(Misfit{At: n.At, Path: path, Want: want, Got: n})
	}
}

func (f *File) list(entries []*Node, into reflect.Value, path []any) {
	into.Set(reflect.MakeSlice(into.Type(), len(entries), len(entries)))
	for i, e := range entries {
		if e.Value == nil {
			f.misfit(Misfit{At: e.At, Path: Under(path, i), Got: e})
			continue
		}
		f.decode(e, into.Index(i), Under(path, i))
	}
}

func (f *File) mapping(n *Node, members []Member, into reflect.Value, path []any) {
	if into.Type().Elem().Kind() == reflect.Interface {
		into.Set(reflect.ValueOf(n.Plain()))
		return
	}
	into.Set(reflect.MakeMap(into.Type()))
	for _, m := range members {
		v := reflect.New(into.Type().Elem()).Elem()
		f.decode(m.Value, v, Under(path, m.Key))
		into.SetMapIndex(reflect.ValueOf(m.Key), v)
	}
}

func (f *File) structure(members []Member, into reflect.Value, path []any) {
	fields := map[string]int{}
	for i := range into.NumField() {
		name, _, _ := strings.Cut(into.Type().Field(i).Tag.Get("json"), ",")
		fields[name] = i
	}
	for _, m := range members {
		i, known := fields[m.Key]
		if !known {
			f.misfit(Misfit{At: m.At, Path: Under(path, m.Key), Got: m.Value, Unknown: true, Key: m.Key, Near: Nearest(m.Key, fields)})
			continue
		}
		f.decode(m.Value, into.Field(i), Under(path, m.Key))
	}
}

// Nearest returns the known name that is at most two letters away.
func Nearest[V any](name string, known map[string]V) string {
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
