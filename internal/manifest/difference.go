package manifest

import (
	"fmt"
	"reflect"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"sigs.k8s.io/yaml"
)

const (
	around   = 3        // lines that are shown before and behind what differs
	maxLine  = 300      // bytes of a line that are shown
	maxTable = 4 << 20  // pairs of lines beyond which nobody looks for what they have in common
	maxText  = 16 << 20 // bytes of an object that are looked at
)

// Difference is what would change in an object, as lines of a unified diff: "-" as
// it is, "+" as it is wanted. Either may be nil: it is not there, or not wanted.
// What a cluster writes itself is left out, and values of Secrets are never in it:
// it only says that they differ. At most limit bytes are returned; empty: nothing
// differs. It is pure.
func Difference(there, wanted map[string]any, limit int) string {
	there, wanted = tidy(there), tidy(wanted)
	hide(there, wanted)
	a, b := linesOf(there), linesOf(wanted)
	if slices.Equal(a, b) {
		return ""
	}
	return bound(unified(a, b), limit)
}

// tidy is a copy of an object without what nobody has asked for.
func tidy(o map[string]any) map[string]any {
	if o == nil {
		return nil
	}
	o = runtime.DeepCopyJSON(plain(o).(map[string]any))
	delete(o, "status")
	for _, field := range []string{"managedFields", "resourceVersion", "uid", "generation", "creationTimestamp", "selfLink"} {
		unstructured.RemoveNestedField(o, "metadata", field)
	}
	for field, ours := range map[string][]string{
		"labels":      {OwnerLabel},
		"annotations": {OwnerAnnotation, "kubectl.kubernetes.io/last-applied-configuration"}, // the last one has Secrets' values, too
	} {
		meta, _ := o["metadata"].(map[string]any)
		all, _ := meta[field].(map[string]any)
		for _, key := range ours {
			delete(all, key)
		}
		if _, there := meta[field]; there && len(all) == 0 {
			delete(meta, field)
		}
	}
	return o
}

const (
	hidden  = "(hidden)"
	another = "(hidden, and another one)"
)

// hide replaces the values of Secrets.
func hide(there, wanted map[string]any) {
	if !secret(there) && !secret(wanted) {
		return
	}
	for _, field := range []string{"data", "stringData"} {
		was, _ := there[field].(map[string]any)
		will, _ := wanted[field].(map[string]any)
		for key, v := range will {
			will[key] = hidden
			if old, ok := was[key]; ok && !reflect.DeepEqual(old, v) {
				will[key] = another
			}
		}
		for key := range was {
			was[key] = hidden
		}
		for _, o := range []map[string]any{there, wanted} {
			if v, ok := o[field]; ok && v != nil {
				if _, readable := v.(map[string]any); !readable {
					o[field] = hidden
				}
			}
		}
	}
}

func secret(o map[string]any) bool { return o["kind"] == "Secret" && o["apiVersion"] == "v1" }

// linesOf an object as people write it.
func linesOf(o map[string]any) []string {
	if o == nil {
		return nil
	}
	text, err := yaml.Marshal(o)
	if err != nil || len(text) > maxText {
		return []string{"(it is too large to be compared)"}
	}
	return strings.Split(strings.TrimRight(string(text), "\n"), "\n")
}

// edit is one line of the way from one text to the other.
type edit struct {
	op   byte // ' ', '-' or '+'
	text string
}

// edits is the way from a to b: by the longest common sequence of what is left
// between their equal ends, or without looking for one where that would take long.
func edits(a, b []string) (out []edit) {
	head := 0
	for head < len(a) && head < len(b) && a[head] == b[head] {
		out = append(out, edit{' ', a[head]})
		head++
	}
	tail := 0
	for tail < len(a)-head && tail < len(b)-head && a[len(a)-1-tail] == b[len(b)-1-tail] {
		tail++
	}
	out = append(out, middle(a[head:len(a)-tail], b[head:len(b)-tail])...)
	for _, line := range a[len(a)-tail:] {
		out = append(out, edit{' ', line})
	}
	return out
}

func middle(a, b []string) (out []edit) {
	if len(a)*len(b) > maxTable {
		for _, line := range a {
			out = append(out, edit{'-', line})
		}
		for _, line := range b {
			out = append(out, edit{'+', line})
		}
		return out
	}
	width := len(b) + 1
	common := make([]int32, (len(a)+1)*width) // of what is left behind each pair of places
	for i := len(a) - 1; i >= 0; i-- {
		for j := len(b) - 1; j >= 0; j-- {
			if a[i] == b[j] {
				common[i*width+j] = common[(i+1)*width+j+1] + 1
			} else {
				common[i*width+j] = max(common[(i+1)*width+j], common[i*width+j+1])
			}
		}
	}
	for i, j := 0, 0; i < len(a) || j < len(b); {
		switch {
		case i < len(a) && j < len(b) && a[i] == b[j]:
			out, i, j = append(out, edit{' ', a[i]}), i+1, j+1
		case j == len(b) || i < len(a) && common[(i+1)*width+j] >= common[i*width+j+1]:
			out, i = append(out, edit{'-', a[i]}), i+1
		default:
			out, j = append(out, edit{'+', b[j]}), j+1
		}
	}
	return out
}

// unified are the lines of a unified diff, without its head.
func unified(a, b []string) (out []string) {
	all := edits(a, b)
	shown := make([]bool, len(all))
	for i, e := range all {
		if e.op != ' ' {
			for k := max(0, i-around); k < min(len(all), i+around+1); k++ {
				shown[k] = true
			}
		}
	}
	was, will := 0, 0
	for i := 0; i < len(all); {
		if !shown[i] {
			was, will, i = was+1, will+1, i+1
			continue
		}
		end, olds, news := i, 0, 0
		for ; end < len(all) && shown[end]; end++ {
			if all[end].op != '+' {
				olds++
			}
			if all[end].op != '-' {
				news++
			}
		}
		out = append(out, fmt.Sprintf("@@ -%s +%s @@", span(was, olds), span(will, news)))
		for _, e := range all[i:end] {
			out = append(out, string(e.op)+clip(e.text))
		}
		was, will, i = was+olds, will+news, end
	}
	return out
}

// span is a place of a text as diffs name it.
func span(at, n int) string {
	if n > 0 {
		at++
	}
	return fmt.Sprintf("%d,%d", at, n)
}

func clip(line string) string {
	if len(line) <= maxLine {
		return line
	}
	return strings.ToValidUTF8(line[:maxLine], "") + "..."
}

// bound joins lines up to a number of bytes, and says how many are missing.
func bound(lines []string, limit int) string {
	var b strings.Builder
	for i, line := range lines {
		more := fmt.Sprintf("... and %d lines more\n", len(lines)-i)
		last := i == len(lines)-1
		if b.Len()+len(line)+1 > limit || !last && b.Len()+len(line)+1+len(more) > limit {
			b.WriteString(more)
			break
		}
		b.WriteString(line)
		b.WriteByte('\n')
	}
	return strings.TrimRight(b.String(), "\n")
}
