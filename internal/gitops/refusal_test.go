package gitops_test

import (
	"context"
	"testing"

	"github.com/droverhq/drover/internal/fault"
	"github.com/droverhq/drover/internal/gitops"
)

// Whatever the kind, the same is refused before anything is written.
func TestNoKindIsTakenUnchecked(t *testing.T) {
	ctx := context.Background()
	intend := map[string]func(d *desk, in gitops.Intent) error{
		"deployment": func(d *desk, in gitops.Intent) error {
			x := d.intent("", 1)
			x.Intent = in
			return d.s.IntendDeployment(ctx, x)
		},
		"syncrun": func(d *desk, in gitops.Intent) error {
			x := d.runIntent("")
			x.Intent = in
			return d.s.IntendSyncRun(ctx, x)
		},
		"repository": func(d *desk, in gitops.Intent) error {
			x := d.credential("", 1, password("reader", "s3cret"))
			x.Intent = in
			return d.s.IntendRepository(ctx, x)
		},
		"target": func(d *desk, in gitops.Intent) error {
			x := d.environment("", 1, environmentSecret(withToken("t")))
			x.Intent = in
			return d.s.IntendTarget(ctx, x)
		},
	}
	for kind, do := range intend {
		for _, c := range []struct {
			reason string
			known  bool // it was handed over before, as generation 3
			in     func(in *gitops.Intent)
			kind   fault.Kind
			why    string
		}{
			{"its namespace is not there", false, func(in *gitops.Intent) { in.Namespace.Missing = true }, fault.NotFound, "namespace"},
			{"its namespace is being deleted", false, func(in *gitops.Intent) { in.Namespace.Terminating = true }, fault.Conflict, "terminating"},
			{"it is gone and was never known", false, func(in *gitops.Intent) { in.Gone = true }, fault.NotFound, "unknown"},
			{"it has no UID", false, func(in *gitops.Intent) { in.UID = "" }, fault.Invalid, "uid"},
			{"a later generation is known", true, func(in *gitops.Intent) { in.Generation = 2 }, fault.Conflict, "stale"},
			{"the UID is of another API", true, func(in *gitops.Intent) { in.Generation, in.Namespace.Home = 4, "elsewhere" }, fault.Conflict, "stranger"},
			{"another API tells its end", true, func(in *gitops.Intent) { in.Gone, in.Namespace.Home = true, "elsewhere" }, fault.Conflict, "stranger"},
			{"its workspace is of another API", true, func(in *gitops.Intent) { in.UID, in.Name = "u-2", "other" }, fault.Denied, "workspace"},
		} {
			d := newDesk(t)
			in := gitops.Intent{Namespace: d.home(), Name: "one", UID: "u-1", Generation: 3}
			if c.known {
				d.mirror.there[in.UID] = true
				if err := do(d, in); err != nil {
					t.Fatalf("%s, %s: %v", kind, c.reason, err)
				}
			}
			if c.why == "workspace" {
				d.close(true)
			}
			c.in(&in)
			before := d.store.commits
			if err := do(d, in); !fault.Is(err, c.kind) || fault.Reason(err) != c.why {
				t.Errorf("%s, %s: %v (%s)", kind, c.reason, err, fault.Reason(err))
			}
			if d.store.commits != before {
				t.Errorf("%s, %s: it has written", kind, c.reason)
			}
		}
	}
}
