package argocd

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/droverhq/drover/internal/runtime"
)

const (
	// figuresAge is how long figures are told before they are counted again. Each new
	// one is written down by the control plane.
	figuresAge = 3 * time.Minute
	// reconciledAge is how long ago Argo CD has compared an Application at the most that
	// counts as reconciled, as the dashboards of the earlier service know it.
	reconciledAge = 3 * time.Minute
	// healthElsewhere is where an Argo CD has the health of resources that is not told to
	// write it into Applications.
	healthElsewhere = "appTree"
)

// lapsed reports whether it is time to count again.
func (f *facts) lapsed(now time.Time) bool {
	return f.counted.IsZero() || now.Sub(f.counted) >= figuresAge || now.Before(f.counted)
}

// settled reports whether the Applications that there are, are known.
func (s *shift) settled() bool {
	c := s.caches[applications]
	return c != nil && c.HasSynced()
}

// count counts what the watch knows, and asks the cluster for one setting. Whether the
// health of resources is told can be seen: it is a flag, which may come from anywhere.
func (s *shift) count(ctx context.Context) runtime.Engine {
	all := s.caches[applications].GetStore().List()
	e := runtime.Engine{Applications: int64(len(all)), Operations: s.ops.shown.Load(), Jsonnet: s.r.jsonnet(ctx)}
	now := s.r.cfg.Now()
	for _, o := range all {
		if reconciled(as(o), now) {
			e.Reconciled++
		}
		if at, _, _ := unstructured.NestedString(as(o).Object, "status", "resourceHealthSource"); at == healthElsewhere {
			e.NoHealth = true
		}
	}
	e.Left = s.leftovers(all)
	return e
}

// leftNamed is how many leftovers are named.
const leftNamed = 5

// leftovers names the Applications that were found to be nobody's, and still are. As long
// as not everything was told, whose they are is not known.
func (s *shift) leftovers(all []any) string {
	if !s.r.told.whole() {
		return ""
	}
	var names []string
	for _, o := range all {
		name := as(o).GetName()
		s.mu.Lock()
		left := s.left[name]
		s.mu.Unlock()
		if !left || as(o).GetDeletionTimestamp() != nil {
			continue
		}
		if _, ours := s.needs.application(name); !ours {
			names = append(names, short(name, 63))
		}
	}
	slices.Sort(names)
	if more := len(names) - leftNamed; more > 0 {
		names = append(names[:leftNamed], fmt.Sprintf("and %d more", more))
	}
	return strings.Join(names, ", ")
}

// reconciled reports whether Argo CD has compared an Application lately.
func reconciled(app *unstructured.Unstructured, now time.Time) bool {
	text, _, _ := unstructured.NestedString(app.Object, "status", "reconciledAt")
	at, err := time.Parse(time.RFC3339, text)
	return err == nil && now.Sub(at) < reconciledAge
}

// jsonnet reports whether Argo CD evaluates Jsonnet, as far as its settings can be read.
func (r *Runtime) jsonnet(ctx context.Context) bool {
	set, known := r.settings(ctx)
	return known && set["jsonnet.enable"] != "false"
}

// fetches reports whether Argo CD fetches values of charts from wherever a repository
// says, which it does unless it is told otherwise.
func (r *Runtime) fetches(ctx context.Context) bool {
	set, known := r.settings(ctx)
	schemes, said := set["helm.valuesFileSchemes"]
	return known && (!said || strings.TrimSpace(schemes) != "")
}

// settings of Argo CD; false: they cannot be read.
func (r *Runtime) settings(ctx context.Context) (map[string]string, bool) {
	o, err := r.live(ctx, settings, "argocd-cm")
	if err != nil || o == nil {
		return nil, false
	}
	set, _, _ := unstructured.NestedStringMap(o.Object, "data")
	return set, true
}
