package httpapi

import (
	"cmp"
	"encoding/json"
	"net/http"
	"slices"

	"github.com/droverhq/drover/internal/access"
	"github.com/droverhq/drover/internal/cluster"
	"github.com/droverhq/drover/internal/fault"
	"github.com/droverhq/drover/internal/ledger"
	"github.com/droverhq/drover/internal/offering"
)

// ownClusterRoute returns the handlers of the clusters that tenants bring along.
func (s *server) ownClusterRoute(root string, rest []string) (string, verbs) {
	open := func(handle func(*http.Request, *compatPath) (int, any, error), admins bool) func(http.ResponseWriter, *http.Request, *compatPath) {
		return func(w http.ResponseWriter, r *http.Request, p *compatPath) {
			err := s.mayBringClusters(r, p.off, admins)
			var status int
			var out any
			if err == nil {
				status, out, err = handle(r, p)
			}
			switch {
			case err != nil:
				s.fail(w, r, err)
			case out == nil:
				w.WriteHeader(status)
			default:
				w.Header().Set("Cache-Control", "no-store")
				writeJSON(w, status, out)
			}
		}
	}
	switch {
	case len(rest) == 1:
		return root, verbs{"GET": open(s.ownList, false), "POST": open(s.ownRegister, true)}
	case len(rest) == 2 && rest[1] != "":
		return root + "/{id}", verbs{"GET": open(s.ownGet, false), "DELETE": open(s.ownDelete, true)}
	case len(rest) == 3 && rest[2] == "addon_parameters":
		return root + "/{id}/addon_parameters", verbs{"GET": open(s.ownParameters, true)}
	}
	return "", nil
}

// mayBringClusters lets in organisations that have quota for instances on
// clusters of their own; what changes something is for their admins.
func (s *server) mayBringClusters(r *http.Request, off *offering.Offering, admins bool) error {
	who := access.From(r.Context())
	if who.Org == "" {
		return fault.New(fault.Denied, "only an organisation can have clusters of its own")
	}
	may, err := s.Instances.MayBringClusters(r.Context(), off)
	if err != nil {
		return err
	}
	if !may {
		return fault.New(fault.Denied, "the organisation has no quota for %s on clusters of its own", off.Spec.Names.Plural)
	}
	if admins && !who.OrgAdmin {
		return fault.New(fault.Denied, "only an admin of the organisation may do that")
	}
	return nil
}

// The fields of own clusters that carry the offering's name.
func privateField(n offering.Names) string { return "access_" + n.Plural + "_via_private_network" }
func nodesField(n offering.Names) string   { return n.Singular + "_machine_pool_node_count" }
func unitsField(which string, n offering.Names) string {
	return which + "_" + n.Singular + "_streaming_units"
}

func (s *server) ownRegister(r *http.Request, p *compatPath) (int, any, error) {
	n := p.off.Spec.Names
	var id, domain *string
	var private *bool
	var nodes *int32
	err := readObject(r, func(field string, value json.RawMessage) error {
		switch field {
		case "cluster_id":
			return into(field, value, &id)
		case "cluster_ingress_dns_name":
			return into(field, value, &domain)
		case privateField(n):
			return into(field, value, &private)
		case nodesField(n):
			return into(field, value, &nodes)
		}
		return unknownField(field)
	})
	if err != nil {
		return 0, nil, err
	}
	if private == nil || nodes == nil {
		return 0, nil, fault.New(fault.Invalid, "%s and %s are needed", privateField(n), nodesField(n)).Because("field")
	}
	// Where such a cluster is, its tenant is not asked: the first region is as
	// good as any for what only that tenant places there.
	provider, region, err := p.off.Place("", "")
	if err != nil {
		return 0, nil, err
	}
	o, err := s.Clusters.RegisterOwn(r.Context(), cluster.Own{
		ID: deref(id), Domain: deref(domain), Offering: p.off.Metadata.Name,
		Provider: provider.Name, Region: region.Name, MultiAZ: true, Private: *private, Nodes: int64(*nodes),
	})
	if err != nil {
		return 0, nil, err
	}
	out, err := s.showOwn(r, p, o)
	if err == nil {
		out["fleetshard_parameters"], err = s.fleetshardParameters(r, p, o)
	}
	return http.StatusOK, out, err
}

func (s *server) ownList(r *http.Request, p *compatPath) (int, any, error) {
	found, err := s.Clusters.Owned(r.Context())
	if err != nil {
		return 0, nil, err
	}
	items := []map[string]any{}
	for _, o := range found {
		spec, _, err := cluster.Decode(o)
		if err != nil {
			return 0, nil, err
		}
		if spec.Offering != p.off.Metadata.Name {
			continue
		}
		one, err := s.showOwn(r, p, o)
		if err != nil {
			return 0, nil, err
		}
		items = append(items, one)
	}
	return http.StatusOK, page[map[string]any]{Kind: "ClusterList", Page: 1, Size: len(items), Total: len(items), Items: items}, nil
}

