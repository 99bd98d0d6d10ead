package cli

import (
	"cmp"
	"context"
	"encoding/json"
	"maps"
	"slices"
	"strconv"
	"strings"

	v1 "github.com/droverhq/drover/api/v1"
)

// column is one of a kind that has columns of its own.
type column struct {
	head string
	wide bool
	cell func(o v1.Object) string
}

// objectRows is the table of any kind of object: its columns are those of its
// kind, or those fields that some object has.
type objectRows struct {
	cli     *CLI
	table   *table
	columns []column
	session *session
	uses    map[string]v1.ClusterUse // how full clusters are; of clusters only
	clouded bool                     // it is of clusters
}

// inner are fields that nobody asks for by looking: the resource says the
// offering already, and the rank is for the order of trials.
var inner = []string{"offering", "rank"}

func (c *CLI) objectTable(ctx context.Context, r getRequest, items []v1.Object) *objectRows {
	rows := &objectRows{cli: c, session: r.session, clouded: r.resource.Kind == "cluster", table: &table{}}
	rows.refresh(ctx)
	wide := r.format == "wide"
	all := []column{{head: "NAME", cell: label}}
	switch r.resource.Kind {
	case "cluster":
		all = append(all, rows.clusterColumns()...)
	case "clusterprofile":
		all = append(all, profileColumns()...)
	case "operation":
		all = append(all, operationColumns(wide)...)
	default:
		own := c.ofTemplates(r.resource.Kind)
		if own == nil {
			own = ofDeployments(r.resource.Kind)
		}
		if own != nil {
			all = append(all, own...)
			break
		}
		all = append(all, column{head: "PHASE", cell: phaseOf})
		all = append(all, fieldColumns(r.resource, items)...)
	}
	all = append(all,
		column{"ID", r.resource.Kind != "operation", func(o v1.Object) string { return o.ID }},
		column{"ORG", !manyOrgs(r.resource.Kind, items), func(o v1.Object) string { return o.Org }},
		column{"GENERATION", true, func(o v1.Object) string { return strconv.FormatInt(o.Generation, 10) }},
		column{"REVISION", true, func(o v1.Object) string { return strconv.FormatInt(o.Version, 10) }},
	)
	if !slices.Contains([]string{"cluster", "clusterprofile", "template", "templateversion"}, r.resource.Kind) { // operators' things have no owner
		all = append(all, column{"OWNER", false, func(o v1.Object) string { return cmp.Or(o.Owner, operationOf(o).Of) }})
	}
	all = append(all,
		column{"AGE", false, func(o v1.Object) string { return age(c.now().Sub(o.Created)) }},
		column{"MESSAGE", false, rows.message},
	)
	for _, col := range all {
		if wide || !col.wide {
			rows.columns = append(rows.columns, col)
			rows.table.head = append(rows.table.head, col.head)
		}
	}
	phase := slices.Index(rows.table.head, "PHASE")
	rows.table.paint = func(column int, text string) string {
		if column == phase {
			return c.phase(text)
		}
		return text
	}
	return rows
}

// manyOrgs reports whether rows cannot be told apart without their organisations.
func manyOrgs(kind string, items []v1.Object) bool {
	if kind == "workspace" {
		return true
	}
	return ofDeployments(kind) != nil && slices.ContainsFunc(items, func(o v1.Object) bool { return o.Org != items[0].Org })
}

// fieldColumns are the fields that some object has.
func fieldColumns(r v1.Resource, items []v1.Object) []column {
	have := map[string]bool{"host": r.Offering != ""}
	for _, o := range items {
		for name := range o.Fields {
			have[name] = true
		}
	}
	var out []column
	for _, name := range slices.Sorted(maps.Keys(have)) {
		if have[name] && !slices.Contains(inner, name) {
			out = append(out, column{strings.ToUpper(name), name != "host" && name != "client", func(o v1.Object) string { return fieldText(o.Fields[name]) }})
		}
	}
	return out
}

