package gitops_test

import (
	"context"
	"testing"

	"github.com/droverhq/drover/internal/gitops"
	"github.com/droverhq/drover/internal/ledger"
)

// The same resources have had these digests since the reading that is named. Where one is
// another now, count up the constant reading in asks.go and write the new ones here: what
// the version before has written is then no work of somebody else.
func TestDigestsStayUnlessTheReadingIsAnother(t *testing.T) {
	d := newDesk(t)
	deployment := d.intent("uid", 1)
	deployment.SyncOptions = []string{"CreateNamespace=true"}
	afar := d.intent("uid", 1)
	afar.Environment, afar.ToNamespace, afar.Type = "prod", "live", "manual"
	refused := d.intent("uid", 1)
	refused.Path = ""
	run := d.runIntent("uid")
	run.Prune = true
	environment := d.environment("uid", 1, environmentSecret(withToken("t0k3n")))
	environment.Namespaces, environment.ClusterResources = []string{"shop"}, true
	for _, c := range []struct {
		reason string
		in     interface{ Asks() string }
		want   string
	}{
		{"an automated deployment", deployment, "sha256:27228f360d5ba2d41f99d82e5368a6a6528e8a9860630eb04d0f69710a4077da"},
		{"one to an environment", afar, "sha256:f94c164f10a84a9e27a025d552337d3360d2e515f1db5704a5504f77cba1532a"},
		{"one that is refused", refused, "sha256:5bbc05b680cf6234df66dc96dec65e9ff7bc1e8c9d2d8e54c62cefcda478a5e8"},
		{"a sync run", run, "sha256:788ca1c46c38c372bcb228fd06d8cf4d044ddad629fe9729f5f161c67ec79d7a"},
		{"a credential", d.credential("uid", 1, password("reader", "s3cr3t")), "sha256:d29343fc46a03978f772d8fcc8ae28c459152cd1c0051548a5103cca5a28410e"},
		{"a managed environment", environment, "sha256:daef3b098e72f4372ae3cdcefae0a09170b322cff6ad79cb4e35c3af2639e016"},
	} {
		if got := c.in.Asks(); got != c.want {
			t.Errorf("%s: %s", c.reason, got)
		}
	}
	d.apply(deployment)
	if of := d.get("uid").Spec.Origin; of.Reading != 0 {
		t.Errorf("the digests are those of reading %d", of.Reading)
	}
}

// A row of another reading is known as that. One of a reading before is written anew, one
// of a later reading stays as a newer replica has written it.
func TestRowsOfAnotherReadingAreDated(t *testing.T) {
	d := newDesk(t)
	ref := ledger.Ref{Kind: "deployment", ID: "uid"}
	dated := func() bool {
		known, err := d.s.KnownOf(context.Background(), "main", ref.Kind, "", 10)
		d.must(err)
		return len(known) == 1 && known[0].Dated
	}
	d.apply(d.intent("uid", 1))
	if dated() {
		t.Error("what was just written is dated")
	}
	for _, c := range []struct {
		reason string
		by     int
		stays  bool
	}{{"before", -1, false}, {"later", 1, true}} {
		d.forge(ref, func(_ *ledger.Object, spec map[string]any) { spec["origin"].(map[string]any)["reading"] = c.by })
		if !dated() {
			t.Errorf("one of a reading %s is not dated", c.reason)
		}
		if d.apply(d.intent("uid", 1)); dated() != c.stays {
			t.Errorf("one of a reading %s: dated %v after it was handed over", c.reason, dated())
		}
	}
	if d.mirror.mended != nil || d.get("uid").Phase == gitops.Failed {
		t.Errorf("told %v", d.mirror.mended)
	}
}
