package environment

import (
	"context"

	"github.com/droverhq/drover/internal/access"
	"github.com/droverhq/drover/internal/breaker"
	"github.com/droverhq/drover/internal/executor"
	"github.com/droverhq/drover/internal/ledger"
	"github.com/droverhq/drover/internal/template"
)

// Templates finds templates.
type Templates interface {
	// Blueprint returns a template by "shop", "shop@1.2.0", "shop@<commit>" or the id
	// of a version. Faults: NotFound.
	Blueprint(ctx context.Context, ref string) (Blueprint, error)
	// Files of a version, or of a template "<name>@<version>" that is a part of it.
	Files(ctx context.Context, version, part string) (map[string][]byte, error)
}

// Blueprint is a template at a version. It never changes.
type Blueprint interface {
	// About tells what it is.
	About() About
	// Check validates parameters and fills in what they leave out.
	Check(parameters map[string]any) (map[string]any, error)
	// Expand says what there should be.
	Expand(ctx context.Context, given template.Given) (Layout, error)
	// Judge asks the template's policies about a plan.
	Judge(ctx context.Context, plan Plan, changes []PlannedChange) ([]Verdict, error)
	// May says who may do what: verb is "plan", "apply", "destroy", or "action" with
	// the name of one.
	May(verb, action string, who access.Principal, org, owner string) bool
}

// About is what a template says of itself.
type About struct {
	ID      string // of the version
	Name    string
	Version string // for people
	Spec    template.Spec
}

// Facts are what a template's expressions see of the environment.
type Facts = template.EnvFacts

// Known looks up what is known of a resource by its address.
type Known = template.Lookup

// Layout is what there should be. It never changes and may be used concurrently.
type Layout interface {
	// Nodes are the resources, each after what it needs.
	Nodes() []template.Node
	Groups() []template.Part
	// Inputs of a resource, with Secret and Unknown wherever such went in.
	Inputs(ctx context.Context, address string, known Known) (map[string]any, error)
	// Outputs of the whole.
	Outputs(ctx context.Context, known Known) ([]template.Value, error)
	Shown
}

// Shown is what a layout says to people. No address is the whole.
type Shown interface {
	Checks(ctx context.Context, address string, known Known) ([]template.Check, error)
	Links(ctx context.Context, address string, known Known) ([]template.Link, error)
	// Action renders an action's command.
	Action(ctx context.Context, name string, args map[string]any, known Known) (template.Command, error)
}

// Connections opens the server's connections.
type Connections interface {
	Open(ctx context.Context, executor, name string, whose Whose) (executor.Connection, error)
}

// Whose is on whose behalf a connection is opened.
type Whose struct {
	Org, Template string
	Operator      bool // what is made belongs to an operator of the control plane
}

// Approvals opens approvals that policies demand.
type Approvals interface {
	Demand(ctx context.Context, d breaker.Demand) ([]ledger.Count, error)
}

// Finder follows links, as ledger.Finder does.
type Finder interface {
	Reach(ctx context.Context, reach ledger.Reach) ([]ledger.Reached, error)
}
