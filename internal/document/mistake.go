package document

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"github.com/droverhq/drover/internal/expr"
	"github.com/droverhq/drover/internal/fault"
)

// Mistake is one thing that is wrong with a file.
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

// Err is what is wrong with the file: fault.Invalid, for the reason that the
// form names, wrapping Mistakes. It is nil if nothing is.
func (f *File) Err() error {
	if f.Sound() {
		return nil
	}
	slices.SortStableFunc(f.mistakes, func(a, b Mistake) int {
		return cmp.Or(cmp.Compare(a.Line, b.Line), cmp.Compare(a.Column, b.Column))
	})
	return fault.New(fault.Invalid, "%w", slices.Compact(f.mistakes)).Because(f.form.Kind)
}

// Sound reports that no mistake was found until now.
func (f *File) Sound() bool { return f.Found() == 0 }

// Found counts the mistakes until now, of which not more are told than the form
// asks for.
func (f *File) Found() int { return len(f.mistakes) }

// At reports a mistake at the value of a path, or at the nearest thing above it.
func (f *File) At(path []any, format string, args ...any) {
	f.Report(f.Root().Find(path).At, path, fmt.Sprintf(format, args...))
}

// Inside reports a mistake some bytes into the text at a path.
func (f *File) Inside(path []any, offset int, message string) {
	f.Report(f.locate(f.Root().Find(path), offset), path, message)
}

// Missing reports that something is not there, unless what is there is wrong already.
func (f *File) Missing(path []any, format string, args ...any) {
	if !f.wrong[expr.Where(path)] {
		f.At(path, format, args...)
	}
}

// Report reports a mistake at a place; the path, if any, is told with it where
// the form has paths.
func (f *File) Report(at Place, path []any, message string) {
	if f.wrong == nil {
		f.wrong = map[string]bool{}
	}
	where := expr.Where(path)
	f.wrong[where] = true
	if f.form.NoPaths {
		where = ""
	}
	if f.form.Mistakes == 0 || len(f.mistakes) < f.form.Mistakes {
		f.mistakes = append(f.mistakes, Mistake{Source: f.source, Line: at.Line, Column: at.Column, Path: where, Message: message})
	}
}

// Under returns a new path with more steps.
func Under(path []any, steps ...any) []any { return append(slices.Clip(path), steps...) }
