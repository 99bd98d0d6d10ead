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

// clusterState is what people want to know of a cluster's documents.
type clusterState struct {
	Spec struct {
		Provider      string            `json:"provider"`
		Region        string            `json:"region"`
		Types         []string          `json:"types"`
		Offering      string            `json:"offering"`
		Domain        string            `json:"domain"`
		Org           string            `json:"org"`
		Profile       string            `json:"profile"`
		Labels        map[string]string `json:"labels"`
		Taints        []string          `json:"taints"`
		Unschedulable bool              `json:"unschedulable"`
		Draining      bool              `json:"draining"`
		Limit         *int64            `json:"limit"`
		Fleet         bool              `json:"fleet"`
		Abandoned     string            `json:"abandoned"`
	}
	Status struct {
		Capacity     int64               `json:"capacity"`
		Units        map[string]typeRoom `json:"units"`
		Installation string              `json:"installation"`
		Reason       string              `json:"reason"`
		Message      string              `json:"message"`
		Operation    string              `json:"operation"`
		Maker        *struct {
			Name string `json:"name"`
		} `json:"maker"`
		Steps    []clusterStep `json:"steps"`
		Platform struct {
			Kind    string `json:"kind"`
			Version string `json:"version"`
			Nodes   int64  `json:"nodes"`
			Routes  string `json:"routes"`
		} `json:"platform"`
		Strays   []string `json:"strays"`
		Protocol int      `json:"protocol"`
		Version  string   `json:"version"`
	}
}

type typeRoom struct {
	Max       int64 `json:"max"`
	Remaining int64 `json:"remaining"`
}

type clusterStep struct {
	Name    string   `json:"name"`
	Needs   []string `json:"needs"`
	State   string   `json:"state"`
	Message string   `json:"message"`
	Objects int      `json:"objects"`
}

// clusterOf reads as much as there is: what cannot be read is left out.
func clusterOf(o v1.Object) (s clusterState) {
	_ = json.Unmarshal(o.Spec, &s.Spec)
	_ = json.Unmarshal(o.Status, &s.Status)
	return s
}

// putAgent is the step that puts the agent on a cluster that the control plane
// reaches.
const putAgent = "drover.agent/agent"

// steps counts those that are wanted, and names the one that it is at.
func (s clusterState) steps() (ready, all int, at clusterStep) {
	for _, step := range s.Status.Steps {
		if step.State == "removing" {
			continue
		}
		all++
		switch {
		case step.State == "ready":
			ready++
		case at.Name == "" || at.State == "waiting" && step.State != "waiting":
			at = step
		}
	}
	return ready, all, at
}

// clusterDetail is what a cluster is at within its phase, for whoever waits.
func clusterDetail(o v1.Object) string {
	s := clusterOf(o)
	if ready, all, at := s.steps(); o.Phase == "cluster_provisioned" && all > 0 {
		if at.Name == "" {
			return ""
		}
		text := fmt.Sprintf("step %d of %d: %s", ready+1, all, at.Name)
		if at.Message != "" {
			text += ": " + at.Message
		}
		return text
	}
	if o.Phase == "waiting_for_fleetshard_operator" && s.Status.Installation == "" {
		return cmp.Or(s.Status.Message, "its agent has not connected yet")
	}
	return s.Status.Message
}

// aside says why a cluster takes no new orders; "" if it does.
func (s clusterState) aside() string {
	switch {
	case s.Spec.Abandoned != "":
		return "given up as lost"
	case s.Spec.Draining && s.Status.Operation == "":
		return "drained"
	case s.Spec.Draining:
		return "being drained"
	case s.Spec.Unschedulable:
		return "takes no new orders"
	}
	return ""
}

