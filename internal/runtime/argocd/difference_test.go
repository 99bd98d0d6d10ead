package argocd_test

import (
	"bytes"
	"compress/gzip"
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/droverhq/drover/internal/runtime"
	"github.com/droverhq/drover/internal/runtime/argocd"
)

func zipped(text string) []byte {
	var b bytes.Buffer
	z := gzip.NewWriter(&b)
	_, _ = z.Write([]byte(text))
	_ = z.Close()
	return b.Bytes()
}

func cached(all ...map[string]any) []byte {
	b, _ := json.Marshal(all)
	return zipped(string(b))
}

func TestDiffering(t *testing.T) {
	text := func(value string) string {
		return fmt.Sprintf(`{"apiVersion":"v1","kind":"ConfigMap","metadata":{"name":"a"},"data":{"value":%q}}`, value)
	}
	one := func(more map[string]any) map[string]any {
		out := map[string]any{"kind": "ConfigMap", "namespace": "n", "name": "a", "targetState": text("2"), "liveState": text("1"), "normalizedLiveState": text("1"), "predictedLiveState": text("2")}
		for k, v := range more {
			out[k] = v
		}
		return out
	}
	told := func(change, text string) []runtime.ResourceDifference {
		return []runtime.ResourceDifference{{Kind: "ConfigMap", Namespace: "n", Name: "a", Change: change, Text: text}}
	}
	for _, tc := range []struct {
		reason string
		raw    []byte
		want   []runtime.ResourceDifference
		bad    bool
	}{
		{"nothing is managed", zipped("null"), nil, false},
		{"an empty list", cached(), nil, false},
		{"it is as it should be", cached(one(nil)), nil, false},
		{"it is another", cached(one(map[string]any{"modified": true})),
			told(runtime.ToChange, "@@ -1,6 +1,6 @@\n apiVersion: v1\n data:\n-  value: \"1\"\n+  value: \"2\"\n kind: ConfigMap\n metadata:\n   name: a"), false},
		{"a hook is none of it", cached(one(map[string]any{"modified": true, "hook": true})), nil, false},
		{"Git has it no longer", cached(one(map[string]any{"targetState": "null"})), told(runtime.ToRemove, ""), false},
		{"it is not there", cached(one(map[string]any{"liveState": "null", "modified": true})),
			told(runtime.ToCreate, "@@ -0,0 +1,6 @@\n+apiVersion: v1\n+data:\n+  value: \"2\"\n+kind: ConfigMap\n+metadata:\n+  name: a"), false},
		{"not compressed", []byte("[]"), nil, true},
		{"another layout", zipped(`{"items":[]}`), nil, true},
		{"an object that is none", cached(one(map[string]any{"liveState": "{"})), nil, true},
		{"cut off", zipped(`[{"kind":"ConfigMap"`), nil, true},
	} {
		t.Run(tc.reason, func(t *testing.T) {
			got, err := argocd.Differing(tc.raw)
			if (err != nil) != tc.bad {
				t.Fatalf("the error is %v", err)
			}
			if d := cmp.Diff(tc.want, got); d != "" {
				t.Error(d)
			}
		})
	}
}

func TestReply(t *testing.T) {
	for _, tc := range []struct {
		reason, raw, value, says string
		there                    bool
	}{
		{"a value", "$3\r\na\rb\r\n", "a\rb", "", true},
		{"an empty value", "$0\r\n\r\n", "", "", true},
		{"no value", "$-1\r\n", "", "", false},
		{"a word", "+OK\r\n", "OK", "", true},
		{"an error does not tell what was sent", "-WRONGPASS invalid username-password pair s3cret\r\n", "", "it refuses: WRONGPASS", false},
		{"another kind of reply", "*1\r\n$1\r\na\r\n", "", "a reply that is none", false},
		{"a length that is none", "$x\r\n", "", "a reply that is none", false},
		{"too much", "$99999999999\r\n", "", "too large", false},
		{"cut off", "$5\r\nab", "", "EOF", false},
		{"nothing", "", "", "EOF", false},
		{"another protocol", strings.Repeat("HTTP/1.1 ", 1000), "", "buffer full", false},
	} {
		t.Run(tc.reason, func(t *testing.T) {
			value, there, err := argocd.Reply([]byte(tc.raw))
			if string(value) != tc.value || there != tc.there || (err == nil) != (tc.says == "") || err != nil && !strings.Contains(err.Error(), tc.says) || err != nil && strings.Contains(err.Error(), "s3cret") {
				t.Errorf("got %q, %v, %v", value, there, err)
			}
		})
	}
}

func FuzzCache(f *testing.F) {
	f.Add([]byte("$3\r\nabc\r\n"), []byte(`[{"kind":"Secret","targetState":"{\"kind\":\"Secret\"}","liveState":"null"}]`))
	f.Add([]byte("-ERR\r\n"), []byte(`null`))
	f.Fuzz(func(t *testing.T, wire, text []byte) {
		if _, there, err := argocd.Reply(wire); there && err != nil {
			t.Error("a value with an error")
		}
		got, err := argocd.Differing(zipped(string(text)))
		if err != nil && got != nil {
			t.Error("differences with an error")
		}
	})
}
