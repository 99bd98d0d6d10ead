package executortest

import (
	"crypto/sha256"
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/droverhq/drover/internal/executor"
	"github.com/droverhq/drover/internal/fault"
	"github.com/droverhq/drover/internal/schema"
)

func described(t *testing.T, b *bench) {
	d := b.Executor.Describe()
	if d.Summary == "" || strings.Contains(d.Summary, "\n") {
		t.Errorf("the summary is %q, want one line", d.Summary)
	}
	if _, err := schema.Compile(d.Inputs); err != nil {
		t.Errorf("the schema of its inputs is none: %v", err)
	}
	for name, o := range d.Outputs {
		if o.Type == nil || o.Summary == "" {
			t.Errorf("output %q has no type, or no summary", name)
		}
	}
	if again := b.Executor.Describe(); again.Summary != d.Summary || len(again.Outputs) != len(d.Outputs) {
		t.Error("what it says of itself changes")
	}
}

func planTouchesNothing(t *testing.T, b *bench) {
	x := b.thing(Plain)
	before := b.Look(t)
	c := x.plan(t)
	if c.Action != executor.Create || c.Why == "" || c.Mark == "" {
		t.Errorf("the plan for something new is %+v", c)
	}
	b.look(t, "after a plan", before)
	if again := x.plan(t); again.Mark != c.Mark {
		t.Errorf("the mark is %q and then %q, and nothing has moved", c.Mark, again.Mark)
	}
	if o := x.observe(t); o.Exists {
		t.Error("what was only planned is there")
	}
	b.look(t, "after a look at it", before)
}

func created(t *testing.T, b *bench) {
	x := b.thing(Plain)
	c := x.plan(t)
	before := b.Look(t)
	x.r.Mark = c.Mark
	res := x.apply(t)
	if len(res.Made) == 0 {
		t.Error("it does not say what it has made")
	}
	if len(b.Look(t)) <= len(before) {
		t.Error("nothing was made")
	}
	d := b.Executor.Describe()
	for name := range d.Outputs {
		if v, ok := res.Outputs[name]; ok && !executor.Whole(v) {
			t.Errorf("output %q is unknown once it is there", name)
		}
	}
	for name, v := range res.Outputs {
		if _, ok := d.Outputs[name]; !ok && !d.Open {
			t.Errorf("output %q is not described", name)
		}
		if _, ok := v.(executor.Secret); d.Outputs[name].Secret && !ok {
			t.Errorf("output %q is secret, and is not wrapped", name)
		}
		if p, ok := c.Outputs[name]; ok && executor.Whole(p) && fmt.Sprint(executor.Reveal(p)) != fmt.Sprint(executor.Reveal(v)) {
			t.Errorf("output %q was foreseen as %v, and is %v", name, p, v)
		}
	}
	x.sound(t, "after it was made")
	x.destroy(t)
}

func changed(t *testing.T, b *bench) {
	x := b.thing(Plain)
	if b.Inputs(x.n, Changed) == nil {
		return
	}
	x.apply(t)
	before := b.Look(t)
	c := x.shape(Changed).plan(t)
	if c.Action != executor.Update || len(c.Fields) == 0 || c.Why == "" {
		t.Errorf("the plan for a change is %+v", c)
	}
	if slices.ContainsFunc(c.Fields, func(f executor.Field) bool { return f.Forces || f.Path == "" }) {
		t.Errorf("a change in place has fields %+v", c.Fields)
	}
	b.look(t, "after a plan", before)
	x.r.Mark = c.Mark
	x.apply(t)
	x.sound(t, "after the change")
	x.destroy(t)
}

func replaced(t *testing.T, b *bench) {
	x := b.thing(Plain)
	if b.Inputs(x.n, Moved) == nil {
		return
	}
	before := b.Look(t)
	x.apply(t)
	c := x.shape(Moved).plan(t)
	if c.Action != executor.Replace || !slices.ContainsFunc(c.Fields, func(f executor.Field) bool { return f.Forces }) {
		t.Errorf("the plan for what cannot be changed is %+v", c)
	}
	x.r.Mark = c.Mark
	x.apply(t)
	x.sound(t, "after it was replaced")
	x.destroy(t)
	b.look(t, "after what was replaced was destroyed", before)
}

func unknown(t *testing.T, b *bench) {
	for _, there := range []bool{false, true} {
		x := b.thing(Plain)
		if b.Inputs(x.n, Later) == nil {
			return
		}
		want := executor.Create
		if there {
			x.apply(t)
			want = executor.Update
		}
		before := b.Look(t)
		c := x.shape(Later).plan(t)
		if c.Action != want && (!there || c.Action != executor.Replace) {
			t.Errorf("there %v: the plan is to %s, want %s", there, c.Action, want)
		}
		if !slices.ContainsFunc(c.Fields, func(f executor.Field) bool { return !executor.Whole(f.After) }) {
			t.Errorf("there %v: no field is unknown: %+v", there, c.Fields)
		}
		if _, err := x.try(t.Context()); !fault.Is(err, fault.Invalid) {
			t.Errorf("there %v: what is unknown was applied: %v", there, err)
		}
		b.look(t, "after it was refused", before)
		x.shape(Plain).destroy(t)
	}
}

// spoken is how secrets leave: as they are, encoded, or as a digest that can be
// guessed from.
func spoken() []string {
	sum := sha256.Sum256([]byte(Canary))
	return []string{
		Canary, hex.EncodeToString([]byte(Canary)), base64.StdEncoding.EncodeToString([]byte(Canary))[:len(Canary)],
		hex.EncodeToString(sum[:]), base64.StdEncoding.EncodeToString(sum[:]),
	}
}

func hush(t testing.TB, what string, v any) {
	t.Helper()
	data, err := json.Marshal(v)
	if err != nil {
		t.Fatalf("%s: %v", what, err)
	}
	text := string(data) + fmt.Sprintf("%v %+v %#v", v, v, v)
	for _, word := range spoken() {
		if strings.Contains(text, word) {
			t.Errorf("%s tells the secret: %s", what, text)
			return
		}
	}
}

func veiled(t *testing.T, b *bench) {
	x := b.thing(Veiled)
	if x.r.Inputs == nil {
		return
	}
	hush(t, "the plan", x.plan(t))
	res := x.apply(t)
	hush(t, "the result", res)
	x.sound(t, "with a secret")
	hush(t, "the observation", x.observe(t))
	if b.Inputs(x.n, Changed) != nil {
		hush(t, "the plan of a change", x.shape(Changed).plan(t))
	}
	x.shape(Veiled)
	if b.Edit != nil {
		b.Edit(t, x.n)
		o := x.observe(t)
		if len(o.Drift) == 0 {
			t.Error("a changed secret is no drift")
		}
		hush(t, "the drift", o)
		hush(t, "the plan after somebody has changed it", x.plan(t))
		x.apply(t)
		x.sound(t, "after it was corrected")
	}
	if b.Down != nil {
		up := b.Down(t)
		_, err := x.try(t.Context())
		hush(t, "the error", fmt.Sprint(err))
		up()
	}
	if b.Take != nil {
		y := b.thing(Veiled)
		b.Take(t, y.n)
		_, err := y.try(t.Context())
		hush(t, "the refusal", fmt.Sprint(err))
		b.Delete(t, y.n)
		hush(t, "the log of a refusal", y.log.String())
	}
	x.destroy(t)
	hush(t, "the log", x.log.String())
}
