package e2e

import (
	"encoding/json"
	"fmt"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/droverhq/drover/test/drover"
)

// From eval to standard: the bill changes, the instance does not notice.
func TestFleetPromotion(t *testing.T) {
	each(t, func(t *testing.T, f *fleet) {
		f.quota(t, "acme", "model: eval, units: 1", "model: standard, units: 1")
		alice := f.user(t, "alice", "acme")
		order := map[string]any{"name": "orders", "plan": "standard.x1", "region": "us-east-1", "billing_model": "eval"}
		k := f.order(t, alice, order)
		if k = f.awaitStatus(t, alice, k.ID, "ready"); k.Billing != "eval" {
			t.Errorf("%+v", k)
		}
		before := f.shard.Documents(k.ID)
		promote := func(who, model string) drover.Answer {
			return f.call(t, who, "POST", kafkaAPI+"/kafkas/"+k.ID+"/promote?async=true", map[string]any{"desired_kafka_billing_model": model})
		}
		refused(t, "a stranger", promote(f.user(t, "eve", "umbrella"), "standard"), 404, "KAFKAS-MGMT-7")
		if a := promote(alice, "nonsense"); a.Status != http.StatusBadRequest {
			t.Errorf("no such model: %d %s", a.Status, a.Body)
		}
		if a := promote(alice, "standard"); a.Status != http.StatusAccepted {
			t.Fatalf("promote: %d %s", a.Status, a.Body)
		}
		k = f.await(t, alice, k.ID, "promoted", func(k kafka) bool { return k.Billing == "standard" && k.Promotion == "" })
		if k.Status != "ready" {
			t.Errorf("%+v", k)
		}
		polls := f.shard.Polls()
		drover.Until(t, "the agent to look again", func() bool { return f.shard.Polls() > polls+len(f.servers) })
		diff(t, "what the agent saw", before, f.shard.Documents(k.ID))
		if a := promote(alice, "standard"); a.Status < 400 || a.Status >= 500 {
			t.Errorf("what is not eval is promoted: %d %s", a.Status, a.Body)
		}
		// Eval is free again, standard is used up.
		order["name"] = "next"
		f.order(t, alice, order)
		order["name"], order["billing_model"] = "last", "standard"
		refused(t, "standard is used up", f.call(t, alice, "POST", kafkasAsync, order), 403, "KAFKAS-MGMT-120")
	})
}

// Operators rest and wake an instance; the agent is told and says when it is so.
func TestFleetSuspendAndResume(t *testing.T) {
	each(t, func(t *testing.T, f *fleet) {
		f.quota(t, "acme", "model: standard, units: 5")
		alice, full := f.user(t, "alice", "acme"), f.operator(t, "kas-fleet-manager-admin-full")
		k := f.order(t, alice, map[string]any{"name": "orders", "plan": "standard.x1", "region": "us-east-1"})
		f.awaitStatus(t, alice, k.ID, "ready")
		patch := func(body string) drover.Answer {
			return f.call(t, full, "PATCH", kafkaAPI+"/admin/kafkas/"+k.ID, body)
		}
		f.shard.Mute("orders", true)
		if a := patch(`{"suspended": true}`); a.Status != http.StatusOK {
			t.Fatalf("suspend: %d %s", a.Status, a.Body)
		}
		f.awaitStatus(t, alice, k.ID, "suspending")
		f.shard.Mute("orders", false)
		f.awaitStatus(t, alice, k.ID, "suspended")
		drover.Until(t, "the agent to read so at every replica", func() bool {
			return f.managed(t, k.ID).Metadata.Labels["bf2.org/suspended"] == "true"
		})
		if a := patch(`{"suspended": false}`); a.Status != http.StatusOK {
			t.Fatalf("resume: %d %s", a.Status, a.Body)
		}
		f.awaitStatus(t, alice, k.ID, "ready")
		// The same by the command line.
		for _, c := range [][2]string{{"suspend", "suspended"}, {"resume", "ready"}} {
			if _, stderr, code := f.servers[0].Run(c[0], "kafka", k.ID); code != 0 {
				t.Fatalf("drover %s: %s", c[0], stderr)
			}
			f.awaitStatus(t, alice, k.ID, c[1])
		}
		refused(t, "a user", f.call(t, alice, "PATCH", kafkaAPI+"/admin/kafkas/"+k.ID, `{"suspended": true}`), 404, "KAFKAS-MGMT-7")
	})
}

