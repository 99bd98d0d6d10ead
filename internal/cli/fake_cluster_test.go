package cli_test

import (
	"encoding/json"
	"fmt"
	"maps"
	"net/http"
	"slices"
	"strings"

	v1 "github.com/droverhq/drover/api/v1"
)

const (
	smallProfile = `{"maker":"template","options":{"directory":"small"},"serves":[{"provider":"aws","regions":["us-east-1"]}],"units":40,` +
		`"steps":[{"name":"space","manifests":[{}]},{"name":"config","needs":["space"],"manifests":[{},{}]}],"scaling":{"mode":"dry-run","min":1,"max":10,"cooldown":"10m0s"}}`
	smallScaling = `{"scaling":[{"place":"aws/us-east-1","do":"up","code":"slack","reason":"1 unit is free, 5 are to be","dry_run":true,"spare":{"c9":"2026-05-01T12:00:00Z"}}]}`
)

// clusterRoutes are what the fake server has for data planes. Clusters become
// ready while somebody watches, those of a profile by way of two steps; "full"
// hosts something and is never empty, "poor" cannot be made.
func (f *fake) clusterRoutes() map[string]func(r *http.Request) (any, error) {
	return map[string]func(r *http.Request) (any, error){
		"POST /api/v1/clusters":                 f.createCluster,
		"PATCH /api/v1/clusters/{id}":           f.updateCluster,
		"POST /api/v1/clusters/{id}/join":       f.join,
		"POST /api/v1/clusters/{id}/drain":      f.drain,
		"POST /api/v1/clusters/{id}/undrain":    f.undrain,
		"POST /api/v1/clusters/{id}/abandon":    f.abandon,
		"GET /api/v1/{resource}/{id}/placement": f.placement,
		"POST /api/v1/placement/explain":        f.explain,
		"GET /api/v1/capacity":                  f.capacity,
		"GET /api/v1/clusters/{id}":             f.ofClusters(f.get),
		"GET /api/v1/clusters/{id}/history":     f.ofClusters(f.history),
		"DELETE /api/v1/clusters/{id}":          f.ofClusters(f.deleteCluster),
	}
}

func (f *fake) ofClusters(h func(*http.Request) (any, error)) func(*http.Request) (any, error) {
	return func(r *http.Request) (any, error) {
		r.SetPathValue("resource", "clusters")
		return h(r)
	}
}

func (f *fake) createCluster(r *http.Request) (any, error) {
	var q v1.CreateCluster
	d := json.NewDecoder(r.Body)
	d.DisallowUnknownFields()
	if err := d.Decode(&q); err != nil {
		return nil, fault(400, "DROVER-17", err.Error())
	}
	if i := slices.IndexFunc(f.current("clusters"), func(o v1.Object) bool { return o.ID == q.Name }); i >= 0 {
		return f.current("clusters")[i], nil
	}
	spec, _ := json.Marshal(map[string]any{"provider": q.Provider, "region": q.Region, "profile": q.Profile, "labels": q.Labels, "taints": q.Taints, "limit": q.Limit, "domain": q.Domain})
	o := v1.Object{Kind: "cluster", ID: q.Name, Name: q.Name, Resource: "clusters", Phase: "waiting_for_fleetshard_operator", Generation: 1, Spec: spec, Status: json.RawMessage(`{}`)}
	agent := `"installation":"i1","version":"0.4.0","protocol":1,"capacity":10,"platform":{"kind":"kubernetes","version":"v1.37.2","nodes":3,"routes":"ingress"}`
	next := func(phase, status string) {
		later := o
		later.Phase, later.Status = phase, json.RawMessage(status)
		f.plan[o.ID] = append(f.plan[o.ID], later)
	}
	if q.Profile == "" {
		o = f.write("alice", "request:r1", "register", o)
		next("ready", `{`+agent+`,"units":{"dinosaur/standard":{"max":8,"remaining":7}},"strays":["d-lost"]}`)
		return o, nil
	}
	if q.Name == "old" {
		o.Status = json.RawMessage(`{"message":"its agent is refused: it is too old"}`)
		return f.write("alice", "request:r1", "create", o), nil
	}
	o.Phase = "cluster_accepted"
	o = f.write("alice", "request:r1", "create", o)
	maker := `"maker":{"name":"template"},`
	next("cluster_provisioning", `{`+maker+`"message":"OpenTofu applies 3 of 7 resources"}`)
	if q.Name == "poor" {
		next("failed", `{`+maker+`"reason":"the account has no quota for machines"}`)
		return o, nil
	}
	steps := func(first, second string) string {
		return `"steps":[{"name":"profile.small/space","state":"` + first + `","objects":1},{"name":"profile.small/config","state":"` + second + `","objects":2,"needs":["profile.small/space"]}]`
	}
	next("cluster_provisioned", `{`+maker+steps("applying", "waiting")+`}`)
	next("cluster_provisioned", `{`+maker+steps("ready", "applying")+`}`)
	next("waiting_for_fleetshard_operator", `{`+maker+steps("ready", "ready")+`}`)
	next("ready", `{`+maker+steps("ready", "ready")+`,`+agent+`}`)
	return o, nil
}

