package cluster

import (
	"bytes"
	"encoding/json"
	"strings"
	"text/template"

	"github.com/droverhq/drover/internal/fault"
)

// Names of what an agent is on its cluster, where nobody says another namespace.
const (
	AgentNamespace = "drover-system"
	AgentName      = "drover-agent"
)

// InstallConfig is what an agent is put on a Kubernetes cluster with. All but
// Rules, Runtime, Namespace, Health, Trace, TLSSecret and Plaintext are required.
type InstallConfig struct {
	Server  string // URL that the agent connects to
	Cluster string // id
	Token   string // that it connects with first; it is given others later
	Image   string
	Rules   []Rule // see [Rules]
	// Runtime is kubernetes, or argocd where deployments are carried out by an Argo CD
	// of the cluster; default kubernetes. Neither gives the rights to deploy: see
	// [Rights].
	Runtime string
	// Namespace that it is put into; default AgentNamespace. Agents of several clusters
	// in one Kubernetes need one each, or the second takes the place of the first.
	Namespace string
	// Health is the port where the agent says that it is well; 0: nowhere, and
	// Kubernetes restarts it only when it ends.
	Health int
	// Trace is the URL of the collector that the agent sends its traces to; empty:
	// nowhere.
	Trace string
	// TLSSecret is a Secret in the namespace, not made here, with what the agent knows
	// the server by and shows to it: ca.crt, tls.crt, tls.key; empty: the authorities
	// of its image, and no certificate.
	TLSSecret string
	// Plaintext says that the server may be spoken to unencrypted.
	Plaintext bool
}

func (c InstallConfig) check() error {
	for name, text := range map[string]string{"server": c.Server, "cluster": c.Cluster, "token": c.Token, "image": c.Image} {
		if text == "" {
			return fault.New(fault.Invalid, "an agent cannot be installed without its %s", name)
		}
	}
	if c.Runtime != "" && c.Runtime != "kubernetes" && c.Runtime != "argocd" {
		return fault.New(fault.Invalid, "an agent is installed with the runtime kubernetes or argocd, and not %.40q", c.Runtime)
	}
	if c.Namespace != "" && !namespaceName.MatchString(c.Namespace) {
		return fault.New(fault.Invalid, "%.80q is no name of a namespace", c.Namespace).Because("namespace")
	}
	return nil
}

// Wide is what those objects of the agent are called that are in no namespace. Where it
// is in one of its own they are its own, too.
func (c InstallConfig) Wide() string { return besides(AgentName, c.Namespace) }

// besides is a name for an agent in a namespace, beside that of an agent in the usual one.
func besides(name, namespace string) string {
	if namespace == "" || namespace == AgentNamespace {
		return name
	}
	return name + "-" + namespace
}

// Install is a stream of YAML documents for `kubectl apply -f`. The same
// configuration gives the same bytes. It holds the token, so it is a secret.
func Install(c InstallConfig) ([]byte, error) { return c.render(installTemplate) }

// Values are the YAML values of the chart drover-agent, which has the same
// content as Install. They are a secret, too.
func Values(c InstallConfig) ([]byte, error) { return c.render(valuesTemplate) }

func (c InstallConfig) render(t *template.Template) ([]byte, error) {
	if err := c.check(); err != nil {
		return nil, err
	}
	if c.Runtime == "" {
		c.Runtime = "kubernetes"
	}
	if c.Namespace == "" {
		c.Namespace = AgentNamespace
	}
	var b bytes.Buffer
	if err := t.Execute(&b, c); err != nil {
		return nil, fault.New(fault.Internal, "cannot write the agent's manifests: %w", err)
	}
	return b.Bytes(), nil
}

var functions = template.FuncMap{
	// JSON is YAML, and has one way to write a text.
	"json": func(v any) (string, error) {
		var b bytes.Buffer
		e := json.NewEncoder(&b)
		e.SetEscapeHTML(false)
		err := e.Encode(v)
		return strings.TrimSpace(b.String()), err
	},
}

const rulesText = `{{define "rules"}}{{range .}}
  - verbs: {{json .Verbs}}
{{- with .URLs}}
    nonResourceURLs: {{json .}}
{{- end}}
{{- with .Groups}}
    apiGroups: {{json .}}
{{- end}}
{{- with .Resources}}
    resources: {{json .}}
{{- end}}
{{- with .Names}}
    resourceNames: {{json .}}
{{- end}}
{{- else}} []{{end}}{{end}}`

var valuesTemplate = parse(`server: {{json .Server}}
cluster: {{json .Cluster}}
token: {{json .Token}}
image: {{json .Image}}
runtime: {{.Runtime}}
health: {{.Health}}
traceEndpoint: {{json .Trace}}
tlsSecret: {{json .TLSSecret}}
plaintext: {{.Plaintext}}
rules:{{template "rules" .Rules}}
`)

var installTemplate = parse(`# The agent of one Drover cluster. Its token is in here: keep this to yourself.
apiVersion: v1
kind: Namespace
metadata:
  name: {{.Namespace}}
  labels:
    app.kubernetes.io/name: ` + AgentName + `
---
` + agentText)

func parse(text string) *template.Template {
	return template.Must(template.Must(template.New("install").Funcs(functions).Parse(rulesText)).Parse(text))
}
