//go:build e2e && linux

package bootstrap_test

import (
	"encoding/json"
	"errors"
	"fmt"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/tools/clientcmd"

	"github.com/droverhq/drover/test/drover"
	cluster "github.com/droverhq/drover/test/kubernetes"
	"github.com/droverhq/drover/test/postgres"
	"github.com/droverhq/drover/test/rabbitmq"
)

// plane is a namespace of a Kubernetes with real controllers and one node, which is
// played: of the pods that the controllers make, PostgreSQL, RabbitMQ and Drover are
// real servers on loopback, made as their pods say, and the kubelet leads to them.
// The others are said to run.
type plane struct {
	*world
	c    *cluster.Cluster
	kube kubernetes.Interface
	room string
	args []string
	made []*drover.Server // one for each of Drover's pods

	mu    sync.Mutex
	where map[string]string // of ports of pods: "postgres-0:5432"
	shut  string            // pods whose names begin with it cannot be entered; empty: all can
}

func newPlane(t *testing.T, c *cluster.Cluster) *plane {
	t.Helper()
	dir := t.TempDir()
	kubeconfig := filepath.Join(dir, "kubeconfig")
	if err := os.WriteFile(kubeconfig, c.Kubeconfig(), 0o600); err != nil {
		t.Fatal(err)
	}
	p := &plane{world: &world{t: t, state: filepath.Join(dir, "state")}, c: c, kube: c.Client(t),
		room: fmt.Sprintf("meta-%x", time.Now().UnixNano()), where: map[string]string{}}
	p.args = []string{"--location", c.URL, "--kubeconfig", kubeconfig, "--state", p.state, "--namespace", p.room, "--image", "example.org/drover:1", "--timeout", patience.String()}
	c.Node(t, p.room, "64", "256Gi")
	c.Forward(t, p.room, p.lead)
	return p
}

// lead tells the kubelet where a port of a pod is.
func (p *plane) lead(namespace, pod string, port int) (string, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	at, ok := p.where[fmt.Sprintf("%s:%d", pod, port)]
	if namespace != p.room || !ok || p.shut != "" && strings.HasPrefix(pod, p.shut) {
		return "", errors.New("connection refused")
	}
	return at, nil
}

func (p *plane) shutOut(pods string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.shut = pods
}

// start has the pods run that the controllers have made: databases first.
func (p *plane) start(sets int) {
	p.t.Helper()
	var all *corev1.PodList
	drover.Until(p.t, "the controllers have made the pods", func() (so bool) {
		var err error
		all, err = p.kube.CoreV1().Pods(p.room).List(p.t.Context(), metav1.ListOptions{})
		return err == nil && len(all.Items) == sets
	})
	for _, first := range []bool{true, false} {
		for _, pod := range all.Items {
			if (pod.Labels["app"] != "drover") != first {
				continue
			}
			p.server(pod)
			p.c.Bind(p.t, p.room, pod.Name, p.room)
			p.c.RunPod(p.t, p.room, pod.Name)
		}
	}
}

// server is what a pod really is.
func (p *plane) server(pod corev1.Pod) {
	p.t.Helper()
	switch pod.Labels["app"] {
	case "postgres":
		s := postgres.Start(p.t)
		env := p.env(pod)
		s.Exec(p.t, fmt.Sprintf("CREATE ROLE %s LOGIN PASSWORD '%s'", env["POSTGRES_USER"], env["POSTGRES_PASSWORD"]))
		s.Exec(p.t, fmt.Sprintf("CREATE DATABASE %s OWNER %s", env["POSTGRES_DB"], env["POSTGRES_USER"]))
		p.is(pod, 5432, fmt.Sprintf("127.0.0.1:%d", s.Port()))
	case "rabbitmq":
		s, env := rabbitmq.Start(p.t), p.env(pod)
		s.ChangePassword(p.t, env["RABBITMQ_DEFAULT_PASS"])
		p.is(pod, 5672, s.Addr)
	case "drover":
		p.drover(pod)
	}
}

func (p *plane) is(pod corev1.Pod, port int, address string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.where[fmt.Sprintf("%s:%d", pod.Name, port)] = address
}

// of is where the server of a service is, by the set's first pod.
func (p *plane) of(service string, port int) string {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.where[fmt.Sprintf("%s-0:%d", service, port)]
}

// env is the environment of a pod's container.
func (p *plane) env(pod corev1.Pod) map[string]string {
	p.t.Helper()
	out := map[string]string{}
	for _, e := range pod.Spec.Containers[0].Env {
		out[e.Name] = e.Value
		if e.ValueFrom != nil {
			out[e.Name] = string(p.secret(e.ValueFrom.SecretKeyRef.Name)[e.ValueFrom.SecretKeyRef.Key])
		}
	}
	return out
}