func (f *fake) cluster(r *http.Request) (v1.Object, map[string]any, error) {
	r.SetPathValue("resource", "clusters")
	o, err := f.find(r)
	var spec map[string]any
	if err == nil {
		err = json.Unmarshal(o.Spec, &spec)
	}
	return o, spec, err
}

func (f *fake) writeCluster(o v1.Object, spec map[string]any, op string) (any, error) {
	o.Generation++
	o.Spec, _ = json.Marshal(spec)
	return f.write("alice", "request:r2", op, o), nil
}

func (f *fake) updateCluster(r *http.Request) (any, error) {
	o, spec, err := f.cluster(r)
	if err != nil {
		return nil, err
	}
	var q v1.UpdateCluster
	if err := json.NewDecoder(r.Body).Decode(&q); err != nil {
		return nil, fault(400, "DROVER-17", err.Error())
	}
	before := fmt.Sprint(spec)
	if q.Schedulable != nil {
		spec["unschedulable"] = !*q.Schedulable
	}
	if q.Limit != nil {
		if spec["limit"] = *q.Limit; *q.Limit < 0 {
			delete(spec, "limit")
		}
	}
	if q.Taints != nil {
		spec["taints"] = *q.Taints
	}
	labels, _ := spec["labels"].(map[string]any)
	labels = maps.Clone(labels)
	for key, value := range q.Labels {
		if labels == nil {
			labels = map[string]any{}
		}
		if labels[key] = value; value == "" {
			delete(labels, key)
		}
	}
	if spec["labels"] = labels; fmt.Sprint(spec) == before {
		return o, nil
	}
	return f.writeCluster(o, spec, "update")
}

func (f *fake) join(r *http.Request) (any, error) {
	o, _, err := f.cluster(r)
	if err != nil {
		return nil, err
	}
	at := "https://drover.example.org/api/v1/clusters/" + o.ID + "/install?"
	for _, name := range []string{"namespace", "runtime"} {
		if value := r.URL.Query().Get(name); value != "" {
			at += name + "=" + value + "&"
		}
	}
	return v1.Join{Command: `kubectl apply --server-side -f "` + at + `join=t0ken"`, Helm: `helm upgrade --install drover-agent deploy/helm/drover-agent --values "` + at + `format=values&join=t0ken"`, Expires: born}, nil
}

func (f *fake) drain(r *http.Request) (any, error) {
	o, spec, err := f.cluster(r)
	if err != nil {
		return nil, err
	}
	var q v1.DrainCluster
	if err := json.NewDecoder(r.Body).Decode(&q); err != nil {
		return nil, fault(400, "DROVER-17", err.Error())
	}
	if o.ID == "full" && !q.Force {
		return nil, fault(409, "DROVER-6", "cluster full hosts 1 instance (dinosaur rex)")
	}
	if spec["draining"] == true {
		return o, nil
	}
	spec["draining"], spec["unschedulable"] = true, true
	empty := o
	empty.Spec, _ = json.Marshal(spec)
	empty.Generation++
	o.Status = json.RawMessage(`{"operation":"op1"}`)
	if f.plan[o.ID] = []v1.Object{empty}; o.ID == "full" {
		delete(f.plan, o.ID)
	}
	return f.writeCluster(o, spec, "drain")
}

func (f *fake) abandon(r *http.Request) (any, error) {
	o, spec, err := f.cluster(r)
	if err != nil {
		return nil, err
	}
	var q v1.AbandonCluster
	if err := json.NewDecoder(r.Body).Decode(&q); err != nil {
		return nil, fault(400, "DROVER-17", err.Error())
	}
	if o.Phase == "ready" {
		return nil, fault(409, "DROVER-6", "the agent of cluster "+o.ID+" is connected: it is not lost")
	}
	if spec["abandoned"] != nil {
		return o, nil
	}
	spec["abandoned"], spec["destroy"], o.Phase = q.Reason, q.Destroy, "abandoned"
	return f.writeCluster(o, spec, "abandon")
}

