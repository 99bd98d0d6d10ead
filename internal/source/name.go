package source

import (
	"strings"
	"unicode"
	"unicode/utf8"

	"github.com/droverhq/drover/internal/fault"
)

const (
	maxName  = 255
	maxPath  = 1024
	maxDepth = 32
)

// CheckName refuses names that a stranger could mean harm with: those that lead
// elsewhere, those that a file system takes for ".git", and those that it could
// not hold.
func CheckName(name string) error {
	why := ""
	switch {
	case name == "":
		why = "is empty"
	case name == "." || name == "..":
		why = "leads out of its directory"
	case len(name) > maxName:
		why = "is longer than 255 bytes"
	case !utf8.ValidString(name):
		why = "is no UTF-8"
	case strings.ContainsAny(name, `/\`):
		why = "holds a slash or a backslash"
	case strings.ContainsFunc(name, unicode.IsControl):
		why = "holds control characters"
	case gitLike(name):
		why = "is Git's own on some machine"
	}
	if why != "" {
		return fault.New(fault.Invalid, "the name %.64q %s: rename it", name, why).Because("path")
	}
	return nil
}

// gitLike reports whether some file system takes the name for ".git": without
// regard to case, to letters that have no width, to dots and blanks at the end
// and to streams behind a colon, or by its short name.
func gitLike(name string) bool {
	name = strings.Map(func(r rune) rune {
		if unicode.Is(unicode.Cf, r) {
			return -1
		}
		return r
	}, name)
	name, _, _ = strings.Cut(name, ":")
	name = strings.TrimRight(name, ". ")
	return strings.EqualFold(name, ".git") || strings.EqualFold(name, "git~1")
}

// Fold is the name as file systems compare it that do not tell case apart: two
// names with the same fold in one directory are one file there.
func Fold(name string) string { return strings.ToLower(strings.ToUpper(name)) }
