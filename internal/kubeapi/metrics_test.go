package kubeapi_test

import (
	"context"
	"errors"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/prometheus/client_golang/prometheus"

	"github.com/droverhq/drover/internal/gitops"
	"github.com/droverhq/drover/internal/kubeapi"
	"github.com/droverhq/drover/internal/ledger"
	"github.com/droverhq/drover/internal/operation"
)

// tally is a ledger with some operations.
type tally map[string]int64 // by phase

func (y tally) Totals(_ context.Context, kind string, scope []string) (out []ledger.Total, _ error) {
	if kind == operation.Kind.Name && slices.Equal(scope, []string{"phase"}) {
		for phase, n := range y {
			out = append(out, ledger.Total{Values: []string{phase}, N: n})
		}
	}
	return out, nil
}

func (tally) Counters(context.Context, string) (map[string]int64, error) { return nil, nil }

func (tally) CountersOf(context.Context, []string) (map[string]int64, error) { return nil, nil }

func TestOperationsByState(t *testing.T) {
	registry := prometheus.NewPedanticRegistry()
	registry.MustRegister(kubeapi.New(kubeapi.Config{Home: &kubeapi.Home{Access: kubeapi.Access{Name: "home", Now: time.Now}},
		Tally: tally{operation.Running: 1, operation.Succeeded: 2, operation.Failed: 4, operation.Superseded: 8}}))
	families, err := registry.Gather()
	if err != nil {
		t.Fatal(err)
	}
	got := map[string]float64{}
	for _, f := range families {
		if strings.Contains(f.GetName(), "_state") {
			got[f.GetName()] = f.GetMetric()[0].GetGauge().GetValue()
		}
	}
	want := map[string]float64{
		"operationDB_rows_in_waiting_state": 0, "operationDB_rows_in_in_progress_state": 1, "operationDB_rows_in_completed_state": 10,
		"operationDB_rows_in_error_state": 4, "total_operationDB_rows_in_complete_state": 14, "operationDB_rows_in_non_complete_state": 1,
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
	if !slices.ContainsFunc(operation.Kind.Totals, func(scope []string) bool { return slices.Equal(scope, []string{"phase"}) }) {
		t.Error("the ledger does not count operations by phase")
	}
}

// Operations that end are counted for ten minutes, and then anew.
func TestOperationsThatEndedLately(t *testing.T) {
	now := time.Date(2026, 1, 2, 12, 0, 0, 0, time.UTC)
	counts := tally{operation.Succeeded: 100, operation.Failed: 7}
	registry := prometheus.NewPedanticRegistry()
	registry.MustRegister(kubeapi.New(kubeapi.Config{Home: &kubeapi.Home{Access: kubeapi.Access{Name: "home", Now: func() time.Time { return now }}}, Tally: counts}))
	for _, c := range []struct {
		reason             string
		after              time.Duration
		succeed, fail      int64
		completed, failure float64
	}{
		{"what was before is not counted", 0, 0, 0, 0, 0},
		{"some have ended", time.Minute, 3, 1, 3, 1},
		{"and some more", 8 * time.Minute, 1, 0, 4, 1},
		{"old ones were removed", 30 * time.Second, -50, 0, 0, 1},
		{"it goes on from there", 0, 2, 0, 2, 1},
		{"ten minutes are over", time.Minute, 5, 5, 0, 0},
		{"anew", time.Minute, 1, 0, 1, 0},
	} {
		now = now.Add(c.after)
		counts[operation.Succeeded] += c.succeed
		counts[operation.Failed] += c.fail
		families, err := registry.Gather()
		if err != nil {
			t.Fatal(err)
		}
		got := map[string]float64{}
		for _, f := range families {
			if name := f.GetName(); strings.HasSuffix(name, "State") {
				got[name] = f.GetMetric()[0].GetGauge().GetValue()
			}
		}
		if d := cmp.Diff(map[string]float64{"operationDB_completedState": c.completed, "operationDB_failedState": c.failure}, got); d != "" {
			t.Errorf("%s: %s", c.reason, d)
		}
	}
}

// deployments is a ledger that has some in these phases.
type deployments map[string]int64

func (y deployments) Totals(_ context.Context, kind string, scope []string) (out []ledger.Total, _ error) {
	if kind == gitops.KindDeployment.Name && slices.Equal(scope, []string{"phase"}) {
		for phase, n := range y {
			out = append(out, ledger.Total{Values: []string{phase}, N: n})
		}
	}
	return out, nil
}

func (deployments) Counters(context.Context, string) (map[string]int64, error) { return nil, nil }

func (deployments) CountersOf(context.Context, []string) (map[string]int64, error) { return nil, nil }

func TestFailuresAndWhatArgoCDHas(t *testing.T) {
	names := []string{"gitopsDeployments_failures", "number_of_operationsCR", "gitops_argocd_apps_reconciled_percent"}
	for _, c := range []struct {
		reason string
		argo   kubeapi.Argo
		err    error
		want   map[string]float64
	}{
		{"two Argo CDs", kubeapi.Argo{Applications: 8, Reconciled: 6, Operations: 3}, nil, map[string]float64{names[0]: 2, names[1]: 3, names[2]: 75}},
		{"there is nothing to have a share of", kubeapi.Argo{}, nil, map[string]float64{names[0]: 2, names[1]: 0}},
		{"it cannot be found out", kubeapi.Argo{}, errors.New("away"), map[string]float64{names[0]: 2}},
	} {
		registry := prometheus.NewPedanticRegistry()
		registry.MustRegister(kubeapi.New(kubeapi.Config{Home: &kubeapi.Home{Access: kubeapi.Access{Name: "home", Now: time.Now}},
			Tally: deployments{gitops.Failed: 2, gitops.Deployed: 40, gitops.Pending: 1},
			Argo:  func(context.Context) (kubeapi.Argo, error) { return c.argo, c.err }}))
		families, err := registry.Gather()
		if err != nil {
			t.Fatal(err)
		}
		got := map[string]float64{}
		for _, f := range families {
			if slices.Contains(names, f.GetName()) {
				got[f.GetName()] = f.GetMetric()[0].GetGauge().GetValue()
			}
		}
		if d := cmp.Diff(c.want, got); d != "" {
			t.Errorf("%s: %s", c.reason, d)
		}
	}
	if !slices.ContainsFunc(gitops.KindDeployment.Totals, func(scope []string) bool { return slices.Equal(scope, []string{"phase"}) }) {
		t.Error("the ledger does not count deployments by phase")
	}
}
