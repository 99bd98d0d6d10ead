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

// All of them, the slowest first.
var All = []servers.Built{Kubernetes, OpenTofu, Etcd}
