package httpapi_test

import (
	"net/url"
	"strings"
	"testing"
	"time"

	"sigs.k8s.io/yaml"

	v1 "github.com/droverhq/drover/api/v1"
	"github.com/droverhq/drover/internal/access"
	"github.com/droverhq/drover/internal/cluster"
	"github.com/droverhq/drover/internal/httpapi"
	"github.com/droverhq/drover/offerings"
)

// joinable is a rig with two clusters, and an operator's token.
func joinable(t *testing.T) (*rig, string) {
	t.Helper()
	r := newRig(t, func(c *httpapi.Config) {
		c.URL, c.Version, c.AgentTrace = "https://drover.example.org/", "1.2.3", "https://collector.example.org"
	})
	root := r.token(t, access.Claims{User: "root", Admin: true})
	for _, name := range []string{"edge", "other"} {
		r.do(t, root, "POST", "/api/v1/clusters", `{"name":"`+name+`","cloud_provider":"aws","region":"us-east-1"}`).ok(201)
	}
	return r, root
}

// pathOf is what a printed line asks this server for.
func pathOf(t *testing.T, line string) string {
	t.Helper()
	_, rest, _ := strings.Cut(line, `"https://drover.example.org`)
	path, _, ok := strings.Cut(rest, `"`)
	if !ok {
		t.Fatalf("there is no URL in %s", line)
	}
	return path
}

func TestJoin(t *testing.T) {
	r, root := joinable(t)
	var join v1.Join
	r.do(t, root, "POST", "/api/v1/clusters/edge/join", "").ok(201).into(&join)
	if left := time.Until(join.Expires); left < 59*time.Minute || left > time.Hour {
		t.Errorf("the lines work for %s", left)
	}
	if !strings.HasPrefix(join.Command, "kubectl apply ") || !strings.HasPrefix(join.Helm, "helm ") {
		t.Errorf("%+v", join)
	}
	w := r.do(t, "", "GET", pathOf(t, join.Command), "").ok(200)
	if h := w.Header(); h.Get("Content-Type") != "application/yaml" || h.Get("Cache-Control") != "no-store" {
		t.Errorf("headers: %v", h)
	}
	token := ""
	for part := range strings.SplitSeq(w.Body.String(), "\n---\n") {
		var d struct {
			Kind       string
			StringData map[string]string
		}
		if err := yaml.Unmarshal([]byte(part), &d); err != nil {
			t.Fatal(err)
		}
		if d.Kind == "Secret" {
			token = d.StringData["token"]
		}
	}
	var who v1.WhoAmI
	r.do(t, token, "GET", "/api/v1/whoami", "").ok(200).into(&who)
	if who.Cluster != "edge" || who.Admin {
		t.Errorf("the agent is %+v", who)
	}
	for _, want := range []string{"--server=https://drover.example.org", "--cluster=edge", "--trace-endpoint=https://collector.example.org", `image: "droverhq/drover:1.2.3"`} {
		if !strings.Contains(w.Body.String(), want) {
			t.Errorf("there is no %s", want)
		}
	}
	var values struct {
		Server, Cluster, Token string
		Rules                  []cluster.Rule
	}
	text := r.do(t, "", "GET", pathOf(t, join.Helm), "").ok(200).Body.Bytes()
	if err := yaml.Unmarshal(text, &values); err != nil || values.Cluster != "edge" || values.Token == "" || len(values.Rules) == 0 {
		t.Errorf("values: %v\n%s", err, text)
	}
}

