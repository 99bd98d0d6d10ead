package httpapi

import (
	"context"
	"net/http"
	"slices"
	"strconv"
	"time"

	"github.com/danielgtaylor/huma/v2"

	v1 "github.com/droverhq/drover/api/v1"
	"github.com/droverhq/drover/internal/access"
	"github.com/droverhq/drover/internal/account"
	"github.com/droverhq/drover/internal/breaker"
	"github.com/droverhq/drover/internal/cluster"
	"github.com/droverhq/drover/internal/command"
	"github.com/droverhq/drover/internal/environment"
	"github.com/droverhq/drover/internal/fault"
	"github.com/droverhq/drover/internal/gitops"
	"github.com/droverhq/drover/internal/instance"
	"github.com/droverhq/drover/internal/ledger"
	"github.com/droverhq/drover/internal/offering"
	"github.com/droverhq/drover/internal/operation"
	"github.com/droverhq/drover/internal/policy"
	"github.com/droverhq/drover/internal/subscription"
	"github.com/droverhq/drover/internal/template"
)

// resource is a name that verbs apply to.
type resource struct {
	v1.Resource
	kind ledger.Kind
}

var (
	readVerbs  = []string{"get", "list", "history", "watch"}
	applyVerbs = []string{"apply", "delete", "get", "history", "list", "watch"}
	orderVerbs = []string{"create", "delete", "get", "history", "list", "update", "watch"}
	keepVerbs  = []string{"delete", "get", "history", "list", "put", "watch"}
	// Of whoever logs in: a reset is a new password or secret.
	personVerbs = []string{"create", "delete", "get", "history", "list", "reset", "watch"}
)

// fixed are the resources that are there without any offering.
var fixed = []resource{
	{v1.Resource{Name: "instances", Singular: "instance", Kind: "instance", Verbs: readVerbs}, instance.Kind},
	{v1.Resource{Name: "offerings", Singular: "offering", Kind: "offering", Verbs: applyVerbs}, offering.Kind},
	{v1.Resource{Name: "clusters", Singular: "cluster", Kind: "cluster", Verbs: []string{"abandon", "create", "delete", "drain", "get", "history", "list", "undrain", "update", "watch"}}, cluster.Kind},
	{v1.Resource{Name: "profiles", Singular: "profile", Kind: cluster.KindProfile.Name, Verbs: applyVerbs}, cluster.KindProfile},
	{v1.Resource{Name: "templates", Singular: "template", Kind: template.Kind.Name, Verbs: append([]string{"add", "delete"}, readVerbs...)}, template.Kind},
	{v1.Resource{Name: "templateversions", Singular: "templateversion", Kind: template.KindVersion.Name, Verbs: readVerbs}, template.KindVersion},
	{v1.Resource{Name: "environments", Singular: "environment", Kind: environment.Kind.Name,
		Verbs: []string{"apply", "create", "destroy", "get", "history", "list", "observe", "plan", "retry", "update", "watch"}}, environment.Kind},
	{v1.Resource{Name: "resources", Singular: "resource", Kind: environment.KindResource.Name, Verbs: readVerbs}, environment.KindResource},
	{v1.Resource{Name: "plans", Singular: "plan", Kind: environment.KindPlan.Name, Verbs: readVerbs}, environment.KindPlan},
	{v1.Resource{Name: "drifts", Singular: "drift", Kind: environment.KindDrift.Name, Verbs: readVerbs}, environment.KindDrift},
	{v1.Resource{Name: "deployments", Singular: "deployment", Kind: gitops.KindDeployment.Name,
		Verbs: []string{"create", "delete", "get", "history", "list", "refresh", "rollback", "sync", "update", "watch"}}, gitops.KindDeployment},
	{v1.Resource{Name: "syncruns", Singular: "syncrun", Kind: gitops.KindSyncRun.Name, Verbs: append([]string{"terminate"}, readVerbs...)}, gitops.KindSyncRun},
	{v1.Resource{Name: "repositories", Singular: "repository", Kind: gitops.KindRepository.Name, Verbs: keepVerbs}, gitops.KindRepository},
	{v1.Resource{Name: "targets", Singular: "target", Kind: gitops.KindTarget.Name, Verbs: keepVerbs}, gitops.KindTarget},
	{v1.Resource{Name: "workspaces", Singular: "workspace", Kind: gitops.KindWorkspace.Name, Verbs: keepVerbs}, gitops.KindWorkspace},
	{v1.Resource{Name: "subscriptions", Singular: "subscription", Kind: subscription.Kind.Name, Verbs: orderVerbs}, subscription.Kind},
	{v1.Resource{Name: "commands", Singular: "command", Kind: command.Kind.Name, Verbs: readVerbs}, command.Kind},
	{v1.Resource{Name: "operations", Singular: "operation", Kind: "operation", Verbs: readVerbs}, operation.Kind},
	{v1.Resource{Name: "audits", Singular: "audit", Kind: "audit", Verbs: readVerbs}, operation.AuditKind},
	{v1.Resource{Name: "quotas", Singular: "quota", Kind: "quota", Verbs: applyVerbs}, policy.KindQuota},
	{v1.Resource{Name: "denylists", Singular: "denylist", Kind: "denylist", Verbs: applyVerbs}, policy.KindDenyList},
	{v1.Resource{Name: "accesslists", Singular: "accesslist", Kind: "accesslist", Verbs: applyVerbs}, policy.KindAccessList},
	{v1.Resource{Name: "terms", Singular: "terms", Kind: "terms", Verbs: append([]string{"accept"}, applyVerbs...)}, policy.KindTerms},
	{v1.Resource{Name: "acceptances", Singular: "acceptance", Kind: "acceptance", Verbs: readVerbs}, policy.KindAcceptance},
	{v1.Resource{Name: "approvals", Singular: "approval", Kind: "approval", Verbs: append([]string{"approve", "refuse"}, readVerbs...)}, breaker.KindApproval},
	{v1.Resource{Name: "users", Singular: "user", Kind: "user", Verbs: personVerbs}, access.KindUser},
	{v1.Resource{Name: "serviceaccounts", Singular: "serviceaccount", Kind: "serviceaccount", Verbs: personVerbs}, account.Kind},
}

