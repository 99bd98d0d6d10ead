package httpapi_test

import (
	"context"
	"encoding/json"
	"maps"
	"net/http/httptest"
	"runtime"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/droverhq/drover/internal/fault"
	"github.com/droverhq/drover/internal/httpapi"
	"github.com/droverhq/drover/internal/instance"
	"github.com/droverhq/drover/internal/ledger"
	"github.com/droverhq/drover/internal/operation"
)

const (
	adminKafkas    = kafkaAPI + "/admin/kafkas"
	adminDinosaurs = api + "/admin/dinosaurs"
)

// adminTypes are the fields of a kafka as its operators see it, with their
// types on the wire.
var adminTypes = map[string]string{
	"id": "string", "kind": "string", "href": "string", "status": "string", "cloud_provider": "string", "multi_az": "bool", "region": "string",
	"owner": "string", "name": "string", "bootstrap_server_host": "string", "created_at": "time", "updated_at": "time", "failed_reason": "string",
	"actual_kafka_version": "string", "actual_strimzi_version": "string", "desired_kafka_version": "string", "desired_strimzi_version": "string",
	"desired_kafka_ibp_version": "string", "actual_kafka_ibp_version": "string", "kafka_upgrading": "bool", "strimzi_upgrading": "bool",
	"kafka_ibp_upgrading": "bool", "organisation_id": "string", "subscription_id": "string", "owner_account_id": "string", "account_number": "string",
	"instance_type": "string", "quota_type": "string", "routes_created": "bool", "cluster_id": "string", "namespace": "string", "size_id": "string",
	"max_data_retention_size": "bytes",
}

// running brings a kafka of alice's to the phase ready.
func (o *office) running(t *testing.T) string {
	t.Helper()
	o.dataPlane(t, "c1", "account")
	id := o.provisioned(t, "alice", "one")
	o.told(t, "account", "c1")
	o.ready(t, "account", "c1", id)
	return id
}

func TestOperatorsByRole(t *testing.T) {
	o := newOffice(t)
	id := o.running(t)
	rex := o.do(t, "alice", "POST", dinosaurs+"?async=true", `{"name":"rex"}`).ok(202).object()["id"].(string)
	for _, offering := range []struct{ root, id, patch string }{
		{adminKafkas, id, `{"max_data_retention_size":"1000Gi"}`},
		{adminDinosaurs, rex, `{}`},
	} {
		one := offering.root + "/" + offering.id
		calls := []struct {
			method, path, body string
			status             int
			who                []string
		}{
			{"GET", offering.root, "", 200, []string{"read", "write", "full", "root"}},
			{"HEAD", offering.root, "", 200, []string{"read", "write", "full", "root"}},
			{"GET", one, "", 200, []string{"read", "write", "full", "root"}},
			{"PATCH", one, offering.patch, 200, []string{"write", "full", "root"}},
			{"POST", one + "/revoke_tls_certificate", `{"revocation_reason":4}`, 204, []string{"full", "root"}},
			{"DELETE", one, "", 400, []string{"full", "root"}}, // without async, so that it stays
			{"PUT", one, "{}", 405, []string{"root"}},
			{"GET", one + "/secrets", "", 404, []string{}},
		}
		for _, c := range calls {
			for _, who := range slices.Sorted(maps.Keys(staff)) {
				w := o.do(t, who, c.method, c.path, c.body)
				switch {
				case slices.Contains(c.who, who):
					w.ok(c.status)
				case c.method == "HEAD":
					w.ok(404)
				default:
					w.refused(who+" "+c.method+" "+c.path, 404, "7")
				}
			}
			if c.method != "HEAD" {
				o.do(t, "", c.method, c.path, c.body).refused("no token", 401, "15")
			}
		}
	}
}

