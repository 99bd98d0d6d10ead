package environment_test

import (
	"strings"
	"testing"
	"time"

	"github.com/droverhq/drover/internal/environment"
)

// A replica that began a turn which another one has ended tells the end of it, and
// whoever follows the log there is let go.
func TestLogEndedElsewhere(t *testing.T) {
	w := begin(t)
	w.add("1", shop("db"))
	w.forge.trouble = map[string]string{"db": "broken"}
	_, _, err := w.s.Create(alice, environment.PlanOrder{Environment: "staging", Template: "shop"})
	w.must(err)
	w.work(500 * time.Millisecond)
	first := w.s
	if tail, err := first.Log(alice, "staging", "db", 0); err != nil || !tail.Running || !strings.Contains(string(tail.Text), "it broke") {
		t.Fatalf("%+v %v", tail, err)
	}
	w.start() // another replica
	w.forge.trouble = nil
	w.work(time.Minute)
	want, err := w.s.Log(alice, "staging", "db", 0)
	w.must(err)
	got, err := first.Log(alice, "staging", "db", 0)
	w.must(err)
	if got.Running || string(got.Text) != string(want.Text) || !strings.Contains(string(got.Text), "try 2") {
		t.Errorf("it runs: %v, and says %q instead of %q", got.Running, got.Text, want.Text)
	}
}
