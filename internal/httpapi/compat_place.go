package httpapi

import (
	"context"
	"maps"
	"net/http"
	"slices"
	"sync"
	"time"

	"github.com/droverhq/drover/internal/cluster"
	"github.com/droverhq/drover/internal/instance"
	"github.com/droverhq/drover/internal/offering"
)

type cloudProvider struct {
	Kind        string `json:"kind"`
	ID          string `json:"id"`
	DisplayName string `json:"display_name,omitempty"`
	Name        string `json:"name"`
	Enabled     bool   `json:"enabled"`
}

// cloudRegion has the one list or the other: fleet managers that describe their
// instance types say which sizes can be had at the moment, the others say which
// types there are.
type cloudRegion struct {
	Kind        string            `json:"kind"`
	ID          string            `json:"id"`
	DisplayName string            `json:"display_name,omitempty"`
	Enabled     bool              `json:"enabled"`
	Types       *[]string         `json:"supported_instance_types,omitempty"`
	Capacity    *[]regionCapacity `json:"capacity,omitempty"`
}

type regionCapacity struct {
	Type  string   `json:"instance_type"`
	Sizes []string `json:"available_sizes"`
}

func (s *server) compatProviders(w http.ResponseWriter, r *http.Request, p *compatPath) {
	var all []cloudProvider
	for _, pr := range p.off.Spec.Providers {
		open := slices.ContainsFunc(pr.Regions, func(rg offering.Region) bool { return !rg.Disabled })
		all = append(all, cloudProvider{
			Kind: "CloudProvider", ID: pr.Name, DisplayName: pr.DisplayName, Name: pr.Name, Enabled: open,
		})
	}
	out, err := paged(r, "CloudProviderList", all)
	if err != nil {
		s.fail(w, r, err)
		return
	}
	writeJSON(w, http.StatusOK, out)
}

func (s *server) compatRegions(w http.ResponseWriter, r *http.Request, p *compatPath) {
	wanted := r.URL.Query().Get("instance_type")
	all := []cloudRegion{}
	for _, pr := range p.off.Spec.Providers {
		if pr.Name != p.rest[1] {
			continue
		}
		for _, rg := range pr.Regions {
			types := sold(p.off.Spec, rg)
			if wanted != "" && !slices.Contains(types, wanted) {
				continue
			}
			region := cloudRegion{Kind: "CloudRegion", ID: rg.Name, DisplayName: rg.DisplayName, Enabled: !rg.Disabled}
			if !serves(p.off.Spec, "instance_types") {
				region.Types = &types
			} else {
				capacity, err := s.capacity(r.Context(), p.off, pr.Name, rg)
				if err != nil {
					s.fail(w, r, err)
					return
				}
				region.Capacity = &capacity
			}
			all = append(all, region)
		}
	}
	out, err := paged(r, "CloudRegionList", all)
	if err != nil {
		s.fail(w, r, err)
		return
	}
	writeJSON(w, http.StatusOK, out)
}

// sold are the types that a region sells, in the order of the file.
func sold(spec offering.Spec, rg offering.Region) []string {
	types := []string{}
	for _, t := range spec.Types {
		if rg.Sells(t.Name) {
			types = append(types, t.Name)
		}
	}
	return types
}

// compatStatus tells whether any more fits anywhere.
func (s *server) compatStatus(w http.ResponseWriter, r *http.Request, p *compatPath) {
	full := true
	for _, pr := range p.off.Spec.Providers {
		for _, rg := range pr.Regions {
			capacity, err := s.capacity(r.Context(), p.off, pr.Name, rg)
			if err != nil {
				s.fail(w, r, err)
				return
			}
			if slices.ContainsFunc(capacity, func(c regionCapacity) bool { return len(c.Sizes) > 0 }) {
				full = false
			}
		}
	}
	writeJSON(w, http.StatusOK, map[string]any{p.off.Spec.Names.Plural: map[string]bool{"max_capacity_reached": full}})
}

// capacity tells which sizes a region could take at this moment.
func (s *server) capacity(ctx context.Context, off *offering.Offering, provider string, rg offering.Region) ([]regionCapacity, error) {
	out := []regionCapacity{}
	var free map[string]int64
	if !rg.Disabled {
		var err error
		if free, err = s.rooms.look(ctx, s, off, provider, rg); err != nil {
			return nil, err
		}
	}
	for _, t := range off.Spec.Types {
		if !rg.Sells(t.Name) {
			continue
		}
		c := regionCapacity{Type: t.Name, Sizes: []string{}}
		for _, size := range t.Sizes {
			if room, ok := free[t.Name]; ok && size.Capacity <= room {
				c.Sizes = append(c.Sizes, size.Name)
			}
		}
		out = append(out, c)
	}
	return out, nil
}

// roomsFor is how long an answer about free room is good: a page of regions
// that many people look at must not cost a look at every cluster each time.
const roomsFor = time.Second

