package kubernetes

import (
	"context"
	"strings"

	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/droverhq/drover/internal/fault"
	"github.com/droverhq/drover/internal/manifest"
	"github.com/droverhq/drover/internal/runtime"
	"github.com/droverhq/drover/internal/runtime/keep"
)

// carrier is the object that carries one host.
type carrier struct {
	host   string
	kind   string // route, gateway, ingress
	id     manifest.ID
	object map[string]any
}

type routeKind struct {
	group, version, kind string
	make                 func(c Config, r route) map[string]any // the spec
	address              func(o *unstructured.Unstructured) string
}

// kinds that carry hosts, by the words that operators use.
var kinds = map[string]routeKind{
	"route":   {"route.openshift.io", "v1", "Route", openshift, openshiftAddress},
	"gateway": {"gateway.networking.k8s.io", "v1", "HTTPRoute", gateway, nil},
	"ingress": {"networking.k8s.io", "v1", "Ingress", ingress, ingressAddress},
}

var preference = []string{"route", "gateway", "ingress"}

// routes returns the kind that carries hosts on this cluster.
func (r *Runtime) routes() (string, error) {
	if r.cfg.Routes != "" {
		return r.cfg.Routes, nil
	}
	for _, name := range preference {
		k := kinds[name]
		_, err := r.cluster.Mapper().RESTMapping(schema.GroupKind{Group: k.group, Kind: k.kind}, k.version)
		if err == nil {
			return name, nil
		}
		if !meta.IsNoMatchError(err) {
			return "", manifest.Explain(err, manifest.ID{Group: k.group, Kind: k.kind})
		}
	}
	return "", fault.New(fault.Invalid, "the cluster serves no kind that carries hosts: it needs Routes, Gateway API or Ingresses").Because("no-routes")
}

// carriers makes the objects of an item's routes.
func (r *Runtime) carriers(id, namespace string, all []route) ([]carrier, error) {
	if len(all) == 0 {
		return nil, nil
	}
	name, err := r.routes()
	if err != nil {
		return nil, err
	}
	k := kinds[name]
	var out []carrier
	seen := map[string]bool{}
	for _, rt := range all {
		if seen[rt.Host] {
			return nil, fault.New(fault.Invalid, "the host %s has two routes: leave one out", rt.Host)
		}
		seen[rt.Host] = true
		if rt.TLS == "passthrough" && name != "route" {
			return nil, fault.New(fault.Invalid, "the route of %s passes TLS through, which a %s cannot: end TLS at the edge, or expose the service otherwise", rt.Host, k.kind).Because("no-passthrough")
		}
		called := keep.Named("drover-", id+"/"+rt.Host)
		out = append(out, carrier{host: rt.Host, kind: name, id: manifest.ID{Group: k.group, Kind: k.kind, Namespace: namespace, Name: called},
			object: map[string]any{"apiVersion": k.group + "/" + k.version, "kind": k.kind,
				"metadata": map[string]any{"name": called, "namespace": namespace}, "spec": k.make(r.cfg, rt)}})
	}
	return out, nil
}

func openshift(_ Config, r route) map[string]any {
	spec := map[string]any{"host": r.Host, "to": map[string]any{"kind": "Service", "name": r.Service, "weight": int64(100)},
		"port": map[string]any{"targetPort": r.Port}}
	if strings.HasPrefix(r.Host, "*.") {
		spec["host"], spec["wildcardPolicy"] = "wildcard."+r.Host[2:], "Subdomain"
	}
	switch {
	case r.TLS == "edge" && r.Certificate != "":
		spec["tls"] = map[string]any{"termination": "edge", "externalCertificate": map[string]any{"name": r.Certificate}}
	case r.TLS != "none":
		spec["tls"] = map[string]any{"termination": r.TLS}
	}
	return spec
}

func gateway(c Config, r route) map[string]any {
	namespace, name, _ := strings.Cut(c.Gateway, "/")
	return map[string]any{"hostnames": []any{r.Host},
		"parentRefs": []any{map[string]any{"group": "gateway.networking.k8s.io", "kind": "Gateway", "namespace": namespace, "name": name}},
		"rules":      []any{map[string]any{"backendRefs": []any{map[string]any{"group": "", "kind": "Service", "name": r.Service, "port": r.Port, "weight": int64(1)}}}}}
}

