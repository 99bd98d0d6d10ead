package e2e

import (
	"encoding/json"
	"fmt"
	"testing"

	"github.com/droverhq/drover/test/drover"
)

// The other offering, with the same servers: a real process with Drover's own
// agent, ordered and read at different replicas.
func TestFleetDinosaurs(t *testing.T) {
	const api = "/api/dinosaurs_mgmt/v1/dinosaurs"
	each(t, func(t *testing.T, f *fleet) {
		if f.keycloak != nil { // nothing brought an agent along
			drover.Join(t, f.servers[0].URL(), "edge", f.servers[0].Cluster(t, "edge"))
			awaitCluster(t, f.servers[0], "edge")
		}
		alice := f.user(t, "alice", "acme")
		type dinosaur struct{ ID, Name, Status, Host string }
		read := func(path string) (d dinosaur, status int) {
			a := f.call(t, alice, "GET", path, nil)
			if err := json.Unmarshal([]byte(a.Body), &d); err != nil {
				t.Fatalf("GET %s: %d %s", path, a.Status, a.Body)
			}
			return d, a.Status
		}
		var made []dinosaur
		for i := range 6 {
			a := f.call(t, alice, "POST", api+"?async=true", fmt.Sprintf(`{"name":"rex-%d"}`, i))
			var d dinosaur
			if err := json.Unmarshal([]byte(a.Body), &d); a.Status != 202 || err != nil || d.Status != "accepted" {
				t.Fatalf("an order: %d %s", a.Status, a.Body)
			}
			made = append(made, d)
		}
		for _, d := range made {
			drover.Until(t, d.Name+" to be ready", func() bool {
				got, _ := read(api + "/" + d.ID)
				if got.Status == "failed" {
					t.Fatalf("%s failed", d.Name)
				}
				return got.Status == "ready" && got.Host != ""
			})
		}
		refused(t, "a name twice", f.call(t, alice, "POST", api+"?async=true", `{"name":"rex-0"}`), 409, "DINOSAURS-MGMT-36")
		for _, d := range made {
			if a := f.call(t, alice, "DELETE", api+"/"+d.ID+"?async=true", nil); a.Status != 202 {
				t.Fatalf("a deletion: %d %s", a.Status, a.Body)
			}
		}
		for _, d := range made {
			drover.Until(t, d.Name+" to be gone", func() bool {
				_, status := read(api + "/" + d.ID)
				return status == 404
			})
		}
		if a := f.call(t, alice, "POST", api+"?async=true", `{"name":"rex-0"}`); a.Status != 202 {
			t.Errorf("the name is not free again: %d %s", a.Status, a.Body)
		}
	})
}
