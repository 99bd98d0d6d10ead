package cli

import (
	"fmt"
	"net/netip"
	"time"
)

// checkRetention takes none, or a time that readers of the log can be away for.
func checkRetention(text string) error {
	if d, err := time.ParseDuration(text); err == nil && d == 0 {
		return nil
	}
	return checkDuration(24*time.Hour, 100*365*24*time.Hour)(text)
}

func checkNetworks(text string) error {
	for _, word := range split(text) {
		if _, err := netip.ParsePrefix(word); err != nil {
			return fmt.Errorf("%s is not a network such as 10.0.0.0/8 or 2001:db8::/32", quoted(word))
		}
	}
	return nil
}
