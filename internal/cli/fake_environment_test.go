package cli_test

import (
	"encoding/json"
	"net/http"
	"strings"
	"time"

	v1 "github.com/droverhq/drover/api/v1"
)

const shopSummary = `{"template":"shop","version":"1.0.0","id":"shop@06a2f0b43a27","commit":"dir-06a2f0b43a27aabbcc","source":"examples/shop","description":"A small shop",` +
	`"parameters":{"type":"object","properties":{"size":{"type":"string","enum":["small","large"],"default":"small","description":"how large"},"species":{"type":"string"}},"required":["species"]},` +
	`"resources":["db","web"],"executors":["file"],"outputs":["url"],"actions":["greet"]}`

const hash = "7d37cdd78f4a0123456789abcdef0123456789abcdef0123456789abcdef0123"

// environmentRoutes are what the fake server has for templates and environments.
// An environment is deployed while somebody watches; "sick" has a resource that
// fails, "kept" is denied by a policy, "asked" waits for an approval, "moved" has
// moved since its plan was made.
func (f *fake) environmentRoutes() map[string]func(r *http.Request) (any, error) {
	routes := map[string]func(r *http.Request) (any, error){
		"POST /api/v1/templates":        f.addTemplate,
		"DELETE /api/v1/templates/{id}": f.deleteTemplate,
		"POST /api/v1/environments":     f.createEnvironment,
		"GET /api/v1/search":            f.search,
		"GET /api/v1/executors": func(*http.Request) (any, error) {
			var inputs map[string]any
			_ = json.Unmarshal([]byte(`{"required":["path"],"properties":{"path":{"type":"string","description":"where it is"},"mode":{"type":"object","properties":{"user":{"type":"string","default":"rw"}}}}}`), &inputs)
			return v1.Executors{Items: []v1.Executor{{Name: "file", Summary: "a file", Connects: true, Inputs: inputs, Outputs: []v1.ExecutorOutput{{Name: "path", Type: "string", Summary: "whole path"}, {Name: "key", Type: "string", Secret: true}}},
				{Name: "terraform", Summary: "a module", Open: true}}}, nil
		},
		"GET /api/v1/connections": func(*http.Request) (any, error) {
			return v1.Connections{Items: []v1.Connection{{Name: "prod", Executor: "consul", Orgs: []string{}, Templates: []string{"shop"}}, {Name: "default", Executor: "file", Orgs: []string{"*"}, Templates: []string{}}}}, nil
		},
		"GET /api/v1/plans/{id}/changes": func(r *http.Request) (any, error) {
			return f.fakePlan(strings.TrimPrefix(r.PathValue("id"), "p-"), false), nil
		},
		"GET /api/v1/operations/{id}/log": func(r *http.Request) (any, error) {
			return v1.Log{Text: "hello\n", Next: 6, Done: true}, nil
		},
		"POST /api/v1/environments/{id}/plan": func(r *http.Request) (any, error) {
			var q v1.PlanEnvironment
			if err := json.NewDecoder(r.Body).Decode(&q); err != nil {
				return nil, fault(400, "DROVER-17", err.Error())
			}
			if q.Parameters["size"] == "huge" {
				return nil, fault(400, "DROVER-8", `parameters: size: value must be one of "small", "large"`)
			}
			p := f.fakePlan(r.PathValue("id"), q.Destroy)
			if !q.Destroy && !q.Rollback {
				p.Phase, p.Resources = "planning", nil
			}
			return p, nil
		},
	}
	for path, h := range map[string]func(r *http.Request, o v1.Object) (any, error){
		"PATCH ": f.editEnvironment, "POST /apply": f.applyEnvironment, "POST /destroy": f.destroyEnvironment, "POST /retry": f.applyEnvironment,
		"POST /observe":          func(_ *http.Request, o v1.Object) (any, error) { return o, nil },
		"POST /actions/{action}": f.runAction,
		"GET /actions": func(*http.Request, v1.Object) (any, error) {
			return v1.EnvironmentActions{Items: []v1.EnvironmentAction{{Name: "greet", App: "greet", Command: []string{"greet"}, Allowed: true, Description: "say hello"}, {Name: "wipe", App: "wipe", Command: []string{"wipe", "-a"}}}}, nil
		},
		"GET /outputs": func(r *http.Request, _ v1.Object) (any, error) {
			secret := v1.OutputValue{Name: "password", Secret: true}
			if r.URL.Query().Get("reveal") == "true" {
				secret.Value = json.RawMessage(`"s3cr3t"`)
			}
			return v1.Outputs{Items: []v1.OutputValue{secret, {Name: "ports", Value: json.RawMessage(`[1,2]`)}, {Name: "url", Value: json.RawMessage(`"http://demo"`), Entry: true}}}, nil
		},
		"GET /graph": func(_ *http.Request, o v1.Object) (any, error) {
			return v1.Graph{Environment: o.Name, Phase: o.Phase, Nodes: []v1.GraphNode{
				{Address: "db", Executor: "file", Phase: "ready", Drifted: true, Needs: []string{"external/bank"}, Links: []v1.Link{{Rel: "dashboard", URL: "http://db/dash"}}}, {Address: "external/bank", External: true},
				{Address: "web[0]", Executor: "file", Phase: "failed", Message: "no \x1b[31mroom", Needs: []string{"db"}},
			}}, nil
		},
		"GET /why": func(r *http.Request, o v1.Object) (any, error) {
			if r.URL.Query().Get("address") == "nothing" {
				return nil, fault(404, "DROVER-7", `environment demo has no resource "nothing"`)
			}
			return v1.Why{Of: "resource/r1", Needs: []v1.Related{{End: "external/bank", Via: "resource/r1", Depth: 1}},
				NeededBy: []v1.Related{{End: "resource/r2", Via: "resource/r1", Depth: 1, Environment: o.Name, Name: "web[0]", Kind: "resource", Phase: "ready"}, {End: "resource/r3", Via: "resource/r2", Depth: 2, Environment: "other", Name: "front", Kind: "resource", Phase: "ready"}}}, nil
		},
		"GET /log": func(r *http.Request, _ v1.Object) (any, error) {
			if r.URL.Query().Get("after") == "" {
				return v1.Log{Text: "one\n", Next: 4}, nil
			}
			return v1.Log{Text: "two\n", Next: 8, Done: true}, nil
		},
	} {
		verb, rest, _ := strings.Cut(path, " ")
		routes[verb+" /api/v1/environments/{id}"+rest] = func(r *http.Request) (any, error) {
			r.SetPathValue("resource", "environments")
			o, err := f.find(r)
			if rest == "/apply" && err != nil { // it is made now
				o, err = f.environmentNamed(r.PathValue("id")), nil
			}
			if err != nil {
				return nil, err
			}
			return h(r, o)
		}
	}
	return routes
}

