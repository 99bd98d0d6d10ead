package terraform_test

import (
	"encoding/json"
	"fmt"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	tfjson "github.com/hashicorp/terraform-json"

	"github.com/droverhq/drover/internal/executor"
	"github.com/droverhq/drover/internal/executor/terraform"
	"github.com/droverhq/drover/internal/fault"
)

func planOf(t testing.TB, text string) *tfjson.Plan {
	t.Helper()
	var p tfjson.Plan
	if err := json.Unmarshal([]byte(`{"format_version":"1.2","terraform_version":"1.12.0",`+text+`}`), &p); err != nil {
		t.Fatal(err)
	}
	return &p
}

const prior = `"prior_state":{"format_version":"1.0","values":{"root_module":{"child_modules":[{"resources":[{"address":"module.m.x.y","mode":"managed","type":"x","name":"y"}]}]}}}`

func changeOf(address, actions, more string) string {
	return fmt.Sprintf(`{"address":%q,"mode":"managed","type":"x","name":"y","change":{"actions":%s,%s}}`, address, actions, more)
}

func TestPlansAreRead(t *testing.T) {
	head := terraform.Head{Lineage: "l", Serial: 3}
	for _, tc := range []struct {
		reason, plan string
		action       executor.Action
		fields       []executor.Field
		outputs      map[string]any
	}{
		{"nothing is there",
			`"planned_values":{"root_module":{"resources":[{"address":"x.y","mode":"managed","type":"x","name":"y"}]}},"resource_changes":[` + changeOf("x.y", `["create"]`, `"after":{"a":1}`) + `],"output_changes":{"o":{"actions":["create"],"after_unknown":true}}`,
			executor.Create, []executor.Field{{Path: "x.y", After: "made"}}, map[string]any{"o": executor.Unknown{}}},
		{"all is as it should be",
			prior + `,"resource_changes":[` + changeOf("x.y", `["no-op"]`, `"before":{"a":1},"after":{"a":1}`) + `],"output_changes":{"o":{"actions":["no-op"],"before":5,"after":5}}`,
			executor.None, nil, map[string]any{"o": int64(5)}},
		{"a change in place",
			prior + `,"resource_changes":[` + changeOf("x.y", `["update"]`, `"before":{"a":1,"b":2,"c":"x"},"after":{"a":1,"b":3},"after_unknown":{"c":true}`) + `]`,
			executor.Update, []executor.Field{{Path: "x.y.b", Before: int64(2), After: int64(3)}, {Path: "x.y.c", Before: "x", After: executor.Unknown{}}}, map[string]any{}},
		{"what cannot be changed says why",
			prior + `,"resource_changes":[` + changeOf("x.y", `["delete","create"]`, `"before":{"a":1},"after":{"a":2},"replace_paths":[["a"]]`) + `]`,
			executor.Replace, []executor.Field{{Path: "x.y", Before: "made", After: "made anew", Forces: true}, {Path: "x.y.a", Before: int64(1), After: int64(2), Forces: true}}, map[string]any{}},
		{"something within goes: policies must see it",
			prior + `,"resource_changes":[` + changeOf("x.y", `["delete"]`, `"before":{"a":1}`) + `]`,
			executor.Replace, []executor.Field{{Path: "x.y", Before: "made", Forces: true}}, map[string]any{}},
		{"of something sensitive nothing is told, nor of what was made of it",
			prior + `,"resource_changes":[` + changeOf("x.y", `["update"]`, `"before":{"password":"hush","sha":"0a"},"after":{"password":"hush2","sha":"0b"},"before_sensitive":{"password":true},"after_sensitive":{"password":true}`) + `]`,
			executor.Update, []executor.Field{{Path: "x.y.password", Before: executor.Hidden, After: executor.Hidden}, {Path: "x.y.sha", Before: executor.Hidden, After: executor.Hidden}}, map[string]any{}},
		{"an output alone",
			prior + `,"output_changes":{"o":{"actions":["update"],"before":"a","after":"b"},"s":{"actions":["update"],"before":"hush","after":"hush2","before_sensitive":true,"after_sensitive":true}}`,
			executor.Update, []executor.Field{{Path: "output.o", Before: "a", After: "b"}, {Path: "output.s", Before: executor.Hidden, After: executor.Hidden}},
			map[string]any{"o": "b", "s": executor.NewSecret("hush2")}},
		{"what is only read is no change",
			prior + `,"resource_changes":[{"address":"data.x.y","mode":"data","type":"x","name":"y","change":{"actions":["read"],"after":{}}}]`,
			executor.None, nil, map[string]any{}},
	} {
		c := terraform.ReadChange(head, planOf(t, tc.plan), true)
		if c.Action != tc.action || (c.Why == "") != (tc.action == executor.None) || c.Mark == "" {
			t.Errorf("%s: to %s, because %q, mark %q", tc.reason, c.Action, c.Why, c.Mark)
		}
		if d := cmp.Diff(tc.fields, c.Fields); d != "" {
			t.Errorf("%s: fields (-want +got):\n%s", tc.reason, d)
		}
		if d := cmp.Diff(executor.Reveal(tc.outputs), executor.Reveal(c.Outputs)); d != "" {
			t.Errorf("%s: outputs (-want +got):\n%s", tc.reason, d)
		}
		if text := fmt.Sprintf("%v %+v", c, c); strings.Contains(text, "hush") {
			t.Errorf("%s: it tells the secret: %s", tc.reason, text)
		}
	}
}

