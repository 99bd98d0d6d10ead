package httpapi

import (
	"context"
	"net/http"
	"strings"
	"time"

	"github.com/danielgtaylor/huma/v2"

	v1 "github.com/droverhq/drover/api/v1"
	"github.com/droverhq/drover/internal/access"
	"github.com/droverhq/drover/internal/environment"
	"github.com/droverhq/drover/internal/fault"
	"github.com/droverhq/drover/internal/ledger"
)

type environmentPath struct {
	ID string `path:"id" doc:"Name or id of the environment" maxLength:"256"`
}

type planInput struct {
	ID   string `path:"id" doc:"Name of the environment, which need not be there yet, or its id" maxLength:"256"`
	Body v1.PlanEnvironment
}

type applyInput struct {
	ID   string `path:"id" doc:"Name or id of the environment" maxLength:"256"`
	Body v1.ApplyEnvironment
}

type destroyInput struct {
	ID   string `path:"id" doc:"Name or id of the environment" maxLength:"256"`
	Body *v1.DestroyEnvironment
}

type environmentUpdate struct {
	ID   string `path:"id" doc:"Name or id of the environment" maxLength:"256"`
	Body v1.UpdateEnvironment
}

func (o *own) routesEnvironment() {
	if o.Environments == nil {
		return
	}
	tags := []string{"environments"}
	verb := func(id, path, summary, description string) huma.Operation {
		return huma.Operation{OperationID: id, Method: http.MethodPost, Path: "/api/v1/environments" + path, Tags: tags,
			Summary: summary, Description: description, DefaultStatus: http.StatusAccepted, MaxBodyBytes: -1}
	}
	huma.Register(o.api, verb("create-environment", "", "Make an environment of a template: plan and apply in one",
		"It is refused where there is one of that name already."), o.createEnvironment)
	huma.Register(o.api, verb("plan-environment", "/{id}/plan", "Tell what would be done over every executor; nothing is touched",
		"The plan is made meanwhile: GET /api/v1/plans/{id}/changes has it when its phase is no longer planning."), o.planEnvironment)
	huma.Register(o.api, verb("apply-environment", "/{id}/apply", "Carry a plan out",
		"Nothing is touched if anything has moved since the plan was made: the operation then fails and says what."),
		func(ctx context.Context, in *applyInput) (*accepted, error) {
			return o.acceptEnvironment(ctx)(o.Environments.Apply(ctx, environment.ApplyOrder{Environment: in.ID, Plan: in.Body.Plan}))
		})
	huma.Register(o.api, verb("destroy-environment", "/{id}/destroy", "Take everything away that an environment has made, in reverse order",
		"With a plan exactly what that said; without, whatever is there."),
		func(ctx context.Context, in *destroyInput) (*accepted, error) {
			plan := ""
			if in.Body != nil {
				plan = in.Body.Plan
			}
			return o.acceptEnvironment(ctx)(o.Environments.Destroy(ctx, in.ID, plan))
		})
	huma.Register(o.api, verb("retry-environment", "/{id}/retry", "Go on with what has failed, and with what waits for it", ""),
		func(ctx context.Context, in *environmentPath) (*accepted, error) {
			return o.acceptEnvironment(ctx)(o.Environments.Retry(ctx, in.ID))
		})
	huma.Register(o.api, verb("observe-environment", "/{id}/observe", "Have everything looked at now: what drifted, what is gone, what nobody expects", ""),
		func(ctx context.Context, in *environmentPath) (*accepted, error) {
			e, err := o.Environments.Observe(ctx, in.ID)
			return o.acceptEnvironment(ctx)(e, "", err)
		})
	huma.Register(o.api, huma.Operation{
		OperationID: "update-environment", Method: http.MethodPatch, Path: "/api/v1/environments/{id}", Tags: tags, MaxBodyBytes: -1,
		Summary: "Change what is said of an environment, its end, and whether it is protected",
	}, o.updateEnvironment)
}

