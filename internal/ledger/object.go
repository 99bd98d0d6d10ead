package ledger

import (
	"encoding/json"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/droverhq/drover/internal/fault"
)

// MaxObject is the size beyond which an object is refused: larger things are blobs.
const MaxObject = 256 << 10

// Ref names an object.
type Ref struct {
	Kind string `json:"kind"`
	ID   string `json:"id"`
}

func (r Ref) String() string { return r.Kind + "/" + r.ID }

// Object is the present state of one thing. The ledger sets Generation, Version,
// Created and Updated; everything else is the writer's.
type Object struct {
	Ref
	Org    string            `json:"org,omitempty"`
	Owner  string            `json:"owner,omitempty"`
	Name   string            `json:"name,omitempty"`
	Phase  string            `json:"phase,omitempty"`
	Parent string            `json:"parent,omitempty"` // id of the object it belongs to, of whatever kind
	Labels map[string]string `json:"labels,omitempty"`
	Fields Fields            `json:"fields,omitempty"` // the kind's searchable fields
	// Links are the ends that it depends on: "<kind>/<id>" of objects, anything
	// else ("external/payments") for what is outside. Finder follows them.
	Links []string `json:"links,omitempty"`
	// Words besides the name by which Search finds it: description, tags, type.
	// Only of kinds that are searched.
	Words string `json:"words,omitempty"`

	Generation int64 `json:"generation"` // moves when Spec changes
	Version    int64 `json:"version"`    // moves on every write

	Spec   json.RawMessage `json:"spec,omitempty"`
	Status json.RawMessage `json:"status,omitempty"`
	View   json.RawMessage `json:"view,omitempty"` // what the public API shows, rendered when written

	Created time.Time `json:"created"`
	Updated time.Time `json:"updated"`
	Deleted time.Time `json:"deleted,omitzero"` // set by the writer of a soft deletion
}

// Fields are an object's searchable values: string, int64, bool or time.Time,
// as the kind declares them. A missing field is null.
type Fields map[string]any

// Kind declares what a store must prepare for a kind of object.
type Kind struct {
	Name   string
	Fields []Field
	// Scope lists the columns that most lists are limited to ({"offering",
	// "org"}): indexes hold a scope's objects together. Default {"org"}.
	Scope []string
	// Totals lists the scopes whose unfiltered totals are kept in counters,
	// each a set of columns ({"offering", "phase"}). Every write that changes
	// such a column moves two counters. Tally lists them best where no other
	// scope begins with the same column.
	Totals [][]string
	// Text lists the columns that LIKE and ILIKE search by trigram index.
	Text []string
	// Lookup lists columns that lists are limited to without a Scope
	// ({"cluster"}). Every object has a parent to be found by already.
	Lookup []string
	// Searched: names and words are found by Search, of the objects that are not
	// gone. Linked: they may have Links.
	Searched, Linked bool
}

// Field is a typed, indexed, searchable column of a kind.
type Field struct {
	Name string // lower case letters and underscores; not the name of a Column
	Type Type
}

// Type is a column's type.
type Type int

const (
	Text Type = iota
	Int
	Bool
	Time
)

// Columns are the searchable columns that every kind has.
var Columns = map[string]Type{
	"id": Text, "org": Text, "owner": Text, "name": Text, "phase": Text, "parent": Text,
	"created": Time, "updated": Time,
}

// Column returns the type of a column or field of the kind.
func (k Kind) Column(name string) (Type, bool) {
	if t, ok := Columns[name]; ok {
		return t, true
	}
	for _, f := range k.Fields {
		if f.Name == name {
			return f.Type, true
		}
	}
	return 0, false
}

// Value returns the object's value in a column, nil where it has none.
func (o *Object) Value(column string) any {
	switch column {
	case "id":
		return o.ID
	case "org":
		return o.Org
	case "owner":
		return o.Owner
	case "name":
		return o.Name
	case "phase":
		return o.Phase
	case "parent":
		return o.Parent
	case "created":
		return o.Created
	case "updated":
		return o.Updated
	}
	return o.Fields[column]
}

