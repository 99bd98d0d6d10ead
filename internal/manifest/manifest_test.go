package manifest_test

import (
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"pgregory.net/rapid"

	"github.com/droverhq/drover/internal/fault"
	"github.com/droverhq/drover/internal/manifest"
)

type fields = map[string]any

func made(kind, name string) fields {
	version := "v1"
	switch kind {
	case "CustomResourceDefinition":
		version = "apiextensions.k8s.io/v1"
	case "ClusterRole":
		version = "rbac.authorization.k8s.io/v1"
	}
	return fields{"apiVersion": version, "kind": kind, "metadata": fields{"name": name}}
}

func TestPrepare(t *testing.T) {
	list := fields{"apiVersion": "v1", "kind": "List", "items": []any{made("ConfigMap", "x"), made("Namespace", "n")}}
	got, err := manifest.Prepare(manifest.Set{Owner: "me", Namespace: "home", Objects: []map[string]any{
		made("ConfigMap", "c"), list, made("ClusterRole", "r"), made("CustomResourceDefinition", "d"),
		{"apiVersion": "v1", "kind": "Secret", "metadata": fields{"name": "s", "namespace": "there", "uid": "u"}, "stringData": fields{"a": "b"}, "status": fields{}},
	}})
	if err != nil {
		t.Fatal(err)
	}
	var names []string
	for _, o := range got {
		names = append(names, o.GetKind()+" "+o.GetNamespace()+"/"+o.GetName())
		if o.GetLabels()[manifest.OwnerLabel] != "me" || o.GetAnnotations()[manifest.OwnerAnnotation] != "me" {
			t.Errorf("%s has no owner", o.GetName())
		}
		if o.GetUID() != "" || o.Object["status"] != nil {
			t.Errorf("%s says what only a cluster can", o.GetName())
		}
	}
	first := slices.Sorted(slices.Values(names[:2]))
	if diff := cmp.Diff([]string{"CustomResourceDefinition /d", "Namespace /n"}, first); diff != "" {
		t.Errorf("what others need comes first: %s", diff)
	}
	if names[2] != "ClusterRole /r" {
		t.Errorf("third comes %s", names[2])
	}
	rest := slices.Sorted(slices.Values(names[3:]))
	if diff := cmp.Diff([]string{"ConfigMap home/c", "ConfigMap home/x", "Secret there/s"}, rest); diff != "" {
		t.Error(diff)
	}
	for _, o := range got {
		if o.GetKind() == "Secret" && (o.Object["stringData"] != nil || o.Object["data"].(fields)["a"] != "Yg==") {
			t.Errorf("the Secret is %v", o.Object)
		}
	}
}

func TestPrepareRefuses(t *testing.T) {
	for _, tc := range []struct {
		reason string
		set    manifest.Set
		words  string
	}{
		{"for the whole cluster", manifest.Set{Owner: "me", Namespaced: true, Objects: []map[string]any{made("ConfigMap", "a"), made("ClusterRole", "r")}}, "whole cluster"},
		{"in a list too", manifest.Set{Owner: "me", Namespaced: true, Objects: []map[string]any{{"apiVersion": "v1", "kind": "List", "items": []any{made("ClusterRole", "r")}}}}, "whole cluster"},
		{"nobody's", manifest.Set{Objects: []map[string]any{made("ConfigMap", "a")}}, "owner"},
		{"no kind", manifest.Set{Owner: "me", Objects: []map[string]any{{"apiVersion": "v1"}}}, "kind"},
		{"no name", manifest.Set{Owner: "me", Objects: []map[string]any{made("ConfigMap", "")}}, "name"},
		{"twice", manifest.Set{Owner: "me", Objects: []map[string]any{made("ConfigMap", "a"), made("ConfigMap", "a")}}, "twice"},
		{"metadata that is text", manifest.Set{Owner: "me", Objects: []map[string]any{{"apiVersion": "v1", "kind": "X", "metadata": "m"}}}, "metadata"},
		{"labels that are numbers", manifest.Set{Owner: "me", Objects: []map[string]any{{"apiVersion": "v1", "kind": "X", "metadata": fields{"name": "n", "labels": fields{"a": 1}}}}}, "labels"},
		{"a list of texts", manifest.Set{Owner: "me", Objects: []map[string]any{{"apiVersion": "v1", "kind": "List", "items": []any{"a"}}}}, "list"},
		{"a broken group", manifest.Set{Owner: "me", Objects: []map[string]any{{"apiVersion": "a/b/c", "kind": "X"}}}, "apiVersion"},
		{"a Secret of numbers", manifest.Set{Owner: "me", Objects: []map[string]any{{"apiVersion": "v1", "kind": "Secret", "metadata": fields{"name": "n"}, "data": fields{"a": 1}}}}, "data"},
	} {
		t.Run(tc.reason, func(t *testing.T) {
			if _, err := manifest.Prepare(tc.set); !fault.Is(err, fault.Invalid) || !strings.Contains(err.Error(), tc.words) {
				t.Errorf("got %v", err)
			}
		})
	}
}

