package argocd_test

import (
	"bytes"
	"encoding/json"
	"fmt"
	"reflect"
	"strings"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"pgregory.net/rapid"

	"github.com/droverhq/drover/internal/runtime"
	"github.com/droverhq/drover/internal/runtime/argocd"
)

func parse(t *testing.T, text string) *unstructured.Unstructured {
	t.Helper()
	var o object
	if err := json.Unmarshal([]byte(text), &o); err != nil {
		t.Fatal(err)
	}
	return &unstructured.Unstructured{Object: o}
}

func TestDetail(t *testing.T) {
	app := parse(t, `{"status":{
		"sync":{"status":"OutOfSync","revision":"c1","comparedTo":{"source":{"repoURL":"https://git/shop","path":"k8s","targetRevision":"main"},"destination":{"name":"managed-env-t1","namespace":"shop"}}},
		"health":{"status":"Degraded","message":"no","lastTransitionTime":"2026-01-01T00:00:00Z"},
		"resources":[{"kind":"Service","version":"v1","namespace":"shop","name":"web","status":"Synced"},{"group":"apps","kind":"Deployment","version":"v1","namespace":"shop","name":"web","status":"OutOfSync","health":{"status":"Degraded"}},{"kind":"ConfigMap","version":"v1","namespace":"shop","name":"a","status":"Synced"}],
		"conditions":[{"type":"SyncError","message":"b"},{"type":"ComparisonError","message":"a"}],
		"operationState":{"phase":"Succeeded","startedAt":"2026-01-01T00:00:00Z","operation":{"sync":{}}},
		"history":[{"id":1,"revision":"c1","deployStartedAt":"2025-12-31T23:59:55Z","deployedAt":"2026-01-01T00:00:00Z","initiatedBy":{"username":"drover:run-1"}},{"id":0,"revision":"c0","deployedAt":"2026-01-01T00:00:00Z","initiatedBy":{"automated":true}}]}}`)
	b, err := argocd.Detail(app, nil)
	if err != nil {
		t.Fatal(err)
	}
	const want = `{"sync":{"status":"OutOfSync","revision":"c1"},"health":{"status":"Degraded","message":"no"},"resources":[{"version":"v1","kind":"ConfigMap","namespace":"shop","name":"a","status":"Synced"},{"version":"v1","kind":"Service","namespace":"shop","name":"web","status":"Synced"},{"group":"apps","version":"v1","kind":"Deployment","namespace":"shop","name":"web","status":"OutOfSync","health":{"status":"Degraded"}}],"conditions":[{"type":"ComparisonError","message":"a"},{"type":"SyncError","message":"b"}],"compared":{"repository":"https://git/shop","path":"k8s","revision":"main","target":"t1","namespace":"shop"},"operation":{"operation":{"sync":{}},"phase":"Succeeded","startedAt":"2026-01-01T00:00:00Z"},"history":[{"id":0,"revision":"c0","deployed":"2026-01-01T00:00:00Z","by":"automated"},{"id":1,"revision":"c1","started":"2025-12-31T23:59:55Z","deployed":"2026-01-01T00:00:00Z","by":"run-1"}]}`
	if string(b) != want {
		t.Errorf("got  %s\nwant %s", b, want)
	}
	if b, err = argocd.Detail(nil, nil); err != nil || string(b) != `{"sync":{"status":"Unknown"},"health":{"status":"Unknown"}}` {
		t.Errorf("nothing: %s, %v", b, err)
	}
}

// Whatever Argo CD tells, what is told of it has its bounds.
func TestDetailIsBounded(t *testing.T) {
	long := strings.Repeat("x", 100<<10)
	var resources, results, conditions []any
	for i := range 3000 {
		resources = append(resources, object{"kind": "ConfigMap", "name": fmt.Sprint("c", i), "health": object{"status": "Degraded", "message": long[:2000]}})
		results = append(results, object{"kind": "ConfigMap", "name": fmt.Sprint("c", i), "message": long[:1000]})
	}
	conditions = append(conditions, object{"type": "SyncError", "message": long})
	app := &unstructured.Unstructured{Object: object{"status": object{"resources": resources, "conditions": conditions, "health": object{"message": long},
		"operationState": object{"phase": "Failed", "message": "short", "syncResult": object{"revision": "c1", "resources": results}}}}}
	b, err := argocd.Detail(app, nil)
	var got runtime.Deployed
	if err != nil || json.Unmarshal(b, &got) != nil || len(got.Resources) != 2000 || got.More != 1000 || len(b) > 2<<20 {
		t.Errorf("%d bytes, %d resources, %d more, %v", len(b), len(got.Resources), got.More, err)
	}
	if !bytes.Contains(got.Operation, []byte(`"revision":"c1"`)) || len(got.Operation) > 128<<10 {
		t.Errorf("the operation has %d bytes", len(got.Operation))
	}
}

