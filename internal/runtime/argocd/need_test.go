package argocd_test

import (
	"encoding/base64"
	"encoding/json"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"pgregory.net/rapid"

	"github.com/droverhq/drover/internal/runtime"
	"github.com/droverhq/drover/internal/runtime/argocd"
	"github.com/droverhq/drover/internal/runtime/keep"
)

// drawn is some deployment of few workspaces, repositories, credentials and targets.
func drawn(t *rapid.T, uid string) *runtime.Deployment {
	if rapid.IntRange(0, 4).Draw(t, "none") == 0 {
		return nil
	}
	pick := func(name string, of ...string) string { return rapid.SampledFrom(of).Draw(t, name) }
	d := &runtime.Deployment{
		UID: uid, Workspace: pick("workspace", "w1", "w2"), Repository: "https://git/" + pick("repository", "a", "b"), Path: pick("path", "x", "y"),
		Namespace: "n", Namespaces: []string{pick("namespace", "n", "m")}, ClusterResources: rapid.Bool().Draw(t, "cluster"),
	}
	if id := pick("credential", "", "c1", "c2"); id != "" {
		d.Credential = &runtime.RepositoryCredential{ID: id, Username: "u", Password: pick("password", "p", "q"), Since: since(t)}
	}
	if id := pick("target", "", "t1", "t2"); id != "" {
		d.Target = &runtime.Target{ID: id, Server: "https://" + id, Token: pick("token", "s", "t"), Namespaces: []string{"n"}, Since: since(t)}
	}
	return d
}

func since(t *rapid.T) time.Time {
	return time.Unix(int64(rapid.IntRange(0, 2).Draw(t, "since")), 0)
}

// TestLaterKeys: one that is still told an old password, or that nobody can tell
// anything any more, does not keep others from the new one.
func TestLaterKeys(t *testing.T) {
	for i := range 16 { // whichever of the two comes first
		of := func(uid, key string, since time.Time) runtime.Deployment {
			return runtime.Deployment{
				UID: uid, Workspace: "w", Repository: "https://git/a", Path: "x", Namespace: "n",
				Credential: &runtime.RepositoryCredential{ID: "c", Username: "u", Password: fmt.Sprint(key, i), Since: since},
				Target:     &runtime.Target{ID: "t", Server: "https://t", Token: fmt.Sprint(key, i), Namespaces: []string{"n"}, Since: since},
			}
		}
		for reason, old := range map[string]time.Time{"a while ago": time.Unix(1, 0), "by a server that did not say since when": {}} {
			items := map[string]runtime.Deployment{"a": of("a", "old", old), "b": of("b", "new", time.Unix(2, 0)), "c": of("c", "old", old)}
			_, secrets := argocd.Scopes(argocd.Config{}, items)
			found := secrets[argocd.ProjectName(items["a"])]
			if len(found) != 2 {
				t.Fatalf("there are %d Secrets", len(found))
			}
			for name, secret := range found {
				data, _, _ := unstructured.NestedStringMap(secret.Object, "data")
				text := ""
				for _, coded := range data {
					plain, err := base64.StdEncoding.DecodeString(coded)
					if err != nil {
						t.Fatal(err)
					}
					text += string(plain)
				}
				if strings.Contains(text, "old") || !strings.Contains(text, fmt.Sprint("new", i)) {
					t.Errorf("two were told %s: %s has %q", reason, name, text)
				}
			}
		}
	}
}

// TestKeysThatWere: what is wanted counts before what was made, whenever that became what
// it was; and between two credentials their ages say nothing.
func TestKeysThatWere(t *testing.T) {
	of := func(id, key string, since int64) *runtime.Deployment {
		return &runtime.Deployment{UID: "a", Workspace: "w", Repository: "https://git/a", Path: "x", Namespace: "n", Namespaces: []string{"n"},
			Credential: &runtime.RepositoryCredential{ID: id, Username: "u", Password: key, Since: time.Unix(since, 0)}}
	}
	marks := func(now, last *runtime.Deployment) map[string][]string {
		n := argocd.NewNeeds()
		n.Set("a", now, last)
		return n.Marks()
	}
	for reason, was := range map[string]*runtime.Deployment{
		"the same credential, of a ledger that was restored": of("c1", "old", 5), "another one": of("c2", "old", 5), "a younger one of that id": of("c1", "old", 1),
	} {
		if d := cmp.Diff(marks(of("c1", "new", 2), nil), marks(of("c1", "new", 2), was)); d != "" {
			t.Errorf("%s: what was made says what it is:\n%s", reason, d)
		}
	}
}

