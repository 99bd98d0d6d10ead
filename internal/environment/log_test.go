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

// A turn that goes from one replica to another and back has all that was said, and
// none of them remembers what it has left for long.
func TestLogThereAndBack(t *testing.T) {
	w := begin(t)
	w.add("1", shop("db"))
	w.forge.trouble = map[string]string{"db": "broken"}
	_, _, err := w.s.Create(alice, environment.PlanOrder{Environment: "staging", Template: "shop"})
	w.must(err)
	w.work(500 * time.Millisecond)
	first, itsOwn := w.s, w.all
	w.start() // another replica
	second := w.s
	w.work(1500 * time.Millisecond)
	if tail, err := first.Log(alice, "staging", "db", 0); err != nil || !tail.Running || !strings.Contains(string(tail.Text), "try 2") {
		t.Errorf("the first one does not tell what the second one says: %q %v", tail.Text, err)
	}
	w.s, w.all = first, itsOwn
	w.work(2500 * time.Millisecond)
	tail, err := first.Log(alice, "staging", "db", 0)
	w.must(err)
	if text := string(tail.Text); strings.Count(text, "it broke") != 3 || !strings.Contains(text, "try 2") || !strings.Contains(text, "try 3") {
		t.Errorf("it says %q", text)
	}
	w.clock = w.clock.Add(time.Hour)
	w.forge.trouble = nil
	w.s = second
	w.up("other", nil) // carried out by the first one
	if first.Logs() != 0 || second.Logs() != 1 {
		t.Errorf("%d and %d logs are at hand", first.Logs(), second.Logs())
	}
}
