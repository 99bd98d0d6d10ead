package cli_test

import (
	"encoding/json"
	"net/http"
	"strings"

	v1 "github.com/droverhq/drover/api/v1"
)

const shopStatus = `{"engine":"edge","issued":1,"observed":{"generation":1,"detail":{"sync":{"status":"Synced"},"health":{"status":"Healthy"}}}}`

const pushOfAnn = "push:github/refs/heads/main@efefefefefefefefefefefefefefefefefefefef by ann"

// deploymentRoutes are what the fake server has for deployments. One is deployed
// as soon as it is asked for; "broken" never is.
func (f *fake) deploymentRoutes() map[string]func(r *http.Request) (any, error) {
	routes := map[string]func(r *http.Request) (any, error){
		"POST /api/v1/deployments": func(r *http.Request) (any, error) {
			var q v1.CreateDeployment
			if err := json.NewDecoder(r.Body).Decode(&q); err != nil {
				return nil, fault(400, "DROVER-17", err.Error())
			}
			for _, o := range f.current("deployments") {
				if o.Name == q.Name {
					return nil, fault(409, "DROVER-36", "there is a deployment "+q.Name+" in workspace default already")
				}
			}
			spec, _ := json.Marshal(map[string]any{"repository": q.Repository, "path": q.Path, "revision": q.Revision, "automated": !q.Manual,
				"to": map[string]any{"cluster": q.Cluster, "target": q.Target, "selector": q.Selector, "namespace": q.Namespace}})
			o := v1.Object{Kind: "deployment", ID: "d-" + q.Name, Name: q.Name, Resource: "deployments", Phase: "pending", Generation: 1, Spec: spec,
				Fields: map[string]any{"sync": "Synced", "health": "Healthy"}}
			if q.Cluster == "new" {
				o.Status = json.RawMessage(`{"error":"waiting for the agent of cluster new","patient":true}`)
			}
			made := f.write("alice", "request:d1", "create", o)
			o.Phase, o.Status = "deployed", json.RawMessage(shopStatus)
			if q.Name == "broken" {
				o.Phase, o.Status = "failed", json.RawMessage(`{"observed":{"generation":1},"conditions":[{"type":"ComparisonError","status":"True","message":"there is no path k8s"}]}`)
			}
			f.write("system", "change:d1", "deployed", o)
			return made, nil
		},
		"POST /api/v1/webhooks/git/secret": func(r *http.Request) (any, error) {
			return v1.WebhookSecret{URL: "http://drover/api/v1/webhooks/git?org=acme", Secret: "s3cr3t" + r.URL.Query().Get("rotate")}, nil
		},
		"POST /api/v1/syncruns/{id}/terminate": func(r *http.Request) (any, error) {
			r.SetPathValue("resource", "syncruns")
			o, err := f.find(r)
			o.Version++
			return o, err
		},
	}
	for path, h := range map[string]func(r *http.Request, o v1.Object) (any, error){
		"PATCH ": func(r *http.Request, o v1.Object) (any, error) {
			var q map[string]any
			if err := json.NewDecoder(r.Body).Decode(&q); err != nil {
				return nil, fault(400, "DROVER-17", err.Error())
			}
			o.Labels = map[string]string{"asked": text(q)}
			if q["revision"] != "nosuch" {
				return f.write("alice", "request:d2", "update", o), nil
			}
			o.Status = json.RawMessage(strings.Replace(shopStatus, "{", `{"operation":"op1",`, 1)) // and it is deployed still
			made := f.write("alice", "request:d2", "update", o)
			o.Phase, o.Status = "failed", json.RawMessage(`{"error":"there is no revision nosuch"}`)
			f.write("system", "change:d2", "failed", o)
			return made, nil
		},
		"POST /sync": func(r *http.Request, o v1.Object) (any, error) {
			run := v1.Object{Kind: "syncrun", ID: "r-1", Name: "shop-r1", Resource: "syncruns", Phase: "waiting", Generation: 1, Fields: map[string]any{"deployment": o.Name}}
			made := f.write("alice", "request:d3", "create", run)
			run.Phase = "succeeded"
			f.write("system", "change:d3", "succeeded", run)
			return made, nil
		},
		"POST /refresh": func(_ *http.Request, o v1.Object) (any, error) { // as a push does
			f.write("system", pushOfAnn, "push", v1.Object{Kind: "operation", ID: "op-push", Resource: "operations", Name: "push-" + o.Name, Phase: "succeeded",
				Spec: json.RawMessage(`{"verb":"push","name":"shop","type":"GitOpsDeployment","instance":"edge","cause":"` + pushOfAnn + `"}`)})
			return f.write("system", pushOfAnn, "refresh", o), nil
		},
		"POST /forget": func(_ *http.Request, o v1.Object) (any, error) {
			o.Phase = "deleting"
			return f.write("alice", "request:d4", "forget", o), nil
		},
		"POST /rollback": func(r *http.Request, o v1.Object) (any, error) { o.Version++; return o, nil },
		"GET /status": func(_ *http.Request, o v1.Object) (any, error) {
			return v1.DeploymentStatus{ID: o.ID, Name: o.Name, Phase: o.Phase, Sync: "OutOfSync", Revision: strings.Repeat("ab", 20), Health: "Degraded", Message: "a pod\n  \x1b[31mfails",
				Conditions: []v1.DeploymentCondition{{Type: "SyncError", Status: "True", Message: "not taken"}, {Type: "ComparisonError", Status: "False"}},
				Resources:  []v1.DeployedResource{{Kind: "ConfigMap", Namespace: "shop", Name: "settings", Status: "OutOfSync", Health: "Missing"}, {Kind: "Service", Namespace: "shop", Name: "web", Status: "Synced"}},
				More:       3,
				Diff:       []v1.DeployedDifference{{Kind: "Secret", Namespace: "shop", Name: "key", Change: "change", Text: "-a\n+b"}, {Kind: "Namespace", Name: "old", Change: "remove"}},
				NoDiff:     "Redis is away",
				Compared:   &v1.DeploymentCompared{Repository: "https://git.example.org/shop.git", Path: "k8s", Revision: "main", Target: "prod", Namespace: "shop"},
				Healed:     &v1.DeploymentHealed{At: born, What: "the Application was deleted"},
				History: []v1.DeployedRevision{{ID: 1, Revision: strings.Repeat("cd", 20), Path: "k8s", Author: "anna", Message: "more pages", Started: born, Deployed: born.Add(3e9)},
					{ID: 2, Revision: strings.Repeat("ef", 20), Path: "k8s", By: "automated", Cause: pushOfAnn, Started: born, Deployed: born},
					{ID: 3, Revision: strings.Repeat("ef", 20), Path: "k8s", By: "shop-r1", Deployed: born}}}, nil
		},
	} {
		verb, rest, _ := strings.Cut(path, " ")
		routes[verb+" /api/v1/deployments/{id}"+rest] = func(r *http.Request) (any, error) {
			r.SetPathValue("resource", "deployments")
			o, err := f.find(r)
			if err != nil {
				return nil, err
			}
			return h(r, o)
		}
	}
	for _, kind := range []string{"repositories", "targets", "workspaces"} {
		routes["PUT /api/v1/"+kind+"/{id}"] = func(r *http.Request) (any, error) {
			var q map[string]any
			if err := json.NewDecoder(r.Body).Decode(&q); err != nil {
				return nil, fault(400, "DROVER-17", err.Error())
			}
			delete(q, "kubeconfig")
			delete(q, "password")
			spec, _ := json.Marshal(q)
			return f.write("alice", "request:k1", "put", v1.Object{Kind: map[string]string{"repositories": "repository", "targets": "target", "workspaces": "workspace"}[kind],
				ID: "k-" + r.PathValue("id"), Name: r.PathValue("id"), Resource: kind, Generation: 1, Spec: spec, Fields: map[string]any{"url": q["url"]},
				Status: json.RawMessage(`{"conditions":[{"type":"ErrorOccurred","status":"False","reason":"RepositoryCredentialUpToDate"}]}`)}), nil
		}
	}
	return routes
}

func text(v any) string {
	data, _ := json.Marshal(v)
	return string(data)
}
