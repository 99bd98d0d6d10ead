package cli_test

import (
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	v1 "github.com/droverhq/drover/api/v1"
)

// fake is a small server of /api/v1. Objects move on only while somebody watches:
// each has a plan of phases that a watch carries out, so that scripts are exact.
type fake struct {
	mu   sync.Mutex
	log  []v1.Change
	plan map[string][]v1.Object // what is yet to come, by id
	cuts int                    // connections that were cut
	wide int                    // watches of more than one object
	sick int                    // times that somebody asked how it is
	idp  idp
}

var born = time.Date(2026, 5, 1, 12, 0, 0, 0, time.UTC)

func newFake() http.Handler {
	f := &fake{plan: map[string][]v1.Object{}}
	f.write("system", "schedule:start", "create", v1.Object{Kind: "offering", ID: "o1", Resource: "offerings", Name: "dinosaur", Generation: 1})
	mux := http.NewServeMux()
	routes := map[string]func(r *http.Request) (any, error){
		"GET /api/v1/kinds":                   f.resources,
		"GET /api/v1/whoami":                  func(*http.Request) (any, error) { return v1.WhoAmI{User: "alice"}, nil },
		"GET /api/v1/ledger":                  f.ledger,
		"GET /api/v1/doctor":                  f.doctor,
		"GET /api/v1/changes":                 f.changes,
		"POST /api/v1/tokens":                 f.tokens,
		"PUT /api/v1/offerings":               f.apply,
		"PUT /api/v1/{resource}":              f.applyPolicy,
		"POST /api/v1/terms/{id}/accept":      f.accept,
		"POST /api/v1/approvals/{id}/approve": f.approve,
		"POST /api/v1/approvals/{id}/refuse":  f.refuse,
		"GET /api/v1/{resource}":              f.list,
		"POST /api/v1/{resource}":             f.create,
		"GET /api/v1/{resource}/{id}":         f.get,
		"PATCH /api/v1/{resource}/{id}":       f.update,
		"DELETE /api/v1/{resource}/{id}":      f.delete,
		"GET /api/v1/{resource}/{id}/history": f.history,

		"POST /api/v1/{resource}/{id}/promote":    f.promote,
		"POST /api/v1/users":                      f.createUser,
		"PUT /api/v1/users/{id}/password":         f.setPassword,
		"POST /api/v1/serviceaccounts":            f.createAccount,
		"POST /api/v1/serviceaccounts/{id}/reset": f.resetAccount,
		"DELETE /api/v1/serviceaccounts/{id}":     f.deleteAccount,
	}
	maps.Copy(routes, f.clusterRoutes())
	maps.Copy(routes, f.environmentRoutes())
	maps.Copy(routes, f.deploymentRoutes())
	for pattern, h := range routes {
		mux.HandleFunc(pattern, func(w http.ResponseWriter, r *http.Request) {
			if r.Header.Get("Authorization") != "Bearer good" && !f.idp.knows(r.Header.Get("Authorization")) {
				fail(w, fault(401, "DROVER-15", "the token is not valid"))
				return
			}
			f.mu.Lock()
			out, err := h(r)
			f.mu.Unlock()
			if err != nil {
				fail(w, err)
				return
			}
			json.NewEncoder(w).Encode(out)
		})
	}
	mux.HandleFunc("GET /api/v1/watch", f.watch)
	f.idp.routes(mux)
	return mux
}

type faultError struct {
	status int
	body   v1.Error
}

func (e *faultError) Error() string { return e.body.Reason }

func fault(status int, code, reason string) error {
	return &faultError{status, v1.Error{Kind: "Error", Code: code, Reason: reason}}
}

func fail(w http.ResponseWriter, err error) {
	e := err.(*faultError)
	w.WriteHeader(e.status)
	json.NewEncoder(w).Encode(e.body)
}

