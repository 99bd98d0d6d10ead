//go:build e2e

package gitops_test

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

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/rest"

	"github.com/droverhq/drover/test/argocd"
	"github.com/droverhq/drover/test/drover"
	"github.com/droverhq/drover/test/gitserver"
	"github.com/droverhq/drover/test/kubernetes"
)

func TestMain(m *testing.M) {
	for _, v := range os.Environ() { // the settings of whoever runs the tests are not theirs
		if name, _, _ := strings.Cut(v, "="); strings.HasPrefix(name, "DROVER_") && !strings.HasPrefix(name, "DROVER_TEST_") {
			os.Unsetenv(name)
		}
	}
	os.Exit(m.Run())
}

// together is what deployments promise. Each one has a namespace of its own, waits
// patiently, and takes it that any process is killed and comes back meanwhile, so
// that the same list can run on bad days. They run at the same time: most of theirs is
// waiting.
var together = []struct {
	name string
	run  func(*testing.T, *world)
}{
	{"an automated deployment follows Git", followsGit},
	{"the health of a workload", healthOfAWorkload},
	{"a push is told by a webhook", pushed},
	{"deletion takes all with it", deletion},
	{"a changed spec is carried out", changedSpec},
	{"an invalid spec says why until it is mended", invalidSpec},
	{"one name again and again", sameName},
	{"sync runs of a manual deployment", syncRuns},
	{"sync runs that are made at once", syncRunsAtOnce},
	{"sync runs that cannot be", syncRunsRefused},
	{"sync runs before their deployment and ended ones", syncRunsEarlyAndLate},
	{"private repositories by HTTPS", privateByHTTPS},
	{"private repositories by SSH", privateBySSH},
	{"managed environments", managedEnvironments},
	{"managed environments that cannot be reached", managedEnvironmentsRefused},
	{"tenants are apart", tenantsApart},
	{"hostile repositories", hostileRepositories},
	{"an emptied directory", emptied},
	{"two deployments of one object", twoOfOne},
	{"managed environments without a certificate to trust", insecure},
	{"objects without a namespace", clusterWide},
	{"a namespace is made where that is said", namespaceMade},
	{"a manual deployment that was never synced", neverSynced},
	{"by the command line", byCommandLine},
	{"to all clusters with a label", bySelector},
	{"Git is away", gitAway},
	{"a namespace is deleted", namespaceDeleted},
	{"a finalizer is stuck", finalizerStuck},
	{"manifests that cannot be applied", manifestsRefused},
	{"what is changed by hand is put right", putRight},
	{"operations are shown", operationsShown},
	{"operations of syncs and removals are shown", operationsOfAll},
	{"what differs is told in lines", differences},
	{"what was put right is told", putRightIsTold},
	{"a resource of an environment", inEnvironment},
}

// alone is the rest of it, one after the other: each takes a process away itself and
// brings it back.
var alone = []struct {
	name, takes string
	run         func(*testing.T, *world)
}{
	{"the server is away", "server", serverAway},
	{"the agent is away", "agent", agentAway},
	{"Argo CD is away", "controller", argocdAway},
	{"the agent is installed anew", "agent", agentAnew},
}

func TestDeployments(t *testing.T) {
	start(t).keepsItsWord(t, func(string) func() { return func() {} })
}

// keepsItsWord runs the whole list. What somebody takes away himself is spared until
// he has brought it back.
func (w *world) keepsItsWord(t *testing.T, spare func(process string) (end func())) {
	t.Run("together", func(t *testing.T) {
		for _, one := range together {
			t.Run(one.name, func(t *testing.T) {
				t.Parallel()
				one.run(t, w)
			})
		}
	})
	for _, one := range alone {
		t.Run(one.name, func(t *testing.T) {
			defer spare(one.takes)()
			one.run(t, w)
		})
	}
}

// world is a control plane that follows the custom resources of a Kubernetes, two
// agents in that, one beside Argo CD and one without, and Git servers.
type world struct {
	k       *kubernetes.Cluster
	a       *argocd.Server
	objects dynamic.Interface // the administrator's
	s       *drover.Server
	edge    *drover.Agent // beside Argo CD
	plain   *drover.Agent // applies manifests itself

	git     *gitserver.Server // for everybody
	private *gitserver.Server // by HTTPS, for those who know the password
	ssh     *gitserver.SSH    // to the repositories of git

	options string   // of the agents' runtimes, besides their own
	flags   []string // of the control plane, besides its own
	pace    pace

	limit  time.Duration // of what is waited for; 0: patience
	hunted bool          // processes are killed all the time
}

