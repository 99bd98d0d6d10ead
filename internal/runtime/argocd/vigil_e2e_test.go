//go:build e2e

package argocd_test

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/droverhq/drover/internal/runtime"
	"github.com/droverhq/drover/internal/runtime/argocd"
	testargo "github.com/droverhq/drover/test/argocd"
	"github.com/droverhq/drover/test/gitserver"
)

// silenced has all watches of a moment fall silent, for good and without an end.
type silenced struct {
	next  http.RoundTripper
	times *atomic.Int64
}

func (s silenced) RoundTrip(r *http.Request) (*http.Response, error) {
	res, err := s.next.RoundTrip(r)
	if err == nil && r.URL.Query().Get("watch") == "true" {
		res.Body = &silence{ReadCloser: res.Body, ctx: r.Context(), times: s.times, born: s.times.Load()}
	}
	return res, err
}

type silence struct {
	io.ReadCloser
	ctx   context.Context
	times *atomic.Int64
	born  int64
}

func (s *silence) Read(p []byte) (int, error) {
	n, err := s.ReadCloser.Read(p)
	if s.times.Load() != s.born {
		<-s.ctx.Done()
		return 0, s.ctx.Err()
	}
	return n, err
}

// What no watch tells is found long before everything is compared again: because
// watches have stalled, and because it is not watched.
func TestPutsRightWhatNoWatchTells(t *testing.T) {
	var times atomic.Int64
	a, git := testargo.Shared(t), gitserver.Start(t)
	rt := open(t, system(t), func(c *argocd.Config) {
		c.Renew, c.Resync = time.Second, time.Hour
		c.Wrap = func(next http.RoundTripper) http.RoundTripper { return silenced{next, &times} }
	})
	repo, ns, host := git.Repo(t, "shop"), unique("home"), unique("git")
	repo.Commit(t, "main", map[string]gitserver.Entry{"k8s/a.yaml": configMap("a", "1")})
	d := deployment(repo.URL, ns)
	d.SyncOptions = []string{"CreateNamespace=true"}
	apply(t, rt, item(1, d))
	ssh := deployment("ssh://git@"+host+"/shop", ns)
	ssh.Workspace += "-ssh"
	ssh.Credential = &runtime.RepositoryCredential{ID: "c-" + ns, SSHKey: "k", KnownHosts: host + " ssh-rsa AAAA\n"}
	apply(t, rt, item(1, ssh))
	for _, x := range []runtime.Deployment{d, ssh} {
		await(t, rt, x, "made", func(o runtime.Observed, _ runtime.Deployed) bool { return o.State == runtime.Ready })
	}
	core := a.Cluster.Client(t).CoreV1()
	healed := func(d runtime.Deployment, told string) {
		t.Helper()
		await(t, rt, d, "told: "+told, func(_ runtime.Observed, d runtime.Deployed) bool {
			return d.Healed != nil && strings.Contains(d.Healed.What, told)
		})
	}

	times.Add(1)
	if _, err := a.Applications().Patch(t.Context(), "gitopsdepl-"+d.UID, types.MergePatchType, []byte(`{"spec":{"source":{"path":"other"}}}`), metav1.PatchOptions{}); err != nil {
		t.Fatal(err)
	}
	healed(d, "the Application was changed")
	a.Wait(t, "gitopsdepl-"+d.UID, "right", testargo.Is(map[string]string{"spec.source.path": "k8s"}))

	const list = "argocd-ssh-known-hosts-cm"
	m, err := core.ConfigMaps(a.Namespace).Get(t.Context(), list, metav1.GetOptions{})
	if err != nil || !strings.Contains(m.Data["ssh_known_hosts"], host+" ssh-rsa AAAA") {
		t.Fatalf("the host is not trusted: %v", err)
	}
	spoilt := strings.ReplaceAll(m.Data["ssh_known_hosts"], host, "elsewhere")
	if _, err := core.ConfigMaps(a.Namespace).Patch(t.Context(), list, types.MergePatchType, fmt.Appendf(nil, `{"data":{"ssh_known_hosts":%q}}`, spoilt), metav1.PatchOptions{}); err != nil {
		t.Fatal(err)
	}
	healed(ssh, "the ConfigMap was changed")
	if m, err = core.ConfigMaps(a.Namespace).Get(t.Context(), list, metav1.GetOptions{}); err != nil || !strings.Contains(m.Data["ssh_known_hosts"], host+" ssh-rsa AAAA") {
		t.Errorf("the host is not trusted again: %v", err)
	}

	if err := core.Namespaces().Delete(t.Context(), ns, metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	healed(d, "the Namespace was deleted")
}