// forAll are the kinds that every user may look at.
func forAll(kind string) bool {
	return kind == offering.Kind.Name || kind == policy.KindTerms.Name || kind == template.Kind.Name || kind == template.KindVersion.Name
}

func ofTemplates(kind string) bool {
	return kind == template.Kind.Name || kind == template.KindVersion.Name
}

// ofEnvironments are the kinds that are there where environments are.
var ofEnvironments = []string{template.Kind.Name, template.KindVersion.Name, environment.Kind.Name, environment.KindResource.Name, environment.KindPlan.Name, environment.KindDrift.Name}

// ofDeployments are the kinds that are there where deployments are.
var ofDeployments = []string{gitops.KindDeployment.Name, gitops.KindSyncRun.Name, gitops.KindRepository.Name, gitops.KindTarget.Name, gitops.KindWorkspace.Name}

// resources lists what there is: the kinds, and every offering's instances.
func (s *server) resources() []resource {
	out := slices.DeleteFunc(slices.Clone(fixed), func(r resource) bool {
		return r.Kind == access.KindUser.Name && s.Users == nil || r.Kind == account.Kind.Name && s.Accounts == nil ||
			r.Kind == breaker.KindApproval.Name && s.Approvals == nil || s.Environments == nil && slices.Contains(ofEnvironments, r.Kind) ||
			s.Deployments == nil && slices.Contains(ofDeployments, r.Kind) || s.Subscriptions == nil && (r.Kind == subscription.Kind.Name || r.Kind == command.Kind.Name)
	})
	for _, off := range s.Offerings.List() {
		n, verbs := off.Spec.Names, orderVerbs
		if slices.ContainsFunc(off.Spec.Billing, func(m offering.BillingModel) bool { return len(m.Promotable) > 0 }) {
			verbs = append(slices.Clone(verbs), "promote")
		}
		out = append(out, resource{v1.Resource{
			Name: n.Plural, Singular: n.Singular, Kind: instance.Kind.Name, Offering: off.Metadata.Name,
			API: offeringBase(off.Spec), Verbs: verbs,
		}, instance.Kind})
	}
	return out
}

// resource finds a resource by its plural or singular name.
func (s *server) resource(name string) (resource, error) {
	for _, r := range s.resources() {
		if r.Name == name || r.Singular == name {
			return r, nil
		}
	}
	return resource{}, fault.New(fault.NotFound, "there is no resource %.64q; GET /api/v1/kinds lists them", name)
}

// kindOf returns the resource that stands for a whole kind.
func kindOf(kind string) (resource, bool) {
	for _, r := range fixed {
		if r.Kind == kind {
			return r, true
		}
	}
	return resource{}, false
}

