package kubeapi

import (
	"context"
	"strings"

	toolscache "k8s.io/client-go/tools/cache"
	"sigs.k8s.io/controller-runtime/pkg/cache"
)

// Take takes one custom resource out of a cache.
func (c *Controllers) Take(ctx context.Context, from cache.Cache, kind, namespace, name string) error {
	c.cache = from
	_, err := c.take(ctx, key{kind: kind, namespace: namespace, name: name})
	return err
}

// Namespaces is told of namespaces, with a cache of all else.
func (c *Controllers) Namespaces(ctx context.Context, rest cache.Cache) toolscache.ResourceEventHandler {
	c.cache = rest
	return c.onNamespace(ctx)
}

// What decides, for tests.
var (
	DeploymentStatus = deploymentStatus
	SyncRunStatus    = syncRunStatus
	Conditions       = conditions
	Seal             = seal
	Judge            = judge
	Slim             = slim
	VerdictOf        = verdictOf
	Short            = short
	News             = news
)

const (
	Told    = told
	Empty   = empty
	Damaged = damaged

	MaxMessage = maxMessage
)

// Fit is fit for texts.
func Fit(list []string, bytes int, first func(string) bool) []string { return fit(list, bytes, first) }

// Ranks of what is put into a line.
const (
	AtOnce   = atOnce
	Sometime = sometime
)

// Put adds custom resources to a line, by namespace and name.
type Put struct {
	Rank  int
	Names []string
}

// Order is in which order a line hands out what was put into it.
func Order(puts ...Put) (out []string) {
	l := newLine()
	defer l.ShutDown()
	for _, p := range puts {
		for _, n := range p.Names {
			namespace, name, _ := strings.Cut(n, "/")
			l.put(p.Rank, key{kind: "deployment", namespace: namespace, name: name})
		}
	}
	for l.Len() > 0 {
		k, _ := l.Get()
		l.Done(k)
		out = append(out, k.namespace+"/"+k.name)
	}
	return out
}
