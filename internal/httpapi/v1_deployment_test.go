package httpapi_test

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"
	"testing"
	"time"

	v1 "github.com/droverhq/drover/api/v1"
	"github.com/droverhq/drover/internal/fault"
	"github.com/droverhq/drover/internal/gitops"
	"github.com/droverhq/drover/internal/runtime"
	"github.com/droverhq/drover/internal/source"
)

// argo is a fleet of one cluster with an Argo CD, and a Git server that opens to
// anybody but those with a bad password.
type argo struct{}

func (argo) Engine(_ context.Context, id string) (gitops.Engine, error) {
	if id != "c1" {
		return gitops.Engine{}, fault.New(fault.NotFound, "there is no cluster %q", id)
	}
	return gitops.Engine{ID: "c1", Runtime: "argocd", Ready: true, Labels: map[string]string{"region": "eu"}}, nil
}

func (a argo) Engines(ctx context.Context) ([]gitops.Engine, error) {
	one, err := a.Engine(ctx, "c1")
	return []gitops.Engine{one}, err
}

func (argo) Probe(_ context.Context, _ source.Location, with source.Credential) (string, error) {
	if with.Password == "bad" {
		return "", fault.New(fault.Denied, "the credential is not taken")
	}
	return strings.Repeat("a", 40), nil
}

// carry has the agent do what it is told of deployments: they are synced at a
// revision, and so are their runs.
func (d *dataPlane) carry(revision string) {
	d.Helper()
	d.sync()
	for id, it := range d.told {
		if it.Kind != runtime.KindDeployment {
			continue
		}
		seen := v1.ObservedItem{ID: id, Kind: it.Kind, Generation: it.Generation, State: "ready"}
		if it.Delete {
			seen.State = "deleted"
			d.seen[id] = seen
			continue
		}
		if it.Body == nil {
			continue // it changed while it was told: the body is on its way, and asked for
		}
		var want runtime.Deployment
		if err := json.Unmarshal(it.Body, &want); err != nil {
			d.Fatalf("item %s has the body %s", id, it.Body)
		}
		detail := runtime.Deployed{
			Compared: &runtime.Compared{Repository: "https://git.example.org/shop.git", Path: "k8s", Revision: "main", Namespace: "shop"},
			Sync:     runtime.SyncStatus{Status: "Synced", Revision: revision}, Health: runtime.HealthStatus{Status: "Healthy"},
			Resources: []runtime.DeployedResource{{Version: "v1", Kind: "ConfigMap", Namespace: want.Namespace, Name: "settings", Status: "Synced"}},
		}
		for i, r := range strings.Split("b"+revision+" "+revision, " ") {
			detail.History = append(detail.History, runtime.DeployedRevision{ID: int64(i + 1), Revision: r, Deployed: time.Unix(1_700_000_000+int64(i), 0).UTC()})
		}
		if want.Sync != nil {
			detail.Run = &runtime.SyncRun{ID: want.Sync.ID, Phase: "Succeeded", Revision: revision}
			if want.Sync.Terminate {
				detail.Run.Phase = "Terminated"
			}
		}
		seen.Detail = json.RawMessage(text(d, detail))
		d.seen[id] = seen
	}
	d.sync()
}

// carried has the agent at work until something is so.
func (s *site) carried(d *dataPlane, path string, good func(o v1.Object) bool) v1.Object {
	s.Helper()
	var o v1.Object
	s.until("root", path, func(data []byte) bool {
		o = v1.Object{}
		if json.Unmarshal(data, &o) == nil && good(o) {
			return true
		}
		d.carry(strings.Repeat("c", 40))
		return false
	})
	return o
}

func inPhase(phase string) func(v1.Object) bool {
	return func(o v1.Object) bool { return o.Phase == phase || o.Deleted != nil && phase == "gone" }
}

func TestALifeOfADeployment(t *testing.T) {
	s := newSite(t)
	s.register("c1")
	d := s.agent("c1")
	var made v1.Object
	s.want(202, "root", "POST", "/api/v1/deployments", `{"name": "shop", "repository": "https://git.example.org/shop.git", "path": "k8s", "cluster": "c1", "namespace": "shop"}`, &made)
	s.carried(d, "/api/v1/deployments/"+made.ID, inPhase("deployed"))
	var status v1.DeploymentStatus
	s.want(200, "root", "GET", "/api/v1/deployments/shop/status", "", &status)
	if status.Sync != "Synced" || status.Health != "Healthy" || len(status.Resources) != 1 || len(status.History) != 2 {
		t.Errorf("its status is %+v", status)
	}
	if c := status.Compared; c == nil || *c != (v1.DeploymentCompared{Repository: "https://git.example.org/shop.git", Path: "k8s", Revision: "main", Namespace: "shop"}) {
		t.Errorf("it was compared with %+v", c)
	}
	s.want(202, "root", "POST", "/api/v1/deployments/shop/refresh", "", nil)
	s.want(202, "root", "PATCH", "/api/v1/deployments/shop", `{"revision": "v2", "namespace": "shop2"}`, nil)
	s.want(400, "root", "PATCH", "/api/v1/deployments/shop", `{}`, nil)
	s.carried(d, "/api/v1/deployments/"+made.ID, func(o v1.Object) bool {
		var body runtime.Deployment
		_ = json.Unmarshal(d.told[made.ID].Body, &body)
		return o.Phase == "deployed" && body.Revision == "v2" && body.Namespace == "shop2" && body.Refresh != ""
	})
	s.want(202, "root", "POST", "/api/v1/deployments/shop/rollback", `{"id": 1}`, nil)
	s.carried(d, "/api/v1/deployments/"+made.ID, func(v1.Object) bool {
		var body runtime.Deployment
		_ = json.Unmarshal(d.told[made.ID].Body, &body)
		return body.Revision == "b"+strings.Repeat("c", 40)
	})
	s.want(202, "root", "DELETE", "/api/v1/deployments/shop", "", nil)
	s.until("root", "/api/v1/deployments", func(data []byte) bool {
		d.carry("x")
		return strings.Contains(string(data), `"total":0`)
	})
}

