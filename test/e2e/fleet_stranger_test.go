package e2e

import (
	"crypto/x509"
	"encoding/base64"
	"encoding/json"
	"encoding/pem"
	"fmt"
	"maps"
	"net/http"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/go-jose/go-jose/v4"

	"github.com/droverhq/drover/test/drover"
)

var operationID = regexp.MustCompile(`"operation_id":"[^"]*"`)

// Another organisation's token reads, lists, changes and infers nothing, on any
// operation that the documents name: what is there is answered like what is not.
func TestFleetStrangersLearnNothing(t *testing.T) {
	f := newFleet(t, fleetConfig{})
	f.quota(t, "acme", "model: standard, units: 5", "model: enterprise, units: 5")
	f.quota(t, "umbrella", "model: standard, units: 500", "model: enterprise, units: 5") // she may do everything, but elsewhere
	alice := f.people.rs256(t, map[string]any{"username": "alice", "org_id": "acme", "is_org_admin": true})
	eve := f.people.rs256(t, map[string]any{"username": "eve", "org_id": "umbrella", "is_org_admin": true})
	k := f.order(t, alice, map[string]any{"name": "treasure", "plan": "standard.x1", "region": "us-east-1"})
	k = f.awaitStatus(t, alice, k.ID, "ready")
	var account struct{ ID string }
	decode(t, f.call(t, alice, "POST", kafkaAPI+"/service_accounts", `{"name":"treasurer"}`), &account)
	const cluster = "aaaabbbbccccddddeeeeffff00001111"
	if a := f.call(t, alice, "POST", kafkaAPI+"/clusters", map[string]any{"cluster_id": cluster, "cluster_ingress_dns_name": "apps.treasure.test",
		"kafka_machine_pool_node_count": 3, "access_kafkas_via_private_network": false}); a.Status != http.StatusOK {
		t.Fatalf("a cluster: %d %s", a.Status, a.Body)
	}
	drover.Until(t, "the cluster to wait for its agent, and to change no more", func() bool {
		return strings.Contains(string(f.call(t, alice, "GET", kafkaAPI+"/clusters/"+cluster, nil).Body), `"status":"waiting_for_kas_fleetshard_operator"`)
	})
	var dino struct{ ID string }
	a := f.call(t, alice, "POST", "/api/dinosaurs_mgmt/v1/dinosaurs?async=true", `{"name":"treasure"}`)
	if decode(t, a, &dino); a.Status != http.StatusAccepted {
		t.Fatalf("a dinosaur: %d %s", a.Status, a.Body)
	}
	drover.Until(t, "the dinosaur", func() bool {
		return strings.Contains(string(f.call(t, alice, "GET", "/api/dinosaurs_mgmt/v1/dinosaurs/"+dino.ID, nil).Body), `"ready"`)
	})
	victims := []string{k.ID, account.ID, cluster, dino.ID, "treasure"}
	state := func() string {
		var b strings.Builder
		for _, path := range []string{kafkaAPI + "/kafkas/" + k.ID, kafkaAPI + "/service_accounts/" + account.ID, kafkaAPI + "/clusters/" + cluster, "/api/dinosaurs_mgmt/v1/dinosaurs/" + dino.ID} {
			b.Write(f.call(t, alice, "GET", path, nil).Body)
		}
		return b.String()
	}
	before := state()
	tried := 0
	var asked []string
	for _, base := range []string{kafkaAPI, "/api/dinosaurs_mgmt/v1", "/api/v1"} {
		for _, op := range operations(t, f, base) {
			own := map[string]string{"kafkas": k.ID, "service_accounts": account.ID, "clusters": cluster, "dinosaurs": dino.ID}
			fill := func(id func(collection string) string) string {
				path := op.path
				for _, p := range [][2]string{{"{cloud_provider}", "aws"}, {"{cloud_region}", "us-east-1"}, {"cloud_providers/{id}", "cloud_providers/aws"}, {"errors/{id}", "errors/7"}, {"{resource}", "kafkas"}} {
					path = strings.ReplaceAll(path, p[0], p[1])
				}
				collection := strings.Split(strings.TrimPrefix(path, base+"/"), "/")[0]
				return regexp.MustCompile(`\{[^}]+\}`).ReplaceAllString(path, id(collection))
			}
			real := fill(func(c string) string {
				if id, ok := own[c]; ok {
					return id
				}
				return k.ID
			})
			fake := fill(func(c string) string {
				if c == "clusters" {
					return "00001111222233334444555566667777"
				}
				return "06gts9q9qge522lcorqhcq2z"
			})
			ask := func(path string) drover.Answer {
				asked = append(asked, `"call":"`+op.method+" "+path+`"`)
				r := drover.Request{Method: op.method, URL: f.servers[0].URL() + path + op.query, Token: eve, Body: []byte(op.body),
					Header: http.Header{"Content-Type": {"application/json"}}}
				if op.stream {
					r.Timeout = time.Second
				}
				a, err := drover.Ask(r)
				if err != nil && !(op.stream && strings.Contains(err.Error(), "deadline")) { // a stream has no end
					t.Errorf("%s %s: %v", op.method, path, err)
				}
				return a
			}
			got := ask(real)
			tried++
			body := string(got.Body)
			if real != fake {
				other := ask(fake)
				plain := func(s, path string) string {
					for _, id := range append(victims[:4:4], "00001111222233334444555566667777", "06gts9q9qge522lcorqhcq2z") {
						s = strings.ReplaceAll(s, id, "ID")
					}
					return operationID.ReplaceAllString(s, "")
				}
				if got.Status != other.Status || plain(body, real) != plain(string(other.Body), fake) {
					t.Errorf("%s %s tells that it is there:\n%d %s\n%d %s", op.method, op.path, got.Status, body, other.Status, other.Body)
				}
				if got.Status < 400 && got.Status != 0 && strings.HasPrefix(op.path, base+"/kafkas") {
					t.Errorf("%s %s: %d %s", op.method, op.path, got.Status, body)
				}
				continue
			}
			for _, own := range asked { // of her own calls she is told what she wrote herself
				body = strings.ReplaceAll(body, own, "")
			}
			for _, v := range victims {
				if got.Status < 300 && strings.Contains(body, v) && !strings.Contains(op.body, v) {
					t.Errorf("%s %s shows %s: %s", op.method, op.path, v, body)
				}
			}
		}
	}
	if tried < 60 {
		t.Errorf("only %d operations were found", tried)
	}
	diff(t, "what was the victim's", before, state())
	for _, search := range []string{"name+%3D+treasure", "owner+%3D+alice", "name+LIKE+%25"} {
		if n := f.total(t, eve, search); n != 0 && !strings.Contains(search, "LIKE") {
			t.Errorf("a search for %s finds %d", search, n)
		}
	}
	// A name that is taken elsewhere is free here.
	f.order(t, eve, map[string]any{"name": "treasure", "plan": "standard.x1", "region": "us-east-1"})
}

