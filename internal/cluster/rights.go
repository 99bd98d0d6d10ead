package cluster

import (
	"bytes"
	"regexp"
	"slices"
	"strings"
	"text/template"

	"github.com/droverhq/drover/internal/fault"
)

// RightsConfig says what an agent deploys, beside the offerings that Install gives
// it the rights for.
type RightsConfig struct {
	Runtime string // kubernetes (the agent writes the objects), or argocd (Argo CD does)
	// ArgoCD is the namespace of Argo CD, for that runtime; default argocd.
	ArgoCD string
	// Namespaces that it deploys into, for the runtime kubernetes; Everywhere: into
	// all. One of the two must be said.
	Namespaces []string
	Everywhere bool
	// Account of the agent, as <namespace>/<name>; default: the one of Install.
	Account string
}

var namespaceName = regexp.MustCompile(`^[a-z0-9]([-a-z0-9]{0,61}[a-z0-9])?$`)

// Rights is a stream of YAML documents for `kubectl apply -f`: what an agent needs
// to carry deployments out, and no more. The same configuration gives the same
// bytes. Faults: Invalid.
func Rights(c RightsConfig) ([]byte, error) {
	if c.ArgoCD == "" {
		c.ArgoCD = "argocd"
	}
	if c.Account == "" {
		c.Account = AgentNamespace + "/" + AgentName
	}
	namespace, name, ok := strings.Cut(c.Account, "/")
	switch {
	case !ok || !namespaceName.MatchString(namespace) || !namespaceName.MatchString(name):
		return nil, fault.New(fault.Invalid, "the account of an agent is <namespace>/<name>, and %.80q is not", c.Account)
	case c.Runtime != "kubernetes" && c.Runtime != "argocd":
		return nil, fault.New(fault.Invalid, "the runtime is kubernetes or argocd, and not %.40q", c.Runtime)
	case c.Runtime == "argocd" && !namespaceName.MatchString(c.ArgoCD):
		return nil, fault.New(fault.Invalid, "%.80q is no namespace of an Argo CD", c.ArgoCD)
	case c.Runtime == "argocd" && (c.Everywhere || len(c.Namespaces) > 0):
		return nil, fault.New(fault.Invalid, "beside Argo CD the agent writes nothing into namespaces of tenants: leave them out, and see to the rights of Argo CD's own account")
	case c.Runtime == "kubernetes" && c.Everywhere == (len(c.Namespaces) > 0):
		return nil, fault.New(fault.Invalid, "say into which namespaces the agent deploys, or that it is all of them")
	}
	if i := slices.IndexFunc(c.Namespaces, func(n string) bool { return !namespaceName.MatchString(n) }); i >= 0 {
		return nil, fault.New(fault.Invalid, "%.80q is no name of a namespace", c.Namespaces[i])
	}
	suffix := besides("", namespace)
	if name != AgentName {
		suffix += "-" + name
	}
	var b bytes.Buffer
	err := rightsTemplate.ExecuteTemplate(&b, c.Runtime, struct {
		RightsConfig
		AccountNamespace, AccountName string
		Suffix                        string // of bindings, or those of another agent would be replaced
	}{c, namespace, name, suffix})
	if err != nil {
		return nil, fault.New(fault.Internal, "cannot write the agent's rights: %w", err)
	}
	return b.Bytes(), nil
}

