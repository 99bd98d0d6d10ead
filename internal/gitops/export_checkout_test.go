package gitops

import (
	"context"
	"time"

	"github.com/droverhq/drover/internal/source"
)

// ManifestsOf is manifestsOf for a workspace of one namespace.
func ManifestsOf(files map[string]source.File, namespace string) ([]map[string]any, error) {
	return manifestsOf(files, bounds{Namespace: namespace})
}

// Lookout is lookout.
type Lookout struct{ lookout }

// Head is head, by the time of day.
func (l *Lookout) Head(ctx context.Context, key, revision string, since time.Time, ask func(context.Context) (func(string) (string, error), error)) (string, error) {
	return l.head(ctx, key, revision, since, time.Now, ask)
}
