package httpapi_test

import (
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/droverhq/drover/internal/fault"
)

func TestMetricsOfAnInstance(t *testing.T) {
	r := newRig(t)
	alice := r.user(t, "alice", "acme")
	path := dinosaurs + "/" + r.create(t, alice, "rex") + "/metrics/"
	for _, query := range []string{"query", "query_range?duration=5&interval=30", "federate"} {
		e := r.do(t, alice, "GET", path+query, "").refused("there is no source", 400, "21")
		if !strings.Contains(e.Reason, "metrics") {
			t.Errorf("what is a user to make of %q?", e.Reason)
		}
	}
	for query, status := range map[string]int{"query_range": 400, "query_range?duration=5&interval=x": 400, "query_range?duration=0&interval=1": 400,
		"query_range?duration=44640&interval=1": 400, "query_range?duration=99999999999&interval=1": 400, "other": 404} {
		if w := r.do(t, alice, "GET", path+query, ""); w.Code != status {
			t.Errorf("%s: got %d, want %d", query, w.Code, status)
		}
	}
	r.do(t, alice, "GET", dinosaurs+"/nope/metrics/query", "").refused("no such instance", 404, "7")
}

func TestMetricsWithASource(t *testing.T) {
	f := newFleet(t)
	alice := f.user(t, "alice", "acme")
	for root, id := range map[string]string{kafkas: f.kafka(t, alice, "one"), dinosaurs: f.create(t, alice, "rex")} {
		f.place(t, id)
		path := root + "/" + id + "/metrics/"
		up := map[string]any{"__name__": "up", "a": "b"}
		want := map[string]any{"kind": "MetricsInstantQueryList", "id": id, "items": []any{
			map[string]any{"metric": up, "timestamp": 1_700_000_000_500.0, "value": 1.5}}}
		if d := cmp.Diff(want, f.do(t, alice, "GET", path+"query", "").ok(200).object()); d != "" {
			t.Error("what is no number is left out:", d)
		}
		want = map[string]any{"kind": "MetricsRangeQueryList", "id": id, "items": []any{
			map[string]any{"metric": up, "values": []any{map[string]any{"timestamp": 1_700_000_000_500.0, "value": 1.5}}}}}
		if d := cmp.Diff(want, f.do(t, alice, "GET", path+"query_range?duration=5&interval=30", "").ok(200).object()); d != "" {
			t.Error(d)
		}
		if span := f.metrics.span; span.Step != 30*time.Second || span.To.Sub(span.From) != 5*time.Minute {
			t.Errorf("asked for %+v", span)
		}
		w := f.do(t, alice, "GET", path+"federate", "").ok(200)
		if !strings.HasPrefix(w.Header().Get("Content-Type"), "text/plain") || w.Body.String() != "up 1\n" {
			t.Errorf("federate answers %s: %s", w.Header().Get("Content-Type"), w.Body)
		}
		f.do(t, alice, "GET", path+"query?filters=node_secrets", "").refused("not on the list", 400, "37")
		f.do(t, alice, "GET", path+`query?filters=up%7Bnamespace%3D"other"%7D`, "").refused("nobody writes expressions", 400, "37")
		f.do(t, alice, "GET", path+"query?filters="+strings.Repeat("x,", 101), "").refused("too many", 400, "37")
	}
	id := f.kafka(t, f.user(t, "bob", "acme"), "two")
	f.place(t, id)
	f.metrics.asked = nil
	f.do(t, alice, "GET", kafkas+"/"+id+"/metrics/query?filters=kafka_instance_partition_limit&filters%5B%5D=kafka_instance_connection_limit", "").ok(200)
	for _, asked := range f.metrics.asked {
		if !strings.Contains(asked, id) {
			t.Errorf("asked for %s, which is not about %s alone", asked, id)
		}
	}
	if all := strings.Join(f.metrics.asked, " "); !strings.Contains(all, "partition_limit") || !strings.Contains(all, "connection_limit") || strings.Contains(all, "kubelet") {
		t.Errorf("asked for %s", all)
	}
	f.metrics.err = fault.New(fault.Unavailable, "10.0.0.1 does not answer")
	for _, query := range []string{"query", "query_range?duration=5&interval=30", "federate"} {
		if e := f.do(t, alice, "GET", kafkas+"/"+id+"/metrics/"+query, "").refused("the source is away", 503, "9"); strings.Contains(e.Reason, "10.0.0.1") {
			t.Errorf("users read %q", e.Reason)
		}
	}
}
