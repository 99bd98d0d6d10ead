package httpapi

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"net/url"
	"strings"
	"time"

	"github.com/danielgtaylor/huma/v2"

	v1 "github.com/droverhq/drover/api/v1"
	"github.com/droverhq/drover/internal/access"
	"github.com/droverhq/drover/internal/cluster"
	"github.com/droverhq/drover/internal/fault"
	"github.com/droverhq/drover/internal/offering"
)

const (
	// joinTTL is how long a printed line works.
	joinTTL = time.Hour
	// firstTTL is how long the agent that it installs has to connect for the
	// first time; then it is given other tokens.
	firstTTL = 7 * 24 * time.Hour

	errandInstall = "install" // the purpose of the token in the line
	installPath   = "/api/v1/clusters/{id}/install"
)

var namespaceParam = &huma.Param{Name: "namespace", In: "query", Description: "Namespace of the agent; agents of several clusters in one Kubernetes need one each. Default drover-system",
	Schema: &huma.Schema{Type: "string", MaxLength: new(63)}}

func (o *own) routesInstall() {
	yaml := &huma.MediaType{Schema: &huma.Schema{Type: "string"}}
	o.raw(huma.Operation{
		OperationID: "install-agent", Method: http.MethodGet, Path: installPath, Tags: []string{"operator"},
		Summary: "The Kubernetes manifests of a cluster's agent, for kubectl apply; operators only, or with the token of a join",
		Description: "They hold a token of the agent, made for this answer and good for 7 days: keep them to yourself. " +
			"The agent's rights are those that the offerings, and the cluster's profile, need at the moment.",
		Security: []map[string][]string{{"bearer": {}}, {}},
		Parameters: []*huma.Param{
			pathParam("id", "Id of the cluster"),
			queryParam("join", "Token of POST /api/v1/clusters/{id}/join, in place of a bearer token", "string"),
			{Name: "runtime", In: "query", Description: "argocd: deployments are carried out by an Argo CD of the cluster; default kubernetes", Schema: &huma.Schema{Type: "string", Enum: []any{"kubernetes", "argocd"}}},
			namespaceParam,
			{Name: "format", In: "query", Description: "values: those of the chart drover-agent, for Helm", Schema: &huma.Schema{Type: "string", Enum: []any{"manifests", "values"}}},
		},
		Responses: map[string]*huma.Response{"200": {Description: "YAML", Content: map[string]*huma.MediaType{"application/yaml": yaml}}},
	}, o.install)
	huma.Register(o.api, huma.Operation{
		OperationID: "join-cluster", Method: http.MethodPost, Path: "/api/v1/clusters/{id}/join", Tags: []string{"operator"},
		Summary:       "Lines that bring a cluster's agent onto it; operators only",
		DefaultStatus: http.StatusCreated,
		Description:   "Whoever administrates the cluster runs one of them within an hour, without any other credentials of this server.",
	}, o.join)
}

func (o *own) join(ctx context.Context, in *struct {
	ID        string `path:"id" doc:"Id of the cluster" maxLength:"256"`
	Runtime   string `query:"runtime" enum:"kubernetes,argocd" doc:"argocd: deployments are carried out by an Argo CD of the cluster; default kubernetes"`
	Namespace string `query:"namespace" pattern:"^([a-z0-9]([-a-z0-9]{0,61}[a-z0-9])?)?$" maxLength:"63" doc:"Namespace of the agent; agents of several clusters in one Kubernetes need one each. Default drover-system"`
}) (*body[v1.Join], error) {
	if !access.From(ctx).Admin {
		return nil, fault.New(fault.Denied, "only an operator may bring agents onto clusters")
	}
	traceOf(ctx).about = plainText("agent of "+in.ID, maxText)
	// What could not be installed later is told now, to whoever can do something about it.
	if _, err := o.installable(ctx, in.ID); err != nil {
		return nil, err
	}
	token, expires, err := o.Issuer.IssueErrand(ctx, errandInstall, in.ID, joinTTL)
	if err != nil {
		return nil, err
	}
	query := "join=" + token
	if in.Runtime != "" {
		query = "runtime=" + in.Runtime + "&" + query
	}
	if in.Namespace != "" {
		query = "namespace=" + in.Namespace + "&" + query
	}
	at := strings.TrimRight(o.URL, "/") + strings.Replace(installPath, "{id}", url.PathEscape(in.ID), 1)
	return &body[v1.Join]{v1.Join{
		Command: fmt.Sprintf(`kubectl apply --server-side -f "%s?%s"`, at, query),
		Helm: fmt.Sprintf(`helm upgrade --install %s deploy/helm/drover-agent --namespace %s --create-namespace --values "%s?format=values&%s"`,
			cluster.AgentName, cmp.Or(in.Namespace, cluster.AgentNamespace), at, query),
		Expires: expires,
	}}, nil
}