func TestMarksMoveWithWhatIsSeen(t *testing.T) {
	head := terraform.Head{Lineage: "l", Serial: 3}
	quiet := planOf(t, prior)
	was := terraform.ReadMark(head, quiet)
	drifted := planOf(t, prior+`,"resource_drift":[`+changeOf("x.y", `["update"]`, `"before":{"a":1},"after":{"a":2}`)+`]`)
	gone := planOf(t, `"resource_drift":[`+changeOf("x.y", `["delete"]`, `"before":{"a":1}`)+`]`)
	for reason, now := range map[string]string{
		"another state": terraform.ReadMark(terraform.Head{Lineage: "l", Serial: 4}, quiet),
		"drift":         terraform.ReadMark(head, drifted),
		"an absence":    terraform.ReadMark(head, gone),
	} {
		if terraform.Unmoved(was, now) {
			t.Errorf("%s: the mark has not moved", reason)
		}
	}
	if terraform.ReadMark(head, drifted) == terraform.ReadMark(head, gone) {
		t.Error("drift and absence are the same")
	}
	blind, _, _ := strings.Cut(terraform.ReadMark(head, nil), ".")
	if !terraform.Unmoved(blind, terraform.ReadMark(head, drifted)) || terraform.Unmoved(blind, terraform.ReadMark(terraform.Head{Lineage: "l", Serial: 4}, quiet)) {
		t.Error("a plan that could not look has seen the state, and nothing else")
	}
	if terraform.ExistsByPlan(head, gone, true) || !terraform.ExistsByPlan(head, drifted, true) || terraform.ExistsByPlan(terraform.Head{}, planOf(t, `"variables":{}`), true) {
		t.Error("what is gone is there, or what is there is gone")
	}
	nothing := `"planned_values":{"root_module":{}}`
	for reason, c := range map[string]struct {
		plan    string
		applied bool
		want    bool
	}{
		"a module of nothing was applied":                  {nothing, true, true},
		"a module of nothing was not applied":              {nothing, false, false},
		"what tells something has a state once it is made": {nothing + `,"output_changes":{"o":{"actions":["create"],"after":1}}`, true, false},
	} {
		if terraform.ExistsByPlan(terraform.Head{}, planOf(t, c.plan), c.applied) != c.want {
			t.Error(reason)
		}
	}
	if d := cmp.Diff([]executor.Field{{Path: "x.y", Before: "made"}}, terraform.ReadDrift(gone)); d != "" {
		t.Error(d)
	}
}

func TestUnknownInputsAreNotAskedAbout(t *testing.T) {
	x := &terraform.Executor{Config: terraform.Config{States: empty{}, Binary: "/there/is/none", Work: t.TempDir()}}
	r := executor.Resource{ID: "r", Address: "it", Inputs: map[string]any{
		"files":     map[string]any{"main.tf": "variable \"a\" {}\noutput \"one\" {\n  value = var.a\n}\n  output \"two\" { value = 1 }\n"},
		"variables": map[string]any{"a": executor.Unknown{}, "b": executor.NewSecret("hush")},
	}}
	c, err := x.Plan(t.Context(), r)
	if err != nil || c.Action != executor.Create || !cmp.Equal(c.Outputs, map[string]any{"one": executor.Unknown{}, "two": executor.Unknown{}}) {
		t.Errorf("the plan is %+v, %v", c, err)
	}
	if d := cmp.Diff([]executor.Field{{Path: "variables.a", After: executor.Unknown{}}}, c.Fields); d != "" {
		t.Error(d)
	}
	if _, err := x.Apply(t.Context(), r); !fault.Is(err, fault.Invalid) {
		t.Errorf("it was applied: %v", err)
	}
	r.Inputs["variables"] = map[string]any{}
	if _, err := x.Plan(t.Context(), r); !fault.Is(err, fault.Unavailable) || !strings.Contains(err.Error(), "terraform.binary") {
		t.Errorf("without OpenTofu: %v", err)
	}
}

func TestPathsStayInside(t *testing.T) {
	for path, inside := range map[string]bool{
		"main.tf": true, "a/b/main.tf": true, ".": true, "..": false, "../x": false, "/etc/passwd": false, "a/../../x": false,
		"": false, "a//b": false, "./a": false, `a\..\b`: false, "a\x00b": false,
	} {
		if terraform.LocalPath(path) != inside {
			t.Errorf("%q is inside: %v", path, !inside)
		}
	}
}

func TestHeldFiles(t *testing.T) {
	path := filepath.Join(t.TempDir(), "hold")
	if terraform.IsHeld(path) {
		t.Error("what is not there is held")
	}
	f, err := terraform.HoldFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if !terraform.IsHeld(path) {
		t.Error("it is not held")
	}
	if err := f.Close(); err != nil || terraform.IsHeld(path) {
		t.Errorf("it is held for ever: %v", err)
	}
}

func FuzzStatesAreRead(f *testing.F) {
	for _, seed := range []string{
		`{"version":4,"outputs":{"o":{"value":"hush","sensitive":true}},"resources":[{"mode":"managed","type":"x","name":"y","instances":[{},{}]}]}`,
		`{"outputs":{"o":{}},"resources":null}`, `[]`, ``, `{"outputs":{"o":{"value":1e400}}}`,
	} {
		f.Add([]byte(seed))
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		made, outputs := terraform.ReadState(data)
		if len(data) == 0 && (made != nil || outputs != nil) {
			t.Error("nothing says something")
		}
		if _, err := json.Marshal(executor.Show(outputs)); err != nil {
			t.Errorf("outputs cannot be kept: %v", err)
		}
	})
}
