package executortest

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/droverhq/drover/internal/executor"
)

// Tables draws what an executor takes and gives, for the page of executors.
func Tables(d executor.Description) string {
	var sb strings.Builder
	sb.WriteString("| input | type | |\n|---|---|---|\n")
	properties, _ := d.Inputs["properties"].(map[string]any)
	required, _ := d.Inputs["required"].([]any)
	rows(&sb, "", properties, required)
	sb.WriteString("\n| output | type | |\n|---|---|---|\n")
	for _, name := range slices.Sorted(maps.Keys(d.Outputs)) {
		o := d.Outputs[name]
		summary := o.Summary
		if o.Secret {
			summary += "; secret"
		}
		fmt.Fprintf(&sb, "| `%s` | %s | %s |\n", name, o.Type, cell(summary))
	}
	if d.Open {
		sb.WriteString("| others | | as the resource has them |\n")
	}
	return sb.String()
}

func rows(sb *strings.Builder, prefix string, properties map[string]any, required []any) {
	for _, name := range slices.Sorted(maps.Keys(properties)) {
		p, _ := properties[name].(map[string]any)
		text, _ := p["description"].(string)
		if slices.Contains(required, any(name)) {
			text += "; required"
		}
		if v, ok := p["default"]; ok && v != "" {
			text += fmt.Sprintf("; default `%v`", v)
		}
		if v, ok := p["enum"].([]any); ok {
			text += fmt.Sprintf("; one of `%s`", strings.Trim(fmt.Sprint(v), "[]"))
		}
		kind, _ := p["type"].(string)
		fmt.Fprintf(sb, "| `%s%s` | %s | %s |\n", prefix, name, kind, cell(strings.TrimPrefix(text, "; ")))
		inner := func(at string, of any) {
			m, _ := of.(map[string]any)
			if nested, ok := m["properties"].(map[string]any); ok {
				needs, _ := m["required"].([]any)
				rows(sb, at, nested, needs)
			}
		}
		inner(prefix+name+".", p)
		inner(prefix+name+"[].", p["items"])
		inner(prefix+name+".NAME.", p["additionalProperties"])
	}
}

// cell keeps a text within its column.
func cell(s string) string { return strings.NewReplacer("|", "\\|", "\n", " ").Replace(s) }
