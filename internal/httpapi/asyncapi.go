package httpapi

import (
	"encoding/json"
	"maps"
	"net/http"
	"reflect"
	"strings"

	"github.com/danielgtaylor/huma/v2"

	v1 "github.com/droverhq/drover/api/v1"
	"github.com/droverhq/drover/internal/command"
	"github.com/droverhq/drover/internal/fault"
	"github.com/droverhq/drover/internal/subscription"
)

const (
	asyncAPIVersion = "3.0.0"
	jsonSchema      = "https://json-schema.org/draft/2020-12/schema"
)

// routesEvent serves what describes messages: the AsyncAPI document and the schemas
// that events name.
func (o *own) routesEvent() {
	schemas := o.api.OpenAPI().Components.Schemas
	for _, t := range []reflect.Type{ // also where the API has no route that brings them
		reflect.TypeFor[v1.Change](), reflect.TypeFor[command.Answer](), reflect.TypeFor[v1.CreateInstance](), reflect.TypeFor[v1.UpdateInstance](),
		reflect.TypeFor[v1.PlanEnvironment](), reflect.TypeFor[v1.CreateEnvironment](), reflect.TypeFor[v1.ApplyEnvironment](), reflect.TypeFor[v1.DestroyEnvironment](),
		reflect.TypeFor[v1.UpdateEnvironment](), reflect.TypeFor[v1.RunAction](), reflect.TypeFor[v1.SyncDeployment](),
	} {
		schemas.Schema(t, true, "")
	}
	tags := []string{"events"}
	o.raw(huma.Operation{OperationID: "asyncapi", Method: http.MethodGet, Path: "/api/v1/asyncapi", Tags: tags,
		Summary: "What is said on the bus: an AsyncAPI document", Responses: map[string]*huma.Response{"200": {Description: "The document"}},
	}, func(w http.ResponseWriter, r *http.Request) { writeJSON(w, http.StatusOK, o.asyncAPI()) })
	o.raw(huma.Operation{OperationID: "event-schema", Method: http.MethodGet, Path: "/api/v1/schemas/{kind}", Tags: tags,
		Summary: "JSON Schema of the data of events about a kind of objects", Parameters: []*huma.Param{pathParam("kind", "As in the event's dataschema")},
		Responses: map[string]*huma.Response{"200": {Description: "The schema"}},
	}, func(w http.ResponseWriter, r *http.Request) {
		kind := r.PathValue("kind")
		if _, ok := kindOf(kind); !ok {
			o.fail(w, r, fault.New(fault.NotFound, "there is no kind %.64q", kind))
			return
		}
		writeJSON(w, http.StatusOK, o.eventSchema(kind))
	})
}

// schemaNodes are the schemas of the API's values as plain nodes.
func (o *own) schemaNodes() node {
	text, err := json.Marshal(o.api.OpenAPI().Components.Schemas.Map())
	out := node{}
	if err == nil {
		err = json.Unmarshal(text, &out)
	}
	if err != nil {
		panic(err) // they are made of Go types, and the OpenAPI document has them too
	}
	return out
}

