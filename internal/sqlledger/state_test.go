package sqlledger_test

import (
	"encoding/json"
	"path/filepath"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"github.com/droverhq/drover/internal/ledger"
	"github.com/droverhq/drover/internal/sqlledger"
)

// cattle has a field of each type.
var cattle = ledger.Kind{Name: "cow", Fields: []ledger.Field{{Name: "breed", Type: ledger.Text}, {Name: "legs", Type: ledger.Int}, {Name: "tame", Type: ledger.Bool}, {Name: "born", Type: ledger.Time}}}

func openCattle(t testing.TB) *sqlledger.Ledger {
	t.Helper()
	return open(t, sqlledger.Config{URL: filepath.Join(t.TempDir(), "l.db"), Kinds: []ledger.Kind{cattle}})
}

func drawCow(t *rapid.T) ledger.Object {
	text := rapid.String()
	at := rapid.Custom(func(t *rapid.T) time.Time {
		return time.UnixMicro(rapid.Int64Range(-60_000_000_000_000_000, 250_000_000_000_000_000).Draw(t, "at")).UTC()
	})
	document := rapid.Custom(func(t *rapid.T) json.RawMessage {
		var v any = rapid.OneOf(rapid.Map(rapid.MapOf(text, rapid.SliceOf(text)), func(m map[string][]string) any { return m }),
			rapid.Map(text, func(s string) any { return s }), rapid.Map(rapid.Float64Range(-1e9, 1e9), func(n float64) any { return n }), rapid.Just[any](nil)).Draw(t, "document")
		data, err := json.Marshal(v)
		if err != nil {
			t.Fatal(err)
		}
		return data
	})
	o := ledger.Object{
		Ref: ledger.Ref{Kind: cattle.Name, ID: text.Draw(t, "id")}, Org: text.Draw(t, "org"), Owner: text.Draw(t, "owner"), Name: text.Draw(t, "name"), Phase: text.Draw(t, "phase"),
		Parent: text.Draw(t, "parent"), Words: text.Draw(t, "words"), Generation: rapid.Int64().Draw(t, "generation"), Version: rapid.Int64().Draw(t, "version"),
		Created: at.Draw(t, "created"), Updated: at.Draw(t, "updated"),
	}
	if m := rapid.MapOf(text, text).Draw(t, "labels"); len(m) > 0 {
		o.Labels = m
	}
	if links := rapid.SliceOf(text).Draw(t, "links"); len(links) > 0 {
		o.Links = links
	}
	fields := map[string]func() any{"breed": func() any { return text.Draw(t, "breed") }, "legs": func() any { return rapid.Int64().Draw(t, "legs") },
		"tame": func() any { return rapid.Bool().Draw(t, "tame") }, "born": func() any { return at.Draw(t, "born") }}
	for _, name := range []string{"breed", "legs", "tame", "born"} {
		if rapid.Bool().Draw(t, "has "+name) {
			if o.Fields == nil {
				o.Fields = ledger.Fields{}
			}
			o.Fields[name] = fields[name]()
		}
	}
	for _, d := range []*json.RawMessage{&o.Spec, &o.Status, &o.View} {
		if rapid.Bool().Draw(t, "has a document") {
			*d = document.Draw(t, "document")
		}
	}
	if rapid.Bool().Draw(t, "is deleted") {
		o.Deleted = at.Draw(t, "deleted")
	}
	return o
}

// What is written is read as it was, in the short way, which agrees with the long one.
func TestStatesAreReadAsTheyWereWritten(t *testing.T) {
	l := openCattle(t)
	rapid.Check(t, func(t *rapid.T) {
		o := drawCow(t)
		state := sqlledger.EncodeState(o)
		got, ok := l.ReadState(state)
		if !ok {
			t.Fatalf("%s is not read", state)
		}
		if d := cmp.Diff(o, got); d != "" {
			t.Fatalf("%s is read as (-want +got):\n%s", state, d)
		}
		if all, err := l.ParseState(state); err != nil || !cmp.Equal(all, got) {
			t.Fatalf("in the long way it is another one: %v\n%s", err, cmp.Diff(all, got))
		}
	})
}

