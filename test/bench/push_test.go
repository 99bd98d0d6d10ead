//go:build bench

package bench

import (
	"crypto/hmac"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/droverhq/drover/test/drover"
	"github.com/droverhq/drover/test/gitserver"
)

var kubeConfigMaps = schema.GroupVersionResource{Version: "v1", Resource: "configmaps"}

// TestPush measures from the message of a Git server to the object in the cluster,
// one push after the other. Argo CD looks into Git once in an hour by itself, so that
// nothing but the message brings a commit there.
func TestPush(t *testing.T) {
	n := setting("DROVER_BENCH_PUSHES", 60)
	w := newStation(t, "")
	spaces := w.tenants(t, "push", 2)
	git := gitserver.Start(t)
	arrived := w.look(t, kubeConfigMaps, func(o *unstructured.Unstructured) bool { return strings.HasPrefix(o.GetName(), "pushed-") })
	stdout, stderr, code := w.s.Run("deploy", "webhook", "-o", "json")
	var hook struct{ Secret string }
	if err := json.Unmarshal([]byte(stdout), &hook); err != nil || code != 0 {
		t.Fatalf("the webhook: %v %s", err, stderr)
	}
	kubeconfig := filepath.Join(t.TempDir(), "kubeconfig")
	if err := os.WriteFile(kubeconfig, w.a.Cluster.Kubeconfig(), 0o600); err != nil {
		t.Fatal(err)
	}
	drover.Join(t, w.s.URL(), "plain", w.s.Cluster(t, "plain"), "--runtime", "kubernetes", "--runtime-options", "kubeconfig="+kubeconfig+",namespace=drover-plain")

	for i, one := range []struct {
		by     string
		deploy func(repo *gitserver.Repo) error
	}{
		{"Argo CD", func(repo *gitserver.Repo) error {
			_, err := w.deploy(spaces[0], "shop", from(repo.URL, "k8s"), map[string]any{})
			return err
		}},
		{"without Argo CD", func(repo *gitserver.Repo) error {
			if _, stderr, code := w.s.Run("deploy", "create", "shop", "--repo", repo.URL, "--path", "k8s", "--revision", "main", "--to", "plain/"+spaces[1], "--wait"); code != 0 {
				return fmt.Errorf("code %d: %s", code, stderr)
			}
			return nil
		}},
	} {
		repo := git.Repo(t, spaces[i])
		commit := func(k int) (key string) {
			name := fmt.Sprintf("pushed-%d-%d", i, k)
			repo.Commit(t, "main", map[string]gitserver.Entry{"k8s/" + name + ".yaml": gitserver.File("apiVersion: v1\nkind: ConfigMap\nmetadata: {name: " + name + "}\n")})
			return spaces[i] + "/" + name
		}
		first := commit(0)
		if err := one.deploy(repo); err != nil {
			t.Fatal(err)
		}
		arrived.when(t, "there", []string{first}, 5*time.Minute)
		var took []time.Duration
		for k := range n {
			key := commit(k + 1)
			began := time.Now()
			push(t, w.s.URL(), repo.URL, hook.Secret)
			took = append(took, arrived.when(t, "there", []string{key}, 5*time.Minute).Sub(began))
		}
		report(fmt.Sprintf("a push is told by a webhook → the object is in the cluster, %d one after the other, %s: p50 / p99 / max", n, one.by), w.e.name,
			fmt.Sprintf("%s; load %s", quantiles(took), load1()), "seconds")
	}
}

// push tells of one as GitHub does.
func push(t *testing.T, server, repository, secret string) {
	t.Helper()
	body := fmt.Sprintf(`{"ref": "refs/heads/main", "repository": {"clone_url": %q, "default_branch": "main"}}`, repository)
	mac := hmac.New(sha256.New, []byte(secret))
	mac.Write([]byte(body))
	a := drover.Must(t, drover.Request{Method: http.MethodPost, URL: server + "/api/v1/webhooks/git", Body: []byte(body), Header: http.Header{
		"X-Github-Event": {"push"}, "Content-Type": {"application/json"}, "X-Hub-Signature-256": {"sha256=" + hex.EncodeToString(mac.Sum(nil))}}})
	if a.Status != http.StatusAccepted || !strings.Contains(string(a.Body), `"deployments":1`) {
		t.Fatalf("a push: %d %s", a.Status, a.Body)
	}
}
