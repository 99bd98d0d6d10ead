package source_test

import (
	"context"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/droverhq/drover/internal/fault"
	"github.com/droverhq/drover/internal/source"
)

func TestParse(t *testing.T) {
	cases := []struct {
		reason, text string
		want         source.Location
	}{
		{"a directory", "./examples/shop", source.Location{Repository: "./examples/shop"}},
		{"a directory with an at", "/srv/shop@home", source.Location{Repository: "/srv/shop@home"}},
		{"a repository", "https://host/org/repo", source.Location{Repository: "https://host/org/repo"}},
		{"everything", "https://host:8443/org/repo.git//a/b@v1.2", source.Location{Repository: "https://host:8443/org/repo.git", Path: "a/b", Revision: "v1.2"}},
		{"a branch with slashes", "https://host/repo@feature/x", source.Location{Repository: "https://host/repo", Revision: "feature/x"}},
		{"the at of a user", "https://me@host/repo", source.Location{Repository: "https://me@host/repo"}},
		{"both ats", "https://me@host/repo@main", source.Location{Repository: "https://me@host/repo", Revision: "main"}},
		{"a part that begins with an at", "https://host/@scope/repo", source.Location{Repository: "https://host/@scope/repo"}},
		{"a full name of a branch", "https://host/repo@refs/heads/main", source.Location{Repository: "https://host/repo", Revision: "refs/heads/main"}},
		{"as ssh writes it", "git@host:org/repo@main", source.Location{Repository: "git@host:org/repo", Revision: "main"}},
		{"with a subdirectory", "git@host:org/repo.git//sub", source.Location{Repository: "git@host:org/repo.git", Path: "sub"}},
		{"an address of ssh", "ssh://git@host:2222/org/repo@3f2a1b0", source.Location{Repository: "ssh://git@host:2222/org/repo", Revision: "3f2a1b0"}},
		{"http to this machine", "http://127.0.0.1:3000/repo", source.Location{Repository: "http://127.0.0.1:3000/repo"}},
		{"and by IPv6", "http://[::1]:3000/repo@v1", source.Location{Repository: "http://[::1]:3000/repo", Revision: "v1"}},
		{"a file", "file:///srv/repo.git//x@v1", source.Location{Repository: "file:///srv/repo.git", Path: "x", Revision: "v1"}},
		{"a slash too many at the end", "https://host/org/repo/", source.Location{Repository: "https://host/org/repo"}},
		{"blanks around it", " https://host/repo\n", source.Location{Repository: "https://host/repo"}},
	}
	for _, c := range cases {
		got, err := source.Parse(c.text)
		if err != nil {
			t.Errorf("%s: %v", c.reason, err)
		}
		if diff := cmp.Diff(c.want, got); diff != "" {
			t.Errorf("%s: %s", c.reason, diff)
		}
	}
}

func TestParseRefuses(t *testing.T) {
	cases := []struct{ reason, text string }{
		{"nothing", ""},
		{"a password", "https://me:hunter2@host/repo"},
		{"a password for ssh", "ssh://me:hunter2@host/repo"},
		{"a password before what cannot be read", "https://me:hunter2@ho st/repo"},
		{"http elsewhere", "http://host/repo"},
		{"http to what only looks like this machine", "http://127.0.0.1.example.org/repo"},
		{"another scheme", "ftp://host/repo"},
		{"a program in disguise", "ext::sh -c id://x/y"},
		{"no repository", "https://host"},
		{"an empty one", "https://host/"},
		{"no host", "https:///repo"},
		{"an option as a host", "ssh://-oProxyCommand=id/repo"},
		{"an option as a path", "git@host:-x"},
		{"a query", "https://host/repo?x=1"},
		{"a fragment", "https://host/repo#main"},
		{"out of the tree", "https://host/repo//../x"},
		{"out of the tree, later", "https://host/repo//a/../../x"},
		{"into Git's own", "https://host/repo//.Git/hooks"},
		{"a dot", "https://host/a/../repo"},
		{"an empty revision", "https://host/repo@"},
		{"an option as a revision", "https://host/repo@--upload-pack=id"},
		{"a range", "https://host/repo@a..b"},
		{"a look back", "https://host/repo@main~1"},
		{"a file on another host", "file://host/repo"},
		{"a line break within", "https://host/re\npo"},
		{"endless", "https://host/" + strings.Repeat("x", 3000)},
	}
	for _, c := range cases {
		l, err := source.Parse(c.text)
		if !fault.Is(err, fault.Invalid) {
			t.Errorf("%s: %+v, %v", c.reason, l, err)
		} else if strings.Contains(err.Error(), "hunter2") {
			t.Errorf("%s: the error tells the password: %v", c.reason, err)
		}
	}
}

func FuzzParse(f *testing.F) {
	for _, s := range []string{"./x", "https://host/repo.git//sub@v1", "git@host:org/repo@main", "ssh://a@b:22/c", "file:///x", "https://u:p@h/r", "http://[::1]/r", "https://h/@s/r@x@y", "a@b:c//d@e"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, text string) {
		l, err := source.Parse(text)
		if err != nil {
			if !fault.Is(err, fault.Invalid) {
				t.Fatalf("%q: %v", text, err)
			}
			return
		}
		if again, err := source.Parse(l.String()); err != nil || again != l {
			t.Fatalf("%q is read as %+v, which is written %q and read as %+v (%v)", text, l, l.String(), again, err)
		}
		if err := l.Check(); err != nil {
			t.Fatalf("%q is read as %+v, which is refused: %v", text, l, err)
		}
		if strings.Contains(l.Path, "..") && source.CheckPath(l.Path) != nil {
			t.Fatalf("%q leads to %q", text, l.Path)
		}
	})
}

func TestNames(t *testing.T) {
	for _, bad := range []string{"", ".", "..", "a/b", `a\b`, "a\x00b", "a\nb", ".git", ".GIT", ".Git.", ".git ", ".git::$INDEX_ALLOCATION", "GIT~1", ".g\u200cit", "\xff", strings.Repeat("é", 128)} {
		if source.CheckName(bad) == nil {
			t.Errorf("%q passes", bad)
		}
	}
	for _, good := range []string{"a", ".gitignore", ".github", "digit", "Größe.yaml", "a b", strings.Repeat("x", 255)} {
		if err := source.CheckName(good); err != nil {
			t.Errorf("%q: %v", good, err)
		}
	}
	for _, bad := range []string{"/a", "a//b", "a/", "../a", "a/./b", strings.Repeat("a/", 40) + "a", strings.Repeat("abcdefg/", 200) + "a"} {
		if source.CheckPath(bad) == nil {
			t.Errorf("the path %q passes", bad)
		}
	}
}

type said string

func (s said) Read(context.Context, source.Location, source.Credential, source.Limits) (source.Tree, error) {
	return source.Tree{Commit: string(s)}, nil
}

func TestChoose(t *testing.T) {
	both := source.Choose{Directory: said("directory"), Git: said("git")}
	for text, want := range map[string]string{"./x": "directory", "https://host/repo": "git", "git@host:repo": "git"} {
		l, err := source.Parse(text)
		if err != nil {
			t.Fatal(err)
		}
		if tree, err := both.Read(t.Context(), l, source.Credential{}, source.Limits{}); err != nil || tree.Commit != want {
			t.Errorf("%s is read by %s (%v)", text, tree.Commit, err)
		}
	}
	if _, err := (source.Choose{Git: said("git")}).Read(t.Context(), source.Location{Repository: "/etc"}, source.Credential{}, source.Limits{}); !fault.Is(err, fault.Denied) {
		t.Errorf("a server without directories reads one: %v", err)
	}
}