// pace is how often something is looked at that nobody has told of.
type pace struct {
	poll   string // Git, by the control plane
	resync string // everything, by the agents
}

// often is so that a test need not tell of everything.
var often = pace{poll: ",poll=2s", resync: ",resync=30s"}

const reader, password = "reader", "s3cret-of-git"

func start(t *testing.T) *world { return startBeside(t, argocd.Shared(t), "") }

func startBeside(t *testing.T, a *argocd.Server, options string) *world {
	t.Helper()
	return startAt(t, often, a, options)
}

func startAt(t *testing.T, p pace, a *argocd.Server, options string) *world {
	t.Helper()
	w := prepareAt(t, p, a.Cluster)
	w.a, w.options = a, options
	w.a.TrustAuthority(t, "127.0.0.1", w.private.Certificate)
	// What docs/argocd.md has operators set.
	w.patch(t, configMaps, w.a.Namespace, "argocd-cm", `{"data":{"jsonnet.enable":"false","helm.valuesFileSchemes":""}}`)
	w.edge = w.join(t, "edge", w.register(t, "edge"), "--runtime", "argocd")
	w.run(t, "create", "cluster", "plain", "--provider", "metal", "--region", "south")
	w.plain = w.join(t, "plain", w.k.Kubeconfig(), "--runtime", "kubernetes")
	return w
}

// prepare makes a world without Argo CD and without agents.
func prepare(t *testing.T, k *kubernetes.Cluster, flags ...string) *world {
	t.Helper()
	return prepareAt(t, often, k, flags...)
}

func prepareAt(t *testing.T, p pace, k *kubernetes.Cluster, flags ...string) *world {
	t.Helper()
	w := &world{k: k, flags: flags, pace: p, git: gitserver.Start(t), private: gitserver.Start(t, gitserver.WithPassword(reader, password), gitserver.WithTLS())}
	w.ssh = w.git.SSH(t)
	admin := w.k.Admin()
	admin.QPS, admin.WarningHandler = -1, rest.NoWarnings{} // of the name of Argo CD's finalizer
	var err error
	if w.objects, err = dynamic.NewForConfig(admin); err != nil {
		t.Fatal(err)
	}
	w.install(t)
	w.serve(t)
	return w
}

// install makes the definitions and the rights as an administrator does who has
// read the documentation.
func (w *world) install(t *testing.T) {
	t.Helper()
	text, stderr, code := (&drover.Server{DataDir: t.TempDir()}).Run("deploy", "manifests")
	if code != 0 {
		t.Fatalf("drover deploy manifests: %s", stderr)
	}
	w.apply(t, "drover", split(t, text)...)
	c := w.k.Client(t).CoreV1()
	_, err := c.Namespaces().Create(t.Context(), &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: "drover"}}, metav1.CreateOptions{})
	made(t, err)
	_, err = c.ServiceAccounts("drover").Create(t.Context(), &corev1.ServiceAccount{ObjectMeta: metav1.ObjectMeta{Name: "drover"}}, metav1.CreateOptions{})
	made(t, err)
}

// serve runs the control plane with the rights that its manifests give it.
func (w *world) serve(t *testing.T) {
	t.Helper()
	dir := t.TempDir()
	kubeconfig := write(t, dir, "kubeconfig", w.k.KubeconfigOfAccount(t, "drover", "drover"))
	hosts := write(t, dir, "hosts", []byte(w.ssh.KnownHosts))
	trust := write(t, dir, "ca.pem", w.private.Certificate)
	w.s = &drover.Server{Mode: "server", DataDir: t.TempDir(), Listen: drover.FreeAddress(t), Routes: drover.FreeAddress(t),
		Args: append([]string{"--gitops-options", "kubeconfig=" + kubeconfig + ",engines=edge,known-hosts=" + hosts + w.pace.poll}, w.flags...),
		Env:  []string{"SSL_CERT_FILE=" + trust}}
	begin(t, "the server", w.s)
}

func begin(t *testing.T, who string, s *drover.Server) {
	t.Helper()
	s.Start(t)
	t.Cleanup(func() {
		s.Kill()
		explain(t, who, s.Log())
		drover.Clear(s.DataDir)
	})
}

