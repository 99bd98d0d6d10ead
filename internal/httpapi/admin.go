package httpapi

import (
	"net/http"
	"slices"
	"strings"

	"github.com/droverhq/drover/internal/access"
)

// admin serves an offering's API for its operators. Whoever may not call it
// cannot tell it from a path where nothing is: the right is looked at before
// anything else, whether there is such a path and method included.
func (s *server) admin(w http.ResponseWriter, r *http.Request, p *compatPath) {
	method := r.Method
	if method == http.MethodHead {
		method = http.MethodGet
	}
	who := access.From(r.Context())
	if !operates(who, p.off.AdminRoles(method)) {
		s.audited(w, r, true, nil)
		return
	}
	template, handlers := s.adminRoute(p)
	if template != "" {
		traceOf(r.Context()).route = template
	}
	s.audited(w, r, false, func(w http.ResponseWriter, r *http.Request) {
		if handlers == nil {
			s.fail(w, r, nothingAt(r))
			return
		}
		handle, ok := handlers[method]
		if !ok {
			w.Header().Set("Allow", handlers.allow())
			s.fail(w, r, wrongMethod(r))
			return
		}
		// For the length of this call the role makes an operator, who sees the
		// instances of all organisations.
		who.Admin = true
		handle(w, r.WithContext(access.With(r.Context(), who)), p)
	})
}

// operates reports whether the caller is an operator of the control plane or
// has one of the roles, in whatever case they are written.
func operates(who access.Principal, roles []string) bool {
	if who.Admin {
		return true
	}
	return who.User != "" && who.Cluster == "" && slices.ContainsFunc(who.Roles, func(have string) bool {
		return slices.ContainsFunc(roles, func(need string) bool { return strings.EqualFold(have, need) })
	})
}

// adminRoute returns the template and the handlers of a path of an offering's
// API for operators, nil if there is nothing.
func (s *server) adminRoute(p *compatPath) (string, verbs) {
	plural, rest := p.off.Spec.Names.Plural, p.rest[1:]
	root := offeringBase(p.off.Spec) + "/admin/" + plural
	switch {
	case len(rest) == 0 || rest[0] != plural:
	case len(rest) == 1:
		return root, verbs{"GET": s.adminList}
	case len(rest) == 2 && rest[1] != "":
		return root + "/{id}", verbs{"GET": s.adminGet, "PATCH": s.adminUpdate, "DELETE": s.adminDelete}
	case len(rest) == 3 && rest[1] != "" && rest[2] == "revoke_tls_certificate":
		return root + "/{id}/revoke_tls_certificate", verbs{"POST": s.adminRevoke}
	}
	return offeringBase(p.off.Spec) + "/admin", nil
}
