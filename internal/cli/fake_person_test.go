package cli_test

import (
	"crypto/sha256"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"os"
	"strings"
	"sync"
	"time"

	v1 "github.com/droverhq/drover/api/v1"
)

// fullStatus is all that an instance can tell.
const fullStatus = `{"expires": "2026-05-03T12:00:00Z", "cluster": "c1", "placed": "it was the oldest", "source": "list", "paid": {"model": "eval"},
	"client": "srvc-acct-canary", "named": true, "published": {"orders.kafkas.localhost": "router.c1.example.org"},
	"routes": [{"name": "bootstrap", "host": "orders.kafkas.localhost", "router": "router.c1.example.org"}, {"name": "b0", "host": "b0-orders.kafkas.localhost", "router": "r0.c1.example.org"}],
	"versions": {"strimzi": "0.30"}, "observed": {"generation": 1, "versions": {"kafka": "3.3.1", "strimzi": "0.29"}, "upgrading": ["strimzi"]}}`

// kafkaDocument is what command lines read of an offering.
const kafkaDocument = `{"spec": {"names": {"singular": "kafka", "plural": "kafkas"}, "types": [{"name": "standard", "sizes": [{"name": "x1"}]}, {"name": "developer", "sizes": [{"name": "x1"}]}],
	"billing": [{"name": "standard"}, {"name": "eval", "promotable": ["standard"]}],
	"providers": [{"name": "aws", "regions": [{"name": "us-east-1"}]}], "components": [{"name": "kafka", "versions": ["3.4.0"]}, {"name": "strimzi"}]}}`

// promote moves to "standard" when it is watched; nobody has quota for "marketplace".
func (f *fake) promote(r *http.Request) (any, error) {
	o, err := f.find(r)
	if err != nil {
		return nil, err
	}
	var q v1.Promote
	if err := json.NewDecoder(r.Body).Decode(&q); err != nil {
		return nil, fault(400, "DROVER-17", err.Error())
	}
	if q.BillingModel == "barter" {
		return nil, fault(400, "DROVER-21", `it cannot be promoted from billing model "eval" to "barter"`)
	}
	o.Spec = json.RawMessage(fmt.Sprintf(`{"billing":{"model":%q,"marketplace":%q,"account":%q}}`, q.BillingModel, q.Marketplace, q.BillingAccount))
	o.Status = json.RawMessage(`{"promotion":"promoting","paid":{"model":"eval"}}`)
	o = f.write("alice", "request:r4", "promote", o)
	next := o
	next.Status = json.RawMessage(`{"paid":{"model":"standard"}}`)
	if q.BillingModel == "marketplace" {
		next.Status = json.RawMessage(`{"promotion":"failed","promotion_details":"There is no quota for billing model marketplace.","paid":{"model":"eval"}}`)
	}
	f.plan[o.ID] = []v1.Object{next}
	return o, nil
}

// updateKafka suspends, resumes and upgrades.
func (f *fake) updateKafka(o v1.Object, body []byte) (any, error) {
	var q v1.UpdateInstance
	if err := json.Unmarshal(body, &q); err != nil {
		return nil, fault(400, "DROVER-17", err.Error())
	}
	if q.Versions["kafka"] == "1.0" {
		return nil, fault(400, "DROVER-8", "kafka cannot go back to 1.0")
	}
	o.Generation++
	o.Spec = body
	o = f.write("alice", "request:r5", "update", o)
	status := func(version string, upgrading ...string) json.RawMessage {
		data, _ := json.Marshal(map[string]any{"observed": map[string]any{"generation": o.Generation, "versions": map[string]string{"kafka": version}, "upgrading": upgrading}})
		return data
	}
	next := o
	switch {
	case q.Suspended != nil && *q.Suspended:
		next.Phase, next.Status = "suspending", nil
		f.plan[o.ID] = append(f.plan[o.ID], next)
		next.Phase = "suspended"
	case q.Suspended != nil:
		next.Phase, next.Status = "resuming", nil
		f.plan[o.ID] = append(f.plan[o.ID], next)
		next.Phase = "ready"
	default:
		next.Status = status("3.3.1", "kafka")
		f.plan[o.ID] = append(f.plan[o.ID], next)
		next.Status = status(q.Versions["kafka"])
	}
	f.plan[o.ID] = append(f.plan[o.ID], next)
	return o, nil
}

func (f *fake) createUser(r *http.Request) (any, error) {
	var q v1.CreateUser
	if err := json.NewDecoder(r.Body).Decode(&q); err != nil {
		return nil, fault(400, "DROVER-17", err.Error())
	}
	if q.Password != "correct horse battery" {
		return nil, fault(400, "DROVER-8", "a password has between 8 and 512 bytes")
	}
	spec, _ := json.Marshal(map[string]any{"orgAdmin": q.OrgAdmin, "roles": q.Roles, "account": q.Account})
	return f.write("alice", "request:r6", "create", v1.Object{Kind: "user", ID: "u-" + q.Name, Resource: "users", Name: q.Name, Org: q.Org, Phase: "ready", Generation: 1, Spec: spec}), nil
}

