package httpapi

import (
	"context"
	"net/http"
	"strings"

	"github.com/danielgtaylor/huma/v2"

	v1 "github.com/droverhq/drover/api/v1"
	"github.com/droverhq/drover/internal/access"
)

func (o *own) routesAction() {
	if o.Environments == nil {
		return
	}
	tags := []string{"environments"}
	huma.Register(o.api, huma.Operation{
		OperationID: "list-actions", Method: http.MethodGet, Path: "/api/v1/environments/{id}/actions", Tags: tags,
		Summary: "What can be run on an environment, and whether the caller may",
	}, o.listActions)
	huma.Register(o.api, huma.Operation{
		OperationID: "run-action", Method: http.MethodPost, Path: "/api/v1/environments/{id}/actions/{action}", Tags: tags,
		Summary: "Run an action of an environment's template", DefaultStatus: http.StatusAccepted, MaxBodyBytes: -1,
		Description: "The answer is its operation; what it says is at /api/v1/operations/{id}/log. It is run once: one that is cut short has failed.",
	}, o.runAction)
	huma.Register(o.api, huma.Operation{
		OperationID: "get-operation-log", Method: http.MethodGet, Path: "/api/v1/operations/{id}/log", Tags: []string{"operations"},
		Summary: "What an action says, live while it runs",
	}, func(ctx context.Context, in *struct {
		ID    string `path:"id" doc:"Id of the operation" maxLength:"256"`
		After int64  `query:"after" minimum:"0" doc:"What was read before"`
	}) (*body[v1.Log], error) {
		t, err := o.Environments.OperationLog(ctx, in.ID, in.After)
		if err != nil {
			return nil, err
		}
		return &body[v1.Log]{v1.Log{Text: strings.ToValidUTF8(string(t.Text), "\uFFFD"), Next: t.Next, Done: !t.Running, Cut: t.From > in.After}}, nil
	})
}

func (o *own) listActions(ctx context.Context, in *environmentPath) (*body[v1.EnvironmentActions], error) {
	found, err := o.Environments.Actions(ctx, in.ID)
	if err != nil {
		return nil, err
	}
	out := v1.EnvironmentActions{Items: make([]v1.EnvironmentAction, 0, len(found))}
	for _, a := range found {
		out.Items = append(out.Items, v1.EnvironmentAction{Name: a.Name, Description: a.Description, App: a.App.Name, URL: a.App.URL,
			Command: a.Command, Parameters: a.Parameters, Allowed: a.Allowed})
	}
	return &body[v1.EnvironmentActions]{out}, nil
}

type runInput struct {
	ID     string `path:"id" doc:"Name or id of the environment" maxLength:"256"`
	Action string `path:"action" doc:"Name of the action" maxLength:"64"`
	Body   *v1.RunAction
}

func (o *own) runAction(ctx context.Context, in *runInput) (*accepted, error) {
	var args map[string]any
	if in.Body != nil {
		args = in.Body.Arguments
	}
	op, err := o.Environments.RunAction(ctx, in.ID, in.Action, args)
	if err != nil {
		return nil, err
	}
	return &accepted{Operation: op.ID, Body: wire(&op, o.Offerings, access.From(ctx))}, nil
}