// notReady says in words what a cluster lacks, and what to do about it.
func (s clusterState) notReady(o v1.Object) string {
	name := clean(o.ID, false)
	said := s.Status.Message
	switch o.Phase {
	case "ready":
		return ""
	case "abandoned":
		return "it was given up as lost: " + clean(s.Spec.Abandoned, false) + ". Delete what ran there, then `drover cluster delete " + name + "`"
	case "cluster_accepted":
		return cmp.Or(said, "nobody has begun to make it yet")
	case "cluster_provisioning":
		by := "its maker"
		if s.Status.Maker != nil {
			by = s.Status.Maker.Name
		}
		return cmp.Or(said, by+" is making it")
	case "cluster_provisioned":
		ready, all, at := s.steps()
		text := fmt.Sprintf("it is being made fit: %d of %d steps are ready", ready, all)
		if at.Name != "" {
			text += ", now " + at.Name
		}
		if at.Message != "" {
			text += " (" + at.Message + ")"
		}
		if s.Status.Installation == "" && s.Status.Maker == nil {
			text += ". Its agent has not connected yet: `drover cluster join " + name + "` prints the line that installs it"
		}
		return text
	case "waiting_for_fleetshard_operator":
		if strings.HasPrefix(said, "its agent ") { // in the control plane's own words: it refuses the agent
			return said
		}
		if s.Status.Installation == "" && slices.ContainsFunc(s.Status.Steps, func(step clusterStep) bool { return step.Name == putAgent }) {
			return "its agent was put there and has not connected yet: look at its pods in namespace drover-system, and whether they reach the server's --public-url"
		}
		if s.Status.Installation == "" {
			return "its agent has not connected yet: `drover cluster join " + name + "` prints the line that installs it"
		}
		if said != "" {
			return "its agent says: " + said
		}
		return "its agent is silent, or not ready: look whether it runs, and at its log. What runs there goes on"
	case "failed":
		return cmp.Or(s.Status.Reason, said, "it cannot be made") + ". It is tried again when its profile changes; `drover cluster delete " + name + "` gives it up"
	}
	return cmp.Or(said, "it is being taken away")
}

// agent is what speaks for a cluster.
func (s clusterState) agent() string {
	switch {
	case s.Status.Version != "":
		return s.Status.Version
	case s.Status.Installation == "outside":
		return "outside"
	case s.Status.Installation != "":
		return "?"
	}
	return "-"
}

func (s clusterState) platform() string {
	p := s.Status.Platform
	var parts []string
	if p.Kind != "" {
		parts = append(parts, strings.TrimSpace(p.Kind+" "+p.Version))
	}
	if p.Nodes > 0 {
		parts = append(parts, count(p.Nodes, "node"))
	}
	if p.Routes != "" {
		parts = append(parts, "routes by "+p.Routes)
	}
	return strings.Join(parts, ", ")
}

func count(n int64, noun string) string {
	if n == 1 {
		return "1 " + noun
	}
	return strconv.FormatInt(n, 10) + " " + noun + "s"
}

// room is how full a cluster is; used is -1 where that is not known.
func (s clusterState) room(use *v1.ClusterUse) string {
	most := s.Status.Capacity
	if limit := s.Spec.Limit; limit != nil {
		most = min(most, *limit)
	}
	if use == nil {
		return "?/" + strconv.FormatInt(most, 10)
	}
	return fmt.Sprintf("%d/%d", use.Used, use.Max)
}

