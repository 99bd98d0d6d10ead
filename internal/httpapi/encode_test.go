package httpapi

import (
	"encoding/json"
	"reflect"
	"strings"
	"testing"
	"time"

	v1 "github.com/droverhq/drover/api/v1"
	"github.com/google/go-cmp/cmp"
)

func encoded(t testing.TB, c *v1.Change) string {
	t.Helper()
	var e encoder
	if e.change(c); e.err != nil {
		t.Fatal(e.err)
	}
	return string(e.buf)
}

func marshalled(t testing.TB, c *v1.Change) string {
	t.Helper()
	b, err := json.Marshal(c)
	if err != nil {
		t.Fatal(err)
	}
	return string(b)
}

// full has a value in every field: one that is added to a change, and that nobody
// encodes, is found here.
func full(t testing.TB) v1.Change {
	at := time.Date(2026, 11, 18, 9, 8, 7, 123456000, time.UTC)
	c := v1.Change{Seq: 7, At: at, Actor: "alice", Cause: "request:1", Op: "create", Object: v1.Object{
		Kind: "instance", ID: "c1", Resource: "dinosaurs", Org: "acme", Owner: "alice", Name: "rex", Phase: "ready", Parent: "p",
		Labels: map[string]string{"b": "2", "a": "1"}, Generation: 3, Version: 9, Spec: json.RawMessage(`{"a":[1,2]}`), Status: json.RawMessage(`{}`),
		Fields:  map[string]any{"text": "x", "whole": int64(1) << 60, "yes": true, "no": false, "at": at, "half": 0.5, "none": nil, "list": []string{"a"}},
		Created: at, Updated: at.Add(time.Hour), Deleted: &at,
	}}
	for _, v := range []reflect.Value{reflect.ValueOf(c), reflect.ValueOf(c.Object)} {
		for i := range v.NumField() {
			if v.Field(i).IsZero() {
				t.Fatalf("%s has no value here, and may be forgotten", v.Type().Field(i).Name)
			}
		}
	}
	return c
}

func TestEncodeChange(t *testing.T) {
	c := full(t)
	if d := cmp.Diff(marshalled(t, &c), encoded(t, &c)); d != "" {
		t.Error(d)
	}
	if d := cmp.Diff(marshalled(t, &v1.Change{}), encoded(t, &v1.Change{})); d != "" {
		t.Error(d)
	}
	c.Object.Spec = json.RawMessage("{\r\n\t\"a\": \"b c\"\n}")
	if got := encoded(t, &c); !strings.Contains(got, `"spec":{"a":"b c"},`) || strings.ContainsAny(got, "\r\n") {
		t.Error("a line ends an event of a stream:", got)
	}
	for what, broken := range map[string]func(o *v1.Object){
		"a time that none can write": func(o *v1.Object) { o.Created = time.Date(10_000, 1, 1, 0, 0, 0, 0, time.UTC) },
		"a value that is no JSON":    func(o *v1.Object) { o.Fields = map[string]any{"f": func() {}} },
		"a document that is none":    func(o *v1.Object) { o.Spec = json.RawMessage("{\n") },
	} {
		c, e := full(t), encoder{}
		broken(&c.Object)
		if e.change(&c); e.err == nil {
			t.Errorf("%s is written: %s", what, e.buf)
		}
	}
}

// FuzzEncodeChange compares with encoding/json, whatever people call things.
func FuzzEncodeChange(f *testing.F) {
	for _, s := range []string{"", "rex", `"\`, "<b>&amp;", "é\u2028\u2029", "\x00\x1f\x7f", "\xff\xfe", "a\nb"} {
		f.Add(s, int64(len(s)), 1.5)
	}
	f.Fuzz(func(t *testing.T, s string, n int64, x float64) {
		if x != x || x > 1e300 || x < -1e300 {
			x = 0 // which JSON has no word for
		}
		c := full(t)
		c.Actor, c.Seq, c.Object.Name, c.Object.Generation = s, n, s, n
		c.Object.Labels = map[string]string{s: s, "a": s}
		c.Object.Fields = map[string]any{s: n, s + "a": s, "half": x}
		c.At = time.UnixMicro(n % (1 << 47)).UTC()
		if d := cmp.Diff(marshalled(t, &c), encoded(t, &c)); d != "" {
			t.Error(d)
		}
	})
}

func BenchmarkEncodeChange(b *testing.B) {
	c := full(b)
	c.Object.Fields = map[string]any{"offering": "dinosaur", "region": "us-east-1", "cluster": "c1", "units": int64(1), "expires": c.At}
	c.Object.Spec = json.RawMessage(`{"parameters":{"note":"` + strings.Repeat("plain words ", 80) + `"}}`)
	b.Run("ours", func(b *testing.B) {
		for b.Loop() {
			e := encoder{buf: make([]byte, 0, 1024+len(c.Object.Spec)+len(c.Object.Status))}
			e.change(&c)
		}
	})
	b.Run("encoding/json", func(b *testing.B) {
		for b.Loop() {
			marshalled(b, &c)
		}
	})
}