// join runs the agent of a cluster.
func (w *world) join(t *testing.T, name string, kubeconfig []byte, args ...string) *drover.Agent {
	t.Helper()
	token := strings.TrimSpace(w.run(t, "token", "--cluster", name))
	options := "kubeconfig=" + write(t, t.TempDir(), "kubeconfig", kubeconfig) + w.pace.resync + w.options
	switch {
	case name != "edge":
		options += ",namespace=drover-" + name
	case w.a != nil:
		options += ",redis=" + w.a.RedisAddress
	}
	agent := &drover.Agent{Server: w.s.URL(), Cluster: name, Token: token, DataDir: t.TempDir(), Routes: drover.FreeAddress(t),
		Args: append(args, "--runtime-options", options)}
	agent.Start(t)
	t.Cleanup(func() {
		agent.Kill()
		explain(t, "the agent of "+name, agent.Log())
		drover.Clear(agent.DataDir)
	})
	return agent
}

var quoted = regexp.MustCompile(`"(http[^"]+)"`)

// register registers the cluster of the agent beside Argo CD and makes its account:
// what the line of a registration installs, and the rights of docs/argocd.md.
func (w *world) register(t *testing.T, name string) []byte {
	t.Helper()
	line := w.run(t, "cluster", "register", name, "--provider", "metal", "--region", "north")
	url := quoted.FindStringSubmatch(line)
	if url == nil {
		t.Fatalf("the line is %s", line)
	}
	stream := drover.Must(t, drover.Request{Method: http.MethodGet, URL: url[1]})
	if stream.Status != http.StatusOK {
		t.Fatalf("the line fetches %d: %s", stream.Status, stream.Body)
	}
	const namespace, account = "drover-system", "drover-agent"
	for _, o := range split(t, string(stream.Body)) {
		if o.GetKind() != "Deployment" {
			w.apply(t, namespace, o)
		}
	}
	w.apply(t, w.a.Namespace, split(t, w.run(t, "deploy", "rights", "--runtime", "argocd", "--argocd", w.a.Namespace))...)
	return w.k.KubeconfigOfAccount(t, namespace, account)
}

// made takes it that a world before this one has made it.
func made(t *testing.T, err error) {
	t.Helper()
	if err != nil && !apierrors.IsAlreadyExists(err) {
		t.Fatal(err)
	}
}

func write(t *testing.T, dir, name string, data []byte) string {
	t.Helper()
	file := filepath.Join(dir, name)
	if err := os.WriteFile(file, data, 0o600); err != nil {
		t.Fatal(err)
	}
	return file
}

// explain shows what a process said, if the test fails.
func explain(t *testing.T, who, log string) {
	const most = 24 << 10
	if t.Failed() {
		t.Logf("%s said:\n%s", who, log[max(0, len(log)-most):])
	}
}

// patience bounds what takes seconds, and some more where processes are killed all
// the time.
const patience = 5 * time.Minute

// Exit codes of a client: what it asked for is not there, is in the way, or the
// server is away.
const (
	notFound    = 3
	conflict    = 5
	unavailable = 6
)

// run runs the command line as an operator, and returns what it prints. A server
// that is away comes back; what was asked for then may be done already.
func (w *world) run(t *testing.T, args ...string) string {
	t.Helper()
	stdout, stderr, code, again := w.ask(args)
	if code != 0 && !(again && (code == conflict || code == notFound)) {
		t.Fatalf("drover %s: code %d: %s%s", strings.Join(args, " "), code, stdout, stderr)
	}
	return stdout
}

// try is run for what may fail.
func (w *world) try(t *testing.T, args ...string) (stdout, stderr string, code int) {
	t.Helper()
	stdout, stderr, code, _ = w.ask(args)
	return stdout, stderr, code
}

func (w *world) ask(args []string) (stdout, stderr string, code int, again bool) {
	for end := time.Now().Add(patience); ; again = true {
		stdout, stderr, code = w.s.Run(args...)
		if code != unavailable || time.Now().After(end) {
			return stdout, stderr, code, again
		}
		time.Sleep(100 * time.Millisecond) // between questions to a server that is away
	}
}

// until asks what cannot be watched until it is so.
func until(t *testing.T, what string, so func() bool) {
	t.Helper()
	tick := time.NewTicker(50 * time.Millisecond)
	defer tick.Stop()
	for end := time.Now().Add(patience); !so(); {
		if time.Now().After(end) {
			t.Fatalf("waited in vain for %s", what)
		}
		<-tick.C
	}
}

// namespace makes one of the test's own.
func (w *world) namespace(t *testing.T) string {
	t.Helper()
	name := fmt.Sprintf("team-%x", time.Now().UnixNano())
	w.apply(t, "", object(t, "{apiVersion: v1, kind: Namespace, metadata: {name: "+name+"}}"))
	t.Cleanup(func() {
		_ = w.k.Client(t).CoreV1().Namespaces().Delete(context.Background(), name, metav1.DeleteOptions{})
	})
	return name
}
