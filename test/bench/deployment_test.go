//go:build bench

package bench

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"

	"github.com/droverhq/drover/test/gitserver"
)

// pace of what is applied while latencies are measured: five a second, or
// DROVER_BENCH_RATE.
func pace() (each time.Duration, rate string) { return paceOf(setting("DROVER_BENCH_RATE", 5)) }

func paceOf(n int) (each time.Duration, rate string) {
	return time.Second / time.Duration(n), fmt.Sprintf("%d/s", n)
}

func quantiles(took []time.Duration) string {
	slices.Sort(took)
	return fmt.Sprintf("%s / %s / %s", ms(quantile(took, .5)), ms(quantile(took, .99)), ms(took[len(took)-1]))
}

// directories is a repository with a directory for each name, with a ConfigMap in it.
func directories(t *testing.T, names ...string) *gitserver.Repo {
	t.Helper()
	repo, files := gitserver.Start(t).Repo(t, "shop"), map[string]gitserver.Entry{}
	for _, name := range names {
		files[name+"/object.yaml"] = gitserver.File("apiVersion: v1\nkind: ConfigMap\nmetadata: {name: " + name + "}\n")
	}
	repo.Commit(t, "main", files)
	return repo
}

func numbered(prefix string, n int) (names []string) {
	for i := range n {
		names = append(names, fmt.Sprintf("%s-%d", prefix, i))
	}
	return names
}

// TestDeploymentLatency measures from a GitOpsDeployment to its Application while
// Argo CD works, and from what Argo CD says to the GitOpsDeployment.
func TestDeploymentLatency(t *testing.T) {
	n := setting("DROVER_BENCH_LATENCIES", 200)
	each, rate := pace()
	const tenants = 10
	names, calm, warm := numbered("shop", n), numbered("calm", n*3/5), numbered("warm", tenants)
	repo := directories(t, slices.Concat(names, calm, warm)...)
	w := newStation(t, "")
	spaces := w.tenants(t, "team", tenants)
	applications, done := w.look(t, argoApplications, there), w.look(t, gitopsDeployments, has("Synced", "Healthy"))
	// What is measured is a system at work: Argo CD reads all kinds of the cluster with
	// its first Application, which takes both processors for seconds.
	for i, name := range warm {
		if _, err := w.deploy(spaces[i], name, from(repo.URL, name), map[string]any{}); err != nil {
			t.Fatal(err)
		}
	}
	done.await(t, "Synced and Healthy", tenants, 5*time.Minute)
	// At two a second Argo CD, on the same processors, keeps up with them; at five it has them all.
	made := tenants
	apply := func(names []string, each time.Duration, rate string) {
		took := applications.paced(t, len(names), each, func(i int) (string, error) {
			return w.deploy(spaces[i%tenants], names[i], from(repo.URL, names[i]), map[string]any{})
		})
		report(fmt.Sprintf("GitOpsDeployment applied → Application exists, %d at %s over %d tenants, Argo CD at work: p50 / p99 / max", len(names), rate, tenants), w.e.name,
			fmt.Sprintf("%s; load %s", quantiles(took), load1()), "p99 < 500 ms")
		made += len(names)
		done.await(t, "Synced and Healthy", made, 5*time.Minute)
	}
	calmly, slowly := paceOf(2)
	apply(calm, calmly, slowly)
	apply(names, each, rate)
	if err := w.a.Controller.Kill(); err != nil { // it would take back what is said in its name
		t.Fatal(err)
	}
	list, err := w.a.Applications().List(t.Context(), metav1.ListOptions{})
	if err != nil || len(list.Items) != made {
		t.Fatalf("%d Applications: %v", len(list.Items), err)
	}
	keys := map[string]string{} // by Application
	deployed, err := w.objects.Resource(gitopsDeployments).List(t.Context(), metav1.ListOptions{})
	if err != nil {
		t.Fatal(err)
	}
	for _, d := range deployed.Items {
		keys["gitopsdepl-"+string(d.GetUID())] = d.GetNamespace() + "/" + d.GetName()
	}
	degraded := w.look(t, gitopsDeployments, has("", "Degraded"))
	took := degraded.paced(t, n, each, func(i int) (string, error) {
		name := list.Items[i].GetName()
		_, err := w.a.Applications().Patch(t.Context(), name, types.MergePatchType, []byte(`{"status":{"health":{"status":"Degraded"}}}`), metav1.PatchOptions{})
		return keys[name], err
	})
	report(fmt.Sprintf("Application's status changes → GitOpsDeployment's status, %d at %s: p50 / p99 / max", n, rate), w.e.name,
		fmt.Sprintf("%s; load %s", quantiles(took), load1()), "p99 < 2 s")
}

