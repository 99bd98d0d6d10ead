package httpapi_test

import (
	"strings"
	"testing"

	v1 "github.com/droverhq/drover/api/v1"
)

// An agent that is to be beside that of another cluster is put into a namespace of its
// own, by either line.
func TestJoinIntoANamespace(t *testing.T) {
	r, root := joinable(t)
	var join v1.Join
	r.do(t, root, "POST", "/api/v1/clusters/edge/join?namespace=drover-edge", "").ok(201).into(&join)
	text := r.do(t, "", "GET", pathOf(t, join.Command), "").ok(200).Body.String()
	if strings.Contains(text, "drover-system") || !strings.Contains(text, "name: drover-agent-drover-edge") {
		t.Errorf("%s", text)
	}
	if !strings.Contains(join.Helm, "--namespace drover-edge ") {
		t.Errorf("%s", join.Helm)
	}
	r.do(t, root, "POST", "/api/v1/clusters/edge/join?namespace=Not+One", "").refused("no name of a namespace", 400, "8")
	r.do(t, root, "GET", "/api/v1/clusters/edge/install?namespace=a%0Ab", "").refused("no name of a namespace", 400, "8")
}
