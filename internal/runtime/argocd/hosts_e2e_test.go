//go:build e2e

package argocd_test

import (
	"strings"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/droverhq/drover/internal/runtime"
	"github.com/droverhq/drover/internal/runtime/argocd"
	testargo "github.com/droverhq/drover/test/argocd"
)

// A key that came with a deployment goes with the last one that needs it, and with
// nothing else: Argo CD would trust it for all tenants.
func TestHostKeysGoWithTheirDeployments(t *testing.T) {
	a := testargo.Shared(t)
	rt := open(t, system(t), func(c *argocd.Config) { c.Renew, c.Resync = time.Second, time.Hour })
	ns, host := unique("home"), unique("git")
	d := deployment("ssh://git@"+host+"/shop", ns)
	d.Credential = &runtime.RepositoryCredential{ID: "c-" + ns, SSHKey: "k", KnownHosts: host + " ssh-rsa AAAA\n"}
	list := func() string {
		t.Helper()
		m, err := a.Cluster.Client(t).CoreV1().ConfigMaps(a.Namespace).Get(t.Context(), "argocd-ssh-known-hosts-cm", metav1.GetOptions{})
		if err != nil {
			t.Fatal(err)
		}
		return m.Data["ssh_known_hosts"]
	}
	before, _, _ := strings.Cut(list(), "# What follows is kept by drover.")
	apply(t, rt, item(1, d))
	await(t, rt, d, "made", func(o runtime.Observed, _ runtime.Deployed) bool { return o.State == runtime.Ready })
	if !strings.Contains(list(), host+" ssh-rsa AAAA") {
		t.Fatal("the host is not trusted")
	}
	apply(t, rt, gone(2, d))
	await(t, rt, d, "gone", func(o runtime.Observed, _ runtime.Deployed) bool { return o.State == runtime.Deleted })
	deadline := time.Now().Add(20 * time.Second)
	for strings.Contains(list(), host) {
		if time.Now().After(deadline) {
			t.Fatalf("it is trusted still:\n%s", list())
		}
		time.Sleep(200 * time.Millisecond)
	}
	if after, _, _ := strings.Cut(list(), "# What follows is kept by drover."); strings.TrimSpace(after) != strings.TrimSpace(before) {
		t.Errorf("the operator's lines became\n%s\nfrom\n%s", after, before)
	}
}
