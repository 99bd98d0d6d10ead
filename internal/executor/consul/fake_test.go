package consul_test

import (
	"encoding/json"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/hashicorp/consul/api"
)

// fake is as much of Consul as the executor needs, in memory.
type fake struct {
	mu       sync.Mutex
	index    uint64
	moved    chan struct{} // closed with each change
	kv       map[string]*api.KVPair
	nodes    map[string]*api.Node
	services map[[2]string]*api.AgentService // by node and id
	checks   map[[2]string]*api.HealthCheck
	refuse   func(r *http.Request) (status int, body string)
}

func newFake() *fake {
	return &fake{
		index: 1, moved: make(chan struct{}), kv: map[string]*api.KVPair{}, nodes: map[string]*api.Node{},
		services: map[[2]string]*api.AgentService{}, checks: map[[2]string]*api.HealthCheck{},
	}
}

func (f *fake) touch() uint64 {
	f.index++
	close(f.moved)
	f.moved = make(chan struct{})
	return f.index
}

func (f *fake) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.refuse != nil {
		if status, body := f.refuse(r); status != 0 {
			http.Error(w, body, status)
			return
		}
	}
	if at, _ := strconv.ParseUint(r.URL.Query().Get("index"), 10, 64); at > 0 {
		limit := time.After(time.Minute)
		for at >= f.index {
			moved := f.moved
			f.mu.Unlock()
			select {
			case <-moved:
			case <-limit:
			case <-r.Context().Done():
				f.mu.Lock()
				return
			}
			f.mu.Lock()
		}
	}
	w.Header().Set("X-Consul-Index", strconv.FormatUint(f.index, 10))
	body, status := f.answer(r)
	w.WriteHeader(status)
	_ = json.NewEncoder(w).Encode(body)
}

func (f *fake) answer(r *http.Request) (any, int) {
	last := r.URL.Path[strings.LastIndex(r.URL.Path, "/")+1:]
	switch path := r.URL.Path; {
	case path == "/v1/txn":
		var ops api.TxnOps
		if err := json.NewDecoder(r.Body).Decode(&ops); err != nil {
			return err.Error(), http.StatusBadRequest
		}
		return f.txn(ops)
	case strings.HasPrefix(path, "/v1/kv/"):
		return f.keys(r, strings.TrimPrefix(path, "/v1/kv/"))
	case path == "/v1/catalog/nodes":
		out := []*api.Node{}
		for _, n := range f.nodes {
			out = append(out, n)
		}
		return out, http.StatusOK
	case path == "/v1/catalog/services":
		return map[string][]string{}, http.StatusOK
	case path == "/v1/catalog/register":
		var in api.CatalogRegistration
		_ = json.NewDecoder(r.Body).Decode(&in)
		if f.nodes[in.Node] == nil {
			f.nodes[in.Node] = &api.Node{Node: in.Node, Address: in.Address, ModifyIndex: f.touch()}
		}
		if in.Service != nil {
			in.Service.ModifyIndex = f.touch()
			f.services[[2]string{in.Node, in.Service.ID}] = in.Service
		}
		return true, http.StatusOK
	case path == "/v1/catalog/deregister":
		var in api.CatalogDeregistration
		_ = json.NewDecoder(r.Body).Decode(&in)
		f.touch()
		f.forget(in.Node, in.ServiceID)
		return true, http.StatusOK
	case strings.HasPrefix(path, "/v1/catalog/node-services/"):
		out := api.CatalogNodeServiceList{Node: f.nodes[last]}
		for at, s := range f.services {
			if at[0] == last {
				out.Services = append(out.Services, s)
			}
		}
		return out, http.StatusOK
	case strings.HasPrefix(path, "/v1/health/node/"):
		out := api.HealthChecks{}
		for at, c := range f.checks {
			if at[0] == last {
				out = append(out, c)
			}
		}
		return out, http.StatusOK
	}
	return "no such path", http.StatusNotFound
}

func (f *fake) forget(node, service string) {
	if service == "" {
		delete(f.nodes, node)
	}
	for at := range f.services {
		if at[0] == node && (service == "" || at[1] == service) {
			delete(f.services, at)
		}
	}
	for at, c := range f.checks {
		if at[0] == node && (service == "" || c.ServiceID == service) {
			delete(f.checks, at)
		}
	}
}

