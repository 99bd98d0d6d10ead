package gitops_test

import (
	"context"
	"fmt"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/droverhq/drover/internal/fault"
	"github.com/droverhq/drover/internal/gitops"
)

// tries takes an intent as a controller does: until it was taken, whatever dies.
func (d *desk) tries(call func() error) {
	d.t.Helper()
	for range 20 {
		err := func() (err error) {
			defer func() {
				if v := recover(); v != nil {
					if _, ok := v.(killed); !ok {
						panic(v)
					}
					err = fault.New(fault.Unavailable, "killed")
				}
			}()
			return call()
		}()
		if err == nil || fault.Reason(err) == "stale" || fault.Reason(err) == "unknown" {
			return
		}
	}
	d.t.Fatal("it is never taken")
}

// Killed before and after any commit, with Git servers and clusters that come and
// go: in the end agents have what was wanted last, and nothing else can be opened.
func TestCredentialsSurviveKills(t *testing.T) {
	few(t, "8")
	rapid.Check(t, func(r *rapid.T) {
		d := newDesk(t)
		service := d.s
		back := func() { // a new process, with the same servers around it
			d.s = service
			d.all = service.Reconcilers()
		}
		d.apply(d.onTarget("uid-1"))
		d.store.at = rapid.SliceOfN(rapid.IntRange(0, 12), 0, 12).Draw(r, "kills")
		var refs []string
		word, token := "", ""
		for i := range rapid.IntRange(1, 5).Draw(r, "changes") {
			word, token = fmt.Sprintf("w0rd-%d", i), fmt.Sprintf("t0k3n-%d", i)
			d.gate.err, d.remote.check = nil, nil
			if rapid.Bool().Draw(r, "git is away") {
				d.gate.err = fault.New(fault.Unavailable, "away")
			}
			if rapid.Bool().Draw(r, "the cluster is away") {
				d.remote.check = fault.New(fault.Unavailable, "away").Because("UnableToValidateClusterCredentials")
			}
			d.mirror.away = rapid.Bool().Draw(r, "the API is away")
			cred := d.credential("r-1", int64(i+1), password("reader", word))
			env := d.environment("t-1", int64(i+1), environmentSecret(withToken(token)))
			d.mirror.there["r-1"], d.mirror.there["t-1"] = true, true
			d.tries(func() error { return d.s.IntendRepository(context.Background(), cred) })
			d.tries(func() error { return d.s.IntendTarget(context.Background(), env) })
			refs = append(refs, d.repository("r-1").Spec.Password, d.target("t-1").Spec.Kubeconfig)
			for range 4 { // a kill ends a round, and leaves a service without its servers
				back()
				d.work(time.Duration(rapid.IntRange(0, 300).Draw(r, "seconds")) * time.Second)
			}
		}
		d.store.at, d.gate.err, d.remote.check, d.mirror.away = nil, nil, nil, false
		back()
		d.work(2 * time.Hour)
		b := d.body("hub", "uid-1")
		if b.Credential == nil || b.Credential.Password != word || b.Target == nil || b.Target.Token != token {
			r.Fatalf("the agent is told %+v and %+v, want %s and %s", b.Credential, b.Target, word, token)
		}
		repo, tg := d.repository("r-1"), d.target("t-1")
		if view, _ := d.mirror.told["r-1"].(gitops.RepositoryView); len(view.Conditions) != 3 || !repo.Status.Valid || !tg.Status.Ready {
			r.Fatalf("told is %v", lines(view.Conditions))
		}
		for _, ref := range refs {
			if ref != repo.Spec.Password && ref != tg.Spec.Kubeconfig && d.opens(ref) != "shredded" {
				r.Fatalf("%s can still be opened: %+v, %+v", ref, repo.Status.Retired, tg.Status.Retired)
			}
		}
		d.nowhere("w0rd-", "t0k3n-")
	})
}
