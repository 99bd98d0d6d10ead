package gitserver

import (
	"bufio"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

const bulkFile = 8 << 20

// Bulk adds files below bulk/ that nothing makes smaller to a branch that there is,
// one commit each, until they have a size together. Those that do not stay are
// removed by one more commit: the history has them still.
func (r *Repo) Bulk(t testing.TB, branch string, size int64, stay bool) {
	t.Helper()
	// Git is not to look for what is alike in them.
	cmd := exec.Command("git", "-c", "core.compression=0", "-c", "core.bigFileThreshold=1m", "-c", "fastimport.unpackLimit=0", "fast-import", "--quiet")
	cmd.Dir = r.dir
	cmd.Env = append(environment(r.dir), "PATH="+os.Getenv("PATH"), "GIT_DIR="+r.dir)
	var said strings.Builder
	cmd.Stderr = &said
	in, err := cmd.StdinPipe()
	if err == nil {
		err = cmd.Start()
	}
	if err != nil {
		t.Fatal(err)
	}
	w := bufio.NewWriterSize(in, 1<<20)
	random := rand.NewChaCha8([32]byte{1})
	commit := func(what string) {
		fmt.Fprintf(w, "commit refs/heads/%s\ncommitter Test <test@example.com> 1700000000 +0000\ndata 4\nbulk\nfrom refs/heads/%s^0\n%s\n\n", branch, branch, what)
	}
	for n := 1; size > 0 && err == nil; n++ {
		one := min(size, bulkFile)
		fmt.Fprintf(w, "blob\nmark :%d\ndata %d\n", n, one)
		_, err = io.CopyN(w, random, one)
		fmt.Fprintln(w)
		commit(fmt.Sprintf("M 100644 :%d bulk/%05d.bin", n, n))
		size -= one
	}
	if !stay {
		commit("D bulk")
	}
	if flushed := w.Flush(); err == nil {
		err = flushed
	}
	in.Close()
	if ended := cmd.Wait(); err != nil || ended != nil {
		t.Fatalf("git fast-import: %v, %v: %s", err, ended, said.String())
	}
}

// Size is what the repository takes on disk, in bytes.
func (r *Repo) Size(t testing.TB) (n int64) {
	t.Helper()
	if err := filepath.WalkDir(r.dir, func(_ string, d os.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		info, err := d.Info()
		if err == nil {
			n += info.Size()
		}
		return err
	}); err != nil {
		t.Fatal(err)
	}
	return n
}
