package e2e

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/droverhq/drover/api/client"
	v1 "github.com/droverhq/drover/api/v1"
	"github.com/droverhq/drover/test/drover"
)

// edge is a server without a data plane and an agent that brings one.
func edge(t *testing.T) (*drover.Server, *drover.Agent) {
	t.Helper()
	s := drover.Serve(t)
	a := drover.Join(t, s.URL(), "edge", s.Cluster(t, "edge"), "--heartbeat", "1s")
	awaitCluster(t, s, "edge")
	return s, a
}

func awaitCluster(t *testing.T, s *drover.Server, name string) {
	t.Helper()
	c := s.Client(t)
	drover.Until(t, "cluster "+name+" to be ready", func() bool {
		o, err := c.Get(context.Background(), "clusters", name, "")
		return err == nil && o.Phase == "ready"
	})
}

func answers(t *testing.T, a *drover.Agent, name string) {
	t.Helper()
	if status, body := drover.Reach(a.Routes, host(name)); status != http.StatusOK || !strings.Contains(body, name) {
		t.Errorf("%s answers %d: %s", name, status, body)
	}
}

func TestInstancesOutliveEverybody(t *testing.T) {
	s, a := edge(t)
	c := s.Client(t)
	mustOrder(t, c, "rex")
	awaitPhase(t, c, "rex", "ready")
	answers(t, a, "rex")
	before := drover.Instances(a.DataDir)
	if len(before) != 1 {
		t.Fatalf("%d processes run, not one", len(before))
	}
	same := func(when string) {
		t.Helper()
		if diff := cmp.Diff(before, drover.Instances(a.DataDir)); diff != "" {
			t.Errorf("%s other processes run (-before +now):\n%s", when, diff)
		}
	}

	s.Kill()
	answers(t, a, "rex")
	same("without the server")

	// The agent dies and comes back while there is nobody to tell it anything.
	a.Kill()
	same("without the agent")
	a.Start(t)
	drover.Until(t, "the route", func() bool {
		status, _ := drover.Reach(a.Routes, host("rex"))
		return status == http.StatusOK
	})
	same("after the agent's restart without the server")

	// The server comes back: what is ordered now comes true, the rest stays.
	s.Start(t)
	mustOrder(t, c, "tina")
	awaitPhase(t, c, "tina", "ready")
	answers(t, a, "tina")
	if got := phase(c, "rex"); got != "ready" {
		t.Errorf("rex is %s after the outage", got)
	}
	now := drover.Instances(a.DataDir)
	if len(now) != 2 || !contains(now, before[0]) {
		t.Errorf("processes %v run, want %d and another one", now, before[0])
	}

	// An agent that was killed and comes back takes over what runs.
	before = now
	a.Kill()
	a.Start(t)
	mustOrder(t, c, "anna")
	awaitPhase(t, c, "anna", "ready")
	now = drover.Instances(a.DataDir)
	if len(now) != 3 || !contains(now, before[0]) || !contains(now, before[1]) {
		t.Errorf("processes %v run, want %v and another one", now, before)
	}

	// What was deleted while the agent was away goes when it is back.
	a.Kill()
	if _, err := c.Delete(context.Background(), "dinosaurs", "rex"); err != nil {
		t.Fatal(err)
	}
	if got := len(drover.Instances(a.DataDir)); got != 3 {
		t.Errorf("%d processes run without an agent, not 3", got)
	}
	a.Start(t)
	drover.Until(t, "rex to be gone", func() bool { return strings.HasPrefix(phase(c, "rex"), "status 404") })
	if got := len(drover.Instances(a.DataDir)); got != 2 {
		t.Errorf("%d processes run, not 2", got)
	}
	answers(t, a, "tina")
}

func contains(list []int, n int) bool {
	for _, v := range list {
		if v == n {
			return true
		}
	}
	return false
}

// installation tells which agent installation a cluster belongs to.
func installation(t *testing.T, c *client.Client, name string) string {
	t.Helper()
	o, err := c.Get(context.Background(), "clusters", name, "")
	if err != nil {
		t.Fatal(err)
	}
	var status struct{ Installation string }
	if err := json.Unmarshal(o.Status, &status); err != nil {
		t.Fatal(err)
	}
	return status.Installation
}

