package cli

import (
	"cmp"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"time"

	v1 "github.com/droverhq/drover/api/v1"
)

// profileState is what people want to know of a cluster profile.
type profileState struct {
	Spec struct {
		Maker   string            `json:"maker"`
		Options map[string]string `json:"options"`
		Serves  []struct {
			Provider string   `json:"provider"`
			Regions  []string `json:"regions"`
			Offering string   `json:"offering"`
			Types    []string `json:"types"`
		} `json:"serves"`
		Labels map[string]string `json:"labels"`
		Taints []string          `json:"taints"`
		Nodes  int64             `json:"nodes"`
		Units  int64             `json:"units"`
		Agent  string            `json:"agent"`
		Steps  []struct {
			Name      string            `json:"name"`
			Needs     []string          `json:"needs"`
			Manifests []json.RawMessage `json:"manifests"`
		} `json:"steps"`
		Scaling struct {
			Mode     string `json:"mode"`
			Min      int64  `json:"min"`
			Max      int64  `json:"max"`
			Cooldown string `json:"cooldown"`
			Idle     string `json:"idle"`
		} `json:"scaling"`
	}
	Status struct {
		Scaling []struct {
			v1.ScaleNote
			Pending bool                 `json:"pending"`
			Spare   map[string]time.Time `json:"spare"`
		} `json:"scaling"`
	}
}

// profileOf reads as much as there is: what cannot be read is left out.
func profileOf(o v1.Object) (p profileState) {
	_ = json.Unmarshal(o.Spec, &p.Spec)
	_ = json.Unmarshal(o.Status, &p.Status)
	return p
}

func (p profileState) places() string {
	var out []string
	for _, s := range p.Spec.Serves {
		text := s.Provider + "/" + strings.Join(s.Regions, ",")
		if only := strings.Join(append([]string{s.Offering}, s.Types...), " "); strings.TrimSpace(only) != "" {
			text += " (" + strings.TrimSpace(only) + ")"
		}
		out = append(out, text)
	}
	return cmp.Or(strings.Join(out, "; "), "anywhere")
}

func (p profileState) scaling() string {
	s := p.Spec.Scaling
	mode := cmp.Or(s.Mode, "off")
	if mode == "off" {
		return mode
	}
	most := "any number"
	if s.Max > 0 {
		most = strconv.FormatInt(s.Max, 10)
	}
	return fmt.Sprintf("%s, %d to %s per region", mode, s.Min, most)
}

// says is what scaling decided last, where that is not to stay.
func (p profileState) says() string {
	for _, n := range p.Status.Scaling {
		if n.Do != "stay" {
			return n.Place + ": " + decision(n.ScaleNote)
		}
	}
	return ""
}

func profileFacts(o v1.Object) [][2]string {
	p := profileOf(o)
	out := [][2]string{{"Made by", p.Spec.Maker}}
	add := func(name, text string) {
		if text != "" {
			out = append(out, [2]string{name, text})
		}
	}
	add("Options", strings.Join(pairsOf(p.Spec.Options), " "))
	add("Serves", p.places())
	if p.Spec.Units > 0 {
		add("Expects", count(p.Spec.Units, "unit")+" of a new cluster")
	}
	if p.Spec.Nodes > 0 {
		add("Nodes", strconv.FormatInt(p.Spec.Nodes, 10))
	}
	add("Agent", p.Spec.Agent)
	add("Labels", strings.Join(pairsOf(p.Spec.Labels), " "))
	add("Taints", strings.Join(p.Spec.Taints, " "))
	scaling := p.scaling()
	if s := p.Spec.Scaling; scaling != "off" {
		scaling += fmt.Sprintf(", cooldown %s, idle %s", cmp.Or(s.Cooldown, "10m"), cmp.Or(s.Idle, "30m"))
	}
	add("Scaling", scaling)
	return out
}

func (c *CLI) profileSections(o v1.Object) error {
	p := profileOf(o)
	if len(p.Spec.Steps) > 0 {
		c.printf("\nSteps:\n")
		t := &table{head: []string{"  STEP", "OBJECTS", "NEEDS"}}
		for _, s := range p.Spec.Steps {
			t.add("  "+s.Name, strconv.Itoa(len(s.Manifests)), strings.Join(s.Needs, ","))
		}
		if err := t.write(c.cfg.Out); err != nil {
			return err
		}
	}
	if p.scaling() == "off" {
		return nil
	}
	c.printf("\nWhat scaling decided:\n")
	if len(p.Status.Scaling) == 0 {
		c.printf("  nothing yet: places are looked at every minute\n")
		return nil
	}
	t := &table{head: []string{"  PLACE", "DECISION", "WHY", "LAST", "SPARE"}}
	for _, n := range p.Status.Scaling {
		done := decision(n.ScaleNote)
		if n.Pending {
			done += ", under way"
		}
		var spare []string
		for _, cluster := range slices.Sorted(maps.Keys(n.Spare)) {
			spare = append(spare, cluster+" for "+age(c.now().Sub(n.Spare[cluster])))
		}
		t.add("  "+n.Place, done, n.Reason, c.ago(n.At), strings.Join(spare, ", "))
	}
	return t.write(c.cfg.Out)
}
