package environment_test

import (
	"context"
	"encoding/json"
	"fmt"
	"regexp"
	"strings"
	"time"

	"github.com/droverhq/drover/internal/environment"
	"github.com/droverhq/drover/internal/executor"
	"github.com/droverhq/drover/internal/expr"
	"github.com/droverhq/drover/internal/fault"
	"github.com/droverhq/drover/internal/ledger"
)

// thing is what the forge has made.
type thing struct {
	inputs string // as JSON, secrets revealed
	rev    int
}

// forge is an executor that makes things in memory, and checks whether it should
// have been asked to.
type forge struct {
	w       *world
	made    map[string]thing // by id
	saved   map[string]string
	effects []string          // "make a", "unmake a"
	tried   []string          // addresses, once for each call that is to make one
	trouble map[string]string // by address: what goes wrong
	slow    map[string]int    // by address: calls until it is done
	links   map[string]string // by address: the object that it stands for
	// meanwhile happens while the next ones are being made.
	meanwhile []func()
}

// byHand is what somebody else has made of a thing.
const byHand = "somebody's hand"

func canary(id string) string { return "canary-" + id + "-secret" }

func (f *forge) Describe() executor.Description {
	return executor.Description{Summary: "makes things", Outputs: map[string]executor.Output{
		"url": {Type: expr.String}, "token": {Type: expr.String, Secret: true},
	}}
}

func asked(r executor.Resource) string {
	raw, err := json.Marshal(executor.Reveal(any(r.Inputs)))
	if err != nil {
		panic(err)
	}
	return string(raw)
}

func (f *forge) outputs(r executor.Resource) map[string]any {
	return map[string]any{"url": "http://" + r.Address, "token": executor.NewSecret(canary(r.ID))}
}

func mark(t thing, there bool) string {
	if !there {
		return "nothing"
	}
	return fmt.Sprint("rev", t.rev)
}

func (f *forge) wrong(r executor.Resource) error {
	switch f.trouble[r.Address] {
	case "away":
		return fault.New(fault.Unavailable, "the forge is away, with %s", secretOf(r))
	case "invalid":
		return fault.New(fault.Invalid, "it cannot be made like that, with %s", secretOf(r))
	case "broken":
		return fmt.Errorf("it broke, with %s", secretOf(r))
	case "denied":
		return fault.New(fault.Denied, "the forge says no")
	}
	return nil
}

// secretOf is a secret that the executor was given, to be struck out of what it says.
func secretOf(r executor.Resource) string {
	for _, v := range r.Inputs {
		if s, ok := v.(executor.Secret); ok {
			return fmt.Sprint(executor.Reveal(s))
		}
	}
	return "nothing"
}

func (f *forge) Plan(_ context.Context, r executor.Resource) (executor.Change, error) {
	if err := f.wrong(r); err != nil && f.trouble[r.Address] == "away" {
		return executor.Change{}, fault.New(fault.Unavailable, "the forge is away")
	}
	t, there := f.made[r.ID]
	c := executor.Change{Mark: mark(t, there), Outputs: f.outputs(r)}
	switch {
	case !there:
		c.Action, c.Why = executor.Create, "it is not there"
		c.Outputs = map[string]any{"url": executor.Unknown{}, "token": executor.Unknown{}}
	case !executor.Whole(r.Inputs) || t.inputs != asked(r):
		c.Action, c.Why = executor.Update, "it is "+f.tells(r.ID, t.inputs)
		c.Fields = []executor.Field{{Path: "inputs", Before: f.tells(r.ID, t.inputs), After: any(r.Inputs)}}
	default:
		c.Action = executor.None
	}
	return c, nil
}

var canaries = regexp.MustCompile("canary-[a-z0-9]+-secret")

// tells shows what a thing was made with, secrets and all, as no executor should:
// but for those that nobody but itself can know of, since the process was killed
// before it was told.
func (f *forge) tells(id, inputs string) string {
	o, err := f.w.store.Ledger.Get(context.Background(), ledger.Ref{Kind: "resource", ID: id})
	if err != nil {
		return canaries.ReplaceAllString(inputs, executor.Hidden)
	}
	r, err := environment.DecodeResource(o)
	f.w.must(err)
	var kept []byte
	if r.Status.Sealed != "" {
		kept, err = f.w.store.Unseal(context.Background(), r.Status.Sealed)
		f.w.must(err)
	}
	return canaries.ReplaceAllStringFunc(inputs, func(secret string) string {
		if strings.Contains(string(kept), secret) {
			return secret
		}
		return executor.Hidden
	})
}

