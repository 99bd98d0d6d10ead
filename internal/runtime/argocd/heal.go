package argocd

import (
	"context"
	"slices"
	"strings"
	"time"

	"github.com/droverhq/drover/internal/fault"
	"github.com/droverhq/drover/internal/runtime"
	"github.com/droverhq/drover/internal/runtime/keep"
)

// notice writes down what is about to be put right, if it is somebody else's doing
// that is. That comes first: whoever is killed after a repair has left word of it. It
// returns what was noted before.
func (w *writer) notice(ctx context.Context, k kind, name, what string, theirs bool) (before *runtime.Healed, err error) {
	if w.memory == nil || !theirs || !w.s.wasThere(k, name) {
		return nil, nil
	}
	before = w.memory.Healing
	if !w.memory.heals("the "+k.kind+" was "+what, w.s.r.cfg.Now()) {
		return before, nil
	}
	return before, w.memorize(ctx, *w.memory, w.e.Record.Inventory)
}

// unsay takes a notice back: it was not we who wrote.
func (w *writer) unsay(before *runtime.Healed) {
	if w.memory != nil {
		w.memory.Healing = before
	}
}

// heals adds to what is being put right; false: it is noted already. It is pure.
func (m *memory) heals(what string, now time.Time) bool {
	all := []string{what}
	if m.Healing != nil {
		noted := strings.Split(m.Healing.What, ", ")
		if slices.Contains(noted, what) {
			return false
		}
		all = append(noted, what)
	}
	m.Healing = &runtime.Healed{At: now.UTC().Truncate(time.Second), What: strings.Join(all, ", ")}
	return true
}

// mended is when all is as it should be: what was being put right was.
func (m *memory) mended() {
	if m.Healing != nil {
		m.Healed, m.Healing = m.Healing, nil
	}
}

// heal tells the log that something was put right. Where it goes on like that, others
// have their turn first.
func (w *writer) heal(k kind, name, what string) error {
	w.s.r.cfg.Logger.WarnContext(w.e.Record.About(context.Background()), "put right what was not done by us", "kind", k.kind, "name", name, "what", what, "item", w.e.Record.ID)
	if w.s.often(k, name) {
		return fault.New(fault.Unavailable, "somebody keeps changing the %s of Argo CD; it is put right now and then", k.kind).Because("changed-meanwhile")
	}
	return nil
}

// Healed implements keep.Healer.
func (s *shift) Healed(next *keep.Record, what string) {
	m := remember(next.Own)
	m.Healed = &runtime.Healed{At: s.r.cfg.Now().UTC().Truncate(time.Second), What: what}
	if own, err := m.pack(); err == nil {
		next.Own = own
	}
}

// known remembers that an object was there, and tells whether that was known.
func (s *shift) known(k kind, name string) (before bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	key := k.line("", name)
	before = s.there[key]
	s.there[key] = true
	return before
}

// wasThere tells whether an object is known to have been there.
func (s *shift) wasThere(k kind, name string) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.there[k.line("", name)]
}

func (s *shift) unknow(k kind, name string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.there, k.line("", name))
}

// recollect remembers what an item had that was made once, before this shift.
func (s *shift) recollect(d runtime.Deployment) {
	s.known(applications, applicationName(d.UID))
	s.known(projects, projectName(d))
	if s.r.cfg.makesHome(d) {
		s.known(namespaces, d.Namespace)
	}
}

// often reports whether an object was put right more than ten times in a minute.
func (s *shift) often(k kind, name string) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	key, now := k.line("", name), s.r.cfg.Now()
	times := slices.DeleteFunc(s.heals[key], func(t time.Time) bool { return now.Sub(t) > time.Minute })
	s.heals[key] = append(times, now)
	return len(times) >= 10
}
