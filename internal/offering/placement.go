package offering

import (
	"maps"
	"slices"
)

// checkPlacement reports what is wrong with how clusters are chosen.
func (f file) checkPlacement(s *Spec, path []any) {
	p := &s.Placement
	f.oneOf(under(path, "strategy"), p.Strategy, []string{FirstFit, BestFit, Spread})
	f.oneOf(under(path, "by"), p.By, []string{ByZone, ByTenant})
	if p.By != "" && p.Strategy != Spread {
		f.At(under(path, "by"), "is for the strategy %s", Spread)
	}
	for _, name := range slices.Sorted(maps.Keys(p.Labels)) {
		if !fieldForm.MatchString(name) {
			f.At(under(path, "labels", name), "is not a name of a label")
		}
	}
	seen := map[string]bool{}
	for i, taint := range p.Tolerates {
		f.form(under(path, "tolerates", i), taint, fieldForm, "a word such as gpu")
		f.unique(seen, taint, under(path, "tolerates", i))
	}
	for _, name := range slices.Sorted(maps.Keys(p.Slack)) {
		at := under(path, "slack", name)
		if !slices.ContainsFunc(s.Types, func(t Type) bool { return t.Name == name }) {
			f.At(at, "there is no instance type %.64q", name)
		}
		if p.Slack[name] < 0 {
			f.At(at, "must not be negative")
		}
	}
}

// Largest is the most units that one instance of a type takes, of those sizes
// that take no more than is left; a negative number leaves all.
func (t Type) Largest(left int64) int64 {
	var most int64
	for _, s := range t.Sizes {
		if left < 0 || s.Capacity <= left {
			most = max(most, s.Capacity)
		}
	}
	return most
}

// Warm is how many units a cluster keeps for items that nobody ordered.
func (o *Offering) Warm(typeName string) int64 {
	t, ok := o.TypeOf(typeName)
	if !ok || o.Spec.Reserved == nil || len(t.Sizes) == 0 {
		return 0
	}
	return t.Reserved * t.Sizes[0].Capacity
}
