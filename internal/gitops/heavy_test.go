package gitops_test

import (
	"testing"
	"time"
)

// A commit that is too large is not fetched again each time that somebody looks
// whether there is another one.
func TestTooLargeIsFoundOutOnce(t *testing.T) {
	y := plain(t)
	y.hub.heavy = map[string]bool{"c1": true}
	y.apply(y.intent("uid-1", 1))
	y.work(time.Second)
	const want = "True ComparisonError: the repository is too large"
	if got := y.condition("uid-1", "ComparisonError"); got != want {
		t.Fatalf("told %q", got)
	}
	reads := y.hub.reads
	y.work(5 * time.Minute)
	if y.hub.reads != reads || y.condition("uid-1", "ComparisonError") != want {
		t.Errorf("it was fetched %d times more, and is told %q", y.hub.reads-reads, y.condition("uid-1", "ComparisonError"))
	}
	y.must(y.s.Refresh(chief, "uid-1")) // whoever asks for it gets it
	y.work(5 * time.Second)
	if y.hub.reads == reads {
		t.Error("nobody looked, although somebody asked")
	}
	reads = y.hub.reads
	y.work(time.Hour)
	if more := y.hub.reads - reads; more < 3 || more > 10 {
		t.Errorf("it was fetched %d times in an hour", more)
	}
	y.hub.heads["main"] = "c2"
	y.hub.files["c2"] = map[string]string{"one.yaml": configMap}
	y.work(2 * time.Minute)
	if h := y.handed("uid-1"); h.names() != "shop/one" {
		t.Errorf("a smaller one: %+v", h)
	}
}