// TestManyDeployments measures a server with very many deployments that are at
// rest: until it knows all of them again after kill -9, its memory, and what it
// does when nothing happens. Argo CD is played: every Application is Synced and
// Healthy at once.
func TestManyDeployments(t *testing.T) {
	n, tenants := setting("DROVER_BENCH_DEPLOYMENTS", 10_000), setting("DROVER_BENCH_TENANTS", 50)
	while := time.Duration(setting("DROVER_BENCH_SECONDS", 60)) * time.Second
	w := newStation(t, ",operations=false,workers=16") // they would be removed while nothing is to happen
	w.play(t, func(*unstructured.Unstructured) (string, string, []any) { return "Synced", "Healthy", nil })
	spaces := w.tenants(t, "team", tenants)
	done, applications := w.look(t, gitopsDeployments, has("Synced", "Healthy")), w.look(t, argoApplications, there)
	began := time.Now()
	fill(t, n, func(i int) error {
		_, err := w.deploy(spaces[i%tenants], fmt.Sprintf("shop-%d", i), from("https://git.example.org/shop.git", "k8s"), map[string]any{})
		return err
	})
	made := time.Since(began)
	done.await(t, "Synced and Healthy", n, 30*time.Minute)
	t.Logf("%d were made in %s, and at rest after %s; CPU of the server %s, of the agent %s", n, made.Round(time.Second), time.Since(began).Round(time.Second),
		cpu(w.s.PID()), cpu(w.agent.PID()))
	t.Logf("since the first one: Applications exist p50 / p99 / max %s, deployments are at rest %s", applications.since(began), done.since(began))

	size := fmt.Sprintf("%d GitOpsDeployments over %d tenants", n, tenants)
	w.s.Kill()
	began = time.Now()
	if err := w.s.Launch(); err != nil {
		t.Fatal(err)
	}
	if err := w.s.Await(2 * time.Minute); err != nil {
		t.Fatal(err)
	}
	ready := time.Since(began)
	for known := false; !known; time.Sleep(50 * time.Millisecond) { // a metric cannot be waited for
		known = gauge(t, w, "drover_kubernetes_synced{") == 1 &&
			gauge(t, w, `drover_kubernetes_intents_total{home="default",kind="deployment",outcome="taken"}`) >= float64(n)
		if time.Since(began) > 10*time.Minute {
			t.Fatal("not all are known again after ten minutes")
		}
	}
	known := time.Since(began)
	report(size+": kill -9 and restart of the server: ready / all known again after", w.e.name,
		fmt.Sprintf("%.1f s / %.1f s (server CPU %.1f s, %d commits); load %s", ready.Seconds(), known.Seconds(), cpu(w.s.PID()).Seconds(), commits(t, w.s), load1()), "< 30 s")

	time.Sleep(15 * time.Second) // what a start brings along is over
	used, written := cpu(w.s.PID()), commits(t, w.s)
	time.Sleep(while) // what is measured is that nothing happens
	report(fmt.Sprintf("%s, %s of rest: server cores / memory", size, while), w.e.name,
		fmt.Sprintf("%.1f %% of a core / %d MiB (%d commits); load %s", (cpu(w.s.PID())-used).Seconds()/while.Seconds()*100, resident(w.s.PID()), commits(t, w.s)-written, load1()),
		"< 5 % of a core / < 1 GiB")
}

// fill does something n times, sixteen at once.
func fill(t *testing.T, n int, do func(i int) error) {
	t.Helper()
	var next atomic.Int64
	var wg sync.WaitGroup
	for range 16 {
		wg.Go(func() {
			for i := int(next.Add(1)) - 1; i < n && !t.Failed(); i = int(next.Add(1)) - 1 {
				if err := do(i); err != nil {
					t.Errorf("%d: %v", i, err)
				}
			}
		})
	}
	wg.Wait()
	if t.Failed() {
		t.FailNow()
	}
}

