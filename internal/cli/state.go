package cli

import (
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	v1 "github.com/droverhq/drover/api/v1"
)

// instanceState is what people want to know of an instance's documents.
type instanceState struct {
	Spec struct {
		Type      string            `json:"type"`
		Size      string            `json:"size"`
		Provider  string            `json:"provider"`
		Region    string            `json:"region"`
		Versions  map[string]string `json:"versions"`
		Suspended bool              `json:"suspended"`
		Billing   bill              `json:"billing"`
	}
	Status struct {
		Expires   time.Time         `json:"expires"`
		Cluster   string            `json:"cluster"`
		Placed    string            `json:"placed"`
		Source    string            `json:"source"`
		Resting   bool              `json:"resting"`
		Paid      bill              `json:"paid"`
		Promotion string            `json:"promotion"`
		Details   string            `json:"promotion_details"`
		Client    string            `json:"client"`
		Versions  map[string]string `json:"versions"`
		Published map[string]string `json:"published"`
		Named     bool              `json:"named"`
		Certified bool              `json:"certified"`
		Routes    []struct {
			Host   string `json:"host"`
			Router string `json:"router"`
		} `json:"routes"`
		Observed *struct {
			Versions  map[string]string `json:"versions"`
			Upgrading []string          `json:"upgrading"`
			AdminURL  string            `json:"admin_url"`
		} `json:"observed"`
	}
}

type bill struct {
	Model       string `json:"model"`
	Marketplace string `json:"marketplace"`
	Account     string `json:"account"`
}

func (b bill) String() string {
	if b.Marketplace == "" {
		return b.Model
	}
	return fmt.Sprintf("%s (%s, account %s)", b.Model, b.Marketplace, b.Account)
}

// stateOf reads as much as there is: what cannot be read is left out.
func stateOf(o v1.Object) (s instanceState) {
	_ = json.Unmarshal(o.Spec, &s.Spec)
	_ = json.Unmarshal(o.Status, &s.Status)
	return s
}

// instanceFacts are the lines of `drover describe` that only instances have.
func instanceFacts(o v1.Object, now time.Time) [][2]string {
	s := stateOf(o)
	var out [][2]string
	add := func(name, text string) {
		if text != "" {
			out = append(out, [2]string{name, text})
		}
	}
	if s.Spec.Type != "" {
		add("Plan", s.Spec.Type+"."+s.Spec.Size+" in "+s.Spec.Provider+"/"+s.Spec.Region)
	}
	if s.Status.Cluster != "" && s.Status.Placed != "" {
		add("Cluster", s.Status.Cluster+", because "+s.Status.Placed)
	} else {
		add("Cluster", s.Status.Cluster)
	}
	add("Billing", s.Status.Paid.String())
	switch s.Status.Promotion {
	case "":
	case "promoting":
		add("Promotion", "to "+s.Spec.Billing.String()+", under way")
	default:
		add("Promotion", s.Status.Promotion+": "+s.Status.Details)
	}
	add("Quota", s.Status.Source)
	if end := s.Status.Expires; !end.IsZero() {
		left := "in " + age(end.Sub(now))
		if end.Before(now) {
			left = "over"
		}
		add("Expires", end.Local().Format(time.RFC3339)+" ("+left+")")
	}
	if s.Status.Resting {
		add("Suspended", "because its end is near")
	} else if s.Spec.Suspended {
		add("Suspended", "by an operator")
	}
	add("Versions", s.versions())
	for _, r := range s.Status.Routes {
		if r.Router == "" {
			continue
		}
		text := r.Host + " → " + r.Router
		switch {
		case s.Status.Published[r.Host] != "":
			text += " (in DNS)"
		case s.Status.Named:
			text += " (not in DNS yet)"
		}
		add("Route", text)
	}
	add("Identity", s.Status.Client)
	if s.Status.Certified {
		add("Certificate", "there")
	}
	if seen := s.Status.Observed; seen != nil {
		add("Admin URL", seen.AdminURL)
	}
	return out
}

// versions tells each component's wanted version, and the actual one where it
// is another.
func (s instanceState) versions() string {
	wanted := maps.Clone(s.Status.Versions)
	if wanted == nil {
		wanted = map[string]string{}
	}
	maps.Copy(wanted, s.Spec.Versions)
	var parts []string
	for _, name := range slices.Sorted(maps.Keys(wanted)) {
		text := name + " " + wanted[name]
		if seen := s.Status.Observed; seen != nil {
			switch actual := seen.Versions[name]; {
			case slices.Contains(seen.Upgrading, name):
				text += " (being upgraded from " + actual + ")"
			case actual != "" && actual != wanted[name]:
				text += " (still " + actual + ")"
			}
		}
		parts = append(parts, text)
	}
	return strings.Join(parts, ", ")
}
