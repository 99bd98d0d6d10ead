package git_test

import (
	"net/http"
	"net/http/cgi"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/droverhq/drover/internal/fault"
	"github.com/droverhq/drover/internal/source"
	"github.com/droverhq/drover/internal/source/git"
)

func run(t *testing.T, dir string, args ...string) string {
	t.Helper()
	cmd := exec.Command("git", args...)
	cmd.Dir = dir
	cmd.Env = append(os.Environ(), "GIT_AUTHOR_NAME=Ann", "GIT_AUTHOR_EMAIL=ann@example.org", "GIT_AUTHOR_DATE=2026-01-02T03:04:05Z",
		"GIT_COMMITTER_NAME=Ann", "GIT_COMMITTER_EMAIL=ann@example.org", "GIT_CONFIG_GLOBAL=/dev/null", "GIT_CONFIG_NOSYSTEM=1")
	out, err := cmd.CombinedOutput()
	if err != nil {
		t.Fatalf("git %s: %v: %s", strings.Join(args, " "), err, out)
	}
	return strings.TrimSpace(string(out))
}

// repository has two commits on main, a tag on each, and a branch of its own.
type repository struct {
	dir                  string // where bare repositories are, this one as repo.git
	first, second, third string
}

func newRepository(t *testing.T) repository {
	t.Helper()
	dir := t.TempDir()
	work, r := filepath.Join(dir, "work"), repository{dir: dir}
	run(t, dir, "init", "-q", "-b", "main", "work")
	put := func(name, text string) {
		at := filepath.Join(work, name)
		if err := os.MkdirAll(filepath.Dir(at), 0o700); err != nil {
			t.Fatal(err)
		}
		mode := os.FileMode(0o644)
		if strings.HasSuffix(name, ".sh") {
			mode = 0o755
		}
		if err := os.WriteFile(at, []byte(text), mode); err != nil {
			t.Fatal(err)
		}
	}
	commit := func() string {
		run(t, work, "add", "-A")
		run(t, work, "commit", "-q", "-m", "what it is\n\nand why")
		return run(t, work, "rev-parse", "HEAD")
	}
	put("shop/template.yaml", strings.Repeat("one\n", 500))
	put("shop/run.sh", "#!/bin/sh\n")
	r.first = commit()
	run(t, work, "tag", "v1")
	put("shop/template.yaml", strings.Repeat("one\n", 500)+"two\n")
	r.second = commit()
	run(t, work, "tag", "-a", "-m", "two", "v2")
	run(t, work, "checkout", "-q", "-b", "feature/x")
	put("other", "three")
	r.third = commit()
	run(t, work, "tag", "main", r.first) // and a branch
	run(t, work, "checkout", "-q", "refs/heads/main")
	run(t, work, "checkout", "-q", "-B", "trunk")
	run(t, dir, "clone", "-q", "--bare", "work", "repo.git")
	return r
}

// http serves the repository with Git's own server.
func (r repository) http(t *testing.T, wrap func(http.Handler) http.Handler) string {
	t.Helper()
	backend := filepath.Join(run(t, "", "--exec-path"), "git-http-backend")
	var h http.Handler = &cgi.Handler{Path: backend, Env: []string{"GIT_PROJECT_ROOT=" + r.dir, "GIT_HTTP_EXPORT_ALL=1", "GIT_CONFIG_COUNT=1", "GIT_CONFIG_KEY_0=safe.directory", "GIT_CONFIG_VALUE_0=*"}}
	if wrap != nil {
		h = wrap(h)
	}
	s := httptest.NewServer(h)
	t.Cleanup(s.Close)
	return s.URL + "/repo.git"
}

func TestRevisions(t *testing.T) {
	r := newRepository(t)
	cases := []struct {
		reason, rev string
		want        string // commit
		kind        fault.Kind
	}{
		{"the default branch", "", r.second, 0},
		{"a branch", "feature/x", r.third, 0},
		{"a branch by its full name", "refs/heads/main", r.second, 0},
		{"a tag", "v1", r.first, 0},
		{"a tag with a message", "v2", r.second, 0},
		{"a commit", r.third, r.third, 0},
		{"a commit that nothing points at any more", r.first, r.first, 0},
		{"the beginning of one", r.first[:9], r.first, 0},
		{"in capitals", strings.ToUpper(r.second[:12]), r.second, 0},
		{"a branch and a tag", "main", "", fault.Invalid},
		{"no such branch", "nowhere", "", fault.NotFound},
		{"no such commit", ones, "", fault.NotFound},
		{"the beginning of none", "0123456789", "", fault.NotFound},
		{"too short", r.first[:6], "", fault.NotFound},
	}
	for _, permissive := range []string{"false", "true"} {
		run(t, filepath.Join(r.dir, "repo.git"), "config", "uploadpack.allowReachableSHA1InWant", permissive)
		run(t, filepath.Join(r.dir, "repo.git"), "config", "uploadpack.allowFilter", permissive)
		for name, repo := range map[string]string{"http": r.http(t, nil), "file": "file://" + r.dir + "/repo.git"} {
			for _, c := range cases {
				t.Run(name+"/"+permissive+"/"+c.reason, func(t *testing.T) {
					tree, err := git.Source{Local: true}.Read(t.Context(), source.Location{Repository: repo, Revision: c.rev, Path: "shop"}, source.Credential{}, source.Limits{})
					if c.want == "" {
						if !fault.Is(err, c.kind) {
							t.Errorf("%v (%v)", err, fault.Of(err))
						}
						return
					}
					if err != nil {
						t.Fatal(err)
					}
					text := strings.Repeat("one\n", 500)
					if c.want != r.first {
						text += "two\n"
					}
					want := source.Tree{Commit: c.want, Author: "Ann <ann@example.org>", Time: time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC), Message: "what it is",
						Files: map[string]source.File{"template.yaml": {Data: []byte(text)}, "run.sh": {Data: []byte("#!/bin/sh\n"), Exec: true}}}
					if diff := cmp.Diff(want, tree); diff != "" {
						t.Error(diff)
					}
				})
			}
		}
	}
}

