package gitops_test

import (
	"bytes"
	"path/filepath"
	"testing"

	"github.com/droverhq/drover/internal/fault"
	"github.com/droverhq/drover/internal/gitops"
	"github.com/droverhq/drover/internal/ledger"
	"github.com/droverhq/drover/internal/sqlledger"
)

// A kubeconfig that has come to lead elsewhere would make all deployments seem to be gone.
func TestAnotherAPIUnderTheSameName(t *testing.T) {
	l, err := sqlledger.Open(t.Context(), sqlledger.Config{URL: filepath.Join(t.TempDir(), "l.db"), Key: bytes.Repeat([]byte{7}, ledger.KeySize), Kinds: gitops.Kinds()})
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	s := gitops.NewService(gitops.Config{Store: l, Keeper: l})
	for _, step := range []struct {
		home, identity string
		refused        bool
		reason         string
	}{
		{"default", "one", false, "the first is taken as it is"},
		{"default", "one", false, "and stays"},
		{"default", "two", true, "another one is refused"},
		{"other", "two", false, "under another name it is welcome"},
		{"default", "one", false, "the first is still known"},
	} {
		err := s.AdmitHome(t.Context(), step.home, step.identity)
		if (err != nil) != step.refused || err != nil && !fault.Is(err, fault.Conflict) {
			t.Errorf("%s: %v", step.reason, err)
		}
	}
}
