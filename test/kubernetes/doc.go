// Package kubernetes gives tests real Kubernetes API servers: etcd and
// kube-apiserver on loopback, and kube-controller-manager where asked for.
//
// It owns building them, running each cluster in a directory of its own with its
// own authority and keys, stopping and pausing their processes, and playing the
// kubelet, which there is none of. It must not know what is kept in them.
//
// DROVER_TEST_KUBECONFIG names the configuration of a running cluster that
// [Shared] uses instead of starting one per test process.
// DROVER_TEST_NO_KUBERNETES=1 says that there is none, and that this was reported.
package kubernetes