func (f *forge) Apply(ctx context.Context, r executor.Resource) (executor.Result, error) {
	f.mayMake(r)
	f.tried = append(f.tried, r.Address)
	fmt.Fprintf(r.Log, "making %s with %v\nits secret is %s\n", r.Address, executor.Reveal(any(r.Inputs)), secretOf(r))
	if err := f.wrong(r); err != nil {
		return executor.Result{}, err
	}
	if len(f.meanwhile) > 0 {
		happens := f.meanwhile[0]
		f.meanwhile = f.meanwhile[1:]
		happens()
	}
	t, there := f.made[r.ID]
	if r.Mark != "" && mark(t, there) != r.Mark && t.inputs != asked(r) && string(r.State) != "busy "+r.Mark {
		return executor.Result{}, fault.New(fault.Conflict, "it is %s, and was %s", mark(t, there), r.Mark).Because("moved")
	}
	if got := string(r.State); got != f.saved[r.ID] {
		f.w.t.Fatalf("%s has forgotten its state: %q, saved %q", r.Address, got, f.saved[r.ID])
	}
	if err := f.save(ctx, r, "busy "+r.Mark); err != nil {
		return executor.Result{}, err
	}
	if f.slow[r.Address] > 0 {
		f.slow[r.Address]--
		return executor.Result{Message: "it takes a while, " + secretOf(r), After: time.Second}, nil
	}
	if want := asked(r); !there || t.inputs != want {
		f.w.store.around(func() {
			f.made[r.ID] = thing{want, t.rev + 1}
			f.effects = append(f.effects, "make "+r.Address)
		})
	}
	if err := f.save(ctx, r, "made"); err != nil {
		return executor.Result{}, err
	}
	result := executor.Result{Done: true, Outputs: f.outputs(r), Made: []string{"a thing of " + secretOf(r)}}
	if end := f.links[r.Address]; end != "" {
		result.Links = []executor.Link{{Rel: "object", URL: end}}
	}
	return result, nil
}

// save remembers what was kept for certain.
func (f *forge) save(ctx context.Context, r executor.Resource, state string) error {
	if f.saved[r.ID] == state {
		return nil
	}
	before := f.saved[r.ID]
	f.saved[r.ID] = "?" // a kill leaves either
	err := r.Save(ctx, []byte(state))
	if err != nil {
		f.saved[r.ID] = before
		return err
	}
	f.saved[r.ID] = state
	return nil
}

func (f *forge) Observe(_ context.Context, r executor.Resource) (executor.Observation, error) {
	t, there := f.made[r.ID]
	return executor.Observation{Exists: there, Mark: mark(t, there)}, f.wrong(r)
}

func (f *forge) Destroy(_ context.Context, r executor.Resource) (executor.Result, error) {
	f.mayUnmake(r)
	if err := f.wrong(r); err != nil {
		return executor.Result{}, err
	}
	if t, there := f.made[r.ID]; there {
		// Killed before it was told, what was made last is only in the executor's state.
		if t.inputs != asked(r) && t.inputs != byHand && len(r.Inputs) > 0 && !strings.Contains(string(r.State), "busy") && f.w.store.crashes == 0 {
			f.w.t.Fatalf("%s is to go as %s, and was made as %s", r.Address, asked(r), t.inputs)
		}
		f.w.store.around(func() {
			delete(f.made, r.ID)
			f.effects = append(f.effects, "unmake "+r.Address)
		})
	}
	return executor.Result{Done: true}, nil
}

// look reads a resource past all caches.
func (f *forge) look(id string) environment.Resource {
	o, err := f.w.store.Ledger.Get(context.Background(), ledger.Ref{Kind: "resource", ID: id})
	if err != nil {
		f.w.t.Fatalf("an effect without its resource in the ledger: %v", err)
	}
	r, err := environment.DecodeResource(o)
	f.w.must(err)
	return r
}

// mayMake: everything that it needs is ready in its turn.
func (f *forge) mayMake(r executor.Resource) {
	if saved := f.saved[r.ID]; saved == "?" {
		f.saved[r.ID] = string(r.State)
	}
	me := f.look(r.ID)
	if !me.Deleted.IsZero() || me.Spec.Absent {
		return // it was decided a moment ago: what comes of it is not written
	}
	for _, id := range me.Spec.Needs {
		need := f.look(id)
		if need.Phase != environment.Ready || need.Status.Turn != need.Spec.Turn || f.made[id].inputs == "" {
			f.w.t.Fatalf("%s is made, and %s, which it needs, is %s", r.Address, need.Spec.Address, need.Phase)
		}
	}
}

// mayUnmake: nothing that needs it is there.
func (f *forge) mayUnmake(r executor.Resource) {
	me := f.look(r.ID)
	if !me.Spec.Absent {
		return
	}
	for _, id := range me.Spec.Needed {
		user := f.look(id)
		for _, need := range user.Spec.Needs {
			if need == r.ID && user.Deleted.IsZero() {
				f.w.t.Fatalf("%s is taken away, and %s, which needs it, is %s", r.Address, user.Spec.Address, user.Phase)
			}
		}
	}
	f.saved[r.ID] = "?" // a kill leaves what was saved, and the end of it nothing
}
