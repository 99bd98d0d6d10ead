package kubernetes

import (
	"context"
	"encoding/json"
	"math"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/version"
	"k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/droverhq/drover/internal/fault"
	"github.com/droverhq/drover/internal/manifest"
	"github.com/droverhq/drover/internal/runtime"
	"github.com/droverhq/drover/internal/runtime/keep"
)

var codecs = scheme.Codecs.WithoutConversion()

// factsAge is how long facts are told again before the cluster is asked.
const factsAge = 10 * time.Second

// facts remembers what was last found out, for as long as the cluster is away too.
type facts struct {
	mu    sync.Mutex
	known runtime.Facts
	at    time.Time
}

// Facts implements runtime.Runtime.
func (r *Runtime) Facts(ctx context.Context) (runtime.Facts, error) {
	if err := ctx.Err(); err != nil {
		return runtime.Facts{}, err
	}
	f := &r.facts
	f.mu.Lock()
	defer f.mu.Unlock()
	if now := r.cfg.Now(); f.at.IsZero() || now.Sub(f.at) >= factsAge || now.Before(f.at) {
		fresh, err := r.ask(ctx)
		switch {
		case ctx.Err() != nil:
			return f.known, ctx.Err()
		case err != nil:
			// What it holds has not changed because it cannot be asked.
			f.known.Kind, f.known.Unready = "kubernetes", err.Error()
			if f.known.Capacity == 0 {
				f.known.Capacity = r.cfg.Capacity
			}
		default:
			f.known = fresh
		}
		f.at = now
	}
	return f.known, nil
}

func (r *Runtime) ask(ctx context.Context) (runtime.Facts, error) {
	ctx, stop := context.WithTimeout(ctx, keep.CallTimeout)
	defer stop()
	out := runtime.Facts{Kind: "kubernetes", Capacity: r.cfg.Capacity}
	v, err := r.version(ctx)
	if err != nil {
		return out, manifest.Explain(err, manifest.ID{Kind: "version"})
	}
	out.Version = v
	if name, err := r.routes(); err == nil {
		out.Routes = name
	} else if fault.Is(err, fault.Unavailable) {
		return out, err
	}
	var nodes corev1.NodeList
	err = manifest.Explain(r.cluster.Kube().List(ctx, &nodes), manifest.ID{Kind: "Node"})
	switch {
	case fault.Is(err, fault.Denied):
		// An agent that may not see nodes is told its capacity.
	case err != nil:
		return out, err
	case len(nodes.Items) > 0:
		out.Nodes = int64(len(nodes.Items))
		out.Capacity = units(allocatable(nodes.Items), r.cfg.Reserve, r.cfg.Unit)
	}
	return r.bounded(ctx, out)
}

// bounded lowers the capacity to what the quotas of the items' namespace allow.
func (r *Runtime) bounded(ctx context.Context, out runtime.Facts) (runtime.Facts, error) {
	if r.cfg.Home == "" {
		return out, nil
	}
	var quotas corev1.ResourceQuotaList
	err := manifest.Explain(r.cluster.Kube().List(ctx, &quotas, client.InNamespace(r.cfg.Home)), manifest.ID{Kind: "ResourceQuota", Namespace: r.cfg.Home})
	if fault.Is(err, fault.Denied) {
		return out, nil
	}
	if err != nil {
		return out, err
	}
	for _, q := range quotas.Items {
		if n, bounds := allowed(q.Spec.Hard, r.cfg.Unit); bounds && (n < out.Capacity || out.Capacity == 0 && out.Nodes == 0) {
			out.Capacity = n
		}
	}
	return out, nil
}

// allocatable adds up what the nodes that take pods have.
func allocatable(nodes []corev1.Node) corev1.ResourceList {
	sum := corev1.ResourceList{}
	for _, n := range nodes {
		if n.Spec.Unschedulable || !nodeReady(n) {
			continue
		}
		for name, q := range n.Status.Allocatable {
			have := sum[name]
			have.Add(q)
			sum[name] = have
		}
	}
	return sum
}

func nodeReady(n corev1.Node) bool {
	for _, c := range n.Status.Conditions {
		if c.Type == corev1.NodeReady {
			return c.Status == corev1.ConditionTrue
		}
	}
	return false
}

// units that fit: as many as the scarcest resource allows.
func units(have, reserve, unit corev1.ResourceList) int64 {
	least := int64(math.MaxInt64)
	for name, one := range unit {
		left := have[name]
		left.Sub(reserve[name])
		least = min(least, fit(left.AsApproximateFloat64(), one.AsApproximateFloat64()))
	}
	if least == math.MaxInt64 {
		return 0
	}
	return least
}

func fit(left, one float64) int64 {
	if left <= 0 || one <= 0 {
		return 0
	}
	// A hair more, since a third of three is not one in binary.
	return int64(math.Floor(left/one + 1e-9))
}

// allowed tells how many units a quota's limits take; false: it limits other things.
func allowed(hard, unit corev1.ResourceList) (n int64, bounds bool) {
	n = math.MaxInt64
	for name, one := range unit {
		for _, called := range []corev1.ResourceName{name, "requests." + name} {
			if q, ok := hard[called]; ok {
				n, bounds = min(n, fit(q.AsApproximateFloat64(), one.AsApproximateFloat64())), true
			}
		}
	}
	return n, bounds
}

// version asks the API server who it is, which also tells that it is there.
func (r *Runtime) version(ctx context.Context) (string, error) {
	cfg := r.cluster.REST()
	cfg.GroupVersion, cfg.NegotiatedSerializer = &corev1.SchemeGroupVersion, codecs
	c, err := rest.UnversionedRESTClientForConfigAndClient(cfg, r.cluster.HTTP())
	if err != nil {
		return "", err
	}
	b, err := c.Get().AbsPath("/version").Do(ctx).Raw()
	if err != nil {
		return "", err
	}
	var v version.Info
	if err := json.Unmarshal(b, &v); err != nil {
		return "", fault.New(fault.Unavailable, "the cluster's API server does not say what it is").Because("server-error")
	}
	return v.GitVersion, nil
}
