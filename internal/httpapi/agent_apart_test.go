package httpapi_test

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/droverhq/drover/internal/cluster"
	"github.com/droverhq/drover/internal/instance"
)

// herd is some clusters, each with an instance that stays, one that is to go,
// one that is to change, and one that takes hours to become ready.
type herd struct {
	*ranch
	ids map[string]map[string]string // of instances, by cluster and name
}

func (r *ranch) herd(clusters int) herd {
	r.Helper()
	h := herd{r, map[string]map[string]string{}}
	for i := range clusters {
		id := fmt.Sprint("c", i+1)
		r.join(id)
		h.ids[id] = map[string]string{}
		for _, name := range []string{"stays", "goes", "changes", "slow"} {
			h.add(id, name)
		}
	}
	pass(30 * time.Second)
	for id, m := range r.agents {
		if o, _ := r.cluster(id); len(m.holds(r)) != 3 || o.Phase != cluster.Ready {
			r.Fatalf("%s is %s and holds %v", id, o.Phase, m.holds(r))
		}
	}
	return h
}

func (h herd) add(id, name string) {
	h.Helper()
	h.ids[id][name] = h.place(h.create("alice", name+"-"+id).ID, id).ID
}

// happen is what becomes of the herd while nobody hears.
func (h herd) happen() {
	h.Helper()
	for id, mine := range h.ids {
		h.edit(mine["goes"], func(in *instance.Instance) { in.Phase, in.Spec.Deleted = instance.Deprovision, true })
		h.edit(mine["changes"], func(in *instance.Instance) {
			in.Spec.Parameters = map[string]any{"colour": "green"}
			in.Status.Rendered = in.Generation + 1 // which the ledger makes of it
			in.Status.Token++
			in.Status.Desired = []byte(strings.Replace(string(in.Status.Desired), `"x"`, `"y"`, 1))
		})
		h.add(id, "comes")
	}
}

// wants is what a cluster must hold in the end.
func (h herd) wants(id string) map[string]int64 {
	mine := h.ids[id]
	out := map[string]int64{mine["stays"]: 1, mine["slow"]: 1, mine["changes"]: 1}
	if mine["comes"] != "" {
		out[mine["changes"]], out[mine["comes"]] = 2, 1
	}
	return out
}

// agreed counts the messages of an agent until both sides held the same: those
// of its heartbeat, and the news beside them.
func agreed(all []said) (heartbeats, beside int, after time.Duration) {
	last := all[len(all)-1].sync
	for _, s := range all {
		if s.sync.Wait {
			heartbeats++
		} else {
			beside++
		}
		if s.agrees() && s.sync.Desired == last.Desired && s.sync.Observed == last.Observed {
			return heartbeats, beside, s.at.Sub(all[0].at)
		}
	}
	return heartbeats, beside, -1
}