// write adds a change half a second after the last one.
func (f *fake) write(actor, cause, op string, o v1.Object) v1.Object {
	at := born.Add(time.Duration(len(f.log)) * 500 * time.Millisecond)
	if o.Version++; o.Version == 1 {
		o.Created = at
	}
	o.Updated = at
	f.log = append(f.log, v1.Change{Seq: int64(len(f.log) + 1), At: at, Actor: actor, Cause: cause, Op: op, Object: o})
	return o
}

func (f *fake) current(resource string) []v1.Object {
	var out []v1.Object
	for _, ch := range f.log {
		i := slices.IndexFunc(out, func(o v1.Object) bool { return o.ID == ch.Object.ID })
		switch {
		case ch.Object.Resource != resource:
		case i < 0:
			out = append(out, ch.Object)
		default:
			out[i] = ch.Object
		}
	}
	return slices.DeleteFunc(out, func(o v1.Object) bool { return o.Deleted != nil })
}

func (f *fake) find(r *http.Request) (v1.Object, error) {
	id := r.PathValue("id")
	if id == "broken" {
		return v1.Object{}, fault(503, "DROVER-9", "the database is away")
	}
	if id == "secret" {
		return v1.Object{}, fault(403, "DROVER-4", "this is not yours")
	}
	for _, o := range f.current(r.PathValue("resource")) {
		if o.Name == id {
			return o, nil
		}
	}
	for _, ch := range slices.Backward(f.log) {
		if ch.Object.ID == id || ch.Object.Name == id {
			return ch.Object, nil
		}
	}
	if r.PathValue("resource") == "offerings" && id == "kafka" {
		return v1.Object{Kind: "offering", ID: "kafka", Resource: "offerings", Name: "kafka", Spec: json.RawMessage(kafkaDocument)}, nil
	}
	if r.PathValue("resource") == "approvals" && id == waiting {
		return v1.Object{Kind: "approval", ID: waiting, Resource: "approvals", Phase: "open"}, nil
	}
	return v1.Object{}, fault(404, "DROVER-7", "not found")
}

func (f *fake) resources(*http.Request) (any, error) {
	return v1.Resources{Items: []v1.Resource{
		{Name: "dinosaurs", Singular: "dinosaur", Kind: "instance", Offering: "dinosaur", Verbs: []string{"get", "list", "create", "update", "delete"}},
		{Name: "offerings", Singular: "offering", Kind: "offering", Verbs: []string{"apply", "get", "list", "delete"}},
		{Name: "clusters", Singular: "cluster", Kind: "cluster", Verbs: []string{"create", "delete", "drain", "get", "list", "undrain", "update"}},
		{Name: "profiles", Singular: "profile", Kind: "clusterprofile", Verbs: []string{"apply", "get", "list", "delete"}},
		{Name: "quotas", Singular: "quota", Kind: "quota", Verbs: []string{"apply", "get", "list", "delete"}},
		{Name: "kafkas", Singular: "kafka", Kind: "instance", Offering: "kafka", Verbs: []string{"get", "list", "create", "update", "delete", "promote"}},
		{Name: "users", Singular: "user", Kind: "user", Verbs: []string{"create", "delete", "get", "list", "reset"}},
		{Name: "serviceaccounts", Singular: "serviceaccount", Kind: "serviceaccount", Verbs: []string{"create", "delete", "get", "list", "reset"}},
		{Name: "terms", Singular: "terms", Kind: "terms", Verbs: []string{"accept", "apply", "get", "list", "delete"}},
		{Name: "approvals", Singular: "approval", Kind: "approval", Verbs: []string{"approve", "get", "list", "refuse"}},
		{Name: "templates", Singular: "template", Kind: "template", Verbs: []string{"add", "delete", "get", "list"}},
		{Name: "templateversions", Singular: "templateversion", Kind: "templateversion", Verbs: []string{"get", "list"}},
		{Name: "environments", Singular: "environment", Kind: "environment", Verbs: []string{"get", "list"}},
		{Name: "resources", Singular: "resource", Kind: "resource", Verbs: []string{"get", "list"}},
		{Name: "plans", Singular: "plan", Kind: "plan", Verbs: []string{"get", "list"}},
		{Name: "drifts", Singular: "drift", Kind: "drift", Verbs: []string{"get", "list"}},
		{Name: "deployments", Singular: "deployment", Kind: "deployment", Verbs: []string{"create", "delete", "get", "list", "update"}},
		{Name: "syncruns", Singular: "syncrun", Kind: "syncrun", Verbs: []string{"get", "list"}},
		{Name: "repositories", Singular: "repository", Kind: "repository", Verbs: []string{"delete", "get", "list", "put"}},
		{Name: "targets", Singular: "target", Kind: "target", Verbs: []string{"delete", "get", "list", "put"}},
		{Name: "workspaces", Singular: "workspace", Kind: "workspace", Verbs: []string{"delete", "get", "list", "put"}},
		{Name: "operations", Singular: "operation", Kind: "operation", Verbs: []string{"get", "list"}},
	}}, nil
}

