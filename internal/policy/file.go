package policy

import (
	"context"

	"github.com/droverhq/drover/internal/document"
	"github.com/droverhq/drover/internal/ledger"
)

// onDisk is how the source of a watched file begins.
const onDisk = "file:"

// WatchFiles applies the policies of files, and of all files in directories, now
// and whenever one changes, until ctx ends. What goes away, or is broken,
// removes nothing: why it has no effect is logged. It is one goroutine, the
// caller's, besides the watcher's, which it stops.
func (s *Service) WatchFiles(ctx context.Context, paths []string) error {
	return document.Watch{
		Paths: paths, Bytes: maxFile, Log: s.Log,
		All: "policies", One: "policy file", Stay: "its policies stay in force until they are deleted",
		Apply: func(ctx context.Context, file string, data []byte) error {
			changed, err := s.applyFile(ctx, onDisk+file, data)
			if err == nil {
				s.Log.InfoContext(ctx, "policy file read", "file", file, "changed", changed)
			}
			return err
		},
	}.Run(ctx)
}

// applyFile tells how many policies it has changed.
func (s *Service) applyFile(ctx context.Context, source string, data []byte) (changed int, err error) {
	documents, err := Parse(source, data)
	if err != nil {
		return 0, err
	}
	ctx = ledger.WithCause(ctx, ledger.BySchedule("policy files"))
	applied, err := s.apply(ctx, source, documents, func(before Status, digest string) bool { return before.Said[source] != digest })
	for _, a := range applied {
		if a.Changed {
			changed++
		}
	}
	return changed, err
}
