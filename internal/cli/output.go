package cli

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"regexp"
	"strings"
	"unicode"
	"unicode/utf8"

	"github.com/goccy/go-yaml"
	"github.com/spf13/cobra"
)

// outputFlag adds -o with the formats that a command has; the first is the default.
func outputFlag(cmd *cobra.Command, formats ...string) {
	cmd.Flags().StringP("output", "o", "", "format: "+strings.Join(formats, ", "))
	cmd.RegisterFlagCompletionFunc("output", cobra.FixedCompletions(formats, cobra.ShellCompDirectiveNoFileComp))
	cmd.PreRunE = func(cmd *cobra.Command, _ []string) error {
		if format := output(cmd); format != "" {
			if err := oneOf(formats...)(format); err != nil {
				return usagef("-o %s: %v", quoted(format), err)
			}
		}
		return nil
	}
}

func output(cmd *cobra.Command) string {
	format, err := cmd.Flags().GetString("output")
	if err != nil {
		return ""
	}
	return format
}

// print writes a value as JSON or YAML.
func (c *CLI) print(format string, v any) error {
	data, err := json.MarshalIndent(v, "", "  ")
	if err != nil {
		return fmt.Errorf("cannot print: %w", err)
	}
	if format == "yaml" {
		text, err := toYAML(data)
		if err != nil {
			return err
		}
		data = []byte("---\n" + text)
	} else {
		data = append(data, '\n')
	}
	_, err = c.cfg.Out.Write(data)
	return err
}

// printLine writes one value of a stream: a line of JSON, or a YAML document.
func (c *CLI) printLine(format string, v any) error {
	if format == "yaml" {
		return c.print(format, v)
	}
	return json.NewEncoder(c.cfg.Out).Encode(v)
}

func toYAML(data []byte) (string, error) {
	text, err := yaml.JSONToYAML(data)
	if err != nil {
		return "", fmt.Errorf("cannot print YAML: %w", err)
	}
	return string(text), nil
}

// table lines up columns. Its cells come from other people, so what could steer
// a terminal is taken out.
type table struct {
	head   []string
	rows   [][]string
	paint  func(column int, text string) string // may be nil; must not change the width
	widths []int
}

func (t *table) add(cells ...string) {
	for i := range cells {
		cells[i] = clean(cells[i], false)
	}
	t.rows = append(t.rows, cells)
}

func (t *table) write(w io.Writer) error {
	var b bytes.Buffer
	if t.widths == nil {
		t.measure()
		t.line(&b, t.head, false)
	}
	t.measure()
	for _, row := range t.rows {
		t.line(&b, row, true)
	}
	t.rows = nil // a watch adds more under the same head
	_, err := w.Write(b.Bytes())
	return err
}

func (t *table) measure() {
	if t.widths == nil {
		t.widths = make([]int, len(t.head))
	}
	for _, row := range append([][]string{t.head}, t.rows...) {
		for i, cell := range row {
			t.widths[i] = max(t.widths[i], utf8.RuneCountInString(cell))
		}
	}
}

func (t *table) line(b *bytes.Buffer, cells []string, body bool) {
	for len(cells) > 0 && cells[len(cells)-1] == "" {
		cells = cells[:len(cells)-1]
	}
	for i, cell := range cells {
		pad := t.widths[i] - utf8.RuneCountInString(cell)
		if body && t.paint != nil {
			cell = t.paint(i, cell)
		}
		b.WriteString(cell)
		if i < len(cells)-1 {
			b.WriteString(strings.Repeat(" ", pad+3))
		}
	}
	b.WriteByte('\n')
}

// folded are the ends of lines, with the blanks around them.
var folded = regexp.MustCompile(`[ \t]*[\r\n\t][ \t\r\n]*`)

// clean takes control characters out of text that others wrote. What is to stay in
// one line has its lines one after the other.
func clean(text string, lines bool) string {
	if !lines && strings.ContainsAny(text, "\r\n\t") {
		text = folded.ReplaceAllString(strings.TrimSpace(text), " ")
	}
	if !strings.ContainsFunc(text, func(r rune) bool { return harmful(r, lines) }) {
		return text
	}
	return strings.Map(func(r rune) rune {
		if harmful(r, lines) {
			return '?'
		}
		return r
	}, text)
}

func harmful(r rune, lines bool) bool {
	if lines && (r == '\n' || r == '\t') {
		return false
	}
	return unicode.IsControl(r) || unicode.Is(unicode.Bidi_Control, r) || r == utf8.RuneError
}

// phase colours a phase on a terminal: what is well, what is not, what is under way.
func (c *CLI) phase(text string) string {
	if !c.color || text == "" {
		return text
	}
	code := "33"
	switch lower := strings.ToLower(text); {
	case lower == "ready" || strings.HasSuffix(lower, "-ok"):
		code = "32"
	case strings.Contains(lower, "fail"):
		code = "31"
	case strings.Contains(lower, "delet") || strings.Contains(lower, "destroy") || lower == "suspended":
		code = "2"
	}
	return "\x1b[" + code + "m" + text + "\x1b[0m"
}

// indent puts spaces before every line.
func indent(text, by string) string {
	text = strings.TrimRight(text, "\n")
	return by + strings.ReplaceAll(text, "\n", "\n"+by) + "\n"
}
