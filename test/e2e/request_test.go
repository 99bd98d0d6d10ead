package e2e

import (
	"net/http"
	"regexp"
	"strings"
	"testing"

	"github.com/droverhq/drover/test/drover"
)

// lab has an instance, and then a network that cannot be made.
const lab = `
apiVersion: drover.dev/v1
kind: Template
metadata: {name: lab}
spec:
  version: "1"
  resources:
    - {name: pet, executor: instance, with: {offering: dinosaur}}
    - name: network
      executor: action
      needs: [pet]
      retries: 0
      with: {app: {name: net, url: "file:./net.sh"}, command: [net]}
`

const netProgram = `#!/bin/sh
echo "no route to 10.0.0.1"
exit 3
`

// Somebody says: "my order night-shift-4711 failed". The log leads from that to what the
// executor printed, and what it printed back to the request; what happened in the data
// plane because of it is told with it too.
func TestFromARequestToTheOutputAndBack(t *testing.T) {
	const id = "night-shift-4711"
	s, agent := edge(t)
	goes(t, s, "template", "add", put(t, t.TempDir(), map[string]string{"template.yaml": lab, "net.sh": netProgram}))
	token, err := s.AdminToken()
	if err != nil {
		t.Fatal(err)
	}
	a, err := drover.Ask(drover.Request{Method: http.MethodPost, URL: s.URL() + "/api/v1/environments", Token: token,
		Header: http.Header{"X-Request-Id": {id}, "Content-Type": {"application/json"}}, Body: []byte(`{"name":"lab","template":"lab"}`)})
	if err != nil || a.Status != http.StatusAccepted || a.Header.Get("X-Request-ID") != id {
		t.Fatalf("%d %s %v", a.Status, a.Body, err)
	}
	in := func(log func() string, pattern string) (match []string) {
		t.Helper()
		drover.Until(t, "a line like "+pattern, func() bool {
			match = regexp.MustCompile(`(?m)^time=.*` + pattern).FindStringSubmatch(log())
			return match != nil
		})
		return match
	}
	found := func(pattern string) []string { t.Helper(); return in(s.Log, pattern) }
	asked := found(`msg=request request=` + id + ` method=POST path=/api/v1/environments status=202 .*user=admin org=local`)
	failed := found(`msg="operation failed" operation=(\S+) verb=create kind=environment id=\S+ name=lab request=` + id + ` reason="(.*)" cause=\S+ org=local`)
	in(agent.Log, `msg="an instance was started" instance=\S+ .*request=`+id+` org=local`)

	// On: the reason says which verb shows the output.
	verb := regexp.MustCompile(`drover (env logs \S+?)[) ]`).FindStringSubmatch(failed[2])
	if verb == nil {
		t.Fatalf("the reason does not say where the output is: %s", failed[2])
	}
	out := goes(t, s, strings.Fields(verb[1])...)
	first, rest, _ := strings.Cut(out, "\n")
	if !strings.Contains(rest, "no route to 10.0.0.1") {
		t.Errorf("drover %s: %s", verb[1], out)
	}

	// And back: the output names the operation and the request, and both lead to who asked.
	from := regexp.MustCompile(`^-- of environment lab, operation (\S+), request:(\S+)$`).FindStringSubmatch(first)
	if from == nil || from[1] != failed[1] {
		t.Fatalf("the output begins with %q, not with operation %s", first, failed[1])
	}
	if line := found(`msg=request request=` + from[2] + ` method=POST .*`)[0]; !strings.HasPrefix(line, asked[0]) {
		t.Errorf("it leads back to %s", line)
	}
	if out := goes(t, s, "get", "operation", from[1], "-o", "json"); !strings.Contains(out, `"cause": "request:`+id+`"`) {
		t.Errorf("the operation: %s", out)
	}
	if out := goes(t, s, "env", "history", "lab"); !strings.Contains(out, "admin asked for it (request "+id+")") {
		t.Errorf("the history: %s", out)
	}
	if out := goes(t, s, "audit", "--since", "1h"); !strings.Contains(out, id) {
		t.Errorf("the audit: %s", out)
	}
}
