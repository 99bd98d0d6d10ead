package httpapi_test

import (
	"encoding/json"
	"strings"
	"testing"

	v1 "github.com/droverhq/drover/api/v1"
	"github.com/droverhq/drover/internal/cluster"
	"github.com/droverhq/drover/internal/instance"
	"github.com/droverhq/drover/internal/ledger"
)

// fleetOf are two clusters where dinosaurs can be, one that is set aside, and
// one elsewhere.
func fleetOf(w *world) {
	w.Helper()
	w.instances.Clusters = w.clusters
	for id, spec := range map[string]cluster.Spec{
		"small": {}, "large": {}, "aside": {Unschedulable: true}, "far": {Region: "far"},
	} {
		spec.Provider = "local"
		if spec.Region == "" {
			spec.Region = "local"
		}
		if _, err := w.clusters.Register(w.as("root"), id, spec); err != nil {
			w.Fatal(err)
		}
		report := cluster.Report{Agent: id, Ready: true, Capacity: 10}
		if id == "small" {
			report.Capacity = 1
		}
		if err := w.clusters.Report(w.as("root"), id, report); err != nil {
			w.Fatal(err)
		}
	}
}

func TestExplainPlacement(t *testing.T) {
	w := newWorld(t)
	fleetOf(w)
	const path = "/api/v1/placement/explain"
	before := w.head()
	var e v1.Explanation
	w.want(200, "root", "POST", path, `{"offering":"dinosaur","count":12}`, &e)
	if len(e.Orders) != 12 || e.Units != 1 || e.Region != "local" {
		t.Fatalf("%+v", e)
	}
	went := map[string]int{}
	for i, o := range e.Orders {
		if went[o.Cluster]++; o.Fits != (o.Cluster != "") || o.Reason == "" || len(o.Others) < 3 {
			t.Errorf("order %d: %+v", i, o)
		}
	}
	if went["small"] != 1 || went["large"] != 10 || went[""] != 1 {
		t.Errorf("twelve orders on eleven units went to %v", went)
	}
	w.want(200, "root", "POST", path, `{"offering":"dinosaur","without":["large","small"],"with":[{"units":3}]}`, &e)
	if e.Orders[0].Cluster != "extra-1" || len(e.Orders[0].Others) != 2 {
		t.Errorf("in another fleet: %+v", e.Orders[0])
	}
	var tenant v1.Explanation
	w.want(200, "alice", "POST", path, `{"offering":"dinosaur"}`, &tenant)
	text, _ := json.Marshal(tenant)
	if !tenant.Orders[0].Fits || strings.Contains(string(text), "small") || strings.Contains(string(text), "large") || strings.Contains(string(text), "aside") {
		t.Errorf("tenants read %s", text)
	}
	if !strings.Contains(string(text), "it takes no new orders") || strings.Contains(string(text), "region far") {
		t.Errorf("tenants read %s", text)
	}
	for _, c := range []struct {
		status    int
		who, body string
	}{
		{403, "alice", `{"offering":"dinosaur","without":["large"]}`},
		{403, "alice", `{"offering":"dinosaur","with":[{"units":1}]}`},
		{403, "alice", `{"offering":"dinosaur","org":"umbrella"}`},
		{403, "agent-c1", `{"offering":"dinosaur"}`},
		{404, "alice", `{"offering":"unicorn"}`},
		{400, "root", `{"offering":"dinosaur","type":"huge"}`},
		{400, "root", `{"offering":"dinosaur","without":["nowhere"]}`},
		{400, "root", `{"offering":"dinosaur","count":101}`},
	} {
		w.want(c.status, c.who, "POST", path, c.body, nil)
	}
	if w.head().Seq != before.Seq {
		t.Error("asking has written something")
	}
}