// visible decides by the present state of an object whether the caller may see
// it, its past included. Kinds that are no resource are nobody's business.
func visible(who access.Principal, o *ledger.Object) bool {
	switch o.Kind {
	case instance.Kind.Name, operation.Kind.Name, environment.Kind.Name, environment.KindResource.Name, environment.KindPlan.Name, environment.KindDrift.Name,
		gitops.KindDeployment.Name, gitops.KindSyncRun.Name, gitops.KindRepository.Name, gitops.KindTarget.Name, gitops.KindWorkspace.Name,
		subscription.Kind.Name, command.Kind.Name:
		return who.Sees(o.Org, o.Owner)
	case account.Kind.Name:
		return o.Fields["use"] == tenantUse && who.Sees(o.Org, o.Owner)
	case offering.Kind.Name, policy.KindTerms.Name:
		return who.Admin || who.User != "" || who.Cluster != ""
	case template.Kind.Name, template.KindVersion.Name:
		return who.Admin || who.User != "" && template.Visible(who, *o)
	case policy.KindAcceptance.Name:
		return who.Admin || who.User != "" && who.User == o.Owner && who.Org == o.Org
	case cluster.Kind.Name, cluster.KindProfile.Name, operation.AuditKind.Name, access.KindUser.Name, policy.KindQuota.Name, policy.KindDenyList.Name, policy.KindAccessList.Name,
		breaker.KindApproval.Name:
		return who.Admin
	}
	return false
}

// scope limits a list to what the caller may see.
func (r resource) scope(who access.Principal) (map[string]any, error) {
	scope := map[string]any{}
	switch r.Kind {
	case instance.Kind.Name, operation.Kind.Name, account.Kind.Name, environment.Kind.Name, environment.KindResource.Name, environment.KindPlan.Name, environment.KindDrift.Name,
		gitops.KindDeployment.Name, gitops.KindSyncRun.Name, gitops.KindRepository.Name, gitops.KindTarget.Name, gitops.KindWorkspace.Name,
		subscription.Kind.Name, command.Kind.Name:
		if who.Cluster != "" && !who.Admin {
			return nil, fault.New(fault.Denied, "an agent sees its cluster's desired state and nothing else")
		}
		for k, v := range who.Scope() {
			scope[k] = v
		}
		if r.Kind == account.Kind.Name {
			scope["use"] = tenantUse
		}
	case policy.KindAcceptance.Name:
		if who.Cluster != "" && !who.Admin {
			return nil, fault.New(fault.Denied, "an agent sees its cluster's desired state and nothing else")
		}
		if !who.Admin {
			scope["org"], scope["owner"] = who.Org, who.User
		}
	case cluster.Kind.Name, cluster.KindProfile.Name, operation.AuditKind.Name, access.KindUser.Name, policy.KindQuota.Name, policy.KindDenyList.Name, policy.KindAccessList.Name,
		breaker.KindApproval.Name:
		if !who.Admin {
			return nil, fault.New(fault.Denied, "only an operator may see %s", r.Name)
		}
	}
	if r.Offering != "" {
		scope["offering"] = r.Offering
	}
	return scope, nil
}

func (r resource) has(o *ledger.Object) bool {
	return o.Kind == r.Kind && (r.Offering == "" || o.Fields["offering"] == r.Offering)
}

// ResourcePath names a resource. It is exported, like ObjectPath, because huma
// looks only into embedded structs that are.
type ResourcePath struct {
	Resource string `path:"resource" doc:"Plural or singular name" maxLength:"128"`
}

// ObjectPath names an object.
type ObjectPath struct {
	ResourcePath
	ID string `path:"id" doc:"Id, or name where the caller has only one of that name" maxLength:"256"`
}

type listInput struct {
	ResourcePath
	Page    int    `query:"page" default:"1" minimum:"0" maximum:"1000000000"`
	Size    int    `query:"size" default:"100" minimum:"1" maximum:"65500"`
	OrderBy string `query:"orderBy" maxLength:"1024" doc:"Comma-separated columns, each with asc or desc" example:"name asc"`
	Search  string `query:"search" maxLength:"16384" doc:"Condition over the object's columns and fields" example:"phase = ready AND name LIKE r%"`
}

type getInput struct {
	ObjectPath
	At string `query:"at" maxLength:"64" doc:"State in the past: a sequence of the log, or a time (RFC 3339)"`
}

type historyInput struct {
	ObjectPath
	After int64 `query:"after" minimum:"0" doc:"Only changes after this sequence"`
	Limit int   `query:"limit" default:"100" minimum:"1" maximum:"1000"`
}

type body[T any] struct{ Body T }

