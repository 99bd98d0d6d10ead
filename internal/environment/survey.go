package environment

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"sync"

	"github.com/droverhq/drover/internal/executor"
	"github.com/droverhq/drover/internal/fault"
	"github.com/droverhq/drover/internal/ledger"
	"github.com/droverhq/drover/internal/template"
)

// survey is what a plan would do now.
type survey struct {
	changes  []PlannedChange
	verdicts []Verdict
	hash     string
}

// plansAtOnce bounds the executors' plans under way for one survey.
const plansAtOnce = 16

// survey asks every executor, and touches nothing. Its error tells everything that
// is in the way.
func (s *Service) survey(ctx context.Context, p Plan) (survey, error) {
	there, err := s.resources(ctx, p.Spec.ID, false)
	if err != nil {
		return survey{}, err
	}
	var out survey
	b, err := s.Templates.Blueprint(ctx, p.Spec.Version)
	if err != nil {
		return out, err
	}
	if p.Spec.Destroy {
		for _, r := range reversed(there) {
			out.changes = append(out.changes, removal(r, "the environment is destroyed"))
		}
	} else if out.changes, err = s.ask(ctx, p, there); err != nil {
		return out, err
	}
	judged := tangible(out.changes, there)
	if out.verdicts, err = b.Judge(ctx, p, judged); err != nil {
		return out, err
	}
	present, err := s.present(ctx, p, judged)
	if err != nil {
		return out, err
	}
	out.verdicts = slices.Concat(protect(judged), out.verdicts, present)
	out.hash, err = hash(p.Spec, out.changes)
	return out, err
}

// tangible leaves out removals of what was never made: nothing is lost by them, and
// nobody has to agree.
func tangible(changes []PlannedChange, there []Resource) []PlannedChange {
	nothing := map[string]bool{}
	for i := range there {
		nothing[there[i].ID] = there[i].untouched()
	}
	return slices.DeleteFunc(slices.Clone(changes), func(c PlannedChange) bool { return c.Action == executor.Remove && nothing[c.ID] })
}

// present asks the version that an environment has what a plan with another one does
// to what is there: a version that says less is no way around it.
func (s *Service) present(ctx context.Context, p Plan, changes []PlannedChange) ([]Verdict, error) {
	o, err := s.Store.Get(ctx, ledger.Ref{Kind: Kind.Name, ID: p.Spec.ID})
	if fault.Is(err, fault.NotFound) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	e, err := Decode(o)
	if err != nil || e.Spec.Turn == 0 || e.Spec.Version == p.Spec.Version {
		return nil, err
	}
	b, err := s.Templates.Blueprint(ctx, e.Spec.Version)
	if fault.Is(err, fault.NotFound) || fault.Is(err, fault.Invalid) {
		return []Verdict{{Policy: "present", Effect: approve, Message: fmt.Sprintf("the policies of %s, which it has now, cannot be asked: %s", e.Spec.Version, err)}}, nil
	}
	if err != nil {
		return nil, err
	}
	return b.Judge(ctx, p, slices.DeleteFunc(slices.Clone(changes), func(c PlannedChange) bool { return c.Action == executor.Create }))
}

// reversed lists resources so that each stands before what it needs.
func reversed(all []Resource) []Resource {
	at := make(map[string]int, len(all))
	for i, r := range all {
		at[r.ID] = i
	}
	depth := make([]int, len(all))
	var visit func(i int) int
	visit = func(i int) int {
		if depth[i] != 0 {
			return depth[i] // what is under way counts as a root: there are no cycles in the ledger
		}
		depth[i] = 1
		for _, need := range all[i].Spec.Needs {
			if j, ok := at[need]; ok {
				depth[i] = max(depth[i], visit(j)+1)
			}
		}
		return depth[i]
	}
	order := make([]int, len(all))
	for i := range all {
		visit(i)
		order[i] = i
	}
	slices.SortStableFunc(order, func(a, b int) int { return depth[b] - depth[a] })
	out := make([]Resource, len(all))
	for i, j := range order {
		out[i] = all[j]
	}
	return out
}

// asking is one survey under way.
type asking struct {
	*Service
	sheet *sheet
	of    Facts
	// operator: it is made for an operator of the control plane.
	operator bool
	there    map[string]*Resource // by id

	mu       sync.Mutex
	known    map[string]template.Known // by address
	problems []string
	kind     fault.Kind
	failed   map[string]bool // by address: it or what it needs
	taken    [][]string      // by node
}

