package httpapi

import (
	"net/http"
	"slices"
	"strings"

	"github.com/droverhq/drover/internal/access"
	"github.com/droverhq/drover/internal/fault"
	"github.com/droverhq/drover/internal/offering"
)

// compatPath is a path below an offering's group, taken apart.
type compatPath struct {
	group   string
	version string             // empty: the group itself is meant
	off     *offering.Offering // nil: there is no such group and version
	rest    []string           // what follows /api/<group>/<version>/
}

func faceOf(off *offering.Offering) face {
	return face{prefix: off.Spec.API.ErrorPrefix, base: offeringBase(off.Spec), codes: off.Spec.API.Codes}
}

// resolve finds out whether a request is about an offering's API. The registry
// is asked anew each time: offerings come and change while the server runs.
func (s *server) resolve(r *http.Request, t *trace) {
	path, below := strings.CutPrefix(r.URL.Path, "/api/")
	if !below || beside(r.URL.Path) || path == "" || path == "v1" || strings.HasPrefix(path, "v1/") {
		return
	}
	parts := strings.Split(strings.TrimSuffix(path, "/"), "/")
	p := &compatPath{group: parts[0]}
	if len(parts) == 1 {
		for _, off := range s.Offerings.List() {
			if off.Spec.API.Group == p.group {
				p.off = off
				break
			}
		}
	} else {
		p.version, p.rest = parts[1], parts[2:]
		if off, ok := s.Offerings.ByGroup(p.group, p.version); ok {
			p.off = off
		}
	}
	if p.off != nil {
		t.face = faceOf(p.off)
	}
	t.compat, t.route = p, "/api/(unknown)"
}

// public reports whether the path only describes the API.
func (p *compatPath) public() bool {
	if p.off == nil {
		return false
	}
	switch len(p.rest) {
	case 0:
		return true
	case 1:
		return p.rest[0] == "openapi" || p.rest[0] == "errors" || p.rest[0] == "sso_providers"
	case 2:
		return p.rest[0] == "errors"
	}
	return false
}

// verbs are the handlers of one path by method.
type verbs map[string]func(w http.ResponseWriter, r *http.Request, p *compatPath)

// compat serves the API of whatever offering the path belongs to.
func (s *server) compat(w http.ResponseWriter, r *http.Request, t *trace) {
	p := t.compat
	if p.off == nil {
		s.fail(w, r, nothingAt(r))
		return
	}
	if len(p.rest) > 0 && p.rest[0] == "agent-clusters" {
		t.route = offeringBase(p.off.Spec) + "/agent-clusters"
		s.compatAgent(w, r, p.off, p.rest[1:])
		return
	}
	if len(p.rest) > 0 && p.rest[0] == "admin" {
		t.route = offeringBase(p.off.Spec) + "/admin"
		s.admin(w, r, p)
		return
	}
	template, handlers := s.compatRoute(p)
	if handlers == nil {
		s.fail(w, r, nothingAt(r))
		return
	}
	t.route = template
	method := r.Method
	if method == http.MethodHead {
		method = http.MethodGet
	}
	handle, ok := handlers[method]
	if !ok {
		w.Header().Set("Allow", handlers.allow())
		s.fail(w, r, wrongMethod(r))
		return
	}
	if err := s.mayUse(r, p); err != nil {
		s.fail(w, r, err)
		return
	}
	handle(w, r, p)
}

// mayUse keeps out whom the policy keeps out. What only describes the API is
// for everybody, clouds and regions for everybody with a user's token; the
// routes of operators and of agents have rules of their own.
func (s *server) mayUse(r *http.Request, p *compatPath) error {
	if p.public() {
		return nil
	}
	if p.rest[0] == "obs-proxy-verification" {
		return nil
	}
	who := access.From(r.Context())
	if who.User == "" {
		return fault.New(fault.Denied, "an agent's token does not open this")
	}
	if s.Policy == nil || p.rest[0] == "cloud_providers" || p.rest[0] == "status" {
		return nil
	}
	return s.Policy.Admit(who)
}

// serves reports whether the offering has a collection beside its instances. A
// file that names none has the one that every fleet manager had.
func serves(spec offering.Spec, collection string) bool {
	if len(spec.API.Serves) == 0 {
		return collection == "status"
	}
	return slices.Contains(spec.API.Serves, collection)
}

func (v verbs) allow() string {
	var list []string
	for _, m := range []string{"DELETE", "GET", "PATCH", "POST"} {
		if _, ok := v[m]; ok {
			list = append(list, m)
		}
	}
	return strings.Join(list, ", ")
}

// optional are the collections that an offering may have or not.
var optional = []string{"status", "instance_types", "service_accounts", "sso_providers", "clusters"}

// compatRoute returns the template and the handlers of a path, nil if there is
// nothing. What describes the API goes before the offering's own plural.
func (s *server) compatRoute(p *compatPath) (string, verbs) {
	if p.version == "" {
		return "/api/" + p.group, verbs{"GET": s.compatGroup}
	}
	root, rest := offeringBase(p.off.Spec), p.rest
	if len(rest) == 0 {
		return root, verbs{"GET": s.compatVersion}
	}
	plural := p.off.Spec.Names.Plural
	if rest[0] != plural && slices.Contains(optional, rest[0]) && !serves(p.off.Spec, rest[0]) {
		return "", nil
	}
	switch n := len(rest); rest[0] {
	case "openapi":
		if n == 1 {
			return root + "/openapi", verbs{"GET": s.compatOpenAPI}
		}
	case "errors":
		switch n {
		case 1:
			return root + "/errors", verbs{"GET": s.compatErrors}
		case 2:
			return root + "/errors/{id}", verbs{"GET": s.compatError}
		}
	case "status":
		if n == 1 {
			return root + "/status", verbs{"GET": s.compatStatus}
		}
	case "cloud_providers":
		switch {
		case n == 1:
			return root + "/cloud_providers", verbs{"GET": s.compatProviders}
		case n == 3 && rest[2] == "regions":
			return root + "/cloud_providers/{id}/regions", verbs{"GET": s.compatRegions}
		}
	case "instance_types":
		if n == 3 {
			return root + "/instance_types/{cloud_provider}/{cloud_region}", verbs{"GET": s.compatTypes}
		}
	case "sso_providers":
		if n == 1 {
			return root + "/sso_providers", verbs{"GET": s.compatSSO}
		}
	case "service_accounts":
		return s.accountRoute(root+"/service_accounts", rest)
	case "clusters":
		return s.ownClusterRoute(root+"/clusters", rest)
	case "obs-proxy-verification":
		return s.verificationRoute(p)
	case plural:
		switch {
		case n == 1:
			return root + "/" + plural, verbs{"GET": s.compatList, "POST": s.compatCreate}
		case n == 2 && rest[1] != "":
			return root + "/" + plural + "/{id}", verbs{"GET": s.compatGet, "PATCH": s.compatUpdate, "DELETE": s.compatDelete}
		case n == 3 && rest[2] == "promote" && serves(p.off.Spec, "promote"):
			return root + "/" + plural + "/{id}/promote", verbs{"POST": s.compatPromote}
		case n == 4 && rest[2] == "metrics":
			if h, ok := s.compatMetrics(rest[3]); ok {
				return root + "/" + plural + "/{id}/metrics/" + rest[3], verbs{"GET": h}
			}
		}
	}
	return "", nil
}
