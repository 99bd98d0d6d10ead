package environment_test

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/droverhq/drover/internal/environment"
	"github.com/droverhq/drover/internal/executor"
	"github.com/droverhq/drover/internal/fault"
	"github.com/droverhq/drover/internal/ledger"
	"github.com/droverhq/drover/internal/template"
)

// garden is a forge whose things can be looked at, beside which others grow.
type garden struct {
	*forge
	weeds []executor.Stray
	looks int
	stiff bool // what differs cannot be changed in place
}

func (g *garden) Plan(ctx context.Context, r executor.Resource) (executor.Change, error) {
	c, err := g.forge.Plan(ctx, r)
	if g.stiff && c.Action == executor.Update {
		c.Action = executor.Replace
	}
	return c, err
}

func (g *garden) Observe(_ context.Context, r executor.Resource) (executor.Observation, error) {
	g.looks++
	if g.trouble[r.Address] == "away" {
		return executor.Observation{}, fault.New(fault.Unavailable, "the forge is away, with %s", secretOf(r))
	}
	t, there := g.made[r.ID]
	o := executor.Observation{Exists: there, Mark: mark(t, there)}
	if there && t.inputs != asked(r) {
		o.By, o.Drift = "mallory", []executor.Field{{Path: "inputs", Before: any(r.Inputs), After: t.inputs + secretOf(r)}}
	}
	return o, nil
}

func (g *garden) List(context.Context, []executor.Resource) ([]executor.Stray, error) {
	if g.trouble["list"] != "" {
		return nil, fault.New(fault.Unavailable, "it cannot be listed")
	}
	return g.weeds, nil
}

// plant is a world whose things can be looked at.
func plant(t *testing.T) (*world, *garden) {
	return plantAs(t, func(g *garden) executor.Executor { return g })
}

func plantAs(t *testing.T, kind func(*garden) executor.Executor) (*world, *garden) {
	w := newWorld(t, t.TempDir())
	g := &garden{forge: w.forge}
	w.forge.trouble = map[string]string{}
	w.configs = append(w.configs, func(c *environment.Config) { c.Executors["forge"] = kind(g) })
	w.open()
	t.Cleanup(func() { w.store.Close() })
	return w, g
}

// byHandOf changes a thing behind everybody's back.
func (g *garden) spoil(r environment.Resource) {
	g.made[r.ID] = thing{byHand, g.made[r.ID].rev + 1}
}

func (w *world) look(e environment.Environment) environment.Environment {
	w.t.Helper()
	_, err := w.s.Observe(alice, e.ID)
	w.must(err)
	w.work(10 * time.Second)
	e = w.env(e.ID)
	if e.Status.Looked != e.Spec.Look {
		w.t.Fatalf("it was not looked at: %d of %d", e.Status.Looked, e.Spec.Look)
	}
	return e
}

func (w *world) drifts(e environment.Environment) map[string][]environment.Drift {
	w.t.Helper()
	found, err := w.store.Ledger.List(context.Background(), ledger.Query{Kind: "drift", Limit: 1000})
	w.must(err)
	out := map[string][]environment.Drift{}
	for _, o := range found {
		d, err := environment.DecodeDrift(o)
		w.must(err)
		if d.Fields["environment"] == e.ID {
			out[d.Spec.Address] = append(out[d.Spec.Address], d)
		}
	}
	return out
}

func drifting(policies map[string]string, text ...string) *stencil {
	st := shop(text...)
	st.nodes = func(map[string]any) []template.Node {
		nodes := chain(text...)
		for i := range nodes {
			nodes[i].Drift = policies[nodes[i].Address]
		}
		return nodes
	}
	return st
}

