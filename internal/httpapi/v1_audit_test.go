package httpapi_test

import (
	"bufio"
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"strings"
	"testing"
	"time"

	v1 "github.com/droverhq/drover/api/v1"
	"github.com/droverhq/drover/internal/access"
	"github.com/droverhq/drover/internal/audit"
	"github.com/droverhq/drover/internal/httpapi"
	"github.com/droverhq/drover/internal/instance"
	"github.com/droverhq/drover/internal/ledger"
	"github.com/droverhq/drover/internal/operation"
	"github.com/droverhq/drover/internal/sqlledger"
)

// annals is an API with a room of audits over a ledger of its own.
type annals struct {
	*rig
	t     *testing.T
	room  *audit.Service
	token map[string]string
}

func newAnnals(t *testing.T, edit ...func(*httpapi.Config)) *annals {
	t.Helper()
	store, err := sqlledger.Open(t.Context(), sqlledger.Config{URL: t.TempDir() + "/audit.db", Key: make([]byte, ledger.KeySize),
		Kinds: []ledger.Kind{audit.Kind, operation.AuditKind, operation.Kind, instance.Kind, access.SigningKey}})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { store.Close() })
	room, err := audit.NewService(audit.Config{Store: store, Kinds: []string{"sealkey", "audit", "operation", "instance"}})
	if err != nil {
		t.Fatal(err)
	}
	o := &annals{t: t, room: room, token: map[string]string{}}
	o.rig = newRig(t, append([]func(*httpapi.Config){func(c *httpapi.Config) { c.Audit = room }}, edit...)...)
	for name, claims := range map[string]access.Claims{
		"root": {User: "root", Admin: true}, "alice": {User: "alice", Org: "acme"}, "arthur": {User: "arthur", Org: "acme", OrgAdmin: true},
		"ursula": {User: "ursula", Org: "umbrella", OrgAdmin: true},
	} {
		if o.token[name], _, err = o.issuer.Issue(t.Context(), claims, time.Hour); err != nil {
			t.Fatal(err)
		}
	}
	for _, x := range []struct{ actor, org, id string }{{"alice", "acme", "a1"}, {"arthur", "acme", "a2"}, {"ursula", "umbrella", "u1"}} {
		_, err := store.Commit(t.Context(), ledger.Set{Actor: x.actor, Cause: ledger.ByRequest("req-" + x.id), From: "10.0.0.7", Puts: []ledger.Put{{Op: "create",
			Object: ledger.Object{Ref: ledger.Ref{Kind: instance.Kind.Name, ID: x.id}, Org: x.org, Owner: x.actor, Name: "name-" + x.id}}}})
		if err != nil {
			t.Fatal(err)
		}
	}
	call, err := operation.Audit{User: "root", Method: "POST", Path: "/api/v1/tokens", Remote: "10.0.0.9", Request: "req-r"}.Entry(operation.AuditDone, 201, time.Now())
	if err != nil {
		t.Fatal(err)
	}
	if _, err := store.Commit(t.Context(), ledger.Set{Actor: "root", Cause: ledger.ByRequest("req-r"), Puts: []ledger.Put{call}}); err != nil {
		t.Fatal(err)
	}
	if _, err := room.Seal(t.Context()); err != nil {
		t.Fatal(err)
	}
	return o
}

func (o *annals) do(who, method, path, body string) *httptest.ResponseRecorder {
	r := httptest.NewRequestWithContext(o.t.Context(), method, path, strings.NewReader(body))
	if who != "" {
		r.Header.Set("Authorization", "Bearer "+o.token[who])
	}
	if body != "" {
		r.Header.Set("Content-Type", "application/json")
	}
	w := httptest.NewRecorder()
	o.ServeHTTP(w, r)
	return w
}

