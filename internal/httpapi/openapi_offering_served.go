package httpapi

import (
	"encoding/json"
	"maps"

	"github.com/droverhq/drover/internal/offering"
)

// metricsSchemas describes what the metrics' paths answer.
func metricsSchemas() node {
	at := node{"type": "integer", "format": "int64", "description": "Milliseconds since 1970"}
	value := node{"type": "number", "format": "double", "description": "Its value then"}
	values := object([]string{"value"}, node{"timestamp": at, "value": value})
	labels := node{"type": "object", "additionalProperties": node{"type": "string"}}
	envelope := func(kind string, item node) node {
		return object(nil, node{"kind": node{"type": "string", "const": kind}, "id": text("Id of the instance"), "items": list(item)})
	}
	return node{
		"Values":                  values,
		"InstantQuery":            object([]string{"value"}, node{"metric": labels, "timestamp": at, "value": value}),
		"RangeQuery":              object(nil, node{"metric": labels, "values": list(ref("Values"))}),
		"MetricsInstantQueryList": envelope("MetricsInstantQueryList", ref("InstantQuery")),
		"MetricsRangeQueryList":   envelope("MetricsRangeQueryList", ref("RangeQuery")),
	}
}

// servedSchemas describes the collections that only some offerings have.
func servedSchemas(schemas node, spec offering.Spec) {
	n := spec.Names
	if serves(spec, "status") {
		schemas["ServiceStatus"] = object(nil, node{n.Plural: object([]string{"max_capacity_reached"}, node{"max_capacity_reached": typed("boolean", "No more can be hosted at the moment")})})
	}
	if serves(spec, "sso_providers") {
		schemas["SsoProvider"] = referring("SsoProvider", node{"name": text("Its name"), "base_url": text("Where it is"), "token_url": text("Where tokens are made"),
			"jwks": text("Where its keys are"), "valid_issuer": text("The issuer that its tokens name")})
	}
	if serves(spec, "promote") {
		body := object([]string{promoteModel(spec)}, node{promoteModel(spec): text("The wanted billing model"),
			"desired_marketplace": orNull(text("Where the billing account is")), "desired_billing_cloud_account_id": orNull(text("Account at the marketplace"))})
		body["additionalProperties"] = false
		for _, b := range spec.Billing[:min(1, len(spec.Billing))] {
			body["examples"] = []any{node{promoteModel(spec): b.Name}}
		}
		schemas[n.Kind+"PromoteRequest"] = body
	}
	if serves(spec, "instance_types") || serves(spec, "clusters") {
		typeSchemas(schemas, spec)
	}
	if serves(spec, "service_accounts") {
		accountSchemas(schemas)
	}
	if serves(spec, "clusters") {
		ownClusterSchemas(schemas, n)
	}
}

func typeSchemas(schemas node, spec offering.Spec) {
	prefix := "Supported" + spec.Names.Kind
	number := func(what string) node {
		return node{"type": "integer", "format": "int64", "description": what}
	}
	size := node{
		"id": text("Its name"), "display_name": text("For people"), "quota_consumed": number("Units of a quota"),
		"capacity_consumed": number("Units of a cluster"), "quota_type": text("Product at the source of quotas"),
		"maturity_status": text("stable or preview"), "lifespan_seconds": number("After which it is deleted"),
		"supported_az_modes": list(node{"type": "string", "enum": []any{"single", "multi"}}),
	}
	for _, t := range spec.Types {
		for _, s := range t.Sizes {
			for name, v := range s.Present {
				size[name] = literal(v)
			}
		}
	}
	texts := list(node{"type": "string"})
	maps.Copy(schemas, node{
		prefix + "InstanceTypesList": object(nil, node{"instance_types": list(ref(prefix + "InstanceType"))}),
		prefix + "InstanceType": object([]string{"supported_billing_models", "sizes"}, node{"id": text("Its name"), "display_name": text("For people"),
			"supported_billing_models": list(ref(prefix + "BillingModel")), "sizes": list(ref(prefix + "Size"))}),
		prefix + "BillingModel": object([]string{"id", "ams_resource", "ams_product", "ams_billing_models"}, node{"id": text("Its name"),
			"ams_resource": text("Resource at the source of quotas"), "ams_product": text("Product there"), "ams_billing_models": texts}),
		prefix + "Size": object(nil, size),
	})
}