// joining returns the principal of a request that has nothing but the token of a
// join; false if the request is no such. The principal is the cluster's agent, for
// this request alone.
func (s *server) joining(r *http.Request) (access.Principal, bool, error) {
	rest, ok := strings.CutPrefix(r.URL.Path, "/api/v1/clusters/")
	id, install := strings.CutSuffix(rest, "/install")
	token := r.URL.Query().Get("join")
	if !ok || !install || strings.Contains(id, "/") || token == "" || s.Issuer == nil || r.Method != http.MethodGet {
		return access.Principal{}, false, nil
	}
	if err := s.Issuer.Errand(r.Context(), token, errandInstall, id); err != nil {
		return access.Principal{}, true, err
	}
	return access.Principal{Cluster: id}, true, nil
}

// install is on record whoever asks: it gives somebody a way in.
func (o *own) install(w http.ResponseWriter, r *http.Request) {
	id := r.PathValue("id")
	if !access.From(r.Context()).Admin {
		// An agent's own token, which lives for long, does not open this either.
		if o.Issuer == nil || o.Issuer.Errand(r.Context(), r.URL.Query().Get("join"), errandInstall, id) != nil {
			o.fail(w, r, fault.New(fault.Denied, "only an operator may fetch an agent's manifests, or whoever has the line of a join"))
			return
		}
	}
	o.audited(w, r, false, func(w http.ResponseWriter, r *http.Request) {
		data, err := o.installation(r.Context(), id, r.URL.Query())
		if err != nil {
			o.fail(w, r, err)
			return
		}
		w.Header().Set("Cache-Control", "no-store")
		write(w, http.StatusOK, "application/yaml", data)
	})
}

func (o *own) installation(ctx context.Context, id string, query url.Values) ([]byte, error) {
	format := query.Get("format")
	if format != "" && format != "manifests" && format != "values" {
		return nil, fault.New(fault.Invalid, "format is manifests or values").Because("field")
	}
	traceOf(ctx).about = plainText("agent of "+id, maxText)
	c, err := o.installable(ctx, id)
	if err != nil {
		return nil, err
	}
	claims, err := o.agentClaims(ctx, id)
	if err != nil {
		return nil, err
	}
	c.Runtime, c.Namespace = query.Get("runtime"), query.Get("namespace")
	if c.Token, _, err = o.Issuer.Issue(ctx, claims, firstTTL); err != nil {
		return nil, err
	}
	if format == "values" {
		return cluster.Values(c)
	}
	return cluster.Install(c)
}

// installable is how the agent of a cluster is installed, but for its token.
func (o *own) installable(ctx context.Context, id string) (cluster.InstallConfig, error) {
	none := cluster.InstallConfig{}
	if o.Issuer == nil {
		return none, fault.New(fault.NotFound, "this server has no issuer of its own: install the agent with a token of yours")
	}
	if o.URL == "" {
		return none, fault.New(fault.Unavailable, "the server does not know where agents reach it: start it with --public-url")
	}
	found, err := o.Clusters.Get(ctx, id)
	if err != nil {
		return none, err
	}
	spec, _, err := cluster.Decode(found)
	if err != nil {
		return none, err
	}
	if spec.Deleted {
		return none, fault.New(fault.Conflict, "cluster %.64q is being removed", id)
	}
	applied, err := o.applied(ctx, spec)
	if err != nil {
		return none, err
	}
	rules, err := cluster.Rules(applied)
	if err != nil {
		return none, err
	}
	return cluster.InstallConfig{Server: o.URL, Cluster: id, Image: o.AgentImage, Rules: rules, Health: cluster.AgentHealth, Trace: o.AgentTrace,
		TLSSecret: o.AgentTLS, Plaintext: o.AgentPlaintext}, nil
}

// applied is all that an agent of the cluster may be told to apply at present.
func (o *own) applied(ctx context.Context, spec cluster.Spec) ([]cluster.Applied, error) {
	var out []cluster.Applied
	steps := func(of string, list []offering.Step) {
		for _, s := range list {
			manifests := make([]any, len(s.Manifests))
			for i, m := range s.Manifests {
				manifests[i] = m
			}
			out = append(out, cluster.Applied{Of: of + ", step " + s.Name, Document: map[string]any{"manifests": manifests}})
		}
	}
	if spec.Profile != "" {
		found, err := o.Clusters.GetProfile(ctx, spec.Profile)
		if fault.Is(err, fault.NotFound) { // removed, which removes no cluster: it has no steps any more
			found.Spec, err = json.RawMessage("{}"), nil
		}
		if err != nil {
			return nil, fmt.Errorf("cannot read the cluster's profile %q: %w", spec.Profile, err)
		}
		var p cluster.Profile
		if err := json.Unmarshal(found.Spec, &p); err != nil {
			return nil, fault.New(fault.Internal, "cannot read profile %q: %w", spec.Profile, err)
		}
		steps("profile "+spec.Profile, p.Steps)
	}
	for _, off := range o.Offerings.List() {
		if spec.Offering != "" && spec.Offering != off.Metadata.Name {
			continue
		}
		of := "offering " + off.Metadata.Name
		out = append(out, cluster.Applied{Of: of + ", desired", Document: off.Spec.Desired}, cluster.Applied{Of: of + ", reserved", Document: off.Spec.Reserved})
		steps(of, off.Spec.Steps)
	}
	return out, nil
}
