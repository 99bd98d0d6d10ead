package httpapi

import (
	"context"
	"encoding/json"
	"io"
	"net/http"
	"net/url"

	"github.com/danielgtaylor/huma/v2"

	v1 "github.com/droverhq/drover/api/v1"
	"github.com/droverhq/drover/internal/fault"
	"github.com/droverhq/drover/internal/gitops"
)

// pushPath is where Git servers send their pushes. They have no token: they sign.
const pushPath = "/api/v1/webhooks/git"

// maxPush bounds the body of a webhook.
const maxPush = 1 << 20

// pushing reports whether a request is a webhook of a Git server.
func (s *server) pushing(r *http.Request) bool {
	return s.Deployments != nil && r.Method == http.MethodPost && r.URL.Path == pushPath
}

func (o *own) routesPush() {
	o.raw(huma.Operation{
		OperationID: "take-push", Method: http.MethodPost, Path: pushPath, Tags: []string{"deployments"},
		Summary:     "A webhook of GitHub, GitLab, Gitea, Forgejo or Bitbucket",
		Description: "Its signature is checked with the secret of the organisation. What follows the branch that was pushed to is looked at now.",
		Security:    []map[string][]string{},
		Parameters:  []*huma.Param{queryParam("org", "Whose webhook it is; empty: the operators'", "string")},
		RequestBody: &huma.RequestBody{Required: true, Content: map[string]*huma.MediaType{"application/json": {Schema: &huma.Schema{Type: "object"}}}},
		Responses:   map[string]*huma.Response{"202": {Description: "It was taken", Content: o.content("application/json", v1.Pushed{})}},
	}, o.takePush)
	huma.Register(o.api, huma.Operation{
		OperationID: "webhook-secret", Method: http.MethodPost, Path: pushPath + "/secret", Tags: []string{"deployments"}, DefaultStatus: http.StatusOK,
		Summary:     "Where a Git server is to send pushes, and what signs them",
		Description: "With rotate another secret holds from now on; the one before it is taken for another hour.",
	}, func(ctx context.Context, in *struct {
		Rotate bool `query:"rotate"`
	}) (*body[v1.WebhookSecret], error) {
		secret, err := o.Deployments.WebhookSecret(ctx, in.Rotate)
		if err != nil {
			return nil, err
		}
		where := o.URL + pushPath
		if org := gitops.WebhookOrg(ctx); org != "" {
			where += "?" + url.Values{"org": {org}}.Encode()
		}
		return &body[v1.WebhookSecret]{v1.WebhookSecret{URL: where, Secret: secret, SigningToken: gitops.SigningToken(secret)}}, nil
	})
}

func (o *own) takePush(w http.ResponseWriter, r *http.Request) {
	data, err := io.ReadAll(http.MaxBytesReader(w, r.Body, maxPush))
	if err != nil {
		o.fail(w, r, unreadable(err))
		return
	}
	org := r.URL.Query().Get("org")
	if len(org) > 256 {
		o.fail(w, r, fault.New(fault.Denied, "there is no webhook of that organisation, or the signature is not its").Because("token"))
		return
	}
	n, err := o.Deployments.TakePush(r.Context(), org, r.Header, data)
	if fault.Is(err, fault.Denied) { // the signature stands for a token
		err = fault.New(fault.Denied, "%w", err).Because("token")
	}
	if err != nil {
		o.fail(w, r, err)
		return
	}
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(http.StatusAccepted)
	_ = json.NewEncoder(w).Encode(v1.Pushed{Deployments: n}) // the Git server has gone: nobody is left to tell
}
