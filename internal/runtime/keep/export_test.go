package keep

import (
	"log/slog"

	"github.com/droverhq/drover/internal/runtime"
)

// Complain is what a shift says of an item that cannot be applied.
func Complain(log *slog.Logger, r Record, err error) {
	(&Shift{d: &Desk{cfg: Config{Logger: log}}}).Complain(&Entry{Record: r}, err)
}

// Offer gives a record an item, as Apply does.
func Offer(r *Record, it runtime.Item) (same bool, err error) {
	if same, err = r.fence(it); err == nil && !same {
		r.take(it)
	}
	return same, err
}

// PackAndUnpack is the way to a Secret and back.
func PackAndUnpack(r Record) (Record, int, error) {
	parts, err := pack(r)
	if err != nil {
		return r, 0, err
	}
	out, err := unpack(parts)
	return out, len(parts), err
}

// Unpack is unpack.
func Unpack(parts [][]byte) error { _, err := unpack(parts); return err }
