package httpapi_test

import (
	"encoding/json"
	"fmt"
	"maps"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"

	v1 "github.com/droverhq/drover/api/v1"
	"github.com/droverhq/drover/internal/access"
	"github.com/droverhq/drover/internal/cluster"
	"github.com/droverhq/drover/internal/httpapi"
	"github.com/droverhq/drover/internal/instance"
	"github.com/droverhq/drover/internal/ledger"
)

// Whatever is lost, repeated, overtaken or restarted on the way, both sides end
// up with the same items; nothing that was removed comes back, and nothing is
// removed without being told to.
func TestBothSidesAgreeInTheEnd(t *testing.T) {
	w := newWorld(t)
	round, made := 0, 0
	rapid.Check(t, func(r *rapid.T) {
		round++
		id := "c1"
		w.register(id)
		at, a := w, w.agent(id)
		a.process = fmt.Sprint("process-", round)
		if round > 1 {
			w.clusters.Leave(id, fmt.Sprint("process-", round-1))
		}
		var mine []string
		var stale []v1.Sync
		alive := map[string]bool{}
		for range rapid.IntRange(1, 25).Draw(r, "steps") {
			pick := func() string {
				if len(mine) == 0 {
					return ""
				}
				return rapid.SampledFrom(mine).Draw(r, "which")
			}
			switch rapid.IntRange(0, 7).Draw(r, "step") {
			case 0:
				made++
				o := w.place(w.create("alice", fmt.Sprint("d", made)).ID, id)
				mine, alive[o.ID] = append(mine, o.ID), true
			case 1: // another wish
				if one := pick(); alive[one] {
					w.edit(one, func(in *instance.Instance) {
						in.Spec.Suspended = !in.Spec.Suspended
						in.Status.Rendered = in.Generation + 1
						in.Status.Desired = json.RawMessage(fmt.Sprintf(`{"spec":{"n":%d}}`, in.Version))
					})
				}
			case 2: // it is to go
				if one := pick(); alive[one] {
					delete(alive, one)
					w.edit(one, func(in *instance.Instance) {
						in.Phase, in.Spec.Deleted = instance.Deprovision, true
						in.Status.Rendered = in.Generation + 1
					})
				}
			case 3: // it is gone, once the agent has said so
				if one := pick(); one != "" && !alive[one] {
					if o := w.observed(one); o != nil && o.State == "deleted" {
						w.edit(one, func(in *instance.Instance) { in.Phase, in.Deleted = instance.Deleting, time.Now() })
						mine = slices.DeleteFunc(mine, func(s string) bool { return s == one })
					}
				}
			case 4: // the answer is lost
				q := a.message()
				a.patient(q)
				stale = append(stale, q)
			case 5: // the message is lost, and comes later
				stale = append(stale, a.message())
			case 6: // an old one comes again, and its answer is taken for what it is
				if len(stale) > 0 {
					q := rapid.SampledFrom(stale).Draw(r, "again")
					if status, _ := a.patient(q); status != 409 && status != 200 {
						r.Fatalf("an old message is answered %d", status)
					}
				}
			case 7: // the server restarts, or the agent speaks to another
				at = w.replica()
				a = at.agentAs(a)
			}
			if rapid.Bool().Draw(r, "sync") {
				a.sync()
			}
		}
		a.until("everything", func() bool { return len(a.lacking()) == 0 && maps.Equal(a.runs, alive) && len(a.told) == len(mine) })
		a.settled()
		for one := range alive {
			if o := w.observed(one); o == nil || o.State != "ready" || o.Generation != a.told[one].Generation || o.Leaf != a.seen[one].Leaf() {
				r.Fatalf("of %s is known %+v, it is %+v", one, o, a.seen[one])
			}
		}
		for _, one := range mine { // the next round begins with nothing
			w.edit(one, func(in *instance.Instance) { in.Phase, in.Deleted = instance.Deleting, time.Now() })
		}
	})
}

// golden are messages as agents of protocol 1 send them.
func TestMessagesOfProtocol1AreUnderstood(t *testing.T) {
	files, err := filepath.Glob("testdata/protocol1/*.json")
	if err != nil || len(files) < 3 {
		t.Fatal(files, err)
	}
	for _, file := range files {
		t.Run(filepath.Base(file), func(t *testing.T) {
			w := newWorld(t)
			w.register("c1")
			w.register("c2")
			w.place(w.create("alice", "rex").ID, "c1")
			w.agent("c2").reached()
			body, err := os.ReadFile(file)
			if err != nil {
				t.Fatal(err)
			}
			var out v1.Synced
			w.want(200, "agent-c1", http.MethodPost, "/api/v1/clusters/c1/sync", string(body), &out)
			if len(out.Desired) != 1 || out.Desired[0].Items[0].Body == nil || out.Protocol != v1.Protocol || out.Keys == "" {
				t.Errorf("the answer is %+v", out)
			}
		})
	}
}

func FuzzSync(f *testing.F) {
	r := newRig(f)
	ctx := ledger.WithCause(access.With(f.Context(), access.Principal{User: "root", Admin: true}), ledger.ByRequest("test"))
	if _, err := r.clusters.Register(ctx, "c1", cluster.Spec{Provider: "local", Region: "local"}); err != nil {
		f.Fatal(err)
	}
	token := r.token(f, access.Claims{Cluster: "c1"})
	files, _ := filepath.Glob("testdata/protocol1/*.json")
	for _, file := range files {
		data, err := os.ReadFile(file)
		if err != nil {
			f.Fatal(err)
		}
		f.Add(string(data))
	}
	f.Add(`{"protocol":1,"agent":"a","number":-1,"items":[null,{"id":"x","conditions":[{}]}],"bodies":[""]}`)
	f.Fuzz(func(t *testing.T, body string) {
		body = strings.ReplaceAll(body, `"wait"`, `"hurry"`)
		req := httptest.NewRequest(http.MethodPost, "/api/v1/clusters/c1/sync", strings.NewReader(body))
		req.Header.Set("Authorization", "Bearer "+token)
		if code := r.send(t, req).Code; code != 200 && code != 400 && code != 409 && code != 503 {
			t.Errorf("%q answers %d", body, code)
		}
	})
}

// All agents come at once after a restart: they are let in one after the other.
func TestAgentsAreAdmittedInTurn(t *testing.T) {
	now := time.Now()
	turns := httpapi.NewTurns(100)
	let, late := 0, 0
	waits := map[string]time.Time{}
	for i := range 1000 {
		id := fmt.Sprint(i)
		if wait := turns(id, now); wait == 0 {
			let++
		} else {
			waits[id] = now.Add(wait)
		}
	}
	if let < 90 || let > 110 {
		t.Errorf("%d were let in at once", let)
	}
	for id, at := range waits {
		if turns(id, now) == 0 {
			t.Errorf("%s jumped the queue", id)
		}
		if at.Sub(now) > 10*time.Second {
			late++
		}
		if turns(id, at) != 0 {
			t.Errorf("%s came in its turn and was sent away", id)
		}
	}
	if late > 0 {
		t.Errorf("%d wait for longer than it takes", late)
	}
}
