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
			"reason":  text("Installing, Deleted, Error, Rejected or Suspended"),
			"message": text("For people"),
		}),
		"DataPlaneClusterUpdateStatusRequest": object(nil, node{
			"conditions": node{"type": "array", "items": ref("Condition")},
			"capacity":   node{"type": "object", "additionalProperties": object(nil, node{"maxUnits": node{"type": "integer"}, "remainingUnits": node{"type": "integer"}})},
		}),
		"DataplaneClusterAgentConfig": object(nil, node{"spec": object(nil, node{"observability": node{"type": "object"}})}),
	}
	if err := copyOwn(api, paths, schemas); err != nil {
		return nil, err
	}
	for _, off := range offs {
		maps.Copy(paths, agentPaths(off.Spec))
		maps.Copy(schemas, agentSchemas(off.Spec))
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
			Answers: map[int]answerDoc{200: {Text: "The configuration", Schema: ref("DataplaneClusterAgentConfig")}}, Errors: []int{7, 8}})},
		base + "/status": node{"parameters": id, "put": op(operationDoc{ID: "updateAgentClusterStatus" + n.Kind, Summary: "Report the state of the cluster",
			Body: ref("DataPlaneClusterUpdateStatusRequest"), Answers: taken, Errors: []int{7, 8, 17, 6}})},
		base + "/" + n.Plural: node{"parameters": id, "get": op(operationDoc{ID: "getManaged" + n.Kind + "s", Summary: "The full desired state of the cluster",
			Description: "An instance that is not listed is left alone; spec.deleted asks for its removal.",
			Answers:     map[int]answerDoc{200: {Text: "All " + n.Plural + " of the cluster", Schema: ref("Managed" + n.Kind + "List")}}, Errors: []int{7, 8}})},
		base + "/" + n.Plural + "/status": node{"parameters": id, "put": op(operationDoc{ID: "update" + n.Kind + "ClusterStatus", Summary: "Report the state of " + n.Plural,
			Body: ref("DataPlane" + n.Kind + "StatusUpdateRequest"), Answers: taken, Errors: []int{7, 8, 17}})},
	}
}

func agentSchemas(spec offering.Spec) node {
	k := spec.Names.Kind
	return node{
		"Managed" + k: node{"type": "object", "required": []any{"id", "kind"}, "properties": node{
			"id": text("Id of the instance"), "kind": node{"type": "string", "const": "Managed" + k},
			"metadata": node{"type": "object"},
			"spec":     object([]string{"deleted"}, node{"deleted": typed("boolean", "It is to be removed")}),
		}},
		"Managed" + k + "List": object([]string{"kind", "items"}, node{
			"kind": node{"type": "string", "const": "Managed" + k + "List"}, "items": node{"type": "array", "items": ref("Managed" + k)},
		}),
		"DataPlane" + k + "Status": object(nil, node{
			"conditions": node{"type": "array", "items": ref("Condition")},
			"versions":   node{"type": "object", "additionalProperties": node{"type": "string"}},
			"routes":     node{"type": "array", "items": object(nil, node{"name": text(""), "prefix": text(""), "router": text("")})},
		}),
		"DataPlane" + k + "StatusUpdateRequest": node{"type": "object", "description": "By id of the instance", "additionalProperties": ref("DataPlane" + k + "Status")},
	}
}
