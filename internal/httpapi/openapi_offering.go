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
	return json.Marshal(offeringDocument(off))
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

func offeringDocument(off *offering.Offering) node {
	spec := off.Spec
	base, kind := offeringBase(spec), requestKind(spec)
	paths, schemas := offeringPaths(spec, base, kind), offeringSchemas(off, kind)
	maps.Copy(paths, metricsPaths(spec, base))
	maps.Copy(schemas, metricsSchemas())
	servedPaths(paths, spec, base)
	servedSchemas(schemas, spec)
	return document(spec.Names.Kind+" API", spec.API.Version, spec.Description, paths, schemas)
}

// asyncParameter of everything whose work is done after the answer.
var asyncParameter = node{"name": "async", "in": "query", "required": true, "schema": node{"type": "boolean", "const": true},
	"description": "The work is done after the answer; there is no other way"}

var pagingParameters = []node{
	queryParameter("page", "Number of the page", node{"type": "integer", "minimum": 0, "maximum": maxPage, "default": 1}),
	queryParameter("size", "Items of a page", node{"type": "integer", "minimum": 1, "maximum": maxSize, "default": defaultSize}),
}

func getOperation(o operationDoc) node { return node{"get": o.node()} }

func answers(status int, what, schema string) map[int]answerDoc {
	return map[int]answerDoc{status: {Text: what, Schema: ref(schema)}}
}

func offeringPaths(spec offering.Spec, base, kind string) node {
	n := spec.Names
	id := pathParameter("id", "Id of the "+n.Singular)
	listing := append(slices.Clone(pagingParameters),
		queryParameter("orderBy", "Comma-separated columns, each with asc or desc: "+words(spec.API.Order), node{"type": "string", "default": "name"}),
		queryParameter("search", "Condition with =, <>, LIKE, ILIKE, IN, NOT IN, AND, OR and parentheses over: "+words(spec.API.Search), node{"type": "string"}))
	orders := []int{103, 17, 8, 21, 30, 31, 32, 33, 34, 37, 41, 42, 36, 4, 5, 11, 12, 18, 24, 120, 121}
	for _, c := range catalogueOf(spec) {
		if c.id == 35 || c.id == 43 || c.id == 45 {
			orders = append(orders, c.id)
		}
	}
	return node{
		base: getOperation(operationDoc{ID: "getVersionMetadata", Tag: "service", Summary: "What this version of the API offers", Open: true,
			Answers: answers(200, "The version", "VersionMetadata")}),
		base + "/openapi": getOperation(operationDoc{ID: "getOpenAPI", Tag: "service", Summary: "This document", Open: true,
			Answers: map[int]answerDoc{200: {Text: "An OpenAPI document", Schema: node{"type": "object"}}}}),
		base + "/errors": getOperation(operationDoc{ID: "getErrors", Tag: "service", Summary: "All errors that the API knows", Open: true,
			Parameters: pagingParameters, Answers: answers(200, "The catalogue", "ErrorList"), Errors: []int{17}}),
		base + "/errors/{id}": getOperation(operationDoc{ID: "getErrorById", Tag: "service", Summary: "One error", Open: true,
			Parameters: []node{pathParameter("id", "Number of the error")}, Answers: answers(200, "The error", "Error"), Errors: []int{7}}),
		base + "/cloud_providers": getOperation(operationDoc{ID: "getCloudProviders", Tag: "service", Summary: "Cloud providers",
			Parameters: pagingParameters, Answers: answers(200, "A page of providers", "CloudProviderList"), Errors: []int{11, 17}}),
		base + "/cloud_providers/{id}/regions": getOperation(operationDoc{ID: "getCloudProviderRegions", Tag: "service", Summary: "Regions of a provider",
			Parameters: append([]node{pathParameter("id", "Name of the provider"),
				queryParameter("instance_type", "Only regions that offer this type", node{"type": "string"})}, pagingParameters...),
			Answers: answers(200, "A page of regions", "CloudRegionList"), Errors: []int{7, 11, 17}}),
		base + "/" + n.Plural: node{
			"get": operationDoc{ID: "get" + n.Kind + "s", Tag: n.Plural, Summary: "List " + n.Plural, Parameters: listing,
				Description: "What the caller's organisation has; without an organisation, what the caller owns.",
				Answers:     answers(200, "A page of "+n.Plural, kind+"List"), Errors: []int{17, 23, 4, 11, 18}}.node(),
			"post": operationDoc{ID: "create" + n.Kind, Tag: n.Plural, Summary: "Order a " + n.Singular, Parameters: []node{asyncParameter}, Body: ref(kind + "Payload"),
				Description: "Answers when the order is written down. Its status then goes accepted, preparing, provisioning, ready.",
				Answers:     answers(202, "Accepted", kind), Errors: orders}.node(),
		},
		base + "/" + n.Plural + "/{id}": node{
			"parameters": []any{id},
			"get": operationDoc{ID: "get" + n.Kind + "ById", Tag: n.Plural, Summary: "One " + n.Singular,
				Answers: answers(200, "The "+n.Singular, kind), Errors: []int{7, 4, 11, 18}}.node(),
			"patch": operationDoc{ID: "update" + n.Kind + "ById", Tag: n.Plural, Summary: "Change the " + n.Singular, Body: ref(n.Kind + "UpdateRequest"),
				Description: "Only its owner and admins of its organisation may. A field that is null or missing stays as it is.",
				Answers:     answers(200, "The "+n.Singular+" as it is now", kind), Errors: []int{7, 8, 17, 21, 37, 4, 11, 18, 6}}.node(),
			"delete": operationDoc{ID: "delete" + n.Kind + "ById", Tag: n.Plural, Summary: "Delete the " + n.Singular, Parameters: []node{asyncParameter},
				Description: "Answers when the wish is written down. Its status then goes deprovision, deleting; after that it is not found.",
				Answers:     map[int]answerDoc{202: {Text: "Accepted"}}, Errors: []int{103, 7, 4, 11, 18, 6}}.node(),
		},
	}
}

