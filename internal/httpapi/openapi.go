package httpapi

import (
	"fmt"
	"maps"
	"net/http"
	"slices"
	"strconv"
	"strings"
)

// node is a piece of an OpenAPI document. Keys are written in order of the
// alphabet, so a document is the same bytes whenever it is made.
type node = map[string]any

const openAPIVersion = "3.1.0"

// operationDoc describes one operation of a hand-made document.
type operationDoc struct {
	ID, Tag, Summary, Description string
	Parameters                    []node
	Body                          node // schema of the request's body; nil: it has none
	Answers                       map[int]answerDoc
	Errors                        []int // codes of the catalogue
	Open                          bool  // no token needed
}

// answerDoc describes one answer; a nil schema means an empty body.
type answerDoc struct {
	Text   string
	Schema node
	Media  string // default application/json
}

func (o operationDoc) node() node {
	out := node{"operationId": o.ID, "tags": []any{o.Tag}, "summary": o.Summary, "responses": o.responses()}
	if o.Description != "" {
		out["description"] = o.Description
	}
	if len(o.Parameters) > 0 {
		out["parameters"] = nodes(o.Parameters)
	}
	if o.Body != nil {
		out["requestBody"] = node{"required": true, "content": node{"application/json": node{"schema": o.Body}}}
	}
	if o.Open {
		out["security"] = []any{}
	}
	return out
}

func (o operationDoc) responses() node {
	out := node{}
	for status, a := range o.Answers {
		n := node{"description": a.Text}
		if a.Schema != nil {
			media := a.Media
			if media == "" {
				media = "application/json"
			}
			n["content"] = node{media: node{"schema": a.Schema}}
		}
		out[strconv.Itoa(status)] = n
	}
	codes := slices.Clone(o.Errors)
	if !o.Open {
		codes = append(codes, 15, 429)
	}
	codes = append(codes, 9)
	byStatus := map[int][]string{}
	for _, id := range codes {
		if c, ok := lookup(id); ok {
			line := fmt.Sprintf("%d: %s", c.id, c.text)
			if !slices.Contains(byStatus[c.status], line) {
				byStatus[c.status] = append(byStatus[c.status], line)
			}
		}
	}
	byStatus[http.StatusServiceUnavailable] = []string{"9: What the server stands on does not answer; try again"}
	for status, lines := range byStatus {
		if _, taken := out[strconv.Itoa(status)]; taken {
			continue
		}
		out[strconv.Itoa(status)] = node{
			"description": strings.Join(lines, "; "),
			"content":     node{"application/json": node{"schema": ref("Error")}},
		}
	}
	return out
}

// document puts the frame around paths and schemas.
func document(title, version, description string, paths, schemas node) node {
	all := node{"Error": errorSchema()}
	maps.Copy(all, schemas)
	return node{
		"openapi":  openAPIVersion,
		"info":     node{"title": title, "version": version, "description": description},
		"paths":    paths,
		"security": []any{node{"bearer": []any{}}},
		"components": node{
			"schemas":         all,
			"securitySchemes": node{"bearer": node{"type": "http", "scheme": "bearer", "bearerFormat": "JWT"}},
		},
	}
}

func ref(schema string) node { return node{"$ref": "#/components/schemas/" + schema} }

func nodes[T any](in []T) []any {
	out := make([]any, len(in))
	for i, v := range in {
		out[i] = v
	}
	return out
}

func text(description string) node { return node{"type": "string", "description": description} }

func typed(kind, description string) node { return node{"type": kind, "description": description} }

func object(required []string, properties node) node {
	out := node{"type": "object", "properties": properties}
	if len(required) > 0 {
		out["required"] = nodes(required)
	}
	return out
}

func pathParameter(name, description string) node {
	return node{"name": name, "in": "path", "required": true, "description": description, "schema": node{"type": "string"}}
}

func queryParameter(name, description string, schema node) node {
	return node{"name": name, "in": "query", "description": description, "schema": schema}
}

func errorSchema() node {
	return object([]string{"id", "kind", "href", "code", "reason"}, node{
		"id":           text("Number of the error in the catalogue"),
		"kind":         node{"type": "string", "const": "Error"},
		"href":         text("Where the catalogue explains it"),
		"code":         text("Prefix of the API and the number"),
		"reason":       text("What went wrong, for people"),
		"operation_id": text("The request's id, which the server's log knows"),
	})
}

// listSchema is the envelope of a page.
func listSchema(kind string, item node) node {
	return object([]string{"kind", "page", "size", "total", "items"}, node{
		"kind":  node{"type": "string", "const": kind},
		"page":  typed("integer", "Number of the page, from 1"),
		"size":  typed("integer", "How many items were asked for, at most the total"),
		"total": typed("integer", "How many there are on all pages"),
		"items": node{"type": "array", "items": item},
	})
}

// rebase makes local references of a schema point to where it now stands.
func rebase(schema any, base string) any {
	switch x := schema.(type) {
	case map[string]any:
		out := make(map[string]any, len(x))
		for k, v := range x {
			if s, ok := v.(string); ok && k == "$ref" && strings.HasPrefix(s, "#") {
				out[k] = base + strings.TrimPrefix(s, "#")
				continue
			}
			out[k] = rebase(v, base)
		}
		return out
	case []any:
		out := make([]any, len(x))
		for i, v := range x {
			out[i] = rebase(v, base)
		}
		return out
	}
	return schema
}
