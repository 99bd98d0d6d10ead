package httpapi

import (
	"bytes"
	"context"
	"encoding/json"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/droverhq/drover/internal/offering"
)

// referring is the schema of an object with its head.
func referring(fixed string, more node) node {
	p := node{"id": text("Its id"), "kind": node{"type": "string", "const": fixed}, "href": text("Its path")}
	maps.Copy(p, more)
	return object([]string{"id", "kind", "href"}, p)
}

func list(of node) node { return node{"type": "array", "items": of} }

func offeringSchemas(off *offering.Offering, kind string) node {
	spec := off.Spec
	n := spec.Names
	out := node{
		kind:                     instanceSchema(off, kind),
		kind + "List":            listSchema(kind+"List", ref(kind)),
		kind + "Payload":         payloadSchema(spec),
		"ErrorList":              listSchema("ErrorList", ref("Error")),
		"CloudProvider":          referring("CloudProvider", node{"display_name": text("For people"), "name": text("Name"), "enabled": typed("boolean", "Whether it can be chosen")}),
		"CloudRegion":            referring("CloudRegion", node{"display_name": text("For people"), "enabled": typed("boolean", "Whether it can be chosen")}),
		"VersionMetadata":        referring("APIVersion", node{"server_version": text("Of the server"), "collections": list(ref("ObjectReference"))}),
		"ObjectReference":        object([]string{"id", "kind", "href"}, node{"id": text("Its id"), "kind": text("Its kind"), "href": text("Its path")}),
		n.Kind + "UpdateRequest": updateSchema(spec),
	}
	for _, s := range []string{"CloudProvider", "CloudRegion"} {
		delete(out[s].(node)["properties"].(node), "href")
		out[s].(node)["required"] = []any{"enabled"}
		out[s+"List"] = listSchema(s+"List", ref(s))
	}
	region := out["CloudRegion"].(node)
	if serves(spec, "instance_types") {
		region["required"] = []any{"enabled", "capacity"}
		region["properties"].(node)["capacity"] = list(ref("RegionCapacityListItem"))
		out["RegionCapacityListItem"] = object([]string{"instance_type", "available_sizes"}, node{
			"instance_type": text("Name of the type"), "available_sizes": list(text("A size that there is room for"))})
	} else {
		region["required"] = []any{"enabled", "supported_instance_types"}
		region["properties"].(node)["supported_instance_types"] = list(text("Name of a type"))
	}
	if spec.Parameters != nil {
		out[n.Kind+"Parameters"] = rebase(spec.Parameters, "#/components/schemas/"+n.Kind+"Parameters")
	}
	return out
}

// instanceSchema describes what the API shows of an instance.
func instanceSchema(off *offering.Offering, kind string) node {
	spec, p := off.Spec, node{}
	required := []string{"id", "kind", "href", "multi_az"}
	for name, v := range spec.Present {
		p[name] = presented(v)
	}
	for name, v := range sampled(off, off.Present) {
		p[name] = v
		if v.(node)["type"] == "boolean" { // which is never empty, so never left out
			required = append(required, name)
		}
	}
	slices.Sort(required[4:])
	maps.Copy(p, node{
		"id":             text("Its id"),
		"kind":           node{"type": "string", "const": off.Spec.Names.Kind},
		"href":           text("Its path"),
		"name":           text("As it was ordered"),
		"owner":          text("User it belongs to"),
		"status":         node{"type": "string", "enum": []any{"accepted", "preparing", "provisioning", "ready", "failed", "suspending", "suspended", "resuming", "deprovision", "deleting"}},
		"cloud_provider": text("Where it is hosted"),
		"region":         text("Where it is hosted"),
		"multi_az":       typed("boolean", "Spread over availability zones"),
		"created_at":     node{"type": "string", "format": "date-time"},
		"updated_at":     node{"type": "string", "format": "date-time"},
	})
	return object(required, p)
}

