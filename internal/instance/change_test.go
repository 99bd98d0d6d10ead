package instance_test

import (
	"context"
	"encoding/json"
	"strings"
	"testing"

	"github.com/droverhq/drover/internal/access"
	"github.com/droverhq/drover/internal/fault"
	"github.com/droverhq/drover/internal/instance"
	"github.com/droverhq/drover/internal/ledger"
	"github.com/droverhq/drover/internal/metric"
)

func body(text string) map[string]json.RawMessage {
	out := map[string]json.RawMessage{}
	if err := json.Unmarshal([]byte(text), &out); err != nil {
		panic(err)
	}
	return out
}

func TestChanges(t *testing.T) {
	upgrading := func(in *instance.Instance) []instance.Observation {
		return []instance.Observation{{ID: in.ID, Generation: in.Status.Issued, State: "ready", Upgrading: []string{"band"}}}
	}
	cases := []struct {
		reason string
		admin  bool
		fields string
		busy   bool // the agent upgrades the band
		kind   fault.Kind
		fails  string
		check  func(in instance.Instance) bool
	}{
		{"a tenant changes a declared field", false, `{"loud":true}`, false, 0, "", func(in instance.Instance) bool { return in.Spec.Parameters["loud"] == true }},
		{"and the owner", false, `{"owner":"bob"}`, false, 0, "", func(in instance.Instance) bool { return in.Owner == "bob" }},
		{"null is not a change", false, `{"owner":null,"loud":null}`, false, 0, "", func(in instance.Instance) bool { return in.Owner == "alice" }},
		{"not a field that is not declared", false, `{"size":"x9"}`, false, fault.Invalid, "field", nil},
		{"nor one of the operators", false, `{"seats":20}`, false, fault.Invalid, "field", nil},
		{"nor with another type", false, `{"loud":"very"}`, false, fault.Invalid, "parameters", nil},
		{"an operator lets it grow", true, `{"seats":20}`, false, 0, "", func(in instance.Instance) bool { return in.Spec.Parameters["seats"] == float64(20) }},
		{"but not shrink", true, `{"seats":5}`, false, fault.Invalid, "field", nil},
		{"an upgrade to what the cluster offers", true, `{"engine_version":"e-0.10.0","band_version":"1.2.0"}`, false, 0, "", nil},
		{"not to what it does not", true, `{"band_version":"9.0.0"}`, false, fault.Invalid, "version", nil},
		{"nor back", true, `{"band_version":"1.0.0"}`, false, fault.Invalid, "version", nil},
		{"nor while one is under way", true, `{"band_version":"1.1.0"}`, true, fault.Conflict, "upgrading", nil},
		{"another component meanwhile", true, `{"seats":11,"engine_version":"e-0.10.0"}`, true, 0, "", nil},
		{"suspension", true, `{"suspended":true}`, false, 0, "", func(in instance.Instance) bool { return in.Phase == instance.Suspended }},
		{"resuming what runs changes nothing", true, `{"suspended":false}`, false, 0, "", func(in instance.Instance) bool { return in.Phase == instance.Ready }},
		{"suspension is yes or no", true, `{"suspended":"yes"}`, false, fault.Invalid, "field", nil},
	}
	for _, c := range cases {
		t.Run(c.reason, func(t *testing.T) {
			w, _, _ := newStage(t)
			made := w.order("band", instance.Create{Name: "queen"})
			change, who := w.service.Patch, alice
			if c.admin {
				change, who = w.service.UpdateAdmin, access.With(context.Background(), access.Principal{User: "op"})
				if _, err := change(who, "band", made.ID, body(c.fields)); !fault.Is(err, fault.Conflict) {
					t.Errorf("while it is accepted: %v", err)
				}
			}
			w.rounds()
			in := w.one()
			if c.busy {
				w.send(upgrading(&in))
			}
			_, err := change(who, "band", made.ID, body(c.fields))
			if c.fails != "" {
				if !fault.Is(err, c.kind) || fault.Reason(err) != c.fails {
					t.Errorf("%v (%s)", err, fault.Reason(err))
				}
				if now := w.one(); now.Generation != in.Generation {
					t.Error("it was changed all the same")
				}
				return
			}
			w.must(err)
			w.rounds()
			if now := w.one(); c.check != nil && !c.check(now) {
				t.Errorf("%s, %+v", now.Phase, now.Spec)
			}
			_, err = w.service.Delete(alice, "band", made.ID)
			if fault.Is(err, fault.Denied) { // bob's now
				return
			}
			w.must(err)
			if _, err := change(who, "band", made.ID, body(c.fields)); !fault.Is(err, fault.Conflict) {
				t.Errorf("while it goes: %v", err)
			}
		})
	}
}

