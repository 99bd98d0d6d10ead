package gitops_test

import (
	"flag"
	"testing"
)

// few lets a property be tried less often than others, whose every try is a whole
// life on a real ledger. -rapid.checks tries as often as it says.
func few(t *testing.T, checks string) {
	t.Helper()
	f := flag.Lookup("rapid.checks")
	if f.Value.String() != f.DefValue {
		return
	}
	if err := flag.Set("rapid.checks", checks); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = flag.Set("rapid.checks", f.DefValue) })
}
