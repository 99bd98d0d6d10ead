// Package gitops owns deployments: a directory of a Git repository that is to be
// had in a namespace of a cluster, the sync runs that are asked for, the
// credentials of repositories and the clusters that tenants bring along, each of
// one workspace, which is a namespace of a Kubernetes API or an organisation's.
//
// Intent comes from custom resources (package kubeapi) or from Drover's API, and
// is carried out by the agent of a cluster whose runtime is argocd, or kubernetes
// where there is no Argo CD. The room must not know how either speaks: it makes
// items for agents, takes what they observe, and tells the outcome through Mirror.
package gitops
