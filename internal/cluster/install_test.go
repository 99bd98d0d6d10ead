package cluster_test

import (
	"bytes"
	or "cmp"
	"encoding/json"
	"os"
	"slices"
	"strings"
	"testing"
	"text/template"

	"github.com/google/go-cmp/cmp"
	"sigs.k8s.io/yaml"

	"github.com/droverhq/drover/internal/cluster"
	"github.com/droverhq/drover/internal/fault"
)

var installed = cluster.InstallConfig{
	Server: "https://drover.example.org", Cluster: "edge", Token: "a.b.c", Image: "drover:1",
	Rules: []cluster.Rule{
		{Groups: []string{""}, Resources: []string{"configmaps"}, Verbs: []string{"get", "patch"}},
		{Groups: []string{"rbac.authorization.k8s.io"}, Resources: []string{"clusterroles"}, Names: []string{"view"}, Verbs: []string{"bind"}},
		{URLs: []string{"/metrics"}, Verbs: []string{"get"}},
	},
}

func documents(t *testing.T, stream []byte) (out []map[string]any) {
	t.Helper()
	for part := range strings.SplitSeq(string(stream), "\n---\n") {
		var m map[string]any
		if err := yaml.UnmarshalStrict([]byte(part), &m); err != nil {
			t.Fatalf("%v in\n%s", err, part)
		}
		out = append(out, m)
	}
	return out
}

func TestInstall(t *testing.T) {
	stream, err := cluster.Install(installed)
	if err != nil {
		t.Fatal(err)
	}
	if again, _ := cluster.Install(installed); !bytes.Equal(stream, again) {
		t.Error("twice the same gives two texts")
	}
	var kinds []string
	for _, d := range documents(t, stream) {
		kinds = append(kinds, d["kind"].(string))
		if text, _ := json.Marshal(d); d["kind"] != "Secret" && bytes.Contains(text, []byte(installed.Token)) {
			t.Errorf("the token is in a %s, too", d["kind"])
		}
	}
	want := []string{"Namespace", "ServiceAccount", "ClusterRole", "ClusterRoleBinding", "Role", "RoleBinding", "Secret", "Deployment"}
	if d := cmp.Diff(want, kinds); d != "" {
		t.Error(d)
	}
}

// Agents of two clusters in one Kubernetes, each in a namespace of its own, have no
// object in common; the usual names are as they were.
func TestTwoAgentsInOneKubernetes(t *testing.T) {
	second := installed
	second.Cluster, second.Namespace = "far", "drover-far"
	names := func(c cluster.InstallConfig) map[string]bool {
		stream, err := cluster.Install(c)
		if err != nil {
			t.Fatal(err)
		}
		out := map[string]bool{}
		for _, d := range documents(t, stream) {
			meta := d["metadata"].(map[string]any)
			namespace, _ := meta["namespace"].(string)
			out[d["kind"].(string)+" "+namespace+"/"+meta["name"].(string)] = true
		}
		return out
	}
	one, two := names(installed), names(second)
	for name := range two {
		if one[name] {
			t.Errorf("both have the %s", name)
		}
	}
	for _, want := range []string{"Namespace /drover-system", "ClusterRole /drover-agent", "ClusterRoleBinding /drover-agent", "Deployment drover-system/drover-agent", "Secret drover-system/drover-join"} {
		if !one[want] {
			t.Errorf("there is no %s: %v", want, one)
		}
	}
	stream, _ := cluster.Install(second)
	if text := string(stream); strings.Contains(text, "drover-system") || !strings.Contains(text, "lease=drover-agent,namespace=drover-far") {
		t.Errorf("%s", text)
	}
	second.Namespace = "Not One"
	if _, err := cluster.Install(second); !fault.Is(err, fault.Invalid) {
		t.Errorf("%v", err)
	}
}

// An agent sends its traces where it is told to, and is told nothing by default.
func TestInstallOfWhoIsTraced(t *testing.T) {
	const said = `- "--trace-endpoint=`
	for trace, want := range map[string]bool{"": false, "https://collector.example.org:4318": true} {
		c := installed
		c.Trace = trace
		stream, err := cluster.Install(c)
		if err != nil {
			t.Fatal(err)
		}
		if got := strings.Contains(string(stream), said+trace+`"`) && strings.Contains(string(stream), said); got != want {
			t.Errorf("%q: %s", trace, stream)
		}
	}
}

func TestInstallWantsEverything(t *testing.T) {
	for reason, edit := range map[string]func(*cluster.InstallConfig){
		"no server":  func(c *cluster.InstallConfig) { c.Server = "" },
		"no cluster": func(c *cluster.InstallConfig) { c.Cluster = "" },
		"no token":   func(c *cluster.InstallConfig) { c.Token = "" },
		"no image":   func(c *cluster.InstallConfig) { c.Image = "" },
		"no runtime": func(c *cluster.InstallConfig) { c.Runtime = "process" },
	} {
		c := installed
		edit(&c)
		if _, err := cluster.Install(c); !fault.Is(err, fault.Invalid) {
			t.Errorf("%s: %v", reason, err)
		}
	}
}

