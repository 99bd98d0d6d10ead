package process

import (
	"fmt"
	"maps"
	"os"
	"slices"

	"github.com/droverhq/drover/internal/executor"
)

// self is the process that this is.
var self = os.Getpid

// taken is what this server can be corrected in while it runs. What it would have to be
// started anew for is told, and is no drift: nobody here can mend it.
func (w wanted) taken(fields []executor.Field, unready string) (drift []executor.Field, why string) {
	for _, f := range fields {
		if takes, _ := w.takes(f.Path); takes {
			drift = append(drift, f)
		} else if unready == "" {
			unready = fmt.Sprintf("%s is not what was applied: this server cannot start itself anew, end it, and `drover bootstrap` starts it as it was", f.Path)
		}
	}
	return drift, unready
}

// renewSome writes those files that this server takes while it runs, and no other.
func (p directory) renewSome(r executor.Resource, rec *record, w wanted, uid, gid int) error {
	others := maps.Clone(rec.Files)
	some := w
	some.files = maps.Clone(w.files)
	maps.DeleteFunc(some.files, func(name, _ string) bool { return !slices.Contains(w.reload.files, name) })
	rec.Files = nil // nothing is removed
	if err := p.renew(r, rec, some, uid, gid); err != nil {
		return err
	}
	rec.Pieces = maps.Clone(rec.Pieces)
	for name := range some.files {
		rec.Pieces["files."+name] = w.pieces["files."+name]
		delete(others, name)
	}
	maps.Copy(rec.Files, others)
	return p.keep(rec)
}
