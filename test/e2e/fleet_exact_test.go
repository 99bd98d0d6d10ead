package e2e

import (
	"encoding/json"
	"fmt"
	"net/http"
	"strconv"
	"strings"
	"sync"
	"testing"

	"github.com/droverhq/drover/test/drover"
)

// storm sends n orders at once over all replicas and counts the answers by
// status and code. Whoever is told to try again does, and what was taken though nobody
// was told so counts as taken: a busy machine has its ledger answer late.
func (f *fleet) storm(t *testing.T, n int, order func(i int) (token string, body map[string]any)) map[string]int {
	t.Helper()
	type answer struct {
		a           drover.Answer
		err         error
		token, name string
		late        bool // it was told to try again
	}
	answers := make([]answer, n)
	var wg sync.WaitGroup
	start := make(chan struct{})
	for i := range n {
		token, body := order(i)
		wg.Go(func() {
			<-start
			x := answer{token: token, name: body["name"].(string)}
			x.a, x.err = f.try(token, "POST", kafkaAPI+"/kafkas?async=true", body)
			for again := 0; again < 100; again++ {
				busy := x.a.Status == http.StatusServiceUnavailable
				if !busy && x.a.Error().ID != "42" { // a replica that has not heard of the quota yet
					break
				}
				x.late = x.late || busy
				x.a, x.err = f.try(token, "POST", kafkaAPI+"/kafkas?async=true", body)
			}
			answers[i] = x
		})
	}
	close(start)
	wg.Wait()
	out, taken := map[string]int{}, map[string]bool{}
	for _, x := range answers {
		var k kafka
		if x.a.Status == http.StatusAccepted && json.Unmarshal(x.a.Body, &k) == nil {
			taken[k.ID] = true
		}
	}
	for _, x := range answers {
		if x.err != nil {
			t.Errorf("an order got no answer: %v", x.err)
			continue
		}
		what := fmt.Sprint(x.a.Status)
		if x.a.Status != http.StatusAccepted {
			what += " " + x.a.Error().ID
			if x.late {
				if k := f.find(x.token, x.name); k.ID != "" && !taken[k.ID] {
					taken[k.ID], what = true, "202"
				}
			}
		}
		out[what]++
	}
	return out
}

// total is what the list says there is.
func (f *fleet) total(t *testing.T, token, search string) int {
	t.Helper()
	a := f.call(t, token, "GET", kafkaAPI+"/kafkas?size=1&search="+search, nil)
	var list struct{ Total int }
	if a.Status != http.StatusOK || json.Unmarshal(a.Body, &list) != nil {
		t.Fatalf("list: %d %s", a.Status, a.Body)
	}
	return list.Total
}