// gauge reads a metric by how its line begins; 0: there is none.
func gauge(t *testing.T, w *station, begins string) float64 {
	t.Helper()
	_, body, err := newCaller(w.s.URL(), "").read("GET", "/metrics", "")
	if err != nil {
		t.Fatal(err)
	}
	for line := range strings.Lines(string(body)) {
		if fields := strings.Fields(line); strings.HasPrefix(line, begins) && len(fields) > 0 {
			v, _ := strconv.ParseFloat(fields[len(fields)-1], 64)
			return v
		}
	}
	return 0
}

// TestDeploymentOverhead makes Applications through us and the same ones directly,
// by turns, until Argo CD has brought all of them to the cluster.
func TestDeploymentOverhead(t *testing.T) {
	n, fours := setting("DROVER_BENCH_APPLICATIONS", 100), rounds(2)
	var names []string
	for r := range 4 * fours {
		names = append(names, numbered(fmt.Sprintf("turn-%d", r), n)...)
	}
	repo := directories(t, append(names, "warm-ours", "warm-bare")...)
	w := newStation(t, "")
	space := w.tenants(t, "team", 1)[0]
	synced, told := w.look(t, argoApplications, has("Synced", "Healthy")), w.look(t, gitopsDeployments, has("Synced", "Healthy"))
	bare := func(name string) (string, error) {
		o := &unstructured.Unstructured{Object: map[string]any{
			"apiVersion": "argoproj.io/v1alpha1", "kind": "Application",
			"metadata": map[string]any{"name": name, "finalizers": []any{"resources-finalizer.argocd.argoproj.io"}},
			"spec": map[string]any{
				"project": "default", "source": from(repo.URL, name), "destination": map[string]any{"name": "in-cluster", "namespace": space},
				"syncPolicy": map[string]any{
					"automated": map[string]any{"prune": true, "selfHeal": true, "allowEmpty": true}, "syncOptions": []any{"PrunePropagationPolicy=background"},
					"retry": map[string]any{"limit": int64(-1), "backoff": map[string]any{"duration": "5s", "factor": int64(2), "maxDuration": "3m"}},
				},
			},
		}}
		_, err := w.a.Applications().Create(t.Context(), o, metav1.CreateOptions{})
		return w.a.Namespace + "/" + name, err
	}
	ours := func(name string) (string, error) {
		return w.deploy(space, name, from(repo.URL, name), map[string]any{})
	}
	all := func(names []string, one func(string) (string, error)) time.Duration {
		began, keys := time.Now(), make([]string, len(names))
		fill(t, len(names), func(i int) (err error) {
			keys[i], err = one(names[i])
			return err
		})
		return synced.when(t, "Synced and Healthy", keys, 10*time.Minute).Sub(began)
	}
	all([]string{"warm-bare"}, bare)
	all([]string{"warm-ours"}, ours)
	var took [2][]time.Duration // directly, and through us
	var until time.Duration
	byTurns(fours, func(through bool) float64 { // each finds those of the turns before it
		mine := names[:n]
		names = names[n:]
		if !through {
			took[0] = append(took[0], all(mine, bare))
			return 0
		}
		began := time.Now()
		took[1] = append(took[1], all(mine, ours))
		var keys []string
		for _, name := range mine {
			keys = append(keys, space+"/"+name)
		}
		until += told.when(t, "told", keys, 5*time.Minute).Sub(began)
		return 0
	})
	mean := func(d []time.Duration) (sum float64) {
		for _, one := range d {
			sum += one.Seconds() / float64(len(d))
		}
		return sum
	}
	report(fmt.Sprintf("%d Applications made through us until all are Synced and Healthy, against the same made directly", n), w.e.name,
		fmt.Sprintf("%.2f x (%.2f s against %.2f s in %d turns each; until all GitOpsDeployments say so %.2f s); load %s",
			mean(took[1])/mean(took[0]), mean(took[1]), mean(took[0]), len(took[0]), until.Seconds()/float64(len(took[1])), load1()), "< 1.2 x")
	t.Logf("directly %s, through us %s", took[0], took[1])
}

