package httpapi_test

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"strings"
	"testing"

	v1 "github.com/droverhq/drover/api/v1"
	"github.com/droverhq/drover/internal/access"
	"github.com/droverhq/drover/internal/cluster"
	"github.com/droverhq/drover/internal/ledger"
	"github.com/droverhq/drover/internal/provider"
)

// maker makes clusters of nothing.
type maker struct{}

func (maker) Ensure(context.Context, provider.Cluster) (provider.Progress, error) {
	return provider.Progress{Done: true}, nil
}

func (maker) Remove(context.Context, provider.Cluster) (provider.Progress, error) {
	return provider.Progress{Done: true}, nil
}

// bureau is a rig that can make clusters, with the tokens of an operator, a
// tenant and an agent.
type bureau struct {
	*rig
	root, alice, agent string
}

func newBureau(t *testing.T) bureau {
	t.Helper()
	r := newRig(t)
	r.clusters.Keeper = r.ledger
	r.clusters.Makers = map[string]provider.Provider{"standalone": maker{}, "template": maker{}}
	return bureau{r, r.token(t, access.Claims{User: "root", Admin: true}), r.user(t, "alice", "acme"), r.token(t, access.Claims{Cluster: "edge"})}
}

const smallProfile = `
apiVersion: drover.dev/v1
kind: ClusterProfile
metadata: {name: small, labels: {team: fleet}}
spec:
  maker: template
  serves: [{provider: aws, regions: [us-east-1, eu-west-1]}]
  labels: {disk: ssd}
  taints: [gpu]
`

func (o bureau) object(t *testing.T, status int, method, path, body string) (v1.Object, reply) {
	t.Helper()
	var out v1.Object
	r := o.do(t, o.root, method, path, body).ok(status)
	r.into(&out)
	return out, r
}

// spec of a cluster as the API shows it.
func specOf(t *testing.T, o v1.Object) cluster.Spec {
	t.Helper()
	var spec cluster.Spec
	if err := json.Unmarshal(o.Spec, &spec); err != nil {
		t.Fatal(err)
	}
	return spec
}

func TestProfileRoutes(t *testing.T) {
	o := newBureau(t)
	made, _ := o.object(t, 200, "PUT", "/api/v1/profiles", smallProfile)
	if made.ID != "small" || made.Kind != "clusterprofile" || made.Resource != "profiles" || made.Labels["team"] != "fleet" {
		t.Errorf("%+v", made)
	}
	before := o.seq(t)
	if again, _ := o.object(t, 200, "PUT", "/api/v1/profiles", smallProfile); again.Version != made.Version {
		t.Errorf("the same again is version %d after %d", again.Version, made.Version)
	}
	if got, _ := o.object(t, 200, "GET", "/api/v1/profiles/small", ""); got.Version != made.Version || !strings.Contains(string(got.Spec), `"maker":"template"`) {
		t.Errorf("%+v", got)
	}
	var list v1.List
	o.do(t, o.root, "GET", "/api/v1/profiles", "").ok(200).into(&list)
	if len(list.Items) != 1 || list.Items[0].ID != "small" {
		t.Errorf("listed are %+v", list.Items)
	}
	e := o.do(t, o.root, "PUT", "/api/v1/profiles", strings.Replace(smallProfile, "template", "magic", 1)).refused("a maker that is not there", 400, "8")
	if !strings.Contains(e.Reason, "spec.maker: must be one of standalone, template") || !strings.Contains(e.Reason, "6:10") {
		t.Errorf("the mistake is told as %s", e.Reason)
	}
	o.do(t, o.root, "PUT", "/api/v1/profiles", "").refused("nothing is no profile", 400, "8")
	for who, token := range map[string]string{"a tenant": o.alice, "an agent": o.agent} {
		o.do(t, token, "PUT", "/api/v1/profiles", smallProfile).refused(who+" applies", 403, "11")
		o.do(t, token, "DELETE", "/api/v1/profiles/small", "").refused(who+" deletes", 403, "11")
		if got := o.do(t, token, "GET", "/api/v1/profiles", ""); got.Code != http.StatusForbidden {
			t.Errorf("%s lists with %d", who, got.Code)
		}
	}
	if o.do(t, "", "PUT", "/api/v1/profiles", smallProfile).Code != http.StatusUnauthorized {
		t.Error("anybody may apply profiles")
	}
	if o.written(t, before) {
		t.Error("something of that was written")
	}
	if gone, _ := o.object(t, 200, "DELETE", "/api/v1/profiles/small", ""); gone.Deleted == nil {
		t.Errorf("%+v", gone)
	}
	for _, path := range []string{"/api/v1/profiles/small", "/api/v1/profiles/Not%20a%20name"} {
		o.do(t, o.root, "DELETE", path, "").refused("what is gone cannot go", 404, "7")
	}
}

