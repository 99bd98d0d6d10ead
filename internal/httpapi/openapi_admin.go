package httpapi

import (
	"context"
	"encoding/json"
	"maps"
	"net/http"
	"slices"
	"strings"

	"github.com/droverhq/drover/internal/offering"
)

const adminDescription = `What an offering's operators call. Each method needs one of the roles that the offering's file names for it, in realm_access.roles of a token whose issuer may name operators. Whoever has none of them is answered 404 with code 7, as if there were nothing; every call is on record (GET /api/v1/audits).`

// adminDocument describes the operators' APIs of all offerings.
func adminDocument(offs []*offering.Offering) ([]byte, error) {
	paths, schemas := node{}, node{}
	for _, off := range offs {
		maps.Copy(paths, adminPaths(off))
		maps.Copy(schemas, adminSchemas(off))
	}
	return json.Marshal(document("Operators' API", "v1", adminDescription, paths, schemas))
}

// adminSchema is the name of a schema: kinds of the public API may be the same.
func adminSchema(off *offering.Offering, name string) string {
	return "Admin" + off.Spec.Names.Kind + name
}

func adminPaths(off *offering.Offering) node {
	spec := off.Spec
	n, base := spec.Names, offeringBase(spec)+"/admin/"+spec.Names.Plural
	id := []any{pathParameter("id", "Id of the "+n.Singular)}
	shown := adminSchema(off, "")
	op := func(method string, o operationDoc) node {
		o.Tag, o.Errors = n.Plural, append(o.Errors, 7)
		if roles := off.AdminRoles(method); len(roles) > 0 {
			o.Description = strings.TrimSpace(o.Description + " One of the roles " + strings.Join(roles, ", ") + " is needed.")
		}
		return o.node()
	}
	listing := append(slices.Clone(pagingParameters),
		queryParameter("orderBy", "Comma-separated columns, each with asc or desc: "+words(spec.API.Order), node{"type": "string", "default": "name"}),
		queryParameter("search", "Condition with =, <>, LIKE, ILIKE, IN, NOT IN, AND, OR and parentheses over: "+words(spec.API.Search), node{"type": "string"}))
	return node{
		base: node{"get": op(http.MethodGet, operationDoc{ID: "getAdmin" + n.Kind + "s", Summary: "The " + n.Plural + " of all organisations", Parameters: listing,
			Answers: answers(200, "A page of "+n.Plural, adminSchema(off, "List")), Errors: []int{17, 23}})},
		base + "/{id}": node{
			"parameters": id,
			"get": op(http.MethodGet, operationDoc{ID: "getAdmin" + n.Kind + "ById", Summary: "One " + n.Singular + ", whosever it is",
				Answers: answers(200, "The "+n.Singular, shown)}),
			"patch": op(http.MethodPatch, operationDoc{ID: "updateAdmin" + n.Kind + "ById", Summary: "Change versions and what else the offering lets operators change",
				Body: ref(adminSchema(off, "UpdateRequest")), Description: "A field that is null or missing stays as it is.",
				Answers: answers(200, "The "+n.Singular+" as it is now", shown), Errors: []int{8, 17, 37, 6}}),
			"delete": op(http.MethodDelete, operationDoc{ID: "deleteAdmin" + n.Kind + "ById", Summary: "Delete the " + n.Singular, Parameters: []node{asyncParameter},
				Answers: answers(202, "Accepted; the "+n.Singular+" as it is now", shown), Errors: []int{103, 6}}),
		},
		base + "/{id}/revoke_tls_certificate": node{
			"parameters": id,
			"post": op(http.MethodPost, operationDoc{ID: "revokeAdmin" + n.Kind + "TLSCertificate", Summary: "Revoke the certificate of the " + n.Singular + "'s hosts",
				Body: ref(adminSchema(off, "CertificateRevocationRequest")), Answers: map[int]answerDoc{204: {Text: "Revoked"}}, Errors: []int{8, 17, 37}}),
		},
	}
}

func adminSchemas(off *offering.Offering) node {
	kind := newAdminView(off).kind
	shown := adminSchema(off, "")
	return node{
		shown:                             adminInstance(off, kind),
		adminSchema(off, "List"):          listSchema(kind+"List", ref(shown)),
		adminSchema(off, "UpdateRequest"): adminChanges(off.Spec),
		adminSchema(off, "CertificateRevocationRequest"): node{"type": "object", "additionalProperties": false, "properties": node{
			"revocation_reason": node{"type": []any{"integer", "null"}, "description": "Of RFC 5280", "enum": []any{0, 1, 2, 3, 4, 5, 6, 8, 9, 10, nil}, "default": 0},
		}},
	}
}

// adminInstance describes what operators see of an instance.
func adminInstance(off *offering.Offering, kind string) node {
	out := instanceSchema(off, kind)
	if off.Spec.Admin.Present == nil {
		return out
	}
	public, p := out["properties"].(node), node{}
	for _, name := range []string{"id", "kind", "href", "name", "owner", "status", "cloud_provider", "region", "multi_az", "created_at", "updated_at"} {
		p[name] = public[name]
	}
	required := []string{"id", "kind", "href", "multi_az"}
	for name, v := range off.Spec.Admin.Present {
		p[name] = presented(v)
	}
	shapes := sampled(off, func(ctx context.Context, f offering.Facts) (json.RawMessage, error) {
		return off.PresentAdmin(ctx, f, offering.Surroundings{})
	})
	for name, v := range shapes {
		p[name] = v
		if v.(node)["type"] == "boolean" { // which is never empty, so never left out
			required = append(required, name)
		}
	}
	slices.Sort(required[4:])
	return object(required, p)
}

// adminChanges describes what operators may change.
func adminChanges(spec offering.Spec) node {
	p := node{}
	all, _ := spec.Parameters["properties"].(map[string]any)
	for name, field := range spec.Admin.Changes {
		switch {
		case field.Parameter != "":
			schema := node{}
			if own, ok := all[field.Parameter].(map[string]any); ok && own["$ref"] == nil {
				schema = maps.Clone(own)
			}
			delete(schema, "default") // what is not said stays
			delete(schema, "readOnly")
			p[name] = orNull(schema)
		case field.Suspended:
			p[name] = orNull(typed("boolean", "Whether it is to rest"))
		default:
			p[name] = orNull(text("The wanted version"))
		}
	}
	return node{"type": "object", "additionalProperties": false, "properties": p}
}