// What lives for a while is suspended for its grace and then goes by itself, and
// so does what is not paid for any more.
func TestFleetExpiry(t *testing.T) {
	each(t, func(t *testing.T, f *fleet) {
		f.quota(t, "acme", "model: eval, units: 2")
		alice := f.user(t, "alice", "acme")
		paid := f.order(t, alice, map[string]any{"name": "paid", "plan": "standard.x1", "region": "us-east-1", "billing_model": "eval"})
		full := f.operator(t, "kas-fleet-manager-admin-full")
		var k kafka
		var at time.Time
		// A machine that stalls may sleep through the grace of one: the next has its own.
		drover.Until(t, "one that is not woken in its grace", func() bool {
			k = f.order(t, alice, map[string]any{"name": "brief", "plan": "standard.brief", "region": "us-east-1", "billing_model": "eval"})
			ordered, err := time.Parse(time.RFC3339, k.Created)
			if err == nil {
				at, err = time.Parse(time.RFC3339, k.Expires)
			}
			if err != nil || at.Sub(ordered).Round(time.Second) != briefLife {
				t.Errorf("it expires at %s, ordered %s", k.Expires, k.Created)
			}
			refused, over := false, false
			drover.Until(t, "its grace, or its end", func() bool {
				a := f.call(t, alice, "GET", kafkaAPI+"/kafkas/"+k.ID, nil)
				var now kafka
				if over = a.Status == http.StatusNotFound; over || json.Unmarshal(a.Body, &now) != nil || !strings.HasPrefix(now.Status, "suspend") {
					return over
				}
				a = f.call(t, full, "PATCH", kafkaAPI+"/admin/kafkas/"+k.ID, `{"suspended": false}`)
				if a.Status < 400 || a.Status >= 500 {
					t.Fatalf("it is woken in its grace: %d %s", a.Status, a.Body)
				}
				refused = strings.Contains(a.Error().Reason, "within the grace period") // and not because it does not rest yet, or any more
				return refused
			})
			return refused
		})
		f.awaitGone(t, alice, k.ID)
		if late := time.Since(at); late < 0 || late > drover.Patience {
			t.Errorf("it went %s after its time", late)
		}
		if !f.was(t, k.ID, func(phase string, _ []byte) bool { return phase == "suspending" }) {
			t.Error("it was never suspended in its grace")
		}
		if got := f.awaitStatus(t, alice, paid.ID, "ready"); got.Expires != "" {
			t.Errorf("%+v", got)
		}
		ends := time.Now().Add(2 * time.Second)
		f.quota(t, "acme", fmt.Sprintf("model: eval, units: 2, expires: %q", ends.UTC().Format(time.RFC3339Nano)))
		f.awaitGone(t, alice, paid.ID)
		if time.Now().Before(ends.Add(evalGrace)) {
			t.Error("it went before its grace was over")
		}
		if !f.was(t, paid.ID, func(phase string, status []byte) bool {
			return phase == "suspending" && strings.Contains(string(status), `"expires":`)
		}) {
			t.Error("it was never told when it ends, nor suspended until then")
		}
		if left := f.records(t); len(left) > 0 {
			t.Errorf("records are left: %v", left)
		}
	})
}

