package template_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"github.com/droverhq/drover/internal/executor"
	"github.com/droverhq/drover/internal/template"
)

// drawn is a template of random resources, each of which refers only to earlier
// ones, with what it refers to.
type drawn struct {
	spec  string
	count []int // -1: without
	uses  [][]use
}

type use struct {
	of    int
	index int // -1: all, or the one
}

func draw(t *rapid.T) drawn {
	var d drawn
	var sb strings.Builder
	sb.WriteString("\n  parameters: {properties: {more: {type: integer, default: 0}}}\n  resources:\n")
	n := rapid.IntRange(1, 12).Draw(t, "resources")
	for i := range n {
		count := rapid.IntRange(-1, 4).Draw(t, "count")
		d.count = append(d.count, count)
		d.uses = append(d.uses, nil)
		fmt.Fprintf(&sb, "    - name: r%d\n      executor: open\n", i)
		if count >= 0 {
			fmt.Fprintf(&sb, "      count: ${%d + params.more}\n", count)
		}
		sb.WriteString("      with:\n        own: r\n")
		for j := range rapid.IntRange(0, 4).Draw(t, "uses") {
			if i == 0 {
				break
			}
			of := rapid.IntRange(0, i-1).Draw(t, "of")
			u := use{of, -1}
			field := rapid.SampledFrom([]string{"id", "token"}).Draw(t, "field")
			text := fmt.Sprintf("${r%d.outputs.%s}", of, field)
			if d.count[of] >= 0 {
				if d.count[of] > 0 && rapid.Bool().Draw(t, "by index") {
					u.index = rapid.IntRange(0, d.count[of]-1).Draw(t, "index")
					text = fmt.Sprintf("${r%d[%d].outputs.%s}", of, u.index, field)
				} else {
					text = fmt.Sprintf("${r%d.map(x, x.outputs.%s)}", of, field)
				}
			}
			d.uses[i] = append(d.uses[i], u)
			fmt.Fprintf(&sb, "        in%d: '%s'\n", j, text)
		}
	}
	d.spec = sb.String()
	return d
}

func (d drawn) addresses(of, index, more int) []string {
	name := fmt.Sprint("r", of)
	if d.count[of] < 0 {
		return []string{name}
	}
	var out []string
	for i := range d.count[of] + more {
		if index < 0 || i == index {
			out = append(out, fmt.Sprintf("%s[%d]", name, i))
		}
	}
	return out
}

// Layouts are the same for the same, every reference is an edge and nothing else
// is, what is needed comes before, and one more of a count takes nothing away.
func TestLayoutProperties(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		d := draw(rt)
		tm := must(t, d.spec)
		l := expand(t, tm, nil)
		if diff := cmp.Diff(edges(l), edges(expand(t, must(t, d.spec), nil))); diff != "" {
			rt.Fatalf("not the same again: %s", diff)
		}
		place := map[string]int{}
		for i, n := range l.Nodes {
			place[n.Address] = i
		}
		for i := range d.count {
			want := map[string]bool{}
			for _, u := range d.uses[i] {
				for _, a := range d.addresses(u.of, u.index, 0) {
					want[a] = true
				}
			}
			for _, address := range d.addresses(i, -1, 0) {
				n, there := l.Node(address)
				if !there {
					rt.Fatalf("%s is missing", address)
				}
				if len(want) != len(n.Needs) {
					rt.Fatalf("%s needs %v, want %v", address, n.Needs, want)
				}
				for _, need := range n.Needs {
					if !want[need] || place[need] >= place[address] {
						rt.Fatalf("%s: %s is no reference, or comes later", address, need)
					}
				}
			}
		}
		more := expand(t, tm, map[string]any{"more": 1})
		for _, n := range l.Nodes {
			if _, there := more.Node(n.Address); !there {
				rt.Fatalf("%s is gone though there are more", n.Address)
			}
		}
		for _, n := range more.Nodes { // so that of fewer the highest are gone
			if _, there := l.Node(n.Address); !there && (n.Index < 0 || !slices.Contains(d.addresses(int(n.Name[1]-'0'), -1, 1), n.Address) && len(n.Name) == 2) {
				rt.Fatalf("%s is new", n.Address)
			}
		}
	})
}

// Whatever is made of a secret is secret, however far it went, and in the end the
// values are right.
func TestTaintProperties(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		d := draw(rt)
		l := expand(t, must(t, d.spec), nil)
		values := map[string]map[string]any{}
		hot := map[string]bool{} // addresses whose id holds something of a secret
		for _, n := range l.Nodes {
			in, err := l.Inputs(t.Context(), n.Address, known(values))
			if err != nil {
				rt.Fatal(err)
			}
			depends := false
			for name, v := range in {
				_, secret := v.(executor.Secret)
				if plain := fmt.Sprint(executor.Reveal(v)); strings.Contains(plain, secretWord) && !secret {
					rt.Fatalf("%s: %s lost its secret", n.Address, name)
				} else if secret && !strings.Contains(plain, secretWord) && !strings.Contains(d.spec, "map(") { // a loop may take more for secret than it must
					rt.Fatalf("%s: %s is not made of a secret", n.Address, name)
				}
				depends = depends || secret
			}
			// The next ones are given what this one was: an id that is the inputs.
			var id any = fmt.Sprint(executor.Reveal(in))
			if hot[n.Address] = depends; depends {
				id = executor.NewSecret(id)
			}
			values[n.Address] = map[string]any{"id": id, "token": executor.NewSecret(secretWord)}
		}
	})
}

func FuzzParse(f *testing.F) {
	for _, seed := range []string{
		shop, acting, counted, "", "  resources: [{name: a, executor: file, with: {path: a}}]",
		"  resources: [{name: a, executor: file, count: ${params.n}, with: ${a}}]", "  groups: [{name: g, template: ./.}]",
		"  a: &a [x, x]\n  b: [*a, *a]", "  resources: [{name: a, executor: open, with: {x: '${lists.range(10000).map(i, lists.range(10000))}'}}]",
		"  resources: [{name: a, executor: open, count: 9999999999}]", "  outputs: [{name: a, value: '${a'}]",
		"  resources: [{name: a, executor: open, with: {x: '${a[0].b[c.d].e}'}, needs: ['${[[1]]}', 'a[99999]']}]",
	} {
		f.Add(head+seed, inner)
	}
	f.Fuzz(func(t *testing.T, file, nested string) {
		tm, err := template.Parse(t.Context(), tree(map[string]string{"template.yaml": file, "parts/inner/template.yaml": nested}), "x", around)
		if err != nil {
			if tm != nil || strings.TrimSpace(err.Error()) == "" {
				t.Errorf("got %v and %q", tm, err)
			}
			return
		}
		if params, err := tm.Validate(nil); err == nil {
			if l, err := tm.Expand(t.Context(), template.Given{Params: params}); err == nil && len(l.Nodes) > 10_000 {
				t.Errorf("%d nodes", len(l.Nodes))
			}
		}
	})
}

// BenchmarkExpand lays out 5,000 resources, half of which refer to another.
func BenchmarkExpand(b *testing.B) {
	tm := must(b, `
  resources:
    - {name: db, executor: vault, count: 2500}
    - {name: web, executor: file, count: 2500, with: {path: 'w-${index}', content: 'at ${db[index].outputs.path} ${db[0].outputs.password}'}}`)
	for b.Loop() {
		l, err := tm.Expand(b.Context(), template.Given{})
		if err != nil || len(l.Nodes) != 5000 {
			b.Fatal(err)
		}
	}
}
