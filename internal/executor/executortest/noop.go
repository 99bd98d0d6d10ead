package executortest

import (
	"context"

	"github.com/droverhq/drover/internal/executor"
	"github.com/droverhq/drover/internal/expr"
)

// Noop is an executor that has no effect: what a resource is given as "value" is
// its output. It remembers nothing, so that a bench measures its caller alone.
type Noop struct{}

// Describe implements executor.Executor.
func (Noop) Describe() executor.Description {
	return executor.Description{
		Summary: "does nothing",
		Inputs: map[string]any{
			"type": "object", "additionalProperties": false,
			"properties": map[string]any{"value": map[string]any{"description": "becomes the output"}},
		},
		Outputs: map[string]executor.Output{
			"id":    {Type: expr.String, Summary: "id of the resource"},
			"value": {Type: expr.Dyn, Summary: "what was given"},
		},
		AtOnce: 1 << 10,
	}
}

// Plan implements executor.Executor.
func (n Noop) Plan(_ context.Context, r executor.Resource) (executor.Change, error) {
	c := executor.Change{Action: executor.None, Outputs: outputs(r), Mark: "noop"}
	if r.Outputs == nil {
		c.Action, c.Why = executor.Create, "it is new"
	}
	return c, nil
}

// Apply implements executor.Executor.
func (n Noop) Apply(_ context.Context, r executor.Resource) (executor.Result, error) {
	return executor.Result{Done: true, Outputs: outputs(r)}, nil
}

// Observe implements executor.Executor.
func (Noop) Observe(_ context.Context, r executor.Resource) (executor.Observation, error) {
	return executor.Observation{Exists: r.Outputs != nil, Mark: "noop"}, nil
}

// Destroy implements executor.Executor.
func (Noop) Destroy(context.Context, executor.Resource) (executor.Result, error) {
	return executor.Result{Done: true}, nil
}

func outputs(r executor.Resource) map[string]any {
	return map[string]any{"id": r.ID, "value": r.Inputs["value"]}
}
