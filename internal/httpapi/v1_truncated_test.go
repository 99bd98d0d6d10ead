package httpapi_test

import (
	"crypto/ed25519"
	"encoding/json"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	v1 "github.com/droverhq/drover/api/v1"
	"github.com/droverhq/drover/internal/access"
	"github.com/droverhq/drover/internal/instance"
	"github.com/droverhq/drover/internal/ledger"
)

// TestWhatWasTruncatedIsTold: whoever asks for what is gone is told from when on
// there is history, and never given a gap.
func TestWhatWasTruncatedIsTold(t *testing.T) {
	r, ctx := newRig(t), t.Context()
	token, _, err := r.issuer.Issue(ctx, access.Claims{User: "root", Admin: true}, time.Hour)
	if err != nil {
		t.Fatal(err)
	}
	ref := ledger.Ref{Kind: instance.Kind.Name, ID: "i1"}
	for n := range int64(10) {
		if _, err := r.ledger.Commit(ctx, ledger.Set{Actor: "root", Cause: "request:r", Puts: []ledger.Put{{Op: "update", Expect: n,
			Object: ledger.Object{Ref: ref, Org: "acme", Name: "rex", Phase: string(rune('a' + n)), Fields: ledger.Fields{"offering": "dinosaur"}}}}}); err != nil {
			t.Fatal(err)
		}
	}
	public, key, _ := ed25519.GenerateKey(nil)
	head, err := r.ledger.Head(ctx)
	if err != nil {
		t.Fatal(err)
	}
	entries, err := r.ledger.Entries(ctx, 0, int(head.Seq)-2)
	if err != nil {
		t.Fatal(err)
	}
	b := ledger.NewBlock(head, nil, entries, time.Now())
	b.Sign(head.Ledger, key)
	if err := r.ledger.AppendBlock(ctx, b); err != nil {
		t.Fatal(err)
	}
	keys := []ledger.SealKey{ledger.NewSealKey(head.Ledger, public, time.Now(), key)}
	c, err := ledger.Verification{Keys: keys}.Checkpoint(ctx, r.ledger, 1, time.Now())
	if err != nil {
		t.Fatal(err)
	}
	c.Sign(head.Ledger, key)
	if err := r.ledger.Truncate(ctx, c); err != nil {
		t.Fatal(err)
	}
	for more := true; more; {
		if more, err = r.ledger.Prune(ctx); err != nil {
			t.Fatal(err)
		}
	}
	get := func(path string) *httptest.ResponseRecorder {
		req := httptest.NewRequestWithContext(ctx, "GET", path, nil)
		req.Header.Set("Authorization", "Bearer "+token)
		w := httptest.NewRecorder()
		r.ServeHTTP(w, req)
		return w
	}
	for _, path := range []string{"/api/v1/watch?after=3", "/api/v1/changes?after=0", "/api/v1/changes?after=3&kind=instance", "/api/v1/instances/i1?at=3"} {
		if w := get(path); w.Code != 410 || !strings.Contains(w.Body.String(), "there is history from") {
			t.Errorf("%s is answered %d %s", path, w.Code, w.Body)
		}
	}
	for path, want := range map[string]int{"/api/v1/changes?newest=100": 2, "/api/v1/instances/i1/history": 3} {
		var got v1.Changes
		if w := get(path); w.Code != 200 || json.Unmarshal(w.Body.Bytes(), &got) != nil || len(got.Items) != want || got.Since != c.Last {
			t.Errorf("%s is answered %d %s, want %d changes since %d", path, w.Code, w.Body, want, c.Last)
		}
	}
}
