package httpapi_test

import (
	"bytes"
	"encoding/json"
	"flag"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/santhosh-tekuri/jsonschema/v6"

	v1 "github.com/droverhq/drover/api/v1"
	"github.com/droverhq/drover/internal/bus"
	"github.com/droverhq/drover/internal/command"
	"github.com/droverhq/drover/internal/httpapi"
	"github.com/droverhq/drover/internal/ledger"
	"github.com/droverhq/drover/internal/subscription"
)

var updateAsyncAPI = flag.Bool("update-asyncapi", false, "write docs/asyncapi.json anew")

const asyncAPIFile = "../../docs/asyncapi.json"

// asyncAPI is the document as the server has it.
func asyncAPI(t *testing.T) (doc map[string]any, text []byte) {
	t.Helper()
	r := newRig(t)
	answer := r.do(t, r.user(t, "alice", "acme"), "GET", "/api/v1/asyncapi", "")
	if answer.Code != 200 {
		t.Fatal(answer.Code)
	}
	if err := json.Unmarshal(answer.Body.Bytes(), &doc); err != nil {
		t.Fatal(err)
	}
	var out bytes.Buffer
	if err := json.Indent(&out, answer.Body.Bytes(), "", "  "); err != nil {
		t.Fatal(err)
	}
	return doc, append(bytes.TrimSpace(out.Bytes()), '\n')
}

// The document that people read without a server is the one that the server has.
func TestAsyncAPIIsWritten(t *testing.T) {
	_, text := asyncAPI(t)
	if *updateAsyncAPI {
		if err := os.WriteFile(asyncAPIFile, text, 0o644); err != nil {
			t.Fatal(err)
		}
	}
	written, err := os.ReadFile(asyncAPIFile)
	if err != nil || !bytes.Equal(written, text) {
		t.Errorf("docs/asyncapi.json is not what the server has (%v): run go test ./internal/httpapi -run AsyncAPIIsWritten -update-asyncapi", err)
	}
}

// The AsyncAPI Initiative's own schema of version 3.0.0 has nothing against it.
// (testdata/asyncapi300.json: @asyncapi/specs 6.11.1 of npm, schemas/3.0.0.json without
// its white space; Apache-2.0, copyright The AsyncAPI Initiative.)
func TestAsyncAPIIsValid(t *testing.T) {
	doc, _ := asyncAPI(t)
	official := load(t, "testdata/asyncapi300.json")
	c := jsonschema.NewCompiler()
	if err := c.AddResource("asyncapi300.json", official); err != nil {
		t.Fatal(err)
	}
	s, err := c.Compile("asyncapi300.json")
	if err != nil {
		t.Fatal(err)
	}
	if err := s.Validate(doc); err != nil {
		t.Errorf("%#v", err)
	}
	delete(doc["info"].(map[string]any), "version")
	if s.Validate(doc) == nil {
		t.Error("what has no version is valid: the schema says nothing")
	}
}

func load(t *testing.T, file string) any {
	t.Helper()
	text, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	doc, err := jsonschema.UnmarshalJSON(bytes.NewReader(text))
	if err != nil {
		t.Fatal(err)
	}
	return doc
}

// Every reference within the document leads somewhere.
func TestAsyncAPIIsWhole(t *testing.T) {
	doc, _ := asyncAPI(t)
	var visit func(v any)
	visit = func(v any) {
		switch v := v.(type) {
		case map[string]any:
			if ref, ok := v["$ref"].(string); ok {
				var at any = doc
				for part := range strings.SplitSeq(strings.TrimPrefix(ref, "#/"), "/") {
					at, _ = at.(map[string]any)
					if m, ok := at.(map[string]any); ok {
						at = m[part]
					}
				}
				if at == nil {
					t.Errorf("%s leads nowhere", ref)
				}
			}
			for _, child := range v {
				visit(child)
			}
		case []any:
			for _, child := range v {
				visit(child)
			}
		}
	}
	visit(doc)
}

// payload compiles the schema of a message of the document.
func payload(t *testing.T, c *jsonschema.Compiler, name string) *jsonschema.Schema {
	t.Helper()
	s, err := c.Compile("doc.json#/components/messages/" + name + "/payload")
	if err != nil {
		t.Fatalf("%s has no schema that can be used: %v", name, err)
	}
	return s
}

