package consul

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"net"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/hashicorp/consul/api"

	"github.com/droverhq/drover/internal/executor"
	"github.com/droverhq/drover/internal/fault"
)

// owner is the name under which a service's meta, and a node's, says whose it is.
const owner = "drover-resource"

// service is one entry of the catalog. No agent runs beside it.
type service struct {
	c        *client
	r        executor.Resource
	node, id string // empty: not known
	checks   []check
	have     map[string]*registered // by place
}

type check struct {
	name, http, tcp, status string
	interval                time.Duration
}

// registered is what the catalog has at a place.
type registered struct {
	node    *api.Node // nil: there is none
	service *api.AgentService
	checks  api.HealthChecks // of the service
	shared  bool             // the node has other services or checks
}

func newService(c *client, r executor.Resource) (*service, error) {
	s := &service{c: c, r: r}
	name, id, node := r.Input("service"), r.Input("id"), r.Input("node")
	for _, field := range []string{"service", "id", "node", "address", "port", "tags", "meta", "checks"} {
		if err := r.Input(field).Open(); err != nil {
			return nil, err
		}
	}
	if name.Known && id.Known {
		s.id = cmp.Or(id.Text(), name.Text())
	}
	if node.Known {
		s.node = cmp.Or(node.Text(), "drover-"+short(r.ID))
	}
	list, _ := r.Input("checks").Value.([]any)
	for _, v := range list {
		m, _ := v.(map[string]any)
		text := func(name string) string { s, _ := m[name].(string); return s }
		c := check{name: text("name"), http: text("http"), tcp: text("tcp"), status: cmp.Or(text("status"), api.HealthPassing)}
		every, err := time.ParseDuration(cmp.Or(text("interval"), "10s"))
		if err != nil || c.name == "" {
			return nil, fault.New(fault.Invalid, "check %q has an interval of %q; write it as 10s", c.name, text("interval"))
		}
		c.interval = every
		s.checks = append(s.checks, c)
	}
	return s, nil
}

func (s *service) known() bool { return s.id != "" && s.node != "" }

func (s *service) place() string { return s.node + "/" + s.id }

// places are those that the resource has or may have.
func (s *service) places() []string {
	names := s.r.Memory().Names
	if s.known() && !slices.Contains(names, s.place()) {
		names = append(names, s.place())
	}
	slices.Sort(names)
	return names
}

// read fills what is there and ours.
func (s *service) read(ctx context.Context) (foreign string, err error) {
	s.have = map[string]*registered{}
	for _, place := range s.places() {
		node, id, _ := strings.Cut(place, "/")
		reg := &registered{}
		var list *api.CatalogNodeServiceList
		var checks api.HealthChecks
		filtered := false
		err := s.c.do(ctx, func(q *api.QueryOptions) error {
			var meta *api.QueryMeta
			var err error
			if list, meta, err = s.c.api.Catalog().NodeServiceList(node, q); err != nil {
				return err
			}
			filtered = meta.ResultsFilteredByACLs
			checks, meta, err = s.c.api.Health().Node(node, q)
			filtered = filtered || meta != nil && meta.ResultsFilteredByACLs
			return err
		})
		if err != nil {
			return "", err
		}
		if filtered {
			// What may not be read is left out, which is not to be taken for gone.
			return "", s.hidden(node)
		}
		if list != nil {
			reg.node = list.Node
			for _, svc := range list.Services {
				if svc.ID == id {
					reg.service = svc
				} else {
					reg.shared = true
				}
			}
		}
		for _, c := range checks {
			if c.ServiceID == id {
				reg.checks = append(reg.checks, c)
			} else {
				reg.shared = true
			}
		}
		if reg.service == nil {
			if err := s.absent(ctx, node, id); err != nil {
				return "", err
			}
		}
		made := s.r.Outputs["node"] == node && s.r.Outputs["id"] == id
		switch svc := reg.service; {
		case svc == nil || svc.Meta[owner] == s.r.ID || svc.Meta[owner] == "" && made:
			s.have[place] = reg
		case s.known() && place == s.place():
			foreign = place
		}
	}
	return foreign, nil
}

// absent makes sure that a service is not there: in lists Consul leaves out what
// may not be read, and does not tell that to one without a token.
func (s *service) absent(ctx context.Context, node, id string) error {
	found, err := s.c.txn(ctx, api.TxnOps{{Service: &api.ServiceTxnOp{Verb: api.ServiceGet, Node: node, Service: api.AgentService{ID: id}}}})
	switch {
	case errors.Is(err, errStale):
		return nil // there is none to get
	case err != nil:
		return err
	case len(found) == 0:
		return s.hidden(node)
	}
	return fault.New(fault.Unavailable, "the service %s/%s changes while it is read; it is tried again", node, id).Because("busy")
}