type apiOperation struct {
	method, path, query, body string
	stream                    bool
}

// operations of an API, out of its document, with what they need to get as far
// as the object they speak of.
func operations(t *testing.T, f *fleet, base string) (out []apiOperation) {
	t.Helper()
	at := base + "/openapi"
	if base == "/api/v1" {
		at = "/openapi.json"
	}
	var doc struct {
		Paths map[string]map[string]json.RawMessage
	}
	decode(t, f.call(t, "", "GET", at, nil), &doc)
	for _, path := range slices.Sorted(maps.Keys(doc.Paths)) {
		for _, method := range slices.Sorted(maps.Keys(doc.Paths[path])) {
			method = strings.ToUpper(method)
			if !slices.Contains([]string{"GET", "POST", "PATCH", "PUT", "DELETE"}, method) {
				continue
			}
			full := path
			if !strings.HasPrefix(full, "/api/") {
				full = base + path
			}
			op := apiOperation{method: method, path: full, query: "?async=true&duration=5&interval=30"}
			op.stream = strings.Contains(string(doc.Paths[path][strings.ToLower(method)]), "text/event-stream")
			if base == "/api/v1" {
				op.query = ""
			}
			switch {
			case method == "PATCH" && strings.Contains(path, "kafkas"):
				op.body = `{"reauthentication_enabled": false}`
			case method == "PATCH":
				op.body = `{"owner": "eve"}`
			case strings.HasSuffix(path, "/promote"):
				op.body = `{"desired_kafka_billing_model": "standard"}`
			case method == "POST" && !strings.Contains(path, "{"):
				op.body = fmt.Sprintf(`{"name":"n%d"}`, len(out))
			case method == "PUT" || method == "POST":
				op.body = `{}`
			}
			out = append(out, op)
		}
	}
	return out
}

