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

// hasten has a sync that waits tried again after Argo CD's first wait, counted from its
// last try.
func hasten(o *unstructured.Unstructured) {
	if waits(view(o).Status.OperationState) {
		_ = unstructured.SetNestedField(o.Object, int64(1), "status", "operationState", "retryCount")
	}
}

// remedyOf decides what is done about a failure, and in how long. It is pure.
func remedyOf(app *unstructured.Unstructured, automated bool, now time.Time) (remedy, time.Duration) {
	if o := view(app).Status.OperationState; waits(o) && automated {
		return retry, o.FinishedAt.Add(quarter(o.StartedAt, o.FinishedAt, mendFirst, mendRetry)).Sub(now)
	}
	var st struct {
		ReconciledAt time.Time
		Conditions   []struct {
			Type, Message      string
			LastTransitionTime time.Time
		}
	}
	if b, err := json.Marshal(app.Object["status"]); err != nil || json.Unmarshal(b, &st) != nil {
		return none, 0
	}
	for _, c := range st.Conditions {
		if c.Type != "ComparisonError" {
			continue
		}
		last := st.ReconciledAt
		if asked, _ := reminded(app); asked.After(last) {
			last = asked
		}
		if strings.Contains(c.Message, "(cached)") { // Argo CD spares its repository server what fails there
			return hard, last.Add(quarter(c.LastTransitionTime, last, mendLook, mendCached)).Sub(now)
		}
		return plain, last.Add(quarter(c.LastTransitionTime, last, mendFirst, mendLook)).Sub(now)
	}
	return none, 0
}

// mend has Argo CD try again what has failed, if it is time to, and returns when to look
// again; 0: nothing has.
func (s *shift) mend(ctx context.Context, w *writer, d runtime.Deployment, app *unstructured.Unstructured) (time.Duration, error) {
	do, rest := remedyOf(app, d.Automated, s.r.cfg.Now())
	if do == none {
		return 0, nil
	}
	if rest > 0 && do == retry && homeless(view(app).Status.OperationState, d) && s.asks.take(s.r.cfg.Now()) {
		rest = min(rest, mendFirst)
		// Whoever may not look waits as for any other reason.
		if there, err := s.r.cluster.Look(ctx, manifest.ID{Kind: "Namespace", Name: d.Namespace}); err == nil && there != nil {
			rest = 0
		}
	}
	if rest > 0 {
		return rest, nil
	}
	if !s.asks.take(s.r.cfg.Now()) {
		return mendFirst, nil
	}
	return mendFirst, s.revise(ctx, w, app, func(o *unstructured.Unstructured) {
		if do == retry {
			hasten(o)
		} else {
			mark(o, refreshMark, string(do))
		}
		s.remind(o)
	})
}

// turns are how often something is done in a second, for all deployments together.
type turns struct {
	mu     sync.Mutex
	second int64
	taken  int
}

func (t *turns) take(now time.Time) bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	if now.Unix() != t.second {
		t.second, t.taken = now.Unix(), 0
	}
	t.taken++
	return t.taken <= mendRate
}