func (s *service) hidden(node string) error {
	return fault.New(fault.Denied, "%s does not let the connection's token read node %s and its services; give its policy node_prefix and service_prefix rights, then retry", s.c.name, node).Because("denied")
}

// wanted is the service as it is to be registered.
func (s *service) wanted() *api.AgentService {
	port, _ := strconv.Atoi(fmt.Sprint(s.r.Input("port").Value))
	svc := &api.AgentService{
		ID: s.id, Service: s.r.Input("service").Text(), Address: s.r.Input("address").Text(), Port: port,
		Tags: texts(s.r.Input("tags").Value), Meta: map[string]string{owner: s.r.ID},
	}
	given, _ := s.r.Input("meta").Value.(map[string]any)
	for k, v := range given {
		if k != owner {
			svc.Meta[k] = fmt.Sprint(v)
		}
	}
	return svc
}

// Look implements executor.Thing.
func (s *service) Look(ctx context.Context) (executor.View, error) {
	foreign, err := s.read(ctx)
	if err != nil {
		return executor.View{}, err
	}
	if foreign != "" {
		return executor.View{}, executor.NotOurs("the service " + foreign)
	}
	v := executor.View{Name: "service " + s.r.Input("service").Text(), Outputs: s.Outputs()}
	if s.known() {
		v.Takes = []string{"the service " + s.place()}
	}
	seen := []any{"service"}
	for _, place := range s.places() {
		reg := s.have[place]
		if reg == nil || reg.service == nil {
			continue
		}
		seen = append(seen, place, reg.service.ModifyIndex, describe(reg.checks))
		if !s.known() || place != s.place() {
			f := executor.Field{Path: "id", Before: place, After: executor.Unknown{}, Forces: true}
			if s.known() {
				f.After = s.place()
			}
			v.Left = append(v.Left, f)
			continue
		}
		v.There = true
		for _, c := range reg.checks {
			if c.Status == api.HealthCritical {
				v.Unready = fmt.Sprintf("check %q of service %s is critical", c.Name, reg.service.Service)
			}
		}
	}
	v.Mark = executor.Mark(seen...)
	v.Fields = s.differs(v.There)
	return v, nil
}

// differs tells how the service is not as it is wanted; of one that is not there,
// all that was given.
func (s *service) differs(there bool) (fields []executor.Field) {
	want, is := s.wanted(), &api.AgentService{}
	var checks string
	if there {
		reg := s.have[s.place()]
		is, checks = reg.service, describe(reg.checks)
	}
	strip := func(meta map[string]string) map[string]string {
		meta = maps.Clone(meta)
		delete(meta, owner)
		return meta
	}
	for _, f := range []struct {
		name     string
		is, want any
		same     bool
	}{
		{"service", is.Service, want.Service, is.Service == want.Service},
		{"address", is.Address, want.Address, is.Address == want.Address},
		{"port", is.Port, want.Port, is.Port == want.Port},
		{"tags", is.Tags, want.Tags, slices.Equal(is.Tags, want.Tags)},
		{"meta", strip(is.Meta), strip(want.Meta), maps.Equal(strip(is.Meta), strip(want.Meta))},
		{"checks", checks, s.describe(), checks == s.describe()},
	} {
		in := s.r.Input(f.name)
		out := executor.Field{Path: f.name, Before: f.is, After: f.want}
		if !there {
			out.Before = nil
		}
		if !in.Known {
			out.After = executor.Unknown{}
		}
		if !f.same || !in.Known || !there && in.Given {
			fields = append(fields, out)
		}
	}
	return fields
}

// describe writes checks so that they can be compared, whatever their health.
func describe(checks api.HealthChecks) string {
	var out []string
	for _, c := range checks {
		d := c.Definition
		out = append(out, strings.TrimSpace(fmt.Sprintf("%s: %s%s every %s", c.Name, d.HTTP, d.TCP, cmp.Or(d.IntervalDuration, time.Duration(d.Interval)))))
	}
	slices.Sort(out)
	return strings.Join(out, ", ")
}

func (s *service) describe() string { return describe(s.healthChecks()) }

func (s *service) healthChecks() (out api.HealthChecks) {
	for _, c := range s.checks {
		out = append(out, &api.HealthCheck{
			Node: s.node, CheckID: s.id + ":" + c.name, Name: c.name, Status: c.status, ServiceID: s.id, ServiceName: s.r.Input("service").Text(),
			Definition: api.HealthCheckDefinition{HTTP: c.http, TCP: c.tcp, IntervalDuration: c.interval, Interval: api.ReadableDuration(c.interval)},
		})
	}
	return out
}

