package ledger_test

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"github.com/droverhq/drover/internal/fault"
	"github.com/droverhq/drover/internal/ledger"
)

func TestSplitWords(t *testing.T) {
	long := strings.Repeat("ä", 100)
	for _, c := range []struct {
		reason, text string
		want         []string
	}{
		{"what people put between words", "shop-staging/db[0]_x.y", []string{"shop", "staging", "db", "0", "x", "y"}},
		{"case is nothing", "ShopDB ÄÖ", []string{"shopdb", "äö"}},
		{"a mark belongs to its letter", "e\u0301a", []string{"e\u0301a"}},
		{"operators of whatever language", `"a"* AND -b:{c} %_'`, []string{"a", "and", "b", "c"}},
		{"what cannot be read stands between", "a\x00b\xffc\ufffdd", []string{"a", "b", "c", "d"}},
		{"long words are cut between letters", long, []string{strings.Repeat("ä", 32)}},
		{"nothing", " -/ ", []string{}},
	} {
		if got := ledger.SplitWords(c.text); !cmp.Equal(got, c.want) {
			t.Errorf("%s: %q", c.reason, got)
		}
	}
}

func TestMatcherRefuses(t *testing.T) {
	for reason, text := range map[string]string{
		"no text": "", "no words": `"*"`, "too long": strings.Repeat("a", ledger.MaxText+1), "too many": strings.Repeat("a ", 17), "unreadable": "a\xff",
	} {
		if _, err := ledger.NewMatcher(text); !fault.Is(err, fault.Invalid) {
			t.Errorf("%s: %v", reason, err)
		}
	}
}

// Names that have all the words go before everything else, however many words
// there are and however long the names: stores stop looking when they have enough
// of them.
func TestNamesRankFirst(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		words := rapid.SliceOfNDistinct(rapid.StringMatching("[a-d]{1,3}"), 1, 16, rapid.ID).Draw(t, "words")
		m, err := ledger.NewMatcher(strings.Join(words, " "))
		if err != nil {
			t.Fatal(err)
		}
		more := rapid.SliceOfN(rapid.StringMatching("[x-z]{1,3}"), 0, 20).Draw(t, "more")
		begun := append([]string{}, words...)
		begun[len(begun)-1] += "x"
		named, ok := m.Rank(strings.Join(append(begun, more...), "-"), "")
		if !ok {
			t.Fatal("a name with all words does not match")
		}
		missing := rapid.IntRange(0, len(words)-1).Draw(t, "missing")
		short := append(append([]string{}, words[:missing]...), words[missing+1:]...)
		if strings.Contains(" "+strings.Join(short, " "), " "+words[missing]) && missing == len(words)-1 {
			return // another word begins with it
		}
		other, ok := m.Rank(strings.Join(short, "-"), words[missing])
		if !ok || other >= named {
			t.Fatalf("a name without %q ranks %v (%t), one with all %v", words[missing], other, ok, named)
		}
		if _, ok := m.Rank(strings.Join(short, "-"), "none"); ok {
			t.Fatalf("matches without %q", words[missing])
		}
	})
}