// sampled shows an imagined instance of each plan as the offering's file says,
// and reads the types of the fields off it: an expression has no schema.
func sampled(off *offering.Offering, show func(context.Context, offering.Facts) (json.RawMessage, error)) node {
	out := node{}
	at := time.Date(2024, 2, 29, 12, 0, 0, 0, time.UTC)
	parameters, err := off.Validate(nil)
	if err != nil {
		parameters = map[string]any{}
	}
	versions := map[string]string{}
	for _, c := range off.Spec.Components {
		versions[c.Name] = "1.0.0"
	}
	f := offering.Facts{
		ID: "1", Name: "sample", Owner: "owner", Org: "1", Account: "1", Phase: "ready", Reason: "reason", Provider: "provider", Region: "region",
		Version: "1.0.0", Versions: versions, Actual: versions, Cluster: "1", Namespace: "sample-1", Placement: "1", Host: "sample.example.com",
		Routes: []map[string]any{{"domain": "sample.example.com", "router": "router.example.com"}}, Admin: "https://admin.example.com", Client: "1",
		Parameters: parameters, Market: "market", Payer: "1", Promotion: "promoting", Promoting: "details",
		Quota: "quota", Ticket: "1", Created: at, Expires: at,
	}
	if len(off.Spec.Billing) > 0 {
		f.Billing = off.Spec.Billing[0].Name
	}
	for _, t := range off.Spec.Types {
		for _, size := range t.Sizes {
			f.Type, f.Size = t.Name, size.Name
			doc, err := show(context.Background(), f)
			if err != nil {
				continue // the file's own test of its expressions has more to say on that
			}
			var shown map[string]any
			if decodeNumbers(doc, &shown) != nil {
				continue
			}
			for name, v := range shown {
				out[name] = shapeOf(v)
			}
		}
	}
	return out
}

// decodeNumbers keeps numbers as they are written.
func decodeNumbers(data []byte, to any) error {
	d := json.NewDecoder(bytes.NewReader(data))
	d.UseNumber()
	return d.Decode(to)
}

// shapeOf is the schema of a value.
func shapeOf(v any) node {
	switch x := v.(type) {
	case string:
		if _, err := time.Parse(time.RFC3339, x); err == nil {
			return node{"type": "string", "format": "date-time"}
		}
		return node{"type": "string"}
	case bool:
		return node{"type": "boolean"}
	case json.Number:
		if strings.ContainsAny(x.String(), ".eE") {
			return node{"type": "number"}
		}
		return node{"type": "integer", "format": "int64"}
	case []any:
		if len(x) == 0 {
			return node{"type": "array"}
		}
		return list(shapeOf(x[0]))
	case map[string]any:
		p := node{}
		for name, member := range x {
			p[name] = shapeOf(member)
		}
		return object(nil, p)
	}
	return node{}
}

// presented guesses the schema of a presented field that no sample shows.
func presented(v any) any {
	switch x := v.(type) {
	case string:
		if strings.HasPrefix(x, "${") && strings.HasSuffix(x, "}") && strings.Count(x, "${") == 1 {
			return node{"description": "Left out while it is empty"}
		}
		return node{"type": "string"}
	case bool:
		return node{"type": "boolean"}
	case map[string]any:
		p := node{}
		for k, e := range x {
			p[k] = presented(e)
		}
		return object(nil, p)
	case []any:
		return node{"type": "array"}
	case nil:
		return node{}
	}
	return node{"type": "number"}
}

// orNull is a schema that null fits too: it means absent.
func orNull(schema node) node {
	out := maps.Clone(schema)
	kind, ok := out["type"].(string)
	if !ok {
		return node{"anyOf": []any{schema, node{"type": "null"}}}
	}
	out["type"] = []any{kind, "null"}
	if choices, ok := out["enum"].([]any); ok {
		out["enum"] = append(slices.Clone(choices), nil)
	}
	return out
}

