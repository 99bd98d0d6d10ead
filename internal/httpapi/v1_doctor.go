package httpapi

import (
	"context"
	"net/http"

	"github.com/danielgtaylor/huma/v2"

	v1 "github.com/droverhq/drover/api/v1"
	"github.com/droverhq/drover/internal/access"
	"github.com/droverhq/drover/internal/doctor"
	"github.com/droverhq/drover/internal/fault"
)

// Doctor finds out how the server is. It answers also while the ledger is away.
type Doctor interface {
	Examine(ctx context.Context) doctor.Facts
}

func (o *own) routesDoctor() {
	if o.Doctor == nil {
		return
	}
	huma.Register(o.api, huma.Operation{
		OperationID: "examine", Method: http.MethodGet, Path: "/api/v1/doctor", Tags: []string{"operator"},
		Summary: "What is wrong, why, and what to do; operators only",
		Description: "The worst comes first. What other services are like is what the replica that answers has seen of them; " +
			"everything else is the same on each. It costs the same however much there is.",
	}, o.examine)
}

func (o *own) examine(ctx context.Context, _ *struct{}) (*body[v1.Diagnosis], error) {
	if !access.From(ctx).Admin {
		return nil, fault.New(fault.Denied, "only an operator may see how the server is")
	}
	facts := o.Doctor.Examine(ctx)
	found := doctor.Diagnose(facts)
	out := v1.Diagnosis{Healthy: !doctor.Wrong(found), At: facts.Now, Version: facts.Version, Database: facts.Ledger.Engine, Findings: []v1.Finding{}}
	for _, f := range found {
		out.Findings = append(out.Findings, v1.Finding(f))
	}
	return &body[v1.Diagnosis]{out}, nil
}