// What differs is told, with its history; what cannot be looked at is not gone.
func TestDriftIsReported(t *testing.T) {
	w, g := plant(t)
	w.add("1", drifting(map[string]string{"quiet": "ignore"}, "db", "web<db", "quiet"))
	e := w.look(w.up("staging", nil))
	if got := w.resources(e.ID)["web"].Status.Seen; got != environment.SeenPresent || e.Status.Counts.Drifted != 0 {
		t.Fatalf("what is as it should be is %s, drifted %d", got, e.Status.Counts.Drifted)
	}
	all := w.resources(e.ID)
	g.spoil(all["web"])
	g.spoil(all["quiet"])
	delete(g.made, all["db"].ID)
	e = w.look(e)
	found := w.drifts(e)
	if len(found["web"]) != 1 || found["web"][0].Phase != "open" || found["web"][0].Spec.What != "drifted" || found["web"][0].Spec.By != "mallory" ||
		found["db"][0].Spec.What != "absent" || len(found["quiet"]) != 0 || e.Status.Counts.Drifted != 2 {
		t.Fatalf("records: %+v, counted %d", found, e.Status.Counts.Drifted)
	}
	first := found["web"][0].Spec.First
	g.trouble["web"], g.trouble["db"] = "away", "away"
	e = w.look(e)
	for _, name := range []string{"web", "db"} {
		r := w.resources(e.ID)[name]
		if r.Status.Seen != environment.SeenUnknown || r.Status.Why == "" || w.drifts(e)[name][0].Phase != "open" || len(r.Status.Drift) == 0 {
			t.Errorf("%s could not be looked at, and is %s (%s)", name, r.Status.Seen, r.Status.Why)
		}
	}
	clear(g.trouble)
	g.made[all["web"].ID] = thing{asked(executor.Resource{Inputs: map[string]any{"size": nil, "name": "web", "from-db": canary(all["db"].ID)}}), 9}
	e = w.look(e)
	found = w.drifts(e)
	if d := found["web"][0]; d.Phase != "gone" || !d.Spec.First.Equal(first) || d.Spec.Ended.IsZero() || found["db"][0].Phase != "open" || e.Status.Counts.Drifted != 1 {
		t.Errorf("it is as expected again: %+v; counted %d", d.Spec, e.Status.Counts.Drifted)
	}
	if e.Phase != environment.OK || len(w.forge.effects) != 3 {
		t.Errorf("reporting changed something: %s, %v", e.Phase, w.forge.effects)
	}
	w.hidesSecrets()
}

// At rest nothing is written, however often it is looked at.
func TestRestCostsNoWrites(t *testing.T) {
	w, g := plant(t)
	w.add("1", shop("db", "web<db"))
	w.up("staging", nil)
	w.work(20 * time.Minute)
	looks, puts := g.looks, w.store.puts
	w.work(3 * time.Hour)
	if g.looks-looks < 50 || w.store.puts != puts {
		t.Errorf("%d looks made %d writes", g.looks-looks, w.store.puts-puts)
	}
}

// A correction is applied again and told; two who fight are told so.
func TestDriftIsCorrected(t *testing.T) {
	w, g := plant(t)
	w.add("1", drifting(map[string]string{"db": "correct"}, "db", "web<db"))
	e := w.up("staging", nil)
	db := w.resources(e.ID)["db"]
	turn := e.Spec.Turn
	for i := range 3 {
		g.spoil(db)
		e = w.look(e)
		r := w.resources(e.ID)["db"]
		if found := w.drifts(e)["db"]; len(found) != i+1 || found[i].Phase != "corrected" || g.made[db.ID].inputs == byHand || r.Phase != environment.Ready {
			t.Fatalf("correction %d: %+v, %s", i+1, found, r.Phase)
		}
	}
	g.spoil(db)
	e = w.look(e)
	if r := w.resources(e.ID)["db"]; g.made[db.ID].inputs != byHand || !strings.Contains(r.Status.Message, "somebody else writes it") || r.Phase != environment.Ready {
		t.Fatalf("two who fight are not held: %s %q", r.Phase, r.Status.Message)
	}
	w.work(2 * time.Hour)
	e = w.env(e.ID)
	if r := w.resources(e.ID)["db"]; g.made[db.ID].inputs == byHand || r.Status.Message != "" || e.Status.Counts.Drifted != 0 {
		t.Errorf("an hour later it is not corrected: %q, drifted %d", r.Status.Message, e.Status.Counts.Drifted)
	}
	if e.Spec.Turn != turn || e.Phase != environment.OK {
		t.Errorf("a correction moved the environment: turn %d, %s", e.Spec.Turn, e.Phase)
	}
	w.hidesSecrets()
}

// A kill anywhere around a correction leaves it corrected and told once.
// A plan that something has moved before names what did, and nothing else.
func TestMovedNamesOnlyWhatMoved(t *testing.T) {
	w, g := plant(t)
	w.add("1", drifting(nil, "db", "web<db", "far"))
	e := w.up("staging", nil)
	p, err := w.s.Plan(alice, environment.PlanOrder{Environment: "staging"})
	w.must(err)
	w.work(time.Second)
	g.spoil(w.resources(e.ID)["far"])
	_, op, err := w.s.Apply(alice, environment.ApplyOrder{Plan: p.ID})
	w.must(err)
	w.work(time.Minute)
	if phase, reason := w.operation(op); phase != "failed" || !strings.Contains(reason, "far: change instead of none. ") || strings.Contains(reason, "db") || strings.Contains(reason, "web") {
		t.Errorf("%s %q", phase, reason)
	}
}