// Documents share the state's bytes. Whoever appends to one does not write into the next.
func TestDocumentsOfAStateDoNotOverlap(t *testing.T) {
	o := ledger.Object{Ref: ledger.Ref{Kind: cattle.Name, ID: "a"}, Spec: json.RawMessage(`{"a":1}`), Status: json.RawMessage(`{"b":2}`)}
	got, ok := openCattle(t).ReadState(sqlledger.EncodeState(o))
	if !ok {
		t.Fatal("it is not read")
	}
	_ = append(got.Spec, "xxxxxxxxxxxxxxxxxxxx"...)
	if string(got.Status) != `{"b":2}` {
		t.Errorf("the status has become %s", got.Status)
	}
}

// FuzzReadState holds the short way against the long one. Documents are not checked by
// the short one, so that it may read what the long one refuses.
func FuzzReadState(f *testing.F) {
	now := time.Unix(1767323045, 678000).UTC()
	f.Add(sqlledger.EncodeState(ledger.Object{Ref: ledger.Ref{Kind: "cow", ID: "a"}, Created: now, Updated: now}))
	f.Add(sqlledger.EncodeState(ledger.Object{Ref: ledger.Ref{Kind: "cow", ID: "\"\\☃"}, Org: "acme", Owner: "ann", Name: "Rex\n", Phase: "ready", Parent: "p", Labels: map[string]string{"a": "1", "b\"": ""},
		Fields: ledger.Fields{"breed": "x", "legs": int64(-4), "tame": true, "born": now}, Links: []string{"a", "b"}, Words: "w", Generation: 7, Version: 9,
		Spec: json.RawMessage(`{"a":[1,{"b":"}\\\""}]}`), Status: json.RawMessage(`null`), View: json.RawMessage(`"v"`), Created: now, Updated: now, Deleted: now}))
	f.Add([]byte(`{"kind":"cow","id":"a","fields":{"legs":01},"generation":-0,"version":1,"spec": 5 ,"created":"2026-01-02T03:04:05Z","updated":"2026-01-02T03:04:05+01:00"}`))
	f.Add([]byte(`{"id":"a","kind":"cow"}`))
	l := openCattle(f)
	f.Fuzz(func(t *testing.T, state []byte) {
		short, ok := l.ReadState(state)
		if !ok {
			return
		}
		long, err := l.ParseState(state)
		if err != nil {
			for _, d := range []json.RawMessage{short.Spec, short.Status, short.View} {
				if len(d) > 0 && !json.Valid(d) {
					return
				}
			}
			t.Fatalf("%q is read, and refused in the long way: %v", state, err)
		}
		if d := cmp.Diff(long, short); d != "" {
			t.Fatalf("%q is read as (-long +short):\n%s", state, d)
		}
	})
}

func BenchmarkState(b *testing.B) {
	l, now := openCattle(b), time.Now().UTC()
	state := sqlledger.EncodeState(ledger.Object{Ref: ledger.Ref{Kind: "cow", ID: "01J9ZQ5V7T8K"}, Org: "acme", Owner: "ann", Name: "rex", Phase: "ready", Fields: ledger.Fields{"breed": "t-rex", "legs": int64(2), "born": now},
		Spec:   json.RawMessage(`{"offering":"dinosaur","type":"standard","size":"x1","parameters":{"species":"t-rex","colour":"green"},"versions":{"core":"1.2.3"}}`),
		Status: json.RawMessage(`{"cluster":"c1","placement":"p1","desired":{"image":"dino","args":["--a","--b"],"env":{"A":"1","B":"2"}},"digest":"9f86d081884c7d659a2feaa0c55ad015","routes":[{"name":"main","host":"rex.example.org"}],"observed":{"state":"ready","generation":1,"leaf":"123"}}`),
		View:   json.RawMessage(`{"id":"x","status":"ready"}`), Generation: 1, Version: 4, Created: now, Updated: now})
	b.Run("short", func(b *testing.B) {
		for b.Loop() {
			if _, ok := l.ReadState(state); !ok {
				b.Fatal("it is not read")
			}
		}
	})
	b.Run("long", func(b *testing.B) {
		for b.Loop() {
			if _, err := l.ParseState(state); err != nil {
				b.Fatal(err)
			}
		}
	})
}