func (f *fake) keys(r *http.Request, key string) (any, int) {
	switch r.Method {
	case http.MethodPut:
		data := make([]byte, 0, 64)
		buf := make([]byte, 1024)
		for {
			n, err := r.Body.Read(buf)
			data = append(data, buf[:n]...)
			if err != nil {
				break
			}
		}
		f.put(&api.KVPair{Key: key, Value: data})
		return true, http.StatusOK
	case http.MethodDelete:
		delete(f.kv, key)
		f.touch()
		return true, http.StatusOK
	}
	out := api.KVPairs{}
	for k, p := range f.kv {
		if strings.HasPrefix(k, key) {
			out = append(out, p)
		}
	}
	if len(out) == 0 {
		return nil, http.StatusNotFound
	}
	slices.SortFunc(out, func(a, b *api.KVPair) int { return strings.Compare(a.Key, b.Key) })
	return out, http.StatusOK
}

func (f *fake) put(p *api.KVPair) {
	at := f.touch()
	p.CreateIndex, p.ModifyIndex = at, at
	if old := f.kv[p.Key]; old != nil {
		p.CreateIndex = old.CreateIndex
	}
	f.kv[p.Key] = p
}

// txn checks all conditions before it does anything.
func (f *fake) txn(ops api.TxnOps) (any, int) {
	resp := api.TxnResponse{}
	bad := func(i int, is, want uint64) {
		if is != want {
			resp.Errors = append(resp.Errors, &api.TxnError{OpIndex: i, What: "index is stale"})
		}
	}
	for i, op := range ops {
		switch {
		case op.KV != nil && (op.KV.Verb == api.KVCAS || op.KV.Verb == api.KVDeleteCAS):
			var is uint64
			if p := f.kv[op.KV.Key]; p != nil {
				is = p.ModifyIndex
			}
			bad(i, is, op.KV.Index)
		case op.Service != nil && op.Service.Verb == api.ServiceGet:
			if f.services[[2]string{op.Service.Node, op.Service.Service.ID}] == nil {
				bad(i, 0, 1)
			}
		case op.Service != nil:
			var is uint64
			if s := f.services[[2]string{op.Service.Node, op.Service.Service.ID}]; s != nil {
				is = s.ModifyIndex
			}
			bad(i, is, op.Service.Service.ModifyIndex)
		case op.Node != nil:
			var is uint64
			if n := f.nodes[op.Node.Node.Node]; n != nil {
				is = n.ModifyIndex
			}
			bad(i, is, op.Node.Node.ModifyIndex)
		}
	}
	if len(resp.Errors) > 0 {
		return resp, http.StatusConflict
	}
	for _, op := range ops {
		switch {
		case op.KV != nil:
			switch op.KV.Verb {
			case api.KVGetOrEmpty:
				p := f.kv[op.KV.Key]
				if p == nil {
					p = &api.KVPair{Key: op.KV.Key}
				}
				resp.Results = append(resp.Results, &api.TxnResult{KV: p})
			case api.KVCAS:
				f.put(&api.KVPair{Key: op.KV.Key, Value: op.KV.Value, Flags: op.KV.Flags})
			case api.KVDeleteCAS:
				delete(f.kv, op.KV.Key)
				f.touch()
			}
		case op.Service != nil && op.Service.Verb == api.ServiceGet:
			resp.Results = append(resp.Results, &api.TxnResult{Service: f.services[[2]string{op.Service.Node, op.Service.Service.ID}]})
		case op.Service != nil && op.Service.Verb == api.ServiceCAS:
			s := op.Service.Service
			s.ModifyIndex = f.touch()
			f.services[[2]string{op.Service.Node, s.ID}] = &s
		case op.Service != nil:
			f.touch()
			f.forget(op.Service.Node, op.Service.Service.ID)
		case op.Node != nil && op.Node.Verb == api.NodeCAS:
			n := op.Node.Node
			n.ModifyIndex = f.touch()
			f.nodes[n.Node] = &n
		case op.Node != nil:
			f.touch()
			f.forget(op.Node.Node.Node, "")
		case op.Check != nil && op.Check.Verb == api.CheckSet:
			c := op.Check.Check
			c.ModifyIndex = f.touch()
			f.checks[[2]string{c.Node, c.CheckID}] = &c
		case op.Check != nil:
			delete(f.checks, [2]string{op.Check.Check.Node, op.Check.Check.CheckID})
			f.touch()
		}
	}
	return resp, http.StatusOK
}
