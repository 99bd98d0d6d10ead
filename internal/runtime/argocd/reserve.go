package argocd

import (
	"slices"
	"strings"

	"github.com/droverhq/drover/internal/runtime"
)

// system is the namespace of Kubernetes itself.
const system = "kube-system"

// agents is the namespace that agents are installed into unless another is named.
const agents = "drover-system"

// besides writes a prefix that ends in "*" as patterns of Argo CD that cover the same
// namespaces without the reserved ones. What a project denies it would allow everything
// else by, so that nothing is denied: "a*" without "ab" is "a", "a[!b]*" and "ab?*".
// It is pure; a prefix that covers nothing reserved is returned as it is.
func (c Config) besides(prefix string) []string {
	begin, is := strings.CutSuffix(prefix, "*")
	if !is {
		return []string{prefix}
	}
	var hidden []string
	for _, name := range []string{c.ArgoCD, c.Namespace, agents, system} {
		if strings.HasPrefix(name, begin) {
			hidden = append(hidden, name)
		}
	}
	if len(hidden) == 0 {
		return []string{prefix}
	}
	return without(begin, hidden, nil)
}

// without adds the patterns of what begins so and is none of the hidden names, all of
// which begin so.
func without(begin string, hidden, out []string) []string {
	next := map[byte][]string{}
	var class []byte
	for _, name := range hidden {
		if name == begin {
			continue
		}
		b := name[len(begin)]
		if next[b] == nil {
			class = append(class, b)
		}
		next[b] = append(next[b], name)
	}
	slices.Sort(class) // a "-" comes first, where it is no range
	if begin != "" && !slices.Contains(hidden, begin) {
		out = append(out, begin)
	}
	if len(class) == 0 {
		return append(out, begin+"?*")
	}
	out = append(out, begin+"[!"+string(class)+"]*")
	for _, b := range class {
		out = without(begin+string(b), next[b], out)
	}
	return out
}

// covered reports whether a deployment goes where its workspace may.
func (c Config) covered(d runtime.Deployment) bool {
	return slices.ContainsFunc(d.Namespaces, func(ns string) bool {
		begin, prefix := strings.CutSuffix(ns, "*")
		return ns == d.Namespace || prefix && strings.HasPrefix(d.Namespace, begin) && !c.reserved(d.Namespace) && d.Namespace != system
	})
}