func TestTheLineOfAJoinOpensNothingElse(t *testing.T) {
	r, root := joinable(t)
	var join v1.Join
	r.do(t, root, "POST", "/api/v1/clusters/edge/join", "").ok(201).into(&join)
	u, err := url.Parse(pathOf(t, join.Command))
	if err != nil {
		t.Fatal(err)
	}
	token := u.Query().Get("join")
	agent := r.token(t, access.Claims{Cluster: "edge"})
	user := r.user(t, "alice", "acme")
	for _, c := range []struct {
		reason, bearer, method, path string
		status                       int
	}{
		{"it is no bearer token", token, "GET", "/api/v1/whoami", 401},
		{"not even here", token, "GET", "/api/v1/clusters/edge/install", 401},
		{"another cluster", "", "GET", "/api/v1/clusters/other/install?join=" + token, 401},
		{"another path", "", "GET", "/api/v1/clusters/edge?join=" + token, 401},
		{"another path below", "", "GET", "/api/v1/clusters/edge/x/install?join=" + token, 401},
		{"an escaped one", "", "GET", "/api/v1/clusters/edge%2f..%2fother/install?join=" + token, 401},
		{"what agents use", "", "POST", "/api/v1/clusters/edge/sync?join=" + token, 401},
		{"another method", "", "POST", "/api/v1/clusters/edge/install?join=" + token, 401},
		{"another join", "", "POST", "/api/v1/clusters/edge/join?join=" + token, 401},
		{"an agent's token is no such", "", "GET", "/api/v1/clusters/edge/install?join=" + agent, 401},
		{"nor an operator's: it does not belong into a URL", "", "GET", "/api/v1/clusters/edge/install?join=" + root, 401},
		{"an agent with its own token", agent, "GET", "/api/v1/clusters/edge/install", 403},
		{"a user", user, "GET", "/api/v1/clusters/edge/install", 403},
		{"a user who wants to join", user, "POST", "/api/v1/clusters/edge/join", 403},
		{"an agent that wants to", agent, "POST", "/api/v1/clusters/edge/join", 403},
		{"nobody", "", "GET", "/api/v1/clusters/edge/install", 401},
		{"an operator without it", root, "GET", "/api/v1/clusters/edge/install", 200},
		{"a cluster that is not there", root, "GET", "/api/v1/clusters/none/install", 404},
		{"nor can it be joined", root, "POST", "/api/v1/clusters/none/join", 404},
		{"an odd format", root, "GET", "/api/v1/clusters/edge/install?format=x", 400},
	} {
		if w := r.do(t, c.bearer, c.method, c.path, ""); w.Code != c.status {
			t.Errorf("%s: %d, want %d: %s", c.reason, w.Code, c.status, w.Body)
		}
	}
	if strings.Contains(r.logs.String(), token[len(token)-20:]) {
		t.Error("the token is in the log")
	}
}

func TestJoinsAreOnRecord(t *testing.T) {
	r, root := joinable(t)
	var join v1.Join
	r.do(t, root, "POST", "/api/v1/clusters/edge/join", "").ok(201).into(&join)
	r.do(t, "", "GET", pathOf(t, join.Command), "").ok(200)
	var list struct {
		Items []struct {
			Spec struct{ User, Path string }
		}
	}
	w := r.do(t, root, "GET", "/api/v1/audits?order_by=created_at", "").ok(200)
	w.into(&list)
	got := ""
	for _, e := range list.Items {
		got += e.Spec.User + " " + e.Spec.Path + "\n"
	}
	if want := "root /api/v1/clusters/edge/join\nagent:edge /api/v1/clusters/edge/install\n"; got != want {
		t.Errorf("got %s", got)
	}
	u, _ := url.Parse(pathOf(t, join.Command))
	if token := u.Query().Get("join"); strings.Contains(w.Body.String(), token[len(token)-20:]) {
		t.Error("the token is on record")
	}
}

// An offering whose kinds cannot be told beforehand is named to the operator, who
// can change it, and before anybody runs a line.
func TestWhatCannotBeInstalledIsToldWhenJoining(t *testing.T) {
	r, root := joinable(t)
	data := strings.Replace(string(dinosaurFile(t)), "\n  desired:\n", "\n  desired:\n    manifests: [{apiVersion: v1, kind: \"${instance.name}\"}]\n", 1)
	r.shelf.put(t, []byte(data))
	e := r.do(t, root, "POST", "/api/v1/clusters/edge/join", "").refused("an expression for a kind", 400, "8")
	if !strings.Contains(e.Reason, "offering dinosaur, desired, manifests[0]: kind") {
		t.Errorf("it says %q", e.Reason)
	}
}

func dinosaurFile(t *testing.T) []byte {
	t.Helper()
	data, err := offerings.FS.ReadFile("dinosaur.yaml")
	if err != nil {
		t.Fatal(err)
	}
	return data
}