// An allowed downgrade within a minor version, and what operators see.
func TestOperatorsViews(t *testing.T) {
	w, _, _ := newStage(t)
	w.order("band", instance.Create{Name: "queen", Version: "1.1.0"})
	w.rounds()
	in := w.one()
	if in.Status.Versions["band"] != "1.1.0" {
		t.Errorf("the wanted version was not taken: %v", in.Status.Versions)
	}
	view, err := w.service.Admin(alice, in.Object)
	w.must(err)
	if s := string(view); !strings.Contains(s, `"cluster":"local"`) || !strings.Contains(s, `"engine":"e-0.10.0"`) {
		t.Errorf("operators see %s", s)
	}
	if strings.Contains(string(in.Object.View), "engine") {
		t.Error("tenants see it too")
	}
}

type meter struct{ asked []string }

func (m *meter) Query(_ context.Context, promql string, _ metric.Range) ([]metric.Series, error) {
	m.asked = append(m.asked, promql)
	return []metric.Series{{Labels: map[string]string{"__name__": "band_volume"}}}, nil
}

func (m *meter) Federate(_ context.Context, selectors []string) ([]byte, error) {
	m.asked = append(m.asked, selectors...)
	return []byte("# text"), nil
}

func TestMetricsAreTheTenantsOwn(t *testing.T) {
	w, _, _ := newStage(t)
	w.order("band", instance.Create{Name: "queen"})
	w.rounds()
	in := w.one()
	if _, err := w.service.Query(alice, "band", "queen", nil, metric.Range{}); !fault.Is(err, fault.Invalid) || fault.Reason(err) != "metrics" {
		t.Errorf("without a source: %v", err)
	}
	m := &meter{}
	w.service.Metrics = m
	eve := access.With(context.Background(), access.Principal{User: "eve", Org: "evil"})
	if _, err := w.service.Query(eve, "band", in.ID, nil, metric.Range{}); !fault.Is(err, fault.NotFound) {
		t.Errorf("another organisation: %v", err)
	}
	if _, err := w.service.Federate(eve, "band", in.ID, nil); !fault.Is(err, fault.NotFound) {
		t.Errorf("another organisation: %v", err)
	}
	if _, err := w.service.Query(alice, "band", in.ID, []string{"up"}, metric.Range{}); !fault.Is(err, fault.Invalid) || fault.Reason(err) != "field" {
		t.Errorf("a metric that is not sold: %v", err)
	}
	if len(m.asked) > 0 {
		t.Fatalf("the source was asked %q", m.asked)
	}
	_, err := w.service.Query(alice, "band", in.ID, []string{"band_volume"}, metric.Range{})
	w.must(err)
	_, err = w.service.Federate(alice, "band", in.ID, nil)
	w.must(err)
	selector := `namespace="` + in.Status.Namespace + `"`
	want := []string{`{__name__=~"band_volume",` + selector + `}`, "band_volume{" + selector + "}", "band_crowd{" + selector + "}"}
	if strings.Join(m.asked, "\n") != strings.Join(want, "\n") {
		t.Errorf("asked %q, want %q", m.asked, want)
	}
}

func TestRevocation(t *testing.T) {
	w, out, _ := newStage(t)
	w.order("band", instance.Create{Name: "queen"})
	w.rounds()
	id := w.one().ID
	for _, c := range []struct {
		reason string
		who    string
		code   int
		kind   fault.Kind
	}{
		{"a colleague", "bob", 1, fault.Denied},
		{"no reason of the standard", "alice", 7, fault.Invalid},
		{"nor beyond it", "alice", 11, fault.Invalid},
	} {
		if err := w.service.Revoke(user(c.who), "band", id, c.code); !fault.Is(err, c.kind) {
			t.Errorf("%s: %v", c.reason, err)
		}
	}
	if out.revoked != 0 {
		t.Error("revoked all the same")
	}
	if err := w.service.Revoke(alice, "band", id, 1); err != nil || out.revoked == 0 {
		t.Errorf("%v, %d revoked", err, out.revoked)
	}
	w.service.Certificates = nil
	if err := w.service.Revoke(alice, "band", id, 1); !fault.Is(err, fault.Invalid) {
		t.Errorf("without a source: %v", err)
	}
}

