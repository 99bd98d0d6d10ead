package template_test

import (
	"bytes"
	"context"
	"errors"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"github.com/droverhq/drover/internal/access"
	"github.com/droverhq/drover/internal/document"
	"github.com/droverhq/drover/internal/fault"
	"github.com/droverhq/drover/internal/ledger"
	"github.com/droverhq/drover/internal/source"
	"github.com/droverhq/drover/internal/sqlledger"
	"github.com/droverhq/drover/internal/template"
)

// users counts environments.
type users map[string]int64

func (u users) Used(_ context.Context, name string) (int64, error) { return u[name], nil }

// repository answers with one tree.
type repository struct {
	tree source.Tree
	at   source.Location
	err  error
}

func (r *repository) Read(_ context.Context, at source.Location, _ source.Credential, _ source.Limits) (source.Tree, error) {
	r.at = at
	return r.tree, r.err
}

func service(t *testing.T, change func(*template.Config)) (*template.Service, *sqlledger.Ledger) {
	t.Helper()
	store, err := sqlledger.Open(t.Context(), sqlledger.Config{
		URL: filepath.Join(t.TempDir(), "drover.db"), Key: bytes.Repeat([]byte{7}, ledger.KeySize), Kinds: template.Kinds(),
	})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { store.Close() })
	c := template.Config{Store: store, Files: store, Executors: around.Executors}
	if change != nil {
		change(&c)
	}
	return template.NewService(c), store
}

func operator(t testing.TB) context.Context {
	return access.With(t.Context(), access.Principal{User: "root", Admin: true})
}

// version is a tree of a template at a version and a commit.
func version(name, label, commit, spec string) source.Tree {
	text := strings.NewReplacer("name: shop", "name: "+name, "version: 1.0.0", `version: "`+label+`"`).Replace(head) + spec
	out := tree(map[string]string{"template.yaml": text})
	out.Commit = commit + strings.Repeat("0", 40-len(commit))
	return out
}

const simple = "  resources: [{name: a, executor: file, with: {path: a}}]\n"

