package argocd

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/droverhq/drover/internal/manifest"
	"github.com/droverhq/drover/internal/runtime"
)

// Argo CD tries what has failed again after minutes, and looks at a repository that it
// could not read after minutes, too: whoever has mended the reason waits for that. So
// the agent has it try sooner: after a quarter of the time for which it has failed, and
// at once where it is seen that the reason is gone.
const (
	mendFirst  = 10 * time.Second
	mendRetry  = 3 * time.Minute // as Argo CD's own longest wait: see syncPolicy
	retryBase  = 5 * time.Second // as its shortest, which doubles
	mendLook   = 2 * time.Minute // about as often as Argo CD looks by itself
	mendCached = 10 * time.Minute
	mendRate   = 10 // of all deployments, in a second
)

// remedy is what Argo CD is asked for when something has failed.
type remedy string

const (
	none  remedy = ""
	retry remedy = "retry" // the sync, before its time
	plain remedy = "normal"
	hard  remedy = "hard" // and without what is cached
)

// quarter is how long is waited after the last try of what fails since a while.
func quarter(since, last time.Time, first, most time.Duration) time.Duration {
	return min(max(last.Sub(since)/4, first), most)
}

// waits reports whether an automated sync has failed and waits to be tried again, for
// longer than Argo CD's first time.
func waits(o *operationState) bool {
	return o != nil && o.Phase == "Running" && o.RetryCount > 1 && !o.FinishedAt.IsZero() && o.Operation.InitiatedBy.Automated && strings.Contains(o.Message, retrying)
}

// homeless reports whether a sync fails because there is no namespace in this cluster.
func homeless(o *operationState, d runtime.Deployment) bool {
	return waits(o) && own(d) && strings.Contains(o.Message, fmt.Sprintf("namespaces %q not found", d.Namespace))
}

// ownWait is how long Argo CD itself waits after some tries: see syncPolicy.
func ownWait(tries int64) time.Duration {
	return min(retryBase<<min(max(tries, 0), 10), mendRetry)
}

// hasten has a sync that waits tried again at once, or after Argo CD's first wait, counted
// from its last try. As many tries are counted as have led to no longer a wait: with fewer,
// what fails again would wait anew from the first time on.
func hasten(o *unstructured.Unstructured, now time.Time) {
	st := view(o).Status.OperationState
	if !waits(st) {
		return
	}
	tries := int64(1)
	for tries < st.RetryCount && ownWait(tries+1) <= now.Sub(st.FinishedAt) {
		tries++
	}
	if tries < st.RetryCount {
		_ = unstructured.SetNestedField(o.Object, tries, "status", "operationState", "retryCount")
	}
}

// comparison is what Argo CD says about what it could not compare.
type comparison struct {
	ReconciledAt time.Time
	Conditions   []struct {
		Type, Message      string
		LastTransitionTime time.Time
	}
}

// failure is why an Application cannot be compared, when it was tried last, and since when it
// cannot; zero: it can. Argo CD dates it anew whenever its words change, so that the time
// that is known counts where it is earlier. It is pure.
func failure(app *unstructured.Unstructured, known time.Time) (why string, last, since time.Time) {
	var st comparison
	if b, err := json.Marshal(app.Object["status"]); err != nil || json.Unmarshal(b, &st) != nil {
		return "", last, since
	}
	for _, c := range st.Conditions {
		if c.Type != "ComparisonError" {
			continue
		}
		if since = c.LastTransitionTime; since.IsZero() {
			since = st.ReconciledAt
		}
		if !known.IsZero() && known.Before(since) {
			since = known
		}
		return c.Message, st.ReconciledAt, since
	}
	return "", last, since
}

// remedyOf decides what is done about a failure that is known since a time, and in how
// long. It is pure.
func remedyOf(app *unstructured.Unstructured, known time.Time, automated bool, now time.Time) (remedy, time.Duration) {
	if o := view(app).Status.OperationState; waits(o) && automated {
		own, waited := ownWait(o.RetryCount), now.Sub(o.FinishedAt)
		if waited >= own { // it is Argo CD's turn
			return none, 0
		}
		return retry, min(quarter(o.StartedAt, o.FinishedAt, mendFirst, mendRetry), own) - waited
	}
	why, last, since := failure(app, known)
	if since.IsZero() {
		return none, 0
	}
	if asked, _ := reminded(app); asked.After(last) {
		last = asked
	}
	if strings.Contains(why, "(cached)") { // Argo CD spares its repository server what fails there
		return hard, last.Add(quarter(since, last, mendLook, mendCached)).Sub(now)
	}
	return plain, last.Add(quarter(since, last, mendFirst, mendLook)).Sub(now)
}

// failing returns since when an Application cannot be compared, as this process has seen it.
func (s *shift) failing(id string, app *unstructured.Unstructured) time.Time {
	s.mu.Lock()
	defer s.mu.Unlock()
	_, _, since := failure(app, s.fails[id])
	if since.IsZero() {
		delete(s.fails, id)
	} else {
		s.fails[id] = since
	}
	return since
}

// mend has Argo CD try again what has failed, if it is time to, and returns when to look
// again; 0: nothing has, or Argo CD itself is about to.
func (s *shift) mend(ctx context.Context, w *writer, d runtime.Deployment, app *unstructured.Unstructured, since time.Time) (time.Duration, error) {
	id, now := w.e.Record.ID, s.r.cfg.Now()
	do, rest := remedyOf(app, since, d.Automated, now)
	if do == none {
		return 0, nil
	}
	if rest > 0 && do == retry && homeless(view(app).Status.OperationState, d) {
		if wait := s.looks.take(id, now); wait > 0 {
			return min(rest, wait), nil
		}
		rest = min(rest, mendFirst)
		// Whoever may not look waits as for any other reason.
		if there, err := s.r.cluster.Look(ctx, manifest.ID{Kind: "Namespace", Name: d.Namespace}); err == nil && there != nil {
			rest = 0
		}
	}
	if rest > 0 {
		return rest, nil
	}
	if wait := s.asks.take(id, now); wait > 0 {
		return wait, nil
	}
	return mendFirst, s.revise(ctx, w, app, func(o *unstructured.Unstructured) {
		if do == retry {
			hasten(o, now)
		} else {
			mark(o, refreshMark, string(do))
		}
		s.remind(o)
	})
}

// turns are how often something is done in a second, for all deployments together. Who
// gets none has a place in a line, and comes back when it is time for that.
type turns struct {
	mu     sync.Mutex
	second int64
	taken  int
	line   map[string]time.Time // by id
	end    time.Time            // of the line
}

// take returns in how long to ask again; 0: it is one's turn.
func (t *turns) take(id string, now time.Time) time.Duration {
	t.mu.Lock()
	defer t.mu.Unlock()
	if now.Unix() != t.second {
		t.second, t.taken = now.Unix(), 0
	}
	if now.Sub(t.end) > time.Minute { // those who are left need nothing any more
		clear(t.line)
	}
	place, waits := t.line[id]
	switch {
	case waits && place.After(now):
		return place.Sub(now)
	case t.taken < mendRate && (waits || !t.end.After(now)):
		t.taken++
		delete(t.line, id)
		return 0
	case waits:
		return time.Second
	}
	if t.end.Before(now) {
		t.end = now
	}
	if t.line == nil {
		t.line = map[string]time.Time{}
	}
	t.end = t.end.Add(time.Second / mendRate)
	t.line[id] = t.end
	return t.end.Sub(now)
}