// clusterFacts are the lines of `drover describe cluster`.
func clusterFacts(o v1.Object, use *v1.ClusterUse, since time.Time, now time.Time) [][2]string {
	s := clusterOf(o)
	var out [][2]string
	add := func(name, text string) {
		if text != "" {
			out = append(out, [2]string{name, text})
		}
	}
	if !since.IsZero() {
		add("Since", since.Local().Format(time.RFC3339)+" ("+age(now.Sub(since))+")")
	}
	if o.Deleted == nil {
		add("Not ready", s.notReady(o))
	}
	gone := o.Deleted != nil || slices.Contains(leaving, o.Phase)
	switch name, aside := clean(o.ID, false), s.aside(); {
	case gone || s.Spec.Abandoned != "": // it takes nothing any more, which the phase says
	case aside == "":
		add("Orders", "takes new ones")
	case aside == "takes no new orders":
		add("Orders", "none: `drover cluster uncordon "+name+"` lets it take new ones")
	case aside == "drained":
		add("Orders", "none, it is drained: `drover cluster undrain "+name+"` takes that back, `drover cluster delete "+name+"` takes it away")
	default:
		left := "what runs there"
		if use != nil {
			left = "what uses its last " + count(use.Used, "unit")
		}
		add("Orders", "none, it is being drained: it is empty once "+left+" has ended")
	}
	add("Place", s.Spec.Provider+"/"+s.Spec.Region)
	add("Tenant", s.Spec.Org)
	add("Offering", s.Spec.Offering)
	add("Types", strings.Join(s.Spec.Types, ", "))
	profile := s.Spec.Profile
	if s.Spec.Fleet {
		profile += " (the fleet made it for lack of room, and may remove it)"
	}
	add("Profile", profile)
	if s.Status.Maker != nil {
		add("Made by", s.Status.Maker.Name)
	}
	add("Domain", s.Spec.Domain)
	room := "not told yet"
	if use != nil && (use.Max > 0 || s.Status.Installation != "") {
		room = fmt.Sprintf("%d of %d units are in use, %d are free", use.Used, use.Max, max(use.Max-use.Used, 0))
	} else if s.Status.Capacity > 0 {
		room = count(s.Status.Capacity, "unit") + " fit"
	}
	if limit := s.Spec.Limit; limit != nil {
		room += fmt.Sprintf(" (limited to %d, its agent says %d)", *limit, s.Status.Capacity)
	}
	if !gone {
		add("Capacity", room)
	}
	switch {
	case gone && s.Status.Installation == "":
	case s.Status.Installation == "":
		add("Agent", "has not connected")
	case s.Status.Version != "":
		add("Agent", fmt.Sprintf("version %s, protocol %d, installation %s", s.Status.Version, s.Status.Protocol, s.Status.Installation))
	default:
		add("Agent", "installation "+s.Status.Installation)
	}
	add("Platform", s.platform())
	add("Labels", strings.Join(pairsOf(s.Spec.Labels), " "))
	add("Taints", strings.Join(s.Spec.Taints, " "))
	return out
}

func pairsOf(labels map[string]string) []string {
	var out []string
	for _, key := range slices.Sorted(maps.Keys(labels)) {
		out = append(out, key+"="+labels[key])
	}
	return out
}

// clusterSections are the tables below the lines.
func (c *CLI) clusterSections(o v1.Object, use *v1.ClusterUse) error {
	s := clusterOf(o)
	types := map[string]bool{}
	for name := range s.Status.Units {
		types[name] = true
	}
	if use != nil {
		for name := range use.Types {
			types[name] = true
		}
	}
	if len(types) > 0 {
		c.printf("\nCapacity by type, in units:\n")
		t := &table{head: []string{"  TYPE", "USED", "AGENT'S MAX", "AGENT'S FREE"}}
		for _, name := range slices.Sorted(maps.Keys(types)) {
			used, most, free := "?", "-", "-" // a type that the agent does not count apart
			if use != nil {
				used = strconv.FormatInt(use.Types[name], 10)
			}
			if room, told := s.Status.Units[name]; told {
				most, free = strconv.FormatInt(room.Max, 10), strconv.FormatInt(room.Remaining, 10)
			}
			t.add("  "+name, used, most, free)
		}
		if err := t.write(c.cfg.Out); err != nil {
			return err
		}
	}
	if len(s.Status.Steps) > 0 {
		ready, all, _ := s.steps()
		c.printf("\nSteps, %d of %d ready:\n", ready, all)
		t := &table{head: []string{"  STEP", "STATE", "OBJECTS", "NEEDS", "MESSAGE"}, paint: func(column int, text string) string {
			if column == 1 {
				return c.phase(text)
			}
			return text
		}}
		for _, step := range s.Status.Steps {
			objects := "-" // agents do not count them
			if step.Objects > 0 {
				objects = strconv.Itoa(step.Objects)
			}
			t.add("  "+step.Name, step.State, objects, strings.Join(step.Needs, ","), step.Message)
		}
		if err := t.write(c.cfg.Out); err != nil {
			return err
		}
	}
	if n := len(s.Status.Strays); n > 0 {
		c.printf("\nStrays, %s that the control plane does not know:\n", count(int64(n), "item"))
		for _, stray := range s.Status.Strays {
			c.printf("  %s\n", clean(stray, false))
		}
		c.printf("  Nothing removes them by itself. After a restore from a backup they may be somebody's: keep them\n" +
			"  until you know. What nobody needs is removed on the cluster itself.\n")
	}
	return nil
}