// What is in trouble is told, however many there are that are not, and wherever its name
// comes.
func TestDetailTellsWhatIsInTrouble(t *testing.T) {
	var resources []any
	for i := range 2500 {
		resources = append(resources, object{"kind": "ConfigMap", "name": fmt.Sprint("c", i), "status": "Synced"})
	}
	resources = append(resources, object{"kind": "Service", "name": "z", "status": "OutOfSync"})
	b, err := argocd.Detail(&unstructured.Unstructured{Object: object{"status": object{"resources": resources}}}, nil)
	var got runtime.Deployed
	if err != nil || json.Unmarshal(b, &got) != nil {
		t.Fatal(err)
	}
	if n := len(got.Resources); n != 2000 || got.More != 501 || got.Resources[n-1].Name != "z" {
		t.Errorf("%d are told, the last one is %+v, of %d more", n, got.Resources[n-1], got.More)
	}
}

func TestParting(t *testing.T) {
	for _, tc := range []struct {
		reason, app string
		detached    bool
		want        string // finalizers, phase, operation
	}{
		{"an ordinary one", `{"metadata":{"finalizers":["resources-finalizer.argocd.argoproj.io"]}}`, false, "[resources-finalizer.argocd.argoproj.io]  false"},
		{"somebody took the finalizer away", `{"metadata":{}}`, false, "[resources-finalizer.argocd.argoproj.io]  false"},
		{"another way of taking things along", `{"metadata":{"finalizers":["resources-finalizer.argocd.argoproj.io/background"]}}`, false, "[resources-finalizer.argocd.argoproj.io/background]  false"},
		{"its cluster is gone", `{"metadata":{"finalizers":["resources-finalizer.argocd.argoproj.io"]}}`, true, "[]  false"},
		{"a sync is under way", `{"metadata":{"finalizers":["resources-finalizer.argocd.argoproj.io"]},"operation":{},"status":{"operationState":{"phase":"Running"}}}`, false, "[resources-finalizer.argocd.argoproj.io] Terminating true"},
		{"a sync has not begun", `{"metadata":{"finalizers":["resources-finalizer.argocd.argoproj.io"]},"operation":{}}`, false, "[resources-finalizer.argocd.argoproj.io]  false"},
	} {
		t.Run(tc.reason, func(t *testing.T) {
			o, _ := argocd.Parting(parse(t, tc.app), tc.detached, time.Time{})
			phase, _, _ := unstructured.NestedString(o.Object, "status", "operationState", "phase")
			if got := fmt.Sprint(o.GetFinalizers(), " ", phase, " ", o.Object["operation"] != nil); got != tc.want {
				t.Errorf("got %q, want %q", got, tc.want)
			}
		})
	}
}

// Argo CD is reminded of what is being deleted, and not all the time.
func TestReminded(t *testing.T) {
	app := parse(t, `{"metadata":{"finalizers":["resources-finalizer.argocd.argoproj.io"],"deletionTimestamp":"2026-11-15T18:59:00Z"}}`)
	at := func(seconds int) time.Time { return time.Date(2026, 11, 15, 18, 59, seconds, 0, time.UTC) }
	for _, tc := range []struct {
		reason string
		now    time.Time
		want   bool
	}{
		{"it has only begun", at(9), false},
		{"it takes long", at(10), true},
		{"it was just reminded", at(12), false},
		{"it takes longer", at(20), true},
	} {
		next, differs := argocd.Parting(app, false, tc.now)
		if differs != tc.want || differs == reflect.DeepEqual(next, app) {
			t.Errorf("%s: reminded: %v", tc.reason, differs)
		}
		app = next
	}
}

