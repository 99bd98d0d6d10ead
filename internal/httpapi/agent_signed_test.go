package httpapi_test

import (
	"encoding/json"
	"fmt"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/go-jose/go-jose/v4"

	v1 "github.com/droverhq/drover/api/v1"
	"github.com/droverhq/drover/internal/access"
	"github.com/droverhq/drover/internal/cluster"
	"github.com/droverhq/drover/internal/instance"
	"github.com/droverhq/drover/internal/ledger"
)

func TestItemsAreSigned(t *testing.T) {
	w := newWorld(t)
	w.register("c1")
	rex := w.place(w.create("alice", "rex").ID, "c1")
	a := w.agent("c1")
	out := a.sync()
	var set jose.JSONWebKeySet
	if err := json.Unmarshal([]byte(out.Keys), &set); err != nil || len(set.Keys) == 0 {
		t.Fatalf("the keys are %q, %v", out.Keys, err)
	}
	fits := func(it v1.Item, cluster string) bool {
		sent := ""
		if it.Body != nil {
			sent = v1.BodyDigest(it.Body)
		}
		payload := it.SignedBytes(out.Ledger, out.Epoch, cluster, sent)
		signed, err := jose.ParseDetached(it.Proof, payload, []jose.SignatureAlgorithm{jose.ES256})
		if err != nil {
			return false
		}
		for _, key := range set.Key(signed.Signatures[0].Header.KeyID) {
			if signed.DetachedVerify(payload, key) == nil {
				return true
			}
		}
		return false
	}
	it := a.told[rex.ID]
	if !fits(it, "c1") || fits(it, "c2") {
		t.Errorf("the proof of %+v is not one for this cluster alone", it)
	}
	other := it
	other.Delete = true
	if fits(other, "c1") {
		t.Error("the proof is one of its removal too")
	}
	if again := a.sync(); again.Keys != "" {
		t.Error("keys that are known come again")
	}
	q := a.message()
	q.Bodies = []string{rex.ID}
	if _, again, err := a.post(t.Context(), q); err != nil || len(again.Bodies) != 1 || again.Bodies[0].Proof != it.Proof {
		t.Errorf("an item that did not change is signed anew: %+v, %v", again, err)
	}
	w.edit(rex.ID, func(in *instance.Instance) { in.Phase, in.Spec.Deleted = instance.Deprovision, true })
	a.until("to delete rex", func() bool { return a.told[rex.ID].Delete })
	gone := a.told[rex.ID]
	gone.Body = nil // none came
	if !fits(gone, "c1") {
		t.Errorf("a removal is not signed: %+v", gone)
	}
}

func TestTokensAreRenewedInTime(t *testing.T) {
	r := newRig(t)
	ctx := ledger.WithCause(access.With(t.Context(), access.Principal{User: "root", Admin: true}), ledger.ByRequest("test"))
	if _, err := r.clusters.Register(ctx, "c1", cluster.Spec{Provider: "local", Region: "local"}); err != nil {
		t.Fatal(err)
	}
	old, err := access.NewIssuer(access.IssuerConfig{Store: r.ledger, Clock: func() time.Time { return time.Now().Add(-40 * time.Minute) }})
	if err != nil {
		t.Fatal(err)
	}
	aged, _, err := old.Issue(t.Context(), access.Claims{Cluster: "c1"}, time.Hour)
	if err != nil {
		t.Fatal(err)
	}
	number := 0
	sync := func(token string) (out v1.Synced) {
		t.Helper()
		for late := time.Now().Add(20 * time.Second); time.Now().Before(late); {
			number++
			got := r.do(t, token, http.MethodPost, "/api/v1/clusters/c1/sync", fmt.Sprintf(`{"protocol":1,"agent":"a","number":%d}`, number))
			if got.Code == 503 {
				continue
			}
			if got.Code != 200 {
				t.Fatalf("answered %d: %s", got.Code, got.Body)
			}
			got.into(&out)
			return out
		}
		t.Fatal("the server never gets ready")
		return out
	}
	if out := sync(r.token(t, access.Claims{Cluster: "c1"})); out.Token != "" {
		t.Error("a young token is renewed")
	}
	if out := sync(r.token(t, access.Claims{User: "root", Admin: true})); out.Token != "" {
		t.Error("an operator's token is turned into an agent's")
	}
	fresh := sync(aged).Token
	from, until, ok := access.Life(fresh)
	if !ok || until.Sub(from) != time.Hour || sync(fresh).Token != "" {
		t.Errorf("the new token lives from %s until %s", from, until)
	}
	if strings.Contains(r.logs.String(), fresh) {
		t.Error("the log has the token")
	}
	first, _, err := r.issuer.Issue(t.Context(), access.Claims{Cluster: "c1"}, 7*24*time.Hour)
	if err != nil {
		t.Fatal(err)
	}
	kept := sync(first).Token // at once: the control plane may be away from now on
	if from, until, ok = access.Life(kept); !ok || until.Sub(from)/2 <= 7*24*time.Hour || sync(kept).Token != "" {
		t.Errorf("the token that follows the first one lives from %s until %s: a week without a control plane locks the agent out", from, until)
	}
}

// After a restart of the server nobody has to repeat what they said.
func TestARestartedServerAgreesAtOnce(t *testing.T) {
	w := newWorld(t)
	w.register("c1")
	for i := range 20 {
		w.place(w.create("alice", fmt.Sprint("d", i)).ID, "c1")
	}
	a := w.agent("c1")
	a.sync()
	a.settled()
	b := w.replica().agentAs(a)
	if out := b.sync(); len(out.Desired)+len(out.Bodies)+len(out.Observed) > 0 {
		t.Errorf("the new server wants or tells %+v", out)
	}
}

// What cannot be taken is told a few times, and then left alone.
func TestWhatIsRefusedIsNotRepeatedForEver(t *testing.T) {
	w := newWorld(t)
	w.register("c1")
	a := w.agent("c1")
	a.seen["stray"] = v1.ObservedItem{ID: "stray", Generation: 1, State: "ready"}
	a.seen["odd"] = v1.ObservedItem{ID: "odd", Generation: 1, State: "exploded"}
	a.seen["gone"] = v1.ObservedItem{ID: "gone", Generation: 1, State: "deleted"}
	a.sync()
	a.settled()
	if _, status := w.cluster("c1"); len(status.Strays) != 1 || status.Strays[0] != "stray" {
		t.Errorf("strays are %v", status.Strays)
	}
	before := w.head().Seq
	for a.sync().Seq < before { // until the index has heard of the strays too
	}
	for range 5 {
		if q := a.message(); len(q.Items) > 0 {
			t.Errorf("it is told again: %+v", q.Items)
		}
		a.sync()
	}
	if w.head().Seq != before {
		t.Error("it is written again")
	}
	delete(a.seen, "stray")
	a.settled()
	if _, status := w.cluster("c1"); len(status.Strays) != 0 {
		t.Errorf("strays are still %v", status.Strays)
	}
}
