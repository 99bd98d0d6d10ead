package httpapi_test

import (
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/droverhq/drover/internal/httpapi"
	"github.com/droverhq/drover/offerings"
)

// TestLiveCapacity: what a region offers follows its clusters and its limits,
// within a second, and a look costs nothing before that.
func TestLiveCapacity(t *testing.T) {
	var now atomic.Int64
	now.Store(time.Now().UnixNano())
	pass := func() { now.Add(int64(time.Second)) }
	f := newFleet(t, func(c *httpapi.Config) { c.Clock = func() time.Time { return time.Unix(0, now.Load()) } })
	data, err := offerings.FS.ReadFile("kafka.yaml")
	if err != nil {
		t.Fatal(err)
	}
	limited := strings.Replace(string(data), `{name: us-east-1, displayName: "US East, N. Virginia"}`,
		`{name: us-east-1, displayName: "US East, N. Virginia", limits: {standard: 2, developer: 0}}`, 1)
	f.shelf.put(t, []byte(limited))
	f.quota.give("acme", "standard", "standard", 10)
	alice := f.user(t, "alice", "acme")
	sizes := func() map[string][]string {
		t.Helper()
		var list struct {
			Items []struct {
				ID       string
				Capacity []struct {
					Type  string   `json:"instance_type"`
					Sizes []string `json:"available_sizes"`
				}
			}
		}
		f.do(t, alice, "GET", kafkaAPI+"/cloud_providers/aws/regions", "").ok(200).into(&list)
		out := map[string][]string{}
		for _, c := range list.Items[0].Capacity {
			out[c.Type] = c.Sizes
		}
		return out
	}
	want := func(reason string, standard ...string) {
		t.Helper()
		if standard == nil {
			standard = []string{}
		}
		if d := cmp.Diff(map[string][]string{"standard": standard, "developer": {}}, sizes()); d != "" {
			t.Errorf("%s: %s", reason, d)
		}
	}
	want("without a cluster there is nothing")
	f.room(t, "c1", "aws", "us-east-1", 100)
	want("an answer is good for a second")
	pass()
	want("then the cluster is seen; the limit of trials is 0", "x1", "x2")
	f.do(t, alice, "POST", kafkas+"?async=true", `{"name":"one","region":"us-east-1","cloud_provider":"aws"}`).ok(202)
	pass()
	want("one of the region's two units is taken", "x1")
	f.do(t, alice, "POST", kafkas+"?async=true", `{"name":"big","plan":"standard.x2"}`).refused("two are not left", 403, "24")
	f.do(t, alice, "POST", kafkas+"?async=true", `{"name":"two"}`).ok(202)
	pass()
	want("all are taken, though the cluster has room")
	f.do(t, alice, "POST", kafkas+"?async=true", `{"name":"three"}`).refused("nothing is left", 403, "24")
}