func (f *fake) addTemplate(r *http.Request) (any, error) {
	var q v1.AddTemplate
	if err := json.NewDecoder(r.Body).Decode(&q); err != nil {
		return nil, fault(400, "DROVER-17", err.Error())
	}
	if strings.Contains(string(q.Files["template.yaml"]), "wrong") {
		return nil, fault(400, "DROVER-8", "template.yaml:1:1: this is wrong\ntemplate.yaml:2:1: this too")
	}
	if q.Repository != "" && q.Password != "t0ken" {
		return nil, fault(403, "DROVER-4", q.Repository+" does not take the credential")
	}
	version := v1.Object{Kind: "templateversion", ID: "shop@06a2f0b43a27", Name: "shop@1.0.0", Resource: "templateversions", Parent: "shop", Generation: 1, Spec: json.RawMessage(shopSummary),
		Fields: map[string]any{"template": "shop", "version": "1.0.0", "commit": "dir-06a2f0b43a27aabbcc"}}
	if q.DryRun {
		return v1.TemplateVersion{Object: version}, nil
	}
	fresh := len(f.current("templates")) == 0
	if fresh {
		version = f.write("alice", "request:t1", "create", version)
		f.write("alice", "request:t1", "create", v1.Object{Kind: "template", ID: "shop", Name: "shop", Resource: "templates", Generation: 1, Spec: json.RawMessage(shopSummary),
			Fields: map[string]any{"version": "1.0.0", "tags": ",shop,payments,"}})
	}
	return v1.TemplateVersion{Object: version, New: fresh}, nil
}