func TestPlacementOfAnInstance(t *testing.T) {
	w := newWorld(t)
	fleetOf(w)
	o := w.create("alice", "rex")
	var p v1.Placement
	w.want(200, "root", "GET", "/api/v1/dinosaurs/"+o.ID+"/placement", "", &p)
	if p.Cluster != "" || len(p.Orders) != 1 || !p.Orders[0].Fits {
		t.Errorf("not placed yet: %+v", p)
	}
	// It fills the small cluster, and would go there again: what it holds is not in its own way.
	w.edit(o.ID, func(in *instance.Instance) {
		in.Status.Cluster, in.Status.Units, in.Status.Placed = "small", 1, "it was the oldest"
		in.Status.Room = []instance.Hold{{Counter: cluster.CapacityCounter("small"), Units: 1}}
	})
	_, err := w.ledger.Commit(w.Context(), ledger.Set{Actor: "test", Cause: ledger.BySchedule("test"),
		Counts: []ledger.Count{{Name: cluster.CapacityCounter("small"), Delta: 1, Max: -1}}})
	if err != nil {
		t.Fatal(err)
	}
	w.want(200, "root", "GET", "/api/v1/instances/"+o.ID+"/placement", "", &p)
	reasons := map[string]string{}
	for _, other := range p.Orders[0].Others {
		reasons[other.Cluster] = other.Code
	}
	reasons[p.Orders[0].Cluster] = "chosen"
	if p.Cluster != "small" || p.Placed != "it was the oldest" || len(reasons) != 4 || reasons["aside"] != "unschedulable" || reasons["far"] != "place" {
		t.Errorf("%+v: %v", p, reasons)
	}
	if reasons["small"] == "room" {
		t.Error("it is in its own way")
	}
	w.edit(o.ID, func(in *instance.Instance) { in.Status.Rejected = []string{"large"} })
	var mine v1.Placement
	w.want(200, "alice", "GET", "/api/v1/instances/"+o.ID+"/placement", "", &mine)
	var object v1.Object
	w.want(200, "alice", "GET", "/api/v1/instances/"+o.ID, "", &object)
	for what, of := range map[string]any{"its placement": mine, "the instance": object} {
		text, _ := json.Marshal(of)
		for _, other := range []string{"large", "aside", "far"} {
			if strings.Contains(string(text), `"`+other) {
				t.Errorf("%s tells a tenant of cluster %s: %s", what, other, text)
			}
		}
	}
	w.want(404, "bob", "GET", "/api/v1/instances/"+o.ID+"/placement", "", nil)
	w.want(404, "root", "GET", "/api/v1/clusters/small/placement", "", nil)
}

func TestCapacity(t *testing.T) {
	w := newWorld(t)
	fleetOf(w)
	w.want(403, "alice", "GET", "/api/v1/capacity", "", nil)
	var c v1.Capacities
	w.want(200, "root", "GET", "/api/v1/capacity", "", &c)
	found := false
	for _, item := range c.Items {
		if item.Offering == "dinosaur" && item.Region == "local" {
			found = true
			if item.Max != 11 || item.Free != 11 || item.Largest != 10 || item.Clusters != 2 || item.Used != 0 || item.Aside != 0 {
				t.Errorf("%+v", item)
			}
		}
	}
	if !found {
		t.Errorf("nothing of dinosaurs: %+v", c)
	}
	_, err := w.ledger.Commit(w.Context(), ledger.Set{Actor: "test", Cause: ledger.BySchedule("test"), Counts: []ledger.Count{
		{Name: cluster.CapacityCounter("large"), Delta: 3, Max: -1}, {Name: cluster.TypeCounter("large", "dinosaur", "standard"), Delta: 3, Max: -1},
	}})
	if err != nil {
		t.Fatal(err)
	}
	w.want(200, "root", "GET", "/api/v1/capacity", "", &c)
	for _, item := range c.Items {
		if item.Used+item.Free != item.Max || item.Offering == "dinosaur" && item.Region == "local" && (item.Used != 3 || item.Max != 11) {
			t.Errorf("%+v", item)
		}
	}
	for _, use := range c.Clusters {
		if use.Cluster == "large" && (use.Used != 3 || use.Max != 10 || use.Types["dinosaur/standard"] != 3) || use.Cluster == "small" && use.Used != 0 {
			t.Errorf("%+v", use)
		}
	}
	if len(c.Clusters) != 4 {
		t.Errorf("%d clusters: %+v", len(c.Clusters), c.Clusters)
	}
}
