package httpapi_test

import (
	"context"
	"slices"
	"testing"

	"github.com/droverhq/drover/internal/access"
	"github.com/droverhq/drover/internal/fault"
	"github.com/droverhq/drover/internal/httpapi"
)

// heap is what was put aside: the keys of it.
type heap struct {
	httpapi.Rejected
	keys []string
}

func (h *heap) Drop(_ context.Context, key string) error {
	i := slices.Index(h.keys, key)
	if i < 0 {
		return fault.New(fault.NotFound, "no message with the key %q was put aside", key)
	}
	h.keys = slices.Delete(h.keys, i, i+1)
	return nil
}

func (h *heap) Retry(ctx context.Context, key string) error { return h.Drop(ctx, key) }

// What an operator decides about a message changes nothing in the ledger: the call itself is
// on record, and where it cannot be, nothing is done.
func TestDecisionsAboutMessagesAreOnRecord(t *testing.T) {
	aside := &heap{keys: []string{"k1", "k2", "k3"}}
	r := newRig(t, func(c *httpapi.Config) { c.Rejected = aside })
	root := r.token(t, access.Claims{User: "root", Admin: true})
	r.do(t, root, "DELETE", "/api/v1/rejected/k1", "").ok(200)
	r.do(t, root, "POST", "/api/v1/rejected/k2/retry", "").ok(200)
	r.do(t, root, "DELETE", "/api/v1/rejected/k1", "").refused("it is gone", 404, "7")
	var list struct {
		Items []struct {
			Phase  string
			Spec   struct{ User, Method, Path, Remote string }
			Status struct {
				Status int
				About  string
			}
		}
	}
	w := r.do(t, root, "GET", "/api/v1/audits?order_by=created_at", "").ok(200)
	w.into(&list)
	want := []struct {
		user, what, phase, about string
		code                     int
	}{
		{"root", "DELETE /api/v1/rejected/k1", "done", "message k1", 200},
		{"root", "POST /api/v1/rejected/k2/retry", "done", "message k2", 200},
		{"root", "DELETE /api/v1/rejected/k1", "refused", "message k1", 404},
	}
	if len(list.Items) != len(want) {
		t.Fatalf("%d entries: %s", len(list.Items), w.Body)
	}
	for i, e := range list.Items {
		if x := want[i]; e.Spec.User != x.user || e.Spec.Method+" "+e.Spec.Path != x.what || e.Phase != x.phase || e.Status.About != x.about || e.Status.Status != x.code || e.Spec.Remote == "" {
			t.Errorf("entry %d: %+v, want %+v", i, e, x)
		}
	}
	r.do(t, r.user(t, "mallory", "acme"), "DELETE", "/api/v1/rejected/k3", "").refused("operators only", 403, "11")
	r.ledger.set(func(context.Context) error { return fault.New(fault.Unavailable, "away") })
	defer r.ledger.set(nil)
	r.do(t, root, "DELETE", "/api/v1/rejected/k3", "").refused("no record, no deed", 503, "9")
	if !slices.Equal(aside.keys, []string{"k3"}) {
		t.Errorf("left are %q", aside.keys)
	}
}