// written reports whether more than the record of who asked was.
func (o bureau) written(t *testing.T, after int64) bool {
	t.Helper()
	changes, err := o.ledger.Changes(t.Context(), ledger.ChangeQuery{After: after, Limit: 100})
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range changes {
		if k := c.Object.Kind; k == cluster.Kind.Name || k == cluster.KindProfile.Name || k == "operation" {
			return true
		}
	}
	return false
}

func TestMakingAClusterFromAProfile(t *testing.T) {
	o := newBureau(t)
	o.object(t, 200, "PUT", "/api/v1/profiles", smallProfile)
	c, r := o.object(t, 202, "POST", "/api/v1/clusters", `{"name":"made","profile":"small","region":"eu-west-1","labels":{"disk":"hdd","zone":"a"},"taints":["slow"],"limit":7}`)
	spec := specOf(t, c)
	if c.Phase != cluster.Accepted || spec.Provider != "aws" || spec.Region != "eu-west-1" || spec.Labels["disk"] != "hdd" || spec.Zone() != "a" || *spec.Limit != 7 ||
		strings.Join(spec.Taints, " ") != "gpu slow" {
		t.Errorf("%s %+v", c.Phase, spec)
	}
	op, _ := o.object(t, 200, "GET", "/api/v1/operations/"+r.Header().Get("Drover-Operation"), "")
	if op.Parent != "made" || op.Fields["verb"] != "create" {
		t.Errorf("its operation is %+v", op)
	}
	before := o.seq(t)
	o.do(t, o.root, "POST", "/api/v1/clusters", `{"name":"made","profile":"small"}`).refused("the name is taken", 409, "44")
	for reason, c := range map[string]struct{ body, code string }{
		"a profile that is not there":     {`{"name":"c","profile":"large"}`, "8"},
		"a region that it does not serve": {`{"name":"c","profile":"small","region":"mars"}`, "37"},
		"a domain that is none":           {`{"name":"c","profile":"small","domain":"No Name"}`, "47"},
		"a label that is none":            {`{"name":"c","profile":"small","labels":{"a b":"c"}}`, "37"},
		"a name that is none":             {`{"name":"C!","profile":"small"}`, "32"},
		"no place":                        {`{"name":"c"}`, "37"},
		"too long a kubeconfig":           {`{"name":"c","profile":"small","kubeconfig":"` + strings.Repeat("x", 65<<10) + `"}`, "37"},
	} {
		o.do(t, o.root, "POST", "/api/v1/clusters", c.body).refused(reason, 400, c.code)
	}
	for who, token := range map[string]string{"a tenant": o.alice, "an agent": o.agent} {
		o.do(t, token, "POST", "/api/v1/clusters", `{"name":"c","profile":"small"}`).refused(who, 403, "11")
	}
	if o.written(t, before) {
		t.Error("something of that was written")
	}
}

