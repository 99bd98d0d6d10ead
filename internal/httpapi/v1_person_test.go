package httpapi_test

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"strings"
	"sync"
	"testing"

	v1 "github.com/droverhq/drover/api/v1"
	"github.com/droverhq/drover/internal/access"
	"github.com/droverhq/drover/internal/fault"
	"github.com/droverhq/drover/internal/instance"
	"github.com/droverhq/drover/internal/ledger"
	"github.com/droverhq/drover/internal/sso"
)

// idp is an identity provider in memory, which can be away.
type idp struct {
	mu      sync.Mutex
	clients map[string]sso.Client
	away    bool
}

func (p *idp) Apply(_ context.Context, c sso.Client) error {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.away {
		return fault.New(fault.Unavailable, "the identity provider is away")
	}
	p.clients[c.ID] = c
	return nil
}

func (p *idp) Get(_ context.Context, id string) (sso.Client, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	c, ok := p.clients[id]
	if !ok {
		return c, fault.New(fault.NotFound, "there is no client %q", id)
	}
	return c, nil
}

func (p *idp) Delete(_ context.Context, id string) error {
	p.mu.Lock()
	defer p.mu.Unlock()
	delete(p.clients, id)
	return nil
}

func (p *idp) Endpoints() sso.Endpoints {
	return sso.Endpoints{Name: "builtin", TokenURL: "https://sso.example.org/token"}
}

// told is everything that the API says to somebody under these paths.
func (w *world) told(who string, paths ...string) string {
	w.Helper()
	var all strings.Builder
	for _, path := range paths {
		resp := w.request(who, "GET", path, "", nil)
		data, err := io.ReadAll(resp.Body)
		if err != nil {
			w.Fatal(err)
		}
		fmt.Fprintf(&all, "%d %s\n", resp.StatusCode, data)
	}
	return all.String()
}

func TestUsersAreForOperators(t *testing.T) {
	w := newWorld(t)
	const password = "correct horse battery"
	var made v1.Object
	w.want(201, "root", "POST", "/api/v1/users", `{"name":"Zoe","org":"acme","account":"7","org_admin":true,"roles":["reader"],"password":"`+password+`"}`, &made)
	if made.Resource != "users" || made.Name != "zoe" || made.Org != "acme" || string(made.Spec) != `{"account":"7","orgAdmin":true,"roles":["reader"]}` {
		t.Errorf("made %+v with %s", made, made.Spec)
	}
	login := func(password string) error {
		_, err := access.NewUsers(w.ledger).Check(t.Context(), "zoe", password)
		return err
	}
	if err := login(password); err != nil {
		t.Error(err)
	}
	watch := w.listen("arthur", "/api/v1/watch?after=0", "") // of the same organisation, and its admin
	w.create("alice", "rex")
	for {
		e, ok := watch.next()
		if !ok || strings.Contains(e.data, "zoe") {
			t.Fatalf("a tenant's watch says %v %s", ok, e.data)
		}
		if strings.Contains(e.data, `"name":"rex"`) {
			break
		}
	}
	var e v1.Error
	w.want(409, "root", "POST", "/api/v1/users", `{"name":"zoe","password":"`+password+`"}`, &e)
	w.want(400, "root", "POST", "/api/v1/users", `{"name":"yan","password":"short"}`, &e)
	if strings.Contains(e.Reason, "short") {
		t.Errorf("the password is repeated: %s", e.Reason)
	}
	w.want(200, "root", "PUT", "/api/v1/users/zoe/password", `{"password":"another horse battery"}`, nil)
	if login(password) == nil || login("another horse battery") != nil {
		t.Error("the password was not changed")
	}
	w.want(404, "root", "PUT", "/api/v1/users/nobody/password", `{"password":"another horse battery"}`, nil)

	paths := []string{"/api/v1/users", "/api/v1/users/zoe", "/api/v1/users/" + made.ID, "/api/v1/users/zoe/history", "/api/v1/users/zoe?at=" + seqText(w.head().Seq),
		"/api/v1/changes?resource=users", "/api/v1/changes?kind=user&limit=1000", "/api/v1/changes?limit=1000"}
	for _, secret := range []string{password, "another horse", "argon2", "secret:", `"password":`} {
		if all := w.told("root", paths...); strings.Contains(all, secret) {
			t.Errorf("an operator is shown %q: %s", secret, all)
		}
	}
	for _, who := range []string{"alice", "arthur", "carol", "agent-c1"} {
		if all := w.told(who, paths...); strings.Contains(all, "zoe") && !strings.Contains(all, "403") || strings.Contains(all, made.ID) {
			t.Errorf("%s is shown %s", who, all)
		}
		for _, call := range [][3]string{
			{"POST", "/api/v1/users", `{"name":"eve","roles":["drover-admin"],"password":"` + password + `"}`},
			{"PUT", "/api/v1/users/zoe/password", `{"password":"` + password + `"}`}, {"DELETE", "/api/v1/users/zoe", ""},
			{"GET", "/api/v1/users", ""}, {"GET", "/api/v1/users/zoe", ""}, {"GET", "/api/v1/users/nobody", ""},
		} {
			w.want(403, who, call[0], call[1], call[2], nil)
		}
	}
	var gone v1.Object
	w.want(200, "root", "DELETE", "/api/v1/users/"+made.ID, "", &gone)
	if gone.Deleted == nil {
		t.Errorf("the deletion left %+v", gone)
	}
	w.want(404, "root", "GET", "/api/v1/users/zoe", "", nil)
	w.want(404, "root", "DELETE", "/api/v1/users/zoe", "", nil)
	if login("another horse battery") == nil {
		t.Error("who is gone logs in")
	}
	if strings.Contains(w.logged(), "horse") {
		t.Error("a password is in the log")
	}
}