// Tokens that are not good are not good on any API, and one issuer that is away
// is nobody else's trouble; the agents' own accounts need no audience.
func TestFleetTokens(t *testing.T) {
	for name, c := range map[string]fleetConfig{"embedded": {}, "keycloak": {keycloak: true, replicas: 1}} {
		t.Run(name, func(t *testing.T) {
			away, evil := newIssuer(t), newIssuer(t)
			c.issuers, c.audience = []string{away.URL}, "drover"
			f := newFleet(t, c)
			fromAway := away.rs256(t, map[string]any{"aud": "drover"})
			away.Close() // before anybody has asked for its keys
			if a := f.call(t, f.user(t, "alice", "acme"), "GET", kafkaAPI+"/kafkas", nil); a.Status != http.StatusOK {
				t.Fatalf("a good token: %d %s", a.Status, a.Body)
			}
			good := map[string]any{"aud": "drover"}
			with := func(more map[string]any) map[string]any {
				all := maps.Clone(good)
				maps.Copy(all, more)
				return all
			}
			public, err := x509.MarshalPKIXPublicKey(f.people.rsa.Public())
			if err != nil {
				t.Fatal(err)
			}
			asPEM := pem.EncodeToMemory(&pem.Block{Type: "PUBLIC KEY", Bytes: public})
			body := strings.Split(f.people.rs256(t, good), ".")[1]
			none := base64.RawURLEncoding.EncodeToString([]byte(`{"alg":"none","kid":"r1","typ":"JWT"}`)) + "." + body + "."
			for name, c := range map[string]struct{ reason, token string }{
				"expired":      {"Its time is over.", f.people.rs256(t, with(map[string]any{"exp": time.Now().Add(-time.Hour).Unix()}))},
				"audience":     {"It is for another service.", f.people.rs256(t, with(map[string]any{"aud": "wiki"}))},
				"no audience":  {"It is for nobody in particular.", f.people.rs256(t, with(map[string]any{"aud": nil}))},
				"none":         {"It is not signed.", none},
				"HS256":        {"A public key is no shared secret.", f.people.token(t, jose.SigningKey{Algorithm: jose.HS256, Key: asPEM}, "r1", good)},
				"HS256 of DER": {"Nor in its other form.", f.people.token(t, jose.SigningKey{Algorithm: jose.HS256, Key: public}, "r1", good)},
				"unknown kid":  {"No such key.", f.people.token(t, jose.SigningKey{Algorithm: jose.RS256, Key: f.people.other}, "zz", good)},
				"another key":  {"Not the key of that name.", f.people.token(t, jose.SigningKey{Algorithm: jose.RS256, Key: f.people.other}, "r1", good)},
				"issuer":       {"Nobody configured it.", evil.rs256(t, good)},
				"away":         {"Its keys cannot be had.", fromAway},
				"garbage":      {"It is no token.", "aaa.bbb.ccc"},
			} {
				for _, at := range []string{kafkaAPI + "/kafkas", kafkaAPI + "/service_accounts", kafkaAPI + "/admin/kafkas", kafkaAPI + "/agent-clusters/c1/kafkas", kafkaAPI + "/clusters"} {
					a := f.call(t, c.token, "GET", at, nil)
					if e := a.Error(); a.Status != http.StatusUnauthorized || e.Code != "KAFKAS-MGMT-15" {
						t.Errorf("%s: %s GET %s: %d %s", name, c.reason, at, a.Status, a.Body)
					}
				}
			}
			// The agent has its tokens from the identity provider all the while.
			polls := f.shard.Polls()
			drover.Until(t, "the agent's next poll", func() bool { return f.shard.Polls() > polls })
		})
	}
}
