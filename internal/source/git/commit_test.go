package git_test

import (
	"crypto/rand"
	"testing"

	"github.com/droverhq/drover/internal/fault"
	"github.com/droverhq/drover/internal/source"
	"github.com/droverhq/drover/internal/source/git"
	"github.com/droverhq/drover/test/gitserver"
)

// TestCommit reads commits of a repository whose files are far more than may be taken.
func TestCommit(t *testing.T) {
	server := gitserver.Start(t, gitserver.WithPassword("reader", "s3cr3t"))
	repo := server.Repo(t, "large")
	noise := make([]byte, 1<<20)
	_, _ = rand.Read(noise)
	first := repo.Commit(t, "main", map[string]gitserver.Entry{"a": gitserver.File("a"), "large": gitserver.File(string(noise))})
	second := repo.Commit(t, "main", map[string]gitserver.Entry{"a": gitserver.File("b")})
	with := source.Credential{Username: "reader", Password: "s3cr3t"}
	small := source.Limits{Bytes: 64 << 10}
	for _, hash := range []string{first, second} {
		c, err := git.Source{}.Commit(t.Context(), source.Location{Repository: repo.URL, Revision: hash, Path: "nowhere"}, with, small)
		if err != nil || c.Commit != hash || c.Author == "" || c.Message == "" || len(c.Files) > 0 {
			t.Errorf("%s: %+v, %v", hash, c, err)
		}
	}
	for reason, tc := range map[string]struct {
		revision string
		with     source.Credential
		kind     fault.Kind
	}{
		"what is not there":    {"1234567890123456789012345678901234567890", with, fault.NotFound},
		"whoever may not read": {second, source.Credential{Username: "reader", Password: "wrong"}, fault.Denied},
	} {
		if _, err := (git.Source{}).Commit(t.Context(), source.Location{Repository: repo.URL, Revision: tc.revision}, tc.with, small); !fault.Is(err, tc.kind) {
			t.Errorf("%s: %v", reason, err)
		}
	}
}