func TestFaults(t *testing.T) {
	r := newRepository(t)
	const secret = "s3cr3t-t0ken"
	guard := func(next http.Handler) http.Handler {
		return http.HandlerFunc(func(w http.ResponseWriter, q *http.Request) {
			if _, pass, _ := q.BasicAuth(); pass != secret {
				w.WriteHeader(http.StatusUnauthorized)
				w.Write([]byte("you said " + pass))
				return
			}
			next.ServeHTTP(w, q)
		})
	}
	answer := func(status int) string {
		s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, q *http.Request) {
			w.WriteHeader(status)
			w.Write([]byte(q.Header.Get("Authorization") + " " + secret))
		}))
		t.Cleanup(s.Close)
		return s.URL + "/repo"
	}
	silent := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, q *http.Request) { <-q.Context().Done() }))
	t.Cleanup(silent.Close)
	guarded := r.http(t, guard)
	with := source.Credential{Password: secret}
	cases := []struct {
		reason string
		at     source.Location
		with   source.Credential
		limits source.Limits
		kind   fault.Kind
		says   string
	}{
		{"a token", source.Location{Repository: guarded, Path: "shop"}, with, source.Limits{}, fault.Internal, ""},
		{"no token", source.Location{Repository: guarded}, source.Credential{}, source.Limits{}, fault.Denied, "asks for a credential"},
		{"another token", source.Location{Repository: guarded}, source.Credential{Username: "ann", Password: "wr0ng-" + secret}, source.Limits{}, fault.Denied, "does not take the credential"},
		{"a token that may not", source.Location{Repository: answer(403)}, with, source.Limits{}, fault.Denied, "may not read"},
		{"no repository", source.Location{Repository: answer(404)}, with, source.Limits{}, fault.NotFound, "no repository"},
		{"a server in trouble", source.Location{Repository: answer(503)}, with, source.Limits{}, fault.Unavailable, "503"},
		{"something else than Git", source.Location{Repository: answer(200)}, with, source.Limits{}, fault.Invalid, "no Git repository"},
		{"nobody there", source.Location{Repository: "http://127.0.0.1:1/repo"}, with, source.Limits{}, fault.Unavailable, "cannot be reached"},
		{"no answer", source.Location{Repository: silent.URL + "/repo"}, with, source.Limits{Timeout: 100 * time.Millisecond}, fault.Unavailable, "did not answer within"},
		{"no such directory", source.Location{Repository: guarded, Path: "shop/none"}, with, source.Limits{}, fault.NotFound, "no directory"},
		{"more than may be sent", source.Location{Repository: guarded}, with, source.Limits{Bytes: 300}, fault.Invalid, "were sent"},
		{"a directory", source.Location{Repository: r.dir}, with, source.Limits{}, fault.Invalid, "no Git repository"},
		{"a repository of the server's", source.Location{Repository: "file://" + r.dir + "/repo.git"}, with, source.Limits{}, fault.Denied, "own disk"},
		{"unencrypted", source.Location{Repository: "http://git.example.org/repo"}, with, source.Limits{}, fault.Invalid, "https"},
	}
	for _, c := range cases {
		t.Run(c.reason, func(t *testing.T) {
			tree, err := git.Source{}.Read(t.Context(), c.at, c.with, c.limits)
			if c.says == "" {
				if err != nil || len(tree.Files) != 2 {
					t.Errorf("%v, %v", tree.Files, err)
				}
				return
			}
			if !fault.Is(err, c.kind) || !strings.Contains(err.Error(), c.says) {
				t.Errorf("%v (%v)", err, fault.Of(err))
			}
			if err != nil && strings.Contains(err.Error(), secret) {
				t.Errorf("the error tells the token: %v", err)
			}
		})
	}
}

// A server that sends us on to another host does not send the credential along.
func TestRedirects(t *testing.T) {
	r := newRepository(t)
	var heard []string
	there := r.http(t, func(next http.Handler) http.Handler {
		return http.HandlerFunc(func(w http.ResponseWriter, q *http.Request) {
			heard = append(heard, q.Header.Get("Authorization"))
			next.ServeHTTP(w, q)
		})
	})
	to := there
	here := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, q *http.Request) {
		http.Redirect(w, q, to+"/info/refs?"+q.URL.RawQuery, http.StatusFound)
	}))
	t.Cleanup(here.Close)
	at := source.Location{Repository: here.URL + "/moved", Revision: "v1"}
	if _, err := (git.Source{}).Read(t.Context(), at, source.Credential{Username: "ann", Password: "s3cr3t"}, source.Limits{}); err != nil {
		t.Fatal(err)
	}
	if len(heard) < 2 || strings.Join(heard, "") != "" {
		t.Errorf("the other host heard %q", heard)
	}
	to = "http://192.0.2.1/repo"
	if _, err := (git.Source{}).Read(t.Context(), at, source.Credential{}, source.Limits{}); !fault.Is(err, fault.Invalid) || !strings.Contains(err.Error(), "without encryption") {
		t.Errorf("sent on to an address without encryption: %v", err)
	}
}
