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
	Server      string      `json:"server_version,omitempty"`
	Collections []reference `json:"collections"`
}

func (s *server) compatGroup(w http.ResponseWriter, _ *http.Request, p *compatPath) {
	out := groupMetadata{reference: reference{ID: p.group, Kind: "API", Href: "/api/" + p.group}}
	for _, off := range s.Offerings.List() {
		if off.Spec.API.Group == p.group {
			out.Versions = append(out.Versions, s.describeVersion(off))
		}
	}
	slices.SortFunc(out.Versions, func(a, b versionMetadata) int { return cmp.Compare(a.ID, b.ID) })
	writeJSON(w, http.StatusOK, out)
}

func (s *server) compatVersion(w http.ResponseWriter, _ *http.Request, p *compatPath) {
	writeJSON(w, http.StatusOK, s.describeVersion(p.off))
}

func (s *server) describeVersion(off *offering.Offering) versionMetadata {
	n, base := off.Spec.Names, offeringBase(off.Spec)
	out := versionMetadata{
		reference:   reference{ID: off.Spec.API.Version, Kind: "APIVersion", Href: base},
		Server:      s.Version,
		Collections: []reference{{ID: n.Plural, Kind: n.Kind + "List", Href: base + "/" + n.Plural}},
	}
	add := func(id, kind string) {
		out.Collections = append(out.Collections, reference{ID: id, Kind: kind, Href: base + "/" + id})
	}
	add("cloud_providers", "CloudProviderList")
	if serves(off.Spec, "service_accounts") {
		add("service_accounts", "ServiceAccountList")
	}
	if serves(off.Spec, "clusters") {
		add("clusters", "ClusterList")
	}
	return out
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

// catalogueOf are the errors that an offering's API can answer with. Numbers of
// what it does not have are not in it.
func catalogueOf(spec offering.Spec) []code {
	openAZ := slices.ContainsFunc(spec.Types, func(t offering.Type) bool { return t.MultiAZ == nil })
	markets := slices.ContainsFunc(spec.Billing, func(b offering.BillingModel) bool { return len(b.Marketplaces) > 0 })
	own := make([]int64, 0, len(spec.API.Codes))
	for _, n := range spec.API.Codes {
		own = append(own, n)
	}
	var out []code
	for _, c := range catalogue {
		has := true
		switch c.id {
		case 35:
			has = openAZ
		case 43:
			has = markets
		case 44, 45, 46, 47:
			has = serves(spec, "clusters")
		case 115:
			has = serves(spec, "service_accounts")
		}
		if has || slices.Contains(own, int64(c.id)) {
			out = append(out, c)
		}
	}
	return out
}

func (s *server) compatErrors(w http.ResponseWriter, r *http.Request, p *compatPath) {
	known := catalogueOf(p.off.Spec)
	all := make([]v1.Error, len(known))
	for i, c := range known {
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
	for _, c := range catalogueOf(p.off.Spec) {
		if strconv.Itoa(c.id) == p.rest[1] {
			writeJSON(w, http.StatusOK, faceOf(p.off).object(c.id, c.text, ""))
			return
		}
	}
	s.fail(w, r, fault.New(fault.NotFound, "there is no error with the id %.64q", p.rest[1]))
}
