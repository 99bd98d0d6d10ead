//go:build e2e && linux

package bootstrap_test

import (
	"encoding/json"
	"errors"
	"fmt"
	"net"
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
// played: the pods that the controllers make are real servers on loopback, with the
// files, arguments and environment of their pods, and the kubelet leads to them.
// Prometheus is said to run.
type plane struct {
	*world
	c     *cluster.Cluster
	kube  kubernetes.Interface
	room  string
	args  []string
	made  []*drover.Server // one for each of Drover's pods
	sql   *postgres.Server
	amqp  *rabbitmq.Server
	tools map[string]*tool      // Consul and OpenBao
	laid  map[string]corev1.Pod // Drover's pods, by the directory of their files

	mu    sync.Mutex
	where map[string]string // of ports of pods: "postgres-0:5432"
	shut  string            // pods whose names begin with it cannot be entered; empty: all can
}

func newPlane(t *testing.T, c *cluster.Cluster) *plane {
	t.Helper()
	for _, name := range []string{"POSTGRES", "RABBITMQ", "CONSUL", "OPENBAO"} {
		if os.Getenv("DROVER_TEST_NO_"+name) == "1" {
			t.Skip("a server is missing: DROVER_TEST_NO_" + name)
		}
	}
	dir := t.TempDir()
	kubeconfig := filepath.Join(dir, "kubeconfig")
	if err := os.WriteFile(kubeconfig, c.Kubeconfig(), 0o600); err != nil {
		t.Fatal(err)
	}
	p := &plane{world: &world{t: t, state: filepath.Join(dir, "state")}, c: c, kube: c.Client(t),
		room: fmt.Sprintf("meta-%x", time.Now().UnixNano()), where: map[string]string{}, laid: map[string]corev1.Pod{}, tools: map[string]*tool{}}
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
	for _, name := range []string{"postgres", "rabbitmq", "consul", "openbao", "prometheus", "drover"} {
		for _, pod := range all.Items {
			if pod.Labels["app"] == name {
				p.begin(pod)
			}
		}
	}
}

// begin has one pod run.
func (p *plane) begin(pod corev1.Pod) {
	p.t.Helper()
	p.server(pod)
	p.c.Bind(p.t, p.room, pod.Name, p.room)
	p.c.RunPod(p.t, p.room, pod.Name)
}

// server is what a pod really is.
func (p *plane) server(pod corev1.Pod) {
	p.t.Helper()
	switch pod.Labels["app"] {
	case "postgres":
		if env := p.env(pod); p.sql == nil { // its volume is new
			p.sql = postgres.Start(p.t)
			p.sql.Exec(p.t, fmt.Sprintf("CREATE ROLE %s SUPERUSER LOGIN PASSWORD '%s'", env["POSTGRES_USER"], env["POSTGRES_PASSWORD"]))
			for line := range strings.Lines(string(p.files(pod, "init")["init.sql"])) {
				p.sql.Exec(p.t, line)
			}
		}
		p.sql.Mount(p.t, "/tls", p.files(pod, "tls"), pod.Spec.Containers[0].Args)
		p.is(pod, 5432, fmt.Sprintf("127.0.0.1:%d", p.sql.Port()))
	case "rabbitmq":
		if p.amqp == nil {
			p.amqp = rabbitmq.Start(p.t)
			p.amqp.ChangePassword(p.t, p.env(pod)["RABBITMQ_DEFAULT_PASS"])
		}
		p.amqp.Mount(p.t, "/tls", p.files(pod, "tls"))
		p.is(pod, 5671, p.amqp.Secure)
		p.is(pod, 15671, strings.TrimPrefix(p.amqp.Managed, "https://"))
	case "consul", "openbao":
		p.tool(pod)
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

func (p *plane) port(service string, port int) string {
	p.t.Helper()
	_, at, err := net.SplitHostPort(p.of(service, port))
	if err != nil {
		p.t.Fatal(err)
	}
	return at
}

// env is the environment of a pod's container.
func (p *plane) env(pod corev1.Pod) map[string]string {
	p.t.Helper()
	out := map[string]string{}
	for _, e := range pod.Spec.Containers[0].Env {
		out[e.Name] = e.Value
		switch from := e.ValueFrom; {
		case from != nil && from.SecretKeyRef != nil:
			out[e.Name] = string(p.secret(from.SecretKeyRef.Name)[from.SecretKeyRef.Key])
		case from != nil && from.FieldRef.FieldPath == "status.podIP":
			out[e.Name] = "127.0.0.1"
		}
		for name, value := range out { // of those before it
			out[e.Name] = strings.ReplaceAll(out[e.Name], "$("+name+")", value)
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

// files are those of a volume of a pod, as a kubelet lays them.
func (p *plane) files(pod corev1.Pod, volume string) map[string][]byte {
	p.t.Helper()
	out := map[string][]byte{}
	for _, v := range pod.Spec.Volumes {
		if v.Name != volume || v.Secret == nil {
			continue
		}
		if v.Secret.DefaultMode == nil || *v.Secret.DefaultMode != 0o440 {
			p.t.Errorf("files of the secret %s can be read by others in the pod %s", v.Secret.SecretName, pod.Name)
		}
		all := p.secret(v.Secret.SecretName)
		for name, data := range all {
			if len(v.Secret.Items) == 0 {
				out[name] = data
			}
		}
		for _, item := range v.Secret.Items {
			if len(all[item.Key]) == 0 {
				p.t.Fatalf("the secret %s has no %s", v.Secret.SecretName, item.Key)
			}
			out[item.Path] = all[item.Key]
		}
	}
	return out
}

// lay lays the files of one of Drover's pods, or lays them again.
func (p *plane) lay(dir string, pod corev1.Pod) {
	p.t.Helper()
	p.laid[dir] = pod
	for _, volume := range []string{"config", "tls"} {
		if err := os.MkdirAll(filepath.Join(dir, volume), 0o700); err != nil {
			p.t.Fatal(err)
		}
		for name, data := range p.files(pod, volume) {
			if err := os.WriteFile(filepath.Join(dir, volume, name), []byte(p.ported(string(data))), 0o600); err != nil {
				p.t.Fatal(err)
			}
		}
	}
}

// ported has the services be where they are here: their names stay.
func (p *plane) ported(text string) string {
	for port, service := range map[int]string{5432: "postgres", 5671: "rabbitmq", 15671: "rabbitmq", 8501: "consul", 8200: "openbao"} {
		for _, before := range []string{"//", "@"} {
			if at := fmt.Sprintf("%s%s:%d", before, service, port); strings.Contains(text, at) {
				text = strings.ReplaceAll(text, at, before+service+":"+p.port(service, port))
			}
		}
	}
	return text
}

// drover runs one as its pod says: its environment, its files, and the rights of its
// account. Hosts have the names that they have in the cluster; their ports are replaced.
func (p *plane) drover(pod corev1.Pod) {
	p.t.Helper()
	dir := p.t.TempDir()
	env, inside := p.account(dir, pod)
	p.lay(dir, pod)
	here := strings.NewReplacer("/config/", filepath.Join(dir, "config")+"/", "/tls/", filepath.Join(dir, "tls")+"/")
	s := &drover.Server{Mode: "server", DataDir: p.t.TempDir(), Listen: drover.FreeAddress(p.t), Env: env, Under: inside}
	s.Files.Name = "drover"
	for name, value := range p.env(pod) {
		if name != "DROVER_DATA_DIR" && name != "DROVER_LISTEN" {
			s.Env = append(s.Env, name+"="+here.Replace(p.ported(value)))
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

// account lays a token of the pod's account where a kubelet does, and the names of the
// cluster's services, for that process alone; it tells what it is run by.
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
	for name, data := range map[string][]byte{"token": []byte(config.BearerToken), "ca.crt": config.CAData, "namespace": []byte(p.room),
		"hosts": []byte(hosts)} {
		if err := os.WriteFile(filepath.Join(dir, name), data, 0o600); err != nil {
			p.t.Fatal(err)
		}
	}
	under = append(apart(), `mount -t tmpfs tmpfs /run
mkdir -p /run/secrets/kubernetes.io
ln -s "$0" /run/secrets/kubernetes.io/serviceaccount
mount --bind "$0/hosts" /etc/hosts
exec "$@"`, dir)
	if out, err := exec.Command(under[0], append(under[1:len(under):len(under)], "test", "-e", "/var/run/secrets/kubernetes.io/serviceaccount/token")...).CombinedOutput(); err != nil {
		p.t.Skipf("files cannot be where pods have them: %v: %s", err, out)
	}
	return []string{"KUBERNETES_SERVICE_HOST=" + at.Hostname(), "KUBERNETES_SERVICE_PORT=" + at.Port()}, under
}

// hosts are the services, for those who are apart.
const hosts = "127.0.0.1 localhost postgres rabbitmq consul openbao\n"

// apart runs a script, which follows, with files of its own in place of the machine's.
func apart() []string {
	out := []string{"unshare", "--mount", "--propagation", "private"}
	if os.Geteuid() != 0 {
		out = append(out, "--user", "--map-root-user")
	}
	return append(out, "sh", "-ec")
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
