package template

import (
	"cmp"
	"encoding/json"
	"fmt"
	"maps"
	"net/url"
	"regexp"
	"slices"
	"strings"
	"time"

	"github.com/droverhq/drover/internal/document"
	"github.com/droverhq/drover/internal/expr"
	"github.com/droverhq/drover/internal/offering"
)

var (
	nameForm    = regexp.MustCompile(`^[a-z]([a-z0-9-]{0,61}[a-z0-9])?$`)
	releaseForm = regexp.MustCompile(`^[A-Za-z0-9][A-Za-z0-9._+-]{0,62}$`)
	wordForm    = regexp.MustCompile(`^[A-Za-z][A-Za-z0-9_]{0,62}$`)
	tagForm     = regexp.MustCompile(`^[A-Za-z0-9][A-Za-z0-9._:/-]{0,62}$`)
	sumForm     = regexp.MustCompile(`^[0-9a-f]{64}$`)
	outsideForm = regexp.MustCompile(`^[A-Za-z0-9][A-Za-z0-9._:/-]{0,252}$`)
)

// taken are names that expressions know already.
var taken = []string{
	"params", "env", "index", "args", "files", "outputs", "change", "plan", "address",
	"true", "false", "null", "in", "as", "break", "const", "continue", "else", "for", "function", "if", "import", "let",
	"loop", "package", "namespace", "return", "var", "void", "while",
	"int", "uint", "double", "bool", "string", "bytes", "list", "map", "type", "dyn", "null_type", "optional", "optional_type", "google",
	"cel", "math", "strings", "lists", "sets", "base64", "quantity", "duration", "timestamp",
}

// Drift policies, and effects of policies.
const (
	DriftReport, DriftCorrect, DriftIgnore = "report", "correct", "ignore"
	EffectDeny, EffectApprove              = "deny", "approve"
)

// under makes paths.
var under = document.Under

// file is a template's file while it is checked.
type file struct {
	*document.File
	t   *Template
	r   *reader
	dir string // of the tree
	// scope is what expressions can name where they stand, and judging that those of
	// policies are looked at.
	scope   map[string]*expr.Object
	judging bool
}

// all checks and compiles the file. The error means that it could not be tried.
func (f *file) all() error {
	f.header()
	f.names()
	for _, g := range f.t.groups {
		if g.Template != "" {
			if err := f.nest(g); err != nil {
				return err
			}
		}
	}
	f.t.Spec.fill()
	f.compile()
	if f.Sound() && len(f.r.mistakes) == 0 {
		f.try()
	}
	return nil
}

func (f *file) header() {
	d := &f.t.File
	if d.APIVersion != offering.APIVersion {
		f.Missing([]any{"apiVersion"}, "must be %s", offering.APIVersion)
	}
	if d.Kind != FileKind {
		f.Missing([]any{"kind"}, "must be %s", FileKind)
	}
	f.form([]any{"metadata", "name"}, d.Metadata.Name, nameForm, "lower-case letters, digits and dashes, such as shop")
	f.form([]any{"spec", "version"}, d.Spec.Version, releaseForm, "a version such as 1.0.0")
	f.words([]any{"spec"}, d.Spec.Description, d.Spec.Tags)
	if d.Spec.AtOnce < 0 || d.Spec.AtOnce > 1000 {
		f.At([]any{"spec", "atOnce"}, "must be from 1 to 1000")
	}
	f.permissions(d.Spec.Permissions, []any{"spec", "permissions"})
	for part, n := range map[string][2]int{
		"outputs": {len(d.Spec.Outputs), 200}, "actions": {len(d.Spec.Actions), 50}, "policies": {len(d.Spec.Policies), 50},
		"checks": {len(d.Spec.Checks), 50}, "links": {len(d.Spec.Links), 50}, "groups": {len(d.Spec.Groups), 500},
	} {
		if n[0] > n[1] {
			f.At([]any{"spec", part}, "there are at most %d", n[1])
		}
	}
	if data, err := json.Marshal(d.Spec.Parameters); err != nil || len(data) > maxSchema {
		f.At([]any{"spec", "parameters"}, "have at most %d KiB", maxSchema>>10)
	}
}