// ask plans the nodes wave by wave, each with what those before it will tell, and
// then what is there and in no layout any more.
func (s *Service) ask(ctx context.Context, p Plan, there []Resource) ([]PlannedChange, error) {
	sh, err := s.sheet(ctx, p.Spec.Version, p.Spec.Parameters, p.facts())
	if err != nil {
		return nil, err
	}
	a := &asking{Service: s, sheet: sh, of: p.facts(), operator: p.Spec.Operator, there: make(map[string]*Resource, len(there)),
		known: make(map[string]template.Known, len(sh.nodes)), failed: map[string]bool{}, taken: make([][]string, len(sh.nodes))}
	for i := range there {
		a.there[there[i].ID] = &there[i]
	}
	changes := make([]PlannedChange, len(sh.nodes))
	for _, wave := range waves(sh.depth) {
		if err := a.wave(ctx, wave, changes); err != nil {
			return nil, err
		}
	}
	a.clashes()
	if len(a.problems) > 0 {
		return nil, fault.New(a.kind, "%s", sentences(a.problems, 20))
	}
	var gone []Resource
	for _, r := range there {
		if _, stays := sh.byID[r.ID]; !stays {
			gone = append(gone, r)
		}
	}
	for _, r := range reversed(gone) {
		changes = append(changes, removal(r, "the template has it no longer"))
	}
	return changes, nil
}

// waves groups nodes by depth.
func waves(depth []int) (out [][]int) {
	for i, d := range depth {
		for len(out) <= d {
			out = append(out, nil)
		}
		out[d] = append(out[d], i)
	}
	return out
}

// wave plans nodes that do not need each other. It starts at most plansAtOnce
// goroutines and waits for them.
func (a *asking) wave(ctx context.Context, wave []int, changes []PlannedChange) error {
	next := make(chan int)
	var workers sync.WaitGroup
	for range min(plansAtOnce, len(wave)) {
		workers.Go(func() {
			for i := range next {
				changes[i] = a.node(ctx, i)
			}
		})
	}
	for _, i := range wave {
		next <- i
	}
	close(next)
	workers.Wait()
	return ctx.Err()
}

func (a *asking) look(address string) (template.Known, bool) {
	a.mu.Lock()
	defer a.mu.Unlock()
	k, ok := a.known[address]
	return k, ok
}

func (a *asking) fail(n template.Node, err error) PlannedChange {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.failed[n.Address] = true
	if err != nil {
		a.problems = append(a.problems, about(n.Address, err))
		if k := fault.Of(err); len(a.problems) == 1 || a.kind == fault.Unavailable {
			a.kind = k
		}
	}
	return PlannedChange{}
}

// node plans one. What needs one that could not be planned is not asked about.
func (a *asking) node(ctx context.Context, i int) PlannedChange {
	n := a.sheet.nodes[i]
	a.mu.Lock()
	stuck := slices.ContainsFunc(n.Needs, func(need string) bool { return a.failed[need] })
	a.mu.Unlock()
	if stuck {
		return a.fail(n, nil)
	}
	inputs, err := a.sheet.Inputs(ctx, n.Address, a.look)
	if err != nil {
		return a.fail(n, err)
	}
	on := subjectOf(a.sheet, n, a.of)
	on.there, on.inputs, on.operator = a.there[on.id], inputs, a.operator
	c, err := a.call(ctx, on)
	if err != nil {
		return a.fail(n, err)
	}
	c.resource.Files = a.files(a.sheet.about.ID, n.Template)
	var change executor.Change
	err = c.do(ctx, true, func(ctx context.Context, r executor.Resource) (err error) {
		change, err = c.Plan(ctx, r)
		return err
	})
	if err != nil {
		return a.fail(n, a.holder(ctx, on, err))
	}
	a.taken[i] = change.Takes
	d := c.about
	outputs := hide(foreseen(change, c.resource.Outputs, d), d, n.Secret)
	a.mu.Lock()
	a.known[n.Address] = template.Known{Outputs: outputs}
	a.mu.Unlock()
	return decide(n, on.id, change, inputs, veilOf(append(c.known, outputs)...))
}

// count fills in what a plan does to how many.
func (s *PlanStatus) count(changes []PlannedChange) {
	s.Creates, s.Updates, s.Replaces, s.Destroys, s.Same = 0, 0, 0, 0, 0
	for _, c := range changes {
		switch c.Action {
		case executor.Create:
			s.Creates++
		case executor.Update:
			s.Updates++
		case executor.Replace:
			s.Replaces++
		case executor.Remove:
			s.Destroys++
		default:
			s.Same++
		}
	}
}

// found writes a survey into a plan.
func (s *Service) found(ctx context.Context, p *Plan, f survey) error {
	raw, err := json.Marshal(f.changes)
	if err != nil {
		return fault.New(fault.Internal, "cannot keep the changes: %w", err)
	}
	if p.Status.Changes, err = s.Keeper.PutBlob(ctx, raw); err != nil {
		return err
	}
	p.Status.Hash, p.Status.Verdicts = f.hash, f.verdicts[:min(len(f.verdicts), maxVerdicts)]
	p.Status.count(f.changes)
	p.Status.Made = s.Now().UTC()
	p.Status.Message = fmt.Sprintf("%d to create, %d to change, %d to replace, %d to destroy, %d as they are",
		p.Status.Creates, p.Status.Updates, p.Status.Replaces, p.Status.Destroys, p.Status.Same)
	return nil
}

// maxVerdicts is how many an object has room for; what they mean together is in
// the plan's phase and message.
const maxVerdicts = 100
