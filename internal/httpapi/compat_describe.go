package httpapi

import (
	"cmp"
	"net/http"
	"slices"
	"strconv"

	v1 "github.com/droverhq/drover/api/v1"
	"github.com/droverhq/drover/internal/fault"
	"github.com/droverhq/drover/internal/offering"
)

// reference is the head of every object of the offerings' APIs.
type reference struct {
	ID   string `json:"id"`
	Kind string `json:"kind"`
	Href string `json:"href"`
}

type groupMetadata struct {
	reference
	Versions []versionMetadata `json:"versions"`
}

type versionMetadata struct {
	reference
	Collections []reference `json:"collections"`
}

func (s *server) compatGroup(w http.ResponseWriter, _ *http.Request, p *compatPath) {
	out := groupMetadata{reference: reference{ID: p.group, Kind: "API", Href: "/api/" + p.group}}
	for _, off := range s.Offerings.List() {
		if off.Spec.API.Group == p.group {
			out.Versions = append(out.Versions, describeVersion(off))
		}
	}
	slices.SortFunc(out.Versions, func(a, b versionMetadata) int { return cmp.Compare(a.ID, b.ID) })
	writeJSON(w, http.StatusOK, out)
}

func (s *server) compatVersion(w http.ResponseWriter, _ *http.Request, p *compatPath) {
	writeJSON(w, http.StatusOK, describeVersion(p.off))
}

func describeVersion(off *offering.Offering) versionMetadata {
	n := off.Spec.Names
	return versionMetadata{
		reference:   reference{ID: off.Spec.API.Version, Kind: "APIVersion", Href: offeringBase(off.Spec)},
		Collections: []reference{{ID: n.Plural, Kind: n.Kind + "List", Href: offeringBase(off.Spec) + "/" + n.Plural}},
	}
}

func (s *server) compatOpenAPI(w http.ResponseWriter, r *http.Request, p *compatPath) {
	doc, err := openAPIFor(p.off)
	if err != nil {
		s.fail(w, r, err)
		return
	}
	writeRaw(w, http.StatusOK, doc)
}

// page is the envelope of every list.
type page[T any] struct {
	Kind  string `json:"kind"`
	Page  int    `json:"page"`
	Size  int    `json:"size"`
	Total int    `json:"total"`
	Items []T    `json:"items"`
}

// paged cuts the page that the request asks for out of a short list.
func paged[T any](r *http.Request, kind string, all []T) (page[T], error) {
	args, err := pageArgs(r.URL.Query())
	if err != nil {
		return page[T]{}, err
	}
	from := min(args.offset(), len(all))
	to := min(from+args.size, len(all))
	return page[T]{
		Kind: kind, Page: args.page, Size: min(args.size, len(all)), Total: len(all),
		Items: append([]T{}, all[from:to]...),
	}, nil
}

func (s *server) compatErrors(w http.ResponseWriter, r *http.Request, p *compatPath) {
	all := make([]v1.Error, len(catalogue))
	for i, c := range catalogue {
		all[i] = faceOf(p.off).object(c.id, c.text, "")
	}
	out, err := paged(r, "ErrorList", all)
	if err != nil {
		s.fail(w, r, err)
		return
	}
	writeJSON(w, http.StatusOK, out)
}

func (s *server) compatError(w http.ResponseWriter, r *http.Request, p *compatPath) {
	id, err := strconv.Atoi(p.rest[1])
	c, ok := lookup(id)
	if err != nil || !ok {
		s.fail(w, r, fault.New(fault.NotFound, "there is no error with the id %.64q", p.rest[1]))
		return
	}
	writeJSON(w, http.StatusOK, faceOf(p.off).object(c.id, c.text, ""))
}

type cloudProvider struct {
	Kind        string `json:"kind"`
	ID          string `json:"id"`
	DisplayName string `json:"display_name,omitempty"`
	Name        string `json:"name"`
	Enabled     bool   `json:"enabled"`
}

type cloudRegion struct {
	Kind        string   `json:"kind"`
	ID          string   `json:"id"`
	DisplayName string   `json:"display_name,omitempty"`
	Enabled     bool     `json:"enabled"`
	Types       []string `json:"supported_instance_types"`
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
			types := rg.Types
			if len(types) == 0 {
				for _, t := range p.off.Spec.Types {
					types = append(types, t.Name)
				}
			}
			if wanted == "" || slices.Contains(types, wanted) {
				all = append(all, cloudRegion{
					Kind: "CloudRegion", ID: rg.Name, DisplayName: rg.DisplayName, Enabled: !rg.Disabled, Types: types,
				})
			}
		}
	}
	out, err := paged(r, "CloudRegionList", all)
	if err != nil {
		s.fail(w, r, err)
		return
	}
	writeJSON(w, http.StatusOK, out)
}

// compatStatus tells whether any more fits anywhere.
func (s *server) compatStatus(w http.ResponseWriter, r *http.Request, p *compatPath) {
	var least int64 = 1
	for i, t := range p.off.Spec.Types {
		for j, size := range t.Sizes {
			if i+j == 0 || size.Capacity < least {
				least = size.Capacity
			}
		}
	}
	full, err := s.full(r, p.off, least)
	if err != nil {
		s.fail(w, r, err)
		return
	}
	writeJSON(w, http.StatusOK, map[string]any{p.off.Spec.Names.Plural: map[string]bool{"max_capacity_reached": full}})
}

func (s *server) full(r *http.Request, off *offering.Offering, least int64) (bool, error) {
	for _, pr := range off.Spec.Providers {
		for _, rg := range pr.Regions {
			if rg.Disabled {
				continue
			}
			candidates, err := s.Clusters.Candidates(r.Context(), pr.Name, rg.Name)
			if err != nil {
				return false, err
			}
			for _, c := range candidates {
				if c.Free() >= least {
					return false, nil
				}
			}
		}
	}
	return true, nil
}