// What is set must not be able to become more than one text of the document.
func TestInstallQuotes(t *testing.T) {
	evil := "x\"\n---\nkind: Evil # ${} {{ .Token }} \u2028 & <b>"
	c := cluster.InstallConfig{Server: evil, Cluster: evil, Token: evil, Image: evil, Rules: []cluster.Rule{{Groups: []string{evil}, Resources: []string{evil}, Verbs: []string{evil}}}}
	stream, err := cluster.Install(c)
	if err != nil {
		t.Fatal(err)
	}
	docs := documents(t, stream)
	if len(docs) != 8 {
		t.Fatalf("%d documents", len(docs))
	}
	if got := docs[6]["stringData"].(map[string]any)["token"]; got != evil {
		t.Errorf("the token is %q", got)
	}
	if got := docs[2]["rules"].([]any)[0].(map[string]any)["verbs"].([]any)[0]; got != evil {
		t.Errorf("the verb is %q", got)
	}
}

// The chart is rendered with the few functions of Helm that it uses.
func TestTheChartSaysTheSame(t *testing.T) {
	text, err := os.ReadFile("../../deploy/helm/drover-agent/templates/agent.yaml")
	if err != nil {
		t.Fatal(err)
	}
	chart, err := template.New("chart").Funcs(template.FuncMap{
		"quote":  func(s string) (string, error) { b, err := json.Marshal(s); return string(b), err },
		"toYaml": func(v any) (string, error) { b, err := yaml.Marshal(v); return strings.TrimSpace(string(b)), err },
		"nindent": func(n int, s string) string {
			return "\n" + strings.Repeat(" ", n) + strings.ReplaceAll(s, "\n", "\n"+strings.Repeat(" ", n))
		},
		"required": func(_ string, v any) any { return v },
	}).Option("missingkey=error").Parse(string(text))
	if err != nil {
		t.Fatal(err)
	}
	bare := installed
	bare.Rules = nil
	watched := installed
	watched.Health = 8081
	beside := installed
	beside.Runtime = "argocd"
	apart := installed
	apart.Namespace = "drover-far"
	traced := installed
	traced.Trace = "https://collector.example.org:4318/x\"y"
	known := installed
	known.TLSSecret, known.Plaintext = "edge-tls", true
	for reason, c := range map[string]cluster.InstallConfig{"rules": installed, "with a certificate": known, "a namespace of its own": apart, "no rules": bare, "a health port": watched, "beside Argo CD": beside, "traced": traced} {
		t.Run(reason, func(t *testing.T) {
			wrote, err := cluster.Values(c)
			if err != nil {
				t.Fatal(err)
			}
			// What is not set keeps the chart's own value.
			var values, set map[string]any
			defaults, err := os.ReadFile("../../deploy/helm/drover-agent/values.yaml")
			if err != nil {
				t.Fatal(err)
			}
			if err := yaml.UnmarshalStrict(defaults, &values); err != nil {
				t.Fatal(err)
			}
			if err := yaml.UnmarshalStrict(wrote, &set); err != nil {
				t.Fatalf("%v in\n%s", err, wrote)
			}
			for key, v := range set {
				if _, ok := values[key]; !ok {
					t.Errorf("the chart knows no value %s", key)
				}
				values[key] = v
			}
			var rendered bytes.Buffer
			if err := chart.Execute(&rendered, map[string]any{"Values": values, "Release": map[string]any{"Namespace": or.Or(c.Namespace, cluster.AgentNamespace)}}); err != nil {
				t.Fatal(err)
			}
			stream, err := cluster.Install(c)
			if err != nil {
				t.Fatal(err)
			}
			// Helm makes the namespace itself.
			if d := cmp.Diff(documents(t, stream)[1:], documents(t, rendered.Bytes())); d != "" {
				t.Error(d)
			}
		})
	}
}

func TestTheAgentHasNoMoreThanItNeeds(t *testing.T) {
	stream, err := cluster.Install(installed)
	if err != nil {
		t.Fatal(err)
	}
	docs := documents(t, stream)
	at := slices.IndexFunc(docs, func(d map[string]any) bool { return d["kind"] == "Deployment" })
	var d struct {
		Spec struct {
			Replicas int
			Template struct {
				Spec struct {
					SecurityContext struct{ RunAsNonRoot bool }
					Containers      []struct {
						SecurityContext struct {
							AllowPrivilegeEscalation *bool
							ReadOnlyRootFilesystem   bool
							Capabilities             struct{ Drop []string }
						}
						Args []string
					}
				}
			}
		}
	}
	text, _ := json.Marshal(docs[at])
	if err := json.Unmarshal(text, &d); err != nil {
		t.Fatal(err)
	}
	pod := d.Spec.Template.Spec
	c := pod.Containers[0]
	if d.Spec.Replicas != 2 || !pod.SecurityContext.RunAsNonRoot || !c.SecurityContext.ReadOnlyRootFilesystem ||
		c.SecurityContext.AllowPrivilegeEscalation == nil || *c.SecurityContext.AllowPrivilegeEscalation || !slices.Equal(c.SecurityContext.Capabilities.Drop, []string{"ALL"}) {
		t.Errorf("%+v", d)
	}
	if !slices.Contains(c.Args, "--cluster=edge") || !slices.Contains(c.Args, "--server=https://drover.example.org") || !slices.Contains(c.Args, "--runtime=kubernetes") {
		t.Errorf("arguments: %q", c.Args)
	}
}
