package httpapi_test

import (
	"testing"
	"time"

	"github.com/droverhq/drover/internal/cluster"
	"github.com/droverhq/drover/internal/ledger"
)

// rest has everybody sleep for a while, and start anew with what they kept.
func (r *ranch) rest(d time.Duration) {
	r.Helper()
	for _, m := range r.agents {
		m.stop()
	}
	pass(time.Minute) // their silence is written down
	r.end()
	pass(d)
	r.begin(0)
	for id, m := range r.agents {
		r.run(id, m, "")
	}
	pass(20 * time.Second)
}

// forget takes a cluster away, as the loop does in the end.
func (r *ranch) forget(id string) {
	r.Helper()
	o, _ := r.cluster(id)
	o.Deleted = time.Now()
	if _, err := r.ledger.Commit(r.Context(), ledger.Set{
		Actor: "system", Cause: ledger.BySchedule("test"), Puts: []ledger.Put{{Object: o, Expect: o.Version, Op: "gone"}},
	}); err != nil {
		r.Fatal(err)
	}
}

// The server's clock is ten minutes before or behind those of its agents, or is
// set while they work: nobody is refused, and tokens are renewed in time.
func TestClocksApart(t *testing.T) {
	const off = 10 * time.Minute
	for name, c := range map[string]struct {
		reason     string
		begin, set time.Duration // of the server's clock before the agents'
	}{
		"the server is early": {"Its tokens are from the future.", off, off},
		"the server is late":  {"Its tokens are of the past.", -off, -off},
		"it is set back":      {"What it signed just before is from the future now.", 0, -off},
		"it is set forward":   {"What it signed is older than it was.", 0, off},
	} {
		t.Run(name, func(t *testing.T) {
			virtual(t, c.begin, func(r *ranch) {
				h := r.herd(1)
				m, mine := h.agents["c1"], h.ids["c1"]
				quiet := func(when string) (renewed int) {
					t.Helper()
					for id, all := range r.heard() {
						if o, status := r.cluster(id); o.Phase != cluster.Ready || status.Message != "" {
							t.Errorf("%s %s, %s is %s: %s", c.reason, when, id, o.Phase, status.Message)
						}
						for _, s := range all {
							if s.status != 200 {
								t.Errorf("%s %s, message %d of %s is answered %d", c.reason, when, s.sync.Number, id, s.status)
							}
							if s.answer.Token != "" {
								renewed++
							}
						}
					}
					return renewed
				}
				quiet("before")
				r.skew.Store(int64(c.set))
				r.rest(time.Second) // a server that has seen no token before
				h.happen()
				pass(20 * time.Second)
				quiet("at once")
				if has := m.holds(t); has[mine["comes"]] != 1 || has[mine["changes"]] != 2 || has[mine["goes"]] != 0 {
					t.Errorf("%s It holds %v", c.reason, has)
				}
				r.join("c2")
				pass(20 * time.Second)
				if n := quiet("with a new cluster"); n != 1 {
					t.Errorf("%s %d tokens were renewed, not the first one", c.reason, n)
				}
				r.rest(16 * 24 * time.Hour) // the older half of a token's life
				if n := quiet("after weeks"); n != 2 {
					t.Errorf("%s %d tokens were renewed, not two", c.reason, n)
				}
				r.rest(16 * 24 * time.Hour) // the first ones have ended by now
				quiet("after more weeks")
			})
		})
	}
}

// A cluster takes the name of one that is gone, and its token is made by a clock
// that is behind the one that wrote that down: it is the new cluster's all the
// same. The old one's is not.
func TestClocksApartAndAClusterAnew(t *testing.T) {
	virtual(t, -10*time.Minute, func(r *ranch) {
		r.join("c1")
		pass(20 * time.Second)
		old := r.agents["c1"]
		old.stop()
		r.forget("c1")
		pass(time.Minute)
		r.run("c1", old, "")
		r.register("c1")
		pass(20 * time.Second)
		if o, _ := r.cluster("c1"); o.Phase == cluster.Ready {
			t.Error("the agent of the cluster that is gone speaks for the new one")
		}
		old.stop()
		delete(r.agents, "c1")
		m := r.join("c1")
		pass(20 * time.Second)
		if o, status := r.cluster("c1"); o.Phase != cluster.Ready {
			t.Errorf("the new cluster is %s: %s\n%s", o.Phase, status.Message, m.log.String())
		}
	})
}
