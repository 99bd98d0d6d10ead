package httpapi

import (
	"encoding/json"
	"maps"
	"slices"
	"strings"

	"github.com/droverhq/drover/internal/offering"
)

// openAPIFor makes the document of an offering's public API.
func openAPIFor(off *offering.Offering) ([]byte, error) {
	return json.Marshal(offeringDocument(off.Spec))
}

// requestKind is the wire's name for an instance.
func requestKind(spec offering.Spec) string {
	if spec.API.RequestKind != "" {
		return spec.API.RequestKind
	}
	return spec.Names.Kind + "Request"
}

func offeringBase(spec offering.Spec) string {
	return "/api/" + spec.API.Group + "/" + spec.API.Version
}

func offeringDocument(spec offering.Spec) node {
	base, kind := offeringBase(spec), requestKind(spec)
	paths, schemas := offeringPaths(spec, base, kind), offeringSchemas(spec, kind)
	maps.Copy(paths, metricsPaths(spec, base))
	maps.Copy(schemas, metricsSchemas())
	return document(spec.Names.Kind+" API", spec.API.Version, spec.Description, paths, schemas)
}

func offeringPaths(spec offering.Spec, base, kind string) node {
	n := spec.Names
	id := pathParameter("id", "Id of the "+n.Singular)
	async := node{"name": "async", "in": "query", "required": true, "schema": node{"type": "boolean", "const": true},
		"description": "The work is done after the answer; there is no other way"}
	paging := []node{
		queryParameter("page", "Number of the page", node{"type": "integer", "minimum": 0, "default": 1}),
		queryParameter("size", "Items of a page", node{"type": "integer", "minimum": 1, "maximum": 65500, "default": 100}),
	}
	listing := append(slices.Clone(paging),
		queryParameter("orderBy", "Comma-separated columns, each with asc or desc: "+words(spec.API.Order), node{"type": "string", "default": "name"}),
		queryParameter("search", "Condition with =, <>, LIKE, ILIKE, AND, OR and parentheses over: "+words(spec.API.Search), node{"type": "string"}))
	one := func(what string) map[int]answerDoc { return map[int]answerDoc{200: {Text: what, Schema: ref(kind)}} }
	list := func(what, schema string) map[int]answerDoc {
		return map[int]answerDoc{200: {Text: what, Schema: ref(schema)}}
	}
	get := func(o operationDoc) node { return node{"get": o.node()} }
	return node{
		base: get(operationDoc{ID: "getVersionMetadata", Tag: "service", Summary: "What this version of the API offers", Open: true,
			Answers: list("The version", "VersionMetadata")}),
		base + "/openapi": get(operationDoc{ID: "getOpenAPI", Tag: "service", Summary: "This document", Open: true,
			Answers: map[int]answerDoc{200: {Text: "An OpenAPI document", Schema: node{"type": "object"}}}}),
		base + "/errors": get(operationDoc{ID: "getErrors", Tag: "service", Summary: "All errors that the API knows", Open: true,
			Parameters: paging, Answers: list("The catalogue", "ErrorList")}),
		base + "/errors/{id}": get(operationDoc{ID: "getErrorById", Tag: "service", Summary: "One error", Open: true,
			Parameters: []node{pathParameter("id", "Number of the error")}, Answers: list("The error", "Error"), Errors: []int{7}}),
		base + "/status": get(operationDoc{ID: "getServiceStatus", Tag: "service", Summary: "Whether there is room for another " + n.Singular,
			Answers: list("The service's status", "ServiceStatus")}),
		base + "/cloud_providers": get(operationDoc{ID: "getCloudProviders", Tag: "service", Summary: "Cloud providers",
			Parameters: paging, Answers: list("A page of providers", "CloudProviderList"), Errors: []int{17}}),
		base + "/cloud_providers/{id}/regions": get(operationDoc{ID: "getCloudProviderRegions", Tag: "service", Summary: "Regions of a provider",
			Parameters: append([]node{pathParameter("id", "Name of the provider"),
				queryParameter("instance_type", "Only regions that offer this type", node{"type": "string"})}, paging...),
			Answers: list("A page of regions", "CloudRegionList"), Errors: []int{7, 17}}),
		base + "/" + n.Plural: node{
			"get": operationDoc{ID: "get" + n.Kind + "s", Tag: n.Plural, Summary: "List " + n.Plural, Parameters: listing,
				Description: "What the caller's organisation has; without an organisation, what the caller owns.",
				Answers:     list("A page of "+n.Plural, kind+"List"), Errors: []int{17, 23}}.node(),
			"post": operationDoc{ID: "create" + n.Kind, Tag: n.Plural, Summary: "Order a " + n.Singular, Parameters: []node{async}, Body: ref(kind + "Payload"),
				Description: "Answers when the order is written down. Its status then goes accepted, preparing, provisioning, ready.",
				Answers:     map[int]answerDoc{202: {Text: "Accepted", Schema: ref(kind)}},
				Errors:      []int{103, 17, 8, 21, 30, 31, 32, 33, 34, 37, 41, 42, 36, 4, 5, 24, 120}}.node(),
		},
		base + "/" + n.Plural + "/{id}": node{
			"parameters": []any{id},
			"get": operationDoc{ID: "get" + n.Kind + "ById", Tag: n.Plural, Summary: "One " + n.Singular,
				Answers: one("The " + n.Singular), Errors: []int{7}}.node(),
			"patch": operationDoc{ID: "update" + n.Kind + "ById", Tag: n.Plural, Summary: "Give the " + n.Singular + " another owner", Body: ref(n.Kind + "UpdateRequest"),
				Description: "Only its owner and admins of its organisation may.",
				Answers:     one("The " + n.Singular + " as it is now"), Errors: []int{7, 8, 17, 37, 11, 6}}.node(),
			"delete": operationDoc{ID: "delete" + n.Kind + "ById", Tag: n.Plural, Summary: "Delete the " + n.Singular, Parameters: []node{async},
				Description: "Answers when the wish is written down. Its status then goes deprovision, deleting; after that it is not found.",
				Answers:     map[int]answerDoc{202: {Text: "Accepted"}}, Errors: []int{103, 7, 11}}.node(),
		},
	}
}

