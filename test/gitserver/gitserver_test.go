//go:build e2e

package gitserver_test

import (
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/droverhq/drover/test/gitserver"
)

// git runs with no settings but those that it is told.
func git(t *testing.T, dir string, env []string, args ...string) (string, error) {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), "git", args...)
	cmd.Dir = dir
	cmd.Env = append([]string{"HOME=" + t.TempDir(), "PATH=" + os.Getenv("PATH"), "GIT_CONFIG_NOSYSTEM=1", "GIT_TERMINAL_PROMPT=0", "LC_ALL=C"}, env...)
	out, err := cmd.CombinedOutput()
	return strings.TrimSpace(string(out)), err
}

func clone(t *testing.T, url string, env []string, args ...string) string {
	t.Helper()
	dir := filepath.Join(t.TempDir(), "clone")
	if out, err := git(t, "", env, append(append([]string{"clone", "--quiet"}, args...), url, dir)...); err != nil {
		t.Fatalf("cannot clone: %v: %s", err, out)
	}
	return dir
}

func text(t *testing.T, path ...string) string {
	t.Helper()
	data, err := os.ReadFile(filepath.Join(path...))
	if err != nil {
		t.Fatal(err)
	}
	return string(data)
}

func TestCommits(t *testing.T) {
	s := gitserver.Start(t)
	other := s.Repo(t, "other")
	inner := other.Commit(t, "main", map[string]gitserver.Entry{"inner": gitserver.File("inner")})
	other.Commit(t, "main", map[string]gitserver.Entry{"inner": gitserver.File("newer")})
	r := s.Repo(t, "team/repo")
	first := r.Commit(t, "main", map[string]gitserver.Entry{
		"a/b.yaml": gitserver.File("one"), "run": gitserver.Program("#!/bin/sh\n"), "old": gitserver.File("old"),
		"link": gitserver.Symlink("a/b.yaml"), "out": gitserver.Symlink("../../etc/passwd"), "sub": gitserver.Submodule("../../other.git", inner),
	})
	r.Tag(t, "v1", first, "")
	r.Tag(t, "v1-told", first, "the first one")
	second := r.Commit(t, "main", map[string]gitserver.Entry{"a/b.yaml": gitserver.File("two"), "old": gitserver.Gone()})
	r.Branch(t, "side", first)

	dir := clone(t, r.URL, nil)
	if head, _ := git(t, dir, nil, "rev-parse", "HEAD"); head != second {
		t.Errorf("HEAD is %s, want %s", head, second)
	}
	if got := text(t, dir, "a/b.yaml") + text(t, dir, "link"); got != "twotwo" {
		t.Errorf("files have %q", got)
	}
	if target, err := os.Readlink(filepath.Join(dir, "out")); err != nil || target != "../../etc/passwd" {
		t.Errorf("the link leads to %q, %v", target, err)
	}
	if info, err := os.Stat(filepath.Join(dir, "run")); err != nil || info.Mode()&0o100 == 0 {
		t.Errorf("the program: %v, %v", info, err)
	}
	if _, err := os.Stat(filepath.Join(dir, "old")); !os.IsNotExist(err) {
		t.Errorf("the old file: %v", err)
	}
	if got := text(t, clone(t, r.URL, nil, "--recurse-submodules"), "sub", "inner"); got != "inner" {
		t.Errorf("the submodule has %q", got)
	}
	for _, ref := range []string{"v1", "v1-told", "side"} {
		if got := text(t, clone(t, r.URL, nil, "--depth=1", "--branch="+ref), "a/b.yaml"); got != "one" {
			t.Errorf("%s has %q", ref, got)
		}
	}
	if out, err := git(t, dir, nil, "fetch", "--depth=1", "--filter=blob:none", r.URL, first); err != nil {
		t.Errorf("a commit cannot be fetched by its id: %v: %s", err, out)
	}
	r.Branch(t, "main", first)
	r.Forget(t, "refs/tags/v1")
	list, err := git(t, dir, nil, "ls-remote", r.URL)
	if err != nil || !strings.Contains(list, first+"\trefs/heads/main") || strings.Contains(list, "refs/tags/v1\n") {
		t.Errorf("after a rewrite: %v: %s", err, list)
	}
	if out, err := git(t, dir, nil, "push", r.URL, "HEAD:refs/heads/new"); err == nil {
		t.Errorf("a reader writes: %s", out)
	}
	r.Remove(t)
	if out, err := git(t, dir, nil, "ls-remote", r.URL); err == nil {
		t.Errorf("what was removed has %s", out)
	}
}

