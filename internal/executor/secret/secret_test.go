package secret_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/droverhq/drover/internal/executor"
	"github.com/droverhq/drover/internal/executor/secret"
	"github.com/droverhq/drover/internal/fault"
)

// The suite of all executors looks at what is outside. Here nothing is: what it asks
// for otherwise is asked for below.

type kept struct {
	executor.Resource
	log  strings.Builder
	fail error
}

func thing(inputs map[string]any) *kept {
	k := &kept{Resource: executor.Resource{ID: "r", Address: "password", Inputs: inputs}}
	k.Log = &k.log
	k.Save = func(_ context.Context, state []byte) error {
		if k.fail != nil {
			return k.fail
		}
		k.State = state
		return nil
	}
	return k
}

func (k *kept) apply(t *testing.T) string {
	t.Helper()
	res, err := secret.New().Apply(t.Context(), k.Resource)
	if err != nil || !res.Done {
		t.Fatal(res, err)
	}
	hidden, ok := res.Outputs["value"].(executor.Secret)
	if !ok {
		t.Fatalf("the value is not wrapped: %T", res.Outputs["value"])
	}
	value := executor.Reveal(hidden).(string)
	if strings.Contains(k.log.String()+fmt.Sprintf("%v %+v %#v", res, res, res), value) {
		t.Error("the secret is told")
	}
	return value
}

func (k *kept) plan(t *testing.T) executor.Change {
	t.Helper()
	c, err := secret.New().Plan(t.Context(), k.Resource)
	if err != nil {
		t.Fatal(err)
	}
	return c
}

func TestMadeOnceAndKept(t *testing.T) {
	k := thing(map[string]any{"encoding": "hex"})
	if c := k.plan(t); c.Action != executor.Create || executor.Whole(c.Outputs["value"]) {
		t.Errorf("the plan of a new one is %+v", c)
	}
	one := k.apply(t)
	if len(one) != 64 {
		t.Errorf("it has %d digits, want 64", len(one))
	}
	if two := k.apply(t); two != one {
		t.Error("to apply twice makes another")
	}
	if c := k.plan(t); c.Action != executor.None || executor.Reveal(c.Outputs["value"]) != one {
		t.Errorf("the plan of one that is there is to %s", c.Action)
	}
	if o, err := secret.New().Observe(t.Context(), k.Resource); err != nil || !o.Exists || len(o.Drift) > 0 {
		t.Errorf("it is seen as %+v, %v", o, err)
	}
	if other := thing(nil).apply(t); other == one {
		t.Error("two are the same")
	}
}

func TestAnotherWordMakesAnother(t *testing.T) {
	k := thing(map[string]any{"turn": "one"})
	before := k.apply(t)
	k.Inputs = map[string]any{"turn": "two"}
	c := k.plan(t)
	if c.Action != executor.Update || c.Fields[0].Path != "turn" {
		t.Errorf("the plan is %+v", c)
	}
	k.Mark = c.Mark
	after := k.apply(t)
	if after == before {
		t.Error("it is still the same")
	}
	if again := k.apply(t); again != after { // the mark has moved by its own hand
		t.Error("a call that was killed makes another")
	}
	k.Inputs = map[string]any{"turn": "three"}
	if _, err := secret.New().Apply(t.Context(), k.Resource); fault.Reason(err) != "moved" {
		t.Errorf("a plan of something else holds: %v", err)
	}
}

func TestWhatCannotBeKeptIsNotTold(t *testing.T) {
	k := thing(nil)
	k.fail = errors.New("the ledger is away")
	res, err := secret.New().Apply(t.Context(), k.Resource)
	if !errors.Is(err, k.fail) || res.Outputs != nil {
		t.Errorf("it goes on: %v, %v", res, err)
	}
}

func TestUnknownIsNotApplied(t *testing.T) {
	k := thing(map[string]any{"turn": executor.Unknown{}})
	if _, err := secret.New().Apply(t.Context(), k.Resource); !fault.Is(err, fault.Invalid) {
		t.Errorf("what is unknown was applied: %v", err)
	}
	k = thing(map[string]any{"turn": executor.NewSecret("x")})
	if _, err := secret.New().Plan(t.Context(), k.Resource); !fault.Is(err, fault.Invalid) {
		t.Errorf("a secret among what everybody reads: %v", err)
	}
}