func (f *fake) ledger(*http.Request) (any, error) {
	return v1.Ledger{Ledger: "l1", Epoch: 1, Seq: int64(len(f.log)), At: born, Backlog: []v1.Backlog{{Kind: "instance", Due: 2, Running: 1, Oldest: 1.5}}}, nil
}

func (f *fake) tokens(r *http.Request) (any, error) {
	var q v1.TokenRequest
	if err := json.NewDecoder(r.Body).Decode(&q); err != nil {
		return nil, fault(400, "DROVER-17", err.Error())
	}
	return v1.Token{Token: fmt.Sprintf("%s.%s.%v.%s.%s", q.User, q.Org, q.Admin, q.Cluster, q.TTL), Expires: born}, nil
}

func (f *fake) apply(r *http.Request) (any, error) {
	body, _ := io.ReadAll(r.Body)
	if !strings.Contains(string(body), "kind: Offering") {
		return nil, fault(400, "DROVER-8", "line 1: this is no offering")
	}
	return f.write("alice", "request:r9", "update", v1.Object{Kind: "offering", ID: "o2", Resource: "offerings", Name: "kafka", Generation: 1}), nil
}

// applyPolicy takes documents with a line "name: NAME", and finds every "wrong".
func (f *fake) applyPolicy(r *http.Request) (any, error) {
	body, _ := io.ReadAll(r.Body)
	o := v1.Object{Kind: strings.TrimSuffix(r.PathValue("resource"), "s"), Resource: r.PathValue("resource"), Generation: 1}
	switch o.Resource {
	case "terms":
		o.Kind = "terms"
	case "profiles":
		o.Kind, o.Spec, o.Status = "clusterprofile", json.RawMessage(smallProfile), json.RawMessage(smallScaling)
	}
	for i, line := range strings.Split(string(body), "\n") {
		if strings.Contains(line, "wrong") {
			return nil, fault(400, "DROVER-8", fmt.Sprintf("request:%d:1: this is wrong", i+1))
		}
		if name, ok := strings.CutPrefix(line, "name: "); ok {
			o.ID, o.Name = name, name
		}
	}
	return f.write("alice", "request:r9", "update", o), nil
}

func (f *fake) accept(r *http.Request) (any, error) {
	o, err := f.find(r)
	if err != nil {
		return nil, err
	}
	var q v1.Accept
	if err := json.NewDecoder(r.Body).Decode(&q); err != nil {
		return nil, fault(400, "DROVER-17", err.Error())
	}
	if q.Version == "1" {
		return nil, fault(409, "DROVER-6", "the terms are in version 2 by now")
	}
	return v1.Object{Kind: "acceptance", ID: "a1", Name: o.Name, Fields: map[string]any{"terms": o.Name, "terms_version": "2"}}, nil
}

func (f *fake) list(r *http.Request) (any, error) {
	q := r.URL.Query()
	if q.Get("search") == "bad" {
		return nil, fault(400, "DROVER-23", "search: position 1: want an operator")
	}
	all := f.current(r.PathValue("resource"))
	out := v1.List{Page: 1, Size: 100, Total: int64(len(all)), Seq: int64(len(f.log)), Items: all}
	if size, _ := strconv.Atoi(q.Get("size")); size > 0 && size < len(all) {
		out.Size, out.Items = size, all[:size]
	}
	return out, nil
}

