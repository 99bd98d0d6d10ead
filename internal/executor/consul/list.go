package consul

import (
	"context"
	"path"
	"slices"
	"strings"

	"github.com/hashicorp/consul/api"

	"github.com/droverhq/drover/internal/executor"
)

// told is how many strays are named.
const told = 1000

// List implements executor.Lister: keys in the folders of the resources' keys
// that none of them has, and that no other resource has marked. Services of other
// people are no strays: a catalog is there for many.
func (e *Executor) List(ctx context.Context, all []executor.Resource) (out []executor.Stray, err error) {
	type place struct {
		c      *client
		folder string
	}
	folders := map[place]string{} // → address
	expected := map[*client][]string{}
	for _, r := range all {
		if r.Input("service").Given {
			continue
		}
		c, err := e.pool.Get(r.Connection)
		if err != nil {
			return nil, err
		}
		k, err := newKeys(c, r)
		if err != nil {
			return nil, err
		}
		for key := range k.want {
			expected[c] = append(expected[c], key)
			// The top is everybody's.
			if folder := path.Dir(key); folder != "." {
				folders[place{c, folder + "/"}] = r.Address
			}
		}
	}
	for at, address := range folders {
		var pairs api.KVPairs
		err := at.c.do(ctx, func(q *api.QueryOptions) (err error) {
			pairs, _, err = at.c.api.KV().List(at.folder, q)
			return err
		})
		if err != nil {
			return nil, err
		}
		for _, p := range pairs {
			beside := !strings.Contains(strings.TrimPrefix(p.Key, at.folder), "/") && p.Key != at.folder
			if beside && p.Flags>>48 != 1 && !slices.Contains(expected[at.c], p.Key) {
				out = append(out, executor.Stray{Name: "kv/" + p.Key, Where: address})
			}
		}
	}
	slices.SortFunc(out, func(a, b executor.Stray) int { return strings.Compare(a.Name, b.Name) })
	return out[:min(len(out), told)], nil
}
