// Package argocd is the runtime whose items are deployments that an Argo CD
// carries out: an Application each, and what Applications of a workspace share:
// an AppProject, the credentials of repositories, the clusters that it brings
// along. What is shared is derived from all items that the runtime holds; what
// is seen comes from a watch.
//
// Items of other kinds go to the runtime beside it, so that a cluster needs one
// agent only. What is kept, fenced and led is package keep's.
//
// The package must not know the control plane, nor argo-cd's modules: of its
// objects it reads what docs/gitops.md lists, and nothing else.
package argocd
