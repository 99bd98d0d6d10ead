package kubernetes

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"slices"
	"strings"
	"time"

	"github.com/droverhq/drover/internal/manifest"
	"github.com/droverhq/drover/internal/runtime"
	"github.com/droverhq/drover/internal/runtime/keep"
)

// maxHealed objects are told of one repair.
const maxHealed = 5

// intact reports whether all of what an item asks for was there once, so that what
// is missing or another now is somebody else's doing. It is pure.
func intact(rec keep.Record, m memory) bool {
	if m.Made == "" { // written by an agent that did not note it
		return rec.Seen.Generation == rec.Generation && rec.Seen.State == runtime.Ready
	}
	return m.Made == digest(rec.Body)
}

func digest(body json.RawMessage) string {
	sum := sha256.Sum256(body)
	return hex.EncodeToString(sum[:8])
}

// heals adds what is about to be written to what is being put right; false: there is
// nothing to add, or the item is only being made. A repair that was begun is one
// until everything is right, whatever fails or is killed meanwhile. It is pure.
func (m *memory) heals(rec keep.Record, will manifest.Result, now time.Time) bool {
	if rec.Kind != runtime.KindDeployment || !intact(rec, *m) {
		return false
	}
	var what []string
	if m.Healing != nil {
		what = strings.Split(m.Healing.What, ", ")
	}
	before := len(what)
	for _, did := range []struct {
		verb  string
		lines []string
	}{{" was deleted", will.Created}, {" was changed", will.Changed}} {
		for _, line := range did.lines {
			if id, err := manifest.Parse(line); err == nil && !slices.Contains(what, "the "+id.Words()+did.verb) {
				what = append(what, "the "+id.Words()+did.verb)
			}
		}
	}
	if len(what) == before || before > maxHealed {
		return false
	}
	slices.Sort(what[before:])
	if len(what) > maxHealed {
		what = append(what[:maxHealed], "and others")
	}
	m.Made = digest(rec.Body)
	m.Healing = &runtime.Healed{At: now.UTC().Truncate(time.Second), What: strings.Join(what, ", ")}
	return true
}

// notice writes down what is about to be put right. That comes first: whoever is
// killed after a repair has left word of it.
func (s *shift) notice(ctx context.Context, e *keep.Entry, will manifest.Result) error {
	m := remember(e.Record.Own)
	if !m.heals(e.Record, will, s.r.cfg.Now()) {
		return nil
	}
	return s.memorize(ctx, e, m)
}

// mended notes that everything is as it should be, and tells what was put right.
func (s *shift) mended(ctx context.Context, e *keep.Entry) error {
	if e.Record.Kind != runtime.KindDeployment {
		return nil
	}
	m := remember(e.Record.Own)
	m.Made = digest(e.Record.Body)
	if m.Healing == nil {
		// This comes along when something else is written down: without it, it is found
		// out anew.
		own, err := json.Marshal(m)
		e.Record.Own = own
		return err
	}
	s.r.cfg.Logger.WarnContext(e.Record.About(ctx), "put right what was not done by us", "what", m.Healing.What, "item", e.Record.ID)
	m.Healed, m.Healing = m.Healing, nil
	return s.memorize(ctx, e, m)
}

// Healed implements keep.Healer.
func (s *shift) Healed(next *keep.Record, what string) {
	if next.Kind != runtime.KindDeployment {
		return
	}
	m := remember(next.Own)
	m.Healed = &runtime.Healed{At: s.r.cfg.Now().UTC().Truncate(time.Second), What: what}
	if own, err := json.Marshal(m); err == nil {
		next.Own = own
	}
}
