package httpapi_test

import (
	"context"
	"io"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	v1 "github.com/droverhq/drover/api/v1"
	"github.com/droverhq/drover/internal/connection"
	"github.com/droverhq/drover/internal/environment"
	"github.com/droverhq/drover/internal/executor"
)

// switchboard has the connections of a book, as the server's.
type switchboard struct{ *connection.Book }

func (s switchboard) Open(ctx context.Context, kind, name string, whose environment.Whose) (executor.Connection, error) {
	return s.Book.Open(ctx, kind, name, connection.Whose(whose))
}

func bookOf() switchboard {
	return switchboard{connection.New(connection.Config{Own: []connection.Connection{
		{Name: "default", Executor: "file", Options: map[string]string{"directory": "/secret/place"}, For: connection.For{Orgs: []string{"*"}}},
		{Name: "prod", Executor: "consul", Options: map[string]string{"address": "http://secret.example"}, For: connection.For{Templates: []string{"shop"}}},
	}})}
}

// Connections are told to operators, with nothing that opens them.
func TestConnections(t *testing.T) {
	s := newSite(t)
	for _, who := range []string{"alice", "arthur"} {
		s.want(403, who, "GET", "/api/v1/connections", "", nil)
	}
	var got v1.Connections
	s.want(200, "root", "GET", "/api/v1/connections", "", &got)
	want := v1.Connections{Items: []v1.Connection{
		{Name: "prod", Executor: "consul", Orgs: []string{}, Templates: []string{"shop"}},
		{Name: "default", Executor: "file", Orgs: []string{"*"}, Templates: []string{}},
	}}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
	data, _ := io.ReadAll(s.request("root", "GET", "/api/v1/connections", "", nil).Body)
	if strings.Contains(string(data), "secret") {
		t.Errorf("it tells what opens them: %s", data)
	}
}

// Everybody may have files looked at; nothing is kept, no repository is read for
// them, and parts are those that they see.
func TestTenantsCheckTemplates(t *testing.T) {
	s := newSite(t)
	s.bring("narrow", "1", "  permissions: {plan: {users: [alice]}}\n")
	body := func(text, more string) string {
		return filesBody(map[string]string{"template.yaml": strings.NewReplacer("NAME", "mine", "VERSION", "1").Replace(text)}, more)
	}
	s.want(201, "bob", "POST", "/api/v1/templates", body(shopTemplate, `, "dry_run": true`), nil)
	s.want(404, "root", "GET", "/api/v1/templates/mine", "", nil)
	s.want(403, "bob", "POST", "/api/v1/templates", body(shopTemplate, ""), nil)
	s.want(403, "bob", "POST", "/api/v1/templates", `{"repository": "https://localhost/x.git", "dry_run": true}`, nil)
	nested := "apiVersion: drover.dev/v1\nkind: Template\nmetadata: {name: mine}\nspec:\n  version: \"1\"\n  groups: [{name: inner, template: narrow@1}]\n"
	s.want(201, "alice", "POST", "/api/v1/templates", body(nested, `, "dry_run": true`), nil)
	resp := s.request("bob", "POST", "/api/v1/templates", body(nested, `, "dry_run": true`), nil)
	if data, _ := io.ReadAll(resp.Body); resp.StatusCode != 400 || !strings.Contains(string(data), "there is no template") || !strings.Contains(string(data), "template.yaml:6") {
		t.Errorf("a part that bob does not see: %d %s", resp.StatusCode, data)
	}
}

// Where a resource leads on to is told with the graph.
func TestLinksAreTold(t *testing.T) {
	s := newSite(t)
	s.bring("shop", "1", "")
	s.deploy("alice", "linked", "shop")
	var g v1.Graph
	s.want(200, "alice", "GET", "/api/v1/environments/linked/graph", "", &g)
	for _, n := range g.Nodes {
		if n.Address == "db" && cmp.Equal(n.Links, []v1.Link{{Rel: "dashboard", URL: "http://box/db"}}) {
			return
		}
	}
	t.Errorf("no link in %+v", g.Nodes)
}
