//go:build e2e && linux

package bootstrap_test

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"

	authv1 "k8s.io/api/authorization/v1"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/droverhq/drover/api/client"
	"github.com/droverhq/drover/test/drover"
	"github.com/droverhq/drover/test/gitserver"
	cluster "github.com/droverhq/drover/test/kubernetes"
)

// On Kubernetes the new Drover is reached through the API server alone. The hand-over
// is cut off before its mark, and between the mark and the commit; it is killed after
// each of its words; in the end there is one keeper, which has rewritten nothing, and
// which keeps what it has been given with the rights of its own account.
func TestKubernetesIsHandedOver(t *testing.T) {
	p := newPlane(t, cluster.Start(t, cluster.WithWorkloads()))
	git := gitserver.Start(t)
	git.Repo(t, "acme/infra-shop").Commit(t, "main", map[string]gitserver.Entry{"shop/template.yaml": gitserver.File(shop), "environments/staging.yaml": gitserver.File(shopEnvironment)})
	of := append(p.args, "--base-url", git.URL, "--github-organisation", "acme", "--repositories", "infra-shop", "-o", "json")

	if out, code := p.run(append(p.args, "--no-wait")...); code != 0 {
		t.Fatalf("it ends with %d: %s", code, out)
	}
	p.start(7)
	before := p.versions()

	// Nobody is handed anything who cannot be spoken to.
	p.shutOut("drover-")
	kills := 0
	for n := 1; ; n++ {
		lines, said, killed, code := p.steps(n, of...)
		if killed {
			kills++
			continue
		}
		if code == 0 || !strings.Contains(said, "nothing was handed over") && !strings.Contains(said, "cannot be reached through the Kubernetes API") {
			t.Fatalf("without a way to Drover it ends with %d: %s", code, told(lines, said))
		}
		break
	}
	if kills < 10 {
		t.Errorf("it was killed %d times: this shows little", kills)
	}
	t.Logf("killed %d times before the hand-over", kills)
	if out, code := p.run(append(p.args, "--dry-run")...); code == 0 || !strings.Contains(out, "it was begun, and is Deployed-OK") {
		t.Errorf("it was handed over: %d %s", code, out)
	}

	// The mark is there, and the commit is not: nobody has it.
	p.shutOut("postgres-")
	if lines, said, _, code := p.steps(0, of...); code == 0 {
		t.Fatalf("without a way to the ledger it ends well: %s", told(lines, said))
	}
	if out, code := p.run(append(p.args, "--dry-run")...); code != 0 || !strings.Contains(out, "nothing to do") {
		t.Errorf("there is no mark: %d %s", code, out)
	}
	if phase, _ := p.phase(p.made[0], "meta"); !strings.Contains(phase, "there is no environment") {
		t.Errorf("the new Drover knows meta, as %s", phase)
	}

	// It goes on there, and is killed after each of its words.
	p.shutOut("")
	for _, word := range []string{"handover meta Deployed-OK", "environment shop-staging"} {
		if lines, said, killed, _ := p.steps(1, of...); !killed || !strings.HasPrefix(told(lines, ""), word) {
			t.Fatalf("%q is not its first word: %s", word, told(lines, said))
		}
	}
	lines, said, _, code := p.steps(0, of...)
	if code != 0 {
		t.Fatalf("it ends with %d: %s", code, told(lines, said))
	}
	if last := lines[len(lines)-1]; last.Report.Server != "https://drover."+p.room+".svc:8000" {
		t.Errorf("it ends with %+v", last)
	}
	if lines, said, _, code := p.steps(0, of...); code != 0 || lines[len(lines)-1].Report.Outcome != "unchanged" {
		t.Errorf("once more ends with %d: %s", code, told(lines, said))
	}
	drover.Until(t, "the environment of the repository", func() bool { phase, _ := p.phase(p.made[0], "shop-staging"); return phase == "Deployed-OK" })
	out, _ := p.run(p.args...)
	for _, secret := range []string{string(p.secret("drover")["master.key"]), string(p.secret("postgres")["password"]), string(p.secret("rabbitmq")["password"]), "PRIVATE KEY"} {
		if strings.Contains(out+told(lines, said), strings.TrimSpace(secret)) {
			t.Error("a secret is told")
		}
	}
	if _, err := os.Stat(filepath.Join(p.state, "replica", "keys")); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("what opens the database and the broker was left: %v", err)
	}
	p.keeps()
	p.kept(before)
	p.rights()
	p.mutual()
	p.turns()
	p.mutual()
	if lines, said, _, code := p.steps(0, of...); code != 0 || lines[len(lines)-1].Report.Outcome != "unchanged" {
		t.Errorf("with other certificates once more ends with %d: %s", code, told(lines, said))
	}
	p.moves()
	if n := p.webSockets(); n == 0 {
		t.Error("none of it went over WebSockets")
	}
}