func ingress(c Config, r route) map[string]any {
	spec := map[string]any{"rules": []any{map[string]any{"host": r.Host, "http": map[string]any{"paths": []any{map[string]any{
		"path": "/", "pathType": "Prefix",
		"backend": map[string]any{"service": map[string]any{"name": r.Service, "port": map[string]any{"number": r.Port}}}}}}}}}
	if c.IngressClass != "" {
		spec["ingressClassName"] = c.IngressClass
	}
	if r.TLS == "edge" {
		tls := map[string]any{"hosts": []any{r.Host}}
		if r.Certificate != "" {
			tls["secretName"] = r.Certificate
		}
		spec["tls"] = []any{tls}
	}
	return spec
}

func openshiftAddress(o *unstructured.Unstructured) string {
	all, _, _ := unstructured.NestedSlice(o.Object, "status", "ingress")
	for _, i := range all {
		m, _ := i.(map[string]any)
		conditions, _, _ := unstructured.NestedSlice(m, "conditions")
		for _, c := range conditions {
			if c, ok := c.(map[string]any); ok && c["type"] == "Admitted" && c["status"] == "True" {
				return firstText(text(m, "routerCanonicalHostname"), text(m, "host"))
			}
		}
	}
	return ""
}

func ingressAddress(o *unstructured.Unstructured) string {
	all, _, _ := unstructured.NestedSlice(o.Object, "status", "loadBalancer", "ingress")
	for _, i := range all {
		m, _ := i.(map[string]any)
		if a := firstText(text(m, "hostname"), text(m, "ip")); a != "" {
			return a
		}
	}
	return ""
}

// locate fills in where each host leads, from the status of what carries it. An
// item whose hosts lead nowhere is not ready.
func (r *Runtime) locate(ctx context.Context, all []carrier, seen *runtime.Observed) error {
	if len(all) == 0 {
		return nil
	}
	routes := map[string]string{}
	for _, c := range all {
		address, err := r.address(ctx, c)
		if err != nil {
			return err
		}
		if address != "" {
			routes[c.host] = address
			continue
		}
		if seen.State == runtime.Ready {
			seen.State, seen.Message = runtime.Installing, "the host "+c.host+" leads nowhere yet: the cluster's "+c.id.Kind+" has no address"
		}
	}
	if len(routes) > 0 {
		seen.Routes = routes
	}
	return nil
}

func (r *Runtime) address(ctx context.Context, c carrier) (string, error) {
	o, err := r.cluster.Look(ctx, c.id)
	if err != nil || o == nil {
		return "", err
	}
	if r.cfg.Address != "" {
		return r.cfg.Address, nil
	}
	if find := kinds[c.kind].address; find != nil {
		return find(o), nil
	}
	return r.gatewayAddress(ctx, o)
}

// gatewayAddress of a route is its gateway's, once that has accepted it.
func (r *Runtime) gatewayAddress(ctx context.Context, o *unstructured.Unstructured) (string, error) {
	parents, _, _ := unstructured.NestedSlice(o.Object, "status", "parents")
	accepted := false
	for _, p := range parents {
		m, _ := p.(map[string]any)
		conditions, _, _ := unstructured.NestedSlice(m, "conditions")
		for _, c := range conditions {
			c, ok := c.(map[string]any)
			accepted = accepted || ok && c["type"] == "Accepted" && c["status"] == "True"
		}
	}
	if !accepted {
		return "", nil
	}
	namespace, name, _ := strings.Cut(r.cfg.Gateway, "/")
	g, err := r.cluster.Look(ctx, manifest.ID{Group: "gateway.networking.k8s.io", Kind: "Gateway", Namespace: namespace, Name: name})
	if err != nil || g == nil {
		return "", err
	}
	addresses, _, _ := unstructured.NestedSlice(g.Object, "status", "addresses")
	for _, a := range addresses {
		m, _ := a.(map[string]any)
		if v := text(m, "value"); v != "" {
			return v, nil
		}
	}
	return "", nil
}
