package policy

import (
	"fmt"
	"strings"
)

// inShort says in a line what a policy says.
func inShort(value any) string {
	switch x := value.(type) {
	case *Quota:
		who := "account " + x.Account
		if x.Organisation != "" {
			who = "organisation " + x.Organisation
		}
		var grants []string
		for _, g := range x.Grants {
			if len(g.Billing) == 0 {
				grants = append(grants, fmt.Sprintf("%s %s %s", g.Offering, g.Type, count(g.Units)))
			}
			for _, b := range g.Billing {
				grants = append(grants, fmt.Sprintf("%s %s/%s %s", g.Offering, g.Type, b.Model, count(b.Units)))
			}
		}
		if len(grants) == 0 {
			return who + ": nothing"
		}
		return cut(who + ": " + strings.Join(grants, ", "))
	case *DenyList:
		if len(x.Organisations) > 0 {
			return "denies " + some(len(x.Users), "user") + ", " + some(len(x.Organisations), "organisation")
		}
		return "denies " + some(len(x.Users), "user")
	case *AccessList:
		if !x.Enabled {
			return "disabled: everybody is let in"
		}
		return "lets " + some(len(x.Organisations), "organisation") + " in"
	case *Terms:
		return cut("version " + x.Version + " " + x.URL)
	}
	return ""
}

func count(units int64) string {
	if units < 0 {
		return "without limit"
	}
	return fmt.Sprint(units)
}

func some(n int, what string) string {
	if n != 1 {
		what += "s"
	}
	return fmt.Sprintf("%d %s", n, what)
}

// cut keeps a line short.
func cut(s string) string {
	if s = strings.TrimSpace(s); len(s) > 200 {
		s = strings.ToValidUTF8(s[:197], "") + "..."
	}
	return s
}
