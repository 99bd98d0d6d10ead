package dns

import (
	"bytes"
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/goccy/go-yaml"

	"github.com/droverhq/drover/internal/fault"
)

// Open makes a provider of its settings: what a provider's folder exports as New.
type Open func(Settings) (Provider, error)

// file is how an operator writes zones down.
type file struct {
	Installation string `yaml:"installation"`
	Zones        []struct {
		Name     string   `yaml:"name"`
		Provider string   `yaml:"provider"`
		Servers  []string `yaml:"servers"`
		Settings Settings `yaml:"settings"`
	} `yaml:"zones"`
}

// Read makes the Config of a YAML file. The installation is that of the file, or
// else the given one. All mistakes are reported at once; secrets are in none.
func Read(data []byte, installation string, providers map[string]Open) (Config, error) {
	var f file
	// The decoder's own message would show the lines around a mistake.
	if err := yaml.NewDecoder(bytes.NewReader(data), yaml.DisallowUnknownField()).Decode(&f); err != nil && len(bytes.TrimSpace(data)) > 0 {
		first, _, _ := strings.Cut(yaml.FormatError(err, false, false), "\n")
		return Config{}, fault.New(fault.Invalid, "cannot read the file of DNS zones: %s", first).Because("dns-setting")
	}
	c := Config{Installation: cmp.Or(f.Installation, installation)}
	var wrong []string
	for i, z := range f.Zones {
		open, ok := providers[z.Provider]
		if !ok {
			known := slices.Sorted(maps.Keys(providers))
			wrong = append(wrong, fmt.Sprintf("zones[%d]: there is no DNS provider %q; there are %s", i, z.Provider, strings.Join(known, ", ")))
			continue
		}
		p, err := open(z.Settings)
		if err != nil {
			wrong = append(wrong, fmt.Sprintf("zones[%d]: %v", i, err))
			continue
		}
		c.Zones = append(c.Zones, Zone{Name: z.Name, Provider: p, Servers: z.Servers})
	}
	if wrong != nil {
		return Config{}, fault.New(fault.Invalid, "the file of DNS zones is wrong: %s", strings.Join(wrong, "; ")).Because("dns-setting")
	}
	return c, nil
}
