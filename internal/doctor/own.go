package doctor

import (
	"fmt"
	"time"
)

// credentials are those that the server itself opens doors with.
func credentials(f Facts) (out []Finding) {
	for _, c := range f.Credentials {
		if c.Trouble == "" {
			continue
		}
		found := Finding{ID: "credential", Severity: Warning, What: fmt.Sprintf("what opens %s cannot be renewed", c.Door), Why: short(c.From + ": " + c.Trouble)}
		switch left := c.Ends.Sub(f.Now); {
		case c.Ends.IsZero():
		case left <= 0:
			found.Severity, found.What = Critical, fmt.Sprintf("what opens %s has ended", c.Door)
			found.Why += fmt.Sprintf("; it ended at %s: what is open goes on for as long as the other side lets it, and nothing new is opened", c.Ends.UTC().Format(time.RFC3339))
		default:
			found.Why += fmt.Sprintf("; what there is ends at %s, in %s", c.Ends.UTC().Format(time.RFC3339), left.Round(time.Second))
		}
		found.Do = []string{"see that Vault answers, and that Drover's role may read the path: --vault, --vault-options", "nothing needs a restart: it is tried again every second"}
		if c.Sealed {
			found.Do[0] = "vault operator unseal   # it is sealed"
		}
		out = append(out, found)
	}
	return out
}

// names are those of services whose addresses are old, and this replica's own.
func names(f Facts) (out []Finding) {
	for _, n := range f.Names {
		out = append(out, Finding{ID: "name-old", Severity: Warning, What: "nobody says where " + n.Name + " is now: the addresses of before stay in use",
			Why: short(n.Why), Do: []string{"see that Consul answers and that the service's checks pass: --consul, consul catalog services", "since " + n.Since.UTC().Format(time.RFC3339) + " nothing newer is known; it is asked again with each connection"}})
	}
	if f.Unregistered != "" {
		out = append(out, Finding{ID: "unregistered", Severity: Warning, What: "others do not find this replica in Consul", Why: short(f.Unregistered),
			Do: []string{"see that Consul answers, and that Drover's token may write the service: --consul, --consul-options", "it is registered again by itself"}})
	}
	return out
}