// TestNeedsProperty: whatever came, changed and went, what is shared is the same as if
// those that are left had been the only ones, in any order; and whoever removes a
// Secret that is needed is noticed.
func TestNeedsProperty(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		n := argocd.NewNeeds()
		left := map[string][2]*runtime.Deployment{}
		for range rapid.IntRange(1, 30).Draw(t, "changes") {
			id := fmt.Sprint("i", rapid.IntRange(0, 5).Draw(t, "id"))
			now, last := drawn(t, id), drawn(t, id)
			n.Set(id, now, last)
			if left[id] = [2]*runtime.Deployment{now, last}; now == nil && last == nil {
				delete(left, id)
			}
			if rapid.Bool().Draw(t, "look") { // so that some changes come together
				n.Marks()
			}
		}
		fresh := argocd.NewNeeds()
		for id, d := range left {
			fresh.Set(id, d[0], d[1])
		}
		if d := cmp.Diff(fresh.Marks(), n.Marks()); d != "" {
			t.Fatalf("what is shared depends on what was before:\n%s", d)
		}
		if d := cmp.Diff(fresh.Concerned(), n.Concerned()); d != "" {
			t.Fatalf("what is woken depends on what was before:\n%s", d)
		}
		for secret, woken := range n.Concerned() {
			if !woken {
				t.Fatalf("nobody is woken when %s goes", secret)
			}
		}
	})
}

// TestMoreOfTheSame: one more of what is there already asks for nothing.
func TestMoreOfTheSame(t *testing.T) {
	n := argocd.NewNeeds()
	of := func(uid, repository string) *runtime.Deployment {
		return &runtime.Deployment{UID: uid, Workspace: "w", Repository: repository, Path: uid, Namespace: "n", Namespaces: []string{"n"}}
	}
	project := argocd.ProjectName(*of("a", "r"))
	n.Set("a", of("a", "r"), nil)
	n.Made(project)
	for _, c := range []struct {
		id        string
		now, last *runtime.Deployment
		asked     bool
		reason    string
	}{
		{"a", of("a", "r"), of("a", "r"), false, "it was made of what it is to be"},
		{"b", of("b", "r"), nil, false, "another path of the same repository"},
		{"b", of("b", "other"), of("b", "r"), true, "another repository"},
		{"c", of("c", "other"), nil, false, "and one more of that"},
		{"b", nil, nil, false, "it is still needed by somebody"},
		{"c", nil, of("c", "other"), false, "it is until the last one is gone"},
		{"c", nil, nil, true, "nobody needs it any more"},
	} {
		n.Set(c.id, c.now, c.last)
		if got := n.Asked(project); got != c.asked {
			t.Errorf("%s: looked at again: %v", c.reason, got)
		}
		n.Made(project)
	}
}

// TestNeedsByRecord: what a restart finds counts as a need, unless it is let go of.
func TestNeedsByRecord(t *testing.T) {
	d := runtime.Deployment{UID: "u", Workspace: "w", Repository: "https://git/a", Path: "x", Namespace: "n"}
	letGo := d
	letGo.Kept = true
	for _, c := range []struct {
		reason    string
		body      runtime.Deployment
		gone      bool
		made      *runtime.Deployment
		kept      bool
		now, last bool
	}{
		{"it is to be as it was made", d, false, &d, false, true, true},
		{"it was not made yet", d, false, nil, false, true, false},
		{"it is being removed, and was made", d, true, &d, false, false, true},
		{"it is being let go of", letGo, false, &d, false, false, false},
		{"it was let go of", letGo, false, nil, true, false, false},
		{"it was let go of, and told again since", letGo, false, &letGo, true, false, false},
		{"it was let go of, and is forgotten", letGo, true, &letGo, true, false, false},
		{"it was let go of, and is wanted again", d, false, &d, true, true, true},
	} {
		body, err := json.Marshal(c.body)
		if err != nil {
			t.Fatal(err)
		}
		now, last := argocd.NeedOf(keep.Record{ID: "i", Body: body, Delete: c.gone}, c.made, c.kept)
		if (now != nil) != c.now || (last != nil) != c.last {
			t.Errorf("%s: it needs %v, and needed %v", c.reason, now, last)
		}
	}
}
