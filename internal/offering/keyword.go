package offering

import (
	"strings"

	"github.com/droverhq/drover/internal/document"
)

// keywords of JSON Schema 2020-12, and what their values hold.
var keywords = map[string]int{
	"$schema": 0, "$id": 0, "$anchor": 0, "$ref": 0, "$dynamicRef": 0, "$dynamicAnchor": 0, "$vocabulary": 0, "$comment": 0,
	"type": 0, "enum": 0, "const": 0, "multipleOf": 0, "maximum": 0, "exclusiveMaximum": 0, "minimum": 0, "exclusiveMinimum": 0,
	"maxLength": 0, "minLength": 0, "pattern": 0, "maxItems": 0, "minItems": 0, "uniqueItems": 0, "maxContains": 0, "minContains": 0,
	"maxProperties": 0, "minProperties": 0, "required": 0, "dependentRequired": 0, "title": 0, "description": 0, "default": 0,
	"deprecated": 0, "readOnly": 0, "writeOnly": 0, "examples": 0, "format": 0,
	"contentEncoding": 0, "contentMediaType": 0,
	"items": oneSchema, "contains": oneSchema, "additionalProperties": oneSchema, "propertyNames": oneSchema, "not": oneSchema,
	"if": oneSchema, "then": oneSchema, "else": oneSchema, "unevaluatedItems": oneSchema, "unevaluatedProperties": oneSchema,
	"contentSchema": oneSchema,
	"allOf":         listOfSchemas, "anyOf": listOfSchemas, "oneOf": listOfSchemas, "prefixItems": listOfSchemas,
	"properties": mapOfSchemas, "patternProperties": mapOfSchemas, "dependentSchemas": mapOfSchemas, "$defs": mapOfSchemas,
}

const (
	oneSchema = iota + 1
	listOfSchemas
	mapOfSchemas
)

// keywords reports misspelt keywords of a schema. The standard lets a schema
// hold words that it does not know; those that look like none of its own pass.
func (f file) keywords(n *document.Node, path []any) {
	members, _ := n.Value.([]document.Member)
	for _, m := range members {
		holds, known := keywords[m.Key]
		at := under(path, m.Key)
		if near := document.Nearest(m.Key, keywords); !known && near != "" && !strings.HasPrefix(m.Key, "x-") {
			f.Report(m.At, at, "there is no such keyword; did you mean "+near+"?")
		}
		switch holds {
		case oneSchema:
			f.keywords(m.Value, at)
		case listOfSchemas:
			entries, _ := m.Value.Value.([]*document.Node)
			for i, e := range entries {
				f.keywords(e, under(at, i))
			}
		case mapOfSchemas:
			inner, _ := m.Value.Value.([]document.Member)
			for _, p := range inner {
				f.keywords(p.Value, under(at, p.Key))
			}
		}
	}
}