func TestVersions(t *testing.T) {
	s, _ := service(t, nil)
	ctx := operator(t)
	add := func(tree source.Tree) (string, bool) {
		t.Helper()
		o, fresh, err := s.AddTree(ctx, tree, "test")
		if err != nil {
			t.Fatal(err)
		}
		return o.ID, fresh
	}
	first, fresh := add(version("shop", "1.0.0", "aaaa1111", simple))
	if first != "shop@aaaa11110000" || !fresh {
		t.Errorf("got %s, %v", first, fresh)
	}
	if id, fresh := add(version("shop", "1.0.0", "aaaa1111", simple)); id != first || fresh {
		t.Errorf("the same commit is the same version: %s, %v", id, fresh)
	}
	if _, _, err := s.AddTree(ctx, version("shop", "1.0.0", "bbbb", simple), "test"); !fault.Is(err, fault.Conflict) || fault.Reason(err) != "version-taken" {
		t.Errorf("a label names one commit: %v", err)
	}
	second, _ := add(version("shop", "1.1.0", "aaaa2222", simple))
	dir := version("shop", "2.0.0", "", simple)
	dir.Commit = "dir-cccc" + strings.Repeat("0", 60)
	third, _ := add(dir)
	dir.Commit = "dir-dddd" + strings.Repeat("0", 60)
	fourth, _ := add(dir)
	cases := []struct {
		reason, ref, want string
		kind              fault.Kind
	}{
		{"the last that was added", "shop", fourth, 0},
		{"a label", "shop@1.0.0", first, 0},
		{"the label of directories is the last one's", "shop@2.0.0", fourth, 0},
		{"the one before stays by its id", third, third, 0},
		{"the beginning of a commit", "shop@aaaa2", second, 0},
		{"a whole commit", "shop@aaaa2222" + strings.Repeat("0", 32), second, 0},
		{"which may be several", "shop@aaaa", "", fault.Conflict},
		{"an id", first, first, 0},
		{"too short a commit", "shop@ccc", "", fault.NotFound},
		{"a commit with the wrong end", "shop@aaaa22220000f", "", fault.NotFound},
		{"nobody's", "shop@3.0.0", "", fault.NotFound},
		{"no such template", "shed", "", fault.NotFound},
		{"no name at all", "../shop@1.0.0", "", fault.NotFound},
	}
	for _, c := range cases {
		o, err := s.Resolve(ctx, c.ref)
		if o.ID != c.want || c.want == "" && !fault.Is(err, c.kind) {
			t.Errorf("%s: got %s, %v", c.reason, o.ID, err)
			continue
		}
		if c.want == "" {
			continue
		}
		tm, err := s.Version(ctx, c.ref)
		if err != nil || tm.ID() != c.want {
			t.Errorf("%s: got %v, %v", c.reason, tm, err)
		}
		if again, _ := s.Version(ctx, c.ref); again != tm {
			t.Errorf("%s: it is compiled once", c.reason)
		}
	}
	if id, fresh := add(version("shop", "1.0.0", "aaaa1111", simple)); id != first || fresh {
		t.Errorf("got %s, %v", id, fresh)
	}
	if o, err := s.Resolve(ctx, "shop"); err != nil || o.ID != first {
		t.Errorf("what was added last is the newest, old or new: %v, %v", o.ID, err)
	}
	versions, err := s.Versions(ctx, "shop")
	if err != nil || len(versions) != 4 || versions[0].ID != first {
		t.Errorf("got %v, %v", versions, err)
	}
	back, err := s.Tree(ctx, second)
	if err != nil || !strings.Contains(string(back.Files["template.yaml"].Data), `version: "1.1.0"`) || !strings.HasPrefix(back.Commit, "aaaa2222") {
		t.Errorf("got %v, %v", back, err)
	}
}

func TestAddIsForOperators(t *testing.T) {
	s, _ := service(t, nil)
	ctx := access.With(t.Context(), access.Principal{User: "ann", Org: "acme", OrgAdmin: true})
	if _, _, err := s.AddTree(ctx, version("shop", "1", "aaaa", simple), ""); !fault.Is(err, fault.Denied) {
		t.Errorf("got %v", err)
	}
	if _, _, err := s.Add(ctx, template.Addition{}); !fault.Is(err, fault.Denied) {
		t.Errorf("got %v", err)
	}
	if _, err := s.Delete(ctx, "shop"); !fault.Is(err, fault.Denied) {
		t.Errorf("got %v", err)
	}
}

func TestAddition(t *testing.T) {
	repo := &repository{tree: version("shop", "1", "aaaa", simple)}
	s, _ := service(t, func(c *template.Config) { c.Source = repo })
	ctx := operator(t)
	file := []byte(head + simple)
	cases := []struct {
		reason string
		a      template.Addition
		id     string
		kind   fault.Kind
	}{
		{"a repository", template.Addition{Repository: "https://example.org/x/shop.git//sub@v1"}, "shop@aaaa00000000", 0},
		{"files", template.Addition{Files: map[string][]byte{"template.yaml": file}, Origin: "laptop"}, "shop@", 0},
		{"a file that leads elsewhere", template.Addition{Files: map[string][]byte{"template.yaml": file, "../x": nil}}, "", fault.Invalid},
		{"one file twice", template.Addition{Files: map[string][]byte{"template.yaml": file, "a": nil, "A": nil}}, "", fault.Invalid},
		{"a file that is too large", template.Addition{Files: map[string][]byte{"template.yaml": file, "a": make([]byte, 5<<20)}}, "", fault.Invalid},
		{"no template", template.Addition{Files: map[string][]byte{"readme": file}}, "", fault.Invalid},
		{"mistakes", template.Addition{Files: map[string][]byte{"template.yaml": []byte("a: 1")}, Origin: "laptop"}, "", fault.Invalid},
	}
	for _, c := range cases {
		o, _, err := s.Add(ctx, c.a)
		if c.id == "" && !fault.Is(err, c.kind) || c.id != "" && (err != nil || !strings.HasPrefix(o.ID, c.id)) {
			t.Errorf("%s: got %v, %v", c.reason, o.ID, err)
		}
		var mistakes document.Mistakes
		if c.reason == "mistakes" && (!errors.As(err, &mistakes) || mistakes[0].Source != "laptop/template.yaml") {
			t.Errorf("got %v", err)
		}
	}
	if repo.at.Revision != "v1" || repo.at.Path != "sub" {
		t.Errorf("got %+v", repo.at)
	}
}