// Reports of routes that are not the instance's own change nothing.
func TestRoutesOfReports(t *testing.T) {
	w, _, _ := newStage(t)
	w.order("band", instance.Create{Name: "queen"})
	w.rounds()
	in := w.one()
	for _, c := range []struct {
		reason string
		route  instance.RouteReport
	}{
		{"no router", instance.RouteReport{Name: "web"}},
		{"no host", instance.RouteReport{Name: "web", Router: "a b"}},
		{"a prefix with a dot", instance.RouteReport{Prefix: "www.evil", Router: "r.example.org"}},
		{"a prefix that makes it too long", instance.RouteReport{Prefix: strings.Repeat("x", 300), Router: "r.example.org"}},
	} {
		refused, err := w.service.Report(context.Background(), "local", []instance.Observation{{
			ID: in.ID, Generation: in.Status.Issued, State: "ready", Routes: []instance.RouteReport{c.route},
		}})
		if err != nil || len(refused) != 1 {
			t.Errorf("%s: refused %v, %v", c.reason, refused, err)
		}
	}
	if now := w.one(); now.Version != in.Version {
		t.Error("it was written")
	}
}

// A data plane may move its routers, and tell of hosts late.
func TestRoutersThatMove(t *testing.T) {
	w, out, _ := newStage(t)
	w.order("band", instance.Create{Name: "queen"})
	w.rounds()
	in := w.one()
	w.routed = false
	w.send([]instance.Observation{{ID: in.ID, Generation: in.Status.Issued, State: "ready", Routes: []instance.RouteReport{
		{Name: "web", Router: "Other.example.org."}, {Name: "late", Prefix: "late", Router: "router.example.org"},
	}}})
	w.work()
	host := in.Status.Routes[0].Host
	if out.records[host].Target != "other.example.org" || out.records["late-"+host].Target == "" || out.records["api-"+host].Target != "router.example.org" {
		t.Errorf("records %v", out.records)
	}
	if ref, err := w.ledger.Lookup(context.Background(), ledger.Name{Space: "host", Name: "late-" + host}); err != nil || ref.ID != in.ID {
		t.Errorf("its host is %v's, %v", ref, err)
	}
}

func TestTenantsDoNotSetWhatIsTheOperators(t *testing.T) {
	w, _, off := newStage(t)
	w.order("band", instance.Create{Name: "queen"})
	w.rounds()
	off.Spec.Parameters["properties"].(map[string]any)["seats"].(map[string]any)["readOnly"] = true
	req := instance.Update{Parameters: map[string]any{"seats": 99}}
	if _, err := w.service.Update(alice, "band", "queen", req); fault.Reason(err) != "parameters" {
		t.Errorf("a tenant: %v", err)
	}
	operator := access.With(context.Background(), access.Principal{User: "op", Admin: true})
	if _, err := w.service.Update(operator, "band", w.one().ID, req); err != nil {
		t.Errorf("an operator: %v", err)
	}
}

func TestTenantsDoNotChooseVersionsLater(t *testing.T) {
	w, _, _ := newStage(t)
	made := w.order("band", instance.Create{Name: "queen"})
	w.rounds()
	want := "1.2.0"
	for _, req := range []instance.Update{{Version: &want}, {Versions: map[string]string{"band": want}}} {
		if _, err := w.service.Update(alice, "band", made.ID, req); !fault.Is(err, fault.Denied) {
			t.Errorf("%+v: got %v, want denied", req, err)
		}
	}
	operator := access.With(alice, access.Principal{User: "op", Admin: true})
	if _, err := w.service.Update(operator, "band", made.ID, instance.Update{Version: &want}); err != nil {
		t.Errorf("an operator: %v", err)
	}
}

// A rule of the offering holds for operators too, whichever API they use.
func TestRulesHoldForOperators(t *testing.T) {
	w, _, _ := newStage(t)
	made := w.order("band", instance.Create{Name: "queen"})
	w.rounds()
	operator := access.With(alice, access.Principal{User: "op", Admin: true})
	for seats, kind := range map[float64]fault.Kind{5: fault.Invalid, 20: 0} {
		_, err := w.service.Update(operator, "band", made.ID, instance.Update{Parameters: map[string]any{"seats": seats}})
		if kind != 0 && !fault.Is(err, kind) || kind == 0 && err != nil {
			t.Errorf("%v seats: %v", seats, err)
		}
	}
}