// form reports text that is empty or does not look as it must.
func (f *file) form(path []any, value string, form *regexp.Regexp, want string) bool {
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

// words checks what is shown to everybody as it stands.
func (f *file) words(path []any, description string, tags []string) {
	if strings.Contains(description, "${") {
		f.At(under(path, "description"), "is shown as it stands: it cannot hold ${...}")
	}
	if len(description) > 1000 {
		f.At(under(path, "description"), "has at most 1000 bytes")
	}
	if len(tags) > 32 {
		f.At(under(path, "tags"), "there are at most 32 tags")
	}
	for i, tag := range tags {
		if !tagForm.MatchString(tag) {
			f.At(under(path, "tags", i), "must be a word such as data or team:payments")
		}
	}
}

// names collects resources and groups and checks what they are called.
func (f *file) names() {
	spec := []any{"spec"}
	seen := map[string]bool{}
	for i := range f.t.Spec.Resources {
		r := f.resource(&f.t.Spec.Resources[i], nil, under(spec, "resources", i), seen)
		if f.t.names[r.Name] == nil && nameable(r.Name) {
			f.t.names[r.Name] = &entry{resource: r}
		}
	}
	for i := range f.t.Spec.Groups {
		made := &f.t.Spec.Groups[i]
		g := &group{Group: made, path: under(spec, "groups", i), resources: map[string]*resource{}}
		g.place = f.Root().Find(g.path).At
		f.t.groups = append(f.t.groups, g)
		f.name(under(g.path, "name"), g.Name, seen)
		f.words(g.path, g.Description, g.Tags)
		if f.t.names[g.Name] == nil && nameable(g.Name) {
			f.t.names[g.Name] = &entry{group: g}
		}
		switch {
		case g.Template != "" && len(g.Resources) > 0:
			f.At(under(g.path, "template"), "a group has resources of its own or is a template, not both")
		case g.Template == "" && len(g.Resources) == 0:
			f.Missing(under(g.path, "resources"), "a group has resources, or names a template")
		case g.Template == "" && len(g.With) > 0:
			f.At(under(g.path, "with"), "are a template's parameters, and the group is none")
		}
		inner := map[string]bool{}
		for j := range made.Resources {
			r := f.resource(&made.Resources[j], g, under(g.path, "resources", j), inner)
			if g.resources[r.Name] == nil && nameable(r.Name) {
				g.resources[r.Name] = r
			}
		}
	}
	if len(f.t.Spec.Resources) == 0 && len(f.t.Spec.Groups) == 0 {
		f.Missing(under(spec, "resources"), "must have at least one resource or group")
	}
	f.unique(under(spec, "outputs"), f.t.Spec.Outputs, func(o Output) string { return o.Name })
	for i, o := range f.t.Spec.Outputs {
		f.words(under(spec, "outputs", i), o.Description, nil)
		if o.Value == nil {
			f.Missing(under(spec, "outputs", i, "value"), "is required")
		}
	}
}

func (f *file) unique(path []any, outputs []Output, name func(Output) string) {
	seen := map[string]bool{}
	for i, o := range outputs {
		f.name(under(path, i, "name"), name(o), seen)
	}
}

// name checks one name of a resource, group or output.
func (f *file) name(path []any, name string, seen map[string]bool) {
	switch underscored := strings.ReplaceAll(name, "-", "_"); {
	case name == "":
		f.Missing(path, "is required: a word such as db")
	case !wordForm.MatchString(name) && wordForm.MatchString(underscored):
		f.At(path, "must be letters, digits and _, so that expressions can name it: %s", underscored)
	case !wordForm.MatchString(name):
		f.At(path, "must be letters, digits and _, beginning with a letter")
	case slices.Contains(taken, name):
		f.At(path, "is a word of expressions; choose another name")
	case seen[name]:
		f.At(path, "the name %.64q is there twice", name)
	}
	seen[name] = true
}

func nameable(name string) bool { return wordForm.MatchString(name) && !slices.Contains(taken, name) }

// resource checks one resource's plain fields.
func (f *file) resource(made *Resource, g *group, path []any, seen map[string]bool) *resource {
	r := &resource{Resource: made, key: made.Name, group: g, path: path, secret: map[string]bool{}, places: map[string]document.Place{}}
	if g != nil {
		r.key = g.Name + "." + made.Name
	}
	for _, part := range []string{"with", "count", "when", "needs", "executor", "checks", "links"} {
		r.places[part] = f.Root().Find(under(path, part)).At
	}
	r.places[""] = f.Root().Find(path).At
	f.t.resources = append(f.t.resources, r)
	f.name(under(path, "name"), made.Name, seen)
	f.words(path, made.Description, made.Tags)
	f.oneOf(under(path, "drift"), made.Drift, DriftReport, DriftCorrect, DriftIgnore)
	if made.Retries != nil && (*made.Retries < 0 || *made.Retries > 100) {
		f.At(under(path, "retries"), "must be from 0 to 100")
	}
	for i, e := range made.External {
		at := under(path, "external", i)
		f.form(under(at, "name"), e.Name, outsideForm, "a name such as payments-api")
		f.words(at, e.Description, nil)
		if u, err := url.Parse(e.URL); e.URL != "" && (err != nil || u.Scheme != "https" && u.Scheme != "http") {
			f.At(under(at, "url"), "must be a URL such as https://example.org")
		}
	}
	described, known := f.r.around.Executors[made.Executor]
	switch {
	case made.Executor == "":
		f.Missing(under(path, "executor"), "is required: %s", strings.Join(slices.Sorted(maps.Keys(f.r.around.Executors)), ", "))
	case !known:
		f.At(under(path, "executor"), "there is no executor %.64q; %s", made.Executor,
			near(made.Executor, f.r.around.Executors, "there are "+strings.Join(slices.Sorted(maps.Keys(f.r.around.Executors)), ", ")))
	case made.Connection != "" && !described.Connects:
		f.At(under(path, "connection"), "executor %s has no connections", made.Executor)
	case described.Connects:
		made.Connection = cmp.Or(made.Connection, "default")
	}
	r.described = described
	for name, o := range described.Outputs {
		r.secret[name] = o.Secret
	}
	for i, name := range made.Secret {
		if _, listed := described.Outputs[name]; known && !listed && !described.Open {
			f.At(under(path, "secret", i), "executor %s has no output %.64q; %s", made.Executor, name,
				near(name, described.Outputs, "it has "+strings.Join(slices.Sorted(maps.Keys(described.Outputs)), ", ")))
		}
		r.secret[name] = true
	}
	return r
}

// near suggests a name, or says something else.
func near[V any](name string, known map[string]V, otherwise string) string {
	if n := document.Nearest(name, known); n != "" && (len(name) > 4 || strings.EqualFold(n[:1], name[:1])) {
		return "did you mean " + n + "?"
	}
	return otherwise
}

func (f *file) oneOf(path []any, value string, known ...string) {
	if value != "" && !slices.Contains(known, value) {
		f.At(path, "must be %s", strings.Join(known, ", "))
	}
}

// fill writes out what a file may leave unsaid, so that nobody else needs to know
// the defaults.
func (s *Spec) fill() {
	s.AtOnce = cmp.Or(s.AtOnce, 10)
	fillChecks(s.Checks)
	for i := range s.Resources {
		s.Resources[i].fill()
	}
	for i := range s.Groups {
		for j := range s.Groups[i].Resources {
			s.Groups[i].Resources[j].fill()
		}
	}
	for i := range s.Actions {
		s.Actions[i].Timeout = cmp.Or(s.Actions[i].Timeout, document.Duration(5*time.Minute))
	}
}

func (r *Resource) fill() {
	r.Drift = cmp.Or(r.Drift, DriftReport)
	if r.Retries == nil {
		three := 3
		r.Retries = &three
	}
	fillChecks(r.Checks)
}

func fillChecks(checks []Check) {
	for i := range checks {
		c := &checks[i]
		if c.Name == "" {
			c.Name = "check"
			if len(checks) > 1 {
				c.Name = fmt.Sprintf("check-%d", i+1)
			}
		}
		c.Every = cmp.Or(c.Every, document.Duration(10*time.Second))
		c.Timeout = cmp.Or(c.Timeout, document.Duration(5*time.Second))
		c.Within = cmp.Or(c.Within, document.Duration(5*time.Minute))
		c.Passes, c.Failures = cmp.Or(c.Passes, 1), cmp.Or(c.Failures, 3)
		if c.Consul != "" {
			c.Connection = cmp.Or(c.Connection, "default")
		}
	}
}
