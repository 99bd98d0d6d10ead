package servers_test

import (
	"archive/zip"
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/droverhq/drover/test/servers"
)

func TestFetch(t *testing.T) {
	good := pack(t, "server-1/bin/run.sh", "server-1/readme")
	outside := pack(t, "server-1/../../../evil")
	for _, c := range []struct {
		reason string
		body   []byte
		sum    string
		status int
		want   string // in the error; empty: it works
	}{
		{"an archive with its checksum is unpacked", good, digest(good), 200, ""},
		{"another checksum is refused", good, digest(outside), 200, "checksum"},
		{"a cut download is refused", good[:len(good)/2], digest(good), 200, "checksum"},
		{"a missing file says so", good, digest(good), 404, "404"},
		{"no entry leaves the directory", outside, digest(outside), 200, "leads out"},
	} {
		t.Run(c.reason, func(t *testing.T) {
			t.Setenv("XDG_CACHE_HOME", t.TempDir())
			var asked atomic.Int32
			s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
				asked.Add(1)
				w.WriteHeader(c.status)
				w.Write(c.body)
			}))
			defer s.Close()
			a := servers.Archive{Name: "server", Version: "1", URL: s.URL, SHA256: c.sum, Strip: 1}
			var wg sync.WaitGroup
			for range 4 {
				wg.Go(func() {
					var out bytes.Buffer
					dir, err := servers.Fetch(t.Context(), a, &out)
					if c.want != "" {
						if err == nil || !strings.Contains(err.Error(), c.want) {
							t.Errorf("got %v, want an error with %q", err, c.want)
						}
						return
					}
					if err != nil {
						t.Errorf("cannot fetch: %v", err)
						return
					}
					if info, err := os.Stat(filepath.Join(dir, "bin", "run.sh")); err != nil || info.Mode()&0o100 == 0 {
						t.Errorf("run.sh is not there to be run: %v, %v", info, err)
					}
				})
			}
			wg.Wait()
			dir, _ := a.Dir()
			if _, err := os.Stat(dir); (err == nil) != (c.want == "") {
				t.Errorf("the directory is there: %v", err == nil)
			}
			if c.want == "" && asked.Load() != 1 {
				t.Errorf("four callers downloaded %d times", asked.Load())
			}
			if left, _ := filepath.Glob(filepath.Join(filepath.Dir(dir), ".server-*")); len(left) > 0 {
				t.Errorf("left behind: %v", left)
			}
		})
	}
}

func pack(t *testing.T, names ...string) []byte {
	t.Helper()
	var b bytes.Buffer
	z := zip.NewWriter(&b)
	for _, name := range names {
		h := &zip.FileHeader{Name: name}
		h.SetMode(0o755)
		w, err := z.CreateHeader(h)
		if err != nil {
			t.Fatal(err)
		}
		w.Write([]byte("text of " + name))
	}
	if err := z.Close(); err != nil {
		t.Fatal(err)
	}
	return b.Bytes()
}

func digest(b []byte) string {
	sum := sha256.Sum256(b)
	return hex.EncodeToString(sum[:])
}