// Every command and every kind of events has a schema, which refuses what is not it.
func TestAsyncAPIHasEverySchema(t *testing.T) {
	doc, text := asyncAPI(t)
	parsed, err := jsonschema.UnmarshalJSON(bytes.NewReader(text))
	if err != nil {
		t.Fatal(err)
	}
	c := jsonschema.NewCompiler()
	if err := c.AddResource("doc.json", parsed); err != nil {
		t.Fatal(err)
	}
	messages := doc["components"].(map[string]any)["messages"].(map[string]any)
	var want []string
	for _, name := range command.Names() {
		id := strings.ReplaceAll(name, ".", "-")
		want = append(want, id)
		t.Run(name, func(t *testing.T) {
			s := payload(t, c, id)
			example := messages[id].(map[string]any)["examples"].([]any)[0].(map[string]any)["payload"]
			body, err := json.Marshal(example)
			if err != nil {
				t.Fatal(err)
			}
			sent, err := jsonschema.UnmarshalJSON(bytes.NewReader(body))
			if err != nil {
				t.Fatal(err)
			}
			if err := s.Validate(sent); err != nil {
				t.Errorf("the example is not what the schema says: %v", err)
			}
			if _, err := command.Parse(&bus.Message{Body: body}); err != nil {
				t.Errorf("the example is no command: %v", err)
			}
			sent.(map[string]any)["type"] = command.TypePrefix + "dance"
			if s.Validate(sent) == nil {
				t.Error("the schema takes other commands")
			}
			if data, ok := sent.(map[string]any)["data"].(map[string]any); ok && command.Routes[name].Body != "" {
				sent.(map[string]any)["type"] = command.TypePrefix + name
				data["no_such_field"] = "x"
				if s.Validate(sent) == nil {
					t.Error("the schema takes fields that the API refuses")
				}
			}
		})
	}
	for _, kind := range httpapi.EventKinds() {
		want = append(want, "event-"+kind)
		payload(t, c, "event-"+kind)
	}
	want = append(want, "answer")
	payload(t, c, "answer")
	slices.Sort(want)
	var got []string
	for name := range messages {
		got = append(got, name)
	}
	slices.Sort(got)
	if !slices.Equal(slices.Compact(want), got) {
		t.Errorf("the document has messages %v, and there are %v", got, want)
	}
}

// What is sent of a change is what the document says, of one that no message can hold,
// too.
func TestEventsAreAsTheDocumentSays(t *testing.T) {
	_, text := asyncAPI(t)
	parsed, err := jsonschema.UnmarshalJSON(bytes.NewReader(text))
	if err != nil {
		t.Fatal(err)
	}
	c := jsonschema.NewCompiler()
	if err := c.AddResource("doc.json", parsed); err != nil {
		t.Fatal(err)
	}
	s := payload(t, c, "event-instance")
	change := func(kind, name string) json.RawMessage {
		at := time.Date(2030, 1, 1, 12, 0, 0, 0, time.UTC)
		data, err := json.Marshal(v1.Change{Seq: 7, At: at, Actor: "alice", Cause: "request:r", Op: "create", Object: v1.Object{Kind: kind, ID: "x", Version: 1, Generation: 1, Name: name, Created: at, Updated: at}})
		if err != nil {
			t.Fatal(err)
		}
		return data
	}
	for _, d := range []struct {
		reason string
		data   json.RawMessage
		bare   bool // it goes without its data
		good   bool
	}{
		{"a change", change("instance", "rex"), false, true},
		{"a change that is too large", change("instance", strings.Repeat("x", bus.MaxBody)), true, true},
		{"a change of another kind", change("cluster", "rex"), false, false},
		{"no change", json.RawMessage(`"rex"`), false, false},
	} {
		e := subscription.NewEvent(ledger.Head{Ledger: "l", Epoch: 1}, &ledger.Change{Seq: 7, Object: ledger.Object{Ref: ledger.Ref{Kind: "instance", ID: "x"}, Version: 1}}, subscription.Shown{Data: d.data})
		m, err := subscription.Message(&e)
		if err != nil {
			t.Fatal(err)
		}
		sent, err := jsonschema.UnmarshalJSON(bytes.NewReader(m.Body))
		if err != nil {
			t.Fatal(err)
		}
		if err := s.Validate(sent); (err == nil) != d.good {
			t.Errorf("%s: %v", d.reason, err)
		}
		attributes := sent.(map[string]any)
		if _, of := attributes["dataschema"]; (attributes["data"] == nil) != d.bare || of == d.bare {
			t.Errorf("%s: its data is there: %t, and a schema of it: %t", d.reason, attributes["data"] != nil, of)
		}
		delete(attributes, "data")
		if s.Validate(sent) == nil {
			t.Errorf("%s: it needs no data", d.reason)
		}
	}
}