func (f *fake) deleteTemplate(r *http.Request) (any, error) {
	r.SetPathValue("resource", "templates")
	o, err := f.find(r)
	if err == nil && o.Deleted != nil {
		err = fault(404, "DROVER-7", "there is no template")
	}
	if err != nil {
		return nil, err
	}
	if len(f.current("environments")) > 0 {
		return nil, fault(409, "DROVER-6", "1 environment is made of template shop: destroy it first")
	}
	at := born.Add(time.Hour)
	o.Deleted = &at
	return f.write("alice", "request:t2", "delete", o), nil
}

func (f *fake) fakePlan(name string, destroy bool) v1.Plan {
	p := v1.Plan{ID: "p-" + name, Hash: hash, Environment: name, Template: "shop", Version: "shop@06a2f0b43a27", Phase: "planned", Destroy: destroy, Creates: 1, Updates: 1, Replaces: 1, Same: 2,
		Resources: []v1.PlannedChange{
			{Address: "db", Executor: "file", Action: "create", Why: "there is no such file", Fields: []v1.Difference{{Path: "content", After: json.RawMessage(`"\u003cb\u003e"`)}, {Path: "key", After: json.RawMessage(`"(secret)"`)}}},
			{Address: "same", Executor: "file", Action: "none"},
			{Address: "web[0]", Executor: "file", Action: "change", Unknown: true, Fields: []v1.Difference{{Path: "size", Before: json.RawMessage(`1`), After: json.RawMessage(`"(known after apply)"`)}}},
			{Address: "old", Executor: "file", Action: "replace", Fields: []v1.Difference{{Path: "path", Before: json.RawMessage(`"a"`), Forces: true}}},
		}}
	switch {
	case destroy:
		p.Creates, p.Updates, p.Replaces, p.Destroys, p.Resources = 0, 0, 0, 1, []v1.PlannedChange{{Address: "db", Executor: "file", Action: "destroy"}}
	case name == "kept":
		p.Phase, p.Message = "denied", "that is too much"
		p.Verdicts = []v1.PolicyVerdict{{Policy: "small", Address: "db", Effect: "deny", Message: "that is too much"}}
	case name == "asked":
		p.Phase, p.Approval, p.Message = "approval", "a1b2", "data would be lost"
		p.Verdicts = []v1.PolicyVerdict{{Policy: "keep", Address: "db", Effect: "approve", Message: "data would be lost"}}
	case name == "unmade":
		p.Phase, p.Hash, p.Message, p.Resources = "failed", "", "consul does not answer", nil
	}
	return p
}

func (f *fake) environmentNamed(name string) v1.Object {
	next := ""
	if name == "asked" {
		next = `,"next":{"plan":"p-asked","operation":"op-asked"}`
	}
	return v1.Object{Kind: "environment", ID: "e-" + name, Resource: "environments", Name: name, Owner: "alice", Org: "acme", Phase: "Deploying", Generation: 1,
		Fields: map[string]any{"template": "shop", "tags": ",fun,"},
		Spec:   json.RawMessage(`{"template":"shop","version":"shop@06a2f0b43a27","parameters":{"size":"small"},"tags":["fun"],"description":"for friends"` + next + `}`)}
}

func (f *fake) createEnvironment(r *http.Request) (any, error) {
	var q v1.CreateEnvironment
	if err := json.NewDecoder(r.Body).Decode(&q); err != nil {
		return nil, fault(400, "DROVER-17", err.Error())
	}
	for _, o := range f.current("environments") {
		if o.Name == q.Name {
			return nil, fault(409, "DROVER-6", "there is an environment "+q.Name+" already")
		}
	}
	return f.applyEnvironment(r, f.environmentNamed(q.Name))
}