// needed are the schemas that a name leads to, itself included.
func needed(all node, names ...string) node {
	out := node{}
	var visit func(v any)
	add := func(name string) {
		if _, seen := out[name]; !seen && all[name] != nil {
			out[name] = all[name]
			visit(all[name])
		}
	}
	visit = func(v any) {
		switch v := v.(type) {
		case node:
			if ref, ok := v["$ref"].(string); ok {
				add(ref[strings.LastIndexByte(ref, '/')+1:])
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
	for _, name := range names {
		add(name)
	}
	return out
}

// eventSchema is that of the data of an event, on its own.
func (o *own) eventSchema(kind string) node {
	defs, shapes := needed(o.schemaNodes(), "Change"), shapes{}
	whole := node{
		"$schema": jsonSchema, "$id": "/api/v1/schemas/" + kind, "title": "What is told of a change of a " + kind,
		"allOf": []any{node{"$ref": schemasAt + "Change"}, shapes.ofKind(kind)},
		"$defs": defs,
	}
	maps.Copy(defs, node(shapes))
	text, _ := json.Marshal(whole)
	out := node{}
	_ = json.Unmarshal([]byte(strings.ReplaceAll(string(text), schemasAt, "#/$defs/")), &out)
	return out
}

// ofKind says of a change that it is one of a kind of objects, and what these have in them.
func (s shapes) ofKind(kind string) node {
	members := s.documentsOf(kind)
	members["kind"] = node{"const": kind}
	return node{"type": "object", "properties": node{"object": node{"type": "object", "properties": members}}}
}

// asyncAPI describes what is said on the bus.
func (o *own) asyncAPI() node {
	word := node{"type": "string"}
	attributes := func(kind node, data node, more ...string) node {
		required := []any{"specversion", "id", "source", "type", "data"}
		for _, m := range more {
			required = append(required, m)
		}
		return node{"type": "object", "required": required, "properties": node{
			"specversion": node{"const": "1.0"}, "id": word, "source": word, "type": kind, "subject": word, "time": node{"type": "string", "format": "date-time"},
			"datacontenttype": node{"const": "application/json"}, "dataschema": word, "sequence": node{"type": "string", "pattern": "^[0-9]+$"}, "partitionkey": word,
			"org": word, "actor": word, "cause": word, "traceparent": word, "data": data}}
	}
	ref := func(name string) node { return node{"$ref": "#/components/schemas/" + name} }
	messages, commands, names := node{}, node{}, []string{"Change", "Answer"}
	message := func(name, title string, payload node) node {
		messages[name] = node{"name": name, "title": title, "contentType": subscription.ContentType, "payload": payload}
		return node{"$ref": "#/components/messages/" + name}
	}
	for _, name := range command.Names() {
		route := command.Routes[name]
		data := node{"type": "object"}
		if route.Body != "" {
			data = ref(route.Body)
			names = append(names, route.Body)
		}
		id := strings.ReplaceAll(name, ".", "-")
		payload := attributes(node{"const": command.TypePrefix + name}, data)
		known := []any{command.Schemas}
		if s := route.Schema(); s != "" {
			known = append(known, s)
		}
		payload["properties"].(node)["dataschema"] = node{"enum": known}
		message(id, route.Summary, payload)
		messages[id].(node)["headers"] = node{"type": "object", "required": []any{"authorization"}, "properties": node{
			"authorization": node{"type": "string", "description": "Bearer, and a token of this server or of an issuer that it trusts"},
			"traceparent":   node{"type": "string", "description": "W3C Trace Context"}}}
		messages[id].(node)["description"] = route.Method + " " + route.Path + ", as a message"
		messages[id].(node)["examples"] = []any{commandExample(name)}
		commands[id] = node{"$ref": "#/components/messages/" + id}
	}
	events, shapes := node{}, shapes{}
	for _, kind := range EventKinds() {
		what := "created|updated|moved|deleted"
		if kind == command.Kind.Name {
			what = strings.Join(command.Words, "|")
		}
		about := node{"anyOf": []any{
			node{"allOf": []any{ref("Change"), shapes.ofKind(kind)}},
			node{"type": "null", "description": "The event is of more than 1 MiB, or what the ledger has of the change cannot be written as JSON: ask the API for the object. Such an event has no dataschema"},
		}}
		events["event-"+kind] = message("event-"+kind, "A change of a "+kind,
			attributes(node{"type": "string", "pattern": "^dev\\.drover\\." + kind + "\\.(" + what + ")$"}, about, "subject", "time", "sequence"))
	}
	schemas := needed(o.schemaNodes(), names...)
	maps.Copy(schemas, node(shapes))
	return node{
		"asyncapi": asyncAPIVersion,
		"info": node{"title": "Drover on the bus", "version": "v1",
			"description": "Commands are requests of the API as messages; events are the log of every change. See docs/events.md."},
		"defaultContentType": subscription.ContentType,
		"servers":            node{"rabbitmq": node{"host": "{host}:5672", "protocol": "amqp", "variables": node{"host": node{"default": "localhost"}}}},
		"channels": node{
			"events": node{"address": "{org}.{kind}.{id}.{what}", "title": "Every change, on the topic exchange drover.events",
				"parameters": node{"org": node{"description": "Organisation, _ for none"}, "kind": node{}, "id": node{}, "what": node{"description": "created, updated, moved (to another phase), deleted; of a command: " + strings.Join(command.Words, ", ")}},
				"messages":   events},
			"commands": node{"address": command.Queue, "title": "Requests, in the queue " + command.Queue, "messages": commands},
			"answers":  node{"address": nil, "title": "How a command goes, at its reply address", "messages": node{"answer": message("answer", "How a command goes", attributes(node{"type": "string", "pattern": "^dev\\.drover\\.command\\.(accepted|rejected|progress|done|failed|lost)$"}, ref("Answer")))}},
		},
		"operations": node{
			"tell":   node{"action": "send", "channel": node{"$ref": "#/channels/events"}, "summary": "At least once, in order for each subject"},
			"take":   node{"action": "receive", "channel": node{"$ref": "#/channels/commands"}, "summary": "Once, by id and source", "reply": node{"channel": node{"$ref": "#/channels/answers"}, "address": node{"location": "$message.header#/reply_to"}}},
			"answer": node{"action": "send", "channel": node{"$ref": "#/channels/answers"}},
		},
		"components": node{"messages": messages, "schemas": schemas},
	}
}
