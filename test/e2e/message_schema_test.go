package e2e

import (
	"bytes"
	"encoding/json"
	"slices"
	"strings"
	"testing"
	"time"

	amqp "github.com/rabbitmq/amqp091-go"
	"github.com/santhosh-tekuri/jsonschema/v6"

	v1 "github.com/droverhq/drover/api/v1"
	"github.com/droverhq/drover/test/drover"
)

// published are the schemas that the server publishes.
type published struct {
	s        *drover.Server
	admin    string
	compiler *jsonschema.Compiler
	known    map[string]*jsonschema.Schema
}

func (b *broker) published(t *testing.T) *published {
	t.Helper()
	admin, err := b.s.AdminToken()
	if err != nil {
		t.Fatal(err)
	}
	return &published{s: b.s, admin: admin, compiler: jsonschema.NewCompiler(), known: map[string]*jsonschema.Schema{}}
}

// document brings one and returns where it is.
func (p *published) document(t *testing.T, path string) string {
	t.Helper()
	at := p.s.URL() + path
	a, err := drover.Ask(drover.Request{URL: at, Token: p.admin})
	if err != nil || a.Status != 200 {
		t.Fatalf("%s: %d, %v", path, a.Status, err)
	}
	doc, err := jsonschema.UnmarshalJSON(bytes.NewReader(a.Body))
	if err == nil {
		err = p.compiler.AddResource(at, doc)
	}
	if err != nil {
		t.Fatal(err)
	}
	return at
}

// holds tells why a text is not as the schema at a place says.
func (p *published) holds(at string, body []byte) error {
	if p.known[at] == nil {
		s, err := p.compiler.Compile(at)
		if err != nil {
			return err
		}
		p.known[at] = s
	}
	value, err := jsonschema.UnmarshalJSON(bytes.NewReader(body))
	if err != nil {
		return err
	}
	return p.known[at].Validate(value)
}

// answerHolds tells why an answer is not as the server publishes it. Anybody may ask at
// any time.
func (b *broker) answerHolds(t *testing.T) func(body []byte) error {
	t.Helper()
	p := b.published(t)
	s, err := p.compiler.Compile(p.document(t, "/api/v1/asyncapi") + "#/components/messages/answer/payload")
	if err != nil {
		t.Fatal(err)
	}
	return func(body []byte) error {
		value, err := jsonschema.UnmarshalJSON(bytes.NewReader(body))
		if err != nil {
			return err
		}
		return s.Validate(value)
	}
}

// asPublished holds everything that is told, until a command is told to be done, against
// the schemas that the server publishes: of the message, and of its data by itself. It
// returns the kinds that were told of.
func (b *broker) asPublished(t *testing.T, events <-chan amqp.Delivery, command string) map[string]bool {
	t.Helper()
	p := b.published(t)
	messages, data, kinds := p.document(t, "/api/v1/asyncapi"), map[string]string{}, map[string]bool{}
	for deadline := time.After(drover.Patience); ; {
		var d amqp.Delivery
		select {
		case d = <-events:
		case <-deadline:
			t.Fatalf("the end of %s is not told", command)
		}
		var e struct {
			Type, DataSchema string
			Data             json.RawMessage
		}
		var c v1.Change
		if err := json.Unmarshal(d.Body, &e); err != nil {
			t.Fatal(err)
		}
		if err := json.Unmarshal(e.Data, &c); err != nil {
			t.Fatal(err)
		}
		kind := c.Object.Kind
		if data[e.DataSchema] == "" {
			data[e.DataSchema] = p.document(t, e.DataSchema)
		}
		kinds[kind] = true
		if err := p.holds(messages+"#/components/messages/event-"+kind+"/payload", d.Body); err != nil {
			t.Errorf("%s is not as published: %v\n%s", e.Type, err, d.Body)
		}
		if err := p.holds(data[e.DataSchema], e.Data); err != nil {
			t.Errorf("the data of %s is not as %s says: %v\n%s", e.Type, e.DataSchema, err, e.Data)
		}
		if c.Object.Name == command && slices.Contains(strings.Split(e.Type, "."), "done") {
			return kinds
		}
	}
}
