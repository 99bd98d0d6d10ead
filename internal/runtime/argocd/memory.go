package argocd

import (
	"bytes"
	"context"
	"encoding/json"
	"slices"
	"time"

	"github.com/droverhq/drover/internal/manifest"
	"github.com/droverhq/drover/internal/runtime"
	"github.com/droverhq/drover/internal/runtime/keep"
)

// memory is what has to be known about an item besides what is wanted of it.
type memory struct {
	// Last is the body that the Application was last made of: what its project
	// must allow until it is made of another, or gone.
	Last json.RawMessage `json:"last,omitempty"`
	// Begun is the sync that was last begun, in the Application with the UID.
	Begun   string           `json:"begun,omitempty"`
	BegunIn string           `json:"begun_in,omitempty"`
	Run     *runtime.SyncRun `json:"run,omitempty"`
	// Healing is what somebody did and is being put right, Healed what was put right
	// last.
	Healing *runtime.Healed `json:"healing,omitempty"`
	Healed  *runtime.Healed `json:"healed,omitempty"`
	// Open is the operation that is under way, Done the last one that has ended.
	Open *runtime.DeploymentOperation `json:"open,omitempty"`
	Done *outcome                     `json:"done,omitempty"`
	// Kept: the deployment was let go of. Nothing is looked for when it is removed.
	Kept bool `json:"kept,omitempty"`
	// Trouble is why an automated sync failed that is tried again.
	Trouble string `json:"trouble,omitempty"`

	// What differs, as it was last read, or why that is not known. A restart reads
	// it again.
	diff   []runtime.ResourceDifference
	noDiff string
	// shared are warnings of others that are about this one's objects, too.
	shared []runtime.DeployedCondition
}

// outcome of an operation.
type outcome struct {
	ID      string    `json:"id"`
	State   string    `json:"state"`
	Message string    `json:"message,omitempty"`
	At      time.Time `json:"at"`
}

func remember(own json.RawMessage) memory {
	var m memory
	_ = json.Unmarshal(own, &m) // it was written by us; without it things are found out anew
	return m
}

// pack is the memory as it is written down: how a sync goes that has not ended is
// seen in the Application, and not worth a write each time.
func (m memory) pack() ([]byte, error) {
	if m.Run != nil && !ended(m.Run) {
		m.Run = &runtime.SyncRun{ID: m.Run.ID, Phase: m.Run.Phase}
	}
	return json.Marshal(m)
}

// announces tells whether an operation is there to be shown: it has not ended yet.
func (m *memory) announces(op *runtime.DeploymentOperation) bool {
	return op != nil && (m.Done == nil || m.Done.ID != op.ID)
}

// last is the deployment that the Application was last made of; nil: none.
func (m memory) last() *runtime.Deployment {
	if m.Last == nil {
		return nil
	}
	if d, err := read(m.Last); err == nil {
		return &d
	}
	return nil
}

// Prepare implements keep.Preparer: what the item is made into is written down with
// it, where it was not made into anything before, and so is the operation that is
// about to be announced. Else both would be a second write before the Application.
// One that is still under way is left to whoever shows that it was overtaken.
func (s *shift) Prepare(next *keep.Record) {
	d, err := read(next.Body)
	if err != nil {
		return
	}
	m, made := remember(next.Own), next.Inventory
	if m.Last == nil {
		m.Last, made = next.Body, manifest.Union(made, s.lines(d))
	}
	if m.Open == nil && m.announces(d.Operation) {
		m.Open = d.Operation
	}
	if own, err := m.pack(); err == nil {
		next.Own, next.Inventory = own, made
	}
}

// lines of an inventory: what a deployment is made into.
func (s *shift) lines(d runtime.Deployment) []string {
	return []string{applications.line(s.r.cfg.ArgoCD, applicationName(d.UID)), projects.line(s.r.cfg.ArgoCD, projectName(d))}
}

// memorize writes the memory and the inventory down if they are others. Whoever
// can write there is fenced.
func (w *writer) memorize(ctx context.Context, m memory, inventory []string) error {
	own, err := m.pack()
	if err != nil || bytes.Equal(own, w.e.Record.Own) && slices.Equal(inventory, w.e.Record.Inventory) {
		return err
	}
	next := w.e.Record
	next.Own, next.Inventory = own, inventory
	if err := w.s.Save(ctx, w.e, next); err != nil {
		return err
	}
	w.passed = true
	return nil
}

// shorten writes down that an inventory has no more than this.
func (w *writer) shorten(ctx context.Context, m memory, inventory []string) error {
	if inventory = manifest.Union(inventory); slices.Equal(inventory, w.e.Record.Inventory) {
		return nil
	}
	return w.memorize(ctx, m, inventory)
}

// settle shows what was seen, and writes it down with the memory where a restart
// should know.
func (s *shift) settle(ctx context.Context, e *keep.Entry, m memory, seen runtime.Observed) error {
	own, err := m.pack()
	if err != nil {
		return err
	}
	if bytes.Equal(own, e.Record.Own) {
		return s.Settle(ctx, e, seen)
	}
	next := e.Record
	next.Own, next.Seen = own, seen
	next.Settled = next.Settled || seen.State == runtime.Ready
	if err := s.Save(ctx, e, next); err != nil {
		return err
	}
	s.Show(e, seen)
	return nil
}