func TestAKubeconfigIsSealed(t *testing.T) {
	o := newBureau(t)
	const secret = "apiVersion: v1 # s3cr3t"
	body := fmt.Sprintf(`{"name":"near","cloud_provider":"aws","region":"us-east-1","kubeconfig":%q}`, secret)
	c, r := o.object(t, 202, "POST", "/api/v1/clusters", body)
	if c.Phase != cluster.Accepted || r.Header().Get("Drover-Operation") == "" {
		t.Errorf("it is %s", c.Phase)
	}
	stored, err := o.clusters.Get(t.Context(), "near")
	if err != nil {
		t.Fatal(err)
	}
	spec, _, err := cluster.Decode(stored)
	if err != nil || spec.Kubeconfig == "" {
		t.Fatalf("%+v, %v", spec, err)
	}
	if plain, err := o.ledger.Unseal(t.Context(), spec.Kubeconfig); err != nil || string(plain) != secret {
		t.Errorf("kept is %q, %v", plain, err)
	}
	for _, path := range []string{"/api/v1/clusters/near", "/api/v1/clusters", "/api/v1/clusters/near/history"} {
		text := o.do(t, o.root, "GET", path, "").ok(200).Body.String()
		if strings.Contains(text, "s3cr3t") || strings.Contains(text, spec.Kubeconfig) {
			t.Errorf("%s shows it: %s", path, text)
		}
	}
	if strings.Contains(o.logs.String(), "s3cr3t") {
		t.Error("it is in the log")
	}
	o.do(t, o.root, "POST", "/api/v1/clusters", body).refused("the name is taken", 409, "44")
}

func TestAClusterIsChanged(t *testing.T) {
	o := newBureau(t)
	const edge = `{"name":"edge","cloud_provider":"aws","region":"us-east-1"}`
	first, _ := o.object(t, 201, "POST", "/api/v1/clusters", edge)
	if again, _ := o.object(t, 201, "POST", "/api/v1/clusters", edge); again.Version != first.Version {
		t.Error("registered again, it is another")
	}
	change := func(body string) cluster.Spec {
		t.Helper()
		c, _ := o.object(t, 200, "PATCH", "/api/v1/clusters/edge", body)
		return specOf(t, c)
	}
	if s := change(`{"labels":{"zone":"a","disk":"ssd"},"taints":["gpu"],"limit":5,"schedulable":false}`); s.Zone() != "a" || s.Taints[0] != "gpu" || *s.Limit != 5 || !s.Unschedulable {
		t.Errorf("%+v", s)
	}
	if s := change(`{"labels":{"zone":""}}`); s.Zone() != "" || s.Labels["disk"] != "ssd" || len(s.Taints) != 1 || *s.Limit != 5 || !s.Unschedulable {
		t.Errorf("what was not named has changed: %+v", s)
	}
	if s := change(`{"taints":[],"limit":-1,"schedulable":true}`); len(s.Taints) != 0 || s.Limit != nil || s.Unschedulable {
		t.Errorf("%+v", s)
	}
	if s := change(`{"limit":0}`); s.Limit == nil || *s.Limit != 0 {
		t.Errorf("none is a limit too: %+v", s)
	}
	before := o.seq(t)
	for reason, body := range map[string]string{
		"nothing to change":       `{}`,
		"a taint twice":           `{"taints":["a","a"]}`,
		"a label that is none":    `{"labels":{"a b":"c"}}`,
		"no installation is this": `{"installation":"a\nb"}`,
	} {
		o.do(t, o.root, "PATCH", "/api/v1/clusters/edge", body).refused(reason, 400, "37")
	}
	for _, body := range []string{`{"limit":-2}`, `{"limit":"many"}`, `{"noodles":1}`, `[`} {
		if got := o.do(t, o.root, "PATCH", "/api/v1/clusters/edge", body); got.Code < 400 || got.Code >= 500 {
			t.Errorf("%s: %d", body, got.Code)
		}
	}
	o.do(t, o.root, "PATCH", "/api/v1/clusters/nowhere", `{"limit":1}`).refused("no such cluster", 404, "7")
	o.do(t, o.alice, "PATCH", "/api/v1/clusters/edge", `{"limit":1}`).refused("a tenant", 403, "11")
	o.do(t, o.agent, "PATCH", "/api/v1/clusters/edge", `{"limit":1}`).refused("its own agent", 403, "11")
	if o.written(t, before) {
		t.Error("something of that was written")
	}
}

