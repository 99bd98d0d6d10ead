package httpapi

import (
	"context"
	"net/http"

	"github.com/danielgtaylor/huma/v2"

	v1 "github.com/droverhq/drover/api/v1"
	"github.com/droverhq/drover/internal/access"
	"github.com/droverhq/drover/internal/connection"
	"github.com/droverhq/drover/internal/fault"
)

// listed are connections that can be told of.
type listed interface {
	List() []connection.Connection
}

func (o *own) routesConnection() {
	if o.Environments == nil {
		return
	}
	huma.Register(o.api, huma.Operation{
		OperationID: "list-connections", Method: http.MethodGet, Path: "/api/v1/connections", Tags: []string{"environments"},
		Summary: "Where executors work, and for whom; operators only", Description: "No option of a connection is told, and so no address and no secret.",
	}, func(ctx context.Context, _ *struct{}) (*body[v1.Connections], error) {
		if !access.From(ctx).Admin {
			return nil, fault.New(fault.Denied, "only an operator may list connections")
		}
		out := v1.Connections{Items: []v1.Connection{}}
		if all, ok := o.Environments.Connections.(listed); ok {
			for _, c := range all.List() {
				out.Items = append(out.Items, v1.Connection{Name: c.Name, Executor: c.Executor, Orgs: append([]string{}, c.For.Orgs...), Templates: append([]string{}, c.For.Templates...)})
			}
		}
		return &body[v1.Connections]{out}, nil
	})
}
