package httpapi

import (
	"encoding/json"
	"maps"
	"path"
	"slices"

	"github.com/danielgtaylor/huma/v2"

	"github.com/droverhq/drover/internal/offering"
)

// agentDocument describes what agents call: Drover's own protocol, out of the
// own document, and that of outside agents for all offerings.
func agentDocument(api *huma.OpenAPI, offs []*offering.Offering) ([]byte, error) {
	paths, schemas := node{}, node{
		"Condition": object(nil, node{
			"type": text("Ready is the one that counts"), "status": node{"type": "string", "enum": []any{"True", "False", "Unknown"}},
			"reason":  text("Installing, Deleted, Error, Rejected, Suspended, or <Component>Updating while a version changes"),
			"message": text("For people; \"Cluster has insufficient resources\" where nothing more fits"),
		}),
	}
	if err := copyOwn(api, paths, schemas); err != nil {
		return nil, err
	}
	for _, off := range offs {
		maps.Copy(paths, agentPaths(off.Spec))
		maps.Copy(schemas, agentSchemas(off))
	}
	return json.Marshal(document("Agent API", "v1", "What agents of data planes call. An agent's token names its cluster; every other cluster does not exist for it.", paths, schemas))
}

// copyOwn takes the operations that are tagged for agents out of the own
// document, with its schemas that they use.
func copyOwn(api *huma.OpenAPI, paths, schemas node) error {
	data, err := json.Marshal(api)
	if err != nil {
		return err
	}
	var own struct {
		Paths      map[string]map[string]any
		Components struct{ Schemas node }
	}
	if err := json.Unmarshal(data, &own); err != nil {
		return err
	}
	for path, verbs := range own.Paths {
		for verb, v := range verbs {
			op, _ := v.(node)
			if tags, _ := op["tags"].([]any); !slices.Contains(tags, any("agents")) {
				continue
			}
			if paths[path] == nil {
				paths[path] = node{}
			}
			paths[path].(node)[verb] = op
			copyUsed(op, own.Components.Schemas, schemas)
		}
	}
	return nil
}

// copyUsed copies the schemas that something refers to.
func copyUsed(at any, from, to node) {
	switch x := at.(type) {
	case node:
		if target, ok := x["$ref"].(string); ok {
			name := path.Base(target)
			if _, done := to[name]; !done {
				to[name] = from[name]
				copyUsed(from[name], from, to)
			}
		}
		for _, v := range x {
			copyUsed(v, from, to)
		}
	case []any:
		for _, v := range x {
			copyUsed(v, from, to)
		}
	}
}

func agentPaths(spec offering.Spec) node {
	n, base := spec.Names, offeringBase(spec)+"/agent-clusters/{id}"
	id := []any{pathParameter("id", "Id of the cluster")}
	taken := map[int]answerDoc{200: {Text: "The report was taken"}}
	op := func(o operationDoc) node { o.Tag = n.Plural; return o.node() }
	return node{
		base: node{"parameters": id, "get": op(operationDoc{ID: "getDataPlaneClusterAgentConfig" + n.Kind, Summary: "How the agent is to behave",
			Answers: map[int]answerDoc{200: {Text: "The configuration", Schema: ref(n.Kind + "DataplaneClusterAgentConfig")}}, Errors: []int{7, 8, 6}})},
		base + "/status": node{"parameters": id, "put": op(operationDoc{ID: "updateAgentClusterStatus" + n.Kind, Summary: "Report the state of the cluster",
			Body: ref(n.Kind + "DataPlaneClusterUpdateStatusRequest"), Answers: taken, Errors: []int{7, 8, 17, 6}})},
		base + "/" + n.Plural: node{"parameters": id, "get": op(operationDoc{ID: "getManaged" + n.Kind + "s", Summary: "The full desired state of the cluster, with its secrets",
			Description: "spec.deleted asks for a removal. Items whose id begins with reserved- keep room warm and belong to nobody.",
			Answers:     map[int]answerDoc{200: {Text: "All " + n.Plural + " of the cluster", Schema: ref(agentKind(spec) + "List")}}, Errors: []int{7, 8, 6}})},
		base + "/" + n.Plural + "/status": node{"parameters": id, "put": op(operationDoc{ID: "update" + n.Kind + "ClusterStatus", Summary: "Report the state of " + n.Plural,
			Description: "An item that makes no sense is logged; the others count.",
			Body:        ref("DataPlane" + n.Kind + "StatusUpdateRequest"), Answers: taken, Errors: []int{7, 8, 17, 6}})},
		offeringBase(spec) + "/obs-proxy-verification/{cluster_external_id}": node{
			"parameters": []any{pathParameter("cluster_external_id", "What others call the cluster")},
			"post": op(operationDoc{ID: "verifyObservatoriumProxyRequestValid" + n.Kind, Summary: "Whether the token is that of the cluster's agent",
				Answers: map[int]answerDoc{200: {Text: "It is"}}, Errors: []int{4}}),
		},
	}
}