// Whoever may not call cannot tell the API from a path where nothing is, by
// whatever it sends.
func TestOperatorsAPIIsHidden(t *testing.T) {
	o := newOffice(t)
	id := o.running(t)
	answer := func(who, method, path, body string) (int, string, map[string]any) {
		w := o.do(t, who, method, path, body)
		e := w.object()
		var header strings.Builder
		for _, k := range slices.Sorted(maps.Keys(w.Header())) {
			header.WriteString(k + " ")
		}
		delete(e, "operation_id")
		e["reason"] = strings.ReplaceAll(e["reason"].(string), path, "PATH")
		return w.Code, header.String(), e
	}
	for _, who := range []string{"alice", "wrong", "agent", "read"} {
		wantCode, wantHeader, want := answer(who, "DELETE", kafkaAPI+"/admin/nothing", "")
		if want["id"] != "7" || wantCode != 404 {
			t.Fatalf("nothing answers %d: %v", wantCode, want)
		}
		for _, c := range [][3]string{
			{"DELETE", adminKafkas + "/" + id, ""}, {"DELETE", adminKafkas + "/" + id + "?async=true", ""}, {"DELETE", adminKafkas + "/nobody", ""},
			{"PATCH", adminKafkas + "/" + id, `{"suspended":true}`}, {"PATCH", adminKafkas + "/" + id, `{`}, {"PATCH", adminKafkas, strings.Repeat("x", 2<<20)},
			{"POST", adminKafkas + "/" + id + "/revoke_tls_certificate", `{}`}, {"PUT", adminKafkas, ""}, {"OPTIONS", adminKafkas, ""}, {"BREW", adminKafkas, ""},
		} {
			path, _, _ := strings.Cut(c[1], "?")
			code, header, got := answer(who, c[0], path, c[2])
			if d := cmp.Diff(want, got); code != wantCode || header != wantHeader || d != "" {
				t.Errorf("%s %s %s answers %d, %s, not %s: %s", who, c[0], path, code, header, wantHeader, d)
			}
		}
	}
	if in := o.awaitPhase(t, id, instance.Ready); in.Spec.Suspended || in.Spec.Deleted {
		t.Error("something was changed")
	}
}

func TestOperatorsSeeAndChangeKafkas(t *testing.T) {
	o := newOffice(t)
	id := o.running(t)
	o.provisioned(t, "bob", "two")
	w := o.do(t, "read", "GET", adminKafkas+"/"+id, "").ok(200)
	noNulls(t, "a kafka", w.Body.Bytes())
	got := w.object()
	routes, _ := got["routes"].([]any)
	delete(got, "routes")
	checkTypes(t, adminTypes, got)
	if len(routes) != 2 || len(routes[0].(map[string]any)) != 2 {
		t.Errorf("its routes: %v", routes)
	}
	for name, want := range map[string]any{
		"kind": "Kafka", "href": kafkas + "/" + id, "status": "ready", "owner": "alice", "organisation_id": "acme", "owner_account_id": "a-1",
		"cluster_id": "c1", "namespace": "kafka-" + id, "actual_kafka_version": "3.1.0", "desired_strimzi_version": "strimzi-cluster-operator.v0.10.0",
		"kafka_upgrading": false, "cloud_provider": "aws", "region": "us-east-1", "multi_az": true, "instance_type": "standard", "quota_type": "quota-management-list",
	} {
		if got[name] != want {
			t.Errorf("%s is %v, not %v", name, got[name], want)
		}
	}

	list := func(query string) (names []string) {
		t.Helper()
		var l struct {
			Kind              string
			Page, Size, Total int
			Items             []map[string]any
		}
		o.do(t, "read", "GET", adminKafkas+query, "").ok(200).into(&l)
		if l.Kind != "KafkaList" || l.Page < 1 || l.Total < len(l.Items) {
			t.Errorf("%s: %+v", query, l)
		}
		for _, it := range l.Items {
			names = append(names, it["name"].(string))
		}
		return names
	}
	for query, want := range map[string][]string{
		"":                                  {"one", "two"}, // of all organisations
		"?orderBy=name+desc":                {"two", "one"},
		"?search=owner+%3D+bob":             {"two"},
		"?search=name+like+o%25&size=1":     {"one"},
		"?orderBy=created_at&size=1&page=2": {"two"},
	} {
		if d := cmp.Diff(want, list(query)); d != "" {
			t.Errorf("%s: %s", query, d)
		}
	}
	for query, code := range map[string]string{"?search=colour+%3D+red": "23", "?orderBy=colour": "17", "?size=0": "17", "?page=-1": "17", "?search=%": "17"} {
		o.do(t, "read", "GET", adminKafkas+query, "").refused(query, 400, code)
	}

	patched := o.do(t, "write", "PATCH", adminKafkas+"/"+id, `{"max_data_retention_size":"2000Gi","suspended":null}`).ok(200).object()
	if d := cmp.Diff(map[string]any{"bytes": 2147483648000.0}, patched["max_data_retention_size"]); d != "" {
		t.Error(d)
	}
	for reason, c := range map[string]struct {
		body   string
		status int
		codes  []string
	}{
		"it only grows":           {`{"max_data_retention_size":"1Gi"}`, 400, []string{"37", "21"}},
		"no such version":         {`{"kafka_version":"9.9.9"}`, 400, []string{"8", "37", "21"}},
		"a misspelt field":        {`{"kafka_versoin":"3.1.0"}`, 400, []string{"37"}},
		"what tenants change":     {`{"owner":"eve"}`, 400, []string{"37"}},
		"no JSON":                 {`{`, 400, []string{"17"}},
		"a field twice":           {`{"suspended":true,"suspended":false}`, 400, []string{"17"}},
		"only what rests resumes": {`{"suspended":false,"kafka_version":"9"}`, 400, []string{"8", "37", "21", "6"}},
	} {
		o.do(t, "write", "PATCH", adminKafkas+"/"+id, c.body).refusedWith(t, reason, c.status, c.codes...)
	}
	o.do(t, "write", "PATCH", adminKafkas+"/nobody", `{}`).refused("nobody", 404, "7")
	o.do(t, "read", "GET", adminKafkas+"/one", "").refused("names are the tenants'", 404, "7")
	o.do(t, "write", "PATCH", adminKafkas+"/"+id, `{"suspended":true}`).ok(200)
	o.awaitPhase(t, id, instance.Suspending)

	o.do(t, "full", "POST", adminKafkas+"/"+id+"/revoke_tls_certificate", `{"revocation_reason":4}`).ok(204)
	o.certs.mu.Lock()
	if len(o.certs.revoked) == 0 {
		t.Error("nothing was revoked")
	}
	for _, reason := range o.certs.revoked {
		if reason != 4 {
			t.Errorf("revoked for %d", reason)
		}
	}
	o.certs.mu.Unlock()
	for reason, body := range map[string]string{"no such reason": `{"revocation_reason":7}`, "misspelt": `{"reason":1}`} {
		o.do(t, "full", "POST", adminKafkas+"/"+id+"/revoke_tls_certificate", body).refused(reason, 400, "37")
	}
	o.do(t, "full", "POST", adminKafkas+"/"+id+"/revoke_tls_certificate", `{"revocation_reason":"x"}`).refused("no number", 400, "17")
	o.do(t, "full", "DELETE", adminKafkas+"/"+id, "").refused("only later", 400, "103")
	if gone := o.do(t, "full", "DELETE", adminKafkas+"/"+id+"?async=true", "").ok(202).object(); gone["status"] != "deprovision" {
		t.Errorf("it is %v", gone["status"])
	}
	rex := o.do(t, "alice", "POST", dinosaurs+"?async=true", `{"name":"rex"}`).ok(202).object()["id"].(string)
	o.do(t, "full", "POST", adminDinosaurs+"/"+rex+"/revoke_tls_certificate", ``).ok(204)
	o.do(t, "full", "DELETE", adminDinosaurs+"/"+rex+"?async=true", "").ok(202)
}

