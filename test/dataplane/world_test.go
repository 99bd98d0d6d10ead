//go:build e2e

package dataplane_test

import (
	"context"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"

	"github.com/droverhq/drover/api/client"
	v1 "github.com/droverhq/drover/api/v1"
	"github.com/droverhq/drover/internal/cluster"
	"github.com/droverhq/drover/test/drover"
	"github.com/droverhq/drover/test/kubernetes"
)

func TestMain(m *testing.M) {
	for _, v := range os.Environ() { // the settings of whoever runs the tests are not theirs
		if name, _, _ := strings.Cut(v, "="); strings.HasPrefix(name, "DROVER_") && !strings.HasPrefix(name, "DROVER_TEST_") {
			os.Unsetenv(name)
		}
	}
	if mortal := os.Getenv(mortalVar); mortal != "" {
		serveUntilKilled(mortal)
	}
	os.Exit(m.Run())
}

// world is a control plane that sells shops.
type world struct {
	t *testing.T
	s *drover.Server
	c *client.Client
}

func start(t *testing.T, args ...string) *world {
	t.Helper()
	s := drover.Serve(t, append([]string{"--offerings-dir", "testdata"}, args...)...)
	w := &world{t: t, s: s, c: s.Client(t)}
	w.sells()
	return w
}

// sells waits until the server has read its offerings: a cluster that joins before is
// ready without their steps, and gets them later.
func (w *world) sells() {
	w.t.Helper()
	w.until("the offerings to be read", func() bool {
		for _, all := range []string{"shops", "stalls", "booths"} {
			if _, err := w.c.List(w.t.Context(), all, client.ListOptions{}); err != nil {
				return false
			}
		}
		return true
	})
}

// plane is a data plane on Kubernetes whose agent is the built binary.
type plane struct {
	*world
	name   string
	k      *kubernetes.Cluster
	agent  *drover.Agent
	server *drover.Proxy // between the agent and the control plane
	api    *drover.Proxy // between the agent and Kubernetes
}

// register brings a cluster into the fleet as an operator and the cluster's
// administrator do, by the printed line, and starts its agent.
func (w *world) register(name, region string, k *kubernetes.Cluster) *plane {
	t := w.t
	t.Helper()
	line := w.run("cluster", "register", name, "--provider", "metal", "--region", region)
	p := &plane{world: w, name: name, k: k}
	p.start(p.install(line))
	p.await("ready")
	return p
}

var quoted = regexp.MustCompile(`"(http[^"]+)"`)

// install runs the line that the server prints: whoever has it has nothing else.
func (p *plane) install(line string) (token string) {
	t := p.t
	t.Helper()
	url := quoted.FindStringSubmatch(line)
	if !strings.HasPrefix(line, "kubectl apply --server-side -f ") || strings.Count(line, "\n") != 1 || url == nil {
		t.Fatalf("the line is %s", line)
	}
	stream := drover.Must(t, drover.Request{Method: http.MethodGet, URL: url[1]})
	if stream.Status != http.StatusOK {
		t.Fatalf("the line fetches %d: %s", stream.Status, stream.Body)
	}
	admin := applier(t, p.k.Admin())
	for _, o := range split(t, stream.Body) {
		if err := admin.apply(t.Context(), o, ""); err != nil {
			t.Fatalf("%s %s: %v", o.GetKind(), o.GetName(), err)
		}
		if o.GetKind() == "Secret" {
			data, _ := o.Object["stringData"].(map[string]any)
			token, _ = data["token"].(string)
		}
	}
	if token == "" {
		t.Fatal("the manifests have no token")
	}
	return token
}

// start runs the agent with the rights of its own account, through two proxies.
func (p *plane) start(token string, options ...string) {
	t := p.t
	t.Helper()
	p.server = drover.HTTPProxy(t, p.s.URL())
	p.agent, p.api = p.replica(token, options...)
	p.agent.Server = "http://" + p.server.Addr
}

// replica runs one more process of the agent.
func (p *plane) replica(token string, options ...string) (*drover.Agent, *drover.Proxy) {
	t := p.t
	t.Helper()
	api := apiProxy(t, p.k)
	file := filepath.Join(t.TempDir(), "kubeconfig")
	config := throughProxy(t, p.k.KubeconfigOfAccount(t, cluster.AgentNamespace, cluster.AgentName), api)
	if err := os.WriteFile(file, config, 0o600); err != nil {
		t.Fatal(err)
	}
	options = append([]string{"kubeconfig=" + file, "address=lb.example.com", "resync=20s"}, options...)
	return drover.Join(t, "http://"+p.server.Addr, p.name, token, "--log-level", "debug", "--runtime", "kubernetes", "--runtime-options", strings.Join(options, ",")), api
}

// apiProxy stands before the API server and keeps the certificate to itself.
func apiProxy(t *testing.T, k *kubernetes.Cluster) *drover.Proxy {
	t.Helper()
	by, err := rest.TransportFor(&rest.Config{Host: k.URL, TLSClientConfig: rest.TLSClientConfig{CAData: k.Admin().CAData}})
	if err != nil {
		t.Fatal(err)
	}
	return drover.HTTPSProxy(t, k.URL, by)
}

func throughProxy(t *testing.T, kubeconfig []byte, by *drover.Proxy) []byte {
	t.Helper()
	c, err := clientcmd.Load(kubeconfig)
	if err != nil {
		t.Fatal(err)
	}
	for _, cluster := range c.Clusters {
		cluster.Server, cluster.CertificateAuthorityData = "https://"+by.Addr, by.Certificate
	}
	out, err := clientcmd.Write(*c)
	if err != nil {
		t.Fatal(err)
	}
	return out
}

