package ledger

import (
	"strings"
	"unicode"
	"unicode/utf8"

	"github.com/droverhq/drover/internal/fault"
)

const (
	maxQueryWords = 16
	maxWord       = 64 // bytes; what a longer word has beyond is not looked at
)

// SplitWords cuts a text into words: runs of letters and digits, in lower case.
// Stores index these, so that all find the same.
func SplitWords(text string) []string {
	words := strings.FieldsFunc(text, func(r rune) bool {
		return r == utf8.RuneError || !unicode.IsLetter(r) && !unicode.IsNumber(r) && !unicode.IsMark(r)
	})
	for i, w := range words {
		w = strings.ToLower(w)
		if len(w) > maxWord {
			w = strings.ToValidUTF8(w[:maxWord], "")
		}
		words[i] = w
	}
	return words
}

// Matcher tells how well names and words match a search's text. It is what ranks,
// whatever index has found the candidates.
type Matcher struct {
	Words []string // the last may be the beginning of one
	whole string
}

// NewMatcher reads a search's text.
func NewMatcher(text string) (*Matcher, error) {
	if len(text) > MaxText || !utf8.ValidString(text) {
		return nil, fault.New(fault.Invalid, "a search takes at most %d bytes of text", MaxText)
	}
	m := &Matcher{Words: SplitWords(text)}
	if len(m.Words) == 0 || len(m.Words) > maxQueryWords {
		return nil, fault.New(fault.Invalid, "a search takes 1 to %d words of letters and digits", maxQueryWords)
	}
	m.whole = strings.Join(m.Words, " ")
	return m, nil
}

// What a word of the search is worth where it was found. Any object whose name
// has all words comes before any other: at most maxQueryWords words share the
// rank, and the shorter name's advantage is less than the difference that one
// word makes.
const (
	rankWholeName  = 100
	rankName       = 8
	rankNameBegins = 6
	rankWord       = 2
	rankWordBegins = 1
	rankShortName  = 0.1
)

// Rank returns how well an object matches; false if a word is missing.
func (m *Matcher) Rank(name, words string) (float64, bool) {
	inName, inWords := SplitWords(name), SplitWords(words)
	rank := rankShortName / float64(1+len(inName))
	if m.whole == strings.Join(inName, " ") {
		return rankWholeName + rank, true
	}
	for i, w := range m.Words {
		last := i == len(m.Words)-1
		worth := max(found(inName, w, last, rankName, rankNameBegins), found(inWords, w, last, rankWord, rankWordBegins))
		if worth == 0 {
			return 0, false
		}
		rank += worth / float64(len(m.Words))
	}
	return rank, true
}

// found is exact if the word is among others, begins if it begins one that may be
// longer, and else 0.
func found(among []string, word string, last bool, exact, begins float64) float64 {
	var best float64
	for _, w := range among {
		if w == word {
			return exact
		}
		if last && strings.HasPrefix(w, word) {
			best = begins
		}
	}
	return best
}
