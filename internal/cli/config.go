package cli

import (
	"errors"
	"fmt"
	"io"
	"os"
	"slices"
	"sort"
	"strings"

	"github.com/goccy/go-yaml/ast"
	"github.com/goccy/go-yaml/parser"
	"github.com/spf13/pflag"
)

// use says which commands a setting is for.
type use int

const (
	forClient use = 1 << iota
	forServer
	forAgent
)

// setting declares one value that flags, the environment or a file can give.
type setting struct {
	name  string // of the flag and in the file; DROVER_<NAME> in the environment
	also  string // a variable that other programs have for it; DROVER_<NAME> comes first
	uses  use
	def   string
	usage string
	list  bool                    // several values; one text, joined by commas
	bare  string                  // what the flag means without a value; empty: it needs one
	quiet bool                    // no flag: whoever lists processes would read it
	check func(text string) error // nil: any text
	mask  func(text string) string
}

func (s setting) env() string {
	return "DROVER_" + strings.ToUpper(strings.ReplaceAll(s.name, "-", "_"))
}

// value is a setting's text and where it came from.
type value struct {
	setting
	text   string
	source string
	given  int // how directly it was said: 0 default, 1 file, 2 environment, 3 flag
}

// show is the value for people, without its secrets.
func (v value) show() string {
	if v.mask != nil && v.text != "" {
		return v.mask(v.text)
	}
	return v.text
}

// values are all settings of a command, by name.
type values map[string]value

func (v values) text(name string) string { return v[name].text }

// register declares the flags of the settings that a command uses. All are
// texts: mistakes are found later, all at once.
func register(flags *pflag.FlagSet, uses use) {
	for _, s := range settings {
		if s.uses&uses == 0 || s.quiet || flags.Lookup(s.name) != nil {
			continue
		}
		usage := s.usage + " (" + strings.Join(slices.DeleteFunc([]string{s.env(), s.also}, func(name string) bool { return name == "" }), ", ") + ")"
		if s.list {
			flags.StringSlice(s.name, nil, usage)
		} else {
			flags.String(s.name, "", usage+defaultNote(s))
			flags.Lookup(s.name).NoOptDefVal = s.bare
		}
	}
}

func defaultNote(s setting) string {
	if s.def == "" {
		return ""
	}
	return " [" + s.def + "]"
}

// resolve reads all sources of the settings that are used. The error lists every
// mistake with its source.
func resolve(flags *pflag.FlagSet, getenv func(string) string, uses use) (values, error) {
	var mistakes []string
	out := values{}
	from := sources{flags: flags, getenv: getenv}
	config, _ := declared("config")
	if from.path = from.find(config).text; from.path != "" {
		from.file, mistakes = readFile(from.path)
	}
	for _, s := range settings {
		if s.uses&uses == 0 {
			continue
		}
		v := from.find(s)
		if s.check != nil && v.text != "" {
			if err := s.check(v.text); err != nil {
				where := v.source
				if v.given == 1 { // flags and variables say their names themselves
					where += ": " + s.name
				}
				mistakes = append(mistakes, fmt.Sprintf("%s: %q: %v", where, v.show(), err))
			}
		}
		out[s.name] = v
	}
	if len(mistakes) == 0 {
		return out, nil
	}
	sort.Strings(mistakes)
	text := "the configuration is wrong: " + mistakes[0]
	if len(mistakes) > 1 {
		text = fmt.Sprintf("the configuration has %d mistakes:\n  %s", len(mistakes), strings.Join(mistakes, "\n  "))
	}
	return out, &usageError{text: text, quiet: true}
}

// sources are where values come from.
type sources struct {
	flags  *pflag.FlagSet
	getenv func(string) string
	file   map[string]entry
	path   string // of the file
}

// find returns the value of a setting: flag, environment, file, default.
func (from sources) find(s setting) value {
	if flag := from.flags.Lookup(s.name); flag != nil && flag.Changed {
		text := flag.Value.String()
		if slice, ok := flag.Value.(pflag.SliceValue); ok {
			text = strings.Join(slice.GetSlice(), ",")
		}
		return value{setting: s, text: text, source: "flag --" + s.name, given: 3}
	}
	if text := from.getenv(s.env()); text != "" {
		return value{setting: s, text: text, source: "environment " + s.env(), given: 2}
	}
	if s.also != "" {
		if text := from.getenv(s.also); text != "" {
			return value{setting: s, text: text, source: "environment " + s.also, given: 2}
		}
	}
	if e, ok := from.file[s.name]; ok {
		return value{setting: s, text: e.text, source: fmt.Sprintf("file %s:%d", from.path, e.line), given: 1}
	}
	return value{setting: s, text: s.def, source: "default"}
}

