package httpapi_test

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"testing"

	"github.com/droverhq/drover/internal/fault"
	"github.com/droverhq/drover/internal/httpapi"
)

func TestErrorsBecomeCodes(t *testing.T) {
	is := func(k fault.Kind, reason string) error { return fault.New(k, "what happened").Because(reason) }
	for name, tc := range map[string]struct {
		reason       string
		err          error
		status, code int
		text         string
	}{
		"invalid":     {"kinds have a default", is(fault.Invalid, ""), 400, 8, "what happened"},
		"not found":   {"kinds have a default", is(fault.NotFound, ""), 404, 7, "what happened"},
		"conflict":    {"kinds have a default", is(fault.Conflict, "version"), 409, 6, "what happened"},
		"denied":      {"kinds have a default", is(fault.Denied, ""), 403, 11, "what happened"},
		"exhausted":   {"kinds have a default", is(fault.Exhausted, "counter:x"), 403, 24, "what happened"},
		"forbidden":   {"reasons narrow it down", is(fault.Denied, "denied"), 403, 4, "what happened"},
		"token":       {"reasons narrow it down", is(fault.Denied, "token"), 401, 15, "what happened"},
		"capacity":    {"reasons narrow it down", is(fault.Exhausted, "capacity"), 403, 24, "what happened"},
		"limit":       {"reasons narrow it down", is(fault.Exhausted, "limit"), 403, 5, "what happened"},
		"quota":       {"reasons narrow it down", is(fault.Exhausted, "quota"), 403, 120, "what happened"},
		"secondary":   {"another site leads", is(fault.Conflict, "secondary"), 421, 6, "what happened"},
		"rate":        {"reasons narrow it down", is(fault.Exhausted, "rate"), 429, 429, "what happened"},
		"gone":        {"reasons narrow it down", is(fault.NotFound, "gone"), 410, 25, "what happened"},
		"multi-az":    {"reasons narrow it down", is(fault.Invalid, "multi-az"), 400, 35, "what happened"},
		"account":     {"whom we depend on has numbers of its own", is(fault.Unavailable, "account-create"), 500, 110, "Failed to create a service account; try again"},
		"quota check": {"whom we depend on has numbers of its own", is(fault.Unavailable, "quota-check"), 500, 121, "Failed to check quota; try again"},
		"promotion":   {"a state forbids it", is(fault.Conflict, "promotion"), 409, 6, "what happened"},
		"no such":     {"no state allows it", is(fault.Invalid, "promotion"), 400, 21, "what happened"},
		"wrapped":     {"a wrapped error keeps its kind", fmt.Errorf("cannot: %w", is(fault.Conflict, "name-taken")), 409, 36, "cannot: what happened"},
		"plain":       {"a defect tells users nothing", errors.New("password is 1234"), 500, 9, "internal error"},
		"internal":    {"whatever reason it carries", is(fault.Internal, "name-taken"), 500, 9, "internal error"},
		"unavailable": {"nor does what we stand on", is(fault.Unavailable, "10.0.0.7 is away"), 503, 9, "the service is not available at the moment; try again"},
		"no reason":   {"whatever it says", is(fault.Unavailable, ""), 503, 9, "the service is not available at the moment; try again"},
		"disk":        {"but for a word on the cause", is(fault.Unavailable, "disk-full"), 503, 9, "the disk is full; try again"},
		"disk fails":  {"but for a word on the cause", is(fault.Unavailable, "disk-fails"), 503, 9, "the disk fails; try again"},
		"database":    {"but for a word on the cause", is(fault.Unavailable, "database-away"), 503, 9, "the database does not answer; try again"},
		"busy":        {"but for a word on the cause", is(fault.Unavailable, "database-busy"), 503, 9, "the database does not keep up; try again"},
		"unknown":     {"but for a word on the cause", is(fault.Unavailable, "outcome-unknown"), 503, 9, "whether it was done is not known; try again"},
		"broker":      {"but for a word on the cause", is(fault.Unavailable, "broker-away"), 503, 9, "the broker cannot be reached; try again"},
		"blocked":     {"but for a word on the cause", is(fault.Unavailable, "broker-blocked"), 503, 9, "the broker takes no messages; try again"},
		"inside":      {"the cause may be further in", fault.New(fault.Unavailable, "cannot: %w", is(fault.Unavailable, "disk-full")), 503, 9, "the disk is full; try again"},
		"other kind":  {"but not of another kind", fault.New(fault.Unavailable, "cannot: %w", is(fault.Internal, "disk-full")), 503, 9, "the service is not available at the moment; try again"},
		"record":      {"an operator reads what was not done", is(fault.Unavailable, "no-record"), 503, 9, "the call cannot be put on record; try again"},
		"record why":  {"and why", fault.New(fault.Unavailable, "no: %w", is(fault.Unavailable, "disk-full")).Because("no-record"), 503, 9, "the call cannot be put on record: the disk is full; try again"},
		"record only": {"the deed was not even tried", fault.New(fault.Unavailable, "no: %w", is(fault.Unavailable, "outcome-unknown")).Because("no-record"), 503, 9, "the call cannot be put on record; try again"},
		"deadline":    {"too slow is not a defect", context.DeadlineExceeded, 503, 9, "the request took too long; try again"},
		"too large":   {"the reference has one code for bodies", &http.MaxBytesError{Limit: 5}, 400, 17, "the body is larger than 5 bytes"},
	} {
		t.Run(name, func(t *testing.T) {
			a := httpapi.Problem(tc.err)
			if a.Status() != tc.status || a.Code() != tc.code || a.Reason() != tc.text {
				t.Errorf("%s: got %d, %d, %q", tc.reason, a.Status(), a.Code(), a.Reason())
			}
		})
	}
}

