package offering

import (
	"net/url"
	"regexp"
	"slices"
	"strings"
	"time"
)

// APIVersion and FileKind head every offering's file.
const (
	APIVersion = "drover.dev/v1"
	FileKind   = "Offering"
)

var (
	nameForm    = regexp.MustCompile(`^[a-z]([a-z0-9-]{0,61}[a-z0-9])?$`)
	wordForm    = regexp.MustCompile(`^[a-z][a-z0-9_-]{0,62}$`)
	kindForm    = regexp.MustCompile(`^[A-Z][A-Za-z0-9]{0,62}$`)
	versionForm = regexp.MustCompile(`^v[0-9]{1,3}((alpha|beta)[0-9]{1,3})?$`)
	prefixForm  = regexp.MustCompile(`^[A-Z][A-Z0-9]*(-[A-Z0-9]+)*$`)
	fieldForm   = regexp.MustCompile(`^[A-Za-z_][A-Za-z0-9_.-]{0,62}$`)
	releaseForm = regexp.MustCompile(`^[A-Za-z0-9][A-Za-z0-9._+-]{0,62}$`)
)

// columns are what instances can be searched and sorted by.
var columns = []string{
	"id", "org", "owner", "name", "phase", "parent", "created", "updated",
	"offering", "cluster", "region", "provider", "instance_type", "size", "host", "version", "multi_az", "rank",
}

// phases of an instance that a hook can stand at.
var phases = []string{
	"accepted", "preparing", "provisioning", "ready", "failed",
	"suspending", "suspended", "resuming", "deprovision", "deleting",
}

// shown are the fields that the public API always has.
var shown = []string{
	"id", "kind", "href", "name", "owner", "status", "cloud_provider", "region", "multi_az", "created_at", "updated_at",
}

// asked are the fields of an order that are no parameters.
var asked = []string{"name", "cloud_provider", "region", "multi_az", "plan", "id", "kind", "href", "owner", "status"}

// reserved words name what is beside the instances in a path or on the command line.
var reserved = []string{
	"offering", "offerings", "instance", "instances", "cluster", "clusters", "operation", "operations",
	"change", "changes", "event", "events", "watch", "ledger", "whoami", "token", "tokens", "template", "templates", "environment", "environments",
	"resource", "resources", "deployment", "deployments", "errors", "status", "cloud_providers", "agent-clusters",
	"openapi", "admin", "instance_types", "service_accounts", "sso_providers", "metrics", "audit",
	"quota", "quotas", "terms", "denylist", "denylists", "accesslist", "accesslists", "acceptance", "acceptances", "audits",
	"user", "users", "serviceaccount", "serviceaccounts", "account", "accounts", "policy", "policies", "profile", "profiles",
}

// check reports what the types of the fields cannot say.
func (f file) check(d *Document) {
	if d.APIVersion != APIVersion {
		f.Missing([]any{"apiVersion"}, "must be %s", APIVersion)
	}
	if d.Kind != FileKind {
		f.Missing([]any{"kind"}, "must be %s", FileKind)
	}
	f.form([]any{"metadata", "name"}, d.Metadata.Name, nameForm, "lower-case letters, digits and dashes, such as dinosaur")
	spec := []any{"spec"}
	f.checkNames(&d.Spec, spec)
	f.checkServes(&d.Spec, under(spec, "api"))
	f.checkTypes(&d.Spec, under(spec, "types"))
	f.checkBilling(d.Spec.Billing, under(spec, "billing"))
	f.checkProviders(&d.Spec, under(spec, "providers"))
	f.checkComponents(&d.Spec, under(spec, "components"))
	f.checkRoutes(d.Spec.Routes, under(spec, "routes"))
	f.checkHooks(d.Spec.Hooks, under(spec, "hooks"))
	f.checkOperation(&d.Spec, spec)
	f.checkPlacement(&d.Spec, under(spec, "placement"))
	if len(d.Spec.Desired) == 0 {
		f.Missing(under(spec, "desired"), "must say what the data plane receives")
	}
	for _, name := range shown {
		if _, clash := d.Spec.Present[name]; clash {
			f.At(under(spec, "present", name), "is always shown; choose another name")
		}
		if _, clash := d.Spec.Admin.Present[name]; clash {
			f.At(under(spec, "admin", "present", name), "is always shown; choose another name")
		}
	}
}

// form reports text that is empty or does not look as it must.
func (f file) form(path []any, value string, form *regexp.Regexp, want string) bool {
	switch {
	case form.MatchString(value):
		return true
	case value == "":
		f.Missing(path, "is required: %s", want)
	default:
		f.At(path, "must be %s", want)
	}
	return false
}