// Each method of the operators' API has its roles, nobody else learns that it is
// there, and every call is on record.
func TestFleetOperatorsAndAudit(t *testing.T) {
	for name, c := range map[string]fleetConfig{"embedded": {}, "three replicas": {replicas: 3}} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			f := newFleet(t, c)
			alice := f.user(t, "alice", "acme")
			k := f.order(t, alice, map[string]any{"name": "orders", "region": "us-east-1"})
			f.awaitStatus(t, alice, k.ID, "ready")
			one := kafkaAPI + "/admin/kafkas/" + k.ID
			const prefix = "kas-fleet-manager-admin-"
			calls := []struct {
				method, path, body string
				may                []string
			}{
				{"GET", kafkaAPI + "/admin/kafkas", "", []string{"read", "write", "full"}},
				{"GET", one, "", []string{"read", "write", "full"}},
				{"PATCH", one, `{"max_data_retention_size": "20Gi"}`, []string{"write", "full"}},
				{"DELETE", one + "?async=true", "", []string{"full"}},
			}
			want := map[string]int{}
			for _, call := range calls {
				for _, role := range []string{"none", "read", "write", "full"} {
					a := f.call(t, f.operator(t, prefix+role), call.method, call.path, call.body)
					path, _, _ := strings.Cut(call.path, "?")
					if strings.Contains(strings.Join(call.may, " "), role) {
						if a.Status >= 300 {
							t.Errorf("%s with %s: %d %s", call.method, role, a.Status, a.Body)
						}
						want[call.method+" "+path+" done"]++
						continue
					}
					refused(t, call.method+" with "+role, a, 404, "KAFKAS-MGMT-7")
					want[call.method+" "+path+" hidden"]++
				}
			}
			made := 0
			for _, n := range want {
				made += n
			}
			var got map[string]int
			drover.Until(t, "hidden calls to be on record", func() bool { // after their answers
				a := f.call(t, admin(t, f.servers[0]), "GET", "/api/v1/audits?size=1000", nil)
				var list struct {
					Items []struct {
						Name, Phase, Owner string
						Spec               json.RawMessage
					}
				}
				decode(t, a, &list)
				got = map[string]int{}
				all := 0
				for _, it := range list.Items {
					if it.Owner == "op" {
						got[it.Name+" "+it.Phase]++
						all++
						if !strings.Contains(string(it.Spec), "127.0.0.1") {
							t.Errorf("from where? %s", it.Spec)
						}
					}
				}
				return all >= made
			})
			diff(t, "the audit", want, got)
			refused(t, "the audit is for operators", f.call(t, alice, "GET", "/api/v1/audits", nil), 403, "DROVER-11")
			f.awaitGone(t, alice, k.ID)
		})
	}
}

// Service accounts log in where the API says, and stop when they are deleted.
func TestFleetServiceAccounts(t *testing.T) {
	each(t, func(t *testing.T, f *fleet) {
		alice, bob := f.user(t, "alice", "acme"), f.user(t, "bob", "umbrella")
		type account struct {
			ID, Name, Owner string
			ClientID        string `json:"client_id"`
			Secret          string `json:"client_secret"`
		}
		var made account
		a := f.call(t, alice, "POST", kafkaAPI+"/service_accounts", map[string]any{"name": "ci", "description": "builds things"})
		decode(t, a, &made)
		if a.Status != http.StatusAccepted && a.Status != http.StatusOK || made.Secret == "" || made.Owner != "alice" {
			t.Fatalf("create: %d %s", a.Status, a.Body)
		}
		f.secret(made.Secret)
		login := func(secret string) (string, error) {
			token, _, err := drover.ClientCredentials(f.tokenURL(t), made.ClientID, secret)
			return token, err
		}
		token, err := login(made.Secret)
		if err != nil {
			t.Fatal(err)
		}
		f.secret(token)
		if c := claims(t, token); c["rh-org-id"] != "acme" {
			t.Errorf("its claims: %v", c)
		}
		// It is a user of the API, of its organisation.
		if a := f.call(t, token, "GET", kafkaAPI+"/service_accounts", nil); a.Status != http.StatusOK || !strings.Contains(string(a.Body), made.ID) || strings.Contains(string(a.Body), made.Secret) {
			t.Errorf("with its own token: %d %s", a.Status, a.Body)
		}
		for _, call := range [][2]string{{"GET", ""}, {"DELETE", ""}, {"POST", "/reset_credentials"}} {
			refused(t, "a stranger's "+call[0], f.call(t, bob, call[0], kafkaAPI+"/service_accounts/"+made.ID+call[1], nil), 404, "KAFKAS-MGMT-113")
		}
		var reset account
		decode(t, f.call(t, alice, "POST", kafkaAPI+"/service_accounts/"+made.ID+"/reset_credentials", nil), &reset)
		f.secret(reset.Secret)
		if _, err := login(made.Secret); err == nil {
			t.Error("the old secret still logs in")
		}
		if _, err := login(reset.Secret); err != nil {
			t.Errorf("the new secret: %v", err)
		}
		if a := f.call(t, alice, "DELETE", kafkaAPI+"/service_accounts/"+made.ID, nil); a.Status != http.StatusNoContent {
			t.Fatalf("delete: %d %s", a.Status, a.Body)
		}
		drover.Until(t, "the login to be refused", func() bool { _, err := login(reset.Secret); return err != nil })
	})
}
