package argocd

import (
	"cmp"
	"encoding/json"
	"slices"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/droverhq/drover/internal/runtime"
)

// Bounds of what is told of one deployment.
const (
	maxResources = 2000
	maxOperation = 128 << 10
	maxHistory   = 10
)

// seenApplication is the part of an Application that is read.
type seenApplication struct {
	Operation *operation  `json:"operation"`
	Status    argocdState `json:"status"`
}

type operation struct {
	Info        []struct{ Name, Value string } `json:"info"`
	InitiatedBy struct{ Automated bool }       `json:"initiatedBy"`
	Sync        struct {
		Revision    string
		Source      origin
		SyncOptions []string
	} `json:"sync"`
}

// origin is where Argo CD reads.
type origin struct{ RepoURL, Path, TargetRevision string }

// sync is the id of the sync that an operation is; empty: somebody else's.
func (o *operation) sync() string {
	if o == nil {
		return ""
	}
	for _, i := range o.Info {
		if i.Name == infoName {
			return i.Value
		}
	}
	return ""
}

type argocdState struct {
	Sync struct {
		Status, Revision string
		ComparedTo       struct {
			Source      origin
			Destination struct{ Name, Namespace string }
		}
	}
	Health    runtime.HealthStatus
	Resources []struct {
		Group, Version, Kind, Namespace, Name, Status string
		Health                                        *runtime.HealthStatus
	}
	Conditions     []runtime.DeployedCondition
	OperationState *operationState
	History        []struct {
		ID                          int64
		Revision                    string
		DeployStartedAt, DeployedAt time.Time
		Source                      struct{ RepoURL, Path, TargetRevision string }
		InitiatedBy                 struct {
			Username  string
			Automated bool
		}
	}
}

type operationState struct {
	Operation             operation
	Phase, Message        string
	StartedAt, FinishedAt time.Time
	RetryCount            int64
	SyncResult            struct {
		Revision  string
		Resources []runtime.SyncedResource
	}
}

// view reads an Application. What cannot be read is not there.
func view(app *unstructured.Unstructured) seenApplication {
	var v seenApplication
	if app == nil {
		return v
	}
	for field, into := range map[string]any{"operation": &v.Operation, "status": &v.Status} {
		if app.Object[field] == nil {
			continue
		}
		if b, err := json.Marshal(app.Object[field]); err == nil {
			_ = json.Unmarshal(b, into)
		}
	}
	return v
}

// detail tells what is seen of a deployment. It is pure, and the same for the
// same.
func detail(app *unstructured.Unstructured, m memory) (json.RawMessage, error) {
	v := view(app)
	st := v.Status
	out := runtime.Deployed{
		Sync:   runtime.SyncStatus{Status: cmp.Or(st.Sync.Status, "Unknown"), Revision: st.Sync.Revision},
		Health: runtime.HealthStatus{Status: cmp.Or(st.Health.Status, "Unknown"), Message: short(st.Health.Message, 1000)},
		Run:    m.Run, Healed: m.Healed, Diff: m.diff, NoDiff: m.noDiff,
	}
	for _, r := range st.Resources {
		one := runtime.DeployedResource{Group: r.Group, Version: r.Version, Kind: r.Kind, Namespace: r.Namespace, Name: r.Name, Status: r.Status}
		if r.Health != nil && r.Health.Status != "" {
			one.Health = &runtime.HealthStatus{Status: r.Health.Status, Message: short(r.Health.Message, 500)}
		}
		out.Resources = append(out.Resources, one)
	}
	slices.SortStableFunc(out.Resources, func(a, b runtime.DeployedResource) int {
		return cmp.Or(cmp.Compare(a.Group, b.Group), cmp.Compare(a.Kind, b.Kind), cmp.Compare(a.Namespace, b.Namespace), cmp.Compare(a.Name, b.Name), cmp.Compare(a.Version, b.Version))
	})
	if len(out.Resources) > maxResources {
		out.Resources, out.More = runtime.Foremost(out.Resources, maxResources), len(out.Resources)-maxResources
	}
	for _, c := range st.Conditions {
		if unheard(c) {
			continue
		}
		out.Conditions = append(out.Conditions, runtime.DeployedCondition{Type: c.Type, Message: short(c.Message, 4000)})
	}
	for _, c := range m.shared {
		if !slices.Contains(out.Conditions, c) {
			out.Conditions = append(out.Conditions, c)
		}
	}
	out.Conditions = beset(out.Conditions, m.Trouble)
	slices.SortStableFunc(out.Conditions, func(a, b runtime.DeployedCondition) int {
		return cmp.Or(cmp.Compare(a.Type, b.Type), cmp.Compare(a.Message, b.Message))
	})
	if to := st.Sync.ComparedTo; to.Source.RepoURL != "" {
		out.Compared = &runtime.Compared{Repository: to.Source.RepoURL, Path: to.Source.Path, Revision: to.Source.TargetRevision,
			Target: targetOf(to.Destination.Name, m), Namespace: to.Destination.Namespace}
	}
	if app != nil {
		out.Operation = bounded(app.Object)
	}
	for _, h := range st.History {
		by := strings.TrimPrefix(h.InitiatedBy.Username, userPrefix)
		if h.InitiatedBy.Automated {
			by = "automated"
		}
		out.History = append(out.History, runtime.DeployedRevision{ID: h.ID, Revision: h.Revision, Started: h.DeployStartedAt, Deployed: h.DeployedAt, By: by,
			Repository: h.Source.RepoURL, Path: h.Source.Path, Asked: h.Source.TargetRevision})
	}
	slices.SortStableFunc(out.History, func(a, b runtime.DeployedRevision) int { return cmp.Compare(a.ID, b.ID) })
	out.History = out.History[max(0, len(out.History)-maxHistory):]
	return json.Marshal(out)
}

// targetOf is the id of the target whose cluster Argo CD knows by a name.
func targetOf(name string, m memory) string {
	if d := m.last(); d != nil && d.Target != nil && clusterName(d.Target.ID) == name {
		return d.Target.ID
	}
	id, _ := strings.CutPrefix(name, "managed-env-")
	if name == inCluster || id == name {
		return ""
	}
	return id
}

// bounded is the operationState as it is, without what would make it too large.
func bounded(app map[string]any) json.RawMessage {
	state, _, _ := unstructured.NestedMap(app, "status", "operationState")
	if state == nil {
		return nil
	}
	for _, drop := range [][]string{nil, {"operation", "sync", "manifests"}, {"syncResult", "resources"}, {"operation"}, {"syncResult"}} {
		if drop != nil {
			unstructured.RemoveNestedField(state, drop...)
		}
		if b, err := json.Marshal(state); err == nil && len(b) <= maxOperation {
			return b
		}
	}
	return nil
}

// short cuts a text to a number of bytes.
func short(s string, n int) string {
	if len(s) <= n {
		return s
	}
	return strings.ToValidUTF8(s[:n-3], "") + "..."
}