// metricsPaths describes the metrics of an instance.
func metricsPaths(spec offering.Spec, base string) node {
	n := spec.Names
	root := base + "/" + n.Plural + "/{id}/metrics/"
	id := []any{pathParameter("id", "Id of the "+n.Singular)}
	filters := queryParameter("filters", "Names of metrics", node{"type": "array", "items": node{"type": "string"}})
	needed := func(name, description string) node {
		p := queryParameter(name, description, node{"type": "integer", "minimum": 1})
		p["required"] = true
		return p
	}
	op := func(o operationDoc) node {
		o.Tag, o.Errors = "metrics", []int{7, 37}
		return node{"parameters": id, "get": o.node()}
	}
	return node{
		root + "query": op(operationDoc{ID: "getMetricsByInstantQuery", Summary: "Metrics of the " + n.Singular + " now", Parameters: []node{filters},
			Answers: map[int]answerDoc{200: {Text: "The metrics", Schema: ref("MetricsInstantQueryList")}}}),
		root + "query_range": op(operationDoc{ID: "getMetricsByRangeQuery", Summary: "Metrics of the " + n.Singular + " over time",
			Parameters: []node{needed("duration", "Minutes to look back"), needed("interval", "Seconds between two values"), filters},
			Answers:    map[int]answerDoc{200: {Text: "The metrics", Schema: ref("MetricsRangeQueryList")}}}),
		root + "federate": op(operationDoc{ID: "federateMetrics", Summary: "Metrics of the " + n.Singular + " for a Prometheus server",
			Answers: map[int]answerDoc{200: {Text: "Metrics in Prometheus text format", Schema: node{"type": "string"}, Media: "text/plain"}}}),
	}
}

// metricsSchemas describes what the metrics' paths answer.
func metricsSchemas() node {
	value := object([]string{"value"}, node{"timestamp": typed("integer", "Milliseconds since 1970"), "value": typed("number", "Its value then")})
	labels := node{"type": "object", "additionalProperties": node{"type": "string"}}
	list := func(kind string, item node) node {
		return object(nil, node{"kind": node{"type": "string", "const": kind}, "id": text("Id of the instance"), "items": node{"type": "array", "items": item}})
	}
	instant := node{"metric": labels}
	maps.Copy(instant, value["properties"].(node))
	return node{
		"MetricsInstantQueryList": list("MetricsInstantQueryList", object([]string{"value"}, instant)),
		"MetricsRangeQueryList":   list("MetricsRangeQueryList", object(nil, node{"metric": labels, "values": node{"type": "array", "items": value}})),
	}
}