// audits lists the entries of the log: "phase user method path status".
func (o *office) audits(t *testing.T) (out []map[string]any) {
	t.Helper()
	var list struct{ Items []map[string]any }
	o.do(t, "root", "GET", "/api/v1/audits?orderBy=created&size=1000", "").ok(200).into(&list)
	return list.Items
}

func TestEveryCallOfAnOperatorIsOnRecord(t *testing.T) {
	o := newOffice(t)
	id := o.running(t)
	if n := len(o.audits(t)); n != 0 {
		t.Fatalf("%d entries before any call", n)
	}
	calls := []struct {
		who, method, path, body string
		status                  float64
		phase                   string
		changes                 int
	}{
		{"read", "GET", adminKafkas, "", 200, "done", 1},
		{"read", "GET", adminKafkas + "/nobody", "", 404, "refused", 1},
		{"write", "PATCH", adminKafkas + "/" + id, `{"max_data_retention_size":"3000Gi"}`, 200, "done", 2},
		{"write", "PATCH", adminKafkas + "/" + id, `{"colour":"secret-red"}`, 400, "refused", 2},
		{"alice", "DELETE", adminKafkas + "/" + id, "", 404, "hidden", 1},
		{"agent", "GET", adminKafkas, "", 404, "hidden", 1},
		{"root", "GET", adminKafkas + "/x/y/z", "", 404, "refused", 1},
	}
	for i, c := range calls {
		req := httptest.NewRequest(c.method, c.path+"?token=secret", strings.NewReader(c.body))
		req.Header.Set("Authorization", "Bearer "+c.who)
		req.Header.Set("X-Request-ID", "request-0"+string(rune('0'+i)))
		req.Header.Set("X-Forwarded-For", "10.1.2.3")
		o.send(t, req)
		if c.phase == "hidden" { // nobody waits for that one
			o.await(t, "the entry", func() bool { return len(o.audits(t)) > i })
		}
		entries := o.audits(t)
		if len(entries) != i+1 {
			t.Fatalf("%s %s left %d entries", c.method, c.path, len(entries)-i)
		}
		e := entries[i]
		spec, status := e["spec"].(map[string]any), e["status"].(map[string]any)
		user := staff[c.who].User
		if user == "" {
			user = staff[c.who].Actor()
		}
		if e["phase"] != c.phase || status["status"] != c.status || spec["user"] != user || spec["method"] != c.method || spec["path"] != c.path ||
			spec["remote"] != "192.0.2.1" || spec["forwarded"] != "10.1.2.3" || spec["request"] != req.Header.Get("X-Request-ID") {
			t.Errorf("%s %s %s is recorded as %v", c.who, c.method, c.path, e)
		}
		changes, err := o.ledger.Changes(t.Context(), ledger.ChangeQuery{Kind: "audit", ID: e["id"].(string)})
		if err != nil || len(changes) != c.changes || c.changes == 2 && changes[0].Op != operation.AuditStarted {
			t.Errorf("%s %s: %d changes, %v", c.method, c.path, len(changes), err)
		}
		if data, _ := json.Marshal(e); strings.Contains(string(data), "secret") {
			t.Errorf("a body or query is on record: %s", data)
		}
	}
	for _, who := range []string{"alice", "full", "agent"} {
		if w := o.do(t, who, "GET", "/api/v1/audits", ""); w.Code != 403 {
			t.Errorf("%s sees the audit: %d", who, w.Code)
		}
	}
}