// A correction never takes anything away.
func TestCorrectionReplacesNothing(t *testing.T) {
	w, g := plant(t)
	w.add("1", drifting(map[string]string{"db": "correct"}, "db", "web<db"))
	e := w.look(w.up("staging", nil))
	g.spoil(w.resources(e.ID)["db"])
	g.stiff = true
	made := len(g.effects)
	w.look(e)
	w.work(time.Minute)
	db := w.resources(e.ID)["db"]
	if len(g.effects) != made || db.Phase != environment.Failed || !strings.Contains(db.Status.Message, "drover env plan staging") {
		t.Errorf("%v; it is %s: %s", g.effects[made:], db.Phase, db.Status.Message)
	}
}

func TestCorrectionIsKilled(t *testing.T) {
	for at := range 12 {
		w, g := plant(t)
		w.add("1", drifting(map[string]string{"db": "correct"}, "db", "web<db"))
		e := w.up("staging", nil)
		g.spoil(w.resources(e.ID)["db"])
		_, err := w.s.Observe(alice, e.ID)
		w.must(err)
		w.store.fate.at = []int{at}
		w.work(10 * time.Minute)
		w.store.fate.at = nil
		w.work(10 * time.Minute)
		found := w.drifts(e)["db"]
		if len(found) != 1 || found[0].Phase != "corrected" || g.made[w.resources(e.ID)["db"].ID].inputs == byHand {
			t.Errorf("killed at effect %d: %d records, %+v", at, len(found), found)
		}
		w.store.Close()
	}
}

// What nobody expects is told and left alone.
func TestStray(t *testing.T) {
	w, g := plant(t)
	w.add("1", shop("db"))
	e := w.up("staging", nil)
	g.weeds = []executor.Stray{{Name: "kv/old", Where: "db"}}
	e = w.look(e)
	g.trouble["list"] = "away"
	e = w.look(e)
	if found := w.drifts(e)["db"]; len(found) != 1 || found[0].Phase != "open" || found[0].Spec.What != "stray" || e.Status.Counts.Drifted != 1 {
		t.Fatalf("%+v, counted %d", found, e.Status.Counts.Drifted)
	}
	clear(g.trouble)
	g.weeds = nil
	e = w.look(e)
	if found := w.drifts(e)["db"]; found[0].Phase != "gone" || e.Status.Counts.Drifted != 0 {
		t.Errorf("%+v, counted %d", found, e.Status.Counts.Drifted)
	}
}

func TestJudge(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		now := time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)
		r := environment.Resource{Object: ledger.Object{Phase: environment.Ready}, Spec: environment.ResourceSpec{Drift: rapid.SampledFrom([]string{"", "report", "correct"}).Draw(t, "policy")}}
		var corrections []time.Time
		for i := range rapid.IntRange(1, 40).Draw(t, "looks") {
			now = now.Add(time.Duration(rapid.IntRange(1, 1800).Draw(t, "later")) * time.Second)
			s := environment.Sight{Seen: rapid.SampledFrom([]string{"present", "drifted", "absent", "unknown"}).Draw(t, "seen")}
			if s.Seen == "drifted" || s.Seen == "absent" {
				s.Fields = []executor.Field{{Path: "x", After: rapid.IntRange(0, 2).Draw(t, "value")}}
			}
			f := environment.Judge(r, s, now)
			if s.Seen == "unknown" && (f.Open || f.Close || f.Correct || f.Status.DriftRecord != r.Status.DriftRecord || len(f.Status.Drift) != len(r.Status.Drift)) {
				t.Fatalf("what is not known decided something: %+v", f)
			}
			if f.Open && (f.Close || r.Status.DriftRecord != "") || f.Close && r.Status.DriftRecord == "" {
				t.Fatalf("a record too many: %+v", f)
			}
			if again := environment.Judge(f.Resource, s, now.Add(time.Second)); !f.Open && !f.Correct && !f.Close && again.News && !again.Correct {
				t.Fatalf("the same sight is news twice: %+v", again)
			}
			if f.Correct {
				if r.Spec.Drift != "correct" || f.Spec.Mark != "" {
					t.Fatal("corrected without being asked to, or with the mark of a plan")
				}
				corrections = append(corrections, now)
				if n := len(corrections); n > 3 && now.Sub(corrections[n-4]) < time.Hour {
					t.Fatal("more than three corrections within an hour")
				}
			}
			if r = f.Resource; f.Open {
				r.Status.DriftRecord = string(rune('a' + i))
			}
			if f.Correct { // it was made anew
				r.Phase, r.Status.Seen, r.Status.Drift, r.Status.DriftRecord, r.Status.Message = environment.Ready, "", nil, "", ""
			}
		}
	})
}

