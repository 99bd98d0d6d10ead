package gitops_test

import (
	"testing"
	"time"
)

// TestATargetAtRestIsWrittenSeldom lets ten hours go by in which a cluster is found as
// it was.
func TestATargetAtRestIsWrittenSeldom(t *testing.T) {
	d := newDesk(t)
	d.intendTarget(d.environment("t-1", 1, environmentSecret(withToken("t0k3n"))))
	d.work(time.Hour)
	commits, checked := d.store.commits, len(d.remote.checked)
	d.work(10 * time.Hour)
	if n, m := d.store.commits-commits, len(d.remote.checked)-checked; n > 10 || m < 55 {
		t.Errorf("in ten hours of rest %d checks have written %d times", m, n)
	}
}