// Who ends the server waits for what is written behind answers, for as long as is given.
func TestBehindIsWaitedFor(t *testing.T) {
	httpapi.WriteBehind(t)
	behind := httpapi.NewBehind()
	f := newFleet(t, func(c *httpapi.Config) { c.Authenticator, c.Behind = badges{}, behind })
	reached, release := make(chan struct{}), make(chan struct{})
	once := sync.OnceFunc(func() { close(reached) })
	f.ledger.set(func(context.Context) error {
		once()
		<-release
		return nil
	})
	f.do(t, "alice", "GET", adminKafkas, "").refused("it is not waited for", 404, "7")
	<-reached
	ended, cancel := context.WithCancel(t.Context())
	cancel()
	if err := behind.Wait(ended); err == nil {
		t.Error("an entry is being written, and nobody waits for it")
	}
	close(release)
	if err := behind.Wait(t.Context()); err != nil {
		t.Error(err)
	}
	if got, err := f.ledger.Changes(t.Context(), ledger.ChangeQuery{Kind: operation.AuditKind.Name}); err != nil || len(got) != 1 {
		t.Errorf("%d entries are written, %v", len(got), err)
	}
}

// What cannot be put on record is not done.
func TestNoRecordNoDeed(t *testing.T) {
	o := newOffice(t)
	id := o.running(t)
	away := fault.New(fault.Unavailable, "the ledger is away")
	failing := func(do func()) {
		o.ledger.set(func(context.Context) error { return away })
		defer o.ledger.set(nil)
		do()
	}
	failing(func() {
		e := o.do(t, "full", "DELETE", adminKafkas+"/"+id+"?async=true", "").refused("not on record, not done", 503, "9")
		if e.Reason != "the call cannot be put on record; try again" {
			t.Errorf("an operator reads %q", e.Reason)
		}
		o.do(t, "alice", "DELETE", adminKafkas+"/"+id+"?async=true", "").refused("hidden whatever happens", 404, "7")
		for deadline := time.Now().Add(10 * time.Second); !strings.Contains(o.logs.String(), "a hidden call is not on record"); runtime.Gosched() {
			if time.Now().After(deadline) {
				t.Fatal("the log says nothing")
			}
		}
	})
	if in := o.awaitPhase(t, id, instance.Ready); in.Spec.Deleted {
		t.Error("it was done")
	}
	// The outcome of what was begun on record may be missing; the beginning never is.
	o.do(t, "full", "DELETE", adminKafkas+"/"+id+"?async=true", "").ok(202)
	if entries := o.audits(t); len(entries) != 1 || entries[0]["phase"] != "done" {
		t.Errorf("the record: %v", entries)
	}
}
