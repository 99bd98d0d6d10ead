package e2e

import (
	"encoding/base64"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/droverhq/drover/test/drover"
)

// From the order to ready, with everything outside, and back to nothing.
func TestFleetOrderToReadyToGone(t *testing.T) {
	each(t, func(t *testing.T, f *fleet) {
		f.quota(t, "acme", "model: standard, units: 1")
		alice, trier := f.user(t, "alice", "acme"), f.user(t, "tom", "small")
		k := f.order(t, alice, map[string]any{"name": "orders", "plan": "standard.x1", "cloud_provider": "aws", "region": "us-east-1"})
		trial := f.order(t, trier, map[string]any{"name": "trial", "region": "us-east-1"})
		k, trial = f.awaitStatus(t, alice, k.ID, "ready"), f.awaitStatus(t, trier, trial.ID, "ready")
		if k.Type != "standard" || k.Size != "x1" || !k.MultiAZ || k.Expires != "" || k.Version != "3.3.1" || k.Billing != "standard" || k.Admin == "" {
			t.Errorf("with quota: %+v", k)
		}
		if trial.Type != "developer" || trial.MultiAZ || trial.Expires == "" {
			t.Errorf("a trial: %+v", trial)
		}
		host := strings.TrimSuffix(k.Host, ":443")
		if host != "orders-"+k.ID+"."+zone {
			t.Errorf("its host is %s", host)
		}
		refused(t, "one more than granted", f.call(t, alice, "POST", kafkaAPI+"/kafkas?async=true", map[string]any{"name": "more", "plan": "standard.x1", "region": "us-east-1"}), 403, "KAFKAS-MGMT-120")

		// Its account, at the identity provider itself.
		account := f.managed(t, k.ID).Spec.ServiceAccounts[0]
		f.secret(account.Password)
		issued, _, err := drover.ClientCredentials(f.tokenURL(t), account.Principal, account.Password)
		if err != nil {
			t.Fatalf("the account of the instance: %v", err)
		}
		f.secret(issued)
		if c := claims(t, issued); c["rh-org-id"] != "acme" || c["clientId"] != account.Principal {
			t.Errorf("its claims: %v", c)
		}
		if f.keycloak != nil && f.clients(t)[account.Principal] == "" {
			t.Error("Keycloak does not have it")
		}
		if f.bind != nil {
			mark := "heritage=drover,"
			for _, h := range []string{host, "admin-server-" + host} {
				if got := f.records(t); !slices.Contains(got, h+" CNAME "+router) || !slices.ContainsFunc(got, func(r string) bool {
					return strings.HasPrefix(r, "_drover."+h+" TXT "+mark) && strings.HasSuffix(r, "owner=instance/"+k.ID)
				}) {
					t.Errorf("%s is not in the zone: %v", h, got)
				}
			}
		}

		// And nothing is left of them.
		f.remove(t, alice, k.ID)
		f.remove(t, trier, trial.ID)
		f.awaitGone(t, alice, k.ID)
		f.awaitGone(t, trier, trial.ID)
		if _, _, err := drover.ClientCredentials(f.tokenURL(t), account.Principal, account.Password); err == nil {
			t.Error("its account still logs in")
		}
		if f.keycloak != nil {
			if left := f.clients(t); len(left) != 1 { // the agent's
				t.Errorf("clients are left: %v", left)
			}
		}
		if left := f.records(t); len(left) > 0 {
			t.Errorf("records are left: %v", left)
		}
		// Units, trial and names are free again.
		again := f.order(t, alice, map[string]any{"name": "orders", "plan": "standard.x1", "region": "us-east-1"})
		f.order(t, trier, map[string]any{"name": "trial", "region": "us-east-1"})
		f.awaitStatus(t, alice, again.ID, "ready")
	})
}

