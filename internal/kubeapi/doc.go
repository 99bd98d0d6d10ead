// Package kubeapi is the way in and out on Kubernetes: the custom resources of
// managed-gitops.redhat.com (package v1alpha1) in the namespaces of an API, which
// is called a home.
//
// It owns their definitions and the roles for them (Manifests), reading intent out
// of them and handing it to the domain (Controllers), writing back what became of
// it (Home, which is a gitops.Mirror), and warnings at admission. It keeps no state
// but what can be had again: whether an intent is news, and in which order things
// are done, is decided by the ledger. So any number of replicas may run it at once.
//
// It must not know Argo CD, nor decide anything about a deployment.
//
// +kubebuilder:rbac:groups="",resources=namespaces,verbs=get;list;watch
// +kubebuilder:rbac:groups="",resources=secrets,verbs=get;list;watch
// +kubebuilder:rbac:groups="",resources=events,verbs=create
// +kubebuilder:rbac:groups=managed-gitops.redhat.com,resources=gitopsdeployments,verbs=get;list;watch;patch
// +kubebuilder:rbac:groups=managed-gitops.redhat.com,resources=gitopsdeploymentsyncruns;gitopsdeploymentrepositorycredentials;gitopsdeploymentmanagedenvironments,verbs=get;list;watch
// +kubebuilder:rbac:groups=managed-gitops.redhat.com,resources=gitopsdeployments/status;gitopsdeploymentsyncruns/status;gitopsdeploymentrepositorycredentials/status;gitopsdeploymentmanagedenvironments/status,verbs=get;patch
//
// +kubebuilder:webhookconfiguration:mutating=false,name=drover-gitops
// +kubebuilder:webhook:path=/validate-managed-gitops-redhat-com-v1alpha1-gitopsdeploymentsyncrun,mutating=false,failurePolicy=ignore,sideEffects=None,timeoutSeconds=5,groups=managed-gitops.redhat.com,resources=gitopsdeploymentsyncruns,verbs=create,versions=v1alpha1,name=syncruns.managed-gitops.redhat.com,admissionReviewVersions=v1,serviceName=drover,serviceNamespace=drover
package kubeapi
