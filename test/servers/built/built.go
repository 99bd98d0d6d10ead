// Package built lists the servers that are compiled for tests. Each has a Go
// module in a directory of its name here.
//
// It owns their versions and how they are linked. It must not know how they are run.
package built

import "github.com/droverhq/drover/test/servers"

const under = "test/servers/built/"

// Etcd is what Kubernetes keeps its objects in.
var Etcd = servers.Built{
	Name: "etcd", Version: "3.6.13", Module: under + "etcd",
	Package: "go.etcd.io/etcd/server/v3", Flags: "-s -w", Binary: "etcd",
}

// Kubernetes is the API server and the controller manager in one file. Clients
// choose what they ask for by its version, which the linker writes.
var Kubernetes = servers.Built{
	Name: "kubernetes", Version: "1.37.1", Module: under + "kubernetes",
	Flags: "-s -w -X k8s.io/component-base/version.gitVersion=v1.37.1" +
		" -X k8s.io/component-base/version.gitMajor=1 -X k8s.io/component-base/version.gitMinor=37",
	Binary: "kubernetes", Links: []string{"kube-apiserver", "kube-controller-manager"},
}

// OpenTofu makes clusters out of templates.
var OpenTofu = servers.Built{
	Name: "opentofu", Version: "1.12.6", Module: under + "opentofu",
	Package: "github.com/opentofu/opentofu/cmd/tofu", Flags: "-s -w", Binary: "tofu",
}

// Toxiproxy stands between a client and its server, and is a bad network.
var Toxiproxy = servers.Built{
	Name: "toxiproxy", Version: "2.12.0", Module: under + "toxiproxy",
	Package: "github.com/Shopify/toxiproxy/v2/cmd/server", Flags: "-s -w", Binary: "toxiproxy",
}

// OpenBao keeps secrets. It has the API of Vault.
var OpenBao = servers.Built{
	Name: "openbao", Version: "2.4.0", Module: under + "openbao",
	Package: "github.com/openbao/openbao",
	Flags:   "-s -w -X github.com/openbao/openbao/version.fullVersion=2.4.0", Binary: "bao",
}

// Consul keeps services and keys.
var Consul = servers.Built{
	Name: "consul", Version: "1.22.7", Module: under + "consul",
	Package: "github.com/hashicorp/consul", Flags: "-s -w", Binary: "consul",
}

// ArgoCD is all of its servers in one file, which acts by its name. Out of its
// module come the custom resources and the settings that an installation begins
// with, and a program that its repository server calls. Its application controller
// has no flag that keeps its metrics from the network.
var ArgoCD = servers.Built{
	Name: "argocd", Version: "3.5.3", Module: under + "argocd",
	Package: "github.com/argoproj/argo-cd/v3/cmd", Flags: "-s -w -X github.com/argoproj/argo-cd/v3/common.version=3.5.3",
	Binary: "argocd", Links: []string{"argocd-repo-server", "argocd-application-controller", "argocd-server"},
	Source: servers.Source{
		Path:    "github.com/argoproj/argo-cd/v3",
		Files:   []string{"manifests/crds", "manifests/base/config", "hack/git-verify-wrapper.sh"},
		Changes: []servers.Change{{File: "controller/appcontroller.go", Old: `"0.0.0.0:%d", metricsPort`, New: `"127.0.0.1:%d", metricsPort`}},
	},
}

// Helm and Kustomize are what Argo CD calls for charts and overlays, in the
// versions that it comes with.
var (
	Helm = servers.Built{
		Name: "helm", Version: "4.2.1", Module: under + "helm",
		Package: "helm.sh/helm/v4/cmd/helm", Flags: "-s -w -X helm.sh/helm/v4/internal/version.version=v4.2.1", Binary: "helm",
	}
	Kustomize = servers.Built{
		Name: "kustomize", Version: "5.8.1", Module: under + "kustomize",
		Package: "sigs.k8s.io/kustomize/kustomize/v5", Flags: "-s -w", Binary: "kustomize",
	}
)

// Providers of OpenTofu that need no cloud.
var Providers = []servers.Built{provider("hashicorp", "time", "0.14.2"), provider("terraform-providers", "local", "2.9.0"), provider("terraform-providers", "random", "3.9.0")}

// provider is one of the module of all three; owner is in the name that its own module has.
func provider(owner, name, version string) servers.Built {
	return servers.Built{
		Name: "provider-" + name, Version: version, Module: under + "providers",
		Package: "github.com/" + owner + "/terraform-provider-" + name, Flags: "-s -w", Binary: "terraform-provider-" + name,
	}
}

// All of them, the slowest first.
var All = append([]servers.Built{Kubernetes, ArgoCD, Consul, OpenBao, OpenTofu, Helm, Etcd, Kustomize, Toxiproxy}, Providers...)
