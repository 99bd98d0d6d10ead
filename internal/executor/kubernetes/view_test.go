package kubernetes_test

import (
	"reflect"
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"github.com/droverhq/drover/internal/executor"
	kubernetes "github.com/droverhq/drover/internal/executor/kubernetes"
)

// tree draws a document as a cluster has them.
func tree(depth int) *rapid.Generator[any] {
	leaf := rapid.OneOf(rapid.Just[any](nil), rapid.Map(rapid.SampledFrom([]string{"a", "b"}), func(s string) any { return s }), rapid.Map(rapid.Int64Range(0, 2), func(n int64) any { return n }))
	if depth == 0 {
		return leaf
	}
	return rapid.OneOf(leaf,
		rapid.Map(rapid.MapOfN(rapid.SampledFrom([]string{"x", "y", "z"}), tree(depth-1), 0, 3), func(m map[string]any) any { return m }),
		rapid.Map(rapid.SliceOfN(tree(depth-1), 0, 3), func(l []any) any { return l }))
}

// What differs is told, with both values, and nothing else is.
func TestDifferences(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		a, b := tree(3).Draw(t, "a"), tree(3).Draw(t, "b")
		var there, back []string
		kubernetes.Differ(a, b, func(path string, x, y any) {
			if reflect.DeepEqual(x, y) {
				t.Fatalf("%s is told, and is %v on both sides", path, x)
			}
			there = append(there, path)
		})
		kubernetes.Differ(b, a, func(path string, _, _ any) { back = append(back, path) })
		if !slices.Equal(there, back) {
			t.Fatalf("one way %v, the other way %v", there, back)
		}
		kubernetes.Differ(a, a, func(path string, _, _ any) { t.Fatalf("%s differs from itself", path) })
	})
	var got []string
	kubernetes.Differ(map[string]any{"spec": map[string]any{"n": int64(1), "l": []any{"a", "b"}, "gone": "x"}},
		map[string]any{"spec": map[string]any{"n": int64(2), "l": []any{"a", "c"}, "new": "y"}}, func(path string, _, _ any) { got = append(got, path) })
	if diff := cmp.Diff([]string{"spec.gone", "spec.l[1]", "spec.n", "spec.new"}, got); diff != "" {
		t.Error(diff)
	}
}

// What stays as it is keeps its status: otherwise whatever refers to it would be to
// change in every plan.
func TestStatusOfWhatStays(t *testing.T) {
	same, other := kubernetes.Decide([]string{"a"}), kubernetes.Decide([]string{"a"}, executor.Field{Path: "x", After: 1})
	if _, told := same.Outputs["status"]; told || same.Action != executor.None {
		t.Errorf("%s %v", same.Action, same.Outputs)
	}
	if other.Outputs["status"] != (executor.Unknown{}) || other.Action != executor.Update {
		t.Errorf("%s %v", other.Action, other.Outputs)
	}
}

// What is not known is not sent, and what is secret is found wherever it is.
func TestUnknownAndSecret(t *testing.T) {
	in := map[string]any{
		"data":  map[string]any{"a": executor.Unknown{}, "b": "known", "s": executor.NewSecret("x"), "both": executor.NewSecret(executor.Unknown{})},
		"items": []any{"one", map[string]any{"deep": executor.Unknown{}}},
		"list":  []any{map[string]any{"s": executor.NewSecret("y")}},
	}
	want := map[string]any{"data": map[string]any{"b": "known", "s": "x"}, "list": []any{map[string]any{"s": "y"}}}
	if diff := cmp.Diff(any(want), executor.Reveal(kubernetes.Without(in))); diff != "" {
		t.Error(diff)
	}
	secret, unknown := kubernetes.SecretPaths(in), kubernetes.UnknownPaths(in)
	slices.Sort(secret) // the others are in order, so that a plan is the same again
	if diff := cmp.Diff([]string{"data.both", "data.s", "list[0].s"}, secret); diff != "" {
		t.Error(diff)
	}
	if diff := cmp.Diff([]string{"data.a", "data.both", "items[1].deep"}, unknown); diff != "" {
		t.Error(diff)
	}
}