// Whatever people write as manifests, preparing answers and leaves the input alone.
func FuzzPrepare(f *testing.F) {
	f.Add(`[{"apiVersion":"v1","kind":"ConfigMap","metadata":{"name":"a"},"data":{"k":1.5}}]`)
	f.Add(`[{"apiVersion":"v1","kind":"List","items":[{"apiVersion":"v1","kind":"Secret","metadata":{"name":"s","labels":null},"stringData":{"a":"b"}}]}]`)
	f.Add(`[{"apiVersion":"apiextensions.k8s.io/v1","kind":"CustomResourceDefinition","metadata":{"name":"x"},"spec":[]}]`)
	f.Add(`[{"apiVersion":"v1","kind":"Secret","metadata":{"name":null},"data":{"a":"not base64"}}]`)
	f.Fuzz(func(t *testing.T, text string) {
		var objects []map[string]any
		if json.Unmarshal([]byte(text), &objects) != nil {
			return
		}
		before, _ := json.Marshal(objects)
		got, err := manifest.Prepare(manifest.Set{Owner: "me", Objects: objects})
		if after, _ := json.Marshal(objects); string(before) != string(after) {
			t.Errorf("the input was changed: %s", after)
		}
		if err != nil && !fault.Is(err, fault.Invalid) {
			t.Errorf("got %v", err)
		}
		for _, o := range got {
			if o.GetLabels()[manifest.OwnerLabel] != "me" {
				t.Errorf("%s has no owner", o.GetName())
			}
		}
	})
}

// Nothing goes that was not listed before, that is wanted after, or that takes
// others along without being told to; and what lasts goes last.
func TestCandidatesProperty(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		line := rapid.SampledFrom([]string{"/ConfigMap/a/x", "/ConfigMap/b/x", "/Secret/a/s", "/Namespace//a", "/Namespace//b", "apps/Deployment/a/d",
			"apiextensions.k8s.io/CustomResourceDefinition//c", "rbac.authorization.k8s.io/ClusterRole//r"})
		p := manifest.Pruning{Owner: "me", Before: rapid.SliceOf(line).Draw(t, "before"), After: rapid.SliceOf(line).Draw(t, "after"),
			Namespaces: rapid.Bool().Draw(t, "namespaces"), Definitions: rapid.Bool().Draw(t, "definitions")}
		goes, kept, err := manifest.Candidates(p)
		if err != nil {
			t.Fatal(err)
		}
		lasting := false
		for _, id := range goes {
			s := id.String()
			if !slices.Contains(p.Before, s) || slices.Contains(p.After, s) || slices.Contains(kept, s) {
				t.Fatalf("%s goes", s)
			}
			if id.Kind == "Namespace" && !p.Namespaces || id.Kind == "CustomResourceDefinition" && !p.Definitions {
				t.Fatalf("%s goes without being told to", s)
			}
			if lasting && !id.Lasting() {
				t.Fatalf("%s goes after what it may be in", s)
			}
			lasting = id.Lasting()
		}
		for _, s := range p.Before {
			id, _ := manifest.Parse(s)
			if !slices.Contains(p.After, s) && !slices.Contains(kept, s) && !slices.Contains(goes, id) {
				t.Fatalf("%s is lost", s)
			}
		}
	})
}