func (f *fake) setPassword(r *http.Request) (any, error) {
	o, err := f.find(r)
	if err != nil {
		return nil, err
	}
	body, _ := io.ReadAll(r.Body)
	if string(body) != `{"password":"another horse battery"}` {
		return nil, fault(400, "DROVER-8", "a password has between 8 and 512 bytes")
	}
	return f.write("alice", "request:r7", "password", o), nil
}

func (f *fake) createAccount(r *http.Request) (any, error) {
	var q v1.CreateServiceAccount
	if err := json.NewDecoder(r.Body).Decode(&q); err != nil {
		return nil, fault(400, "DROVER-17", err.Error())
	}
	if strings.ToLower(q.Name) != q.Name {
		return nil, fault(400, "DROVER-38", "the name of a service account has lower-case letters")
	}
	o := f.write("alice", "request:r8", "create", v1.Object{Kind: "serviceaccount", ID: "s-" + q.Name, Resource: "serviceaccounts", Name: q.Name, Owner: "alice", Phase: "ready", Generation: 1})
	return secretOf(o, "first"), nil
}

func (f *fake) resetAccount(r *http.Request) (any, error) {
	o, err := f.find(r)
	if err != nil {
		return nil, err
	}
	return secretOf(f.write("alice", "request:r8", "reset", o), "second"), nil
}

func (f *fake) deleteAccount(r *http.Request) (any, error) {
	o, err := f.find(r)
	if err != nil {
		return nil, err
	}
	at := born.Add(time.Hour)
	o.Deleted = &at
	return f.write("alice", "request:r8", "delete", o), nil
}

func secretOf(o v1.Object, secret string) v1.ServiceAccount {
	return v1.ServiceAccount{ID: o.ID, Name: o.Name, Owner: o.Owner, ClientID: "srvc-acct-" + o.Name, ClientSecret: secret, TokenURL: "https://sso.example.org/token"}
}

// idp is an identity provider that lets everybody in. Its refresh tokens are
// good once: a second use ends the login.
type idp struct {
	mu        sync.Mutex
	challenge string
	back      string
	refresh   string
	serial    int
	ended     bool
}

func (p *idp) knows(authorization string) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.serial > 0 && !p.ended && authorization == fmt.Sprintf("Bearer access-%d", p.serial)
}

func (p *idp) routes(mux *http.ServeMux) {
	mux.HandleFunc("GET /.well-known/openid-configuration", func(w http.ResponseWriter, r *http.Request) {
		base := "http://" + r.Host
		json.NewEncoder(w).Encode(map[string]string{"authorization_endpoint": base + "/login", "token_endpoint": base + "/token", "end_session_endpoint": base + "/logout"})
	})
	mux.HandleFunc("GET /elsewhere/.well-known/openid-configuration", func(w http.ResponseWriter, r *http.Request) {
		fmt.Fprintln(w, `{"authorization_endpoint": "http://login.example.org/", "token_endpoint": "http://login.example.org/token"}`)
	})
	mux.HandleFunc("GET /keys/.well-known/openid-configuration", func(w http.ResponseWriter, r *http.Request) {
		fmt.Fprintln(w, `{"jwks_uri": "http://example.org/keys"}`)
	})
	mux.HandleFunc("GET /login", p.login)
	mux.HandleFunc("POST /token", p.token)
	mux.HandleFunc("POST /logout", func(w http.ResponseWriter, r *http.Request) {
		p.mu.Lock()
		defer p.mu.Unlock()
		p.ended = r.PostFormValue("refresh_token") == p.refresh
		w.WriteHeader(http.StatusNoContent)
	})
}

func (p *idp) login(w http.ResponseWriter, r *http.Request) {
	q := r.URL.Query()
	p.mu.Lock()
	defer p.mu.Unlock()
	p.challenge, p.back = q.Get("code_challenge"), q.Get("redirect_uri")
	answer := url.Values{"state": {q.Get("state")}, "code": {"the-code"}}
	if q.Get("client_id") == "nobody" {
		answer = url.Values{"state": {q.Get("state")}, "error": {"access_denied"}}
	}
	http.Redirect(w, r, p.back+"?"+answer.Encode(), http.StatusFound)
}

func (p *idp) token(w http.ResponseWriter, r *http.Request) {
	p.mu.Lock()
	defer p.mu.Unlock()
	sum := sha256.Sum256([]byte(r.PostFormValue("code_verifier")))
	ok := false
	switch r.PostFormValue("grant_type") {
	case "authorization_code":
		ok = r.PostFormValue("code") == "the-code" && r.PostFormValue("redirect_uri") == p.back &&
			base64.RawURLEncoding.EncodeToString(sum[:]) == p.challenge
		p.ended = false
	case "refresh_token":
		ok = !p.ended && r.PostFormValue("refresh_token") == p.refresh
		p.ended = !ok
	}
	if !ok {
		w.WriteHeader(http.StatusBadRequest)
		fmt.Fprintln(w, `{"error": "invalid_grant"}`)
		return
	}
	p.serial++
	p.refresh = fmt.Sprintf("refresh-%d", p.serial)
	fmt.Fprintf(w, `{"access_token": "access-%d", "refresh_token": %q, "expires_in": 300}`, p.serial, p.refresh)
}

// visit is the browser of the scripts: it opens a page and follows where it leads.
func visit() {
	resp, err := http.Get(os.Args[len(os.Args)-1])
	if err != nil {
		os.Exit(1)
	}
	resp.Body.Close()
}
