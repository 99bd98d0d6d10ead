package gitops_test

import (
	"testing"
	"time"

	"github.com/droverhq/drover/internal/runtime"
	"github.com/droverhq/drover/internal/source"
)

// TestASecretThatIsStillNamedIsKept rotates a credential while the deployment that has
// it waits for its cluster, and is reported on: what its agent is to have can be read,
// until the old one has been there for a day.
func TestASecretThatIsStillNamedIsKept(t *testing.T) {
	d := newDesk(t)
	d.gate.opens = func(source.Location, source.Credential) error { return nil }
	d.intendRepository(d.credential("r-1", 1, password("reader", "first-s3cr3t")))
	d.work(time.Second)
	d.apply(d.intent("uid-1", 1))
	d.work(time.Second)
	first := d.repository("r-1").Spec.Password
	hub := d.engines.by["hub"]
	hub.Leaving = true // nothing is told to it any more
	d.engines.by["hub"] = hub
	d.intendRepository(d.credential("r-1", 1, password("reader", "second-s3cr3t")))
	d.work(time.Minute)
	d.report("hub", "uid-1", runtime.Ready, fine("c1"))
	d.work(40 * time.Minute)
	if b := d.body("hub", "uid-1"); b.Credential == nil || b.Credential.Password != "first-s3cr3t" {
		t.Fatalf("the agent can be told %+v", b.Credential)
	}
	d.work(25 * time.Hour)
	if d.opens(first) != "shredded" {
		t.Error("what was replaced a day ago can be opened for ever")
	}
}
