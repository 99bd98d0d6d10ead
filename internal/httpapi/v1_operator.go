package httpapi

import (
	"context"
	"net/http"
	"strconv"
	"time"

	"github.com/danielgtaylor/huma/v2"

	v1 "github.com/droverhq/drover/api/v1"
	"github.com/droverhq/drover/internal/access"
	"github.com/droverhq/drover/internal/fault"
)

const (
	userTTL  = time.Hour
	agentTTL = 8760 * time.Hour
)

func (o *own) routesOperator() {
	huma.Register(o.api, huma.Operation{
		OperationID: "who-am-i", Method: http.MethodGet, Path: "/api/v1/whoami", Tags: []string{"access"},
		Summary: "Who the server takes the caller for",
	}, func(ctx context.Context, _ *struct{}) (*body[v1.WhoAmI], error) {
		p := access.From(ctx)
		return &body[v1.WhoAmI]{v1.WhoAmI{User: p.User, Org: p.Org, OrgAdmin: p.OrgAdmin, Admin: p.Admin, Cluster: p.Cluster}}, nil
	})
	huma.Register(o.api, huma.Operation{
		OperationID: "create-token", Method: http.MethodPost, Path: "/api/v1/tokens", Tags: []string{"access"},
		Summary: "Have the built-in issuer sign a token; operators only", DefaultStatus: http.StatusCreated, MaxBodyBytes: -1,
	}, o.createToken)
	huma.Register(o.api, huma.Operation{
		OperationID: "get-ledger", Method: http.MethodGet, Path: "/api/v1/ledger", Tags: []string{"operator"},
		Summary: "Where the log stands and what work is due; operators only",
	}, o.ledgerHead)
	huma.Register(o.api, huma.Operation{
		OperationID: "list-errors", Method: http.MethodGet, Path: "/api/v1/errors", Tags: []string{"errors"},
		Summary: "All errors that the API knows",
	}, func(context.Context, *struct{}) (*body[errorList], error) {
		out := &body[errorList]{}
		for _, c := range catalogue {
			out.Body.Items = append(out.Body.Items, ownFace.object(c.id, c.text, ""))
		}
		return out, nil
	})
	huma.Register(o.api, huma.Operation{
		OperationID: "get-error", Method: http.MethodGet, Path: "/api/v1/errors/{id}", Tags: []string{"errors"},
		Summary: "One error of the catalogue",
	}, func(_ context.Context, in *struct {
		ID string `path:"id" maxLength:"16"`
	}) (*body[v1.Error], error) {
		id, _ := strconv.Atoi(in.ID)
		c, ok := lookup(id)
		if !ok {
			return nil, fault.New(fault.NotFound, "there is no error %q", in.ID)
		}
		return &body[v1.Error]{ownFace.object(c.id, c.text, "")}, nil
	})
	if o.Issuer != nil {
		o.mux.HandleFunc("GET /.well-known/openid-configuration", o.openidConfiguration)
	}
}

type errorList struct {
	Items []v1.Error `json:"items"`
}

func (o *own) createToken(ctx context.Context, in *body[v1.TokenRequest]) (*body[v1.Token], error) {
	if !access.From(ctx).Admin {
		return nil, fault.New(fault.Denied, "only an operator may have tokens signed")
	}
	if o.Issuer == nil {
		return nil, fault.New(fault.NotFound, "this server has no issuer of its own: ask yours for a token")
	}
	b := in.Body
	traceOf(ctx).about = holder(b)
	ttl := userTTL
	if b.Cluster != "" {
		ttl = agentTTL
	}
	if b.TTL != "" {
		var err error
		if ttl, err = time.ParseDuration(b.TTL); err != nil {
			return nil, fault.New(fault.Invalid, "ttl is a duration such as 1h30m").Because("field")
		}
	}
	claims, err := o.agentClaims(ctx, b.Cluster)
	if err != nil {
		return nil, err
	}
	claims.User, claims.Org, claims.OrgAdmin, claims.Admin = b.User, b.Org, b.OrgAdmin, b.Admin
	token, expires, err := o.Issuer.Issue(ctx, claims, ttl)
	if err != nil {
		return nil, err
	}
	return &body[v1.Token]{v1.Token{Token: token, Expires: expires}}, nil
}

// holder says for the record whom a token is for.
func holder(b v1.TokenRequest) string {
	if b.Cluster != "" {
		return plainText("agent of "+b.Cluster, maxText)
	}
	out := "user " + b.User + " of " + b.Org
	if b.OrgAdmin {
		out += ", its administrator"
	}
	if b.Admin {
		out += ", operator"
	}
	return plainText(out, maxText)
}

func (o *own) ledgerHead(ctx context.Context, _ *struct{}) (*body[v1.Ledger], error) {
	if !access.From(ctx).Admin {
		return nil, fault.New(fault.Denied, "only an operator may see the ledger")
	}
	head, err := o.Ledger.Head(ctx)
	if err != nil {
		return nil, err
	}
	backlog, err := o.Ledger.Backlog(ctx)
	if err != nil {
		return nil, err
	}
	out := v1.Ledger{Ledger: head.Ledger, Epoch: head.Epoch, Seq: head.Seq, At: head.At, Backlog: []v1.Backlog{}}
	for _, b := range backlog {
		out.Backlog = append(out.Backlog, v1.Backlog{Kind: b.Kind, Due: b.Due, Running: b.Running, Waiting: b.Waiting, Oldest: b.Oldest.Seconds()})
	}
	return &body[v1.Ledger]{out}, nil
}

// openidConfiguration lets OIDC libraries find the built-in issuer's keys: where
// the server says it is, not where the request says it was sent.
func (o *own) openidConfiguration(w http.ResponseWriter, _ *http.Request) {
	writeJSON(w, http.StatusOK, map[string]any{
		"issuer":                                o.Issuer.Name(),
		"jwks_uri":                              o.URL + "/.well-known/jwks.json",
		"id_token_signing_alg_values_supported": []string{"ES256"},
		"response_types_supported":              []string{"id_token"},
		"subject_types_supported":               []string{"public"},
	})
}