func (o *own) routesResource() {
	tags := []string{"resources"}
	huma.Register(o.api, huma.Operation{
		OperationID: "list-kinds", Method: http.MethodGet, Path: "/api/v1/kinds", Tags: tags,
		Summary: "What verbs apply to here",
	}, func(context.Context, *struct{}) (*body[v1.Resources], error) {
		out := &body[v1.Resources]{}
		for _, r := range o.resources() {
			out.Body.Items = append(out.Body.Items, r.Resource)
		}
		return out, nil
	})
	huma.Register(o.api, huma.Operation{
		OperationID: "list-objects", Method: http.MethodGet, Path: "/api/v1/{resource}", Tags: tags,
		Summary: "List the objects of a resource that the caller may see",
	}, o.list)
	huma.Register(o.api, huma.Operation{
		OperationID: "get-object", Method: http.MethodGet, Path: "/api/v1/{resource}/{id}", Tags: tags,
		Summary: "One object, now or at a moment in the past",
	}, o.get)
	huma.Register(o.api, huma.Operation{
		OperationID: "get-history", Method: http.MethodGet, Path: "/api/v1/{resource}/{id}/history", Tags: tags,
		Summary: "Every change of an object: when, who, why, and its whole state then",
	}, o.history)
	o.routesPolicy()
	o.routesProfile()
	o.routesUser()
	o.routesServiceAccount()
	o.routesApproval()
}

func (o *own) list(ctx context.Context, in *listInput) (*body[v1.List], error) {
	r, err := o.resource(in.Resource)
	if err != nil {
		return nil, err
	}
	who := access.From(ctx)
	scope, err := r.scope(who)
	if err != nil {
		return nil, err
	}
	order, where, err := o.listArguments(r, in.OrderBy, in.Search)
	if err != nil {
		return nil, err
	}
	head, err := o.Ledger.Head(ctx)
	if err != nil {
		return nil, err
	}
	page := max(in.Page, 1)
	objects, total, err := ledger.Paged(ctx, o.Ledger, ledger.Query{
		Kind: r.Kind, Scope: scope, Where: where, Order: order, Offset: (page - 1) * in.Size, Limit: in.Size,
	})
	if err != nil {
		return nil, err
	}
	out := &body[v1.List]{Body: v1.List{Page: page, Size: in.Size, Total: total, Seq: head.Seq, Items: make([]v1.Object, 0, len(objects))}}
	for i := range objects {
		if ofTemplates(r.Kind) && !visible(who, &objects[i]) {
			continue // their scope says nothing about who may see them
		}
		out.Body.Items = append(out.Body.Items, wireRow(&objects[i], o.Offerings, who))
	}
	return out, nil
}

func (o *own) get(ctx context.Context, in *getInput) (*body[v1.Object], error) {
	r, err := o.resource(in.Resource)
	if err != nil {
		return nil, err
	}
	who := access.From(ctx)
	if in.At == "" {
		found, err := o.find(ctx, r, in.ID)
		if err != nil {
			return nil, err
		}
		if !found.Deleted.IsZero() {
			return nil, fault.New(fault.NotFound, "%s %q was deleted at %s; its history is still there", r.Singular, found.Name, found.Deleted.Format(time.RFC3339))
		}
		return &body[v1.Object]{wireRow(&found, o.Offerings, who)}, nil
	}
	moment, err := parseMoment(in.At)
	if err != nil {
		return nil, err
	}
	past, err := o.at(ctx, r, in.ID, moment)
	if err != nil {
		return nil, err
	}
	return &body[v1.Object]{wire(&past, o.Offerings, who)}, nil
}

func (o *own) history(ctx context.Context, in *historyInput) (*body[v1.Changes], error) {
	r, err := o.resource(in.Resource)
	if err != nil {
		return nil, err
	}
	found, err := o.find(ctx, r, in.ID)
	if err != nil {
		return nil, err
	}
	changes, err := o.Ledger.Changes(ctx, ledger.ChangeQuery{After: in.After, Kind: found.Kind, ID: found.ID, Limit: in.Limit, Left: true})
	if err != nil {
		return nil, err
	}
	out := v1.Changes{Items: make([]v1.Change, 0, len(changes)), Next: in.After}
	if head, err := o.Ledger.Head(ctx); err != nil {
		return nil, err
	} else if in.After < head.Whole {
		out.Since = head.Whole // what was before is its last change alone
	}
	who := access.From(ctx)
	for i := range changes {
		out.Items = append(out.Items, wireChange(&changes[i], o.Offerings, who))
		out.Next = changes[i].Seq
	}
	return &body[v1.Changes]{out}, nil
}

// parseMoment reads a sequence or a time.
func parseMoment(s string) (ledger.Moment, error) {
	if seq, err := strconv.ParseInt(s, 10, 64); err == nil && seq > 0 {
		return ledger.Moment{Seq: seq}, nil
	}
	t, err := time.Parse(time.RFC3339Nano, s)
	if err != nil || t.Year() < 1970 || t.Year() > 9999 {
		return ledger.Moment{}, fault.New(fault.Invalid, "at is a sequence of the log or a time such as 2030-01-31T12:00:00Z").Because("list")
	}
	return ledger.Moment{Time: t}, nil
}