// Make implements executor.Thing.
func (s *service) Make(ctx context.Context) error {
	if err := s.r.Remember(ctx, s.places(), nil); err != nil {
		return err
	}
	reg := s.have[s.place()]
	want := s.wanted()
	var ops api.TxnOps
	if reg.node == nil {
		ops = append(ops, &api.TxnOp{Node: &api.NodeTxnOp{Verb: api.NodeCAS, Node: api.Node{
			Node: s.node, Address: want.Address, Meta: map[string]string{owner: s.r.ID, "external-node": "true", "external-probe": "true"},
		}}})
	}
	if reg.service != nil {
		want.ModifyIndex = reg.service.ModifyIndex
	}
	ops = append(ops, &api.TxnOp{Service: &api.ServiceTxnOp{Verb: api.ServiceCAS, Node: s.node, Service: *want}})
	keep := map[string]bool{}
	for _, c := range s.healthChecks() {
		keep[c.CheckID] = true
		for _, is := range reg.checks {
			if is.CheckID == c.CheckID {
				c.Status, c.Output = is.Status, is.Output // whoever runs it knows better
			}
		}
		ops = append(ops, &api.TxnOp{Check: &api.CheckTxnOp{Verb: api.CheckSet, Check: *c}})
	}
	for _, c := range reg.checks {
		if !keep[c.CheckID] {
			ops = append(ops, &api.TxnOp{Check: &api.CheckTxnOp{Verb: api.CheckDelete, Check: api.HealthCheck{Node: s.node, CheckID: c.CheckID, ServiceID: s.id, ServiceName: c.ServiceName}}})
		}
	}
	_, err := s.c.txn(ctx, ops)
	if !errors.Is(err, errStale) {
		return err
	}
	// The answer to a first attempt may have been lost.
	foreign, err := s.read(ctx)
	switch {
	case err != nil:
		return err
	case foreign != "":
		return executor.NotOurs("the service " + foreign)
	case s.have[s.place()].service == nil || len(s.differs(true)) > 0:
		return stale(s.r, "the service "+s.place())
	}
	return nil
}

// Finish implements executor.Thing.
func (s *service) Finish(ctx context.Context) error {
	for place, reg := range s.have {
		if place != s.place() {
			if err := s.drop(ctx, place, reg); err != nil {
				return err
			}
		}
	}
	return s.r.Remember(ctx, []string{s.place()}, nil)
}

// drop takes a service away, with its checks, and with its node if that was made
// for it and has nothing else.
func (s *service) drop(ctx context.Context, place string, reg *registered) error {
	node, id, _ := strings.Cut(place, "/")
	var ops api.TxnOps
	for _, c := range reg.checks {
		ops = append(ops, &api.TxnOp{Check: &api.CheckTxnOp{Verb: api.CheckDelete, Check: api.HealthCheck{Node: node, CheckID: c.CheckID, ServiceID: id, ServiceName: c.ServiceName}}})
	}
	if reg.service != nil {
		ops = append(ops, &api.TxnOp{Service: &api.ServiceTxnOp{Verb: api.ServiceDeleteCAS, Node: node, Service: api.AgentService{ID: id, Service: reg.service.Service, ModifyIndex: reg.service.ModifyIndex}}})
	}
	if reg.node != nil && reg.node.Meta[owner] == s.r.ID && !reg.shared {
		ops = append(ops, &api.TxnOp{Node: &api.NodeTxnOp{Verb: api.NodeDeleteCAS, Node: api.Node{Node: node, ModifyIndex: reg.node.ModifyIndex}}})
	}
	if len(ops) == 0 {
		return nil
	}
	_, err := s.c.txn(ctx, ops)
	if errors.Is(err, errStale) {
		return fault.New(fault.Unavailable, "the service %s changes while it is being removed; it is tried again", place).Because("busy")
	}
	return err
}

// Remove implements executor.Thing.
func (s *service) Remove(ctx context.Context) error {
	if _, err := s.read(ctx); err != nil {
		return err
	}
	for _, place := range slices.Sorted(maps.Keys(s.have)) {
		if err := s.drop(ctx, place, s.have[place]); err != nil {
			return err
		}
	}
	return nil
}

// Outputs implements executor.Thing.
func (s *service) Outputs() map[string]any {
	out := map[string]any{"service": s.r.Input("service").Show(), "id": any(executor.Unknown{}), "node": any(executor.Unknown{}), "address": any(executor.Unknown{})}
	if s.known() {
		out["id"], out["node"] = s.id, s.node
	}
	if s.r.Input("address").Known && s.r.Input("port").Known {
		out["address"] = net.JoinHostPort(s.r.Input("address").Text(), fmt.Sprint(s.r.Input("port").Value))
	}
	return out
}
