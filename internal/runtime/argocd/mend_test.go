package argocd_test

import (
	"fmt"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/droverhq/drover/internal/runtime"
	"github.com/droverhq/drover/internal/runtime/argocd"
)

var noon = time.Date(2026, 11, 16, 12, 0, 0, 0, time.UTC)

func clock(after time.Duration) string { return noon.Add(after).Format(time.RFC3339) }

// failing is an automated sync that began at noon, and has just failed once more.
func failing(t *testing.T, after time.Duration, retries int, message string) *unstructured.Unstructured {
	return parse(t, fmt.Sprintf(`{"status":{"operationState":{"phase":"Running","retryCount":%d,"startedAt":%q,"finishedAt":%q,"message":%q,"operation":{"initiatedBy":{"automated":true}}}}}`,
		retries, clock(0), clock(after), message+". Retrying attempt #2 at 5:38PM."))
}

// What has failed is tried again after a quarter of the time for which it has, and not
// more often than that.
func TestRemedies(t *testing.T) {
	compared := func(since, last time.Duration, message, marks string) *unstructured.Unstructured {
		return parse(t, fmt.Sprintf(`{"metadata":{"annotations":{%s}},"status":{"reconciledAt":%q,"conditions":[{"type":"ComparisonError","message":%q,"lastTransitionTime":%q}]}}`, marks, clock(last), message, clock(since)))
	}
	const cached = "Manifest generation error (cached): no chart"
	for _, c := range []struct {
		reason string
		app    *unstructured.Unstructured
		manual bool
		now    time.Duration
		do     string
		rest   time.Duration
	}{
		{"nothing has failed", parse(t, `{"status":{"reconciledAt":"2026-11-16T12:00:00Z","sync":{"status":"Synced"}}}`), false, time.Hour, "", 0},
		{"Argo CD's own first time is soon", failing(t, 5*time.Second, 1, "no"), false, 10 * time.Second, "", 0},
		{"at least a while", failing(t, 20*time.Second, 2, "no"), false, 20 * time.Second, "retry", 10 * time.Second},
		{"a quarter of the time", failing(t, 2*time.Minute, 4, "no"), false, 130 * time.Second, "retry", 20 * time.Second},
		{"it is time", failing(t, 2*time.Minute, 4, "no"), false, 150 * time.Second, "retry", 0},
		{"no later than Argo CD", failing(t, 24*time.Hour, 400, "no"), false, 24 * time.Hour, "retry", 3 * time.Minute},
		{"Argo CD itself is sooner", failing(t, 2*time.Minute, 2, "no"), false, 2 * time.Minute, "retry", 20 * time.Second},
		{"and it is its turn", failing(t, 2*time.Minute, 2, "no"), false, 140 * time.Second, "", 0},
		{"nobody asked", failing(t, 2*time.Minute, 4, "no"), true, time.Hour, "", 0},
		{"it is just being tried", parse(t, `{"status":{"operationState":{"phase":"Running","retryCount":3,"message":"Retrying operation. Attempt #3","operation":{"initiatedBy":{"automated":true}}}}}`), false, time.Hour, "", 0},
		{"Git is away", compared(0, 0, "no route to host", ""), true, 0, "normal", 10 * time.Second},
		{"Git is away since a while", compared(0, 4*time.Minute, "no route to host", ""), false, 4 * time.Minute, "normal", time.Minute},
		{"Git is away for good", compared(0, 24*time.Hour, "no route to host", ""), false, 24 * time.Hour, "normal", 2 * time.Minute},
		{"it was just asked", compared(0, 0, "no route to host", `"drover.dev/reminded":"`+clock(time.Minute)+`"`), false, time.Minute, "normal", 15 * time.Second},
		{"what Argo CD has cached", compared(0, 0, cached, ""), false, 0, "hard", 2 * time.Minute},
		{"what Argo CD has cached for long", compared(0, 24*time.Hour, cached, ""), false, 24 * time.Hour, "hard", 10 * time.Minute},
	} {
		do, rest := argocd.RemedyOf(c.app, time.Time{}, !c.manual, noon.Add(c.now))
		if do != c.do || rest != c.rest {
			t.Errorf("%s: %q in %s, want %q in %s", c.reason, do, rest, c.do, c.rest)
		}
	}
}

func tries(app *unstructured.Unstructured) int64 {
	n, _, _ := unstructured.NestedFieldNoCopy(app.Object, "status", "operationState", "retryCount")
	if f, is := n.(float64); is {
		return int64(f)
	}
	return n.(int64)
}

// What fails for long is tried later and later, and never as at the beginning again.
func TestTriesGrowApart(t *testing.T) {
	own := func(n int64) time.Duration { return min(5*time.Second<<min(n, 10), 3*time.Minute) } // Argo CD's
	var last, wait time.Duration
	retries, began := int64(1), time.Duration(0)
	for last < 2*time.Hour {
		app := failing(t, last, int(retries), "no")
		next := last + own(retries)
		for now := last; now < next; now += time.Second {
			if do, rest := argocd.RemedyOf(app, time.Time{}, true, noon.Add(now)); do == "retry" && rest <= 0 {
				argocd.Hasten(app, noon.Add(now))
				retries = tries(app)
				next = max(now, last+own(retries))
			}
		}
		if before := wait; next-last < before/2 {
			t.Fatalf("after %s it is tried again in %s, after %s before that", last, next-last, before)
		}
		wait, last, retries = next-last, next, retries+1
		if began == 0 && wait >= 150*time.Second {
			began = last
		}
	}
	if began == 0 || began > 20*time.Minute {
		t.Errorf("it is tried rarely from %s on", began)
	}
}