func TestAuditIsSeenByThoseWhoMay(t *testing.T) {
	o := newAnnals(t)
	for _, c := range []struct {
		reason, who, query string
		status             int
		ids                string
	}{
		{"an operator sees everything, the newest first", "root", "", 200, " u1 a2 a1"},
		{"an organisation's administrator sees what was done there", "arthur", "", 200, "a2 a1"},
		{"another one's its own", "ursula", "", 200, "u1"},
		{"not by asking for it", "arthur", "?org=umbrella", 403, ""},
		{"nor by the id", "arthur", "?kind=instance&id=u1", 200, ""},
		{"nor by who did it", "arthur", "?actor=ursula", 200, ""},
		{"nor from the other end", "arthur", "?oldest=true&everything=true", 200, "a1 a2"},
		{"an ordinary user sees nothing", "alice", "", 403, ""},
		{"nor does one without a token", "", "", 401, ""},
		{"by organisation", "root", "?org=umbrella", 200, "u1"},
		{"by name", "root", "?id=name-a1", 200, "a1"},
		{"operators' calls", "root", "?verb=call", 200, ""},
		{"a time", "root", "?until=2001-01-01T00:00:00Z", 200, ""},
		{"no time", "root", "?since=yesterday", 400, ""},
		{"the wrong cursor", "root", "?after=3", 400, ""},
		{"no outcome", "root", "?outcome=good", 400, ""},
	} {
		w := o.do(c.who, "GET", "/api/v1/audit"+c.query, "")
		if w.Code != c.status {
			t.Errorf("%s: %d %s", c.reason, w.Code, w.Body)
			continue
		}
		if c.status != 200 {
			continue
		}
		var got v1.AuditRecords
		if err := json.Unmarshal(w.Body.Bytes(), &got); err != nil {
			t.Fatal(err)
		}
		var ids []string
		for _, r := range got.Items {
			ids = append(ids, r.ID)
			if r.Kind == "instance" && (r.From != "10.0.0.7" || r.Request != "req-"+r.ID || r.Outcome != "done") {
				t.Errorf("%s: a record is %+v", c.reason, r)
			}
		}
		if strings.Join(ids, " ") != c.ids {
			t.Errorf("%s: got %q, want %q", c.reason, strings.Join(ids, " "), c.ids)
		}
	}
}

func TestHeadsAndVerification(t *testing.T) {
	o := newAnnals(t)
	for _, who := range []string{"alice", "arthur"} {
		if got := o.do(who, "GET", "/api/v1/ledger/heads", "").Code; got != 403 {
			t.Errorf("%s gets the heads with %d", who, got)
		}
		if got := o.do(who, "POST", "/api/v1/ledger/verify", "").Code; got != 403 {
			t.Errorf("%s verifies with %d", who, got)
		}
	}
	w := o.do("root", "GET", "/api/v1/ledger/heads", "")
	var heads v1.Heads
	if err := json.Unmarshal(w.Body.Bytes(), &heads); err != nil || w.Code != 200 || len(heads.Heads) != 1 || len(heads.Keys) != 1 {
		t.Fatalf("the heads are %d %s", w.Code, w.Body)
	}
	for form, text := range map[string]string{"lines": heads.Text, "JSON": w.Body.String(), "nothing": ""} {
		body, _ := json.Marshal(v1.VerifyRequest{Heads: text})
		got := o.verified(o.do("root", "POST", "/api/v1/ledger/verify", string(body)))
		if want := min(1, len(text)); got.Flaw != nil || got.Heads != want || got.Changes != 5 {
			t.Errorf("against %s it is %+v", form, got)
		}
	}
	other := strings.Replace(heads.Text, "ledger ", "ledger x", 1)
	body, _ := json.Marshal(v1.VerifyRequest{Heads: other})
	if got := o.verified(o.do("root", "POST", "/api/v1/ledger/verify", string(body))); got.Flaw == nil || got.Flaw.Kind != "head" {
		t.Errorf("against another ledger's head it is %+v", got)
	}
	if w := o.do("root", "POST", "/api/v1/ledger/verify", `{"heads": "what"}`); w.Code != 400 {
		t.Errorf("what is no head is answered %d %s", w.Code, w.Body)
	}
}

// verified reads the last event.
func (o *annals) verified(w *httptest.ResponseRecorder) (out v1.Verification) {
	o.t.Helper()
	lines := bufio.NewScanner(w.Body)
	last := ""
	for lines.Scan() {
		if name, ok := strings.CutPrefix(lines.Text(), "event: "); ok {
			last = name
		}
		if data, ok := strings.CutPrefix(lines.Text(), "data: "); ok && last == "done" {
			if err := json.Unmarshal([]byte(data), &out); err != nil {
				o.t.Fatal(err)
			}
			return out
		}
	}
	o.t.Fatalf("the stream has no end: %d %s", w.Code, w.Body)
	return out
}