// run runs the command line as an operator, and returns what it prints.
func (w *world) run(args ...string) string {
	w.t.Helper()
	stdout, stderr, code := w.s.Run(args...)
	if code != 0 {
		w.t.Fatalf("drover %s: code %d: %s", strings.Join(args, " "), code, stderr)
	}
	return stdout
}

// refused runs a command that must fail, with a code, and returns what it says.
func (w *world) refused(code int, args ...string) string {
	w.t.Helper()
	stdout, stderr, got := w.s.Run(args...)
	if got != code {
		w.t.Errorf("drover %s: code %d, want %d: %s%s", strings.Join(args, " "), got, code, stdout, stderr)
	}
	return stderr
}

func (w *world) ask(method, path, body string) drover.Answer {
	w.t.Helper()
	token, err := w.s.AdminToken()
	if err != nil {
		w.t.Fatal(err)
	}
	return drover.Must(w.t, drover.Request{Method: method, URL: w.s.URL() + path, Token: token, Body: []byte(body)})
}

func (w *world) get(resource, name string) (phase, status string) {
	o, err := w.c.Get(context.Background(), resource, name, "")
	if client.Status(err) == http.StatusNotFound {
		return "gone", ""
	}
	if err != nil {
		return "unknown", err.Error()
	}
	return o.Phase, string(o.Status)
}

// is waits until a thing has a phase.
func (w *world) is(resource, name, phase string) {
	w.t.Helper()
	seen := ""
	defer func() {
		if seen != phase {
			out, _, _ := w.s.Run("describe", strings.TrimSuffix(resource, "s"), name)
			w.t.Log(out)
		}
	}()
	w.until(fmt.Sprintf("%s of %s to be %s", name, resource, phase), func() bool {
		got, _ := w.get(resource, name)
		if got != seen {
			seen = got
			w.t.Logf("%s: %s", name, got)
		}
		return got == phase
	})
}

// until asks until it is so; what it must not disturb is left alone between.
func (w *world) until(what string, so func() bool) {
	w.t.Helper()
	deadline := time.Now().Add(drover.Patience)
	tick := time.NewTicker(50 * time.Millisecond)
	defer tick.Stop()
	for !so() {
		if time.Now().After(deadline) {
			w.t.Fatalf("waited in vain for %s", what)
		}
		<-tick.C
	}
}

// says waits until the description of a thing has a text.
func (w *world) says(resource, name string, texts ...string) string {
	w.t.Helper()
	out, lacks := "", ""
	met := false
	defer func() {
		if !met {
			w.t.Logf("describe %s %s lacks %q:\n%s", resource, name, lacks, out)
		}
	}()
	w.until(fmt.Sprintf("%s %s to say %q", resource, name, texts), func() bool {
		out, _, _ = w.s.Run("describe", resource, name)
		for _, text := range texts {
			if lacks = text; !strings.Contains(out, text) {
				return false
			}
		}
		met = true
		return true
	})
	return out
}

func (p *plane) await(phase string) { p.t.Helper(); p.is("clusters", p.name, phase) }

// order orders a shop there and returns its namespace.
func (w *world) order(name, region string, parameters map[string]any) (namespace string) {
	w.t.Helper()
	o, err := w.c.Create(context.Background(), "shops", v1.CreateInstance{Name: name, Provider: "metal", Region: region, Parameters: parameters})
	if err != nil {
		w.t.Fatalf("cannot order %s: %v", name, err)
	}
	return "drover-" + o.ID
}

func (w *world) remove(resource, name string) {
	w.t.Helper()
	if _, err := w.c.Delete(context.Background(), resource, name); err != nil {
		w.t.Fatalf("cannot delete %s: %v", name, err)
	}
}

func (w *world) update(name string, parameters map[string]any) {
	w.t.Helper()
	if _, err := w.c.Update(context.Background(), "shops", name, v1.UpdateInstance{Parameters: parameters}); err != nil {
		w.t.Fatalf("cannot update %s: %v", name, err)
	}
}

// kubelet runs whatever Deployments want, as soon as they want it. It ends with
// the test.
func kubelet(t *testing.T, k *kubernetes.Cluster) {
	t.Helper()
	all, ctx := k.Client(t).AppsV1(), t.Context()
	go func() {
		tick := time.NewTicker(200 * time.Millisecond)
		defer tick.Stop()
		for {
			select {
			case <-ctx.Done():
				return
			case <-tick.C:
			}
			list, err := all.Deployments("").List(ctx, metav1.ListOptions{})
			if err != nil {
				continue // the test has stopped the server
			}
			for _, d := range list.Items {
				if d.Status.ObservedGeneration == d.Generation || d.Namespace == cluster.AgentNamespace || d.DeletionTimestamp != nil {
					continue
				}
				n := *d.Spec.Replicas
				d.Status = appsv1.DeploymentStatus{ObservedGeneration: d.Generation, Replicas: n, UpdatedReplicas: n, ReadyReplicas: n, AvailableReplicas: n,
					Conditions: []appsv1.DeploymentCondition{{Type: appsv1.DeploymentAvailable, Status: "True"}, {Type: appsv1.DeploymentProgressing, Status: "True", Reason: "NewReplicaSetAvailable"}}}
				_, _ = all.Deployments(d.Namespace).UpdateStatus(ctx, &d, metav1.UpdateOptions{})
			}
		}
	}()
}
