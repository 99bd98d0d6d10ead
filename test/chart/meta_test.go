package chart_test

import (
	"encoding/json"
	"fmt"
	"os"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"sigs.k8s.io/yaml"
)

// metaHosts are the names in the server certificates of meta on Kubernetes, by the resource
// that has them made. Templates have nothing that two resources could take them from.
func metaHosts(t *testing.T) map[string]any {
	t.Helper()
	raw, err := os.ReadFile("../../deploy/meta/kubernetes/template.yaml")
	if err != nil {
		t.Fatal(err)
	}
	type certificate struct {
		Use       string
		Hosts     any
		Manifests []json.RawMessage
	}
	var template struct {
		Spec struct {
			Resources []struct {
				Name string
				With certificate
			}
		}
	}
	if err := yaml.Unmarshal(raw, &template); err != nil {
		t.Fatal(err)
	}
	out := map[string]any{}
	for _, r := range template.Spec.Resources {
		if r.With.Use == "server" {
			out[r.Name] = r.With.Hosts
		}
		for _, raw := range r.With.Manifests {
			var manifest struct {
				Kind string
				Spec struct{ DNSNames any }
			}
			if err := json.Unmarshal(raw, &manifest); err == nil && manifest.Kind == "Certificate" { // others have another spec
				out[r.Name] = manifest.Spec.DNSNames
			}
		}
	}
	return out
}

// Whoever makes the certificate of Drover's API, the same names are in it; and every other
// server is known by the same forms of its name.
func TestMetaCertificatesHaveTheSameNames(t *testing.T) {
	got := metaHosts(t)
	api := `${["drover", "drover." + params.namespace, "drover." + params.namespace + ".svc", "drover." + params.namespace + ".svc.cluster.local"] + (params.public_host == "" ? [] : [params.public_host])}`
	want := map[string]any{"drover_tls": api, "drover_issuer": api}
	for _, name := range strings.Fields("postgres rabbitmq consul openbao") {
		var hosts []any
		for _, form := range []string{"%s", "%s.${params.namespace}", "%s.${params.namespace}.svc", "%s.${params.namespace}.svc.cluster.local"} {
			hosts = append(hosts, fmt.Sprintf(form, name))
		}
		want[name+"_tls"] = hosts
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
}
