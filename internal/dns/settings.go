package dns

import (
	"os"
	"slices"
	"strings"

	"github.com/droverhq/drover/internal/fault"
)

// Settings of a provider as an operator writes them. Secrets are not among
// them: a setting with the ending -file or -env says where one is.
type Settings map[string]string

// Check refuses settings that nobody reads: a misspelt one would be ignored.
func (s Settings) Check(provider string, known ...string) error {
	for name := range s {
		if !slices.Contains(known, name) {
			slices.Sort(known)
			return fault.New(fault.Invalid, "the DNS provider %s has no setting %q; it has %s", provider, name, strings.Join(known, ", ")).Because("dns-setting")
		}
	}
	return nil
}

// Secret reads the secret that <name>-file or <name>-env points to; neither is
// an empty secret, and one that cannot be read is Invalid.
func (s Settings) Secret(name string) (string, error) {
	path, variable := s[name+"-file"], s[name+"-env"]
	var value string
	switch {
	case path != "" && variable != "":
		return "", fault.New(fault.Invalid, "%s-file and %s-env are both set", name, name).Because("dns-setting")
	case path != "":
		data, err := os.ReadFile(path)
		if err != nil {
			return "", fault.New(fault.Invalid, "cannot read %s-file: %w", name, err).Because("dns-setting")
		}
		value = strings.TrimSpace(string(data))
	case variable != "":
		value = strings.TrimSpace(os.Getenv(variable))
	default:
		return "", nil
	}
	if value == "" {
		return "", fault.New(fault.Invalid, "the secret that %s-file or %s-env points to is empty", name, name).Because("dns-setting")
	}
	return value, nil
}