func claims(t testing.TB, token string) (out map[string]any) {
	t.Helper()
	parts := strings.Split(token, ".")
	if len(parts) != 3 {
		t.Fatal("that is no JWT")
	}
	data, err := base64.RawURLEncoding.DecodeString(parts[1])
	if err != nil || json.Unmarshal(data, &out) != nil {
		t.Fatal(err)
	}
	return out
}

// What somebody deletes by hand while the instance is ready comes back, with the
// secret that it had.
func TestFleetDeletedByHandComesBack(t *testing.T) {
	f := newFleet(t, whole)
	f.quota(t, "acme", "model: standard, units: 5")
	alice := f.user(t, "alice", "acme")
	k := f.order(t, alice, map[string]any{"name": "orders", "plan": "standard.x1", "region": "us-east-1"})
	k = f.awaitStatus(t, alice, k.ID, "ready")
	host := strings.TrimSuffix(k.Host, ":443")
	account := f.managed(t, k.ID).Spec.ServiceAccounts[0]
	f.secret(account.Password)
	before := f.records(t)
	has := func(record string) func() bool {
		return func() bool { return slices.Contains(f.records(t), record) }
	}
	t.Run("CNAME", func(t *testing.T) {
		f.bind.Delete(t, zone, host, "CNAME")
		drover.Until(t, "the CNAME to come back", has(host+" CNAME "+router))
	})
	t.Run("CNAME and mark", func(t *testing.T) {
		// Not one after the other: what came back in between would be somebody else's.
		f.bind.DeleteAtOnce(t, zone, [2]string{"admin-server-" + host, "CNAME"}, [2]string{"_drover.admin-server-" + host, "TXT"})
		drover.Until(t, "the pair to come back", func() bool { return len(f.records(t)) == len(before) })
		slices.Sort(before)
		after := f.records(t)
		slices.Sort(after)
		diff(t, "the zone", before, after)
	})
	t.Run("changed CNAME", func(t *testing.T) {
		f.bind.Delete(t, zone, host, "CNAME")
		f.bind.Add(t, zone, fmt.Sprintf("%s. 60 CNAME elsewhere.test.", host))
		drover.Until(t, "the CNAME to be right again", has(host+" CNAME "+router))
	})
	t.Run("client", func(t *testing.T) {
		f.deleteClient(t, account.Principal)
		drover.Until(t, "the client to come back with its secret", func() bool {
			_, _, err := drover.ClientCredentials(f.tokenURL(t), account.Principal, account.Password)
			return err == nil
		})
	})
	if got := f.awaitStatus(t, alice, k.ID, "ready"); got.Failed != "" {
		t.Errorf("%+v", got)
	}
	if n := len(f.shard.Documents(k.ID)); n != 1 {
		t.Errorf("the agent saw %d documents", n)
	}
	f.discreet(t)
}

// A record that somebody else has made is neither changed nor removed, and the
// instance says so.
func TestFleetForeignRecordIsLeftAlone(t *testing.T) {
	f := newFleet(t, fleetConfig{bind: true, file: func(s string) string {
		return strings.Replace(s, "${instance.name}-${instance.id}."+zone, "${instance.name}."+zone, 1)
	}})
	f.quota(t, "acme", "model: standard, units: 5")
	alice := f.user(t, "alice", "acme")
	f.bind.Add(t, zone, "www."+zone+". 60 CNAME somebody.test.")
	k := f.order(t, alice, map[string]any{"name": "www", "plan": "standard.x1", "region": "us-east-1"})
	other := f.order(t, alice, map[string]any{"name": "other", "plan": "standard.x1", "region": "us-east-1"})
	f.awaitStatus(t, alice, other.ID, "ready")
	drover.Until(t, "the message", func() bool {
		m := f.message(t, k.ID)
		return strings.Contains(m, "name servers") && strings.Contains(m, "www."+zone+" has a CNAME record that was not made here")
	})
	f.remove(t, alice, k.ID)
	f.awaitGone(t, alice, k.ID)
	if !slices.Contains(f.records(t), "www."+zone+" CNAME somebody.test") {
		t.Errorf("it is gone: %v", f.records(t))
	}
}