// entry is one line of a configuration file.
type entry struct {
	text string
	line int
}

const maxConfig = 1 << 20

// readFile reads a configuration file: a flat mapping of settings, strictly.
func readFile(path string) (map[string]entry, []string) {
	data, err := readBounded(path, maxConfig)
	if err != nil {
		return nil, []string{fmt.Sprintf("file %s: %v", path, err)}
	}
	parsed, err := parser.ParseBytes(data, 0, parser.AllowDuplicateMapKey()) // told below, with the other mistakes
	if err != nil {
		return nil, []string{fmt.Sprintf("file %s: not YAML: %s", path, strings.TrimSpace(err.Error()))}
	}
	var wrong []string
	mistake := func(line int, format string, args ...any) {
		wrong = append(wrong, fmt.Sprintf("file %s:%d: ", path, line)+fmt.Sprintf(format, args...))
	}
	out := map[string]entry{}
	for _, doc := range parsed.Docs {
		for _, pair := range pairs(doc.Body) {
			if pair == nil {
				mistake(doc.Body.GetToken().Position.Line, "want a mapping of settings, such as `listen: 127.0.0.1:8000`")
				continue
			}
			name, line := pair.Key.GetToken().Value, pair.Key.GetToken().Position.Line
			s, known := declared(name)
			_, double := out[name]
			text, err := scalar(pair.Value, s.list)
			switch {
			case name == "config":
				mistake(line, "%q has no place in the file that it names", name)
			case !known:
				mistake(line, "unknown setting %q%s", name, didYouMean(name, settingNames()))
			case double:
				mistake(line, "%q is set twice", name)
			case err != nil:
				mistake(line, "%q: %v", name, err)
			default:
				out[name] = entry{text: text, line: line}
			}
		}
	}
	return out, wrong
}

// pairs returns the entries of a mapping; a nil entry stands for anything else.
func pairs(node ast.Node) []*ast.MappingValueNode {
	switch n := node.(type) {
	case nil, *ast.CommentGroupNode, *ast.NullNode:
		return nil
	case *ast.MappingNode:
		return n.Values
	case *ast.MappingValueNode:
		return []*ast.MappingValueNode{n}
	}
	return []*ast.MappingValueNode{nil}
}

// scalar returns the text of a plain value. Anchors, aliases and nested mappings
// have no place in settings.
func scalar(node ast.Node, list bool) (string, error) {
	switch n := node.(type) {
	case *ast.StringNode:
		return n.Value, nil
	case *ast.IntegerNode, *ast.FloatNode, *ast.BoolNode:
		return n.GetToken().Value, nil
	case *ast.NullNode:
		return "", nil
	case *ast.SequenceNode:
		if !list {
			return "", errors.New("want one value, not a list")
		}
		var parts []string
		for _, item := range n.Values {
			text, err := scalar(item, false)
			if err != nil {
				return "", err
			}
			parts = append(parts, text)
		}
		return strings.Join(parts, ","), nil
	}
	return "", errors.New("want a plain value")
}

func declared(name string) (setting, bool) {
	for _, s := range settings {
		if s.name == name {
			return s, true
		}
	}
	return setting{}, false
}

func settingNames() []string {
	var names []string
	for _, s := range settings {
		names = append(names, s.name)
	}
	return names
}

// readBounded reads a whole file of limited size.
func readBounded(path string, limit int64) ([]byte, error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, plain(err)
	}
	defer f.Close()
	return readAll(f, limit)
}

func readAll(r io.Reader, limit int64) ([]byte, error) {
	data, err := io.ReadAll(io.LimitReader(r, limit+1))
	if err != nil {
		return nil, plain(err)
	}
	if int64(len(data)) > limit {
		return nil, fmt.Errorf("larger than %d KiB", limit>>10)
	}
	return data, nil
}

// plain drops the path that package os repeats.
func plain(err error) error {
	var path *os.PathError
	if errors.As(err, &path) {
		return path.Err
	}
	return err
}