func (f *fake) get(r *http.Request) (any, error) {
	o, err := f.find(r)
	if err == nil && o.Deleted != nil {
		return nil, fault(404, "DROVER-7", "it was deleted")
	}
	at, _ := strconv.Atoi(r.URL.Query().Get("at"))
	if at == 1 { // the retention has removed what was before rex
		return nil, fault(410, "DROVER-25", "there is history from 2026-05-01T12:00:00Z on (after change 1): what was before was removed by the rule of retention")
	}
	if err == nil && at > 0 {
		for _, ch := range f.log[:at] {
			if ch.Object.ID == o.ID {
				o = ch.Object
			}
		}
	}
	return o, err
}

func (f *fake) history(r *http.Request) (any, error) {
	o, err := f.find(r)
	return f.after(r, r.PathValue("resource"), o.ID), err
}

func (f *fake) changes(r *http.Request) (any, error) {
	out := f.after(r, r.URL.Query().Get("resource"), r.URL.Query().Get("id"))
	if n, _ := strconv.Atoi(r.URL.Query().Get("newest")); n > 0 && n < len(out.Items) {
		out.Items = out.Items[len(out.Items)-n:]
	}
	return out, nil
}

func (f *fake) after(r *http.Request, resource, id string) v1.Changes {
	after, _ := strconv.ParseInt(r.URL.Query().Get("after"), 10, 64)
	out := v1.Changes{Items: []v1.Change{}, Next: after}
	for _, ch := range f.log {
		if ch.Seq > after && matches(ch, resource, id) {
			out.Items, out.Next = append(out.Items, ch), ch.Seq
		}
	}
	return out
}

func matches(ch v1.Change, resource, id string) bool {
	return (resource == "" || ch.Object.Resource == resource) && (id == "" || ch.Object.ID == id)
}

func (f *fake) create(r *http.Request) (any, error) {
	var q v1.CreateInstance
	d := json.NewDecoder(r.Body)
	d.DisallowUnknownFields()
	if err := d.Decode(&q); err != nil {
		return nil, fault(400, "DROVER-17", err.Error())
	}
	resource := r.PathValue("resource")
	if i := slices.IndexFunc(f.current(resource), func(o v1.Object) bool { return o.Name == q.Name }); i >= 0 {
		return nil, fault(409, "DROVER-36", "the name is taken")
	}
	spec, _ := json.Marshal(q)
	o := v1.Object{
		Kind: "instance", ID: "d-" + q.Name, Resource: resource, Name: q.Name, Owner: "alice", Org: "acme", Phase: "accepted",
		Generation: 1, Spec: spec, Fields: map[string]any{"host": q.Name + "." + resource + ".localhost", "offering": strings.TrimSuffix(resource, "s"), "region": "local", "rank": "", "version": "1.0.0"},
	}
	o = f.write("alice", "request:r1", "create", o)
	for _, phase := range []string{"preparing", "provisioning", "ready"} {
		next := o
		next.Phase = phase
		if resource == "kafkas" {
			next.Status = json.RawMessage(fullStatus)
		}
		switch q.Name {
		case "slow":
			if phase != "preparing" {
				continue
			}
			next.Status = json.RawMessage(`{"message":"no cluster has room"}`)
		case "sick":
			if phase == "ready" {
				next.Phase, next.Status = "failed", json.RawMessage(`{"reason":"it caught a cold: give it a \u001b[31mscarf"}`)
			}
		}
		f.plan[o.ID] = append(f.plan[o.ID], next)
	}
	return o, nil
}