func TestAClusterIsDrainedAndDeleted(t *testing.T) {
	o := newBureau(t)
	o.object(t, 201, "POST", "/api/v1/clusters", `{"name":"edge","cloud_provider":"aws","region":"us-east-1"}`)
	use := func(units int64) {
		t.Helper()
		if _, err := o.ledger.Commit(t.Context(), ledger.Set{Actor: "test", Cause: ledger.BySchedule("test"),
			Counts: []ledger.Count{{Name: cluster.CapacityCounter("edge"), Delta: units, Max: 10}}}); err != nil {
			t.Fatal(err)
		}
	}
	use(3)
	before := o.seq(t)
	e := o.do(t, o.root, "POST", "/api/v1/clusters/edge/drain", "").refused("something runs there", 409, "6")
	if !strings.Contains(e.Reason, "3 units") || !strings.Contains(e.Reason, "force") {
		t.Errorf("it is told: %s", e.Reason)
	}
	o.do(t, o.root, "POST", "/api/v1/clusters/edge/drain", `{"force":false}`).refused("the same", 409, "6")
	o.do(t, o.root, "DELETE", "/api/v1/clusters/edge", "").refused("something runs there", 409, "6")
	for _, verb := range []string{"POST /drain", "POST /undrain", "DELETE "} {
		method, path, _ := strings.Cut(verb, " ")
		for who, token := range map[string]string{"a tenant": o.alice, "its own agent": o.agent} {
			o.do(t, token, method, "/api/v1/clusters/edge"+path, "").refused(who+": "+verb, 403, "11")
		}
		o.do(t, o.root, method, "/api/v1/clusters/nowhere"+path, "").refused(verb, 404, "7")
		o.do(t, o.root, method, "/api/v1/clusters/No%20Name"+path, "").refused(verb, 404, "7")
	}
	if o.written(t, before) {
		t.Error("something of that was written")
	}
	c, first := o.object(t, 202, "POST", "/api/v1/clusters/edge/drain", `{"force":true}`)
	if s := specOf(t, c); !s.Draining || !s.Unschedulable {
		t.Errorf("%+v", s)
	}
	before = o.seq(t)
	if _, again := o.object(t, 202, "POST", "/api/v1/clusters/edge/drain", `{"force":true}`); again.Header().Get("Drover-Operation") != first.Header().Get("Drover-Operation") || o.written(t, before) {
		t.Error("drained again, it is another operation")
	}
	o.do(t, o.root, "PATCH", "/api/v1/clusters/edge", `{"schedulable":true}`).refused("it is being drained", 409, "6")
	if c, _ = o.object(t, 200, "POST", "/api/v1/clusters/edge/undrain", ""); specOf(t, c).Draining || specOf(t, c).Unschedulable {
		t.Errorf("%+v", specOf(t, c))
	}
	before = o.seq(t)
	if o.object(t, 200, "POST", "/api/v1/clusters/edge/undrain", ""); o.written(t, before) {
		t.Error("undrained again, something was written")
	}
	use(-3)
	c, first = o.object(t, 202, "DELETE", "/api/v1/clusters/edge", "")
	if c.Phase != cluster.Deprovisioning || first.Header().Get("Drover-Operation") == "" {
		t.Errorf("it is %s", c.Phase)
	}
	before = o.seq(t)
	if _, again := o.object(t, 202, "DELETE", "/api/v1/clusters/edge", ""); again.Header().Get("Drover-Operation") != first.Header().Get("Drover-Operation") || o.written(t, before) {
		t.Error("deleted again, it is another operation")
	}
	o.do(t, o.root, "PATCH", "/api/v1/clusters/edge", `{"limit":1}`).refused("it is going", 409, "6")
	o.do(t, o.root, "POST", "/api/v1/clusters/edge/drain", "").refused("it is going", 409, "6")
}