// TestEveryReachableError asks for each code through the front door, and checks
// that nothing was written.
func TestEveryReachableError(t *testing.T) {
	r := newRig(t)
	alice := r.user(t, "alice", "acme")
	id := r.create(t, alice, "rex")
	gone := r.create(t, alice, "gone")
	r.do(t, alice, "DELETE", dinosaurs+"/"+gone+"?async=true", "").ok(202)
	post := dinosaurs + "?async=true"
	long := strings.Repeat("a", 33)
	for name, tc := range map[string]struct {
		reason             string
		method, path, body string
		status             int
		code               string
	}{
		"conflict":        {"it is being deleted", "PATCH", dinosaurs + "/" + gone, `{"owner":"bob"}`, 409, "6"},
		"no instance":     {"no such instance", "GET", dinosaurs + "/nope", "", 404, "7"},
		"no path":         {"no such path", "GET", api + "/nope", "", 404, "7"},
		"no sub path":     {"no such path", "GET", dinosaurs + "/" + id + "/nope", "", 404, "7"},
		"no version":      {"no such version", "GET", "/api/dinosaurs_mgmt/v9/dinosaurs", "", 404, "7"},
		"no group":        {"no such group", "GET", "/api/nope/v1/dinosaurs", "", 404, "7"},
		"nothing":         {"outside of every API", "GET", "/nope", "", 404, "7"},
		"patch list":      {"a list is not patched", "PATCH", dinosaurs, `{}`, 405, "10"},
		"put":             {"there is no PUT", "PUT", dinosaurs + "/" + id, `{}`, 405, "10"},
		"post errors":     {"the catalogue is fixed", "POST", api + "/errors", `{}`, 405, "10"},
		"post health":     {"probes are read", "POST", "/healthz", `{}`, 405, "10"},
		"empty body":      {"an order has a body", "POST", post, "", 400, "17"},
		"malformed":       {"no JSON", "POST", post, `{"name":`, 400, "17"},
		"list body":       {"no object", "POST", post, `["rex"]`, 400, "17"},
		"wrong type":      {"a name is text", "POST", post, `{"name":7}`, 400, "17"},
		"wrong flag":      {"a flag is no text", "POST", post, `{"name":"a","multi_az":"yes"}`, 400, "17"},
		"trailing":        {"one body", "POST", post, `{"name":"a"}{"name":"b"}`, 400, "17"},
		"twice":           {"one name", "POST", post, `{"name":"a","name":"b"}`, 400, "17"},
		"bad utf-8":       {"text is UTF-8", "POST", post, "{\"name\":\"a\xff\"}", 400, "17"},
		"patch malformed": {"no JSON", "PATCH", dinosaurs + "/" + id, `owner=bob`, 400, "17"},
		"patch type":      {"an owner is text", "PATCH", dinosaurs + "/" + id, `{"owner":{}}`, 400, "17"},
		"size 0":          {"a page holds something", "GET", dinosaurs + "?size=0", "", 400, "17"},
		"size x":          {"a size is a number", "GET", dinosaurs + "?size=x", "", 400, "17"},
		"page -1":         {"pages count from 1", "GET", dinosaurs + "?page=-1", "", 400, "17"},
		"page huge":       {"that many pages there are not", "GET", dinosaurs + "?page=99999999999999999999", "", 400, "17"},
		"order column":    {"not a column", "GET", dinosaurs + "?orderBy=nope", "", 400, "17"},
		"order way":       {"not a direction", "GET", dinosaurs + "?orderBy=name%20up", "", 400, "17"},
		"order SQL":       {"not a column", "GET", dinosaurs + "?orderBy=name;drop%20table%20x", "", 400, "17"},
		"order empty":     {"an empty column", "GET", dinosaurs + "?orderBy=name,", "", 400, "17"},
		"bad query":       {"a query string has a form", "GET", dinosaurs + "?search=%zz", "", 400, "17"},
		"providers size":  {"every list has the same pages", "GET", api + "/cloud_providers?size=0", "", 400, "17"},
		"search":          {"no search", "GET", dinosaurs + "?search=name", "", 400, "23"},
		"search column":   {"not searchable", "GET", dinosaurs + "?search=org%3Dacme", "", 400, "23"},
		"search SQL":      {"no SQL", "GET", dinosaurs + "?search=name%3D'a'%20UNION%20SELECT%201", "", 400, "23"},
		"provider":        {"not sold there", "POST", post, `{"name":"a","cloud_provider":"mars"}`, 400, "30"},
		"region":          {"not sold there", "POST", post, `{"name":"a","region":"mars"}`, 400, "31"},
		"name invalid":    {"a host name needs letters", "POST", post, `{"name":"Rex!"}`, 400, "32"},
		"name unicode":    {"of one alphabet", "POST", post, `{"name":"r\ud800x"}`, 400, "32"},
		"name short":      {"at least one", "POST", post, `{"name":""}`, 400, "33"},
		"name missing":    {"at least one", "POST", post, `{}`, 400, "33"},
		"name null":       {"null is none", "POST", post, `{"name":null}`, 400, "33"},
		"name long":       {"at most 32", "POST", post, `{"name":"` + long + `"}`, 400, "34"},
		"name taken":      {"names are unique", "POST", post, `{"name":"rex"}`, 409, "36"},
		"unknown field":   {"a misspelt field was meant", "POST", post, `{"name":"a","regoin":"local"}`, 400, "37"},
		"field case":      {"names of fields have a case", "POST", post, `{"Name":"a"}`, 400, "37"},
		"parameter":       {"the schema says text", "POST", post, `{"name":"a","species":7}`, 400, "37"},
		"parameter long":  {"and how long", "POST", post, `{"name":"a","species":"` + strings.Repeat("x", 65) + `"}`, 400, "37"},
		"patch field":     {"tenants change the owner alone", "PATCH", dinosaurs + "/" + id, `{"name":"b"}`, 400, "37"},
		"patch nobody":    {"an owner is somebody", "PATCH", dinosaurs + "/" + id, `{"owner":""}`, 400, "37"},
		"patch control":   {"with a printable name", "PATCH", dinosaurs + "/" + id, `{"owner":"a\u0000b"}`, 400, "37"},
		"type":            {"no such type", "POST", post, `{"name":"a","plan":"huge.x1"}`, 400, "41"},
		"plan":            {"no such size", "POST", post, `{"name":"a","plan":"standard.x9"}`, 400, "42"},
		"sync create":     {"nothing is done at once", "POST", dinosaurs, `{"name":"a"}`, 400, "103"},
		"sync create no":  {"false is not true", "POST", dinosaurs + "?async=false", `{"name":"a"}`, 400, "103"},
		"sync delete":     {"nothing is done at once", "DELETE", dinosaurs + "/" + id, "", 400, "103"},
		"range without":   {"needed arguments", "GET", dinosaurs + "/" + id + "/metrics/query_range", "", 400, "37"},
		"id control":      {"an id is printable", "GET", dinosaurs + "/a%00b", "", 404, "7"},
		"id huge":         {"and short", "DELETE", dinosaurs + "/" + strings.Repeat("a", 5000) + "?async=true", "", 404, "7"},
		"id slash":        {"a slash is no part of an id", "GET", dinosaurs + "/a%2Fb", "", 404, "7"},
		"id empty":        {"an empty id is none", "GET", dinosaurs + "//metrics/query", "", 404, "7"},
		"agent clusters":  {"users are no agents", "GET", api + "/agent-clusters/c1/dinosaurs", "", 404, "7"},
	} {
		t.Run(name, func(t *testing.T) {
			before := r.seq(t)
			r.do(t, alice, tc.method, tc.path, tc.body).refused(tc.reason, tc.status, tc.code)
			if n := r.written(t, before); n != 0 {
				t.Errorf("%s: a refused request wrote %d changes", tc.reason, n)
			}
		})
	}
}