// parameterSchemas are the schemas of what a tenant may set.
func parameterSchemas(spec offering.Spec) (properties node, required []string) {
	own, _ := rebase(spec.Parameters, "#/components/schemas/"+spec.Names.Kind+"Parameters").(node)
	properties = node{}
	all, _ := own["properties"].(node)
	for name, v := range all {
		schema, ok := v.(node)
		if !ok {
			schema = node{}
		}
		if schema["readOnly"] != true {
			properties[name] = schema
		}
	}
	needed, _ := own["required"].([]any)
	for _, v := range needed {
		if s, ok := v.(string); ok && properties[s] != nil {
			required = append(required, s)
		}
	}
	return properties, required
}

// payloadSchema describes an order: the fields of every order and the
// offering's own parameters beside them.
func payloadSchema(spec offering.Spec) node {
	p, needed := parameterSchemas(spec)
	for name, schema := range p {
		if !slices.Contains(needed, name) {
			p[name] = orNull(schema.(node))
		}
	}
	var plans, models, markets []string
	for _, t := range spec.Types {
		for _, size := range t.Sizes {
			plans = append(plans, t.Name+"."+size.Name)
		}
	}
	for _, b := range spec.Billing {
		models = append(models, b.Name)
		markets = append(markets, b.Marketplaces...)
	}
	slices.Sort(markets)
	maps.Copy(p, node{
		"name":           node{"type": "string", "minLength": 1, "maxLength": 32, "pattern": "^[a-z]([-a-z0-9]*[a-z0-9])?$", "example": "rex"},
		"cloud_provider": orNull(choice("Default: the first", providers(spec))),
		"region":         orNull(text("Default: the provider's first")),
		"multi_az":       orNull(typed("boolean", "Spread over availability zones, where the instance type leaves that open")),
		"plan":           orNull(choice("Type and size. Default: what there is quota for", plans)),
	})
	fields := orderFields(spec)
	for name, schema := range map[string]node{
		"billing_model":            choice("How it is paid for. Default: the first that there is quota for", models),
		"marketplace":              choice("Where the billing account is", slices.Compact(markets)),
		"billing_cloud_account_id": text("Account at the marketplace"),
		"cluster_id":               text("Cluster of the organisation's own that is to host it"),
	} {
		if fields[name] {
			p[name] = orNull(schema)
		}
	}
	out := object(append([]string{"name"}, slices.DeleteFunc(needed, func(s string) bool { return s == "name" })...), p)
	out["additionalProperties"] = false
	if len(needed) == 0 {
		first := spec.Providers[0]
		out["examples"] = []any{node{"name": "rex"}, node{"name": "rex", "cloud_provider": first.Name, "region": first.Regions[0].Name, "plan": plans[0]}}
	}
	return out
}

// updateSchema describes what a PATCH may change.
func updateSchema(spec offering.Spec) node {
	p := node{"owner": orNull(text("User of the same organisation"))}
	parameters, _ := parameterSchemas(spec)
	for name, field := range spec.Changes {
		switch {
		case field.Parameter != "":
			schema, ok := parameters[field.Parameter].(node)
			if !ok {
				schema = node{}
			}
			schema = maps.Clone(schema)
			delete(schema, "default") // what is not said stays
			p[name] = orNull(schema)
		case field.Suspended:
			p[name] = orNull(typed("boolean", "Whether it is to rest"))
		default:
			p[name] = orNull(text("The wanted version"))
		}
	}
	return node{"type": "object", "additionalProperties": false, "properties": p, "examples": []any{node{"owner": "alice"}}}
}

func providers(spec offering.Spec) []string {
	var out []string
	for _, p := range spec.Providers {
		out = append(out, p.Name)
	}
	return out
}

func choice(description string, of []string) node {
	out := text(description)
	if len(of) > 0 {
		out["enum"] = nodes(of)
	}
	return out
}