func TestIDProperty(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		word := rapid.StringMatching(`[a-zA-Z0-9.:-]+`)
		id := manifest.ID{Kind: word.Draw(t, "kind"), Name: word.Draw(t, "name")}
		if rapid.Bool().Draw(t, "full") {
			id.Group, id.Namespace = word.Draw(t, "group"), word.Draw(t, "namespace")
		}
		if got, err := manifest.Parse(id.String()); err != nil || got != id {
			t.Fatalf("%v came back as %v, %v", id, got, err)
		}
	})
	for _, bad := range []string{"", "/", "a/b/c", "a/b/c/d/e", "///x", "/K//"} {
		if _, err := manifest.Parse(bad); !fault.Is(err, fault.Invalid) {
			t.Errorf("%q: %v", bad, err)
		}
	}
}

func TestMark(t *testing.T) {
	long := strings.Repeat("a", 64)
	seen := map[string]bool{}
	for _, owner := range []string{"a", "A.b-c_9", long, long + "b", "with space", "-x", "ü"} {
		m := manifest.Mark(owner)
		if len(m) > 63 || strings.ContainsAny(m, " ü/") || m[0] == '-' || seen[m] {
			t.Errorf("%q is marked %q", owner, m)
		}
		seen[m] = true
	}
}

func TestValuesAreNotQuoted(t *testing.T) {
	for in, want := range map[string]string{
		`Invalid value: "hush": must be a number`:              "Invalid value: must be a number",
		`Invalid value: "hu\"sh: x": must be a number`:         "Invalid value: must be a number",
		`Invalid value: {"a":"hush","b":{"c":"hush"}}: no: so`: "Invalid value: no: so",
		`Invalid value: ["hush"]: too many`:                    "Invalid value: too many",
		`Invalid value: 17: too large`:                         "Invalid value: too large",
		`Duplicate value: "hush"`:                              "Duplicate value",
		`Required value`:                                       "Required value",
	} {
		if got := manifest.Valueless(in); got != want {
			t.Errorf("%s: got %q, want %q", in, got, want)
		}
	}
}

func TestExplain(t *testing.T) {
	id := manifest.ID{Kind: "ConfigMap", Namespace: "ns", Name: "n"}
	resource := schema.GroupResource{Resource: "configmaps"}
	for _, tc := range []struct {
		reason  string
		err     error
		kind    fault.Kind
		because string
	}{
		{"a webhook's own words", apierrors.NewForbidden(resource, "n", errors.New(`admission webhook "w" denied the request: not on Sundays`)), fault.Invalid, "admission-denied"},
		{"no right", apierrors.NewForbidden(resource, "n", errors.New(`User "x" cannot patch resource`)), fault.Denied, "forbidden"},
		{"bad credentials", apierrors.NewUnauthorized("no"), fault.Denied, "unauthorized"},
		{"slow", apierrors.NewServerTimeout(resource, "patch", 1), fault.Unavailable, "server-error"},
		{"our own", fault.New(fault.Exhausted, "full").Because("x"), fault.Exhausted, "x"},
		{"nothing understood", errors.New("???"), fault.Unavailable, "server-error"},
		{"a broken line", fmt.Errorf("read: %w", errors.New("connection reset by peer")), fault.Unavailable, "unreachable"},
	} {
		t.Run(tc.reason, func(t *testing.T) {
			if err := manifest.Explain(tc.err, id); !fault.Is(err, tc.kind) || fault.Reason(err) != tc.because {
				t.Errorf("got %v (%v, %q)", err, fault.Of(err), fault.Reason(err))
			}
		})
	}
}

