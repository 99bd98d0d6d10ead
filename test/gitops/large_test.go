//go:build e2e

package gitops_test

import (
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/droverhq/drover/test/argocd"
	"github.com/droverhq/drover/test/gitserver"
	"github.com/droverhq/drover/test/kubernetes"
)

// TestLargeRepositories has repositories of 200 MiB, or of
// DROVER_TEST_REPOSITORY_MIB. What the control plane reads of them stays small: in
// memory, on disk and on the wire.
func TestLargeRepositories(t *testing.T) {
	mib, err := strconv.ParseInt(os.Getenv("DROVER_TEST_REPOSITORY_MIB"), 10, 64)
	if err != nil {
		mib = 200
	}
	// A world of its own: agents keep what they were told by another control plane.
	w := startBeside(t, argocd.Start(t, kubernetes.Start(t, kubernetes.WithControllers())), "")
	// Another process has its own peak of memory, and a place for files of its own.
	temp := t.TempDir()
	w.s.Kill()
	w.s.Env = append(w.s.Env, "TMPDIR="+temp)
	w.s.Start(t)

	const most = 512 << 20
	check := func(t *testing.T, began time.Time) {
		t.Helper()
		t.Logf("%s; the server had at most %d MiB", time.Since(began).Round(time.Second), peak(t, w.s.PID())>>20)
		if got := peak(t, w.s.PID()); got > most {
			t.Errorf("the server had %d MiB", got>>20)
		}
		until(t, "no more than 64 MiB to be left on the server's disk", func() bool { return inside(t, temp)+inside(t, w.s.DataDir) <= 64<<20 })
	}
	grown := func(t *testing.T, ns, where string, stay bool) *gitserver.Repo {
		t.Helper()
		began := time.Now()
		repo := w.git.Repo(t, ns)
		repo.Commit(t, "main", files{"k8s/a.yaml": configMap("a", "0")})
		repo.Bulk(t, "main", mib<<20, stay)
		t.Logf("%s has %d MiB after %s", where, repo.Size(t)>>20, time.Since(began).Round(time.Second))
		return repo
	}

	ns := w.namespace(t)
	repo := grown(t, ns, "the history", false)
	first := repo.Commit(t, "main", files{"k8s/a.yaml": configMap("a", "1")})
	t.Run("a large history, without Argo CD", func(t *testing.T) {
		began, there := time.Now(), w.namespace(t)
		w.run(t, "deploy", "create", "history", "--repo", repo.URL, "--path", "k8s", "--to", "plain/"+there, "--wait")
		w.value(t, there, "a", "1")
		w.run(t, "deploy", "delete", "history", "--yes", "--wait")
		check(t, began)
	})
	t.Run("a large history, by Argo CD", func(t *testing.T) {
		began := time.Now()
		w.deploy(t, ns, "shop", of("automated", repo.URL))
		o := w.wait(t, deployments, ns, "shop", "there, or refused", func(o *thing) bool {
			return argocd.Synced(first)(o) || strings.HasPrefix(condition(o, "ComparisonError"), "True")
		})
		t.Logf("it says %q", troubles(o))
		w.synced(t, ns, "shop", first) // what takes Argo CD too long once does not the next time
		w.value(t, ns, "a", "1")
		second := repo.Commit(t, "main", files{"k8s/a.yaml": configMap("a", "2")})
		w.push(t, repo, "main", w.pushSecret(t))
		w.synced(t, ns, "shop", second)
		w.remove(t, deployments, ns, "shop")
		w.value(t, ns, "a", "none")
		check(t, began)
	})

	ns = w.namespace(t)
	repo = grown(t, ns, "the branch", true)
	t.Run("a large branch, without Argo CD", func(t *testing.T) {
		began := time.Now()
		w.run(t, "deploy", "create", "branch", "--repo", repo.URL, "--path", "k8s", "--to", "plain/"+ns, "--wait")
		w.value(t, ns, "a", "0")
		check(t, began)
	})
	t.Run("many of them at once", func(t *testing.T) {
		began := time.Now()
		const many = 12
		for i := range many {
			w.run(t, "deploy", "create", fmt.Sprint("branch-", i), "--repo", repo.URL, "--path", "bulk", "--to", "plain/"+ns)
		}
		for i := range many {
			until(t, "it to be refused for its size", func() bool {
				said := w.run(t, "deploy", "status", fmt.Sprint("branch-", i))
				return strings.Contains(said, "ComparisonError: the repository is too large") || // of 2 GiB
					strings.Contains(said, `.bin" is larger than 4194304 bytes (it has 8388608)`) // of one of its files
			})
		}
		check(t, began)
	})
}

// peak is the most memory that a process has had.
func peak(t *testing.T, pid int) int64 {
	t.Helper()
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", pid))
	if err != nil {
		t.Skipf("this system does not tell: %v", err)
	}
	_, after, _ := strings.Cut(string(text), "VmHWM:")
	line, _, _ := strings.Cut(after, "\n")
	n, err := strconv.ParseInt(strings.TrimSpace(strings.TrimSuffix(strings.TrimSpace(line), "kB")), 10, 64)
	if err != nil {
		t.Fatal(err)
	}
	return n << 10
}

// inside is the size of all files below a directory.
func inside(t *testing.T, dir string) (n int64) {
	t.Helper()
	_ = filepath.WalkDir(dir, func(_ string, d fs.DirEntry, err error) error { // what comes and goes meanwhile is nothing that is left
		if err == nil && !d.IsDir() {
			if info, err := d.Info(); err == nil {
				n += info.Size()
			}
		}
		return nil
	})
	return n
}