// metricsPaths describes the metrics of an instance.
func metricsPaths(spec offering.Spec, base string) node {
	n := spec.Names
	root := base + "/" + n.Plural + "/{id}/metrics/"
	id := []any{pathParameter("id", "Id of the "+n.Singular)}
	filters := queryParameter("filters", "Names of metrics; default: all that there are", node{"type": "array", "maxItems": maxFilters, "items": node{"type": "string"}})
	needed := func(name, description string, most int) node {
		p := queryParameter(name, description, node{"type": "integer", "minimum": 1, "maximum": most})
		p["required"] = true
		return p
	}
	op := func(o operationDoc) node {
		o.Tag, o.Errors = "metrics", []int{7, 21, 37, 4, 11, 18}
		return node{"parameters": id, "get": o.node()}
	}
	return node{
		root + "query": op(operationDoc{ID: "getMetricsByInstantQuery", Summary: "Metrics of the " + n.Singular + " now", Parameters: []node{filters},
			Answers: answers(200, "The metrics", "MetricsInstantQueryList")}),
		root + "query_range": op(operationDoc{ID: "getMetricsByRangeQuery", Summary: "Metrics of the " + n.Singular + " over time",
			Parameters: []node{needed("duration", "Minutes to look back", maxDuration), needed("interval", "Seconds between two values", maxDuration*60), filters},
			Answers:    answers(200, "The metrics", "MetricsRangeQueryList")}),
		root + "federate": op(operationDoc{ID: "federateMetrics", Summary: "Metrics of the " + n.Singular + " for a Prometheus server",
			Answers: map[int]answerDoc{200: {Text: "Metrics in Prometheus text format", Schema: node{"type": "string"}, Media: "text/plain"}}}),
	}
}

// servedPaths describes the collections that only some offerings have.
func servedPaths(paths node, spec offering.Spec, base string) {
	n := spec.Names
	user := []int{4, 11, 18}
	with := func(codes ...int) []int { return append(slices.Clone(user), codes...) }
	if serves(spec, "status") {
		paths[base+"/status"] = getOperation(operationDoc{ID: "getServiceStatus", Tag: "service", Summary: "Whether there is room for another " + n.Singular,
			Answers: answers(200, "The service's status", "ServiceStatus"), Errors: []int{11}})
	}
	if serves(spec, "instance_types") {
		paths[base+"/instance_types/{cloud_provider}/{cloud_region}"] = getOperation(operationDoc{ID: "getInstanceTypesByCloudProviderAndRegion", Tag: "service",
			Summary:    "Instance types and sizes that a region sells",
			Parameters: []node{pathParameter("cloud_provider", "Name of the provider"), pathParameter("cloud_region", "Name of the region")},
			Answers:    answers(200, "The instance types", "Supported"+n.Kind+"InstanceTypesList"), Errors: with(7, 30, 31)})
	}
	if serves(spec, "sso_providers") {
		paths[base+"/sso_providers"] = getOperation(operationDoc{ID: "getSsoProviders", Tag: "service", Summary: "Where tokens come from", Open: true,
			Answers: answers(200, "The identity provider", "SsoProvider"), Errors: []int{7}})
	}
	if serves(spec, "promote") {
		paths[base+"/"+n.Plural+"/{id}/promote"] = node{"parameters": []any{pathParameter("id", "Id of the "+n.Singular)},
			"post": operationDoc{ID: "promote" + n.Kind, Tag: n.Plural, Summary: "Pay for the " + n.Singular + " another way",
				Description: "It keeps running. Its promotion_status is promoting until the new way is in force.",
				Parameters:  []node{asyncParameter}, Body: ref(n.Kind + "PromoteRequest"),
				Answers: map[int]answerDoc{202: {Text: "Accepted"}}, Errors: with(103, 7, 8, 17, 21, 37, 43, 6, 5, 120, 121)}.node()}
	}
	if serves(spec, "service_accounts") {
		accountPaths(paths, base+"/service_accounts", with)
	}
	if serves(spec, "clusters") {
		ownClusterPaths(paths, base+"/clusters", with)
	}
}