// However many ask at once on however many replicas: exactly what is allowed is
// taken, and what is given back can be had again.
func TestFleetBoundsAreExact(t *testing.T) {
	for name, c := range map[string]fleetConfig{"embedded": {}, "three replicas": {replicas: 3}} {
		t.Run(name, func(t *testing.T) {
			f := newFleet(t, c)
			f.quota(t, "acme", "model: standard, units: 7")
			f.quota(t, "wide", "model: standard, units: 1000")
			alice, wide := f.user(t, "alice", "acme"), f.user(t, "will", "wide")

			t.Run("quota", func(t *testing.T) {
				order := func(i int) (string, map[string]any) {
					return f.user(t, fmt.Sprintf("u%d", i%20), "acme"), map[string]any{"name": fmt.Sprintf("k%d", i), "plan": "standard.x1", "region": "us-east-1"}
				}
				diff(t, "200 at once", map[string]int{"202": 7, "403 120": 193}, f.storm(t, 200, order))
				if got := f.total(t, alice, ""); got != 7 {
					t.Errorf("the list has %d", got)
				}
			})
			t.Run("sizes take their units", func(t *testing.T) {
				f.quota(t, "pair", "model: standard, units: 5")
				order := func(i int) (string, map[string]any) {
					return f.user(t, fmt.Sprintf("u%d", i), "pair"), map[string]any{"name": fmt.Sprintf("k%d", i), "plan": "standard.x2", "region": "us-east-1"}
				}
				diff(t, "2 of 2 units each", map[string]int{"202": 2, "403 120": 38}, f.storm(t, 40, order))
			})
			t.Run("trial", func(t *testing.T) {
				order := func(i int) (string, map[string]any) {
					return f.user(t, fmt.Sprintf("t%d", i%4), "small"), map[string]any{"name": fmt.Sprintf("k%d", i), "region": "us-east-1"}
				}
				got := f.storm(t, 60, order)
				if got["202"] != 4 || len(got) != 2 {
					t.Errorf("four users, one each: %v", got)
				}
			})
			t.Run("name", func(t *testing.T) {
				order := func(i int) (string, map[string]any) {
					return wide, map[string]any{"name": "same", "plan": "standard.x1", "region": "us-east-1"}
				}
				diff(t, "50 of one name", map[string]int{"202": 1, "409 36": 49}, f.storm(t, 50, order))
			})
			t.Run("region", func(t *testing.T) {
				order := func(i int) (string, map[string]any) {
					return wide, map[string]any{"name": fmt.Sprintf("r%d", i), "plan": "standard.x1", "region": "eu-north-1"}
				}
				diff(t, "a region with room for five", map[string]int{"202": 5, "403 24": 55}, f.storm(t, 60, order))
			})
			t.Run("given back", func(t *testing.T) {
				a := f.call(t, alice, "GET", kafkaAPI+"/kafkas", nil)
				var list struct{ Items []kafka }
				decode(t, a, &list)
				boss := f.people.rs256(t, map[string]any{"username": "boss", "org_id": "acme", "is_org_admin": true})
				for _, k := range list.Items[:3] {
					f.remove(t, boss, k.ID)
				}
				for _, k := range list.Items[:3] {
					f.awaitGone(t, alice, k.ID)
				}
				order := func(i int) (string, map[string]any) {
					return alice, map[string]any{"name": fmt.Sprintf("again%d", i), "plan": "standard.x1", "region": "us-east-1"}
				}
				diff(t, "three again", map[string]int{"202": 3, "403 120": 27}, f.storm(t, 30, order))
			})
			// The counts outlive everybody who keeps them in mind.
			t.Run("after a restart", func(t *testing.T) {
				totals := map[string]int{"": f.total(t, alice, ""), "wide": f.total(t, wide, ""), "same": f.total(t, wide, "name+%3D+same")}
				drover.Until(t, "all of acme to be ready", func() bool { return f.total(t, alice, "status+%3D+ready") == 7 })
				// What cannot be counted at once is left out of the metrics.
				counted := func(s *drover.Server) float64 {
					return instancesOf(string(f.at(t, s, admin(t, f.servers[0]), "GET", "/metrics", nil).Body))
				}
				metrics := 0.0
				drover.Until(t, "the metrics to count them", func() bool { metrics = counted(f.servers[0]); return metrics >= 7 })
				for _, s := range f.servers {
					s.Kill()
				}
				for _, s := range f.servers {
					s.Start(t)
				}
				got := map[string]int{"": f.total(t, alice, ""), "wide": f.total(t, wide, ""), "same": f.total(t, wide, "name+%3D+same")}
				diff(t, "totals", totals, got)
				for _, s := range f.servers {
					drover.Until(t, "the metrics to count as many as before", func() bool { return counted(s) >= metrics })
				}
				refused(t, "quota", f.call(t, alice, "POST", kafkaAPI+"/kafkas?async=true", map[string]any{"name": "late", "plan": "standard.x1", "region": "us-east-1"}), 403, "KAFKAS-MGMT-120")
			})
		})
	}
}

// instancesOf reads how many instances are ready out of the metrics.
func instancesOf(metrics string) (n float64) {
	for line := range strings.Lines(metrics) {
		if strings.HasPrefix(line, "drover_instances{") && strings.Contains(line, `"ready"`) && strings.Contains(line, "kafka") {
			v, _ := strconv.ParseFloat(strings.TrimSpace(line[strings.LastIndexByte(line, ' '):]), 64)
			n += v
		}
	}
	return n
}