// Whoever only wants to know what is wrong leaves nothing behind.
func TestDryRun(t *testing.T) {
	s, _ := service(t, nil)
	ctx := operator(t)
	a := template.Addition{Files: map[string][]byte{"template.yaml": []byte(head + simple)}, DryRun: true}
	o, fresh, err := s.Add(ctx, a)
	if err != nil || fresh || o.Fields["template"] != "shop" {
		t.Errorf("got %v, %v, %v", o, fresh, err)
	}
	if kept, err := s.List(ctx); err != nil || len(kept) > 0 {
		t.Errorf("%d are kept, %v", len(kept), err)
	}
	a.Files["template.yaml"] = []byte("a: 1")
	if _, _, err := s.Add(ctx, a); !fault.Is(err, fault.Invalid) {
		t.Errorf("mistakes: %v", err)
	}
}

// That a repository cannot be reached is said of the repository.
func TestRepositoryIsAway(t *testing.T) {
	s, _ := service(t, func(c *template.Config) {
		c.Source = &repository{err: fault.New(fault.Unavailable, "nobody listens there")}
	})
	_, _, err := s.Add(operator(t), template.Addition{Repository: "https://example.org/x/shop.git"})
	if !fault.Is(err, fault.Invalid) || !strings.Contains(err.Error(), "nobody listens there") {
		t.Errorf("got %v", err)
	}
}

// A template is what it was when it was added, whatever its parts have become.
func TestPartsArePinned(t *testing.T) {
	s, store := service(t, nil)
	ctx := operator(t)
	part := func(commit, path string) source.Tree {
		tr := version("part", "1.0.0", "", "  resources: [{name: a, executor: file, with: {path: "+path+"}}]\n")
		tr.Commit = "dir-" + commit + strings.Repeat("0", 60)
		return tr
	}
	for _, tr := range []source.Tree{part("aaaa", "old"), version("shop", "1.0.0", "cccc", "  groups: [{name: g, template: part@1.0.0}]\n"), part("bbbb", "new")} {
		if _, _, err := s.AddTree(ctx, tr, "test"); err != nil {
			t.Fatal(err)
		}
	}
	fresh := template.NewService(template.Config{Store: store, Files: store, Executors: around.Executors})
	tm, err := fresh.Version(ctx, "shop")
	if err != nil {
		t.Fatal(err)
	}
	if in, err := expand(t, tm, nil).Inputs(ctx, "g.a", nil); err != nil || in["path"] != "old" {
		t.Errorf("got %v, %v", in, err)
	}
	if tm, err := fresh.Version(ctx, "part@1.0.0"); err != nil || tm.Spec.Resources[0].With.(map[string]any)["path"] != "new" {
		t.Errorf("got %v", err)
	}
	if _, err := s.Delete(ctx, "part"); !fault.Is(err, fault.Conflict) {
		t.Errorf("it is a part of another: %v", err)
	}
	if _, _, err := s.AddTree(ctx, version("part", "3.0.0", "dddd", "  groups: [{name: g, template: shop@1.0.0}]\n"), "test"); !fault.Is(err, fault.Invalid) || !strings.Contains(err.Error(), "hold each other") {
		t.Errorf("a cycle of templates: %v", err)
	}
	if _, _, err := s.AddTree(ctx, version("hall", "3.0.0", "eeee", "  groups: [{name: g, template: none@1.0.0}]\n"), "test"); !fault.Is(err, fault.Invalid) {
		t.Errorf("a part that is not there: %v", err)
	}
}

