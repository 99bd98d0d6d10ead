package kubeapi_test

import (
	"fmt"
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/droverhq/drover/internal/kubeapi"
)

func TestLine(t *testing.T) {
	thousand := kubeapi.Put{Rank: kubeapi.AtOnce}
	for i := range 1000 {
		thousand.Names = append(thousand.Names, fmt.Sprintf("loud/%d", i))
	}
	for name, c := range map[string]struct {
		puts   []kubeapi.Put
		want   []string // the first ones
		reason string
	}{
		"turns": {
			puts: []kubeapi.Put{thousand, {Rank: kubeapi.AtOnce, Names: []string{"quiet/0", "quiet/1"}}},
			want: []string{"loud/0", "quiet/0", "loud/1", "quiet/1", "loud/2"}, reason: "nobody waits for a thousand of somebody else's",
		},
		"start": {
			puts: []kubeapi.Put{{Rank: kubeapi.Sometime, Names: []string{"a/0", "a/1", "b/0"}}, {Rank: kubeapi.AtOnce, Names: []string{"a/new"}}},
			want: []string{"a/new", "b/0", "a/0", "a/1"}, reason: "what was just done goes before what a start brings, in its own namespace",
		},
		"risen": {
			puts: []kubeapi.Put{{Rank: kubeapi.Sometime, Names: []string{"a/0", "a/1", "a/2"}}, {Rank: kubeapi.AtOnce, Names: []string{"a/2"}}, {Rank: kubeapi.Sometime, Names: []string{"a/2"}}},
			want: []string{"a/2", "a/0", "a/1"}, reason: "what waits and is changed rises, and does not fall again",
		},
	} {
		t.Run(name, func(t *testing.T) {
			got := kubeapi.Order(c.puts...)
			if d := cmp.Diff(c.want, got[:min(len(got), len(c.want))]); d != "" {
				t.Errorf("%s:\n%s", c.reason, d)
			}
			slices.Sort(got)
			if n := len(slices.Compact(slices.Clone(got))); n != len(got) {
				t.Errorf("%d were handed out, %d of them different", len(got), n)
			}
		})
	}
}