func TestWhoMayRead(t *testing.T) {
	s := gitserver.Start(t, gitserver.WithPassword("reader", "secret"), gitserver.WithTLS())
	r := s.Repo(t, "repo")
	r.Commit(t, "main", map[string]gitserver.Entry{"a": gitserver.File("a")})
	trust := filepath.Join(t.TempDir(), "ca.pem")
	if err := os.WriteFile(trust, s.Certificate, 0o600); err != nil {
		t.Fatal(err)
	}
	with := func(user string) string { return strings.Replace(r.URL, "://", "://"+user+"@", 1) }
	for _, c := range []struct {
		reason, url, trust string
		ok                 bool
	}{
		{"the one who knows the password", with("reader:secret"), trust, true},
		{"another password", with("reader:guess"), trust, false},
		{"nobody", r.URL, trust, false},
		{"one who does not trust the certificate", with("reader:secret"), "/dev/null", false},
	} {
		if out, err := git(t, "", []string{"GIT_SSL_CAINFO=" + c.trust}, "ls-remote", c.url); (err == nil) != c.ok {
			t.Errorf("%s: %v: %s", c.reason, err, out)
		}
	}
	s.SetPassword("reader", "new")
	if _, err := git(t, "", []string{"GIT_SSL_CAINFO=" + trust}, "ls-remote", with("reader:secret")); err == nil {
		t.Error("the old password still opens")
	}
}

func TestBadDays(t *testing.T) {
	s := gitserver.Start(t)
	r := s.Repo(t, "repo")
	r.Commit(t, "main", map[string]gitserver.Entry{"a": gitserver.File("a")})
	read := func() error { _, err := git(t, "", nil, "ls-remote", r.URL); return err }
	for _, c := range []struct {
		reason    string
		bad, good func()
	}{
		{"it is away", s.Stop, func() {
			if err := s.Start(); err != nil {
				t.Fatal(err)
			}
		}},
		{"it fails", func() {
			s.Meddle(func(w http.ResponseWriter, _ *http.Request) bool {
				w.WriteHeader(http.StatusBadGateway)
				return true
			})
		}, func() { s.Meddle(nil) }},
	} {
		c.bad()
		if err := read(); err == nil {
			t.Errorf("%s, and it was read", c.reason)
		}
		c.good()
		before := s.Requests()
		if err := read(); err != nil || s.Requests() == before {
			t.Errorf("after %s: %v, %d requests", c.reason, err, s.Requests()-before)
		}
	}
}

func TestSSH(t *testing.T) {
	if _, err := exec.LookPath("ssh"); err != nil {
		t.Fatal("there is no ssh: apt-get install -y openssh-client")
	}
	s := gitserver.Start(t)
	r := s.Repo(t, "team/repo")
	r.Commit(t, "main", map[string]gitserver.Entry{"a": gitserver.File("by ssh")})
	h, stranger := s.SSH(t), s.SSH(t)
	with := func(key []byte, hosts string) []string {
		dir := t.TempDir()
		for name, data := range map[string]string{"key": string(key), "hosts": hosts} {
			if err := os.WriteFile(filepath.Join(dir, name), []byte(data), 0o600); err != nil {
				t.Fatal(err)
			}
		}
		return []string{"GIT_SSH_COMMAND=ssh -F none -i " + dir + "/key -o IdentitiesOnly=yes -o BatchMode=yes -o StrictHostKeyChecking=yes -o UserKnownHostsFile=" + dir + "/hosts"}
	}
	if got := text(t, clone(t, h.URL(r), with(h.Key, h.KnownHosts)), "a"); got != "by ssh" || h.Runs() != 1 {
		t.Errorf("it has %q after %d runs", got, h.Runs())
	}
	for _, c := range []struct {
		reason string
		env    []string
	}{
		{"a stranger's key", with(stranger.Key, h.KnownHosts)},
		{"another host's key", with(h.Key, stranger.KnownHosts)},
	} {
		if out, err := git(t, "", c.env, "ls-remote", h.URL(r)); err == nil {
			t.Errorf("%s: %s", c.reason, out)
		}
	}
	if out, err := git(t, "", with(h.Key, h.KnownHosts), "ls-remote", strings.Replace(h.URL(r), "team/repo", "../repo", 1)); err == nil {
		t.Errorf("out of the root: %s", out)
	}
}