func TestServiceAccountsOfTenants(t *testing.T) {
	w := newWorld(t)
	var made, reset v1.ServiceAccount
	resp := w.want(201, "alice", "POST", "/api/v1/serviceaccounts", `{"name":"ci","description":"builds"}`, &made)
	if resp.Header.Get("Cache-Control") != "no-store" {
		t.Error("a cache may keep the secret")
	}
	if c := w.idp.clients[made.ClientID]; c.Secret == "" || c.Secret != made.ClientSecret || made.TokenURL != "https://sso.example.org/token" || made.Owner != "alice" {
		t.Errorf("made %+v, the identity provider has %+v", made, c)
	}
	w.want(400, "alice", "POST", "/api/v1/serviceaccounts", `{"name":"Not A Name"}`, nil)
	w.want(403, "agent-c1", "POST", "/api/v1/serviceaccounts", `{"name":"ci"}`, nil)
	for _, id := range []string{"ci", made.ID, made.ClientID} {
		w.want(200, "alice", "POST", "/api/v1/serviceaccounts/"+id+"/reset", "", &reset)
		if reset.ClientSecret == made.ClientSecret || w.idp.clients[made.ClientID].Secret != reset.ClientSecret {
			t.Errorf("by %s the secret was not reset", id)
		}
	}
	// Reset calls for an account's agent are not for tenants, nor its existence.
	agent, err := w.ledger.Commit(t.Context(), ledger.Set{Actor: "system", Cause: ledger.BySchedule("test"), Puts: []ledger.Put{{Object: ledger.Object{
		Ref: ledger.Ref{Kind: "serviceaccount", ID: "agentaccount"}, Org: "acme", Owner: "alice", Name: "agent", Phase: "ready",
		Fields: ledger.Fields{"use": "agent", "client": "srvc-acct-agent"}, Spec: []byte(`{"client":"srvc-acct-agent","use":"agent","secret":"secret:x"}`),
	}, Op: "create"}}})
	if err != nil {
		t.Fatal(err)
	}
	paths := []string{"/api/v1/serviceaccounts", "/api/v1/serviceaccounts/ci", "/api/v1/serviceaccounts/" + made.ID, "/api/v1/serviceaccounts/ci/history",
		"/api/v1/serviceaccounts/" + agent.Objects[0].ID, "/api/v1/changes?resource=serviceaccounts", "/api/v1/changes?limit=1000"}
	for _, who := range []string{"alice", "arthur", "root"} {
		all := w.told(who, paths...)
		for _, secret := range []string{made.ClientSecret, reset.ClientSecret, "secret:", "srvc-acct-agent"} {
			if strings.Contains(all, secret) {
				t.Errorf("%s is shown %q", who, secret)
			}
		}
		if !strings.Contains(all, made.ClientID) {
			t.Errorf("%s is not shown the account: %s", who, all)
		}
	}
	for _, who := range []string{"bob", "carol", "agent-c1"} {
		if all := w.told(who, paths...); strings.Contains(all, made.ClientID) || strings.Contains(all, made.ID+`"`) {
			t.Errorf("%s is shown %s", who, all)
		}
		resp := w.request(who, "POST", "/api/v1/serviceaccounts/"+made.ClientID+"/reset", "", nil)
		if resp.StatusCode != 404 && resp.StatusCode != 403 {
			t.Errorf("%s resets it: %d", who, resp.StatusCode)
		}
		if resp := w.request(who, "DELETE", "/api/v1/serviceaccounts/"+made.ID, "", nil); resp.StatusCode != 404 && resp.StatusCode != 403 {
			t.Errorf("%s deletes it: %d", who, resp.StatusCode)
		}
	}
	w.idp.away = true
	if resp := w.request("alice", "POST", "/api/v1/serviceaccounts/ci/reset", "", nil); resp.StatusCode < 500 {
		t.Errorf("with the identity provider away a reset answers %d", resp.StatusCode)
	}
	w.idp.away = false
	var gone v1.Object
	w.want(200, "arthur", "DELETE", "/api/v1/serviceaccounts/ci", "", &gone) // the organisation's admin
	if gone.Phase != "deleting" || len(w.idp.clients) != 0 {
		t.Errorf("the deletion left %+v, %v", gone, w.idp.clients)
	}
	w.want(404, "alice", "POST", "/api/v1/serviceaccounts/"+made.ID+"/reset", "", nil)
}