// after is when those of a name with a number were in a phase: p50 / p99 / max.
func (p *phases) after(name, phase string, since []time.Time) string {
	p.mu.Lock()
	defer p.mu.Unlock()
	var took []time.Duration
	for i, at := range since {
		if then, seen := p.seen[fmt.Sprintf("%s-%d", name, i)][phase]; seen {
			took = append(took, then.Sub(at))
		}
	}
	if len(took) == 0 {
		return "nobody knows when"
	}
	return quantiles(took)
}

// TestBrokenDeployments measures what a tenant notices of another one with
// thousands of deployments that cannot work: while they are made, and later. A third
// has a path that is not there, a third a repository that refuses, and a third an
// environment that there is none of. Argo CD is played.
func TestBrokenDeployments(t *testing.T) {
	broken, n := setting("DROVER_BENCH_BROKEN", 5_000), setting("DROVER_BENCH_LATENCIES", 200)
	each, rate := pace()
	w := newStation(t, "")
	w.play(t, func(o *unstructured.Unstructured) (string, string, []any) {
		if strings.Contains(fmt.Sprint(o.Object["spec"]), "nowhere") {
			return "Unknown", "Healthy", []any{map[string]any{"type": "ComparisonError", "message": "it cannot be read"}}
		}
		return "Synced", "Healthy", nil
	})
	spaces := w.tenants(t, "team", 2)
	applications := w.look(t, argoApplications, there)
	var stages *phases // where the time goes; looking costs some
	if setting("DROVER_BENCH_STAGES", 0) > 0 {
		stages = watchOf(t, w.s, "deployments")
	}
	good := func(phase string) []time.Duration {
		applied := make([]time.Time, n)
		took := applications.paced(t, n, each, func(i int) (string, error) {
			applied[i] = time.Now()
			return w.deploy(spaces[0], fmt.Sprintf("%s-%d", phase, i), from("https://git.example.org/shop.git", "k8s"), map[string]any{})
		})
		if stages != nil {
			t.Logf("%s: in the ledger after %s, handed to the agent after %s", phase, stages.after(phase, "pending", applied), stages.after(phase, "deploying", applied))
		}
		slices.Sort(took)
		return took
	}
	good("warm")
	alone := good("alone")
	sources := []struct{ source, destination map[string]any }{
		{from("https://git.example.org/shop.git", "nowhere"), map[string]any{}},
		{from("https://git.example.org/nowhere.git", "k8s"), map[string]any{}},
		{from("https://git.example.org/shop.git", "k8s"), map[string]any{"environment": "none", "namespace": "none"}},
	}
	told := w.look(t, gitopsDeployments, func(o *unstructured.Unstructured) bool {
		conditions, _, _ := unstructured.NestedSlice(o.Object, "status", "conditions")
		return o.GetNamespace() == spaces[1] && len(conditions) > 0
	})
	var making sync.WaitGroup
	began := time.Now()
	making.Go(func() {
		fill(t, broken, func(i int) error {
			_, err := w.deploy(spaces[1], fmt.Sprintf("broken-%d", i), sources[i%3].source, sources[i%3].destination)
			return err
		})
	})
	meanwhile := good("meanwhile")
	making.Wait()
	made := time.Since(began)
	told.await(t, "said to be broken", broken, 20*time.Minute)
	t.Logf("%d broken ones were made in %s, and all were told after %s", broken, made.Round(time.Second), time.Since(began).Round(time.Second))
	later := good("later")
	p := func(took []time.Duration) string {
		return ms(quantile(took, .5)) + ", " + ms(quantile(took, .99))
	}
	report(fmt.Sprintf("GitOpsDeployment applied → Application exists, %d at %s, p50, p99: alone / while another tenant makes %d broken ones / while those are there", n, rate, broken), w.e.name,
		fmt.Sprintf("%s / %s / %s (p99 %+.0f ms and %+.0f ms); load %s", p(alone), p(meanwhile), p(later),
			(quantile(meanwhile, .99)-quantile(alone, .99)).Seconds()*1000, (quantile(later, .99)-quantile(alone, .99)).Seconds()*1000, load1()), "< 1 s more")
}
