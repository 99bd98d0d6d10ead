package v1_test

import (
	"encoding/json"
	"testing"

	v1 "github.com/droverhq/drover/api/v1"
)

func TestALeafIsOfEverythingThatCounts(t *testing.T) {
	base := v1.Item{ID: "a", Generation: 1, Token: 4, Digest: "x"}
	cases := map[string]struct {
		reason string
		change func(*v1.Item)
		same   bool
	}{
		"body":       {"A body that is left out is meant by its digest.", func(it *v1.Item) { it.Body = []byte(`{}`) }, true},
		"token":      {"A new token alone is not news.", func(it *v1.Item) { it.Token++ }, true},
		"proof":      {"Nor is a new signature.", func(it *v1.Item) { it.Proof = "y" }, true},
		"id":         {"Another item.", func(it *v1.Item) { it.ID = "b" }, false},
		"kind":       {"Another kind.", func(it *v1.Item) { it.Kind = "step" }, false},
		"generation": {"Newer intent.", func(it *v1.Item) { it.Generation++ }, false},
		"digest":     {"Another body.", func(it *v1.Item) { it.Digest = "z" }, false},
		"delete":     {"A removal.", func(it *v1.Item) { it.Delete = true }, false},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			it := base
			c.change(&it)
			if got := it.Leaf() == base.Leaf(); got != c.same {
				t.Errorf("%s: same leaf: got %v, want %v", c.reason, got, c.same)
			}
		})
	}
}

func TestATreeTravels(t *testing.T) {
	var tree v1.Tree
	for _, id := range []string{"a", "b", "c"} {
		tree.Add(id, v1.Item{ID: id}.Leaf())
	}
	data, err := json.Marshal(tree)
	if err != nil {
		t.Fatal(err)
	}
	var got v1.Tree
	if err := json.Unmarshal(data, &got); err != nil || got != tree {
		t.Errorf("%s is read as another tree, %v", data, err)
	}
	got.Sub("b", v1.Item{ID: "b"}.Leaf())
	if d := got.Differ(&tree); len(d) != 1 || d[0] != v1.BucketOf("b") {
		t.Errorf("they differ in %v", d)
	}
	for _, bad := range []string{`""`, `"AAAA"`, `7`, `"*"`} {
		if json.Unmarshal([]byte(bad), &got) == nil {
			t.Errorf("%s is a tree", bad)
		}
	}
}