func (f *fake) deleteCluster(r *http.Request) (any, error) {
	if r.PathValue("id") == "full" {
		return nil, fault(409, "DROVER-6", "cluster full hosts 1 instance (dinosaur rex)")
	}
	return f.delete(r)
}

func (f *fake) undrain(r *http.Request) (any, error) {
	o, spec, err := f.cluster(r)
	if err != nil || spec["draining"] != true {
		return o, err
	}
	delete(spec, "draining")
	delete(spec, "unschedulable")
	return f.writeCluster(o, spec, "undrain")
}

func (f *fake) placement(r *http.Request) (any, error) {
	if _, err := f.find(r); err != nil {
		return nil, err
	}
	return v1.Placement{Cluster: "c1", Placed: "it was the oldest", Explanation: v1.Explanation{
		Provider: "aws", Region: "us-east-1", Plan: "standard.x1", Units: 2, Limit: &v1.RegionLimit{Units: 50, Taken: 7},
		Orders: []v1.Verdict{{Fits: true, Cluster: "c2", Reason: "it is the fullest", Others: []v1.WhyNot{
			{Cluster: "c1", Code: "draining", Reason: "it is being drained"}, {Cluster: "c3", Code: "room", Reason: "1 unit is free"},
			{Cluster: "c4", Code: "room", Reason: "1 unit is free"}, {Cluster: "c5", Code: "room", Reason: "1 unit is free"},
			{Cluster: "c6", Code: "room", Reason: "1 unit is free"}, {Cluster: "far", Code: "place", Reason: "it stands elsewhere"},
		}}},
	}}, nil
}

// explain says which orders fit: two on c1, the rest on what is thought to be there.
func (f *fake) explain(r *http.Request) (any, error) {
	var q v1.AskPlacement
	if err := json.NewDecoder(r.Body).Decode(&q); err != nil {
		return nil, fault(400, "DROVER-17", err.Error())
	}
	if q.Org == "acme" { // as a tenant reads it
		return v1.Explanation{Plan: "standard.x1", Units: 1, Orders: []v1.Verdict{{Fits: true, Reason: "it is the oldest", Others: []v1.WhyNot{{Code: "draining", Reason: "it is being emptied"}}}}}, nil
	}
	out := v1.Explanation{Provider: "aws", Region: q.Region, Plan: strings.Trim(q.Type+"."+q.Size, "."), Units: 1}
	var extra int64
	for _, with := range q.With {
		extra += with.Units
	}
	for i := range max(q.Count, 1) {
		v := v1.Verdict{Fits: true, Cluster: "c1", Reason: "it is the oldest", Others: []v1.WhyNot{}}
		switch {
		case i < 2 && !slices.Contains(q.Without, "c1"):
		case int64(i) < 2+extra && extra > 0:
			v.Cluster, v.Reason = "extra-1", fmt.Sprintf("it is in zone %s", q.With[0].Labels["zone"])
		default:
			v = v1.Verdict{Reason: "no cluster of the region can take it", Others: []v1.WhyNot{{Cluster: "c1", Code: "room", Reason: "0 units are free"}}}
		}
		out.Orders = append(out.Orders, v)
	}
	return out, nil
}

func (f *fake) capacity(*http.Request) (any, error) {
	out := v1.Capacities{
		Items: []v1.Capacity{
			{Provider: "aws", Region: "us-east-1", Offering: "dinosaur", Type: "standard", Max: 10, Used: 9, Free: 1, Largest: 1, Slack: 5, Clusters: 1},
			{Provider: "gcp", Region: "us-east1", Offering: "dinosaur", Type: "standard"},
		},
		Scaling: []v1.ScaleNote{{Profile: "small", Place: "aws/us-east-1", Do: "up", Code: "slack", Reason: "1 unit is free, 5 are to be", Cluster: "f-1", DryRun: true, At: &born}},
	}
	for _, o := range f.current("clusters") {
		out.Clusters = append(out.Clusters, v1.ClusterUse{Cluster: o.ID, Used: 3, Max: 10, Types: map[string]int64{"dinosaur/standard": 3}})
	}
	return out, nil
}
