package httpapi_test

import (
	"context"
	"encoding/json"
	"strings"
	"sync/atomic"
	"testing"

	v1 "github.com/droverhq/drover/api/v1"
	"github.com/droverhq/drover/internal/cluster"
	"github.com/droverhq/drover/internal/fault"
	"github.com/droverhq/drover/internal/ledger"
	"github.com/droverhq/drover/internal/offering"
)

// vault has the secret of each agent's account, while it is open.
type vault struct{ closed atomic.Bool }

func (v *vault) EnsureAgent(context.Context, string) (id, secret string, err error) {
	if v.closed.Load() {
		return "", "", fault.New(fault.Unavailable, "the identity provider is away")
	}
	return "client", "s3cret", nil
}

func (v *vault) RemoveAgent(context.Context, string) error { return nil }

// needs writes steps into a cluster, as its reconciler would.
func (w *world) needs(id string, bodies map[string]string) {
	w.Helper()
	o, err := w.clusters.Get(w.Context(), id)
	if err != nil {
		w.Fatal(err)
	}
	_, status, err := cluster.Decode(o)
	if err != nil {
		w.Fatal(err)
	}
	for name, body := range bodies {
		if _, err := w.ledger.PutBlob(w.Context(), []byte(body)); err != nil {
			w.Fatal(err)
		}
		status.Steps = append(status.Steps, cluster.Step{Name: name, State: cluster.StepWaiting, Generation: o.Version, Token: 1, Digest: v1.BodyDigest([]byte(body))})
	}
	if o.Status, err = json.Marshal(status); err != nil {
		w.Fatal(err)
	}
	if _, err := w.ledger.Commit(w.Context(), ledger.Set{Actor: "test", Cause: ledger.ByRequest("test"), Puts: []ledger.Put{{Object: o, Expect: o.Version, Op: "steps"}}}); err != nil {
		w.Fatal(err)
	}
}

// What a step has of secrets is filled in on the way, and nobody but who asks
// for its body waits for them.
func TestStepsWithSecretsReachTheirAgent(t *testing.T) {
	w := newWorld(t)
	safe := &vault{}
	w.clusters.Keeper, w.clusters.Accounts = w.ledger, safe
	w.register("c1")
	rex := w.place(w.create("alice", "rex").ID, "c1")
	a := w.agent("c1")
	a.sync()
	a.settled()
	safe.closed.Store(true)
	w.needs("c1", map[string]string{
		"dinosaur/plain":  `{"manifests":[{"kind":"ConfigMap"}]}`,
		"dinosaur/secret": `{"manifests":[{"kind":"Secret","stringData":{"key":"` + offering.Secret(offering.SecretAgent) + `"}}]}`,
	})
	a.until("of both steps", func() bool { return len(a.told) == 3 && a.told["dinosaur.plain"].Body != nil })
	if it, ok := a.told["dinosaur.secret"]; !ok || it.Body != nil || it.Kind != "step" {
		t.Errorf("a step whose secret cannot be had is told as %+v", it)
	}
	if a.told[rex.ID].Body == nil {
		t.Error("the instance is gone")
	}
	safe.closed.Store(false)
	a.until("the secret step's body", func() bool { return a.told["dinosaur.secret"].Body != nil })
	it := a.told["dinosaur.secret"]
	if !strings.Contains(string(it.Body), `"s3cret"`) || !it.Filled || it.Proof == "" {
		t.Errorf("the step comes as %+v", it)
	}
	if strings.Contains(w.logged(), "s3cret") {
		t.Error("the log has the secret")
	}
}
