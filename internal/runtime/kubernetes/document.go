package kubernetes

import (
	"bytes"
	"encoding/json"
	"regexp"
	"slices"
	"strings"

	"github.com/droverhq/drover/internal/fault"
	"github.com/droverhq/drover/internal/manifest"
	"github.com/droverhq/drover/internal/runtime/keep"
)

// document is the part of an item's body that this runtime reads.
type document struct {
	APIVersion string `json:"apiVersion"`
	Kind       string `json:"kind"`
	Metadata   struct {
		Namespace string            `json:"namespace"`
		Labels    map[string]string `json:"labels"`
	} `json:"metadata"`
	Spec struct {
		Suspended bool              `json:"suspended"`
		Versions  map[string]string `json:"versions"`
	} `json:"spec"`

	Manifests []map[string]any  `json:"manifests"`
	Ready     string            `json:"ready"`
	Routes    []route           `json:"routes"`
	Versions  map[string]string `json:"versions"`
	Suspended bool              `json:"suspended"`
	Force     bool              `json:"force"` // take fields over from other managers

	// Deployment says where the manifests are from; nil: it is none.
	Deployment *deployment `json:"deployment"`

	bare bool // the body itself is the one object
}

// route leads a host to a port of a service.
type route struct {
	Host    string `json:"host"`
	Service string `json:"service"`
	Port    int64  `json:"port"`
	// TLS ends where the route does: "edge" (default) with the certificate of the
	// Secret named by Certificate or of the router, "passthrough", or "none".
	TLS         string `json:"tls"`
	Certificate string `json:"certificate"`
}

// read parses a body. Its errors are shown to users, so they quote none of it.
func read(body json.RawMessage) (document, error) {
	var d document
	dec := json.NewDecoder(bytes.NewReader(body))
	if err := dec.Decode(&d); err != nil {
		return d, fault.New(fault.Invalid, "the desired document is not one that the kubernetes runtime can read")
	}
	if d.Manifests == nil {
		if d.APIVersion == "" || d.Kind == "" {
			return d, fault.New(fault.Invalid, "the desired document has no manifests, and is no Kubernetes object itself: nothing to apply")
		}
		object := map[string]any{}
		if err := json.Unmarshal(body, &object); err != nil {
			return d, fault.New(fault.Invalid, "the desired document is not a JSON object")
		}
		d.bare, d.Manifests = true, []map[string]any{object}
		d.Routes, d.Ready, d.Versions, d.Force, d.Deployment = nil, "", nil, false, nil // those are the object's own fields
	}
	d.Manifests = slices.DeleteFunc(d.Manifests, func(m map[string]any) bool { return m == nil })
	d.Suspended = d.Suspended || d.Spec.Suspended
	if d.Ready != "" {
		if _, err := manifest.CompileReady(d.Ready); err != nil {
			return d, err
		}
	}
	for i := range d.Routes {
		if err := d.Routes[i].check(); err != nil {
			return d, err
		}
	}
	return d, nil
}

var hostText = regexp.MustCompile(`^(\*\.)?[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*$`)

func (r *route) check() error {
	r.Host = strings.ToLower(strings.TrimSuffix(r.Host, "."))
	if !hostText.MatchString(r.Host) || len(r.Host) > 253 {
		return fault.New(fault.Invalid, "a route has a host that is no host name")
	}
	if r.Service == "" || r.Port < 1 || r.Port > 65535 {
		return fault.New(fault.Invalid, "the route of %s needs a service and a port", r.Host)
	}
	switch r.TLS {
	case "":
		r.TLS = "edge"
	case "edge", "passthrough", "none":
	default:
		return fault.New(fault.Invalid, "tls of the route of %s is edge, passthrough or none", r.Host)
	}
	return nil
}

// home is the namespace of what names none.
func (c Config) home(id string, d document) string {
	switch {
	case d.Metadata.Namespace != "":
		return d.Metadata.Namespace
	case c.Home != "":
		return c.Home
	}
	return keep.Named("drover-", id)
}

// resting scales what runs down to nothing, for an item that is suspended. What
// is no workload stays: its data must be there when it comes back.
func resting(object map[string]any) map[string]any {
	kind, _ := object["kind"].(string)
	spec, _ := object["spec"].(map[string]any)
	field, value := "", any(nil)
	switch kind {
	case "Deployment", "StatefulSet", "ReplicaSet":
		field, value = "replicas", int64(0)
	case "CronJob", "Job":
		field, value = "suspend", true
	default:
		return object
	}
	out, inner := map[string]any{}, map[string]any{field: value}
	for k, v := range object {
		out[k] = v
	}
	for k, v := range spec {
		if k != field {
			inner[k] = v
		}
	}
	out["spec"] = inner
	return out
}
