// Package argocd gives tests real Argo CDs: Redis, the repository server and the
// application controller, on loopback, beside a cluster of test/kubernetes. There
// is no argocd-server: nobody logs in.
//
// It owns building and running them, what an installation begins with (custom
// resources, settings, the default project), and playing the kubelet, which would
// bring certificates and host keys out of settings into files. It must not know
// who makes the Applications, or why.
//
// DROVER_TEST_NO_ARGOCD=1 says that there is none, and that this was reported.
package argocd
