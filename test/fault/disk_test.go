//go:build linux

package fault

import (
	"context"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"syscall"
	"testing"
	"unsafe"

	"github.com/droverhq/drover/api/client"
	v1 "github.com/droverhq/drover/api/v1"
	"github.com/droverhq/drover/test/drover"
)

// room is a data directory that can be made narrow and wide again.
type room struct {
	dir    string
	word   string // that whoever writes is told
	narrow func(t *testing.T, s *drover.Server)
	widen  func(t *testing.T, s *drover.Server)
}

const little = 512 << 10 // bytes that are left

// A disk without room, in the two ways that exist: files may not grow, which
// needs no rights, and a file system that is full, where one can be mounted.
func TestDiskFull(t *testing.T) {
	t.Run("files may not grow", func(t *testing.T) { diskFull(t, limited(t)) })
	if r, ok := mounted(t); ok {
		t.Run("the file system is full", func(t *testing.T) { diskFull(t, r) })
	} else {
		t.Log("mounting is not allowed here: only the limit of files was tried")
	}
}

// limited bounds the size of every file that the server writes.
func limited(t *testing.T) room {
	return room{
		dir: t.TempDir(), word: "whether it was done is not known; try again", // SQLite takes it for a disk that fails
		narrow: func(t *testing.T, s *drover.Server) {
			largest := int64(0)
			for _, name := range []string{"drover.db", "drover.db-wal"} {
				if info, err := os.Stat(filepath.Join(s.DataDir, name)); err == nil {
					largest = max(largest, info.Size())
				}
			}
			limit(t, s.PID(), uint64(largest+little))
		},
		widen: func(t *testing.T, s *drover.Server) { limit(t, s.PID(), ^uint64(0)) },
	}
}

func limit(t *testing.T, pid int, size uint64) {
	t.Helper()
	var l syscall.Rlimit // the hard limit stays: nobody but root may raise it
	if err := syscall.Getrlimit(syscall.RLIMIT_FSIZE, &l); err != nil {
		t.Fatal(err)
	}
	l.Cur = min(size, l.Max)
	if _, _, errno := syscall.Syscall6(syscall.SYS_PRLIMIT64, uintptr(pid), syscall.RLIMIT_FSIZE, uintptr(unsafe.Pointer(&l)), 0, 0, 0); errno != 0 {
		t.Fatalf("cannot limit the size of files: %v", errno)
	}
}

// mounted is a small file system with a file that fills it.
func mounted(t *testing.T) (room, bool) {
	dir := t.TempDir()
	if err := syscall.Mount("drover-test", dir, "tmpfs", 0, "size=32m,mode=0700"); err != nil {
		return room{}, false
	}
	t.Cleanup(func() {
		if err := syscall.Unmount(dir, 0); err != nil {
			_ = syscall.Unmount(dir, syscall.MNT_DETACH)
		}
	})
	filler := filepath.Join(dir, "filler")
	return room{
		dir: filepath.Join(dir, "data"), word: "the disk is full; try again",
		narrow: func(t *testing.T, _ *drover.Server) {
			var fs syscall.Statfs_t
			if err := syscall.Statfs(dir, &fs); err != nil {
				t.Fatal(err)
			}
			size := int64(fs.Bavail)*fs.Bsize - little
			if err := os.WriteFile(filler, make([]byte, size), 0o600); err != nil {
				t.Fatal(err)
			}
		},
		widen: func(t *testing.T, _ *drover.Server) {
			if err := os.Remove(filler); err != nil {
				t.Fatal(err)
			}
		},
	}, true
}

func diskFull(t *testing.T, r room) {
	s := &drover.Server{Mode: "server", DataDir: r.dir, Listen: drover.FreeAddress(t), Routes: drover.FreeAddress(t)}
	t.Cleanup(func() {
		s.Kill()
		if t.Failed() {
			log := s.Log()
			t.Logf("log:\n%s", log[max(0, len(log)-8<<10):])
		}
	})
	s.Start(t)
	cluster := s.Cluster(t, "edge")
	c := s.Client(t)
	ctx := context.Background()
	order := func(name string) int {
		_, err := c.Create(ctx, "dinosaurs", v1.CreateInstance{Name: name})
		if err == nil {
			return http.StatusAccepted
		}
		if got := word(err); client.Status(err) == http.StatusServiceUnavailable && got != r.word {
			t.Errorf("an order on a full disk is told %q", got)
		}
		return client.Status(err)
	}
	var kept []string
	if got := order("first"); got != http.StatusAccepted {
		t.Fatalf("an order with room gets %d", got)
	}
	kept = append(kept, "first")

	r.narrow(t, s)
	refused := ""
	for n := 0; refused == ""; n++ {
		name := fmt.Sprintf("d%d", n)
		switch got := order(name); got {
		case http.StatusAccepted:
			kept = append(kept, name)
		case http.StatusServiceUnavailable:
			refused = name
		default:
			t.Fatalf("an order on a full disk gets %d", got)
		}
		if n > 5000 {
			t.Fatal("5000 orders fit into nothing: the disk was not made narrow")
		}
	}
	t.Logf("%d orders fit", len(kept))

	// Full: writes are refused again and again, reads go on.
	for range 5 {
		if got := order(refused); got != http.StatusServiceUnavailable && got != http.StatusAccepted {
			t.Errorf("an order on a full disk gets %d", got)
		}
		if _, err := c.Get(ctx, "dinosaurs", "first", ""); err != nil {
			t.Errorf("reading one: %v", err)
		}
		if l, err := c.List(ctx, "dinosaurs", client.ListOptions{Size: 1}); err != nil || l.Total < int64(len(kept)) {
			t.Errorf("a list holds %d of %d: %v", l.Total, len(kept), err)
		}
	}
	if got := status(s, "/healthz"); got != http.StatusOK {
		t.Errorf("/healthz answers %d", got)
	}
	select {
	case <-s.Done():
		t.Fatal("the server ended on a full disk")
	default:
	}

	// Room again: it goes on by itself.
	r.widen(t, s)
	drover.Until(t, "orders to be taken again", func() bool {
		got := order(refused)
		return got == http.StatusAccepted || got == http.StatusConflict
	})
	drover.Until(t, "/readyz", func() bool { return readyz(s) == http.StatusOK })
	kept = append(kept, refused)

	// Nothing is lost, not even by a crash now; and everything comes true.
	s.Kill()
	s.Start(t)
	list, err := c.List(ctx, "dinosaurs", client.ListOptions{Size: 10_000})
	if err != nil {
		t.Fatal(err)
	}
	there := map[string]bool{}
	for _, o := range list.Items {
		there[o.Name] = true
	}
	for _, name := range kept {
		if !there[name] {
			t.Errorf("%s was acknowledged and is lost", name)
		}
	}
	if len(there) != len(kept) {
		t.Errorf("%d are there, %d were acknowledged", len(there), len(kept))
	}
	// All but a few are given up, so that few processes need to run.
	for _, name := range kept[:max(0, len(kept)-8)] {
		if _, err := c.Delete(ctx, "dinosaurs", name); err != nil {
			t.Fatalf("cannot delete %s: %v", name, err)
		}
	}
	agent := drover.Join(t, s.URL(), "edge", cluster)
	drover.Until(t, "the rest to be ready", func() bool {
		l, err := c.List(ctx, "dinosaurs", client.ListOptions{Size: 10_000})
		if err != nil || int(l.Total) != min(8, len(kept)) {
			return false
		}
		for _, o := range l.Items {
			if o.Phase != "ready" {
				return false
			}
		}
		return len(drover.Instances(agent.DataDir)) == len(l.Items)
	})
}
