package template_test

import (
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/droverhq/drover/internal/executor"
	"github.com/droverhq/drover/internal/expr"
	"github.com/droverhq/drover/internal/template"
)

const shop = `
  parameters:
    properties:
      size: {enum: [small, large], type: string, default: small}
      cache: {type: boolean, default: false}
  resources:
    - name: db
      executor: vault
      tags: [data]
    - name: cache
      executor: file
      when: params.cache
      with: {path: cache}
    - name: web
      executor: file
      count: '${params.size == "small" ? 1 : 3}'
      with:
        path: web-${index}
        content: 'db=${db.outputs.password} cache=${has(cache.outputs) ? cache.outputs.path : "none"}'
    - name: index_page
      executor: file
      with:
        path: ${env.name}/index
        content: '${web.map(w, w.outputs.path).join(",")}'
  groups:
    - name: front
      resources:
        - name: api
          executor: file
          count: 2
          needs: [db]
          with: {path: 'api-${web[0].outputs.path}-${index}'}
  outputs:
    - {name: url, value: 'http://${env.name}/${front.api[1].outputs.path}', entry: true}
    - {name: password, value: '${db.outputs.password}'}
`

func known(values map[string]map[string]any) template.Lookup {
	return func(address string) (template.Known, bool) {
		v, ok := values[address]
		return template.Known{Outputs: v}, ok
	}
}

func TestLayout(t *testing.T) {
	tm := must(t, shop)
	l := expand(t, tm, nil)
	if got, want := addresses(l), "db web[0] index_page front.api[0] front.api[1]"; got != want {
		t.Errorf("got %s, want %s", got, want)
	}
	l = expand(t, tm, map[string]any{"size": "large", "cache": true})
	if got, want := addresses(l), "db cache web[0] web[1] web[2] index_page front.api[0] front.api[1]"; got != want {
		t.Errorf("got %s, want %s", got, want)
	}
	for address, want := range map[string][]string{
		"web[1]": {"cache", "db"}, "index_page": {"web[0]", "web[1]", "web[2]"}, "front.api[1]": {"db", "web[0]"},
	} {
		n, _ := l.Node(address)
		if diff := cmp.Diff(want, n.Needs); diff != "" {
			t.Errorf("%s: %s", address, diff)
		}
	}
}

func TestInputs(t *testing.T) {
	l := expand(t, must(t, shop), nil)
	got, err := l.Inputs(t.Context(), "web[0]", known(nil))
	if diff := cmp.Diff(map[string]any{"path": "web-0", "content": expr.Unknown{}}, got); diff != "" || err != nil {
		t.Errorf("nothing is known yet: %v %s", err, diff)
	}
	got, err = l.Inputs(t.Context(), "web[0]", known(map[string]map[string]any{"db": {"path": "p", "password": "pw"}}))
	if err != nil {
		t.Fatal(err)
	}
	if _, secret := got["content"].(executor.Secret); !secret || executor.Reveal(got["content"]) != "db=pw cache=none" {
		t.Errorf("the content is %v", got["content"])
	}
	if got["path"] != "web-0" {
		t.Errorf("the path is %v", got["path"])
	}
}
