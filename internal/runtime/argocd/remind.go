package argocd

import (
	"strconv"
	"time"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
)

// An Argo CD that was asked for something and has not begun is reminded, later and
// later: one that is away hears of all of it when it is back.
const (
	remindAfter = 10 * time.Second
	remindMost  = 5 * time.Minute
)

// remind is a change that means nothing, with what Argo CD is asked for: from now on it
// is waited for.
func (s *shift) remind(o *unstructured.Unstructured) {
	mark(o, remindedMark, s.r.cfg.Now().UTC().Format(time.RFC3339))
	unmark(o, remindersMark)
}

// remindAgain is one more reminder of the same.
func remindAgain(o *unstructured.Unstructured, sofar int, now time.Time) {
	mark(o, remindedMark, now.UTC().Format(time.RFC3339), remindersMark, strconv.Itoa(sofar+1))
}

// reminded tells when Argo CD was asked, or last reminded, and how often that was;
// zero: never.
func reminded(app *unstructured.Unstructured) (last time.Time, sofar int) {
	marks := app.GetAnnotations()
	last, err := time.Parse(time.RFC3339, marks[remindedMark])
	if err != nil {
		return time.Time{}, 0
	}
	sofar, _ = strconv.Atoi(marks[remindersMark]) // somebody's nonsense is none
	return last, max(sofar, 0)
}

// patienceAfter is how long Argo CD is waited for after some reminders: one may have
// gone the way of the question, and after the second it is away.
func patienceAfter(sofar int) time.Duration {
	return min(remindAfter<<min(max(sofar-1, 0), 10), remindMost)
}

// remindIn is how long it is until Argo CD is to be reminded; false: it was never asked.
func remindIn(app *unstructured.Unstructured, now time.Time) (time.Duration, bool) {
	last, sofar := reminded(app)
	return last.Add(patienceAfter(sofar)).Sub(now), !last.IsZero()
}

// late reports whether Argo CD was asked, or reminded, a while ago.
func late(app *unstructured.Unstructured, now time.Time) bool {
	rest, asked := remindIn(app, now)
	return asked && rest <= 0
}

// remindOfEnd reminds Argo CD of what is being deleted, if it is time to. What it was
// reminded of before that is another matter.
func remindOfEnd(next *unstructured.Unstructured, now time.Time) bool {
	since := next.GetDeletionTimestamp()
	if since == nil {
		return false
	}
	last, sofar := reminded(next)
	if last.Before(since.Time) {
		last, sofar = since.Time, 0
	}
	if now.Sub(last) < patienceAfter(sofar) {
		return false
	}
	remindAgain(next, sofar, now)
	return true
}

// mark sets annotations, given as pairs.
func mark(o *unstructured.Unstructured, pairs ...string) {
	marks := o.GetAnnotations()
	if marks == nil {
		marks = map[string]string{}
	}
	for i := 0; i < len(pairs); i += 2 {
		marks[pairs[i]] = pairs[i+1]
	}
	o.SetAnnotations(marks)
}

// unmark takes an annotation off.
func unmark(o *unstructured.Unstructured, name string) {
	marks := o.GetAnnotations()
	if _, there := marks[name]; there {
		delete(marks, name)
		o.SetAnnotations(marks)
	}
}
