package environment

import (
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/json"
	"sync"

	"github.com/droverhq/drover/internal/fault"
	"github.com/droverhq/drover/internal/ledger"
	"github.com/droverhq/drover/internal/template"
)

// MaxResources is how many resources an environment may have: each lists those it
// needs and those that need it, and fits an object.
const MaxResources = 6000

// sheet is a layout of one environment with the ids of its resources.
type sheet struct {
	Blueprint
	Layout
	about  About
	nodes  []template.Node
	index  map[string]int // by address
	ids    []string       // as nodes
	byID   map[string]int
	needed [][]string // as nodes: ids of those that need it
	depth  []int      // as nodes: how many stand before it
}

func (s *sheet) id(address string) string { return s.ids[s.index[address]] }

// needs are the ids of what a node needs.
func (s *sheet) needs(n template.Node) []string {
	var out []string
	for _, address := range n.Needs {
		out = append(out, s.id(address))
	}
	return out
}

// atOnce is how many of its resources are worked on at a time.
func (s *sheet) atOnce() int { return cmp.Or(s.about.Spec.AtOnce, 10) }

// connection that a node works through.
func connection(n template.Node) string { return cmp.Or(n.Connection, "default") }

// layouts keeps the sheets that were used last: each resource of an environment
// needs the whole of it.
type layouts struct {
	mu    sync.Mutex
	of    map[[32]byte]*sheet
	order [][32]byte
}

const maxSheets = 64

// sheet lays a template out for an environment.
func (s *Service) sheet(ctx context.Context, version string, parameters map[string]any, of Facts) (*sheet, error) {
	raw, err := json.Marshal([]any{version, parameters, of})
	if err != nil {
		return nil, fault.New(fault.Invalid, "the parameters cannot be read: %w", err)
	}
	key := sha256.Sum256(raw)
	s.layouts.mu.Lock()
	known := s.layouts.of[key]
	s.layouts.mu.Unlock()
	if known != nil {
		return known, nil
	}
	b, err := s.Templates.Blueprint(ctx, version)
	if err != nil {
		return nil, err
	}
	l, err := b.Expand(ctx, template.Given{Params: parameters, Env: of})
	if err != nil {
		return nil, err
	}
	out, err := newSheet(b, l, of.ID)
	if err != nil {
		return nil, err
	}
	s.layouts.mu.Lock()
	defer s.layouts.mu.Unlock()
	if s.layouts.of == nil {
		s.layouts.of = map[[32]byte]*sheet{}
	}
	if len(s.layouts.order) == maxSheets {
		delete(s.layouts.of, s.layouts.order[0])
		s.layouts.order = s.layouts.order[1:]
	}
	s.layouts.of[key], s.layouts.order = out, append(s.layouts.order, key)
	return out, nil
}

func newSheet(b Blueprint, l Layout, environment string) (*sheet, error) {
	nodes := l.Nodes()
	if len(nodes) > MaxResources {
		return nil, fault.New(fault.Invalid, "the template makes %d resources: an environment has at most %d", len(nodes), MaxResources).Because("too-large")
	}
	s := &sheet{Blueprint: b, Layout: l, about: b.About(), nodes: nodes, index: make(map[string]int, len(nodes)),
		ids: make([]string, len(nodes)), byID: make(map[string]int, len(nodes)), needed: make([][]string, len(nodes)), depth: make([]int, len(nodes))}
	for i, n := range nodes {
		s.index[n.Address], s.ids[i] = i, ResourceID(environment, n.Address, n.Executor, connection(n))
		s.byID[s.ids[i]] = i
	}
	for i, n := range nodes {
		for _, address := range n.Needs {
			j, ok := s.index[address]
			if !ok || j >= i {
				return nil, fault.New(fault.Internal, "%s needs %s, which does not stand before it", n.Address, address)
			}
			s.needed[j] = append(s.needed[j], s.ids[i])
			s.depth[i] = max(s.depth[i], s.depth[j]+1)
		}
	}
	return s, nil
}

// facts of an environment for its template.
func (e *Environment) facts() Facts {
	told := e.Spec.Told
	if told == nil { // no plan was taken up yet
		told = &Told{Description: e.Spec.Description, Tags: e.Spec.Tags}
	}
	return Facts{Name: e.Name, ID: e.ID, Org: e.Org, Owner: e.Owner, Description: told.Description, Tags: told.Tags}
}

func (p *Plan) facts() Facts {
	return Facts{Name: p.Spec.Environment, ID: p.Spec.ID, Org: p.Org, Owner: p.Owner, Description: p.Spec.Description, Tags: p.Spec.Tags}
}

// page is how many objects are read at a time.
const page = 1000

// resources lists those of an environment, by id; gone ones too where it says so.
func (s *Service) resources(ctx context.Context, environment string, gone bool) ([]Resource, error) {
	var out []Resource
	for after := ""; ; {
		found, err := s.Store.List(ctx, ledger.Query{Kind: KindResource.Name, Scope: map[string]any{"parent": environment},
			AfterID: after, Limit: page, Deleted: gone})
		if err != nil {
			return nil, err
		}
		for _, o := range found {
			r, err := DecodeResource(o)
			if err != nil {
				return nil, err
			}
			out = append(out, r)
		}
		if len(found) < page {
			return out, nil
		}
		after = found[len(found)-1].ID
	}
}
