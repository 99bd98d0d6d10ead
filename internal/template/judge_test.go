package template_test

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/droverhq/drover/internal/access"
	"github.com/droverhq/drover/internal/fault"
	"github.com/droverhq/drover/internal/template"
)

func TestMay(t *testing.T) {
	ann := access.Principal{User: "ann", Org: "acme"}
	bob := access.Principal{User: "bob", Org: "acme"}
	chief := access.Principal{User: "chief", Org: "acme", OrgAdmin: true}
	stranger := access.Principal{User: "ann", Org: "other", OrgAdmin: true, Roles: []string{"sre"}}
	sre := access.Principal{User: "sam", Org: "acme", Roles: []string{"dev", "sre"}}
	operator := access.Principal{User: "root", Admin: true}
	agent := access.Principal{User: "ann", Org: "acme", Admin: true, Cluster: "c1"}
	lone := access.Principal{User: "lea"}
	named := template.Permissions{
		Plan: &template.Who{Users: []string{"bob"}}, Apply: &template.Who{Roles: []string{"sre"}}, Destroy: &template.Who{},
		Actions: map[string]template.Who{"backup": {Orgs: []string{"acme"}}, "*": {Users: []string{"ann"}}},
	}
	all := template.Permissions{Plan: &template.Who{Users: []string{"*"}}, Apply: &template.Who{Orgs: []string{"*"}}, Destroy: &template.Who{Roles: []string{"*"}},
		Actions: map[string]template.Who{"*": {Users: []string{"*"}}}}
	cases := []struct {
		reason       string
		p            template.Permissions
		verb, action string
		who          access.Principal
		want         bool
	}{
		{"anybody of the organisation plans", template.Permissions{}, template.VerbPlan, "", bob, true},
		{"a stranger does not plan", template.Permissions{}, template.VerbPlan, "", stranger, false},
		{"the owner applies", template.Permissions{}, template.VerbApply, "", ann, true},
		{"the administrator applies", template.Permissions{}, template.VerbApply, "", chief, true},
		{"a colleague does not apply", template.Permissions{}, template.VerbApply, "", bob, false},
		{"the owner destroys", template.Permissions{}, template.VerbDestroy, "", ann, true},
		{"a colleague does not destroy", template.Permissions{}, template.VerbDestroy, "", bob, false},
		{"a stranger of the same name does not destroy", template.Permissions{}, template.VerbDestroy, "", stranger, false},
		{"the owner runs actions", template.Permissions{}, template.VerbAction, "backup", ann, true},
		{"a colleague does not run actions", template.Permissions{}, template.VerbAction, "backup", bob, false},
		{"who is named plans", named, template.VerbPlan, "", bob, true},
		{"who is not named does not plan, the owner neither", named, template.VerbPlan, "", ann, false},
		{"a role applies", named, template.VerbApply, "", sre, true},
		{"without the role one does not apply", named, template.VerbApply, "", ann, false},
		{"a role of a stranger does not count", named, template.VerbApply, "", stranger, false},
		{"nobody destroys", named, template.VerbDestroy, "", ann, false},
		{"nor does the administrator", named, template.VerbDestroy, "", chief, false},
		{"but operators do", named, template.VerbDestroy, "", operator, true},
		{"an organisation runs the action", named, template.VerbAction, "backup", bob, true},
		{"another action is for others", named, template.VerbAction, "restore", bob, false},
		{"those that are not named", named, template.VerbAction, "restore", ann, true},
		{"everybody who can see it plans", all, template.VerbPlan, "", bob, true},
		{"everybody who can see it applies", all, template.VerbApply, "", bob, true},
		{"everybody who can see it destroys", all, template.VerbDestroy, "", sre, true},
		{"everybody who can see it runs", all, template.VerbAction, "x", bob, true},
		{"a stranger cannot see it", all, template.VerbPlan, "", stranger, false},
		{"a stranger cannot apply", all, template.VerbApply, "", stranger, false},
		{"a stranger cannot destroy", all, template.VerbDestroy, "", stranger, false},
		{"a stranger cannot run", all, template.VerbAction, "x", stranger, false},
		{"somebody of no organisation sees none of another's", all, template.VerbPlan, "", lone, false},
		{"nobody at all", all, template.VerbPlan, "", access.Principal{}, false},
		{"an agent does nothing", template.Permissions{}, template.VerbPlan, "", agent, false},
		{"a verb that there is not", all, "sell", "", ann, false},
	}
	for _, c := range cases {
		if got := c.p.May(c.verb, c.action, c.who, "acme", "ann"); got != c.want {
			t.Errorf("%s: got %v", c.reason, got)
		}
	}
}

