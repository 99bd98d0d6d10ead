package environment_test

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"strings"
	"testing"
	"time"

	"github.com/droverhq/drover/internal/access"
	"github.com/droverhq/drover/internal/environment"
	"github.com/droverhq/drover/internal/executor"
	"github.com/droverhq/drover/internal/fault"
	"github.com/droverhq/drover/internal/ledger"
	"github.com/droverhq/drover/internal/source"
	"github.com/droverhq/drover/internal/template"
)

// stage runs commands by writing them down.
type stage struct {
	w    *world
	ran  []template.Command
	fail error
}

func (s *stage) Check(c template.Command, _ map[string][]byte) error {
	if c.Argv[0] == "forbidden" {
		return fault.New(fault.Denied, "this server does not allow it")
	}
	return nil
}

func (s *stage) Run(_ context.Context, c template.Command, _ map[string][]byte, log io.Writer) error {
	s.w.store.tick() // killed before it begins
	s.ran = append(s.ran, c)
	fmt.Fprintf(log, "it says %s\n", strings.Join(c.Argv[1:], "|"))
	for _, secret := range c.Secrets {
		fmt.Fprintf(log, "the password is %s\n", secret)
	}
	s.w.store.tick() // and behind its end
	return s.fail
}

const actionTemplate = `
apiVersion: drover.dev/v1
kind: Template
metadata: {name: shop}
spec:
  version: 1.0.0
  resources:
    - {name: db, executor: forge, with: {size: small}}
  actions:
    - name: greet
      description: Say hello
      parameters: {properties: {name: {type: string, maxLength: 200}, loud: {type: boolean, default: false}}, required: [name]}
      app: {name: echo}
      command: [echo, "hello ${args.name}", "${args.name}"]
      env: {TOKEN: "${db.outputs.token}"}
    - {name: guarded, app: {name: echo}, command: [echo]}
    - {name: banned, app: {name: forbidden}, command: [forbidden]}
  permissions:
    actions:
      guarded: {users: [carol]}
`

// theatre is a world with a written template that has actions.
func theatre(t *testing.T) (*world, *stage, environment.Environment) {
	w := newWorld(t, t.TempDir())
	s := &stage{w: w}
	w.open()
	t.Cleanup(func() { w.store.Close() })
	templates := template.NewService(template.Config{Store: w.store.Ledger, Files: w.store.Ledger,
		Executors: map[string]executor.Description{"forge": w.forge.Describe()}, Now: func() time.Time { return w.clock }})
	w.configs = append(w.configs, func(c *environment.Config) {
		c.Runner, c.Templates = s, environment.Drawings{Service: templates}
	})
	w.start()
	_, _, err := templates.AddTree(operator, source.Tree{Commit: "0123456789abcdef0123456789abcdef01234567", Files: map[string]source.File{"template.yaml": {Data: []byte(actionTemplate)}}}, "here")
	w.must(err)
	return w, s, w.up("staging", nil)
}

func (w *world) said(id string) string {
	w.t.Helper()
	tail, err := w.s.OperationLog(alice, id, 0)
	w.must(err)
	return string(tail.Text)
}

func TestActions(t *testing.T) {
	w, s, e := theatre(t)
	all, err := w.s.Actions(alice, e.ID)
	w.must(err)
	if len(all) != 3 || !all[0].Allowed || all[1].Allowed {
		t.Fatalf("%+v", all)
	}
	refused := []struct {
		reason, action string
		who            context.Context
		args           map[string]any
		kind           fault.Kind
	}{
		{"the template names somebody else", "guarded", alice, nil, fault.Denied},
		{"only the owner may where nobody is named", "greet", bob, map[string]any{"name": "x"}, fault.Denied},
		{"nobody is nobody", "greet", context.Background(), map[string]any{"name": "x"}, fault.NotFound},
		{"there is no such action", "sing", alice, nil, fault.NotFound},
		{"an argument is missing", "greet", alice, nil, fault.Invalid},
		{"an argument is not known", "greet", alice, map[string]any{"name": "x", "age": 3}, fault.Invalid},
		{"an argument has another type", "greet", alice, map[string]any{"name": 3}, fault.Invalid},
		{"it would be an option", "greet", alice, map[string]any{"name": "--help"}, fault.Invalid},
		{"the server does not allow the program", "banned", alice, nil, fault.Denied},
	}
	for _, c := range refused {
		if _, err := w.s.RunAction(c.who, e.ID, c.action, c.args); fault.Of(err) != c.kind {
			t.Errorf("%s: %v", c.reason, err)
		}
	}
	if len(s.ran) != 0 {
		t.Fatalf("what was refused ran: %v", s.ran)
	}
	for _, name := range []string{"$(id)", "`id`", "x; rm -rf /", "a\nb", "${TOKEN}", "' \" \\", "-", "a -rf"} {
		op, err := w.s.RunAction(alice, e.ID, "greet", map[string]any{"name": name})
		if name == "-" {
			if !fault.Is(err, fault.Invalid) {
				t.Errorf("%q: %v", name, err)
			}
			continue
		}
		w.must(err)
		w.work(5 * time.Second)
		if got := s.ran[len(s.ran)-1].Argv; len(got) != 3 || got[1] != "hello "+name || got[2] != name {
			t.Errorf("%q became %q", name, got)
		}
		if phase, reason := w.operation(op.ID); phase != "succeeded" || op.Fields["verb"] != "action:greet" {
			t.Errorf("%s %s", phase, reason)
		}
	}
	s.fail = fault.New(fault.Unavailable, "echo ended with code 3")
	op, err := w.s.RunAction(alice, e.ID, "greet", map[string]any{"name": "x"})
	w.must(err)
	w.work(5 * time.Second)
	if phase, reason := w.operation(op.ID); phase != "failed" || !strings.Contains(reason, "code 3") {
		t.Errorf("%s %s", phase, reason)
	}
	if said := w.said(op.ID); !strings.Contains(said, "it says hello x|x") || strings.Contains(said, "canary") || !strings.Contains(said, "(secret)") {
		t.Errorf("its log: %q", said)
	}
	if _, err := w.s.OperationLog(access.With(context.Background(), access.Principal{User: "mallory", Org: "other"}), op.ID, 0); !fault.Is(err, fault.NotFound) {
		t.Errorf("a stranger reads the log: %v", err)
	}
	w.hidesSecrets()
}

// A run that was cut short has failed, and is not run again.
func TestActionIsKilled(t *testing.T) {
	for at := range 10 {
		w, s, e := theatre(t)
		op, err := w.s.RunAction(alice, e.ID, "greet", map[string]any{"name": "x"})
		w.must(err)
		w.store.fate.at = []int{at}
		w.work(time.Minute)
		killed := w.store.fate.crashes > 0
		w.store.fate.at = nil
		w.work(time.Minute)
		phase, reason := w.operation(op.ID)
		if len(s.ran) > 1 || phase == "running" || phase == "succeeded" && len(s.ran) != 1 || phase == "failed" && (!killed || !strings.Contains(reason, "the server stopped while it ran")) {
			t.Errorf("killed at %d: ran %d times, %s %s", at, len(s.ran), phase, reason)
		}
		o, err := w.store.Ledger.Get(context.Background(), ledger.Ref{Kind: "actionrun", ID: op.ID})
		w.must(err)
		var spec environment.RunSpec
		w.must(json.Unmarshal(o.Spec, &spec))
		if _, err := w.store.Unseal(context.Background(), spec.Arguments); !fault.Is(err, fault.NotFound) {
			t.Errorf("killed at %d: its arguments are still there: %v", at, err)
		}
	}
}
