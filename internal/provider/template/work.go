package template

import (
	"context"
	"fmt"
	"path/filepath"
	"strings"
	"time"

	"github.com/droverhq/drover/internal/fault"
	"github.com/droverhq/drover/internal/provider"
	"github.com/droverhq/drover/internal/tofu"
)

// work runs apply or destroy. A later run meets its lock, and waits.
func (r *run) work(ctx context.Context, verb string) error {
	return tofu.Work(ctx, tofu.Job{
		Binary: r.binary, Dir: filepath.Join(r.dir, "module"), Env: r.environment(), Within: stopWithin,
		Args: []string{verb, "-auto-approve", "-input=false", "-no-color", "-json"}, Log: filepath.Join(r.dir, verb+".log"),
	})
}

// askAgain is when to look whether an earlier run has ended.
const askAgain = 5 * time.Second

// busy turns the lock of an earlier run, whose caller is gone, into waiting.
func busy(id string, err error) (provider.Progress, error) {
	if fault.Is(err, fault.Unavailable) && strings.Contains(err.Error(), "state lock") {
		return provider.Progress{Message: fmt.Sprintf("an earlier run on cluster %s is still at work", id), After: askAgain}, nil
	}
	return provider.Progress{}, err
}