// A second agent for the same cluster, started by mistake on another machine,
// harms nothing, and takes over when an operator says so.
func TestSecondAgentOfOneCluster(t *testing.T) {
	s, a := edge(t)
	c := s.Client(t)
	mustOrder(t, c, "rex")
	awaitPhase(t, c, "rex", "ready")
	before := drover.Instances(a.DataDir)

	second := drover.Join(t, s.URL(), "edge", a.Token, "--heartbeat", "1s")
	drover.Until(t, "the second agent to be refused", func() bool {
		return strings.Contains(second.Log(), "another agent") || strings.Contains(s.Log(), "another agent speaks")
	})
	mustOrder(t, c, "tina")
	awaitPhase(t, c, "tina", "ready")
	answers(t, a, "rex")
	answers(t, a, "tina")
	if _, err := c.Delete(context.Background(), "dinosaurs", "tina"); err != nil {
		t.Fatal(err)
	}
	drover.Until(t, "tina to be gone", func() bool { return strings.HasPrefix(phase(c, "tina"), "status 404") })
	if got := phase(c, "rex"); got != "ready" {
		t.Errorf("rex is %s beside a second agent", got)
	}
	if diff := cmp.Diff(before, drover.Instances(a.DataDir)); diff != "" {
		t.Errorf("other processes run (-before +now):\n%s", diff)
	}

	if got := drover.Instances(second.DataDir); len(got) != 0 {
		t.Errorf("the second agent runs %d processes beside those of the first", len(got))
	}

	// The first one may be about to come back: its absence hands over nothing.
	a.Stop()
	mustOrder(t, c, "anna")
	drover.Until(t, "the second agent to be told what to do", func() bool {
		return strings.Contains(second.Log(), "drover update cluster edge --set installation=")
	})
	if got := drover.Instances(second.DataDir); len(got) != 0 {
		t.Errorf("the second agent runs %d processes while the first one restarts", len(got))
	}
	owner := installation(t, c, "edge")
	if out, _, _ := s.Run("describe", "cluster", "edge"); owner == "" || !strings.Contains(out, owner) {
		t.Errorf("describe does not tell that the cluster belongs to %q:\n%s", owner, out)
	}
	if out, stderr, code := s.Run("update", "cluster", "edge", "--set", "installation="); code != 0 || !strings.Contains(out, "cluster/edge updated") {
		t.Fatalf("cannot hand over, code %d: %s%s", code, out, stderr)
	}
	awaitPhase(t, c, "anna", "ready")
	answers(t, second, "anna")
	if now := installation(t, c, "edge"); now == "" || now == owner {
		t.Errorf("the cluster belongs to %q, before to %q", now, owner)
	}
}

