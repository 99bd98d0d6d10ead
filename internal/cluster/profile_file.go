package cluster

import (
	"cmp"
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strings"

	"github.com/droverhq/drover/internal/document"
	"github.com/droverhq/drover/internal/offering"
)

// ProfileFile is a profile's file.
type ProfileFile struct {
	APIVersion string            `json:"apiVersion"`
	Kind       string            `json:"kind"`
	Metadata   offering.Metadata `json:"metadata"`
	Spec       Profile           `json:"spec"`
}

// ProfileKind heads every profile's file.
const ProfileKind = "ClusterProfile"

// Who speaks for the clusters of a profile.
const (
	AgentDrover  = "drover"
	AgentOutside = "outside"
)

// Modes of scaling.
const (
	ScalingOff    = "off"
	ScalingDryRun = "dry-run"
	ScalingOn     = "on"
)

var (
	profileForm = regexp.MustCompile(`^[a-z]([a-z0-9-]{0,61}[a-z0-9])?$`)
	labelKey    = regexp.MustCompile(`^[a-z0-9A-Z]([-a-z0-9A-Z_./]{0,251}[a-z0-9A-Z])?$`)
	labelValue  = regexp.MustCompile(`^([a-z0-9A-Z]([-a-z0-9A-Z_.]{0,61}[a-z0-9A-Z])?)?$`)
)

// ParseProfile reads and compiles a file of YAML or JSON. makers are the
// providers of clusters that there are. The error is fault.Invalid (reason
// "profile") with all mistakes, each with its place.
func ParseProfile(source string, data []byte, makers []string) (ProfileFile, *offering.Steps, error) {
	var file ProfileFile
	var steps *offering.Steps
	err := document.Read(source, data, document.Form{Kind: "profile"}, &file, func(f *document.File) {
		at := func(message string, path ...any) { f.Inside(path, 0, message) }
		if file.APIVersion != offering.APIVersion {
			at("must be "+offering.APIVersion, "apiVersion")
		}
		if file.Kind != ProfileKind {
			at("must be "+ProfileKind, "kind")
		}
		if !profileForm.MatchString(file.Metadata.Name) {
			at("must be lower-case letters, digits and dashes, such as small", "metadata", "name")
		}
		file.Spec.check(makers, func(message string, path ...any) { at(message, document.Under([]any{"spec"}, path...)...) })
		steps = offering.CompileSteps(file.Spec.Steps, func(path []any, offset int, message string) {
			f.Inside(document.Under([]any{"spec", "steps"}, path...), offset, message)
		})
	})
	return file, steps, err
}

// check reports what the types of the fields cannot say.
func (p *Profile) check(makers []string, at func(message string, path ...any)) {
	if !slices.Contains(makers, p.Maker) {
		at("must be one of "+strings.Join(slices.Sorted(slices.Values(makers)), ", "), "maker")
	}
	for i, s := range p.Serves {
		if s.Provider == "" {
			at("is required: instances are placed by it", "serves", i, "provider")
		}
		if len(s.Regions) == 0 || slices.Contains(s.Regions, "") {
			at("must name at least one region", "serves", i, "regions")
		}
	}
	checkLabels(p.Labels, func(message, key string) { at(message, "labels", key) })
	checkTaints(p.Taints, func(message string, i int) { at(message, "taints", i) })
	if p.Nodes < 0 || p.Nodes > 1_000_000 {
		at("must be between 0 and 1000000", "nodes")
	}
	if p.Units < 0 || p.Units > maxUnits {
		at("must not be negative", "units")
	}
	if p.Agent = cmp.Or(p.Agent, AgentDrover); p.Agent != AgentDrover && p.Agent != AgentOutside {
		at("must be drover or outside", "agent")
	}
	s := &p.Scaling
	if s.Mode = cmp.Or(s.Mode, ScalingOff); s.Mode != ScalingOff && s.Mode != ScalingDryRun && s.Mode != ScalingOn {
		at("must be off, dry-run or on", "scaling", "mode")
	}
	if s.Mode != ScalingOff && len(p.Serves) == 0 {
		at("needs serves: where clusters may be made", "scaling", "mode")
	}
	if s.Mode == ScalingOn && p.Maker == "standalone" {
		at("cannot be on with the maker standalone, which makes no clusters", "scaling", "mode")
	}
	if s.Min < 0 {
		at("must not be negative", "scaling", "min")
	}
	if s.Max < 0 || s.Max > 0 && s.Max < s.Min {
		at("must not be less than min; 0 is no bound", "scaling", "max")
	}
}

func checkLabels(labels map[string]string, wrong func(message, key string)) {
	for _, key := range slices.Sorted(maps.Keys(labels)) {
		if !labelKey.MatchString(key) || !labelValue.MatchString(labels[key]) {
			wrong("labels are words of letters, digits, dashes, underscores and dots", key)
		}
	}
}

func checkTaints(taints []string, wrong func(message string, i int)) {
	for i, taint := range taints {
		switch {
		case !labelKey.MatchString(taint):
			wrong("a taint is a word of letters, digits, dashes, underscores and dots", i)
		case slices.Contains(taints[:i], taint):
			wrong(fmt.Sprintf("%q is there twice", taint), i)
		}
	}
}

// place finds where a profile's clusters may stand; the first where nothing is
// said. A profile that says nothing itself goes anywhere.
func (p *Profile) place(provider, region string) (Serves, string, bool) {
	for _, s := range p.Serves {
		if (provider == "" || s.Provider == provider) && (region == "" || slices.Contains(s.Regions, region)) {
			return s, cmp.Or(region, s.Regions[0]), true
		}
	}
	return Serves{Provider: provider}, region, len(p.Serves) == 0 && provider != "" && region != ""
}
