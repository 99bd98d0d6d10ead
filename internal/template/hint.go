package template

import (
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strings"

	"github.com/droverhq/drover/internal/expr"
	"github.com/droverhq/drover/internal/schema"
)

var (
	undeclared = regexp.MustCompile(`^undeclared reference to '([^']+)' \(in container '[^']*'\)$`)
	undefined  = regexp.MustCompile(`^undefined field '([^']+)'$`)
	indexed    = regexp.MustCompile(`\[[^\][]*\]`)
	each       = regexp.MustCompile(`([A-Za-z_][A-Za-z0-9_.]*)\.(?:map|filter|all|exists|exists_one)\(\s*([A-Za-z_][A-Za-z0-9_]*)\s*,`)
	chained    = regexp.MustCompile(`[A-Za-z_][A-Za-z0-9_]*(\.[A-Za-z_][A-Za-z0-9_]*)*$`)
)

// reword says what CEL says in words of the file, with what may have been meant: of
// what there is at that place, and of nothing else.
func (f *file) reword(message, text string, offset int, rule place) string {
	if m := undeclared.FindStringSubmatch(message); m != nil {
		known := maps.Clone(f.scope)
		delete(known, "executors__")
		for name, there := range map[string]bool{"params": !f.judging, "files": !f.judging, "index": rule.index, "args": rule.args != nil} {
			if there && known[name] == nil {
				known[name] = &expr.Object{}
			}
		}
		if f.judging {
			return fmt.Sprintf("there is no %s here; %s", m[1], near(m[1], known, "a policy knows plan and change"))
		}
		for _, name := range slices.Sorted(maps.Keys(f.t.names)) {
			if g := f.t.names[name].group; g != nil && g.resources[m[1]] != nil {
				return fmt.Sprintf("there is no %s here; did you mean %s.%s?", m[1], name, m[1])
			}
		}
		return fmt.Sprintf("there is no %s here; %s", m[1], near(m[1], known, "a resource or group of this file, params, env and files are"))
	}
	if m := undefined.FindStringSubmatch(message); m != nil {
		fields := f.fieldsAt(text[:min(max(offset, 0), len(text))])
		otherwise := ""
		if n := len(fields); n > 0 && n <= 12 {
			otherwise = "there is " + strings.Join(slices.Sorted(maps.Keys(fields)), ", ")
		}
		return fmt.Sprintf("there is no field %s here%s", m[1], strings.TrimSuffix("; "+near(m[1], fields, otherwise), "; "))
	}
	return message
}

// fieldsAt are those of what an expression names that breaks off there; nil: nobody
// can tell.
func (f *file) fieldsAt(before string) map[string]expr.Field {
	before = indexed.ReplaceAllString(before, "")
	steps := strings.Split(chained.FindString(before), ".")
	if f.scope[steps[0]] == nil { // it may be one of a list: web.map(w, w.outputs.url)
		for _, m := range each.FindAllStringSubmatch(before, -1) {
			if m[2] == steps[0] {
				steps = append(strings.Split(m[1], "."), steps[1:]...)
				break
			}
		}
	}
	at := f.scope[steps[0]]
	for i, step := range steps[1:] {
		if at == nil {
			return nil
		}
		inner := at.Fields[step].Object
		if e := f.t.names[steps[0]]; inner == nil && i == 0 && e != nil && e.group != nil && e.group.resources[step] != nil {
			inner = e.group.resources[step].object // one of several
		}
		at = inner
	}
	if at == nil {
		return nil
	}
	return at.Fields
}

// textAt is the text at a path of a document.
func textAt(doc any, path []any) string {
	for _, step := range path {
		switch x := doc.(type) {
		case map[string]any:
			key, _ := step.(string)
			doc = x[key]
		case []any:
			i, ok := step.(int)
			if !ok || i < 0 || i >= len(x) {
				return ""
			}
			doc = x[i]
		default:
			return ""
		}
	}
	text, _ := doc.(string)
	return text
}

// words tells what is wrong with an input.
func (r *resource) words(p schema.Problem) string {
	at := r.described.Inputs
	for _, step := range p.Path[:max(len(p.Path)-1, 0)] {
		at = within(at, step)
	}
	if p.Message == "is not a known parameter" && len(p.Path) > 0 {
		properties, _ := at["properties"].(map[string]any)
		return strings.TrimSuffix(fmt.Sprintf("executor %s has no such input; %s", r.Executor, near(p.Path[len(p.Path)-1], properties, "")), "; ")
	}
	if strings.HasPrefix(p.Message, "does not match the pattern") && len(p.Path) > 0 {
		if examples, _ := within(at, p.Path[len(p.Path)-1])["examples"].([]any); len(examples) > 0 {
			return fmt.Sprintf("%s: want such as %v", p.Message, examples[0])
		}
	}
	return p.Message
}

// within is the schema of a member.
func within(s map[string]any, step string) map[string]any {
	if properties, ok := s["properties"].(map[string]any); ok {
		if inner, ok := properties[step].(map[string]any); ok {
			return inner
		}
	}
	for _, part := range []string{"items", "additionalProperties"} {
		if inner, ok := s[part].(map[string]any); ok {
			return inner
		}
	}
	return nil
}

// forms tells which inputs go together, where the executor has several ways to be
// asked and the names that are given are none of them. Values may be unknown: names
// are not.
func (r *resource) forms(given map[string]any) string {
	all, _ := r.described.Inputs["oneOf"].([]any)
	fits := 0
	var words []string
	for _, each := range all {
		form, _ := each.(map[string]any)
		needed, _ := form["required"].([]any)
		names := make([]string, len(needed))
		for i, n := range needed {
			names[i] = fmt.Sprint(n)
		}
		if len(names) > 1 {
			names = []string{strings.Join(names[:len(names)-1], ", ") + " and " + names[len(names)-1]}
		}
		words = append(words, strings.Join(names, ""))
		compiled, err := schema.Compile(form)
		if err != nil {
			return ""
		}
		plain := make(map[string]any, len(given))
		for name := range given {
			plain[name] = ""
		}
		if _, err := compiled.Validate(plain); err == nil {
			fits++
		}
	}
	if len(all) == 0 || fits == 1 {
		return ""
	}
	return fmt.Sprintf("executor %s wants %s, and nothing of another of these", r.Executor, strings.Join(words, "; or "))
}
