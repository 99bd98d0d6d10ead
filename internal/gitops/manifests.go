package gitops

import (
	"bytes"
	"encoding/json"
	"maps"
	"path"
	"slices"
	"strings"

	"sigs.k8s.io/yaml"

	"github.com/droverhq/drover/internal/fault"
	"github.com/droverhq/drover/internal/runtime"
	"github.com/droverhq/drover/internal/source"
)

// bounds of what a workspace may deploy.
type bounds struct {
	Namespace        string   // of what names none
	Namespaces       []string // others that it may use
	ClusterResources bool
}

const (
	maxManifests = 1000
	maxManifest  = 1 << 20 // bytes of all of them
)

// manifestsOf reads the objects of a directory: its YAML and JSON files, not those
// of directories below it. Each mistake names its file.
func manifestsOf(files map[string]source.File, may bounds) ([]map[string]any, error) {
	var out []map[string]any
	seen := map[runtime.DeployedResource]string{}
	size := 0
	for _, name := range slices.Sorted(maps.Keys(files)) {
		if strings.Contains(name, "/") {
			continue
		}
		switch strings.ToLower(name) {
		case "kustomization.yaml", "kustomization.yml", "kustomization", "chart.yaml":
			return nil, fault.New(fault.Invalid, "%s: Kustomize and Helm need a cluster with Argo CD; this one takes plain manifests alone", name).Because("manifest")
		}
		switch path.Ext(strings.ToLower(name)) {
		case ".yaml", ".yml", ".json":
		default:
			continue
		}
		if size += len(files[name].Data); size > maxManifest {
			return nil, fault.New(fault.Invalid, "%s: the manifests have more than %d bytes in all: split the directory", name, maxManifest).Because("manifest")
		}
		objects, err := parseManifests(name, files[name].Data)
		if err != nil {
			return nil, err
		}
		for _, o := range objects {
			if err := may.settle(name, o); err != nil {
				return nil, err
			}
			id := identify(o)
			if other, twice := seen[id]; twice {
				return nil, fault.New(fault.Invalid, "%s: %s %s is in %s already", name, id.Kind, id.Name, other).Because("manifest")
			}
			seen[id] = name
			if out = append(out, o); len(out) > maxManifests {
				return nil, fault.New(fault.Invalid, "%s: more than %d objects in one directory", name, maxManifests).Because("manifest")
			}
		}
	}
	if out == nil {
		out = []map[string]any{}
	}
	return out, nil
}

// parseManifests reads the documents of one file, and the items of lists.
func parseManifests(name string, data []byte) ([]map[string]any, error) {
	bad := func(format string, args ...any) error {
		return fault.New(fault.Invalid, "%s: "+format, append([]any{name}, args...)...).Because("manifest")
	}
	var out []map[string]any
	for _, text := range documentsOf(data) {
		raw, err := yaml.YAMLToJSONStrict(text)
		if err != nil {
			return nil, bad("it is no YAML: %s", firstLine(err.Error()))
		}
		if bytes.Equal(bytes.TrimSpace(raw), []byte("null")) {
			continue
		}
		var o map[string]any
		d := json.NewDecoder(bytes.NewReader(raw))
		d.UseNumber()
		if d.Decode(&o) != nil {
			return nil, bad("it holds something else than objects")
		}
		kind, _ := o["kind"].(string)
		api, _ := o["apiVersion"].(string)
		if kind == "" || api == "" {
			return nil, bad("it is no Kubernetes manifest: apiVersion and kind are missing")
		}
		items, list := o["items"].([]any)
		if !list || !strings.HasSuffix(kind, "List") {
			out = append(out, o)
			continue
		}
		for _, item := range items {
			m, ok := item.(map[string]any)
			if !ok {
				return nil, bad("its list holds something else than objects")
			}
			out = append(out, m)
		}
	}
	return out, nil
}

func firstLine(s string) string { line, _, _ := strings.Cut(s, "\n"); return cut(line, 300) }

// documentsOf splits a file at its lines "---".
func documentsOf(data []byte) (out [][]byte) {
	var part []byte
	for line := range bytes.Lines(data) {
		if bytes.HasPrefix(line, []byte("---")) && len(bytes.TrimSpace(bytes.SplitN(line[3:], []byte("#"), 2)[0])) == 0 {
			out, part = append(out, part), nil
			continue
		}
		part = append(part, line...)
	}
	return append(out, part)
}

// clusterWide are kinds without a namespace that everybody has. Others are told by
// their names: what is for the whole cluster says so.
var clusterWide = []string{
	"Namespace", "Node", "PersistentVolume", "CustomResourceDefinition", "StorageClass", "PriorityClass", "IngressClass", "GatewayClass", "RuntimeClass",
	"ValidatingWebhookConfiguration", "MutatingWebhookConfiguration", "ValidatingAdmissionPolicy", "ValidatingAdmissionPolicyBinding",
	"MutatingAdmissionPolicy", "MutatingAdmissionPolicyBinding", "APIService", "CSIDriver", "CSINode", "VolumeAttachment", "VolumeAttributesClass",
	"CertificateSigningRequest", "FlowSchema", "PriorityLevelConfiguration", "ComponentStatus", "DeviceClass", "IPAddress", "ServiceCIDR", "StorageVersion",
}

// settle gives an object its namespace, and refuses what is out of bounds.
func (b bounds) settle(file string, o map[string]any) error {
	kind, _ := o["kind"].(string)
	if _, items := o["items"]; kind == "List" || items && strings.HasSuffix(kind, "List") {
		// Whoever applies it would find objects in it that nobody has looked at.
		return fault.New(fault.Invalid, "%s: a list in a list is not taken: write its objects one by one", file).Because("manifest")
	}
	meta, ok := o["metadata"].(map[string]any)
	name, _ := meta["name"].(string)
	if !ok || name == "" {
		return fault.New(fault.Invalid, "%s: a %s has no name", file, cut(kind, 100)).Because("manifest")
	}
	if slices.Contains(clusterWide, kind) || strings.HasPrefix(kind, "Cluster") {
		if !b.ClusterResources {
			return fault.New(fault.Invalid, "%s: %s %s is for the whole cluster, which this workspace may not change", file, cut(kind, 100), cut(name, 253)).Because("manifest")
		}
		delete(meta, "namespace")
		return nil
	}
	namespace, given := meta["namespace"].(string)
	switch {
	case !given || namespace == "":
		meta["namespace"] = b.Namespace
	case namespace != b.Namespace && !slices.ContainsFunc(b.Namespaces, func(n string) bool { return fits(n, namespace) }):
		return fault.New(fault.Invalid, "%s: %s %s is for the namespace %s, which this workspace may not deploy into", file, cut(kind, 100), cut(name, 253), cut(namespace, 253)).Because("manifest")
	}
	return nil
}

// identify is which object it is, whatever it says.
func identify(o map[string]any) runtime.DeployedResource {
	api, _ := o["apiVersion"].(string)
	group, _, grouped := strings.Cut(api, "/")
	if !grouped {
		group = ""
	}
	kind, _ := o["kind"].(string)
	meta, _ := o["metadata"].(map[string]any)
	name, _ := meta["name"].(string)
	namespace, _ := meta["namespace"].(string)
	return runtime.DeployedResource{Group: group, Kind: kind, Namespace: namespace, Name: name}
}
