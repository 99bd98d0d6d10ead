package environment_test

import (
	"context"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/droverhq/drover/internal/environment"
	"github.com/droverhq/drover/internal/executor"
)

// shelf has another file beside each version.
type shelf struct{ stencils }

func (shelf) Files(_ context.Context, version, _ string) (map[string][]byte, error) {
	return map[string][]byte{"run.sh": []byte(version)}, nil
}

// reader is a forge that takes things away with the files of their template.
type reader struct {
	*forge
	read map[string]string // by address
}

func (r *reader) Destroy(ctx context.Context, res executor.Resource) (executor.Result, error) {
	all, err := res.Files(ctx)
	if err != nil {
		return executor.Result{}, err
	}
	r.read[res.Address] = string(all["run.sh"])
	return r.forge.Destroy(ctx, res)
}

// What a later version has no more is taken away with the files that it was made
// with: that version need not have them.
func TestFilesOfWhatGoes(t *testing.T) {
	w := newWorld(t, t.TempDir())
	r := &reader{w.forge, map[string]string{}}
	w.configs = append(w.configs, func(c *environment.Config) {
		c.Templates, c.Executors = shelf{w.plans}, map[string]executor.Executor{"forge": r}
	})
	w.open()
	t.Cleanup(func() { w.store.Close() })
	w.add("1", shop("db", "made", "begun"))
	w.forge.trouble = map[string]string{"begun": "broken"}
	w.up("staging", nil)
	w.forge.trouble = nil
	w.add("2", shop("db"))
	_, _, err := w.s.Change(alice, environment.PlanOrder{Environment: "staging", Template: "shop"})
	w.must(err)
	w.work(time.Minute)
	if diff := cmp.Diff(map[string]string{"made": "shop@1", "begun": "shop@1"}, r.read); diff != "" {
		t.Error(diff)
	}
}
