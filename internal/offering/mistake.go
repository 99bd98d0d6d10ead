package offering

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"github.com/droverhq/drover/internal/expr"
	"github.com/droverhq/drover/internal/fault"
)

// Mistake is one thing that is wrong with an offering's file.
type Mistake struct {
	Source       string
	Line, Column int
	Path         string // "spec.types[0].name"
	Message      string
}

func (m Mistake) String() string {
	at := fmt.Sprintf("%s:%d:%d: ", m.Source, m.Line, m.Column)
	if m.Path != "" {
		at += m.Path + ": "
	}
	return at + m.Message
}

// Mistakes is everything that is wrong with a file, from top to bottom.
type Mistakes []Mistake

func (ms Mistakes) Error() string {
	lines := make([]string, len(ms))
	for i, m := range ms {
		lines[i] = m.String()
	}
	return strings.Join(lines, "\n")
}

// fault wraps the mistakes for callers; nil if there are none.
func (ms Mistakes) fault() error {
	if len(ms) == 0 {
		return nil
	}
	slices.SortStableFunc(ms, func(a, b Mistake) int {
		return cmp.Or(cmp.Compare(a.Line, b.Line), cmp.Compare(a.Column, b.Column))
	})
	return fault.New(fault.Invalid, "%w", slices.Compact(ms)).Because("offering")
}

// file is a parsed file with the places of everything in it.
type file struct {
	source   string
	lines    []string
	root     *node
	mistakes Mistakes
	wrong    map[string]bool // paths that have a mistake already
}

// at reports a mistake at the value of a path, or at the nearest thing above it.
func (f *file) at(path []any, format string, args ...any) {
	f.report(f.root.find(path).at, path, fmt.Sprintf(format, args...))
}

// inside reports a mistake some bytes into the text at a path.
func (f *file) inside(path []any, offset int, message string) {
	f.report(f.locate(f.root.find(path), offset), path, message)
}

// missing reports that something is not there, unless what is there is wrong already.
func (f *file) missing(path []any, format string, args ...any) {
	if !f.wrong[expr.Where(path)] {
		f.at(path, format, args...)
	}
}

func (f *file) report(at place, path []any, message string) {
	if f.wrong == nil {
		f.wrong = map[string]bool{}
	}
	where := expr.Where(path)
	f.wrong[where] = true
	f.mistakes = append(f.mistakes, Mistake{Source: f.source, Line: at.line, Column: at.column, Path: where, Message: message})
}

// under returns a new path with more steps.
func under(path []any, steps ...any) []any { return append(slices.Clip(path), steps...) }