// own finds a cluster of the caller's organisation that is for this offering.
func (s *server) own(r *http.Request, p *compatPath) (ledger.Object, error) {
	missing := fault.New(fault.NotFound, "there is no cluster %.64q", p.rest[1])
	if !plainName(p.rest[1]) {
		return ledger.Object{}, missing
	}
	o, err := s.Clusters.OwnedByID(r.Context(), p.rest[1])
	if err != nil {
		return o, err
	}
	if spec, _, err := cluster.Decode(o); err != nil || spec.Offering != p.off.Metadata.Name {
		return o, cmp.Or[error](err, missing)
	}
	return o, nil
}

func (s *server) ownGet(r *http.Request, p *compatPath) (int, any, error) {
	o, err := s.own(r, p)
	if err != nil {
		return 0, nil, err
	}
	out, err := s.showOwn(r, p, o)
	return http.StatusOK, out, err
}

func (s *server) ownDelete(r *http.Request, p *compatPath) (int, any, error) {
	if err := wantsAsync(r); err != nil {
		return 0, nil, err
	}
	o, err := s.own(r, p)
	if err == nil {
		_, err = s.Clusters.DeleteOwn(r.Context(), o.ID)
	}
	return http.StatusAccepted, nil, err
}

func (s *server) ownParameters(r *http.Request, p *compatPath) (int, any, error) {
	o, err := s.own(r, p)
	if err != nil {
		return 0, nil, err
	}
	// Older clients expect the cluster itself here, newer ones the parameters alone.
	out, err := s.showOwn(r, p, o)
	if err != nil {
		return 0, nil, err
	}
	out["kind"], out["href"] = "ClusterAddonParameters", ownHref(p, o)+"/addon_parameters"
	out["fleetshard_parameters"], err = s.fleetshardParameters(r, p, o)
	return http.StatusOK, out, err
}

type fleetshardParameter struct {
	ID    string `json:"id"`
	Value string `json:"value"`
}

// fleetshardParameters are what the agent is to be installed with, its secret
// among them: only admins of the organisation come here.
func (s *server) fleetshardParameters(r *http.Request, p *compatPath, o ledger.Object) ([]fleetshardParameter, error) {
	client, secret, err := s.Clusters.Agent(r.Context(), o.ID)
	if err != nil {
		return nil, err
	}
	spec, _, err := cluster.Decode(o)
	if err != nil {
		return nil, err
	}
	around := offering.Surroundings{
		Cluster: offering.ClusterFacts{ID: o.ID, Domain: spec.Domain, Client: client, Private: spec.Private},
		Server:  offering.ServerFacts{URL: s.URL},
	}
	if s.SSO != nil {
		at := s.SSO()
		around.SSO = offering.SSOFacts{Issuer: at.Issuer, Token: at.TokenURL, JWKS: at.JWKSURL, Base: at.BaseURL, Realm: at.Realm}
	}
	values, err := p.off.AgentParameters(r.Context(), around)
	if err != nil {
		return nil, err
	}
	out := []fleetshardParameter{}
	for name, value := range values {
		value, err := offering.FillSecret(value, func(string) (string, error) { return secret, nil })
		if err != nil {
			return nil, err
		}
		out = append(out, fleetshardParameter{name, value})
	}
	slices.SortFunc(out, func(a, b fleetshardParameter) int { return cmp.Compare(a.ID, b.ID) })
	return out, nil
}

func ownHref(p *compatPath, o ledger.Object) string {
	return offeringBase(p.off.Spec) + "/clusters/" + o.ID
}

func (s *server) showOwn(r *http.Request, p *compatPath, o ledger.Object) (map[string]any, error) {
	spec, _, err := cluster.Decode(o)
	if err != nil {
		return nil, err
	}
	room, err := s.Clusters.Room(r.Context(), o)
	if err != nil {
		return nil, err
	}
	n := p.off.Spec.Names
	status := o.Phase
	if status == cluster.Waiting && p.off.Spec.Agent.Waiting != "" {
		status = p.off.Spec.Agent.Waiting
	}
	return map[string]any{
		"id": o.ID, "kind": "Cluster", "href": ownHref(p, o), "cluster_id": o.ID, "status": status,
		"cloud_provider": spec.Provider, "region": spec.Region, "multi_az": spec.MultiAZ != nil && *spec.MultiAZ,
		privateField(n):            spec.Private,
		"supported_instance_types": map[string]any{"instance_types": describeTypes(p.off, ownTypes(p.off.Spec))},
		"capacity_information": map[string]any{
			nodesField(n): room.Nodes, unitsField("maximum", n): room.Max,
			unitsField("remaining", n): room.Remaining, unitsField("consumed", n): room.Consumed,
		},
	}, nil
}

// ownTypes tells which types can be had on own clusters.
func ownTypes(spec offering.Spec) func(string) bool {
	return func(name string) bool {
		for _, t := range spec.Types {
			if t.Name != name {
				continue
			}
			return slices.ContainsFunc(spec.Billing, func(b offering.BillingModel) bool {
				return b.OwnCluster && (len(t.Billing) == 0 || slices.Contains(t.Billing, b.Name))
			})
		}
		return false
	}
}