func TestJudge(t *testing.T) {
	id := manifest.ID{Group: "apps", Kind: "Deployment", Namespace: "ns", Name: "web"}
	fine := manifest.Assess(manifest.ID{Kind: "ConfigMap", Namespace: "ns", Name: "c"}, made("ConfigMap", "c"))
	slow := manifest.Assess(id, fields{"apiVersion": "apps/v1", "kind": "Deployment", "metadata": fields{"name": "web", "generation": int64(2)}, "status": fields{"observedGeneration": int64(1)}})
	missing := manifest.Assess(id, nil)
	broken := manifest.Object{ID: id, State: "Failed", Message: "Deployment ns/web: gave up", Content: fields{}}
	for _, tc := range []struct {
		reason        string
		objects       []manifest.Object
		ready         string
		want, failed  bool
		words         string
		invalidReason bool
	}{
		{"all is well", []manifest.Object{fine}, "", true, false, "", false},
		{"nothing is well too", nil, "", true, false, "", false},
		{"one is on its way", []manifest.Object{fine, slow}, "", false, false, "Deployment ns/web", false},
		{"which an expression may call enough", []manifest.Object{fine, slow}, "size(objects) == 2", true, false, "", false},
		{"but never what is gone", []manifest.Object{fine, missing}, "true", false, false, "not there", false},
		{"nor what failed", []manifest.Object{broken}, "true", false, true, "gave up", false},
		{"not yet", []manifest.Object{fine}, "objects[0].status.up", false, false, "not there", false},
		{"not a truth value", []manifest.Object{fine}, "size(objects)", false, false, "", true},
		{"no expression", []manifest.Object{fine}, "objects.all(", false, false, "", true},
	} {
		t.Run(tc.reason, func(t *testing.T) {
			h, err := manifest.Judge(t.Context(), tc.objects, tc.ready)
			if tc.invalidReason {
				if fault.Reason(err) != "invalid-ready" {
					t.Errorf("got %v", err)
				}
				return
			}
			if err != nil || h.Ready != tc.want || h.Failed != tc.failed || !strings.Contains(h.Message, tc.words) || h.Ready && h.Message != "" {
				t.Errorf("got %+v, %v", h, err)
			}
		})
	}
}

func TestOpenRefusesDangerousKubeconfigs(t *testing.T) {
	const frame = `{"apiVersion":"v1","kind":"Config","current-context":"x","contexts":[{"name":"x","context":{"cluster":"c","user":"u"}}],"clusters":[{"name":"c","cluster":{%s}}],"users":[{"name":"u","user":{%s}}]}`
	for _, tc := range []struct {
		reason, cluster, user string
		fine                  bool
	}{
		{"a token", `"server":"https://127.0.0.1:1"`, `"token":"t"`, true},
		{"a program", `"server":"https://127.0.0.1:1"`, `"exec":{"apiVersion":"client.authentication.k8s.io/v1","command":"rm","interactiveMode":"Never"}`, false},
		{"a file with a token", `"server":"https://127.0.0.1:1"`, `"tokenFile":"/etc/shadow"`, false},
		{"a file with a key", `"server":"https://127.0.0.1:1"`, `"client-key":"/etc/shadow"`, false},
		{"a file with an authority", `"server":"https://127.0.0.1:1","certificate-authority":"/etc/shadow"`, `"token":"t"`, false},
	} {
		t.Run(tc.reason, func(t *testing.T) {
			_, err := manifest.Open(manifest.Config{Kubeconfig: fmt.Appendf(nil, frame, tc.cluster, tc.user)})
			if tc.fine != (err == nil) || err != nil && !fault.Is(err, fault.Invalid) {
				t.Errorf("got %v", err)
			}
		})
	}
	if _, err := manifest.Open(manifest.Config{Kubeconfig: []byte("token: hush\n\tx")}); !fault.Is(err, fault.Invalid) || strings.Contains(err.Error(), "hush") {
		t.Errorf("what is no kubeconfig: %v", err)
	}
}
