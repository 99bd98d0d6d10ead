package gitserver

import (
	"bytes"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// Repo is a repository on the server. Its branch is main until others are made.
type Repo struct {
	URL  string // by HTTP
	Name string // "team/repo", which the URL ends with, and ".git"

	dir string
}

// Repo makes an empty repository.
func (s *Server) Repo(t testing.TB, name string) *Repo {
	t.Helper()
	r := &Repo{URL: s.URL + "/" + name + ".git", Name: name, dir: filepath.Join(s.root, filepath.FromSlash(name)+".git")}
	if err := os.MkdirAll(r.dir, 0o755); err != nil {
		t.Fatal(err)
	}
	r.git(t, "", "init", "--quiet", "--bare", "--initial-branch=main", ".")
	// As the large hosts of repositories have it: a commit can be asked for by
	// its id, and files can be left out.
	r.git(t, "", "config", "uploadpack.allowAnySHA1InWant", "true")
	r.git(t, "", "config", "uploadpack.allowFilter", "true")
	return r
}

// git runs in the repository and returns what Git says, without the line's end.
func (r *Repo) git(t testing.TB, in string, args ...string) string {
	t.Helper()
	cmd := exec.Command("git", args...)
	cmd.Dir, cmd.Stdin = r.dir, strings.NewReader(in)
	cmd.Env = append(environment(r.dir), "PATH="+os.Getenv("PATH"), "GIT_DIR="+r.dir, "GIT_INDEX_FILE="+filepath.Join(r.dir, "test-index"))
	var said bytes.Buffer
	cmd.Stderr = &said
	out, err := cmd.Output()
	if err != nil {
		t.Fatalf("git %s: %v: %s", strings.Join(args, " "), err, said.String())
	}
	return strings.TrimSuffix(string(out), "\n")
}

// Entry is what a path of a commit has.
type Entry struct{ mode, text, url string }

// File is one with a text.
func File(text string) Entry { return Entry{mode: "100644", text: text} }

// Program is a file that can be run.
func Program(text string) Entry { return Entry{mode: "100755", text: text} }

// Symlink leads anywhere, also out of the repository.
func Symlink(target string) Entry { return Entry{mode: "120000", text: target} }

// Submodule is another repository at one of its commits. A URL may be relative.
func Submodule(url, commit string) Entry { return Entry{mode: "160000", text: commit, url: url} }

// Gone removes what was there.
func Gone() Entry { return Entry{} }

// Commit changes files on a branch, which is made where there is none, and
// returns the commit's id. What is not named stays.
func (r *Repo) Commit(t testing.TB, branch string, files map[string]Entry) string {
	t.Helper()
	ref := "refs/heads/" + branch
	parent := r.git(t, "", "for-each-ref", "--format=%(objectname)", ref)
	if parent != "" {
		r.git(t, "", "read-tree", parent)
	} else {
		r.git(t, "", "read-tree", "--empty")
	}
	var index, modules strings.Builder
	for _, path := range sorted(files) {
		e := files[path]
		id := e.text
		switch {
		case e.mode == "":
			e.mode, id = "0", strings.Repeat("0", 40)
		case e.url != "":
			fmt.Fprintf(&modules, "[submodule %q]\n\tpath = %s\n\turl = %s\n", path, path, e.url)
		default:
			id = r.git(t, e.text, "hash-object", "-w", "--stdin")
		}
		fmt.Fprintf(&index, "%s %s\t%s\n", e.mode, id, path)
	}
	if modules.Len() > 0 {
		fmt.Fprintf(&index, "100644 %s\t.gitmodules\n", r.git(t, modules.String(), "hash-object", "-w", "--stdin"))
	}
	r.git(t, index.String(), "update-index", "--index-info")
	args := []string{"commit-tree", r.git(t, "", "write-tree"), "-m", "change of " + branch}
	if parent != "" {
		args = append(args, "-p", parent)
	}
	commit := r.git(t, "", args...)
	r.Branch(t, branch, commit)
	return commit
}

func sorted(files map[string]Entry) []string {
	var paths []string
	for path := range files {
		paths = append(paths, path)
	}
	slices.Sort(paths)
	return paths
}

// Branch makes a branch at a commit, or moves it there, forwards or not.
func (r *Repo) Branch(t testing.TB, name, commit string) {
	t.Helper()
	r.git(t, "", "update-ref", "refs/heads/"+name, commit)
}

// Tag makes or moves a tag. With a message it is an object of its own.
func (r *Repo) Tag(t testing.TB, name, commit, message string) {
	t.Helper()
	args := []string{"tag", "--force", name, commit}
	if message != "" {
		args = append(args, "-m", message)
	}
	r.git(t, "", args...)
}

// Forget removes a branch ("refs/heads/x") or a tag ("refs/tags/x").
func (r *Repo) Forget(t testing.TB, ref string) {
	t.Helper()
	r.git(t, "", "update-ref", "-d", ref)
}

// Remove takes the whole repository away.
func (r *Repo) Remove(t testing.TB) {
	t.Helper()
	if err := os.RemoveAll(r.dir); err != nil {
		t.Fatal(err)
	}
}