// Where people log in elsewhere there are no users to change.
func TestWithoutPeople(t *testing.T) {
	r := newRig(t)
	root := r.token(t, access.Claims{User: "root", Admin: true})
	for _, call := range [][2]string{
		{"GET", "/api/v1/users"}, {"DELETE", "/api/v1/users/x"}, {"GET", "/api/v1/serviceaccounts"},
		{"DELETE", "/api/v1/serviceaccounts/x"}, {"POST", "/api/v1/serviceaccounts/x/reset"},
	} {
		r.do(t, root, call[0], call[1], "").refused("there are none", 404, "7")
	}
	r.do(t, root, "POST", "/api/v1/users", `{"name":"x","password":"long enough"}`).refused("there are none", 404, "7")
	r.do(t, root, "POST", "/api/v1/serviceaccounts", `{"name":"x"}`).refused("there are none", 404, "7")
}

func TestOrderWithABillPromoteAndUpgrade(t *testing.T) {
	f := newFleet(t)
	f.quota.give("acme", "standard", "eval", 2)
	f.quota.give("acme", "standard", "standard", 2)
	f.room(t, "c1", "aws", "us-east-1", 5)
	alice, eve, root := f.user(t, "alice", "acme"), f.user(t, "eve", "umbrella"), f.token(t, access.Claims{User: "root", Admin: true})
	const own = "/api/v1/kafkas"
	made := f.do(t, alice, "POST", own, `{"name":"orders","plan":"standard.x1","billing_model":"eval"}`).ok(202).object()
	id := made["id"].(string)
	if bill := made["spec"].(map[string]any)["billing"].(map[string]any)["model"]; bill != "eval" {
		t.Errorf("it is paid by %v", bill)
	}
	f.do(t, alice, "POST", own, `{"name":"other","billing_model":"barter"}`).refused("there is no such model", 400, "21")
	f.do(t, alice, "POST", own, `{"name":"other","cluster_id":"c1"}`).refused("it is the fleet's", 400, "45")

	promote := own + "/orders/promote"
	f.do(t, alice, "POST", promote, `{"billing_model":"standard"}`).refused("it is not ready", 409, "6")
	f.move(t, id, instance.Ready)
	f.do(t, alice, "POST", promote, `{"billing_model":""}`).refused("to what?", 400, "21")
	f.do(t, alice, "POST", promote, `{"billing_model":"enterprise"}`).refused("not from eval", 400, "21")
	f.do(t, eve, "POST", own+"/"+id+"/promote", `{"billing_model":"standard"}`).refused("it is another organisation's", 404, "7")
	f.do(t, alice, "POST", "/api/v1/operations/"+id+"/promote", `{"billing_model":"standard"}`).refused("operations are not paid for", 405, "10")
	now := f.do(t, alice, "POST", promote, `{"billing_model":"standard"}`).ok(202)
	if status := now.object()["status"].(map[string]any); status["promotion"] != "promoting" || now.Header().Get("Drover-Operation") == "" {
		t.Errorf("the promotion left %v", status)
	}
	f.do(t, alice, "POST", promote, `{"billing_model":"standard"}`).refused("it is under way", 409, "6")

	f.do(t, alice, "PATCH", own+"/orders", `{"versions":{"strimzi":"0.30"}}`).refused("versions are the operator's", 403, "11")
	f.do(t, alice, "PATCH", own+"/orders", `{"suspended":true}`).refused("so is this", 403, "11")
	up := f.do(t, root, "PATCH", own+"/orders", `{"versions":{"strimzi":"0.30","kafka":"3.4.0"}}`).ok(202).object()
	if v := up["spec"].(map[string]any)["versions"].(map[string]any); v["strimzi"] != "0.30" || v["kafka"] != "3.4.0" {
		t.Errorf("the versions are %v", v)
	}
	f.do(t, root, "PATCH", own+"/orders", `{"versions":{"zookeeper":"3"}}`).refused("there is no such component", 400, "8")
	f.do(t, root, "PATCH", own+"/orders", `{"suspended":true}`).ok(202)

	verbs := map[any]bool{}
	for _, r := range f.do(t, alice, "GET", "/api/v1/kinds", "").ok(200).object()["items"].([]any) {
		if m := r.(map[string]any); m["name"] == "kafkas" || m["name"] == "dinosaurs" {
			verbs[m["name"]] = strings.Contains(fmt.Sprint(m["verbs"]), "promote")
		}
	}
	if fmt.Sprint(verbs) != "map[dinosaurs:false kafkas:true]" {
		t.Errorf("who can be promoted: %v", verbs)
	}
}

