package ledger

import (
	"context"
	"time"

	"github.com/droverhq/drover/internal/fault"
)

// Past is the log, and the proof that it is what was written.
type Past interface {
	Log
	Archive
	Sealer
}

// Archive reads what a verification needs, as it lies there.
type Archive interface {
	// Entries returns what is in the log after a sequence, in order. Up to the
	// last checkpoint there are gaps.
	Entries(ctx context.Context, after int64, limit int) ([]Entry, error)
	// Blocks returns blocks after a number, in order, with their seals; with a
	// limit below zero the last ones, newest first, without.
	Blocks(ctx context.Context, after int64, limit int) ([]Block, error)
	// Checkpoints returns all, in order.
	Checkpoints(ctx context.Context) ([]Checkpoint, error)
	// Standing returns objects of a kind, after an id and in the order of ids, as
	// an entry of the log would say it of them: in its form, without sequence,
	// time, actor, cause and verb. Those of a kind that the store does not know
	// are none.
	Standing(ctx context.Context, kind, after string, limit int) ([]Entry, error)
	// Compare reads one object and its last change at one moment, and tells
	// whether they agree; NotFound if there is neither.
	Compare(ctx context.Context, ref Ref) (Standing, error)
}

// Standing is an object beside its last change.
type Standing struct {
	Seq     int64 // of the change; 0: the log has none
	Object  bool  // it is there
	Erased  bool  // the change's content was, which Erase never does: there is nothing to compare with
	Same    bool
	Version int64 // of the object
}

// Sealer writes proof, beside those who write changes.
type Sealer interface {
	// AppendBlock adds a signed block behind the last one. Conflict (reason
	// "sealed") if another one is there, which is as good.
	AppendBlock(ctx context.Context, block Block) error
	// Truncate writes a checkpoint: from then on readers of what is before it are
	// told so. What it drops is dropped by Prune. Conflict (reason "sealed") if
	// there is a later one.
	Truncate(ctx context.Context, checkpoint Checkpoint) error
	// Prune removes a bounded piece of what the last checkpoint drops, and tells
	// whether there may be more. It may be stopped anywhere.
	Prune(ctx context.Context) (more bool, err error)
	// Erase takes the content of a sealed change away, with its salt. Conflict
	// (reason "unsealed") if it is not sealed yet, (reason "present") if its object
	// is still what it says.
	Erase(ctx context.Context, seq int64) error
}

// Truncated is what whoever asks for what was before the log's beginning is told.
func Truncated(h Head) error {
	return fault.New(fault.NotFound, "there is history from %s on (after change %d): what was before was removed by the rule of retention",
		h.Since.UTC().Format(time.RFC3339), h.Whole).Because("truncated")
}