func accountPaths(paths node, root string, with func(...int) []int) {
	op := func(o operationDoc) node { o.Tag = "service accounts"; return o.node() }
	id := []any{pathParameter("id", "Id of the service account")}
	paths[root] = node{
		"get": op(operationDoc{ID: "getServiceAccounts", Summary: "Service accounts of the organisation",
			Parameters: []node{queryParameter("client_id", "Only the one with this client id", node{"type": "string"})},
			Answers:    answers(200, "The service accounts", "ServiceAccountList"), Errors: with(40, 111)}),
		"post": op(operationDoc{ID: "createServiceAccount", Summary: "Make a service account", Body: ref("ServiceAccountRequest"),
			Description: "The secret is shown this once.",
			Answers:     answers(202, "The service account with its secret", "ServiceAccount"), Errors: with(8, 17, 37, 38, 39, 115, 110)}),
	}
	paths[root+"/{id}"] = node{"parameters": id,
		"get": op(operationDoc{ID: "getServiceAccountById", Summary: "One service account",
			Answers: answers(200, "The service account", "ServiceAccount"), Errors: with(40, 113, 111)}),
		"delete": op(operationDoc{ID: "deleteServiceAccountById", Summary: "Delete a service account",
			Answers: map[int]answerDoc{204: {Text: "It is gone"}}, Errors: with(40, 113, 112)}),
	}
	paths[root+"/{id}/reset_credentials"] = node{"parameters": id,
		"post": op(operationDoc{ID: "resetServiceAccountCreds", Summary: "Give a service account a new secret", Description: "The secret is shown this once; the old one is void.",
			Answers: answers(200, "The service account with its secret", "ServiceAccount"), Errors: with(40, 113, 111, 110)})}
}

func ownClusterPaths(paths node, root string, with func(...int) []int) {
	op := func(o operationDoc) node { o.Tag = "clusters"; return o.node() }
	id := []any{pathParameter("id", "Id of the cluster")}
	paths[root] = node{
		"get": op(operationDoc{ID: "getEnterpriseOsdClusters", Summary: "Clusters of the organisation's own",
			Answers: answers(200, "The clusters", "EnterpriseClusterList"), Errors: with(121)}),
		"post": op(operationDoc{ID: "registerEnterpriseOsdCluster", Summary: "Bring a cluster of one's own", Body: ref("EnterpriseOsdClusterPayload"),
			Description: "For admins of organisations that have quota for it.",
			Answers:     answers(200, "The cluster, and what its agent is to be installed with", "EnterpriseClusterRegistrationResponse"), Errors: with(8, 17, 37, 44, 45, 46, 47, 121)}),
	}
	paths[root+"/{id}"] = node{"parameters": id,
		"get": op(operationDoc{ID: "getEnterpriseClusterById", Summary: "One cluster", Answers: answers(200, "The cluster", "EnterpriseCluster"), Errors: with(7, 121)}),
		"delete": op(operationDoc{ID: "deleteEnterpriseClusterById", Summary: "Take a cluster away", Parameters: []node{asyncParameter},
			Description: "Only while nothing runs there.",
			Answers:     map[int]answerDoc{202: {Text: "Accepted"}}, Errors: with(103, 7, 6, 121)}),
	}
	paths[root+"/{id}/addon_parameters"] = node{"parameters": id,
		"get": op(operationDoc{ID: "getEnterpriseClusterAddonParameters", Summary: "What the cluster's agent is to be installed with",
			Answers: answers(200, "The parameters", "EnterpriseClusterAddonParameters"), Errors: with(7, 121)})}
}

func words(columns map[string]string) string {
	return strings.Join(slices.Sorted(maps.Keys(columns)), ", ")
}