// rightsTemplate: what is filled in are names that were checked.
var rightsTemplate = template.Must(template.New("rights").Parse(`
{{- define "subjects"}}subjects:
  - kind: ServiceAccount
    name: {{.AccountName}}
    namespace: {{.AccountNamespace}}
{{end}}

{{- define "homes"}}# It makes the namespaces that deployments ask for (CreateNamespace=true), and sees when somebody removes one.
apiVersion: rbac.authorization.k8s.io/v1
kind: ClusterRole
metadata:
  name: drover-deploy-namespaces
rules:
  - apiGroups: [""]
    resources: [namespaces]
    verbs: [get, list, watch, create]
---
apiVersion: rbac.authorization.k8s.io/v1
kind: ClusterRoleBinding
metadata:
  name: drover-deploy-namespaces{{.Suffix}}
roleRef:
  apiGroup: rbac.authorization.k8s.io
  kind: ClusterRole
  name: drover-deploy-namespaces
{{template "subjects" .}}{{end}}

{{- define "kubernetes"}}# What an agent may deploy: the kinds below, and those of every ClusterRole with the label drover.dev/deploy=true. Nothing without a
# namespace is among them, nor roles and bindings: an agent can hand out only rights that it has.
apiVersion: rbac.authorization.k8s.io/v1
kind: ClusterRole
metadata:
  name: drover-deploy
aggregationRule:
  clusterRoleSelectors:
    - matchLabels:
        drover.dev/deploy: "true"
---
apiVersion: rbac.authorization.k8s.io/v1
kind: ClusterRole
metadata:
  name: drover-deploy-workloads
  labels:
    drover.dev/deploy: "true"
rules:
  - apiGroups: [""]
    resources: [configmaps, persistentvolumeclaims, pods, secrets, serviceaccounts, services]
    verbs: [get, list, watch, create, patch, delete]
  - apiGroups: [apps]
    resources: [daemonsets, deployments, statefulsets]
    verbs: [get, list, watch, create, patch, delete]
  - apiGroups: [batch]
    resources: [cronjobs, jobs]
    verbs: [get, list, watch, create, patch, delete]
  - apiGroups: [autoscaling]
    resources: [horizontalpodautoscalers]
    verbs: [get, list, watch, create, patch, delete]
  - apiGroups: [networking.k8s.io]
    resources: [ingresses, networkpolicies]
    verbs: [get, list, watch, create, patch, delete]
  - apiGroups: [policy]
    resources: [poddisruptionbudgets]
    verbs: [get, list, watch, create, patch, delete]
---
{{template "homes" .}}
{{- if .Everywhere}}---
apiVersion: rbac.authorization.k8s.io/v1
kind: ClusterRoleBinding
metadata:
  name: drover-deploy{{.Suffix}}
roleRef:
  apiGroup: rbac.authorization.k8s.io
  kind: ClusterRole
  name: drover-deploy
{{template "subjects" .}}{{end}}
{{- range .Namespaces}}---
apiVersion: rbac.authorization.k8s.io/v1
kind: RoleBinding
metadata:
  name: drover-deploy{{$.Suffix}}
  namespace: {{.}}
roleRef:
  apiGroup: rbac.authorization.k8s.io
  kind: ClusterRole
  name: drover-deploy
{{template "subjects" $}}{{end}}{{end}}

{{- define "argocd"}}# What an agent does beside an Argo CD: Applications, projects and credentials in that one's namespace. What is deployed is written by
# Argo CD's own account, whose rights are the platform team's.
apiVersion: rbac.authorization.k8s.io/v1
kind: Role
metadata:
  name: drover-deploy
  namespace: {{.ArgoCD}}
rules:
  - apiGroups: [argoproj.io]
    resources: [applications, appprojects]
    verbs: [get, list, watch, create, update, patch, delete]
  - apiGroups: [""]
    resources: [secrets]
    verbs: [get, list, watch, create, update, patch, delete]
  - apiGroups: [managed-gitops.redhat.com]
    resources: [operations, operations/status]
    verbs: [get, list, watch, create, update, patch, delete]
  - apiGroups: [""]
    resources: [configmaps]
    verbs: [get, create, patch]
  - apiGroups: [apps]
    resources: [deployments]
    verbs: [list]
---
apiVersion: rbac.authorization.k8s.io/v1
kind: RoleBinding
metadata:
  name: drover-deploy{{.Suffix}}
  namespace: {{.ArgoCD}}
roleRef:
  apiGroup: rbac.authorization.k8s.io
  kind: Role
  name: drover-deploy
{{template "subjects" .}}---
{{template "homes" .}}{{end}}`))
