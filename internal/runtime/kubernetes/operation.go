package kubernetes

import (
	"encoding/json"
	"slices"
	"strings"
	"time"

	"github.com/droverhq/drover/internal/manifest"
	"github.com/droverhq/drover/internal/runtime"
	"github.com/droverhq/drover/internal/runtime/keep"
)

const (
	succeeded  = "Succeeded"
	failed     = "Failed"
	maxResults = 500 // of one sync that are told
)

// operation is the last sync of a deployment, as Argo CD words it in operationState.
type operation struct {
	Operation struct {
		Sync struct {
			Revision string `json:"revision,omitempty"`
			Prune    bool   `json:"prune,omitempty"`
		} `json:"sync"`
		InitiatedBy struct {
			Username  string `json:"username,omitempty"`
			Automated bool   `json:"automated,omitempty"`
		} `json:"initiatedBy"`
	} `json:"operation"`
	Phase      string    `json:"phase"`
	Message    string    `json:"message,omitempty"`
	SyncResult result    `json:"syncResult"`
	StartedAt  time.Time `json:"startedAt"`
	FinishedAt time.Time `json:"finishedAt"`
}

type result struct {
	Revision string `json:"revision"`
	Source   struct {
		RepoURL        string `json:"repoURL"`
		Path           string `json:"path,omitempty"`
		TargetRevision string `json:"targetRevision,omitempty"`
	} `json:"source"`
	Resources []synced `json:"resources,omitempty"`
}

// synced is what a sync did with one object.
type synced struct {
	Group     string `json:"group"`
	Version   string `json:"version"`
	Kind      string `json:"kind"`
	Namespace string `json:"namespace"`
	Name      string `json:"name"`
	Status    string `json:"status,omitempty"`
	Message   string `json:"message,omitempty"`
	SyncPhase string `json:"syncPhase,omitempty"`
}

// userPrefix is what Argo CD's history shows before the id of a sync; alike here.
const userPrefix = "drover:"

// operationOf is a sync of a document that has come to an end.
func operationOf(doc document, phase, message string, began, ended time.Time) *operation {
	o := &operation{Phase: phase, Message: message, StartedAt: began.UTC().Truncate(time.Second), FinishedAt: ended.UTC().Truncate(time.Second)}
	d := doc.Deployment
	if d == nil {
		return o
	}
	o.Operation.Sync.Revision, o.Operation.Sync.Prune = d.Commit, d.Prune
	if d.Manual {
		o.Operation.InitiatedBy.Username = userPrefix + d.Run
	} else {
		o.Operation.Sync.Prune, o.Operation.InitiatedBy.Automated = true, true
	}
	o.SyncResult.Revision = d.Commit
	o.SyncResult.Source.RepoURL, o.SyncResult.Source.Path, o.SyncResult.Source.TargetRevision = d.Repository, d.Path, d.Revision
	return o
}

// did adds what became of the objects. What was written comes first: there may be more
// than are told.
func (o *operation) did(doc document, wrote manifest.Result, pruned []string) {
	versions := map[string]string{}
	for _, m := range doc.Manifests {
		api, _ := m["apiVersion"].(string)
		kind, _ := m["kind"].(string)
		group := groupPrefix(api)
		versions[strings.TrimSuffix(group, "/")+"/"+kind] = api[len(group):]
	}
	rest := slices.DeleteFunc(slices.Clone(wrote.Inventory), func(line string) bool {
		return slices.Contains(wrote.Created, line) || slices.Contains(wrote.Changed, line)
	})
	for _, part := range []struct {
		lines       []string
		status, how string
	}{{wrote.Created, "Synced", "created"}, {wrote.Changed, "Synced", "configured"}, {pruned, "Pruned", "pruned"}, {rest, "Synced", "unchanged"}} {
		for _, line := range part.lines {
			id, err := manifest.Parse(line)
			if err != nil || len(o.SyncResult.Resources) == maxResults {
				continue
			}
			one := synced{Group: id.Group, Version: versions[id.Group+"/"+id.Kind], Kind: id.Kind, Namespace: id.Namespace, Name: id.Name, Status: part.status, SyncPhase: "Sync"}
			one.Message = strings.ToLower(id.Kind) + "/" + id.Name + " " + part.how
			if part.status == "Pruned" {
				one.Message = "pruned"
			}
			o.SyncResult.Resources = append(o.SyncResult.Resources, one)
		}
	}
}

// unsynced reports whether applying the body is a sync: what was applied as a whole
// before is only looked after, and what is put right is told as that.
func (m *memory) unsynced(body json.RawMessage) bool {
	return m.Operation == nil || m.Operation.Phase != succeeded || m.Made != digest(body)
}

// fails notes a sync that could not be carried out. One that goes on to fail for the
// same reason is the same, whenever it is tried.
func (m *memory) fails(doc document, message string, began, now time.Time) {
	next := operationOf(doc, failed, message, began, now)
	if was := m.Operation; was != nil && was.Phase == failed && was.Message == message && was.Operation == next.Operation {
		return
	}
	m.Operation = next
}

// asked reports whether a sync is what was to be done: of a manual deployment only one
// that is asked for and was not carried out yet.
func (m *memory) asked(doc document) bool {
	return !doc.manual() || doc.Deployment.Run != "" && doc.Deployment.Run != m.Run
}

// keepFailure writes a failed sync into the record; it is saved with what is seen.
func keepFailure(e *keep.Entry, doc document, message string, began, now time.Time) {
	m := remember(e.Record.Own)
	if e.Record.Kind != runtime.KindDeployment || !m.asked(doc) {
		return
	}
	m.fails(doc, message, began, now)
	if own, err := json.Marshal(m); err == nil {
		e.Record.Own = own
	}
}

// told is the operation in its own words; nil: there was none.
func (m *memory) told() json.RawMessage {
	if m.Operation == nil {
		return nil
	}
	b, _ := json.Marshal(m.Operation) // texts and times
	return b
}