func (o *own) acceptEnvironment(ctx context.Context) func(ledger.Object, string, error) (*accepted, error) {
	return func(e ledger.Object, operation string, err error) (*accepted, error) {
		if err != nil {
			return nil, err
		}
		return &accepted{Operation: operation, Body: wire(&e, o.Offerings, access.From(ctx))}, nil
	}
}

func (o *own) createEnvironment(ctx context.Context, in *body[v1.CreateEnvironment]) (*accepted, error) {
	if in.Body.Destroy || in.Body.Rollback {
		return nil, fault.New(fault.Invalid, "what is not there yet cannot be destroyed or rolled back").Because("field")
	}
	order, err := planOrder(in.Body.Name, in.Body.PlanEnvironment)
	if err != nil {
		return nil, err
	}
	return o.acceptEnvironment(ctx)(o.Environments.Create(ctx, order))
}

func planOrder(name string, p v1.PlanEnvironment) (environment.PlanOrder, error) {
	order := environment.PlanOrder{Environment: name, Template: p.Template, Parameters: p.Parameters, Keep: !p.Reset, Tags: p.Tags, Destroy: p.Destroy}
	if p.Description != nil {
		order.Description = *p.Description
	}
	if p.TTL != "" {
		ttl, err := time.ParseDuration(p.TTL)
		if err != nil || ttl <= 0 {
			return order, fault.New(fault.Invalid, "ttl is a duration such as 8h or 30m").Because("field")
		}
		order.TTL = ttl
	}
	return order, nil
}

func (o *own) planEnvironment(ctx context.Context, in *planInput) (*body[v1.Plan], error) {
	var made ledger.Object
	order, err := planOrder(in.ID, in.Body)
	switch {
	case err != nil:
	case in.Body.Rollback && (in.Body.Template != "" || len(in.Body.Parameters) > 0 || in.Body.Destroy):
		err = fault.New(fault.Invalid, "a rollback goes to what was before: it takes no template, parameters or destroy").Because("field")
	case in.Body.Rollback:
		made, err = o.Environments.Rollback(ctx, in.ID)
	default:
		made, err = o.Environments.Plan(ctx, order)
	}
	if err != nil {
		return nil, err
	}
	return o.wirePlan(ctx, made)
}

func (o *own) updateEnvironment(ctx context.Context, in *environmentUpdate) (*body[v1.Object], error) {
	b := in.Body
	if b.Description == nil && b.Tags == nil && b.Protected == nil && b.Ends == nil {
		return nil, fault.New(fault.Invalid, "name at least one field to change").Because("body")
	}
	e, err := o.Environments.Get(ctx, in.ID)
	if err != nil {
		return nil, err
	}
	change := environment.Amendment{Protected: b.Protected, Description: b.Description, Tags: b.Tags}
	if b.Ends != nil {
		until, err := o.ending(e, *b.Ends)
		if err != nil {
			return nil, err
		}
		change.Ends = &until
	}
	// In one commit: whoever hears that it failed finds nothing of it.
	if e, err = o.Environments.Amend(ctx, in.ID, change); err != nil {
		return nil, err
	}
	return &body[v1.Object]{wire(&e, o.Offerings, access.From(ctx))}, nil
}

// ending reads when an environment is to end.
func (o *own) ending(e ledger.Object, text string) (time.Time, error) {
	wrong := fault.New(fault.Invalid, `ends is a time such as 2030-01-31T12:00:00Z, "8h" from now, "+8h" later than planned, or "never"`).Because("field")
	if text == "never" {
		return time.Time{}, nil
	}
	if t, err := time.Parse(time.RFC3339, text); err == nil {
		return t, nil
	}
	from := o.Clock()
	span, later := strings.CutPrefix(text, "+")
	d, err := time.ParseDuration(span)
	if err != nil || d <= 0 {
		return time.Time{}, wrong
	}
	if later {
		known, err := environment.Decode(e)
		if err != nil {
			return time.Time{}, err
		}
		if known.Spec.Ends.IsZero() {
			return time.Time{}, fault.New(fault.Invalid, "environment %s has no planned end that could be moved: say when it is to end", e.Name).Because("field")
		}
		from = known.Spec.Ends
	}
	return from.Add(d), nil
}