// applyEnvironment has an environment made while somebody watches.
func (f *fake) applyEnvironment(_ *http.Request, o v1.Object) (any, error) {
	op := v1.Object{Kind: "operation", ID: "op-" + o.Name, Resource: "operations", Phase: "succeeded", Status: json.RawMessage(`{}`)}
	resource := v1.Object{Kind: "resource", ID: "r-" + o.Name, Resource: "resources", Name: "db", Parent: o.ID, Phase: "pending", Fields: map[string]any{"environment": o.Name, "executor": "file", "tags": ",data,", "drifted": true}}
	o.Phase, o.Status = "Deploying", json.RawMessage(`{"operation":"`+op.ID+`","message":"its resources are laid out","counts":{"total":2}}`)
	o = f.write("alice", "request:e1", "apply", o)
	resource = f.write("system", "change:environment/"+o.ID+"@1", "lay", resource)
	resource.Phase, resource.Status = "applying", json.RawMessage(`{"message":"it is being written"}`)
	resource = f.write("system", "change:resource/x@1", "applying", resource)
	last := o
	switch o.Name {
	case "sick":
		resource.Phase, resource.Status = "failed", json.RawMessage(`{"message":"no room"}`)
		last.Phase, last.Status = "Deployed-Fail", json.RawMessage(`{"message":"db has failed: no room","counts":{"total":2,"failed":1,"blocked":1}}`)
	case "moved":
		op.Phase, op.Status = "failed", json.RawMessage(`{"reason":"db has moved since the plan was made: plan again"}`)
		last.Status = json.RawMessage(`{}`)
	default:
		resource.Phase, resource.Status = "ready", json.RawMessage(`{}`)
		last.Phase, last.Status = "Deployed-OK", json.RawMessage(`{"counts":{"total":2,"ready":2,"drifted":1},"entries":[{"name":"url","url":"http://demo","ok":true}],"groups":[{"address":"front","status":"Deployed-OK","template":"shop@1.0.0"}],"checks":[{"name":"alive","of":"db","url":"http://db","ok":false,"message":"refused"}]}`)
	}
	f.write("system", "change:resource/x@2", resource.Phase, resource)
	f.write("system", "change:environment/x@2", op.Phase, op)
	f.plan[o.ID] = []v1.Object{last}
	return o, nil
}

func (f *fake) destroyEnvironment(_ *http.Request, o v1.Object) (any, error) {
	if o.Name == "sick" {
		return nil, fault(409, "DROVER-6", "environment sick is protected: take that back first (drover env protect sick --off)")
	}
	o.Phase, o.Status = "Destroying", json.RawMessage(`{"operation":"op-`+o.Name+`","counts":{"total":2,"leaving":1}}`)
	o = f.write("alice", "request:e2", "destroy", o)
	gone, at := o, born.Add(time.Hour)
	gone.Phase, gone.Deleted = "Destroyed", &at
	f.plan[o.ID] = []v1.Object{gone}
	return o, nil
}

func (f *fake) editEnvironment(r *http.Request, o v1.Object) (any, error) {
	var q v1.UpdateEnvironment
	var spec map[string]any
	if json.NewDecoder(r.Body).Decode(&q) != nil || json.Unmarshal(o.Spec, &spec) != nil {
		return nil, fault(400, "DROVER-17", "what is this")
	}
	switch {
	case q.Ends != nil && *q.Ends == "soon":
		return nil, fault(400, "DROVER-8", "ends is a time")
	case q.Ends != nil && *q.Ends == "never":
		delete(spec, "ends")
	case q.Ends != nil:
		spec["ends"] = "2100-01-01T12:00:00Z"
	}
	if q.Tags != nil {
		spec["tags"], o.Fields = *q.Tags, map[string]any{"tags": "," + strings.Join(*q.Tags, ",") + ","}
	}
	if q.Protected != nil {
		spec["protected"] = *q.Protected
	}
	o.Spec, _ = json.Marshal(spec)
	return f.write("alice", "request:e3", "update", o), nil
}

func (f *fake) runAction(r *http.Request, _ v1.Object) (any, error) {
	op := v1.Object{Kind: "operation", ID: "op-" + r.PathValue("action"), Resource: "operations", Phase: "succeeded", Status: json.RawMessage(`{}`)}
	switch r.PathValue("action") {
	case "wipe":
		op.Phase, op.Status = "failed", json.RawMessage(`{"reason":"it ended with code 1"}`)
	case "nothing":
		return nil, fault(404, "DROVER-7", `there is no action "nothing"`)
	}
	return f.write("alice", "request:a1", "run", op), nil
}

func (f *fake) search(r *http.Request) (any, error) {
	q := r.URL.Query().Get("q")
	if strings.HasSuffix(q, ":") {
		return nil, fault(400, "DROVER-23", "dependsOn: wants a name")
	}
	out := v1.SearchResults{Items: []v1.SearchResult{}}
	if strings.Contains(q, "payments") {
		out.Items = append(out.Items, v1.SearchResult{Rank: 1, Object: v1.Object{Kind: "resource", ID: "r1", Name: "db", Phase: "ready", Fields: map[string]any{"environment": "demo"}}})
	}
	return out, nil
}
