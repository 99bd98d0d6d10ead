package offering

import (
	"context"
	"fmt"
	"regexp"
	"strings"

	"github.com/droverhq/drover/internal/expr"
	"github.com/droverhq/drover/internal/fault"
)

// hole stands for an expression where a selector is looked at as a whole.
const hole = "\x00"

var (
	metricForm = regexp.MustCompile(`^[a-zA-Z_:][a-zA-Z0-9_:]{0,199}$`)

	// A list of matchers. Expressions stand in the quotes of an = alone: what
	// they yield is a value there and can be nothing else.
	matcher      = `[a-zA-Z_][a-zA-Z0-9_]*\s*(=\s*"([^"\\\n]|\\[^\n\x00])*"|(!=|=~|!~)\s*"([^"\\\n\x00]|\\[^\n\x00])*")`
	selectorForm = regexp.MustCompile(`^\s*` + matcher + `(\s*,\s*` + matcher + `)*\s*$`)
)

func (f file) checkMetrics(m Metrics, path []any) {
	at := under(path, "selector")
	switch bones := expr.Skeleton(m.Selector, hole); {
	case m.Selector == "" && len(m.Names) > 0:
		f.Missing(at, "is required with names: it says which series are an instance's own")
	case m.Selector == "":
	case len(m.Names) == 0:
		f.Missing(under(path, "names"), "is required with a selector: the metrics that tenants may ask for")
	case !strings.Contains(bones, hole):
		f.At(at, "must hold an expression: without one, tenants see each other's metrics")
	case !selectorForm.MatchString(bones):
		f.At(at, `must be matchers such as namespace="${instance.namespace}", with expressions inside the quotes of an =`)
	}
	seen := map[string]bool{}
	for i, name := range m.Names {
		f.form(under(path, "names", i), name, metricForm, "the name of a metric")
		f.unique(seen, name, under(path, "names", i))
	}
}

// Selector picks the series of one instance: label matchers without braces.
// Faults: NotFound, reason "metrics", where the offering has no metrics or the
// instance is not far enough to have any.
func (o *Offering) Selector(ctx context.Context, facts Facts) (string, error) {
	if o.Spec.Metrics.Selector == "" {
		return "", fault.New(fault.NotFound, "%s has no metrics", o.Spec.Names.Kind).Because("metrics")
	}
	empty := false
	text, err := o.text(ctx, o.selector, facts, func(value string) string {
		empty = empty || value == "" // label="" would match the series of all who lack the label
		return labelValue(value)
	})
	if err != nil {
		return "", fmt.Errorf("cannot make the selector of offering %s: %w", o.Metadata.Name, err)
	}
	if empty {
		return "", fault.New(fault.NotFound, "it has no metrics yet").Because("metrics")
	}
	return text, nil
}

var labelEscapes = strings.NewReplacer(`\`, `\\`, `"`, `\"`, "\n", `\n`)

// labelValue escapes text for the inside of PromQL's double quotes.
func labelValue(s string) string { return labelEscapes.Replace(strings.ToValidUTF8(s, "\uFFFD")) }