// Where the cluster has cert-manager the new Drover has a certificate, and is believed
// by that alone. The API server is one that knows port-forward as it was before
// WebSockets.
func TestKubernetesIsHandedOverWithCertificates(t *testing.T) {
	p := newPlane(t, cluster.Start(t, cluster.WithWorkloads(), cluster.WithFlags("--feature-gates=PortForwardWebsockets=false")))
	p.certManager()
	if out, code := p.run(append(p.args, "--no-wait")...); code != 0 || strings.Contains(out, "left out: certificates") {
		t.Fatalf("it ends with %d: %s", code, out)
	}
	right, wrong := p.certify(), p.certify()
	p.trust(right, right)
	p.start(7)
	before := p.versions()
	p.trust(right, wrong)
	if out, code := p.run(p.args...); code == 0 || !strings.Contains(out, "nothing was handed over") {
		t.Errorf("a certificate of somebody else's is believed: %d %s", code, out)
	}
	p.trust(right, right)
	out, code := p.run(p.args...)
	if code != 0 || !strings.Contains(out, "Drover is at https://drover."+p.room+".svc:8000") || !strings.Contains(out, "kubectl --namespace "+p.room) {
		t.Fatalf("it ends with %d: %s", code, out)
	}
	p.keeps()
	p.kept(before)
	p.mutual()
	if n := p.webSockets(); n != 0 {
		t.Errorf("%d tunnels went over WebSockets", n)
	}
}

// webSockets is how many tunnels the API server has carried over them.
func (p *plane) webSockets() (n int) {
	p.t.Helper()
	all, err := p.kube.Discovery().RESTClient().Get().AbsPath("/metrics").DoRaw(p.t.Context())
	if err != nil {
		p.t.Fatal(err)
	}
	for line := range strings.Lines(string(all)) {
		if count, ok := strings.CutPrefix(line, `apiserver_stream_tunnel_requests_total{code="101"} `); ok {
			if n, err = strconv.Atoi(strings.TrimSpace(count)); err != nil {
				p.t.Fatal(err)
			}
		}
	}
	return n
}

// versions are those of everything that the template has made.
func (p *plane) versions() map[string]string {
	p.t.Helper()
	out, ctx, all := map[string]string{}, p.t.Context(), metav1.ListOptions{LabelSelector: "drover.dev/owner"}
	note := func(kind string, o metav1.ObjectMeta, counted bool) {
		out[kind+" "+o.Name] = string(o.UID) + " " + o.ResourceVersion
		if counted { // what is reported about it is no change of it
			out[kind+" "+o.Name] = string(o.UID) + " " + string(rune('0'+o.Generation))
		}
	}
	secrets, err := p.kube.CoreV1().Secrets(p.room).List(ctx, all)
	if err != nil {
		p.t.Fatal(err)
	}
	for _, o := range secrets.Items {
		note("Secret", o.ObjectMeta, false)
	}
	sets, err := p.kube.AppsV1().StatefulSets(p.room).List(ctx, all)
	if err != nil {
		p.t.Fatal(err)
	}
	for _, o := range sets.Items {
		note("StatefulSet", o.ObjectMeta, true)
	}
	deployments, err := p.kube.AppsV1().Deployments(p.room).List(ctx, all)
	if err != nil {
		p.t.Fatal(err)
	}
	for _, o := range deployments.Items {
		note("Deployment", o.ObjectMeta, true)
	}
	return out
}

// kept looks whether each replica knows the environment, and has left all as it was.
func (p *plane) kept(before map[string]string) {
	p.t.Helper()
	for _, s := range p.made {
		drover.Until(p.t, "the environment meta is kept by the new Drover", func() bool {
			phase, ready := p.phase(s, "meta")
			return phase == "Deployed-OK" && ready >= 25
		})
	}
	after := p.versions()
	if len(before) < 11 || len(after) != len(before) {
		p.t.Errorf("there are %d objects of the template, and were %d", len(after), len(before))
	}
	for name, was := range before {
		if after[name] != was {
			p.t.Errorf("%s was written anew: %s, and was %s", name, after[name], was)
		}
	}
}

