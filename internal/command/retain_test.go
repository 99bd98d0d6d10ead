package command_test

import (
	"fmt"
	"testing"
	"time"

	"github.com/droverhq/drover/internal/command"
	"github.com/droverhq/drover/internal/ledger"
	"github.com/droverhq/drover/internal/operation"
)

// finish ends the operations of a name, as the loop would when the thing is there.
func (w *world) finish(t *testing.T, name string) {
	t.Helper()
	for _, o := range w.list(t, operation.Kind.Name) {
		if o.Phase == operation.Running && o.Name == name {
			put, err := operation.Finish(o, operation.Succeeded, "", time.Now())
			if err == nil {
				_, err = w.store.Commit(t.Context(), ledger.Set{Actor: "system", Cause: ledger.BySchedule("test"), Puts: []ledger.Put{put}})
			}
			if err != nil {
				t.Fatal(err)
			}
		}
	}
}

// Records of commands that ended go, and those of open ones stay. A command whose record has
// gone is still done once: whoever sends it again hears what became of it, and whoever sends
// something else with its id is refused.
func TestRecordsGoAndCommandsStayDone(t *testing.T) {
	w := newWorld(t)
	heard := w.answers(t)
	w.run(t)
	create := func(id, data string) {
		t.Helper()
		w.send(t, command.Queue, message("alice", id, "instance.create", "things", data))
	}
	const many = 30 // more than go in one set
	for i := range many {
		create(fmt.Sprint("ended", i), `{"name":"x"}`)
	}
	create("refused", `{}`)
	create("open", `{"name":"open"}`)
	until(t, "all but one end", func() bool {
		w.finish(t, "create-x")
		ended := 0
		for _, o := range w.list(t, command.Kind.Name) {
			if o.Phase != command.Accepted {
				ended++
			}
		}
		return ended == many+1 && len(w.list(t, "thing")) == many+1
	})
	now := time.Now()
	for _, c := range []struct {
		reason string
		before time.Time
		gone   int
	}{
		{"they are young", now.Add(-time.Hour), 0},
		{"they are old", now.Add(time.Hour), many + 1},
		{"they have gone", now.Add(time.Hour), 0},
	} {
		if n, err := command.Retain(t.Context(), w.store, c.before, now); err != nil || n != c.gone {
			t.Fatalf("%s: %d have gone, %v; want %d", c.reason, n, err, c.gone)
		}
	}
	if left := w.list(t, command.Kind.Name); len(left) != 1 || left[0].Name != "open" {
		t.Errorf("there are still %v", left)
	}
	for _, c := range []struct{ reason, id, data, phase, code string }{
		{"it was done", "ended7", `{"name":"x"}`, command.Done, ""},
		{"it was refused", "refused", `{}`, command.Rejected, "DROVER-8"},
		{"it is another one", "ended7", `{"name":"y"}`, command.Rejected, "id-reused"},
	} {
		create(c.id, c.data)
		if a := <-heard; a.Message != c.id || a.Phase != c.phase || a.Code != c.code {
			t.Errorf("%s: sent again, it is answered with %+v", c.reason, a)
		}
	}
	if n := len(w.list(t, "thing")); n != many+1 || len(w.list(t, command.Kind.Name)) != 1 {
		t.Errorf("there are %d things: something was done again", n)
	}
	w.finish(t, "create-open")
	until(t, "the last one ends", func() bool { return w.list(t, command.Kind.Name)[0].Phase == command.Done })
	if n, err := command.Retain(t.Context(), w.store, now.Add(time.Hour), now); err != nil || n != 1 {
		t.Fatalf("%d have gone, %v", n, err)
	}
	if !w.s.Heard(t.Context()) {
		t.Error("it is as if no command had ever come: a queue that is missing would be taken for a new one")
	}
}