func (f file) checkNames(s *Spec, path []any) {
	names := under(path, "names")
	f.form(under(names, "kind"), s.Names.Kind, kindForm, "a word such as Dinosaur")
	for field, value := range map[string]string{"singular": s.Names.Singular, "plural": s.Names.Plural} {
		if f.form(under(names, field), value, wordForm, "a lower-case word such as dinosaurs") && slices.Contains(reserved, value) {
			f.At(under(names, field), "is a word of the product; choose another name")
		}
	}
	api := under(path, "api")
	f.form(under(api, "group"), s.API.Group, wordForm, "a lower-case word such as dinosaurs_mgmt")
	if versionForm.MatchString(s.API.Group) {
		f.At(under(api, "group"), "must not look like a version")
	}
	f.form(under(api, "version"), s.API.Version, versionForm, "v1 or the like")
	f.form(under(api, "errorPrefix"), s.API.ErrorPrefix, prefixForm, "upper-case words with dashes, such as DINOSAURS-MGMT")
	if s.API.RequestKind != "" {
		f.form(under(api, "requestKind"), s.API.RequestKind, kindForm, "a word such as DinosaurRequest")
	}
	for field, m := range map[string]map[string]string{"search": s.API.Search, "order": s.API.Order} {
		for wire, column := range m {
			at := under(api, field, wire)
			if !fieldForm.MatchString(wire) {
				f.At(at, "is not a name of a field")
			}
			if !slices.Contains(columns, column) {
				f.Missing(at, "instances have no column %.64q; there are %s", column, strings.Join(columns, ", "))
			}
		}
	}
}

// unique reports a name that is there twice.
func (f file) unique(seen map[string]bool, name string, path []any) {
	if name != "" && seen[name] {
		f.At(path, "the name %.64q is there twice", name)
	}
	seen[name] = true
}

func (f file) checkTypes(s *Spec, path []any) {
	if len(s.Types) == 0 {
		f.Missing(path, "must have at least one instance type")
	}
	seen := map[string]bool{}
	for i, t := range s.Types {
		at := under(path, i)
		f.form(under(at, "name"), t.Name, wordForm, "a lower-case word such as standard")
		f.unique(seen, t.Name, under(at, "name"))
		f.checkPlan(s, t, at)
		if len(t.Sizes) == 0 {
			f.Missing(under(at, "sizes"), "must have at least one size")
		}
		sizes := map[string]bool{}
		for j, s := range t.Sizes {
			at := under(at, "sizes", j)
			f.form(under(at, "name"), s.Name, wordForm, "a lower-case word such as x1")
			f.unique(sizes, s.Name, under(at, "name"))
			if s.Capacity < 0 {
				f.At(under(at, "capacity"), "must not be negative")
			}
			if s.Quota < 0 {
				f.At(under(at, "quota"), "must not be negative")
			}
		}
	}
}

func (f file) checkProviders(s *Spec, path []any) {
	if len(s.Providers) == 0 {
		f.Missing(path, "must have at least one provider")
	}
	seen := map[string]bool{}
	for i, p := range s.Providers {
		at := under(path, i)
		f.form(under(at, "name"), p.Name, wordForm, "a lower-case word such as aws")
		f.unique(seen, p.Name, under(at, "name"))
		if len(p.Regions) == 0 {
			f.Missing(under(at, "regions"), "must have at least one region")
		}
		regions := map[string]bool{}
		for j, r := range p.Regions {
			at := under(at, "regions", j)
			f.form(under(at, "name"), r.Name, wordForm, "a lower-case word such as us-east-1")
			f.unique(regions, r.Name, under(at, "name"))
			for k, name := range r.Types {
				if !slices.ContainsFunc(s.Types, func(t Type) bool { return t.Name == name }) {
					f.At(under(at, "types", k), "there is no instance type %.64q", name)
				}
			}
			f.checkLimits(s, r, at)
		}
	}
}

func (f file) checkComponents(s *Spec, path []any) {
	if len(s.Components) == 0 {
		f.Missing(path, "must name at least one component and its versions")
	}
	seen := map[string]bool{}
	for i, c := range s.Components {
		f.form(under(path, i, "name"), c.Name, fieldForm, "a word such as dinosaur")
		f.unique(seen, c.Name, under(path, i, "name"))
		f.checkVersions(c.Versions, under(path, i, "versions"))
		if len(c.Versions) == 0 && s.Agent.Reports[c.Name] == "" {
			f.Missing(under(path, i, "versions"), "must have at least one version, or agent.reports must say where agents tell them")
		}
		f.oneOf(under(path, i, "downgrade"), c.Downgrade, downgrades)
	}
}

func (f file) checkVersions(versions []string, path []any) {
	seen := map[string]bool{}
	for i, v := range versions {
		f.form(under(path, i), v, releaseForm, "a version such as 1.0.0")
		f.unique(seen, v, under(path, i))
	}
}

func (f file) checkRoutes(routes []Route, path []any) {
	seen := map[string]bool{}
	for i, r := range routes {
		f.form(under(path, i, "name"), r.Name, wordForm, "a lower-case word such as web")
		f.unique(seen, r.Name, under(path, i, "name"))
		if r.Host == "" {
			f.Missing(under(path, i, "host"), "is required: a host name such as ${instance.name}.example.org")
		}
	}
}

func (f file) checkHooks(hooks []Hook, path []any) {
	seen := map[string]bool{}
	for i, h := range hooks {
		at := under(path, i)
		if !slices.Contains(phases, h.Phase) {
			f.Missing(under(at, "phase"), "must be one of %s", strings.Join(phases, ", "))
		}
		u, err := url.Parse(h.URL)
		switch {
		case h.URL == "":
			f.Missing(under(at, "url"), "is required")
		case err != nil || u.Scheme != "http" && u.Scheme != "https" || u.Host == "" || u.User != nil || strings.Contains(h.URL, "${"):
			f.At(under(at, "url"), "must be an address such as https://hooks.example.org/ready, without credentials and expressions")
		}
		f.unique(seen, h.Phase+" "+h.URL, under(at, "url"))
		if h.Timeout > Duration(time.Minute) {
			f.At(under(at, "timeout"), "must be at most 1m")
		}
	}
}
