package offering

import (
	"cmp"
	"context"
	"net/http"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"github.com/droverhq/drover/internal/fault"
)

// Allowed reports whether a field of Changes may go from one value to another.
// Faults: Invalid, reason "field", with the field's own message.
func (o *Offering) Allowed(ctx context.Context, field Field, old, new any) error {
	if field.Allowed == "" {
		return nil
	}
	rule, known := o.allowed[field.Allowed]
	if !known {
		return fault.New(fault.Internal, "offering %s has no such rule", o.Metadata.Name)
	}
	yes, err := rule.Render(ctx, map[string]any{"old": old, "new": new})
	if fault.Is(err, fault.Unavailable) {
		return err // its caller has gone: nothing was decided
	}
	if err != nil || yes != true { // a value that the rule cannot read is none that it allows
		return fault.New(fault.Invalid, "%s", field.Message).Because("field")
	}
	return nil
}

// How far back a component's version may go.
const (
	DowngradeAny   = "any"
	DowngradeMinor = "minor"
	DowngradeNever = "never"
)

// Upgrade reports whether a component may go from one version to another.
// Whether the other one is sold is Version's to say. Faults: Invalid, reason "version".
func (o *Offering) Upgrade(component, from, to string) error {
	i := slices.IndexFunc(o.Spec.Components, func(c Component) bool { return c.Name == component })
	if i < 0 {
		return fault.New(fault.Invalid, "%s has no component %.64q", o.Spec.Names.Kind, component).Because("version")
	}
	c := o.Spec.Components[i]
	if from == "" || from == to || c.Downgrade == DowngradeAny {
		return nil
	}
	old, next := release(from), release(to)
	if old == nil || next == nil { // names: the file's order is all there is
		old, next = []int{slices.Index(c.Versions, from)}, []int{slices.Index(c.Versions, to)}
	} else if c.Downgrade != DowngradeNever {
		old, next = old[:min(2, len(old))], next[:min(2, len(next))]
	}
	if compareReleases(next, old) < 0 {
		return fault.New(fault.Invalid, "%s cannot go back from version %.64s to %.64s", component, from, to).Because("version")
	}
	return nil
}

var numbersForm = regexp.MustCompile(`[0-9]+(\.[0-9]+)+`)

// release finds the numbers of a version such as 3.0.1 or
// operator.v0.23.0-4; nil if there are none.
func release(version string) []int {
	at := numbersForm.FindStringIndex(version)
	if at == nil {
		return nil
	}
	var out []int
	for _, part := range strings.Split(version[at[0]:at[1]], ".") {
		n, err := strconv.Atoi(part)
		if err != nil {
			return nil
		}
		out = append(out, n)
	}
	if _, build, ok := strings.Cut(version[at[1]:], "-"); ok { // the 4 of 0.23.0-4
		if n, err := strconv.Atoi(build); err == nil {
			out = append(out, n)
		}
	}
	return out
}

// compareReleases takes a number that is missing for 0.
func compareReleases(a, b []int) int {
	for i := range max(len(a), len(b)) {
		var x, y int
		if i < len(a) {
			x = a[i]
		}
		if i < len(b) {
			y = b[i]
		}
		if c := cmp.Compare(x, y); c != 0 {
			return c
		}
	}
	return 0
}

// Serves reports whether the API has a collection or verb beside the instances.
func (o *Offering) Serves(what string) bool { return slices.Contains(o.Spec.API.Serves, what) }

// AdminRoles are the roles of which one is needed to call the operators' API
// with an HTTP method; none: nobody may.
func (o *Offering) AdminRoles(method string) []string {
	if o.Spec.Admin.Roles != nil {
		return o.Spec.Admin.Roles[method]
	}
	return defaultRoles[method]
}

var defaultRoles = map[string][]string{
	http.MethodGet:    {"drover-admin-full", "drover-admin-write", "drover-admin-read"},
	http.MethodPatch:  {"drover-admin-full", "drover-admin-write"},
	http.MethodPost:   {"drover-admin-full"},
	http.MethodDelete: {"drover-admin-full"},
}