// Change is one entry of the log.
type Change struct {
	Seq    int64     `json:"seq"`
	At     time.Time `json:"at"`
	Actor  string    `json:"actor"`
	Cause  Cause     `json:"cause"`
	Op     string    `json:"op"`
	From   string    `json:"from,omitempty"`  // address that it was asked for from
	Trace  string    `json:"trace,omitempty"` // traceparent of what made it; empty: it was not followed
	Object Object    `json:"object"`
}

// Cause says why a change was made: "request:<id>", "change:<kind>/<id>@<version>",
// "report:<cluster>@<n>", "resource:<home>/<kind>/<namespace>/<name>",
// "push:<git server>/<ref>@<commit> by <who>", "schedule:<what>".
type Cause string

// ByRequest is the cause of what an API request did.
func ByRequest(id string) Cause { return Cause("request:" + id) }

// ByChange is the cause of what the loop did because of a change it saw.
func ByChange(ref Ref, version int64) Cause {
	return Cause(fmt.Sprintf("change:%s@%d", ref, version))
}

// ByReport is the cause of what an agent's report did.
func ByReport(cluster, id string) Cause { return Cause("report:" + cluster + "@" + id) }

// ByResource is the cause of what somebody asked for by a custom resource of a Kubernetes.
func ByResource(home, kind, namespace, name string) Cause {
	return Cause("resource:" + home + "/" + kind + "/" + namespace + "/" + name)
}

// ByPush is the cause of what was done because a Git server told of a push. Whatever
// it does not tell is left out; no reference has a space in it.
func ByPush(server, ref, commit, who string) Cause {
	text := "push:" + server + "/" + ref + "@" + commit
	if who != "" {
		text += " by " + who
	}
	return Cause(text)
}

// BySchedule is the cause of what only the passing of time did.
func BySchedule(what string) Cause { return Cause("schedule:" + what) }

// Change returns the object version that a "change:" cause points at.
func (c Cause) Change() (ref Ref, version int64, ok bool) {
	rest, found := strings.CutPrefix(string(c), "change:")
	at := strings.LastIndexByte(rest, '@')
	if !found || at < 0 {
		return Ref{}, 0, false
	}
	version, err := strconv.ParseInt(rest[at+1:], 10, 64)
	kind, id, split := strings.Cut(rest[:at], "/")
	return Ref{Kind: kind, ID: id}, version, err == nil && split
}

// coerce gives fields that went through JSON their declared types back, and
// refuses values that do not fit.
func (k Kind) coerce(fields Fields) (Fields, error) {
	if len(fields) == 0 {
		return nil, nil
	}
	out := make(Fields, len(fields))
	for name, v := range fields {
		if v == nil {
			continue
		}
		t, ok := k.Column(name)
		if _, common := Columns[name]; !ok || common {
			return nil, fault.New(fault.Invalid, "kind %s declares no field %q", k.Name, name)
		}
		if v, ok = convert(t, v); !ok {
			return nil, fault.New(fault.Invalid, "field %q of kind %s: wrong type", name, k.Name)
		}
		out[name] = v
	}
	return out, nil
}

// convert turns a value, possibly out of JSON, into the column's Go type.
func convert(t Type, v any) (any, bool) {
	switch x := v.(type) {
	case string:
		if t == Time {
			at, err := time.Parse(time.RFC3339Nano, x)
			return at.UTC().Truncate(time.Microsecond), err == nil && storable(at)
		}
		return x, t == Text
	case bool:
		return x, t == Bool
	case int:
		return int64(x), t == Int
	case int64:
		return x, t == Int
	case float64:
		return int64(x), t == Int && x >= -1<<63 && x < 1<<63 && x == float64(int64(x))
	case time.Time:
		return x.UTC().Truncate(time.Microsecond), t == Time && storable(x)
	}
	return nil, false
}
