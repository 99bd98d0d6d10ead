package agent

import (
	"context"
	"fmt"

	v1 "github.com/droverhq/drover/api/v1"
	"github.com/droverhq/drover/internal/runtime"
)

// take follows an answer, or says why not in what is reported. news says that
// there is a reason to speak again at once.
func (a *Agent) take(s v1.Synced) (news bool, err error) {
	a.mu.Lock()
	defer a.mu.Unlock()
	log := a.cfg.Logger.With("cluster", a.cfg.Cluster)
	if why := a.mark.refuses(s); why != "" {
		return a.freeze(why), nil
	}
	if next := (mark{Ledger: s.Ledger, Epoch: s.Epoch}); next != a.mark {
		if err := writeMark(a.cfg.Store, next); err != nil {
			return false, fmt.Errorf("cannot write down the epoch: %w", err)
		}
		a.mark, a.seq, a.floor = next, 0, 0
	}
	if s.Token != "" && a.cfg.Tokens != nil {
		if err := a.cfg.Tokens.renew(s.Token); err != nil {
			log.Warn("cannot keep the new token; the old one is used", "error", err)
		}
	}
	if s.Seq < a.floor {
		log.Debug("ignored an answer that is older than the present one", "seq", s.Seq, "present", a.floor)
		return false, nil
	}
	if s.Keys != "" {
		if err := a.pin(s.Keys); err != nil {
			return false, err
		}
		news = true
	}
	first := !a.followed || a.frozen != ""
	if first {
		log.Info("follows the control plane", "epoch", s.Epoch, "seq", s.Seq)
		a.nudge()
	}
	thawed := a.frozen != ""
	a.frozen, a.followed, a.seq, a.floor = "", true, s.Seq, s.Seq
	out := a.book.take(s, a.keys)
	if thawed { // what was put aside is put anew
		out.work = out.work[:0]
		for id, k := range a.book.items {
			if k.listed && k.item.ID != "" {
				out.work = append(out.work, id)
			}
		}
	}
	for _, r := range out.refused {
		log.ErrorContext(runtime.About(context.Background(), r.cause, r.org), "an item is not followed; what runs of it is left alone", "instance", r.id, "why", r.why)
	}
	for _, id := range out.work {
		a.work.put(a.book.items[id].entry())
	}
	if out.news {
		a.nudge() // what was removed may be forgotten now
	}
	a.keep()
	return news || out.news || first, nil
}

// pin takes a key set. What it did not sign is asked for again.
func (a *Agent) pin(text string) error {
	keys, err := parseKeys(text)
	if err != nil {
		return fmt.Errorf("ignored an answer: %w", err)
	}
	if a.keys != nil && a.keys.digest == keys.digest {
		return nil
	}
	if err := a.cfg.Store.Save(keysName, []byte(text)); err != nil {
		return fmt.Errorf("cannot keep the control plane's keys: %w", err)
	}
	a.keys = keys
	a.book.resign(keys, a.mark.Ledger)
	return nil
}

// freeze stops applying; everything keeps running. It says whether that is new.
func (a *Agent) freeze(why string) bool {
	if a.frozen == why {
		return false
	}
	a.cfg.Logger.Error("applies nothing any more; everything keeps running", "cluster", a.cfg.Cluster, "why", why)
	a.frozen, a.followed = why, true
	a.work.clear()
	return true
}
