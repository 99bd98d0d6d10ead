package offering

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"sync"

	"github.com/droverhq/drover/internal/expr"
	"github.com/droverhq/drover/internal/fault"
	"github.com/droverhq/drover/internal/graph"
)

// Steps are the compiled steps of a file, an offering's or a profile's. They are
// immutable and safe for concurrent use; nil is a file without any.
type Steps struct {
	list      []Step
	templates []*expr.Template
}

// StepBody is a step as whoever applies it gets it.
type StepBody struct {
	Name  string
	Needs []string
	// Body has manifests and ready, with marks where FillSecrets puts the
	// secrets; it is encoded as JSON is on its way, so that its digest is the
	// same on both sides.
	Body json.RawMessage
}

// Secrets of a cluster that steps can name.
const (
	SecretAgent = secretAgent // of its agent's account
	SecretLogin = "login"     // of the client through which people log in to it
)

// Mistaken reports a mistake at a path, some bytes into the text that is there.
type Mistaken func(path []any, offset int, message string)

// stepEnvs are what steps see: cluster, sso and server; and what ready sees.
var stepEnvs = sync.OnceValues(func() ([2]*expr.Env, error) {
	objects := aroundObjects()
	delete(objects, "offering") // a profile's steps serve all of them
	env, err := expr.NewEnv(objects, nil)
	if err == nil {
		env, err = env.WithSecrets(SecretAgent, SecretLogin)
	}
	if err != nil {
		return [2]*expr.Env{}, err
	}
	ready, err := expr.NewEnv(nil, map[string]expr.Type{"objects": expr.List(expr.Dyn)})
	return [2]*expr.Env{env, ready}, err
})

// CompileSteps checks steps and makes them ready to be rendered. Paths begin at
// the list.
func CompileSteps(steps []Step, mistaken Mistaken) *Steps {
	if len(steps) == 0 {
		return nil
	}
	out := &Steps{list: steps, templates: make([]*expr.Template, len(steps))}
	envs, err := stepEnvs()
	if err != nil {
		mistaken(nil, 0, fmt.Sprintf("cannot be used: %v", err))
		return nil
	}
	compile := func(doc any, env *expr.Env, at []any) *expr.Template {
		t, err := expr.Compile(doc, env)
		var problems expr.Problems
		if errors.As(err, &problems) {
			for _, p := range problems {
				mistaken(under(at, p.Path...), p.Offset, p.Message)
			}
		}
		return t
	}
	var wrong expr.Problems
	at := map[string]int{}
	nodes := make([]graph.Node, len(steps))
	for i, s := range steps {
		if !nameForm.MatchString(s.Name) {
			mistaken([]any{i, "name"}, 0, "must be lower-case letters, digits and dashes, such as operator")
		}
		if _, twice := at[s.Name]; !twice {
			at[s.Name] = i
		}
		nodes[i] = graph.Node{Name: s.Name, Needs: s.Needs}
		manifests := make([]any, len(s.Manifests))
		for j, m := range s.Manifests {
			manifests[j] = m
			checkManifest(m, []any{i, "manifests", j}, mistaken)
		}
		if len(manifests) == 0 {
			mistaken([]any{i, "manifests"}, 0, "must have at least one Kubernetes object")
		}
		out.templates[i] = compile(manifests, envs[0], []any{i, "manifests"})
		if s.Ready != "" {
			// It is no text with expressions in it, but one: whoever applies the
			// step evaluates it.
			if _, err := expr.Compile("${"+s.Ready+"}", envs[1]); errors.As(err, &wrong) {
				for _, p := range wrong {
					mistaken([]any{i, "ready"}, max(p.Offset-len("${"), 0), p.Message)
				}
			} else if expr.Skeleton("${"+s.Ready+"}", "") != "" {
				mistaken([]any{i, "ready"}, 0, "must be one expression without ${}, such as objects.all(o, has(o.status))")
			}
		}
	}
	_, err = graph.New(nodes)
	var problems graph.Problems
	if errors.As(err, &problems) {
		for _, p := range problems {
			path := []any{at[p.Node], "name"}
			if p.Need != "" {
				path = []any{at[p.Node], "needs"}
			}
			mistaken(path, 0, p.Message)
		}
	}
	return out
}

// checkManifest reports what no Kubernetes object can be without.
func checkManifest(m map[string]any, at []any, mistaken Mistaken) {
	for _, field := range []string{"apiVersion", "kind"} {
		if s, ok := m[field].(string); !ok || s == "" {
			mistaken(under(at, field), 0, "is required: it is a Kubernetes object")
		}
	}
	metadata, _ := m["metadata"].(map[string]any)
	if s, ok := metadata["name"].(string); !ok || s == "" {
		mistaken(under(at, "metadata", "name"), 0, "is required: it is a Kubernetes object")
	}
}

// Names of the steps, in the order of the file.
func (s *Steps) Names() []string {
	if s == nil {
		return nil
	}
	out := make([]string, len(s.list))
	for i, step := range s.list {
		out[i] = step.Name
	}
	return out
}

// Render makes the steps for a cluster, in the order of the file.
func (s *Steps) Render(ctx context.Context, around Surroundings) ([]StepBody, error) {
	if s == nil {
		return nil, nil
	}
	vars := map[string]any{"cluster": &around.Cluster, "sso": &around.SSO, "server": &around.Server}
	out := make([]StepBody, len(s.list))
	for i, step := range s.list {
		v, err := s.templates[i].Render(ctx, vars)
		if err != nil {
			return nil, fmt.Errorf("cannot make step %s: %w", step.Name, err)
		}
		body := map[string]any{"manifests": marked(v)}
		if step.Ready != "" {
			body["ready"] = step.Ready
		}
		encoded, err := json.Marshal(body)
		if err != nil {
			return nil, fault.New(fault.Internal, "cannot encode step %s: %w", step.Name, err)
		}
		out[i] = StepBody{Name: step.Name, Needs: step.Needs, Body: encoded}
	}
	return out, nil
}

// Steps that make a cluster fit for the offering.
func (o *Offering) Steps() *Steps { return o.steps }

func (f file) compileSteps(o *Offering) {
	o.steps = CompileSteps(o.Spec.Steps, func(path []any, offset int, message string) {
		f.Inside(under([]any{"spec", "steps"}, path...), offset, message)
	})
}