func TestDelete(t *testing.T) {
	used := users{"shop": 2}
	s, _ := service(t, func(c *template.Config) { c.Users = used })
	ctx := operator(t)
	o, _, err := s.AddTree(ctx, version("shop", "1.0.0", "aaaa", simple), "test")
	if err != nil {
		t.Fatal(err)
	}
	if _, err := s.Delete(ctx, "shop"); !fault.Is(err, fault.Conflict) || fault.Reason(err) != "in-use" {
		t.Errorf("got %v", err)
	}
	used["shop"] = 0
	if gone, err := s.Delete(ctx, "shop"); err != nil || gone.Deleted.IsZero() {
		t.Errorf("got %v, %v", gone, err)
	}
	for _, ref := range []string{"shop", "shop@1.0.0"} {
		if _, err := s.Resolve(ctx, ref); !fault.Is(err, fault.NotFound) {
			t.Errorf("%s: %v", ref, err)
		}
	}
	if _, err := s.Version(ctx, o.ID); err != nil {
		t.Errorf("by its id it can still be read: %v", err)
	}
	if _, err := s.Delete(ctx, "shop"); !fault.Is(err, fault.NotFound) {
		t.Errorf("got %v", err)
	}
	if _, fresh, err := s.AddTree(ctx, version("shop", "1.0.0", "aaaa", simple), "test"); err != nil || !fresh {
		t.Errorf("it can come back: %v, %v", fresh, err)
	}
}

// Everybody sees the templates that they may plan environments of.
func TestWhoSeesTemplates(t *testing.T) {
	s, _ := service(t, nil)
	for _, tr := range []source.Tree{
		version("open", "1", "aaaa", simple), version("ours", "1", "bbbb", simple+"  permissions: {plan: {orgs: [acme]}}\n"),
	} {
		if _, _, err := s.AddTree(operator(t), tr, "test"); err != nil {
			t.Fatal(err)
		}
	}
	for _, c := range []struct {
		reason string
		who    access.Principal
		want   string
	}{
		{"operators", access.Principal{User: "root", Admin: true}, "open ours"},
		{"those who are named", access.Principal{User: "ann", Org: "acme"}, "open ours"},
		{"others", access.Principal{User: "eve", Org: "evil"}, "open"},
		{"nobody", access.Principal{}, ""},
	} {
		ctx := access.With(t.Context(), c.who)
		found, err := s.List(ctx)
		var names []string
		for _, o := range found {
			names = append(names, o.ID)
		}
		if err != nil || strings.Join(names, " ") != c.want {
			t.Errorf("%s: got %v, %v", c.reason, names, err)
		}
		_, err = s.Get(ctx, "ours")
		if _, also := s.Versions(ctx, "ours"); (err == nil) != strings.Contains(c.want, "ours") || (also == nil) != (err == nil) {
			t.Errorf("%s: got %v, %v", c.reason, err, also)
		}
	}
}

// Two who add at once come one after the other, and both are there.
func TestAddAtOnce(t *testing.T) {
	s, _ := service(t, func(c *template.Config) { c.Keep = 2 })
	var all sync.WaitGroup
	for i, label := range []string{"1", "2", "3"} {
		all.Go(func() {
			if _, _, err := s.AddTree(operator(t), version("shop", label, strings.Repeat(label, 6+i), simple), "test"); err != nil {
				t.Error(err)
			}
		})
	}
	all.Wait()
	for _, label := range []string{"1", "2", "3", "1"} {
		if tm, err := s.Version(t.Context(), "shop@"+label); err != nil || tm.Spec.Version != label {
			t.Errorf("%s: %v", label, err)
		}
	}
}