// Argo CD is reminded of a sync that it was asked for a while ago and has not begun.
func TestRemindedOfSyncs(t *testing.T) {
	const asked = `"annotations":{"drover.dev/reminded":"2026-11-15T18:59:00Z"%s}`
	const operation = `{"info":[{"name":"drover-sync","value":"%s"}]}`
	wants := func(marks, rest string) string { return `{"metadata":{` + fmt.Sprintf(asked, marks) + `}` + rest + `}` }
	for _, tc := range []struct {
		reason, app, sync string
		seconds           int
		want              bool
	}{
		{"it was asked just now", wants("", `,"operation":`+fmt.Sprintf(operation, "r1")), "r1", 9, false},
		{"it was asked a while ago", wants("", `,"operation":`+fmt.Sprintf(operation, "r1")), "r1", 10, true},
		{"it looks at the repository for long", wants(`,"argocd.argoproj.io/refresh":"normal"`, ""), "r1", 10, true},
		{"it has begun", wants("", `,"operation":`+fmt.Sprintf(operation, "r1")+`,"status":{"operationState":{"phase":"Running","operation":`+fmt.Sprintf(operation, "r1")+`}}`), "r1", 60, false},
		{"another one is under way", wants("", `,"operation":`+fmt.Sprintf(operation, "r0")), "r1", 60, false},
		{"it is to look at the repository, and no more", wants(`,"argocd.argoproj.io/refresh":"normal"`, ""), "", 10, true},
		{"and was told to just now", wants(`,"argocd.argoproj.io/refresh":"normal"`, ""), "", 9, false},
		{"it is to end what is under way", wants("", `,"status":{"operationState":{"phase":"Terminating"}}`), "", 10, true},
		{"it compares what was there before", wants("", `,"spec":{"source":{"repoURL":"r","path":"b"}},"status":{"sync":{"comparedTo":{"source":{"repoURL":"r","path":"a"}}}}`), "", 10, true},
		{"it compares what there is", wants("", `,"spec":{"source":{"repoURL":"r","path":"b"}},"status":{"sync":{"comparedTo":{"source":{"repoURL":"r","path":"b"}}}}`), "", 60, false},
		{"it finds it invalid", wants("", `,"spec":{"source":{"repoURL":"r","path":"b"}},"status":{"sync":{"comparedTo":{"source":{"repoURL":"r","path":"a"}}},"conditions":[{"type":"InvalidSpecError"}]}`), "", 60, false},
		{"it has compared nothing yet", wants("", `,"spec":{"source":{"repoURL":"r","path":"b"}}`), "", 60, false},
		{"nothing is asked for", wants("", `,"status":{"operationState":{"phase":"Running"}}`), "", 60, false},
		{"nobody knows when it was", `{"metadata":{},"operation":` + fmt.Sprintf(operation, "r1") + `}`, "r1", 60, false},
	} {
		if got := argocd.Unheard(parse(t, tc.app), tc.sync, time.Date(2026, 11, 15, 18, 59, tc.seconds, 0, time.UTC)); got != tc.want {
			t.Errorf("%s: %v", tc.reason, got)
		}
	}
}