// However long and in whatever way the two sides were apart, data planes keep
// what they have, the cluster says since when its agent is silent, and once they
// hear each other they agree within two heartbeats: the same work after a week
// as after a minute.
func TestApart(t *testing.T) {
	for name, c := range map[string]struct {
		reason string
		part   func(h herd)
		reach  time.Duration // until the agent tries again, at most
	}{
		"a minute": {"What is shorter than anybody notices.", func(h herd) {
			h.network.become(refuses)
			h.happen()
			pass(time.Minute)
			h.network.become(fair)
		}, 5 * time.Second},
		"six hours of refusals": {"Nobody listens.", func(h herd) {
			h.network.become(refuses)
			h.happen()
			pass(6 * time.Hour)
			h.network.become(fair)
		}, 5 * time.Second},
		"six hours of silence": {"Connections are open on either side, and nothing comes: the agent dials for ten seconds before it tries again.", func(h herd) {
			h.network.become(silent)
			h.happen()
			pass(6 * time.Hour)
			h.network.become(fair)
		}, 15 * time.Second},
		"on and off": {"A line that works for seconds at a time.", func(h herd) {
			for i := range 200 {
				h.network.become([]weather{refuses, silent}[i%2])
				pass(90 * time.Second)
				h.network.become(fair)
				pass(time.Second)
			}
			h.network.become(silent)
			h.happen()
			pass(time.Hour)
			h.network.become(fair)
		}, 15 * time.Second},
		"the agents start anew in silence": {"They go on with what they kept.", func(h herd) {
			h.network.become(silent)
			h.happen()
			pass(time.Hour)
			for id, m := range h.agents {
				m.stop()
				h.run(id, m, "")
			}
			pass(5 * time.Hour)
			h.network.become(fair)
		}, 15 * time.Second},
		"a week without a control plane": {"It is another process that comes back, and tokens are good still.", func(h herd) {
			h.network.become(silent)
			pass(time.Minute) // its last word: they are silent
			h.end()
			h.network.become(silent)
			pass(7 * 24 * time.Hour)
			h.begin(0)
			h.happen()
		}, 15 * time.Second},
	} {
		t.Run(name, func(t *testing.T) {
			virtual(t, 0, func(r *ranch) {
				clusters := 3
				if testing.Short() || strings.Contains(name, "week") {
					clusters = 1 // tens of thousands of attempts
				}
				h := r.herd(clusters)
				before := time.Now()
				c.part(h)
				apart := time.Since(before)
				for id, m := range h.agents { // nobody has told it anything
					has := m.holds(t)
					for _, name := range []string{"stays", "goes", "changes"} {
						if has[h.ids[id][name]] != 1 {
							t.Errorf("%s On %s, %s was harmed: %v", c.reason, id, name, has)
						}
					}
					if _, status := h.cluster(id); apart > time.Minute && name != "on and off" && !strings.Contains(name, "week") &&
						!strings.Contains(status.Message, "has been silent since "+before.UTC().Format("2006-01-02 15:04")) {
						t.Errorf("the cluster says %q, the last word was heard about %s", status.Message, before.UTC())
					}
				}
				r.heard()
				back := time.Now()
				pass(c.reach + time.Second)
				all := r.heard()
				for id, m := range h.agents {
					wants := h.wants(id)
					if apart < 3*time.Hour {
						delete(wants, h.ids[id]["slow"])
					}
					if d := cmp.Diff(wants, m.holds(t)); d != "" {
						t.Errorf("%s %s later %s holds (-want +got): %s", c.reason, c.reach, id, d)
					}
					if o, status := h.cluster(id); o.Phase != cluster.Ready || status.Message != "" {
						t.Errorf("%s is %s: %s", id, o.Phase, status.Message)
					}
					if seen := h.observed(h.ids[id]["changes"]); seen == nil || seen.State != "ready" || seen.Generation != 2 {
						t.Errorf("the change of %s was not heard of: %+v", h.ids[id]["changes"], seen)
					}
					if seen := h.observed(h.ids[id]["goes"]); seen == nil || seen.State != "deleted" {
						t.Errorf("the end of %s was not heard of: %+v", h.ids[id]["goes"], seen)
					}
					if len(all[id]) == 0 {
						t.Fatalf("%s says nothing", id)
					}
					beats, beside, after := agreed(all[id])
					if after < 0 || beats > 2 || beats+beside > 5 {
						t.Errorf("%s They agree after %d heartbeats and %d messages beside them, %s after the first", c.reason, beats, beside, after)
					}
					if first := all[id][0].at.Sub(back); first > c.reach {
						t.Errorf("%s The first message comes %s after the way is free", c.reason, first)
					}
				}
				// The two sides stay of one mind, at rest.
				rest := time.Now()
				pass(5 * time.Minute)
				for id, s := range r.heard() {
					for _, one := range s {
						if len(one.sync.Items) > 0 || !one.agrees() {
							t.Errorf("%s is not at rest after %s: %+v, answered %+v", id, one.at.Sub(rest), one.sync.Items, one.answer)
						}
					}
				}
			})
		})
	}
}
