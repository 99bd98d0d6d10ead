package offering

import (
	"net/http"
	"slices"
	"strings"

	"github.com/droverhq/drover/internal/schema"
)

// serves are the collections and verbs that an API can have beside the instances.
var serves = []string{"status", "instance_types", "service_accounts", "sso_providers", "clusters", "promote"}

var (
	quotas     = []string{QuotaNone, QuotaGranted, QuotaTrial}
	downgrades = []string{DowngradeAny, DowngradeMinor, DowngradeNever}
	methods    = []string{http.MethodGet, http.MethodPatch, http.MethodPost, http.MethodDelete}
)

// oneOf reports a word that is none of those there are; "" is none said.
func (f file) oneOf(path []any, word string, words []string) {
	if word != "" && !slices.Contains(words, word) {
		f.At(path, "must be one of %s", strings.Join(words, ", "))
	}
}

func (f file) checkServes(s *Spec, path []any) {
	seen := map[string]bool{}
	for i, what := range s.API.Serves {
		if what == "" {
			f.Missing(under(path, "serves", i), "must be one of %s", strings.Join(serves, ", "))
		}
		f.oneOf(under(path, "serves", i), what, serves)
		f.unique(seen, what, under(path, "serves", i))
	}
	if seen["promote"] && !slices.ContainsFunc(s.Billing, func(b BillingModel) bool { return len(b.Promotable) > 0 }) {
		f.At(under(path, "serves", slices.Index(s.API.Serves, "promote")), "no billing model is promotable")
	}
	for reason, n := range s.API.Codes {
		if at := under(path, "codes", reason); !wordForm.MatchString(reason) || n < 1 || n > 9999 {
			f.Missing(at, "must be a reason and a number from 1 to 9999")
		}
	}
	for wire, column := range s.API.Order {
		if column == "rank" && s.API.Rank == "" {
			f.At(under(path, "order", wire), "needs a rank: what lists are sorted by")
		}
	}
}

// checkPlan reports what is wrong with how one comes to a type.
func (f file) checkPlan(s *Spec, t Type, path []any) {
	f.oneOf(under(path, "quota"), t.Quota, quotas)
	switch {
	case t.PerOwner < 0:
		f.At(under(path, "perOwner"), "must not be negative")
	case t.PerOwner > 0 && t.Quota != QuotaTrial:
		f.At(under(path, "perOwner"), "is for types with the quota trial")
	}
	for i, name := range t.Billing {
		if !slices.ContainsFunc(s.Billing, func(b BillingModel) bool { return b.Name == name }) {
			f.Missing(under(path, "billing", i), "there is no billing model %.64q", name)
		}
	}
	switch {
	case t.Reserved < 0 || t.Reserved > 100:
		f.At(under(path, "reserved"), "must be from 0 to 100")
	case t.Reserved > 0 && len(s.Reserved) == 0:
		f.At(under(path, "reserved"), "needs spec.reserved: the document of what is kept warm")
	}
}

func (f file) checkBilling(all []BillingModel, path []any) {
	seen := map[string]bool{}
	for i, b := range all {
		at := under(path, i)
		f.form(under(at, "name"), b.Name, wordForm, "a lower-case word such as standard")
		f.unique(seen, b.Name, under(at, "name"))
		markets := map[string]bool{}
		for j, m := range b.Marketplaces {
			f.form(under(at, "marketplaces", j), m, wordForm, "a lower-case word such as aws")
			f.unique(markets, m, under(at, "marketplaces", j))
		}
		for j, to := range b.Promotable {
			if to == b.Name || !slices.ContainsFunc(all, func(other BillingModel) bool { return other.Name == to }) {
				f.Missing(under(at, "promotable", j), "there is no other billing model %.64q", to)
			}
		}
	}
}

func (f file) checkLimits(s *Spec, r Region, path []any) {
	for name, units := range r.Limits {
		at := under(path, "limits", name)
		if !slices.ContainsFunc(s.Types, func(t Type) bool { return t.Name == name }) {
			f.At(at, "there is no instance type %.64q", name)
		}
		if units < 0 {
			f.At(at, "must not be negative")
		}
	}
}

func (f file) checkOperation(s *Spec, path []any) {
	if s.Identity != nil {
		at := under(path, "identity", "name")
		if f.form(at, s.Identity.Name, wordForm, "a lower-case word such as canary") && s.Identity.Name == secretAgent {
			f.At(at, "is the name of the agent's own secret; choose another")
		}
	}
	if s.Terms != "" {
		f.form(under(path, "terms"), s.Terms, releaseForm, "a word such as service-terms")
	}
	admin := under(path, "admin")
	if s.Admin.Kind != "" {
		f.form(under(admin, "kind"), s.Admin.Kind, kindForm, "a word such as Dinosaur")
	}
	for method, roles := range s.Admin.Roles {
		at := under(admin, "roles", method)
		f.oneOf(at, method, methods)
		if len(roles) == 0 {
			f.Missing(at, "must name at least one role; leave the method out if nobody may")
		}
		for i, role := range roles {
			f.form(under(at, i), role, fieldForm, "the name of a role")
		}
	}
	f.checkMetrics(s.Metrics, under(path, "metrics"))
	f.checkAgent(s, under(path, "agent"))
}

func (f file) checkAgent(s *Spec, path []any) {
	if s.Agent.Kind != "" {
		f.form(under(path, "kind"), s.Agent.Kind, kindForm, "a word such as ManagedDinosaur")
	}
	if s.Agent.Waiting != "" {
		f.form(under(path, "waiting"), s.Agent.Waiting, wordForm, "a word such as waiting_for_fleetshard_operator")
	}
	if s.Agent.Operator != "" {
		f.form(under(path, "operator"), s.Agent.Operator, fieldForm, "the name of a field")
	} else if len(s.Agent.Reports) > 0 {
		f.Missing(under(path, "operator"), "is required with reports: the field that lists what runs the instances")
	}
	for component, list := range s.Agent.Reports {
		at := under(path, "reports", component)
		if !slices.ContainsFunc(s.Components, func(c Component) bool { return c.Name == component }) {
			f.At(at, "there is no component %.64q", component)
		}
		f.form(at, list, fieldForm, "the name of a list in the agent's report")
	}
	for name := range s.Agent.Parameters {
		if !fieldForm.MatchString(name) {
			f.At(under(path, "parameters", name), "is not a name of a parameter")
		}
	}
}

// checkChanges reports fields of a PATCH that change nothing, or too much.
func (f file) checkChanges(s *Spec, changes map[string]Field, shape schema.Shape, path []any) {
	for name, c := range changes {
		at := under(path, name)
		if !fieldForm.MatchString(name) || name == "owner" || slices.Contains(shown, name) {
			f.At(at, "cannot be the name of a field that changes")
		}
		said := 0
		for _, there := range []bool{c.Parameter != "", c.Component != "", c.Suspended} {
			if there {
				said++
			}
		}
		if said != 1 {
			f.Missing(at, "must say one of parameter, component and suspended: what it changes")
		}
		if _, known := shape.Members[c.Parameter]; c.Parameter != "" && !known {
			f.At(under(at, "parameter"), "there is no parameter %.64q", c.Parameter)
		}
		if c.Component != "" && !slices.ContainsFunc(s.Components, func(p Component) bool { return p.Name == c.Component }) {
			f.At(under(at, "component"), "there is no component %.64q", c.Component)
		}
		if c.Allowed != "" && c.Message == "" {
			f.Missing(under(at, "message"), "is required with allowed: what the caller reads if it is not")
		}
	}
}
