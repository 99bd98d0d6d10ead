package app

import (
	"context"
	"encoding/json"
	"errors"
	"io/fs"
	"os"
	"path/filepath"

	"github.com/droverhq/drover/internal/fault"
	"github.com/droverhq/drover/internal/site"
	"github.com/droverhq/drover/internal/sqlledger"
)

// kept is what outlives the process: in the site's own database, for all of its replicas
// and those that come after them, and in the data directory for when that cannot be asked.
type kept struct {
	Seen int64  `json:"seen_epoch"` // the highest that anybody told of
	Peer string `json:"peer,omitempty"`
	// Followed is the newest epoch that the other site had a copy of: it may have been
	// promoted from that, and has to be asked before this one leads again.
	Followed int64 `json:"followed_epoch,omitempty"`
	// Drained is in the data directory alone.
	Drained site.Drain `json:"drained,omitzero"`
}

// kept is that of now; the caller has the lock.
func (k *keeper) kept() kept {
	return kept{Seen: k.view.Seen, Peer: k.peer.told, Followed: k.followed, Drained: k.drained}
}

func (k *keeper) recall() (kept, error) {
	var out kept
	data, err := os.ReadFile(filepath.Join(k.cfg.DataDir, siteFile))
	if errors.Is(err, fs.ErrNotExist) {
		return out, nil
	}
	if err == nil {
		err = json.Unmarshal(data, &out)
	}
	if err != nil {
		return out, fault.New(fault.Invalid, "cannot tell from %s which epochs were seen (ask the other site with `drover dr status`, then remove it): %w", filepath.Join(k.cfg.DataDir, siteFile), err)
	}
	return out, nil
}

// remember writes down what must be known when the process is started again; the
// caller has the lock. The database is told with the next look at it.
func (k *keeper) remember() {
	data, err := json.Marshal(k.kept())
	if err == nil {
		err = writePrivate(filepath.Join(k.cfg.DataDir, siteFile), append(data, '\n'))
	}
	if err != nil {
		k.log.Error("cannot write down which epoch was seen: after a restart the database has to tell, or it has to be heard anew", "epoch", k.view.Seen, "error", err)
	}
}

// learn takes what another replica has heard, or one that was here before; the caller
// has the lock.
func (k *keeper) learn(h sqlledger.Heard) {
	before := k.kept()
	k.view.Seen, k.followed = max(k.view.Seen, h.Seen), max(k.followed, h.Followed)
	if h.Peer != "" && !k.moved && h.Peer != k.url && k.believable(h.Peer) {
		if k.peer.told = h.Peer; !k.named {
			k.peer.url = h.Peer
		}
	}
	if before != k.kept() {
		k.remember()
	}
}

// note writes into the database what it does not know yet.
func (k *keeper) note(ctx context.Context, known sqlledger.Heard) {
	k.mu.Lock()
	own := sqlledger.Heard{Seen: max(k.view.Seen, known.Seen), Followed: max(k.followed, known.Followed), Peer: known.Peer}
	if k.moved || known.Peer == "" {
		own.Peer = k.peer.told
	}
	k.mu.Unlock()
	var err error
	if own != known {
		err = k.probe.Note(ctx, own)
	}
	k.mu.Lock()
	defer k.mu.Unlock()
	if err == nil {
		k.standing.Heard, k.moved, k.unnoted = own, k.moved && own.Peer != k.peer.told, ""
	} else if k.unnoted != err.Error() {
		k.unnoted = err.Error()
		k.log.Warn("cannot write into the database what was heard of the other site; it is tried again", "error", err)
	}
}