// keeps changes what is kept, and waits until it is as it was.
func (p *plane) keeps() {
	p.t.Helper()
	ctx := p.t.Context()
	for _, one := range []struct{ group, plural, name string }{
		{"", "services", "consul"}, {"", "configmaps", "prometheus"}, {"networking.k8s.io", "networkpolicies", "only-from-within"},
	} {
		all := p.dynamic(one.group, one.plural).Namespace(p.room)
		if err := all.Delete(ctx, one.name, metav1.DeleteOptions{}); err != nil {
			p.t.Fatal(err)
		}
		drover.Until(p.t, one.name+", which was deleted, is there again", func() bool {
			_, err := all.Get(ctx, one.name, metav1.GetOptions{})
			return err == nil
		})
	}
	role, err := p.kube.RbacV1().Roles(p.room).Get(ctx, "drover", metav1.GetOptions{})
	if err != nil {
		p.t.Fatal(err)
	}
	was := len(role.Rules)
	role.Rules = append(role.Rules, rbacv1.PolicyRule{APIGroups: []string{""}, Resources: []string{"pods"}, Verbs: []string{"get"}})
	if _, err := p.kube.RbacV1().Roles(p.room).Update(ctx, role, metav1.UpdateOptions{}); err != nil {
		p.t.Fatal(err)
	}
	drover.Until(p.t, "a right too many is taken away", func() bool {
		role, err := p.kube.RbacV1().Roles(p.room).Get(ctx, "drover", metav1.GetOptions{})
		return err == nil && len(role.Rules) == was
	})
	drover.Until(p.t, "that is on record", func() bool {
		page, err := p.made[0].Client(p.t).List(ctx, "drifts", client.ListOptions{Size: 10})
		n := 0
		for _, d := range page.Items {
			if d.Phase == "corrected" {
				n++
			}
		}
		return err == nil && n >= 4
	})
}

// moves has Drover make itself of another image, as far as there are pods of it.
func (p *plane) moves() {
	p.t.Helper()
	if out, said, code := p.made[0].Run("env", "apply", "meta", "--set", "image=example.org/drover:2", "--yes"); code != 0 {
		p.t.Fatalf("it ends with %d: %s%s", code, out, said)
	}
	drover.Until(p.t, "there is a pod of another image", func() bool {
		all, err := p.kube.CoreV1().Pods(p.room).List(p.t.Context(), metav1.ListOptions{LabelSelector: "app=drover"})
		return err == nil && slices.ContainsFunc(all.Items, func(p corev1.Pod) bool { return p.Spec.Containers[0].Image == "example.org/drover:2" })
	})
}

// rights asks the API server what Drover's account may do.
func (p *plane) rights() {
	p.t.Helper()
	for _, one := range []struct {
		verb, group, resource, namespace, name string
		want                                   bool
		reason                                 string
	}{
		{"patch", "apps", "statefulsets", p.room, "postgres", true, "it keeps them"},
		{"create", "", "secrets", p.room, "", true, "it keeps them"},
		{"get", "", "pods", p.room, "", false, "they are no objects of its template"},
		{"create", "", "pods", p.room, "", false, "they are no objects of its template"},
		{"create", "", "serviceaccounts/token", p.room, "drover", false, "nobody asked for more tokens"},
		{"get", "", "secrets", "default", "", false, "it is another's namespace"},
		{"delete", "", "namespaces", p.room, p.room, false, "bootstrap has made it"},
		{"create", "rbac.authorization.k8s.io", "clusterroles", "", "", false, "they are the cluster's"},
	} {
		resource, sub, _ := strings.Cut(one.resource, "/")
		review, err := p.kube.AuthorizationV1().SubjectAccessReviews().Create(p.t.Context(), &authv1.SubjectAccessReview{Spec: authv1.SubjectAccessReviewSpec{
			User: "system:serviceaccount:" + p.room + ":drover", Groups: []string{"system:serviceaccounts", "system:serviceaccounts:" + p.room, "system:authenticated"},
			ResourceAttributes: &authv1.ResourceAttributes{Verb: one.verb, Group: one.group, Resource: resource, Subresource: sub, Namespace: one.namespace, Name: one.name},
		}}, metav1.CreateOptions{})
		if err != nil || review.Status.Allowed != one.want {
			p.t.Errorf("may Drover %s %s of %q? %v, %v (%s)", one.verb, one.resource, one.namespace, review.Status.Allowed, err, one.reason)
		}
	}
	pods, err := p.kube.CoreV1().Pods(p.room).List(p.t.Context(), metav1.ListOptions{})
	if err != nil {
		p.t.Fatal(err)
	}
	for _, pod := range pods.Items {
		token := false
		for _, v := range pod.Spec.Volumes {
			token = token || v.Projected != nil && hasToken(v.Projected.Sources)
		}
		if drovers := pod.Labels["app"] == "drover"; token != drovers {
			p.t.Errorf("the pod %s has an account's token: %v", pod.Name, token)
		}
	}
}

func hasToken(all []corev1.VolumeProjection) bool {
	for _, s := range all {
		if s.ServiceAccountToken != nil {
			return true
		}
	}
	return false
}
