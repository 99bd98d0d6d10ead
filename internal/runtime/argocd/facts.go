package argocd

import (
	"context"
	"strings"
	"sync"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/droverhq/drover/internal/runtime"
	"github.com/droverhq/drover/internal/runtime/keep"
)

// factsAge is how long facts are told again before the cluster is asked.
const factsAge = 10 * time.Second

// facts remembers what was last found out about Argo CD.
type facts struct {
	mu      sync.Mutex
	version string
	unready string
	at      time.Time
	engine  runtime.Engine
	counted time.Time
}

// Facts implements runtime.Runtime: those of the runtime beside, and what there is
// to say about Argo CD.
func (r *Runtime) Facts(ctx context.Context) (runtime.Facts, error) {
	if err := ctx.Err(); err != nil {
		return runtime.Facts{}, err
	}
	out := runtime.Facts{Capacity: r.cfg.Capacity}
	if r.beside != nil {
		var err error
		if out, err = r.beside.Facts(ctx); err != nil {
			return out, err
		}
	}
	f := &r.facts
	f.mu.Lock()
	defer f.mu.Unlock()
	if now := r.cfg.Now(); f.at.IsZero() || now.Sub(f.at) >= factsAge || now.Before(f.at) {
		f.unready = r.ask(ctx)
		if v := r.version(ctx); v != "" {
			f.version = v
		}
		if ctx.Err() != nil {
			return out, ctx.Err()
		}
		f.at = now
	}
	if s := r.shift.Load(); s != nil && s.settled() && f.lapsed(r.cfg.Now()) {
		was := f.engine.NoHealth
		if f.engine, f.counted = s.count(ctx), r.cfg.Now(); f.engine.NoHealth && !was {
			r.cfg.Logger.Warn("Argo CD does not tell the health of single resources: set controller.resource.health.persist to \"true\" in argocd-cmd-params-cm and start its controller anew", "namespace", r.cfg.ArgoCD)
		}
	}
	out.Kind, out.Engine = "argocd", f.engine
	if f.version != "" {
		out.Version = f.version
	}
	if f.unready != "" {
		out.Unready = f.unready
	}
	return out, nil
}

// ask finds out why nothing can be given to Argo CD; empty: it can.
func (r *Runtime) ask(ctx context.Context) string {
	ctx, stop := context.WithTimeout(ctx, keep.CallTimeout)
	defer stop()
	for _, k := range []kind{applications, projects} {
		if _, err := r.in(k).List(ctx, metav1.ListOptions{Limit: 1, LabelSelector: managedLabel + "=" + managedBy}); err != nil {
			return r.explain(err, k, "").Error()
		}
	}
	return ""
}

var workloads = schema.GroupVersionResource{Group: "apps", Version: "v1", Resource: "deployments"}

// version of Argo CD, by the image of its repository server; empty: not known.
func (r *Runtime) version(ctx context.Context) string {
	ctx, stop := context.WithTimeout(ctx, keep.CallTimeout)
	defer stop()
	list, err := r.objects.Resource(workloads).Namespace(r.cfg.ArgoCD).List(ctx, metav1.ListOptions{LabelSelector: "app.kubernetes.io/name=argocd-repo-server", Limit: 1})
	if err != nil || len(list.Items) == 0 {
		return ""
	}
	containers, _, _ := unstructured.NestedSlice(list.Items[0].Object, "spec", "template", "spec", "containers")
	for _, c := range containers {
		m, _ := c.(map[string]any)
		image, _ := m["image"].(string)
		image, _, _ = strings.Cut(image, "@")
		if i := strings.LastIndex(image, ":"); i > strings.LastIndex(image, "/") {
			return image[i+1:]
		}
	}
	return ""
}

// warn says what in Argo CD's own settings lets workspaces reach further than
// their projects do: no field of an Application could keep them from it.
func (r *Runtime) warn(ctx context.Context) {
	if r.jsonnet(ctx) {
		r.cfg.Logger.Warn("Argo CD evaluates Jsonnet, which can read files of its repository server: set jsonnet.enable to \"false\" in argocd-cm unless all workspaces may", "namespace", r.cfg.ArgoCD)
	}
	if r.fetches(ctx) {
		r.cfg.Logger.Warn("Argo CD fetches values of charts from any address that its repository server reaches: set helm.valuesFileSchemes to \"\" in argocd-cm unless all workspaces may read what is there", "namespace", r.cfg.ArgoCD)
	}
}
