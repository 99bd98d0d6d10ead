package argocd_test

import (
	"strings"
	"testing"

	"github.com/droverhq/drover/internal/runtime/argocd"
)

func TestTrouble(t *testing.T) {
	for _, c := range []struct{ reason, state, before, want string }{
		{"nothing was done yet", `{}`, "old", ""},
		{"it waits for the next time", `{"phase":"Running","retryCount":2,"message":"namespace x is not permitted. Retrying attempt #2 at 5:38PM."}`, "", "namespace x is not permitted"},
		{"another time is the same trouble", `{"phase":"Running","retryCount":3,"message":"namespace x is not permitted. Retrying attempt #3 at 5:40PM."}`, "namespace x is not permitted", "namespace x is not permitted"},
		{"it is being tried again", `{"phase":"Running","retryCount":2,"message":"Retrying operation. Attempt #2"}`, "old", "old"},
		{"the first time", `{"phase":"Running","message":"waiting for hooks"}`, "old", ""},
		{"it has succeeded", `{"phase":"Succeeded","retryCount":2,"message":"successfully synced"}`, "old", ""},
		{"one that was asked for", `{"phase":"Running","retryCount":2,"message":"no. Retrying attempt #2 at 5:38PM.","operation":{"info":[{"name":"drover-sync","value":"run-1"}]}}`, "", ""},
	} {
		app := parse(t, `{"status":{"operationState":`+c.state+`}}`)
		got, detail := argocd.Trouble(app, c.before)
		if got != c.want || strings.Contains(detail, `"SyncError"`) != (c.want != "") {
			t.Errorf("%s: %q, want %q, and the detail is %s", c.reason, got, c.want, detail)
		}
	}
	app := parse(t, `{"status":{"conditions":[{"type":"SyncError","message":"its own"}],"operationState":{"phase":"Running","retryCount":2,"message":"no. Retrying attempt #2 at 5:38PM."}}}`)
	if _, detail := argocd.Trouble(app, ""); strings.Count(detail, `"SyncError"`) != 1 {
		t.Errorf("what Argo CD tells itself is told twice: %s", detail)
	}
	app = parse(t, `{"status":{"conditions":[{"type":"InvalidSpecError","message":"Application referencing project app-project-1 which does not exist"},{"type":"InvalidSpecError","message":"no such path"}]}}`)
	if _, detail := argocd.Trouble(app, ""); strings.Contains(detail, "does not exist") || !strings.Contains(detail, "no such path") {
		t.Errorf("a project that Argo CD has not heard of yet: %s", detail)
	}
}

func TestOvertaken(t *testing.T) {
	const (
		sync  = `"sync":{"status":"OutOfSync","revision":"c2","comparedTo":{"source":{"repoURL":"r","path":"p","targetRevision":"main"}}}`
		state = `"operationState":{"phase":"Running","retryCount":2,"message":"no. Retrying attempt #2 at 5:38PM.","operation":{"initiatedBy":{"automated":true},"sync":{"revision":"c1","source":{"repoURL":"r","path":"p","targetRevision":"main"}}}}`
	)
	for _, c := range []struct {
		reason   string
		from, to string // what is replaced
		manual   bool
		want     bool
	}{
		{"Git has another commit", "", "", false, true},
		{"it has the same", `"c2"`, `"c1"`, false, false},
		{"the same, and the deployment reads another directory", `"c2","comparedTo":{"source":{"repoURL":"r","path":"p"`, `"c1","comparedTo":{"source":{"repoURL":"r","path":"q"`, false, true},
		{"the same, and it waits to be asked", `"c2"`, `"c1"`, true, true},
		{"an Argo CD that does not tell the source", `,"source":{"repoURL":"r","path":"p","targetRevision":"main"}}}}`, `}}}`, false, true},
		{"it is just being tried", `no. Retrying attempt #2 at 5:38PM.`, `Retrying operation. Attempt #2`, false, false},
		{"it has ended", `"Running"`, `"Failed"`, false, false},
		{"it is being ended", `"Running"`, `"Terminating"`, false, false},
		{"somebody asked for it", `"automated":true`, `"username":"x"`, true, false},
		{"nobody knows what Git has", `"OutOfSync"`, `"Unknown"`, false, false},
	} {
		text := `{"status":{` + sync + `,` + state + `}}`
		if c.from != "" && !strings.Contains(text, c.from) {
			t.Fatalf("%s: nothing to replace", c.reason)
		}
		if got := argocd.Overtaken(parse(t, strings.Replace(text, c.from, c.to, 1)), !c.manual); got != c.want {
			t.Errorf("%s: %v", c.reason, got)
		}
	}
	same := strings.Replace(`{"status":{`+sync+`,`+state+`}}`, `"c2"`, `"c1"`, 1)
	same = strings.Replace(same, `"source":{"repoURL":"r","path":"p","targetRevision":"main"}}}}`, `"source":{}}}}`, 1)
	if argocd.Overtaken(parse(t, same), true) {
		t.Error("an Argo CD that does not tell the source is not taken for one that reads elsewhere")
	}
}

func TestRefit(t *testing.T) {
	const text = `{"spec":{"syncPolicy":{"syncOptions":["a=b","CreateNamespace=true"]}},"status":{"operationState":{"phase":"Running","retryCount":2,` +
		`"message":"no. Retrying attempt #2 at 5:38PM.","operation":{"initiatedBy":{"automated":true},"sync":{"revision":"c1","syncOptions":["a=b","CreateNamespace=false"]}}}}}`
	for _, c := range []struct {
		reason   string
		from, to string // what is replaced
		want     bool
	}{
		{"it is tried with other options", "", "", true},
		{"it began with none", `,"syncOptions":["a=b","CreateNamespace=false"]`, ``, true},
		{"there are none by now", `"syncOptions":["a=b","CreateNamespace=true"]`, ``, true},
		{"it has them", `=false`, `=true`, false},
		{"it is just being tried", `no. Retrying attempt #2 at 5:38PM.`, `Retrying operation. Attempt #2`, false},
		{"it has not failed yet", `"retryCount":2`, `"retryCount":0`, false},
		{"it has ended", `"Running"`, `"Failed"`, false},
		{"somebody asked for it", `"automated":true`, `"username":"x"`, false},
	} {
		if c.from != "" && !strings.Contains(text, c.from) {
			t.Fatalf("%s: nothing to replace", c.reason)
		}
		app := parse(t, strings.Replace(text, c.from, c.to, 1))
		if got := argocd.Refit(app); got != c.want {
			t.Errorf("%s: %v", c.reason, got)
		}
		if argocd.Refit(app) {
			t.Errorf("%s: it is never as it should be", c.reason)
		}
	}
}
