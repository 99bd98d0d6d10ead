package e2e

import (
	"net/http"
	"strings"
	"testing"

	"github.com/droverhq/drover/test/drover"
)

const kafkasAsync = kafkaAPI + "/kafkas?async=true"

func policyFile(kind, name, spec string) string {
	return "apiVersion: drover.dev/v1\nkind: " + kind + "\nmetadata: {name: " + name + "}\nspec: " + spec + "\n"
}

// Who is put on the deny list while the server runs may do nothing from the next
// request on, on every replica, and the instances go; others keep theirs.
func TestFleetDenyList(t *testing.T) {
	each(t, func(t *testing.T, f *fleet) {
		f.quota(t, "acme", "model: standard, units: 5")
		mallory, alice := f.user(t, "mallory", "acme"), f.user(t, "alice", "acme")
		bad := f.order(t, mallory, map[string]any{"name": "bad", "plan": "standard.x1", "region": "us-east-1"})
		good := f.order(t, alice, map[string]any{"name": "good", "plan": "standard.x1", "region": "us-east-1"})
		f.awaitStatus(t, alice, bad.ID, "ready")
		f.awaitStatus(t, alice, good.ID, "ready")
		f.apply(t, policyFile("DenyList", "main", "{users: [mallory]}"))
		for _, s := range f.servers {
			drover.Until(t, "the list to hold", func() bool {
				return f.at(t, s, mallory, "GET", kafkaAPI+"/kafkas", nil).Status == http.StatusForbidden
			})
			refused(t, "an order", f.at(t, s, mallory, "POST", kafkasAsync, map[string]any{"name": "worse", "region": "us-east-1"}), 403, "KAFKAS-MGMT-4")
		}
		f.awaitGone(t, alice, bad.ID)
		if k := f.awaitStatus(t, alice, good.ID, "ready"); k.Name != "good" {
			t.Errorf("%+v", k)
		}
		// A broken file changes nothing and says why.
		file := write(t, t.TempDir()+"/broken.yaml", policyFile("DenyList", "main", "{users: 7}"))
		if _, stderr, code := f.servers[0].Run("apply", "-f", file); code == 0 || !strings.Contains(stderr, "broken.yaml:4") {
			t.Errorf("exit code %d: %s", code, stderr)
		}
		for _, s := range f.servers {
			refused(t, "still denied", f.at(t, s, mallory, "GET", kafkaAPI+"/kafkas", nil), 403, "KAFKAS-MGMT-4")
		}
		f.apply(t, policyFile("DenyList", "main", "{users: []}"))
		for _, s := range f.servers {
			drover.Until(t, "the pardon", func() bool { return f.at(t, s, mallory, "GET", kafkaAPI+"/kafkas", nil).Status == http.StatusOK })
		}
	})
}

// While an access list is enabled others are told of maintenance.
func TestFleetAccessList(t *testing.T) {
	for name, c := range map[string]fleetConfig{"embedded": {}, "three replicas": {replicas: 3}} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			f := newFleet(t, c)
			alice, bob := f.user(t, "alice", "acme"), f.user(t, "bob", "umbrella")
			k := f.order(t, bob, map[string]any{"name": "before", "region": "us-east-1"})
			f.awaitStatus(t, bob, k.ID, "ready")
			f.apply(t, policyFile("AccessList", "main", "{enabled: true, organisations: [acme]}"))
			for _, s := range f.servers {
				list := func() drover.Answer { return f.at(t, s, bob, "GET", kafkaAPI+"/kafkas", nil) }
				drover.Until(t, "the list to hold", func() bool { return list().Status == http.StatusForbidden })
				refused(t, "umbrella", list(), 403, "KAFKAS-MGMT-18")
				refused(t, "an order", f.at(t, s, bob, "POST", kafkasAsync, map[string]any{"name": "x", "region": "us-east-1"}), 403, "KAFKAS-MGMT-18")
			}
			f.order(t, alice, map[string]any{"name": "inside", "region": "us-east-1"})
			f.apply(t, policyFile("AccessList", "main", "{enabled: false, organisations: [acme]}"))
			for _, s := range f.servers {
				drover.Until(t, "the end of maintenance", func() bool { return f.at(t, s, bob, "GET", kafkaAPI+"/kafkas", nil).Status == http.StatusOK })
			}
			f.awaitStatus(t, bob, k.ID, "ready") // nothing was taken away
		})
	}
}

// Nobody orders before the terms are accepted, in their present version.
func TestFleetTerms(t *testing.T) {
	for name, c := range map[string]fleetConfig{"embedded": {}, "three replicas": {replicas: 3}} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			c.file = func(s string) string { return strings.Replace(s, `terms: ""`, "terms: kafka-service", 1) }
			f := newFleet(t, c)
			alice := f.user(t, "alice", "acme")
			order := func(s *drover.Server, name string) drover.Answer {
				return f.at(t, s, alice, "POST", kafkasAsync, map[string]any{"name": name, "region": "us-east-1"})
			}
			first := f.servers[0]
			refused(t, "terms that nobody published", order(first, "one"), 403, "KAFKAS-MGMT-12")
			publish := func(version string) {
				f.apply(t, policyFile("Terms", "kafka-service", `{version: "`+version+`", url: "https://example.org/terms"}`))
			}
			publish("1")
			for _, s := range f.servers { // a replica that has not heard of them says the same
				refused(t, "not accepted", order(s, "one"), 403, "KAFKAS-MGMT-12")
			}
			accept := func(s *drover.Server, version string) drover.Answer {
				return f.at(t, s, alice, "POST", "/api/v1/terms/kafka-service/accept", `{"version":"`+version+`"}`)
			}
			for _, s := range f.servers {
				drover.Until(t, "the terms on every replica", func() bool { return accept(s, "1").Status < 300 })
			}
			a := order(f.servers[len(f.servers)-1], "one")
			if a.Status != http.StatusAccepted {
				t.Fatalf("an order gets %d: %s", a.Status, a.Body)
			}
			publish("2")
			bob := f.user(t, "bob", "acme")
			for _, s := range f.servers {
				drover.Until(t, "the old version to be accepted no more", func() bool { return accept(s, "1").Status == http.StatusConflict })
				refused(t, "the new version", order(s, "two"), 403, "KAFKAS-MGMT-12")
				refused(t, "another's acceptance", f.at(t, s, bob, "POST", kafkasAsync, map[string]any{"name": "bobs", "region": "us-east-1"}), 403, "KAFKAS-MGMT-12")
			}
			var k kafka
			decode(t, a, &k)
			f.awaitStatus(t, alice, k.ID, "ready")
		})
	}
}