// maxRooms bounds what is remembered; offerings come and go.
const maxRooms = 10_000

// rooms remembers for a moment how many units of each type the largest free
// place of a region takes.
type rooms struct {
	mu    sync.Mutex
	known map[roomKey]room
}

type roomKey struct{ offering, provider, region string }

type room struct {
	free map[string]int64 // by type; not changed any more
	off  *offering.Offering
	at   time.Time
}

func (k *rooms) look(ctx context.Context, s *server, off *offering.Offering, provider string, rg offering.Region) (map[string]int64, error) {
	key, now := roomKey{off.Metadata.Name, provider, rg.Name}, s.Clock()
	k.mu.Lock()
	seen, ok := k.known[key]
	k.mu.Unlock()
	if age := now.Sub(seen.at); ok && seen.off == off && age >= 0 && age < roomsFor {
		return seen.free, nil
	}
	free, err := s.free(ctx, off, provider, rg)
	if err != nil {
		return nil, err
	}
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.known == nil || len(k.known) >= maxRooms {
		k.known = map[roomKey]room{}
	}
	k.known[key] = room{free, off, now}
	return free, nil
}

// free asks the clusters of the region and the region's own limits.
func (s *server) free(ctx context.Context, off *offering.Offering, provider string, rg offering.Region) (map[string]int64, error) {
	candidates, err := s.Clusters.Candidates(ctx, cluster.Wanted{Provider: provider, Region: rg.Name, Offering: off.Metadata.Name, AnyZones: true, Rules: off.Spec.Placement})
	if err != nil {
		return nil, err
	}
	var largest int64
	for _, c := range candidates {
		largest = max(largest, c.Free())
	}
	out := map[string]int64{}
	for _, t := range off.Spec.Types {
		room := largest
		if limit, ok := rg.Limits[t.Name]; ok {
			used, err := s.Ledger.Counter(ctx, instance.RegionCounter(off.Metadata.Name, provider, rg.Name, t.Name))
			if err != nil {
				return nil, err
			}
			room = min(room, limit-used)
		}
		if room > 0 {
			out[t.Name] = room
		}
	}
	return out, nil
}

// instanceType is an instance type with its sizes, for people who choose.
type instanceType struct {
	ID      string           `json:"id"`
	Display string           `json:"display_name,omitempty"`
	Billing []billingModel   `json:"supported_billing_models"`
	Sizes   []map[string]any `json:"sizes"`
}

type billingModel struct {
	ID       string   `json:"id"`
	Resource string   `json:"ams_resource"`
	Product  string   `json:"ams_product"`
	Models   []string `json:"ams_billing_models"`
}

func (s *server) compatTypes(w http.ResponseWriter, r *http.Request, p *compatPath) {
	provider, region := p.rest[1], p.rest[2]
	if provider == "" || region == "" {
		s.fail(w, r, nothingAt(r))
		return
	}
	_, rg, err := p.off.Place(provider, region)
	if err != nil {
		s.fail(w, r, err)
		return
	}
	writeJSON(w, http.StatusOK, map[string]any{"instance_types": describeTypes(p.off, rg.Sells)})
}

func describeTypes(off *offering.Offering, sells func(string) bool) []instanceType {
	out := []instanceType{}
	for _, t := range off.Spec.Types {
		if !sells(t.Name) {
			continue
		}
		it := instanceType{ID: t.Name, Display: t.DisplayName, Billing: []billingModel{}, Sizes: []map[string]any{}}
		product := ""
		for _, b := range off.Models(t) {
			if b.Name == "" {
				continue
			}
			if product == "" {
				product = b.Product
			}
			it.Billing = append(it.Billing, billingModel{ID: b.Name, Resource: b.Resource, Product: b.Product, Models: append([]string{}, b.Models...)})
		}
		for _, size := range t.Sizes {
			it.Sizes = append(it.Sizes, describeSize(t, size, product))
		}
		out = append(out, it)
	}
	return out
}

// describeSize shows what every size has, and what its file adds.
func describeSize(t offering.Type, size offering.Size, product string) map[string]any {
	out := map[string]any{
		"id": size.Name, "quota_consumed": size.Quota, "capacity_consumed": size.Capacity, "maturity_status": "stable",
	}
	if size.DisplayName != "" {
		out["display_name"] = size.DisplayName
	}
	if product != "" {
		out["quota_type"] = product
	}
	if size.Maturity != "" {
		out["maturity_status"] = size.Maturity
	}
	if size.Lifespan > 0 {
		out["lifespan_seconds"] = int64(time.Duration(size.Lifespan) / time.Second)
	}
	if t.MultiAZ != nil {
		out["supported_az_modes"] = []string{"single"}
		if *t.MultiAZ {
			out["supported_az_modes"] = []string{"multi"}
		}
	}
	maps.Copy(out, size.Present)
	return out
}