// Argo CD dates an error anew whenever its words change; what fails is failing since it
// began, and ever more rarely anything is asked for without what is cached.
func TestFailsSinceItBegan(t *testing.T) {
	const every = 24 * time.Hour
	text, dated, known, hards := "no chart", time.Duration(0), time.Time{}, 0
	for now := time.Duration(0); now < every; {
		app := parse(t, fmt.Sprintf(`{"status":{"reconciledAt":%q,"conditions":[{"type":"ComparisonError","message":%q,"lastTransitionTime":%q}]}}`, clock(now), text, clock(dated)))
		if known = argocd.FailingSince(app, known); !known.Equal(noon) {
			t.Fatalf("after %s it fails since %s", now, known)
		}
		do, rest := argocd.RemedyOf(app, known, true, noon.Add(now))
		now += rest
		if dated, text = now, "no chart (cached)"; do == "hard" {
			text = "no chart"
			hards++
		}
	}
	if hards == 0 || hards > 130 {
		t.Errorf("%d times in a day nothing that is cached is taken", hards)
	}
	if since := argocd.FailingSince(parse(t, `{"status":{"conditions":[{"type":"SyncError"}]}}`), known); !since.IsZero() {
		t.Errorf("what is compared fails since %s", since)
	}
}

// Thousands that fail at once get their turns one after the other, and ask little more
// often than that.
func TestTurns(t *testing.T) {
	const all = 3000
	var turns argocd.Turns
	due, asked, late := map[int][]int{}, 0, 0 // by tenths of a second
	for id := range all {
		due[0] = append(due[0], id)
	}
	through := map[int]int{} // by seconds
	for tick, left := 0, all; left > 0; tick++ {
		if tick > 2*all {
			t.Fatalf("after %d s %d wait for their turns", tick/10, left)
		}
		for _, id := range due[tick] {
			asked++
			wait := turns.Take(fmt.Sprint(id), noon.Add(time.Duration(tick)*100*time.Millisecond))
			if wait == 0 {
				through[tick/10]++
				left--
				late = tick
				continue
			}
			at := tick + int((wait+99*time.Millisecond)/(100*time.Millisecond))
			due[at] = append(due[at], id)
		}
	}
	for second, n := range through {
		if n > 10 {
			t.Errorf("%d get through in second %d", n, second)
		}
	}
	if asked > 3*all {
		t.Errorf("%d ask %d times", all, asked)
	}
	if late > 11*all/10 {
		t.Errorf("the last one waits for %d s", late/10)
	}
}

func TestHomeless(t *testing.T) {
	d := runtime.Deployment{UID: "u", Namespace: "shop"}
	there := runtime.Deployment{UID: "u", Namespace: "shop", Target: &runtime.Target{ID: "t"}}
	for _, c := range []struct {
		reason, message string
		d               runtime.Deployment
		want            bool
	}{
		{"there is no namespace", `one or more objects failed to apply, reason: namespaces "shop" not found`, d, true},
		{"another one", `reason: namespaces "web" not found`, d, false},
		{"of another cluster, which is not looked at", `reason: namespaces "shop" not found`, there, false},
		{"something else", `reason: forbidden`, d, false},
	} {
		app := failing(t, time.Minute, 3, c.message)
		if got := argocd.Homeless(app, c.d); got != c.want {
			t.Errorf("%s: %v", c.reason, got)
		}
	}
}

// A sync that is tried before its time counts on from about there.
func TestHasten(t *testing.T) {
	for _, c := range []struct {
		reason  string
		retries int
		waited  time.Duration
		want    int64
	}{
		{"it has just failed", 9, time.Second, 1},
		{"after Argo CD's first time", 9, 10 * time.Second, 1},
		{"as many as have led to that wait", 9, 45 * time.Second, 3},
		{"never more than there were", 3, time.Hour, 3},
		{"Argo CD's longest", 400, 3 * time.Minute, 400},
	} {
		app := failing(t, time.Minute, c.retries, "no")
		argocd.Hasten(app, noon.Add(time.Minute+c.waited))
		if n := tries(app); n != c.want {
			t.Errorf("%s: %d tries are counted, want %d", c.reason, n, c.want)
		}
	}
	rest := parse(t, `{"status":{"operationState":{"phase":"Succeeded","retryCount":3}}}`)
	before := rest.DeepCopy()
	if argocd.Hasten(rest, noon); !cmp.Equal(before.Object, rest.Object) {
		t.Error("what has ended is changed")
	}
}

// An Argo CD that is away is reminded later and later.
func TestRemindersGrow(t *testing.T) {
	app := parse(t, `{"metadata":{"annotations":{"drover.dev/sync":"x"}}}`)
	at := argocd.RemindAll(app, noon, noon.Add(20*time.Minute))
	want := []time.Duration{10, 20, 40, 80, 160, 320, 620, 920}
	for i := range want {
		want[i] *= time.Second
	}
	if d := cmp.Diff(want, at); d != "" {
		t.Error(d)
	}
	// Of its end it is reminded anew, whatever it did not hear of before.
	end := metav1.NewTime(noon.Add(20 * time.Minute))
	app.SetDeletionTimestamp(&end)
	var ends []time.Duration
	for now := end.Time; now.Before(end.Add(5 * time.Minute)); now = now.Add(time.Second) {
		next, differs := argocd.Parting(app, false, now)
		if differs {
			ends = append(ends, now.Sub(end.Time))
			app = next
		}
	}
	if d := cmp.Diff(want[:5], ends); d != "" {
		t.Error(d)
	}
}