func offeringSchemas(spec offering.Spec, kind string) node {
	n := spec.Names
	reference := func(fixed string, more node) node {
		p := node{"id": text("Its id"), "kind": node{"type": "string", "const": fixed}, "href": text("Its path")}
		maps.Copy(p, more)
		return object([]string{"id", "kind", "href"}, p)
	}
	out := node{
		kind:              instanceSchema(spec, kind),
		kind + "List":     listSchema(kind+"List", ref(kind)),
		kind + "Payload":  payloadSchema(spec),
		"ErrorList":       listSchema("ErrorList", ref("Error")),
		"CloudProvider":   reference("CloudProvider", node{"display_name": text("For people"), "name": text("Name"), "enabled": typed("boolean", "Whether it can be chosen")}),
		"CloudRegion":     reference("CloudRegion", node{"display_name": text("For people"), "enabled": typed("boolean", "Whether it can be chosen"), "supported_instance_types": node{"type": "array", "items": node{"type": "string"}}}),
		"VersionMetadata": reference("APIVersion", node{"collections": node{"type": "array", "items": ref("ObjectReference")}}),
		"ObjectReference": object(nil, node{"id": text("Its id"), "kind": text("Its kind"), "href": text("Its path")}),
		"ServiceStatus":   object(nil, node{n.Plural: object([]string{"max_capacity_reached"}, node{"max_capacity_reached": typed("boolean", "No more can be hosted at the moment")})}),
		n.Kind + "UpdateRequest": node{"type": "object", "additionalProperties": false, "properties": node{
			"owner": node{"type": []any{"string", "null"}, "description": "User of the same organisation"}}},
	}
	for _, s := range []string{"CloudProvider", "CloudRegion"} {
		delete(out[s].(node)["properties"].(node), "href")
		out[s].(node)["required"] = []any{"enabled"}
		out[s+"List"] = listSchema(s+"List", ref(s))
	}
	if spec.Parameters != nil {
		out[n.Kind+"Parameters"] = rebase(spec.Parameters, "#/components/schemas/"+n.Kind+"Parameters")
	}
	return out
}

// instanceSchema describes what the API shows of an instance.
func instanceSchema(spec offering.Spec, kind string) node {
	p := node{}
	for name, v := range spec.Present {
		p[name] = presented(v)
	}
	maps.Copy(p, node{
		"id":             text("Its id"),
		"kind":           node{"type": "string", "const": kind},
		"href":           text("Its path"),
		"name":           text("As it was ordered"),
		"owner":          text("User it belongs to"),
		"status":         node{"type": "string", "enum": []any{"accepted", "preparing", "provisioning", "ready", "failed", "suspending", "suspended", "resuming", "deprovision", "deleting"}},
		"cloud_provider": choice("Where it is hosted", providers(spec)),
		"region":         text("Where it is hosted"),
		"multi_az":       typed("boolean", "Spread over availability zones"),
		"created_at":     node{"type": "string", "format": "date-time"},
		"updated_at":     node{"type": "string", "format": "date-time"},
	})
	return object([]string{"id", "kind", "href", "multi_az"}, p)
}

// payloadSchema describes an order: the fields of every order and the
// offering's own parameters beside them.
func payloadSchema(spec offering.Spec) node {
	own, _ := rebase(spec.Parameters, "#/components/schemas/"+spec.Names.Kind+"Parameters").(node)
	p := node{}
	if props, ok := own["properties"].(node); ok {
		maps.Copy(p, props)
	}
	required := []string{"name"}
	if list, ok := own["required"].([]any); ok {
		for _, v := range list {
			if s, ok := v.(string); ok && s != "name" {
				required = append(required, s)
			}
		}
	}
	var plans []string
	for _, t := range spec.Types {
		for _, size := range t.Sizes {
			plans = append(plans, t.Name+"."+size.Name)
		}
	}
	maps.Copy(p, node{
		"name":           node{"type": "string", "minLength": 1, "maxLength": 32, "pattern": "^[a-z]([-a-z0-9]*[a-z0-9])?$", "example": "rex"},
		"cloud_provider": choice("Default: the first", providers(spec)),
		"region":         text("Default: the provider's first"),
		"multi_az":       typed("boolean", "Spread over availability zones"),
		"plan":           choice("Type and size. Default: the first", plans),
	})
	out := object(required, p)
	out["additionalProperties"] = false
	return out
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

// presented guesses the schema of a presented field: what an expression alone
// will give is not known before it is asked.
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

func words(columns map[string]string) string {
	return strings.Join(slices.Sorted(maps.Keys(columns)), ", ")
}