func (p *plane) secret(name string) map[string][]byte {
	p.t.Helper()
	s, err := p.kube.CoreV1().Secrets(p.room).Get(p.t.Context(), name, metav1.GetOptions{})
	if err != nil {
		p.t.Fatal(err)
	}
	return s.Data
}

// drover runs one as its pod says: its environment, its files, and the rights of its
// account. Its hosts are those of the cluster, which has no network: they are replaced.
func (p *plane) drover(pod corev1.Pod) {
	p.t.Helper()
	dir := p.t.TempDir()
	env, inside := p.account(dir, pod)
	for _, v := range pod.Spec.Volumes {
		if v.Secret == nil {
			continue
		}
		at := filepath.Join(dir, v.Name)
		if err := os.Mkdir(at, 0o700); err != nil {
			p.t.Fatal(err)
		}
		for name, data := range p.secret(v.Secret.SecretName) {
			if name == "connections.yaml" && len(inside) == 0 {
				own := "spec: {executor: kubernetes, options: {}}"
				if strings.Count(string(data), own) != 1 {
					p.t.Fatalf("Drover has no connection of its own cluster: %s", data)
				}
				data = []byte(strings.Replace(string(data), own, `spec: {executor: kubernetes, options: {kubeconfigFile: "`+filepath.Join(dir, "kubeconfig")+`"}}`, 1))
			}
			if err := os.WriteFile(filepath.Join(at, name), data, 0o600); err != nil {
				p.t.Fatal(err)
			}
		}
	}
	here := strings.NewReplacer("@postgres:5432", "@"+p.of("postgres", 5432), "//rabbitmq:5672", "//"+p.of("rabbitmq", 5672),
		"/config/", filepath.Join(dir, "config")+"/", "/tls/", filepath.Join(dir, "tls")+"/")
	s := &drover.Server{Mode: "server", DataDir: p.t.TempDir(), Listen: drover.FreeAddress(p.t), Env: env, Under: inside}
	for name, value := range p.env(pod) {
		if name != "DROVER_DATA_DIR" && name != "DROVER_LISTEN" {
			s.Env = append(s.Env, name+"="+here.Replace(value))
		}
		if name == "DROVER_TLS_CERTIFICATE_FILE" {
			s.Files.CA = here.Replace(value)
		}
	}
	s.Start(p.t)
	p.t.Cleanup(func() {
		s.Kill()
		if p.t.Failed() {
			log := s.Log()
			p.t.Logf("log of %s:\n%s", pod.Name, log[max(0, len(log)-8000):])
		}
	})
	p.made = append(p.made, s)
	p.is(pod, 8000, s.Listen)
}

// account lays a token of the pod's account where a kubelet does, for that process alone,
// and tells what it is run by. Who is not root here cannot: it is a kubeconfig then.
func (p *plane) account(dir string, pod corev1.Pod) (env, under []string) {
	p.t.Helper()
	kubeconfig := p.c.KubeconfigOfAccount(p.t, p.room, pod.Spec.ServiceAccountName)
	config, err := clientcmd.RESTConfigFromKubeConfig(kubeconfig)
	if err != nil {
		p.t.Fatal(err)
	}
	at, err := url.Parse(p.c.URL)
	if err != nil {
		p.t.Fatal(err)
	}
	for name, data := range map[string][]byte{"kubeconfig": kubeconfig, "token": []byte(config.BearerToken), "ca.crt": config.CAData, "namespace": []byte(p.room)} {
		if err := os.WriteFile(filepath.Join(dir, name), data, 0o600); err != nil {
			p.t.Fatal(err)
		}
	}
	under = []string{"unshare", "--mount", "--propagation", "private", "sh", "-ec", `mount -t tmpfs tmpfs /run
mkdir -p /run/secrets/kubernetes.io
ln -s "$0" /run/secrets/kubernetes.io/serviceaccount
exec "$@"`, dir}
	if err := exec.Command(under[0], append(under[1:len(under):len(under)], "test", "-e", "/var/run/secrets/kubernetes.io/serviceaccount/token")...).Run(); err != nil {
		p.t.Logf("the account's token cannot be where pods have it: %v", err)
		return nil, nil
	}
	return []string{"KUBERNETES_SERVICE_HOST=" + at.Hostname(), "KUBERNETES_SERVICE_PORT=" + at.Port()}, under
}

// phase of an environment as one of the replicas tells it.
func (p *plane) phase(of *drover.Server, name string) (string, int) {
	o, err := of.Client(p.t).Get(p.t.Context(), "environments", name, "")
	if err != nil {
		return err.Error(), 0
	}
	var status struct{ Counts struct{ Ready int } }
	if err := json.Unmarshal(o.Status, &status); err != nil {
		p.t.Fatal(err)
	}
	return o.Phase, status.Counts.Ready
}

// told is all that was said, for people.
func told(lines []line, said string) string {
	for _, l := range lines {
		said += l.Step + " " + l.Name + " " + l.Phase + " " + l.Message + "\n"
	}
	return said
}