func TestStuck(t *testing.T) {
	at := time.Date(2026, 11, 15, 19, 0, 0, 0, time.UTC)
	const going = `{"metadata":{"deletionTimestamp":"2026-11-15T18:59:00Z"},"status":%s}`
	for _, tc := range []struct {
		reason, status string
		late           time.Duration
		want           string
	}{
		{"it has only begun", `{"resources":[{"kind":"ConfigMap","name":"a","status":"Synced"}]}`, -time.Second, "it is being removed"},
		{"what waits for its finalizers is named at once, and what is gone is not", `{"resources":[{"kind":"ConfigMap","name":"a","health":{"status":"Missing"}},
			{"kind":"ConfigMap","name":"kept","health":{"status":"Progressing","message":"Pending deletion"}}]}`, -time.Second,
			"it is being removed, and waits for what has finalizers that nobody has taken off: ConfigMap kept"},
		{"Argo CD says nothing for a minute", `{"resources":[{"kind":"Pod","name":"p","health":{"status":"Healthy"}},{"kind":"ConfigMap","name":"a","health":{"status":"Missing"}}]}`, 0,
			"it is being removed since 2026-11-15T18:59:00Z, and Argo CD has not finished; look at Pod p"},
		{"its own word comes first", `{"conditions":[{"type":"DeletionError","message":"no project"}],"resources":[{"kind":"ConfigMap","name":"kept","health":{"message":"Pending deletion"}}]}`, 0,
			"it is being removed, and Argo CD cannot: no project"},
		{"nor does a project that is not there hide behind what is gone", `{"conditions":[{"type":"DeletionError","message":"appproject.argoproj.io \"p\" not found"}]}`, 0,
			"it is being removed, and Argo CD cannot: appproject.argoproj.io \"p\" not found"},
		{"what it did not find is gone, and not what it waits for", `{"conditions":[{"type":"DeletionError","message":"configmaps \"a\" not found"}],"resources":[{"kind":"ConfigMap","name":"a","status":"Synced"},{"kind":"ConfigMap","name":"kept","status":"Synced"}]}`, 0,
			"it is being removed since 2026-11-15T18:59:00Z, and Argo CD has not finished; look at ConfigMap kept"},
		{"many", `{"resources":[` + strings.Repeat(`{"kind":"K","name":"n","health":{"message":"Pending deletion"}},`, 6) + `{"kind":"K","name":"n","health":{"message":"Pending deletion"}}]}`, 0,
			"it is being removed, and waits for what has finalizers that nobody has taken off: K n, K n, K n, K n, K n and 2 more"},
	} {
		if got := argocd.Stuck(parse(t, fmt.Sprintf(going, tc.status)), at.Add(tc.late)); got != tc.want {
			t.Errorf("%s: %q", tc.reason, got)
		}
	}
}

// Whatever Argo CD, others and crashes do, each sync is begun at most once, never
// while another operation is under way, and ends.
func TestStepProperty(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		s := &argocd.Syncing{Marks: map[string]string{}, App: object{}}
		begun, at := map[string]int{}, 0
		d := plain()
		phase := func() string {
			p, _, _ := unstructured.NestedString(s.App, "status", "operationState", "phase")
			return p
		}
		argo := func() { // Argo CD gets on
			if s.Marks["argocd.argoproj.io/refresh"] != "" {
				delete(s.Marks, "argocd.argoproj.io/refresh")
				return
			}
			switch op := s.App["operation"]; {
			case op == nil:
			case phase() == "Running" || phase() == "Terminating":
				end := rapid.SampledFrom([]string{"Succeeded", "Failed", "Error"}).Draw(t, "end")
				if phase() == "Terminating" {
					end = "Failed"
				}
				_ = unstructured.SetNestedField(s.App, end, "status", "operationState", "phase")
				delete(s.App, "operation")
			default:
				s.App["status"] = object{"operationState": object{"phase": "Running", "operation": op}}
			}
		}
		for range rapid.IntRange(1, 60).Draw(t, "steps") {
			switch rapid.IntRange(0, 6).Draw(t, "what") {
			case 0:
				at++
				d.Sync = &runtime.SyncRequest{ID: fmt.Sprint("run-", at)}
			case 1:
				if d.Sync != nil {
					d.Sync.Terminate = true
				}
			case 2:
				if s.App["operation"] == nil && phase() != "Running" { // somebody else's
					s.App["operation"] = object{"sync": object{}}
				}
			case 3:
				s.Forget = true
			default:
				argo()
			}
			busy := s.App["operation"] != nil || phase() == "Running" || phase() == "Terminating"
			if s.Step(d) == "begin" {
				if begun[d.Sync.ID]++; begun[d.Sync.ID] > 1 || busy {
					t.Fatalf("%s was begun %d times, busy %v", d.Sync.ID, begun[d.Sync.ID], busy)
				}
			}
		}
		if d.Sync == nil {
			return
		}
		for range 20 {
			argo()
			s.Step(d)
		}
		if s.Run == nil || s.Run.ID != d.Sync.ID || s.Run.Phase == "Running" || s.Run.Phase == "Terminating" {
			t.Fatalf("%s has not ended: %+v", d.Sync.ID, s.Run)
		}
	})
}