// Reports that are late, made up or garbage change nothing that is true.
func TestReportsThatHarmNothing(t *testing.T) {
	s, a := edge(t)
	c := s.Client(t)
	mustOrder(t, c, "rex")
	awaitPhase(t, c, "rex", "ready")
	rex, err := c.Get(context.Background(), "dinosaurs", "rex", "")
	if err != nil {
		t.Fatal(err)
	}
	other := s.Cluster(t, "other")
	url := s.URL() + "/api/v1/clusters/edge/sync"
	now := head(t, c)
	report := func(change func(*v1.Sync)) string {
		r := v1.Sync{Protocol: v1.Protocol, Epoch: now.Epoch, Seq: 1, Agent: "stranger", Number: 1, Ready: true, Capacity: 10,
			Items: []v1.ObservedItem{{ID: rex.ID, Generation: rex.Generation, State: "error", Message: "made up"}}}
		change(&r)
		data, err := json.Marshal(r)
		if err != nil {
			t.Fatal(err)
		}
		return string(data)
	}
	plain := report(func(*v1.Sync) {})
	cases := map[string]struct {
		reason, token, url, body string
		status                   int
	}{
		"none":         {"A report needs a token.", "", url, plain, 401},
		"other":        {"To another cluster's agent this one does not exist.", other, url, plain, 404},
		"user":         {"Nor to a user.", token(t, s, "--user", "eve", "--org", "evil", "--org-admin"), url, plain, 404},
		"unknown":      {"A cluster that nobody knows.", a.Token, s.URL() + "/api/v1/clusters/nowhere/sync", plain, 404},
		"garbage":      {"What is no JSON.", a.Token, url, "\x00\xff{", 400},
		"array":        {"What is no report.", a.Token, url, "[]", 400},
		"types":        {"What has the wrong types.", a.Token, url, `{"epoch":"one","items":7}`, 400},
		"nobody":       {"A report of nobody.", a.Token, url, report(func(r *v1.Sync) { r.Agent = "" }), 400},
		"second agent": {"A process that is not the one that speaks.", a.Token, url, plain, 409},
		"old epoch":    {"A report from before a restore.", a.Token, url, report(func(r *v1.Sync) { r.Epoch-- }), 409},
		"new epoch":    {"A report from a future that this ledger does not know.", a.Token, url, report(func(r *v1.Sync) { r.Epoch++ }), 409},
		"ahead":        {"A state that was never there.", a.Token, url, report(func(r *v1.Sync) { r.Seq = now.Seq + 1_000_000 }), 409},
		"negative":     {"A capacity below nothing.", a.Token, url, report(func(r *v1.Sync) { r.Capacity = -1 }), 400},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			got := drover.Must(t, drover.Request{Method: http.MethodPost, URL: tc.url, Token: tc.token, Body: []byte(tc.body)})
			if got.Status != tc.status {
				t.Errorf("%s status %d, want %d: %s", tc.reason, got.Status, tc.status, got.Body)
			}
		})
	}

	// The same again in the name of the cluster's own agent, once it is gone
	// and its place is free: items that cannot be true are refused alone.
	a.Kill()
	items := []string{
		fmt.Sprintf(`{"id":%q,"generation":%d,"state":"deleted"}`, rex.ID, rex.Generation),                 // nobody asked for it
		fmt.Sprintf(`{"id":%q,"generation":%d,"state":"error","message":"old"}`, rex.ID, rex.Generation-1), // of an older intent
		fmt.Sprintf(`{"id":%q,"generation":%d,"state":"ready"}`, rex.ID, rex.Generation+7),                 // of one that was never written
		fmt.Sprintf(`{"id":%q,"generation":%d,"state":"dancing"}`, rex.ID, rex.Generation),
		`{"id":"nobody","generation":1,"state":"ready"}`,
		`{"id":7}`, `null`, `"text"`, `{}`,
	}
	body := fmt.Sprintf(`{"protocol":1,"epoch":%d,"seq":1,"agent":"liar","installation":%q,"number":%%d,"ready":true,"capacity":10,"items":[%s]}`,
		now.Epoch, installation(t, c, "edge"), strings.Join(items, ","))
	drover.Until(t, "the place of the agent to be free", func() bool {
		got := drover.Must(t, drover.Request{Method: http.MethodPost, URL: url, Token: a.Token, Body: fmt.Appendf(nil, body, 5)})
		return got.Status == http.StatusOK
	})
	if got := drover.Must(t, drover.Request{Method: http.MethodPost, URL: url, Token: a.Token, Body: fmt.Appendf(nil, body, 4)}); got.Status != 409 {
		t.Errorf("a late report gets %d", got.Status)
	}
	if got := phase(c, "rex"); got != "ready" {
		t.Errorf("rex is %s after made-up reports", got)
	}
	if got := len(drover.Instances(a.DataDir)); got != 1 {
		t.Errorf("%d processes run, not one", got)
	}
	a.Start(t)
	drover.Until(t, "rex to answer", func() bool {
		status, _ := drover.Reach(a.Routes, host("rex"))
		return status == http.StatusOK
	})
}

// An instance that dies is started again, and its tenant's route answers again.
func TestInstanceThatDies(t *testing.T) {
	s, a := edge(t)
	c := s.Client(t)
	mustOrder(t, c, "rex")
	awaitPhase(t, c, "rex", "ready")
	for range 2 {
		before := drover.Instances(a.DataDir)
		drover.KillInstances(a.DataDir)
		drover.Until(t, "another process that answers", func() bool {
			now := drover.Instances(a.DataDir)
			status, _ := drover.Reach(a.Routes, host("rex"))
			return len(now) == 1 && now[0] != before[0] && status == http.StatusOK
		})
		awaitPhase(t, c, "rex", "ready")
	}

	// It dies while nobody looks after it: the agent that comes back does.
	a.Kill()
	drover.KillInstances(a.DataDir)
	a.Start(t)
	drover.Until(t, "rex to answer", func() bool {
		status, _ := drover.Reach(a.Routes, host("rex"))
		return status == http.StatusOK
	})
	awaitPhase(t, c, "rex", "ready")
	if got := len(drover.Instances(a.DataDir)); got != 1 {
		t.Errorf("%d processes run, not one", got)
	}
}