// aging is a garden whose things say another word each time they are made.
type aging struct{ *garden }

func (a aging) Apply(ctx context.Context, r executor.Resource) (executor.Result, error) {
	result, err := a.garden.Apply(ctx, r)
	if result.Done {
		result.Outputs["token"] = executor.NewSecret(a.word(r.ID))
	}
	return result, err
}

func (a aging) word(id string) string { return canary(fmt.Sprintf("%sr%d", id, a.made[id].rev)) }

// What a correction has made anew reaches those that use it, and those that use those,
// whenever a process is killed in between; who is only told of drift stays as he is.
func TestACorrectionReachesWhoUsesIt(t *testing.T) {
	for at := range 30 {
		w, g := plantAs(t, func(g *garden) executor.Executor { return aging{g} })
		a := aging{g}
		w.add("1", drifting(map[string]string{"ca": "correct", "leaf": "correct", "web": "correct"}, "ca", "leaf<ca", "web<ca,leaf", "told<leaf"))
		e := w.up("staging", nil)
		all := w.resources(e.ID)
		told := g.made[all["told"].ID]
		g.spoil(all["ca"])
		_, err := w.s.Observe(alice, e.ID)
		w.must(err)
		w.store.fate.at = []int{at}
		w.work(10 * time.Minute)
		w.store.fate.at = nil
		w.work(10 * time.Minute)
		for name, uses := range map[string][]string{"leaf": {"ca"}, "web": {"ca", "leaf"}} {
			for _, used := range uses {
				if word := a.word(all[used].ID); !strings.Contains(g.made[all[name].ID].inputs, word) {
					t.Errorf("killed at effect %d: %s was not given the new %s", at, name, used)
				}
			}
			if r := w.resources(e.ID)[name]; r.Phase != environment.Ready || r.Status.Message != "" {
				t.Errorf("killed at effect %d: %s is %s: %q", at, name, r.Phase, r.Status.Message)
			}
		}
		if g.made[all["told"].ID] != told || w.env(e.ID).Phase != environment.OK {
			t.Errorf("killed at effect %d: who is only told was made anew: %s", at, w.env(e.ID).Phase)
		}
		w.store.Close()
	}
}

// One that is being corrected, with what it used before, is corrected once more; and what
// the environment says of itself is told anew.
func TestACorrectionUnderWayIsNotTheLast(t *testing.T) {
	w, g := plantAs(t, func(g *garden) executor.Executor { return aging{g} })
	w.add("1", drifting(map[string]string{"ca": "correct", "web": "correct"}, "ca", "web<ca"))
	e := w.up("staging", nil)
	all := w.resources(e.ID)
	once := false
	for range 10 {
		g.meanwhile = append(g.meanwhile, func() {
			if once || g.tried[len(g.tried)-1] != "web" {
				return
			}
			once = true
			web := w.resources(e.ID)["web"]
			r, ok := environment.Onward(web, web.Status.Since) // within the same tick of the clock
			if !ok {
				t.Error("one that is being corrected is passed over")
			}
			put, err := environment.PutOf(r, "correct")
			w.must(err)
			_, err = w.store.Ledger.Commit(context.Background(), ledger.Set{Actor: "system", Cause: ledger.BySchedule("test"), Puts: []ledger.Put{put}})
			w.must(err)
		})
	}
	g.tried = nil
	g.spoil(all["ca"])
	e = w.look(e)
	w.work(10 * time.Minute)
	if got := strings.Join(g.tried, " "); got != "ca web web" || !once {
		t.Errorf("made were %s", got)
	}
	if r := w.resources(e.ID)["web"]; r.Phase != environment.Ready || r.Status.Message != "" {
		t.Errorf("it is %s: %q", r.Phase, r.Status.Message)
	}
	e = w.env(e.ID)
	word, err := w.store.Unseal(context.Background(), e.Status.Secrets["token-ca"])
	if want := (aging{g}).word(all["ca"].ID); err != nil || !strings.Contains(string(word), want) || e.Status.Anew != 0 || e.Phase != environment.OK {
		t.Errorf("the environment is %s and says %s, not %s (%v)", e.Phase, word, want, err)
	}
}