func TestSyncsAreAskedFor(t *testing.T) {
	s := newSite(t)
	s.register("c1")
	d := s.agent("c1")
	s.want(202, "root", "POST", "/api/v1/deployments", `{"name": "till", "repository": "https://git.example.org/till.git", "path": "k8s", "cluster": "c1", "namespace": "till", "manual": true}`, nil)
	var first, second v1.Object
	s.want(202, "root", "POST", "/api/v1/deployments/till/sync", `{"revision": "v1", "prune": true}`, &first)
	s.want(202, "root", "POST", "/api/v1/deployments/till/sync", `{}`, &second)
	s.want(202, "root", "POST", "/api/v1/syncruns/"+second.ID+"/terminate", "", nil)
	s.carried(d, "/api/v1/syncruns/"+first.ID, inPhase("succeeded"))
	s.carried(d, "/api/v1/syncruns/"+second.ID, inPhase("terminated"))
}

func TestCredentialsReachTheAgentAndNobodyElse(t *testing.T) {
	s := newSite(t)
	s.register("c1")
	d := s.agent("c1")
	s.want(200, "root", "PUT", "/api/v1/workspaces/acme", `{"org": "acme", "engine": "c1", "reach": [{"cluster": "c1", "namespaces": ["acme-*"]}]}`, nil)
	s.want(403, "alice", "PUT", "/api/v1/workspaces/acme", `{"reach": [{"cluster": "*", "namespaces": ["*"]}]}`, nil)
	s.want(200, "alice", "PUT", "/api/v1/repositories/private", `{"url": "https://git.example.org/private.git", "username": "ci", "password": "hunter2-first"}`, nil)
	var made v1.Object
	s.want(202, "alice", "POST", "/api/v1/deployments", `{"name": "mine", "repository": "https://git.example.org/private.git", "path": "k8s", "cluster": "c1", "namespace": "acme-web"}`, &made)
	for reason, body := range map[string]string{
		"another namespace": `{"name": "theirs", "repository": "https://git.example.org/private.git", "path": "k8s", "cluster": "c1", "namespace": "kube-system"}`,
		"another cluster":   `{"name": "theirs", "repository": "https://git.example.org/private.git", "path": "k8s", "cluster": "c2", "namespace": "acme-web"}`,
	} {
		if resp := s.request("alice", "POST", "/api/v1/deployments", body, nil); resp.StatusCode != 403 && resp.StatusCode != 404 {
			t.Errorf("%s: %d", reason, resp.StatusCode)
		}
	}
	with := func(password string) func(v1.Object) bool {
		return func(v1.Object) bool {
			var body runtime.Deployment
			_ = json.Unmarshal(d.told[made.ID].Body, &body)
			return body.Credential != nil && body.Credential.Password == password
		}
	}
	s.carried(d, "/api/v1/deployments/"+made.ID, with("hunter2-first"))
	s.want(200, "alice", "PUT", "/api/v1/repositories/private", `{"url": "https://git.example.org/private.git", "username": "ci", "password": "hunter2-second"}`, nil)
	s.carried(d, "/api/v1/deployments/"+made.ID, with("hunter2-second"))
	for _, path := range []string{"/api/v1/repositories", "/api/v1/repositories/private/history", "/api/v1/deployments/mine/history", "/api/v1/changes?newest=1000"} {
		if told := s.told("root", path); strings.Contains(told, "hunter2") {
			t.Errorf("%s tells a password", path)
		}
	}
	s.want(404, "bob", "GET", "/api/v1/deployments/"+made.ID, "", nil)
	s.want(404, "bob", "GET", "/api/v1/deployments/"+made.ID+"/status", "", nil)
	s.want(404, "bob", "DELETE", "/api/v1/deployments/"+made.ID, "", nil)
	s.want(404, "bob", "DELETE", "/api/v1/repositories/private", "", nil)
	s.want(200, "alice", "DELETE", "/api/v1/repositories/private", "", nil)
	kubeconfig := `{"clusters":[{"name":"a","cluster":{"server":"https://api.example.org"}}],"users":[{"name":"a","user":{"token":"hunter2"}}],"contexts":[{"name":"a","context":{"cluster":"a","user":"a"}}],"current-context":"a"}`
	s.want(200, "alice", "PUT", "/api/v1/targets/edge", fmt.Sprintf(`{"url": "https://api.example.org", "kubeconfig": %q}`, kubeconfig), nil)
	if told := s.told("root", "/api/v1/targets"); strings.Contains(told, "hunter2") || !strings.Contains(told, "api.example.org") {
		t.Errorf("targets are %s", told)
	}
	s.want(200, "alice", "DELETE", "/api/v1/targets/edge", "", nil)
}