func TestJudge(t *testing.T) {
	tm := must(t, `
  resources: [{name: a, executor: file, with: {path: a}}]
  policies:
    - {name: data, when: 'change.action == "destroy" && "data" in change.tags', effect: approve, message: data would be lost}
    - {name: many, when: '${plan.destroys > 1}', effect: deny}
    - {name: broken, when: '1 / (plan.creates - 1) > 5', effect: approve}`)
	changes := []template.ChangeFacts{
		{Address: "db", Executor: "vault", Action: "destroy", Tags: []string{"data"}},
		{Address: "web", Executor: "file", Action: "destroy"},
	}
	got, err := tm.Judge(t.Context(), template.PlanFacts{Destroys: 1, Creates: 0}, changes)
	want := []template.Verdict{{Policy: "data", Address: "db", Effect: "approve", Message: "data would be lost"}}
	if diff := cmp.Diff(want, got); diff != "" || err != nil {
		t.Errorf("%v %s", err, diff)
	}
	got, err = tm.Judge(t.Context(), template.PlanFacts{Destroys: 2}, changes[1:])
	if diff := cmp.Diff([]template.Verdict{{Policy: "many", Address: "web", Effect: "deny"}}, got); diff != "" || err != nil {
		t.Errorf("%v %s", err, diff)
	}
	got, err = tm.Judge(t.Context(), template.PlanFacts{Creates: 1}, changes[1:])
	if err != nil || len(got) != 1 || got[0].Policy != "broken" || got[0].Effect != "deny" {
		t.Errorf("a policy that cannot be evaluated denies: %v %v", got, err)
	}
	if got, err := tm.Judge(t.Context(), template.PlanFacts{Destroys: 9}, nil); err != nil || got != nil {
		t.Errorf("nothing changes: %v, %v", got, err)
	}
}

// A template within keeps its policies: it guards its own resources.
func TestJudgeWithin(t *testing.T) {
	part := strings.Replace(head, "name: shop", "name: part", 1) + simple +
		"  policies: [{name: keep, when: 'change.address == \"a\" && change.action == \"destroy\"', effect: deny}]\n"
	tm, err := template.Parse(t.Context(), tree(map[string]string{"template.yaml": head + simple + "  groups: [{name: g, template: ./p}]\n", "p/template.yaml": part}), "", around)
	if err != nil {
		t.Fatal(err)
	}
	got, err := tm.Judge(t.Context(), template.PlanFacts{}, []template.ChangeFacts{{Address: "a", Action: "destroy"}, {Address: "g.a", Action: "destroy"}})
	if diff := cmp.Diff([]template.Verdict{{Policy: "g/keep", Address: "g.a", Effect: "deny"}}, got); diff != "" || err != nil {
		t.Errorf("%v %s", err, diff)
	}
}

const acting = `
  parameters: {properties: {level: {type: integer, default: 3}}}
  resources: [{name: db, executor: vault}]
  actions:
    - name: dump
      app: {name: pgdump}
      command: [pgdump, --host, '${db.outputs.path}', '--level=${params.level}', '${args.table}', --, '${args.more}']
      env: {PASSWORD: '${db.outputs.password}', TABLE: '${args.table}'}
      parameters: {properties: {table: {type: string}, more: {type: string, default: all}}, required: [table]}
      timeout: 30s
    - {name: plain, app: {name: date}, command: [date]}`

func TestActions(t *testing.T) {
	l := expand(t, must(t, acting), nil)
	values := known(map[string]map[string]any{"db": {"path": "h", "password": secretWord}})
	hostile := "x; rm -rf / $(reboot) `id` | cat > /etc/passwd && echo \"'"
	got, err := l.Action(t.Context(), "dump", map[string]any{"table": hostile, "more": "-x"}, values)
	if err != nil {
		t.Fatal(err)
	}
	want := template.Command{
		App: template.App{Name: "pgdump"}, Argv: []string{"pgdump", "--host", "h", "--level=3", hostile, "--", "-x"},
		Env: map[string]string{"PASSWORD": secretWord, "TABLE": hostile}, Timeout: 30e9, Secrets: []string{secretWord},
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
	cases := []struct {
		reason, name string
		args         map[string]any
		values       template.Lookup
		kind         fault.Kind
	}{
		{"an option in place of an argument", "dump", map[string]any{"table": "--output=/etc/passwd"}, values, fault.Invalid},
		{"a byte that ends a text", "dump", map[string]any{"table": "a\x00b"}, values, fault.Invalid},
		{"an argument is missing", "dump", nil, values, fault.Invalid},
		{"an argument of another type", "dump", map[string]any{"table": []any{"a", "b"}}, values, fault.Invalid},
		{"an argument too many", "dump", map[string]any{"table": "a", "tabel": "b"}, values, fault.Invalid},
		{"arguments of none", "plain", map[string]any{"x": 1}, values, fault.Invalid},
		{"no such action", "drop", nil, values, fault.NotFound},
		{"before there is a database", "dump", map[string]any{"table": "a"}, known(nil), fault.Unavailable},
	}
	for _, c := range cases {
		if got, err := l.Action(t.Context(), c.name, c.args, c.values); !fault.Is(err, c.kind) {
			t.Errorf("%s: got %v, %v", c.reason, got, err)
		} else if strings.Contains(err.Error(), secretWord) {
			t.Errorf("%s: %v tells the secret", c.reason, err)
		}
	}
	if got, err := l.Action(t.Context(), "plain", nil, nil); err != nil || len(got.Argv) != 1 || got.Timeout != 5*60e9 {
		t.Errorf("got %+v, %v", got, err)
	}
}