// TestOriginIsKept has callers through proxies, and liars.
func TestOriginIsKept(t *testing.T) {
	near := []netip.Prefix{netip.MustParsePrefix("192.0.2.0/24"), netip.MustParsePrefix("10.0.0.0/8")}
	for _, c := range []struct {
		reason, peer string
		forwarded    []string
		proxies      []netip.Prefix
		want         string
	}{
		{"the peer", "203.0.113.5:4711", nil, near, "203.0.113.5"},
		{"a liar", "203.0.113.5:4711", []string{"1.1.1.1"}, near, "203.0.113.5"},
		{"no proxy is trusted", "192.0.2.1:4711", []string{"1.1.1.1"}, nil, "192.0.2.1"},
		{"a proxy", "192.0.2.1:4711", []string{"198.51.100.7"}, near, "198.51.100.7"},
		{"a liar behind a proxy", "192.0.2.1:4711", []string{"1.1.1.1, 198.51.100.7"}, near, "198.51.100.7"},
		{"two proxies, in two headers", "192.0.2.1:4711", []string{"1.1.1.1, 198.51.100.7", "10.1.1.1"}, near, "198.51.100.7"},
		{"a proxy that says nothing", "192.0.2.1:4711", nil, near, "192.0.2.1"},
		{"nonsense", "192.0.2.1:4711", []string{"<script>, 10.2.2.2"}, near, "10.2.2.2"},
		{"IPv6", "[2001:db8::1]:4711", nil, near, "2001:db8::1"},
		{"a message", "bus", nil, near, "bus"},
	} {
		r := newRig(t, func(cfg *httpapi.Config) { cfg.Proxies = c.proxies })
		token, _, err := r.issuer.Issue(t.Context(), access.Claims{User: "alice", Org: "acme"}, time.Hour)
		if err != nil {
			t.Fatal(err)
		}
		req := httptest.NewRequestWithContext(t.Context(), "POST", "/api/v1/dinosaurs", strings.NewReader(`{"name": "rex"}`))
		req.RemoteAddr = c.peer
		req.Header.Set("Authorization", "Bearer "+token)
		req.Header.Set("Content-Type", "application/json")
		for _, f := range c.forwarded {
			req.Header.Add("X-Forwarded-For", f)
		}
		w := httptest.NewRecorder()
		r.ServeHTTP(w, req)
		changes, err := r.ledger.Changes(t.Context(), ledger.ChangeQuery{Kind: instance.Kind.Name})
		if err != nil || w.Code != http.StatusAccepted || len(changes) != 1 || changes[0].From != c.want {
			t.Errorf("%s: %d, %+v, %v, want %s", c.reason, w.Code, changes, err, c.want)
		}
	}
}

// TestRefusalsAreOnRecord: of what was refused nothing else tells.
func TestRefusalsAreOnRecord(t *testing.T) {
	httpapi.WriteBehind(t)
	o := newAnnals(t)
	for _, c := range []struct {
		reason, who, method, path, body string
		recorded                        bool
	}{
		{"a look is none", "alice", "GET", "/api/v1/dinosaurs/nothing", "", false},
		{"nobody", "", "DELETE", "/api/v1/dinosaurs/nothing", "", false},
		{"a change that was refused", "alice", "DELETE", "/api/v1/dinosaurs/nothing", "", true},
		{"one of the offering's own API", "alice", "DELETE", "/api/dinosaurs_mgmt/v1/dinosaurs/nothing?async=true", "", true},
		{"a look there is none", "alice", "GET", "/api/dinosaurs_mgmt/v1/dinosaurs/nothing", "", false},
		{"nor is what there is not", "alice", "DELETE", "/api/dinosaurs_mgmt/v1/nothing", "", false},
		{"nor an API that nobody has", "alice", "DELETE", "/api/unicorns_mgmt/v1/unicorns/nothing", "", false},
		{"nor what is malformed", "alice", "POST", "/api/dinosaurs_mgmt/v1/dinosaurs?async=true", "{", false},
		{"what only operators may", "alice", "POST", "/api/v1/tokens", `{"user": "root", "admin": true}`, true},
	} {
		before, err := o.ledger.Total(t.Context(), ledger.Query{Kind: operation.AuditKind.Name})
		if err != nil {
			t.Fatal(err)
		}
		if w := o.do(c.who, c.method, c.path, c.body); w.Code < 400 {
			t.Fatalf("%s: %d %s", c.reason, w.Code, w.Body)
		}
		if !c.recorded {
			continue
		}
		for n := before; n == before; { // it is written behind the answer
			if n, err = o.ledger.Total(t.Context(), ledger.Query{Kind: operation.AuditKind.Name}); err != nil {
				t.Fatal(err)
			}
		}
		found, err := o.ledger.List(t.Context(), ledger.Query{Kind: operation.AuditKind.Name, Order: []ledger.Order{{Column: "created", Desc: true}}, Limit: 1})
		if err != nil || len(found) != 1 || found[0].Org != "acme" || found[0].Phase != operation.AuditRefused || found[0].Name != c.method+" "+strings.Split(c.path, "?")[0] {
			t.Errorf("%s: on record is %+v, %v", c.reason, found, err)
		}
	}
	if n, err := o.ledger.Total(t.Context(), ledger.Query{Kind: operation.AuditKind.Name}); n != 3 || err != nil {
		t.Errorf("%d calls are on record, %v, want those of the three that were to change something", n, err)
	}
}