func (f *fake) update(r *http.Request) (any, error) {
	o, err := f.find(r)
	if err != nil {
		return nil, err
	}
	body, _ := io.ReadAll(r.Body)
	if r.PathValue("resource") == "kafkas" {
		return f.updateKafka(o, body)
	}
	o.Generation++
	o.Spec = body
	o.Status = json.RawMessage(fmt.Sprintf(`{"observed":{"generation":%d}}`, o.Generation-1))
	o = f.write("alice", "request:r2", "update", o)
	applied := o
	applied.Status = json.RawMessage(fmt.Sprintf(`{"observed":{"generation":%d}}`, o.Generation))
	if strings.Contains(string(body), "quietly") { // the data plane need not hear of it
		applied.Status = json.RawMessage(fmt.Sprintf(`{"rendered":%d,"issued":%d,"observed":{"generation":%d}}`, o.Generation, o.Generation-1, o.Generation-1))
	}
	f.plan[o.ID] = append(f.plan[o.ID], applied)
	return o, nil
}

func (f *fake) delete(r *http.Request) (any, error) {
	o, err := f.find(r)
	if err != nil {
		return nil, err
	}
	o.Phase = "deprovision"
	o = f.write("alice", "request:r3", "delete", o)
	gone, at := o, born.Add(time.Hour)
	gone.Phase, gone.Deleted = "deleting", &at
	f.plan[o.ID] = []v1.Object{gone}
	return o, nil
}

// watch carries out the plans of what it is asked for, then sends all, then hangs.
// The object "shaky" loses its first two connections. A watch of many objects
// ends, and cannot be resumed, so that the commands which stay for ever come back.
func (f *fake) watch(w http.ResponseWriter, r *http.Request) {
	q := r.URL.Query()
	resource, id := q.Get("resource"), q.Get("id")
	f.mu.Lock()
	cut := false
	if resource == "resources" { // beside an environment's own, which moves things
		id = "nothing"
	}
	if id == "" {
		if f.wide++; f.wide%2 == 0 {
			f.mu.Unlock()
			fail(w, fault(410, "DROVER-25", "the log begins later"))
			return
		}
		cut = true
	}
	for key, plan := range f.plan {
		if id != "" && id != key {
			continue
		}
		if key == "d-shaky" && f.cuts < 2 {
			f.cuts++
			plan, cut = plan[:1], true
		}
		for _, next := range plan {
			before := f.lastOf(key)
			next.Version, next.Created = before.Version, before.Created
			f.write("system", fmt.Sprintf("change:instance/%s@%d", key, before.Version), next.Phase, next)
		}
		f.plan[key] = f.plan[key][len(plan):]
	}
	out := f.after(r, resource, q.Get("id"))
	f.mu.Unlock()
	for _, ch := range out.Items {
		data, _ := json.Marshal(ch)
		fmt.Fprintf(w, "id: %d\nevent: change\ndata: %s\n\n", ch.Seq, data)
	}
	w.(http.Flusher).Flush()
	if !cut {
		<-r.Context().Done()
	}
}

func (f *fake) lastOf(id string) v1.Object {
	for _, ch := range slices.Backward(f.log) {
		if ch.Object.ID == id {
			return ch.Object
		}
	}
	return v1.Object{}
}

// doctor finds nothing the first time, a note the second, and then trouble.
func (f *fake) doctor(*http.Request) (any, error) {
	d := v1.Diagnosis{Healthy: true, At: time.Now(), Version: "1.2.3", Database: "SQLite", Findings: []v1.Finding{}}
	note := v1.Finding{ID: "agent-version", Severity: "note", What: "the agent of edge is of another version", Why: "it is older", Do: []string{"upgrade it"}}
	f.sick++
	switch f.sick {
	case 1:
	case 2:
		d.Findings = append(d.Findings, note)
	default:
		d.Healthy = false
		d.Findings = append(d.Findings, v1.Finding{ID: "agent-silent", Severity: "critical", What: "the agents of 1 clusters are silent", Why: "what runs there goes on",
			Examples: []string{"edge: its agent \x1b[31mhas been silent"}, Do: []string{"drover describe cluster edge"}, Count: 1}, note)
	}
	return d, nil
}
