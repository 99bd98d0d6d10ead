package httpapi_test

import (
	"encoding/json"
	"io"
	"strings"
	"testing"

	v1 "github.com/droverhq/drover/api/v1"
)

const speaking = `  permissions: {actions: {wipe: {users: [arthur]}}}
  actions:
    - name: speak
      description: say a word
      parameters: {properties: {word: {type: string, maxLength: 32, default: hello}}}
      app: {name: parrot}
      command: [parrot, --of, "${env.name}"]
      env: {WORD: "${args.word}", KEY: "${db.outputs.token}"}
    - {name: wipe, app: {name: parrot}, command: [parrot, wipe]}
`

// Actions are listed with who may, each run is an operation with its output, and no
// secret is in that.
func TestEnvironmentActions(t *testing.T) {
	s := newSite(t)
	s.bring("shop", "1", speaking)
	s.deploy("alice", "demo", "shop")
	var list v1.EnvironmentActions
	s.want(200, "alice", "GET", envs+"/demo/actions", "", &list)
	if len(list.Items) != 2 || list.Items[0].Name != "speak" || !list.Items[0].Allowed || list.Items[1].Allowed {
		t.Errorf("alice finds %+v", list)
	}
	run := func(word string) (op, text string) {
		t.Helper()
		resp := s.want(202, "alice", "POST", envs+"/demo/actions/speak", `{"arguments": {"word": "`+word+`"}}`, nil)
		op = resp.Header.Get("Drover-Operation")
		var log v1.Log
		s.until("alice", "/api/v1/operations/"+op+"/log", func(data []byte) bool { return json.Unmarshal(data, &log) == nil && log.Done })
		return op, log.Text
	}
	op, text := run("$(reboot); 'x'")
	if !strings.Contains(text, `["parrot" "--of" "demo"]`) || !strings.Contains(text, "WORD:$(reboot); 'x'") || strings.Contains(text, boxSecret) {
		t.Errorf("it says %s", text)
	}
	s.phase("alice", "/api/v1/operations/"+op, "succeeded")
	var rest v1.Log
	s.want(200, "alice", "GET", "/api/v1/operations/"+op+"/log?after=5", "", &rest)
	if rest.Text != text[5:] {
		t.Errorf("the rest is %q", rest.Text)
	}
	failed, _ := run("fall")
	if o := s.phase("alice", "/api/v1/operations/"+failed, "failed"); !strings.Contains(string(o.Status), "perch") {
		t.Errorf("it says %s", o.Status)
	}
	for _, tc := range []struct {
		reason            string
		status            int
		who, method, path string
		body, says        string
	}{
		{"the template names somebody else", 403, "alice", "POST", envs + "/demo/actions/wipe", "", "may not"},
		{"there is no such action", 404, "alice", "POST", envs + "/demo/actions/nothing", "", "nothing"},
		{"an argument of another type", 400, "alice", "POST", envs + "/demo/actions/speak", `{"arguments": {"word": 7}}`, "word"},
		{"one that is too long", 400, "alice", "POST", envs + "/demo/actions/speak", `{"arguments": {"word": "` + strings.Repeat("x", 33) + `"}}`, "word"},
		{"one that is not there", 400, "alice", "POST", envs + "/demo/actions/speak", `{"arguments": {"volume": 7}}`, "volume"},
		{"others find nothing to run", 404, "bob", "POST", envs + "/demo/actions/speak", "", "no environment"},
		{"nor a list", 404, "bob", "GET", envs + "/demo/actions", "", "no environment"},
		{"nor what was said", 404, "bob", "GET", "/api/v1/operations/" + op + "/log", "", ""},
		{"nobody", 401, "", "GET", "/api/v1/operations/" + op + "/log", "", ""},
		{"nobody runs", 401, "", "POST", envs + "/demo/actions/speak", "", ""},
		{"the log of what is no run", 404, "alice", "GET", "/api/v1/operations/nothing/log", "", ""},
	} {
		resp := s.request(tc.who, tc.method, tc.path, tc.body, nil)
		if data, _ := io.ReadAll(resp.Body); resp.StatusCode != tc.status || !strings.Contains(string(data), tc.says) {
			t.Errorf("%s: answered %d, not %d with %q: %s", tc.reason, resp.StatusCode, tc.status, tc.says, data)
		}
	}
	s.want(202, "arthur", "POST", envs+"/demo/actions/wipe", "", nil)
}