// What says where an instance's secret is kept is not told, not even operators.
// What tells that a change has been carried out is told everybody.
func TestInstancesKeepTheirSecret(t *testing.T) {
	w := newWorld(t)
	rex := w.create("alice", "rex")
	w.edit(rex.ID, func(in *instance.Instance) {
		in.Status.Client, in.Status.Secret, in.Status.Rendered = "srvc-acct-x", "secret:abc", 41
	})
	for _, who := range []string{"alice", "root"} {
		all := w.told(who, "/api/v1/dinosaurs", "/api/v1/dinosaurs/rex", "/api/v1/dinosaurs/rex/history", "/api/v1/changes?limit=1000")
		if strings.Contains(all, "secret:abc") || !strings.Contains(all, "srvc-acct-x") || !strings.Contains(all, `"rendered":41`) {
			t.Errorf("%s is told %s", who, all)
		}
	}
}

func TestKindsOfLoginsAreNobodysBusiness(t *testing.T) {
	w := newWorld(t)
	for _, kind := range []string{"ssoclient", "ssosession", "signingkey"} {
		w.want(400, "root", "GET", "/api/v1/changes?kind="+kind, "", nil)
		w.want(404, "root", "GET", "/api/v1/"+kind+"s", "", nil)
		if resp := w.request("root", http.MethodGet, "/api/v1/watch?kind="+kind, "", nil); resp.StatusCode != 400 {
			t.Errorf("watch of %s: %d", kind, resp.StatusCode)
		}
	}
}