// literal is the schema of a value as the offering's file has it.
func literal(v any) node {
	data, err := json.Marshal(v)
	var out any
	if err != nil || decodeNumbers(data, &out) != nil {
		return node{}
	}
	return shapeOf(out)
}

func accountSchemas(schemas node) {
	fields := func() node {
		return node{"name": text("As it was named"), "description": text("What it is for"), "client_id": text("What it logs in as"),
			"owner": text("Who made it"), "created_by": text("Who made it"), "created_at": node{"type": "string", "format": "date-time"}}
	}
	whole := fields()
	whole["client_secret"] = text("Shown once: when it is made")
	body := object([]string{"name"}, node{"name": text("Lower-case letters, digits and dashes"), "description": orNull(text("What it is for"))})
	body["additionalProperties"] = false
	body["examples"] = []any{node{"name": "my-robot", "description": "builds"}}
	maps.Copy(schemas, node{
		"ServiceAccount":         referring("ServiceAccount", whole),
		"ServiceAccountListItem": referring("ServiceAccount", fields()),
		"ServiceAccountList":     object([]string{"kind", "items"}, node{"kind": node{"type": "string", "const": "ServiceAccountList"}, "items": list(ref("ServiceAccountListItem"))}),
		"ServiceAccountRequest":  body,
	})
}

func ownClusterSchemas(schemas node, n offering.Names) {
	whole := typed("integer", "Units")
	capacity := []string{nodesField(n), unitsField("maximum", n), unitsField("remaining", n), unitsField("consumed", n)}
	p := node{}
	for _, name := range capacity {
		p[name] = whole
	}
	fields := node{privateField(n): typed("boolean", "Reached from a private network only"), "cluster_id": text("Its id"), "status": text("Its phase"),
		"cloud_provider": text("Where it is"), "region": text("Where it is"), "multi_az": typed("boolean", "Spread over availability zones"),
		"supported_instance_types": ref("Supported" + n.Kind + "InstanceTypesList"), "capacity_information": object(capacity, p)}
	parameters := node{"fleetshard_parameters": list(ref("FleetshardParameter"))}
	one := func(more node) node {
		all := maps.Clone(fields)
		maps.Copy(all, more)
		out := referring("Cluster", all)
		out["required"] = append(out["required"].([]any), privateField(n), "multi_az")
		return out
	}
	body := object([]string{privateField(n), "cluster_id", "cluster_ingress_dns_name", nodesField(n)}, node{
		privateField(n): typed("boolean", "Reached from a private network only"), "cluster_id": text("32 lower-case letters and digits, or a UUID"),
		"cluster_ingress_dns_name": text("Base domain of its routes"),
		nodesField(n):              node{"type": "integer", "format": "int32", "minimum": 1, "maximum": 1_000_000, "description": "Nodes that carry instances"}})
	body["additionalProperties"] = false
	body["examples"] = []any{node{privateField(n): false, "cluster_id": "1234abcd1234abcd1234abcd1234abcd", "cluster_ingress_dns_name": "apps.example.com", nodesField(n): 3}}
	maps.Copy(schemas, node{
		"EnterpriseCluster":                     one(nil),
		"EnterpriseClusterList":                 listSchema("ClusterList", ref("EnterpriseCluster")),
		"EnterpriseClusterRegistrationResponse": one(parameters),
		"EnterpriseClusterAddonParameters":      referring("ClusterAddonParameters", parameters),
		"FleetshardParameter":                   object(nil, node{"id": text("Its name"), "value": text("Its value")}),
		"EnterpriseOsdClusterPayload":           body,
	})
}
