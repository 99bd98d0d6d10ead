package gitops

import (
	"slices"
	"strings"
)

// system is the namespace of Kubernetes itself. Whoever can run anything there has
// the cluster, so that it is given to nobody by a pattern, nor by a namespace that
// has its name somewhere else. Those of Argo CD and of the agent are likewise; agents
// know what theirs are called.
const system = "kube-system"

// fits reports whether a name is, or a prefix that ends in "*" covers, a namespace.
func fits(pattern, namespace string) bool {
	begin, prefix := strings.CutSuffix(pattern, "*")
	if !prefix {
		return pattern == namespace
	}
	return namespace != system && strings.HasPrefix(namespace, begin)
}

// named are the namespaces of an engine that the operator gave to a deployment by
// their names, and not by a pattern: reserved ones among them are meant.
func (d *Deployment) named(w Workspace, e Engine) []string {
	var out []string
	for _, r := range w.Spec.Reach {
		if r.Cluster != e.ID && r.Cluster != "*" {
			continue
		}
		for _, n := range r.Namespaces {
			if !strings.HasSuffix(n, "*") {
				out = append(out, n)
			}
		}
	}
	if d.Spec.Operator {
		out = append(out, d.Spec.To.Namespace)
	}
	if e.Org != "" && e.Org == w.Org { // it is theirs
		out = append(out, system)
	}
	slices.Sort(out)
	return slices.Compact(out)
}