func (r *objectRows) clusterColumns() []column {
	text := func(pick func(clusterState) string) func(v1.Object) string {
		return func(o v1.Object) string { return pick(clusterOf(o)) }
	}
	return []column{
		{"PHASE", false, phaseOf},
		{"PROVIDER", false, text(func(s clusterState) string { return s.Spec.Provider })},
		{"REGION", false, text(func(s clusterState) string { return s.Spec.Region })},
		{"USED/MAX", false, func(o v1.Object) string {
			if use, told := r.uses[o.ID]; told {
				return clusterOf(o).room(&use)
			}
			return clusterOf(o).room(nil)
		}},
		{"AGENT", false, text(clusterState.agent)},
		{"PROFILE", true, text(func(s clusterState) string { return s.Spec.Profile })},
		{"PLATFORM", true, text(clusterState.platform)},
		{"LABELS", true, text(func(s clusterState) string { return strings.Join(pairsOf(s.Spec.Labels), ",") })},
		{"TAINTS", true, text(func(s clusterState) string { return strings.Join(s.Spec.Taints, ",") })},
	}
}

// operationSpec is what an operation says of itself.
type operationSpec struct {
	Verb, Name, Type, Instance, Of string
	Cause                          string
	Subject                        struct{ Kind, ID string }
}

func operationOf(o v1.Object) (s operationSpec) {
	if o.Kind == "operation" {
		_ = json.Unmarshal(o.Spec, &s)
	}
	return s
}

func operationColumns(wide bool) []column {
	text := func(pick func(operationSpec) string) func(v1.Object) string {
		return func(o v1.Object) string { return pick(operationOf(o)) }
	}
	return []column{
		{"PHASE", false, phaseOf},
		{"TYPE", false, text(func(s operationSpec) string { return cmp.Or(s.Type, s.Subject.Kind) })},
		{"RESOURCE", false, text(func(s operationSpec) string { return s.Name })},
		{"INSTANCE", false, text(func(s operationSpec) string { return s.Instance })},
		{"VERB", true, text(func(s operationSpec) string { return s.Verb })},
		{"SUBJECT", true, text(func(s operationSpec) string { return s.Subject.ID })},
		{"CAUSE", false, text(func(s operationSpec) string {
			if wide {
				return s.Cause
			}
			return briefCause(s.Cause)
		})},
	}
}

func profileColumns() []column {
	text := func(pick func(profileState) string) func(v1.Object) string {
		return func(o v1.Object) string { return pick(profileOf(o)) }
	}
	return []column{
		{"MADE BY", false, text(func(p profileState) string { return p.Spec.Maker })},
		{"SERVES", false, text(profileState.places)},
		{"STEPS", false, text(func(p profileState) string { return strconv.Itoa(len(p.Spec.Steps)) })},
		{"SCALING", false, text(profileState.scaling)},
	}
}

func phaseOf(o v1.Object) string {
	if o.Deleted != nil {
		return "deleted"
	}
	return o.Phase
}

func (r *objectRows) message(o v1.Object) string {
	if r.clouded {
		s, parts := clusterOf(o), []string{}
		if aside := s.aside(); aside != "" {
			parts = append(parts, aside)
		}
		if text := cmp.Or(why(o), clusterDetail(o)); text != "" {
			parts = append(parts, text)
		}
		if n := len(s.Status.Strays); n > 0 {
			parts = append(parts, count(int64(n), "stray"))
		}
		return strings.Join(parts, "; ")
	}
	if o.Kind == "clusterprofile" {
		return profileOf(o).says()
	}
	return strings.Join(strings.FieldsFunc(why(o), func(r rune) bool { return r == '\n' }), "; ")
}

// refresh reads how full clusters are. Where that is not told they are shown
// without.
func (r *objectRows) refresh(ctx context.Context) {
	if r.clouded {
		r.uses = r.session.uses(ctx)
	}
}

func (s *session) uses(ctx context.Context) map[string]v1.ClusterUse {
	out := map[string]v1.ClusterUse{}
	all, err := s.Capacity(ctx)
	if err != nil {
		return out
	}
	for _, use := range all.Clusters {
		out[use.Cluster] = use
	}
	return out
}

func (r *objectRows) add(o v1.Object) {
	cells := make([]string, 0, len(r.columns))
	for _, col := range r.columns {
		cells = append(cells, col.cell(o))
	}
	r.table.add(cells...)
}