func agentSchemas(off *offering.Offering) node {
	spec := off.Spec
	k, kind := spec.Names.Kind, agentKind(spec)
	return node{
		kind: node{"type": "object", "required": []any{"id", "kind", "spec"}, "properties": node{
			"id": text("Id of the instance"), "kind": node{"type": "string", "const": kind},
			"metadata": documentSchema(spec.Desired["metadata"]),
			"spec":     managedSpec(spec),
		}},
		kind + "List": object([]string{"kind", "items"}, node{
			"kind": node{"type": "string", "const": kind + "List"}, "items": node{"type": "array", "items": ref(kind)},
		}),
		k + "DataplaneClusterAgentConfig":         documentSchema(spec.Agent.Config),
		k + "DataPlaneClusterUpdateStatusRequest": clusterStatusSchema(spec),
		"DataPlane" + k + "Status": object(nil, node{
			"conditions": node{"type": "array", "items": ref("Condition")},
			"capacity":   node{"type": "object", "description": "What it has; not used"},
			"versions":   node{"type": "object", "description": "By component", "additionalProperties": node{"type": "string"}},
			"routes": node{"type": "array", "items": object(nil, node{
				"name": text("Of the route"), "prefix": text("In front of the instance's host, with a dash"), "router": text("Where it leads to, in the cluster's domain"),
			})},
			"adminServerURI": text("Of the instance's own API"),
		}),
		"DataPlane" + k + "StatusUpdateRequest": node{"type": "object", "description": "By id of the instance", "additionalProperties": ref("DataPlane" + k + "Status")},
	}
}

// clusterStatusSchema describes a report on a cluster, with the offering's word
// for its operators.
func clusterStatusSchema(spec offering.Spec) node {
	p := node{
		"conditions": node{"type": "array", "items": ref("Condition")},
		"capacity": node{"type": "object", "description": "By instance type", "additionalProperties": object(nil, node{
			"maxUnits": node{"type": "integer", "minimum": 0}, "remainingUnits": node{"type": "integer", "minimum": 0}})},
	}
	if spec.Agent.Operator != "" {
		entry := node{"ready": node{"type": "boolean"}, "version": node{"type": "string", "minLength": 1, "maxLength": maxText}}
		for _, list := range spec.Agent.Reports {
			if list != "version" {
				entry[list] = node{"type": "array", "items": node{"type": "string"}}
			}
		}
		p[spec.Agent.Operator] = node{"type": "array", "maxItems": 100, "items": object([]string{"ready", "version"}, entry)}
	}
	return object(nil, p)
}

// managedSpec describes the spec of an item, which always says whether it is to go.
func managedSpec(spec offering.Spec) node {
	out := documentSchema(spec.Desired["spec"])
	p, ok := out["properties"].(node)
	if !ok {
		p = node{}
	}
	p["deleted"] = typed("boolean", "It is to be removed")
	return object([]string{"deleted"}, p)
}

// documentSchema describes a document of the offering's file by its members:
// what expressions make of the rest is not known here.
func documentSchema(v any) node {
	m, ok := v.(map[string]any)
	if !ok {
		return node{"type": "object"}
	}
	p := node{}
	for name, member := range m {
		if inner, ok := member.(map[string]any); ok {
			p[name] = documentSchema(inner)
		} else {
			p[name] = node{}
		}
	}
	return object(nil, p)
}
