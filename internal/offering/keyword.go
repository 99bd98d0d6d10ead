package offering

import "strings"

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
func (f *file) keywords(n *node, path []any) {
	members, _ := n.value.([]member)
	for _, m := range members {
		holds, known := keywords[m.key]
		at := under(path, m.key)
		if near := nearest(m.key, keywords); !known && near != "" && !strings.HasPrefix(m.key, "x-") {
			f.report(m.at, at, "there is no such keyword; did you mean "+near+"?")
		}
		switch holds {
		case oneSchema:
			f.keywords(m.value, at)
		case listOfSchemas:
			entries, _ := m.value.value.([]*node)
			for i, e := range entries {
				f.keywords(e, under(at, i))
			}
		case mapOfSchemas:
			inner, _ := m.value.value.([]member)
			for _, p := range inner {
				f.keywords(p.value, under(at, p.key))
			}
		}
	}
}
