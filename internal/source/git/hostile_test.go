package git_test

import (
	"bytes"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"runtime"
	"strings"
	"testing"

	"github.com/droverhq/drover/internal/fault"
	"github.com/droverhq/drover/internal/source"
	"github.com/droverhq/drover/internal/source/git"
)

const (
	file = "100644"
	dir  = "40000"
	link = "120000"
	sub  = "160000"
	ones = "1111111111111111111111111111111111111111"
)

// Whatever a repository holds, it is refused with a word on why, and nothing of
// it is kept.
func TestHostileTrees(t *testing.T) {
	tree := func(entries ...entry) func(*pack) string {
		return func(p *pack) string {
			blob := p.blob("x")
			for i := range entries {
				if entries[i].hash == "" {
					entries[i].hash = blob
				}
			}
			return p.tree(entries...)
		}
	}
	under := func(name string, inner func(*pack) string) func(*pack) string {
		return func(p *pack) string { return p.tree(entry{dir, name, inner(p)}) }
	}
	cases := []struct {
		reason string
		tree   func(*pack) string
		path   string
		limits source.Limits
		says   string // empty: it is fine
	}{
		{"a file", tree(entry{file, "a", ""}), "", source.Limits{}, ""},
		{"a file above", tree(entry{file, "..", ""}), "", source.Limits{}, "out of its directory"},
		{"a directory above", under("..", tree(entry{file, "x", ""})), "", source.Limits{}, "out of its directory"},
		{"a path as a name", tree(entry{file, "../../etc/cron.d/x", ""}), "", source.Limits{}, "slash"},
		{"an absolute path as a name", tree(entry{file, "/etc/passwd", ""}), "", source.Limits{}, "slash"},
		{"a path of another system", tree(entry{file, `..\..\x`, ""}), "", source.Limits{}, "backslash"},
		{"Git's own directory", under(".git", tree(entry{file, "config", ""})), "", source.Limits{}, "Git's own"},
		{"in capitals", under(".GIT", tree(entry{file, "config", ""})), "", source.Limits{}, "Git's own"},
		{"by its short name", under("git~1", tree(entry{file, "config", ""})), "", source.Limits{}, "Git's own"},
		{"with a letter without width", under(".g\u200dit", tree(entry{file, "config", ""})), "", source.Limits{}, "Git's own"},
		{"a line break in a name", tree(entry{file, "a\nb", ""}), "", source.Limits{}, "control"},
		{"a name that no disk has", tree(entry{file, strings.Repeat("x", 256), ""}), "", source.Limits{}, "255"},
		{"a name that is no text", tree(entry{file, "\xff\xfe", ""}), "", source.Limits{}, "UTF-8"},
		{"two names for one file", tree(entry{file, "README", ""}, entry{file, "readme", ""}), "", source.Limits{}, "one file on some machines"},
		{"the same name twice", tree(entry{file, "a", ""}, entry{file, "a", ""}), "", source.Limits{}, "one file"},
		{"a link", tree(entry{link, "secrets", ""}), "", source.Limits{}, `"secrets" is a symbolic link`},
		{"a link beside what is asked for", func(p *pack) string {
			return p.tree(entry{dir, "here", tree(entry{file, "a", ""})(p)}, entry{link, "there", p.blob("/etc")})
		}, "here", source.Limits{}, ""},
		{"a link on the way", tree(entry{link, "here", ""}), "here/x", source.Limits{}, `"here" is a symbolic link`},
		{"a submodule", tree(entry{sub, "lib", ones}), "", source.Limits{}, `"lib" is a submodule`},
		{"a file on the way", tree(entry{file, "here", ""}), "here", source.Limits{}, `"here" is a file`},
		{"an odd mode", tree(entry{"10", "odd", ""}), "", source.Limits{}, `odd`},
		{"too deep", func(p *pack) string {
			at := p.tree(entry{file, "x", p.blob("x")})
			for range 40 {
				at = p.tree(entry{dir, "d", at})
			}
			return at
		}, "", source.Limits{}, "deeper than"},
		{"ten thousand million files out of eleven objects", func(p *pack) string {
			at := p.tree(entry{file, "x", p.blob("x")})
			for range 10 {
				var all []entry
				for c := 'a'; c < 'k'; c++ {
					all = append(all, entry{dir, string(c), at})
				}
				at = p.tree(all...)
			}
			return at
		}, "", source.Limits{}, "more than 2000 files"},
		{"as many directories and no file", func(p *pack) string {
			at := p.tree()
			for range 10 {
				var all []entry
				for c := 'a'; c < 'k'; c++ {
					all = append(all, entry{dir, string(c), at})
				}
				at = p.tree(all...)
			}
			return at
		}, "", source.Limits{}, "files and directories"},
		{"one large file many times", func(p *pack) string {
			blob := p.blob(strings.Repeat("x", 1000))
			return p.tree(entry{file, "a", blob}, entry{file, "b", blob}, entry{file, "c", blob})
		}, "", source.Limits{Bytes: 2500}, "together"},
		{"a file that is too large", func(p *pack) string { return p.tree(entry{file, "big", p.blob(strings.Repeat("x", 1000))}) }, "", source.Limits{File: 999}, `"big" is larger than 999 bytes`},
		{"a file that was not sent", tree(entry{file, "a", ones}), "", source.Limits{}, "cannot be read as a repository"},
		{"a tree that is none", func(p *pack) string { return p.add(treeKind, []byte("100644")) }, "", source.Limits{}, "cannot be read as a repository"},
	}
	for _, c := range cases {
		t.Run(c.reason, func(t *testing.T) {
			p := &pack{}
			tip := p.commit(c.tree(p))
			at := serve(t, tip, bytes.NewReader(p.bytes()))
			at.Path = c.path
			tree, err := git.Source{}.Read(t.Context(), at, source.Credential{}, c.limits)
			if c.says == "" {
				if err != nil || tree.Commit != tip || string(tree.Files["a"].Data) != "x" || tree.Author != "Eve [31m <eve@example.org>" {
					t.Errorf("%+v, %v", tree, err)
				}
				return
			}
			if !fault.Is(err, fault.Invalid) || !strings.Contains(err.Error(), c.says) || tree.Files != nil {
				t.Errorf("%v (%v)", err, fault.Of(err))
			}
		})
	}
}

// endless sends the same again and again.
type endless struct{}

func (endless) Read(p []byte) (int, error) { return len(p), nil }

// What is sent is bounded before it is unpacked: none of these takes more memory
// than a small multiple of what is allowed.
func TestHostilePacks(t *testing.T) {
	const gigabyte = 1 << 30
	fine := func(p *pack) string { return p.commit(p.tree(entry{file, "a", p.blob("x")})) }
	zeros := deflate(make([]byte, 64<<20))
	cases := []struct {
		reason string
		pack   func(*pack) (tip string, from io.Reader)
		says   string
	}{
		{"a file of a gigabyte", func(p *pack) (string, io.Reader) {
			p.raw(blobKind, gigabyte, nil, zeros)
			return fine(p), nil
		}, "unpacked, it has more than"},
		{"one that says that it is small", func(p *pack) (string, io.Reader) {
			p.raw(blobKind, 10, nil, zeros)
			return fine(p), nil
		}, "cannot be read as a repository"},
		{"one that says that it is larger than it is", func(p *pack) (string, io.Reader) {
			p.raw(blobKind, 1<<20, nil, deflate([]byte("x")))
			return fine(p), nil
		}, "cannot be read as a repository"},
		{"a size beyond all numbers", func(p *pack) (string, io.Reader) {
			p.raw(blobKind, 1<<58, nil, zeros)
			return fine(p), nil
		}, "unpacked, it has more than"},
		{"a difference that comes to a gigabyte", func(p *pack) (string, io.Reader) {
			tip := fine(p)
			p.blob(strings.Repeat("x", 1<<16))
			d := append(varint(1<<16), varint(gigabyte)...)
			p.delta(len(p.at)-1, append(d, bytes.Repeat([]byte{0x80}, gigabyte>>16)...)) // copies 64 KiB each
			return tip, nil
		}, "unpacked, it has more than"},
		{"differences that double", func(p *pack) (string, io.Reader) {
			size := uint64(1 << 16)
			p.blob(strings.Repeat("x", int(size)))
			for n := 0; n < 14; n++ {
				d := append(varint(size), varint(2*size)...)
				for range 2 * size >> 16 {
					d = append(d, 0x80)
				}
				p.delta(n, d)
				size *= 2
			}
			return fine(p), nil
		}, "unpacked, it has more than"},
		{"a difference that comes to more than it says", func(p *pack) (string, io.Reader) {
			p.blob(strings.Repeat("x", 1<<16))
			p.delta(0, append(append(varint(1<<16), varint(1<<16)...), 0x80, 0x80, 0x80))
			return fine(p), nil
		}, "cannot be read as a repository"},
		{"a difference to what was not sent", func(p *pack) (string, io.Reader) {
			p.raw(refKind, 4, make([]byte, 20), deflate([]byte{1, 1, 1, 'x'}))
			return fine(p), nil
		}, "cannot be read as a repository"},
		{"thousands of millions of objects", func(p *pack) (string, io.Reader) {
			tip := fine(p)
			p.count = 1<<32 - 1
			return tip, nil
		}, "4294967295 objects"},
		{"a pack without end", func(p *pack) (string, io.Reader) {
			p.count = 3
			return ones, io.MultiReader(bytes.NewReader(append(p.bytes()[:12], 0xb0|0x0f, 0xff, 0xff, 0x3f, 0x78, 0x01)), endless{})
		}, ""},
		{"a pack that breaks off", func(p *pack) (string, io.Reader) {
			tip := fine(p)
			return tip, bytes.NewReader(p.bytes()[:40])
		}, "cannot be read as a repository"},
		{"no pack", func(p *pack) (string, io.Reader) { return ones, strings.NewReader("hello, world, how are you?") }, "cannot be read as a repository"},
	}
	for _, c := range cases {
		t.Run(c.reason, func(t *testing.T) {
			p := &pack{}
			tip, from := c.pack(p)
			if from == nil {
				from = bytes.NewReader(p.bytes())
			}
			at := serve(t, tip, from)
			var before, after runtime.MemStats
			runtime.ReadMemStats(&before)
			_, err := git.Source{}.Read(t.Context(), at, source.Credential{}, source.Limits{Bytes: 4 << 20})
			runtime.ReadMemStats(&after)
			if !fault.Is(err, fault.Invalid) || !strings.Contains(err.Error(), c.says) {
				t.Errorf("%v (%v)", err, fault.Of(err))
			}
			if took := after.TotalAlloc - before.TotalAlloc; took > 80<<20 {
				t.Errorf("it took %d MiB", took>>20)
			}
		})
	}
}

// A server that sends no end is cut off at what may be transferred.
func TestEndlessTransfer(t *testing.T) {
	p := &pack{count: 1}
	at := serve(t, ones, io.MultiReader(bytes.NewReader(p.bytes()[:12]), storedBlocks()))
	_, err := git.Source{}.Read(t.Context(), at, source.Credential{}, source.Limits{Bytes: 1 << 20})
	if !fault.Is(err, fault.Invalid) || !strings.Contains(err.Error(), "more than 1 MiB were sent") {
		t.Errorf("%v", err)
	}
}

// So is one that has branches without end.
func TestEndlessBranches(t *testing.T) {
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "application/x-git-upload-pack-advertisement")
		io.WriteString(w, pkt("# service=git-upload-pack\n")+"0000"+pkt(ones+" HEAD\x00ofs-delta\n"))
		for n := 0; ; n++ {
			if _, err := io.WriteString(w, pkt(fmt.Sprintf("%s refs/heads/b%09d\n", ones, n))); err != nil {
				return
			}
		}
	}))
	t.Cleanup(s.Close)
	_, err := git.Source{}.Read(t.Context(), source.Location{Repository: s.URL + "/repo"}, source.Credential{}, source.Limits{Bytes: 1 << 20})
	if !fault.Is(err, fault.Invalid) || !strings.Contains(err.Error(), "more than 1 MiB were sent") {
		t.Errorf("%v", err)
	}
}

// storedBlocks is a blob of 3 MiB that was not made smaller, and goes on.
func storedBlocks() io.Reader {
	head := &pack{}
	head.raw(blobKind, 3<<20, nil, []byte{0x78, 0x01})
	block := append([]byte{0x00, 0xff, 0xff, 0x00, 0x00}, make([]byte, 0xffff)...)
	return io.MultiReader(&head.body, &repeated{block: block})
}

type repeated struct {
	block []byte
	at    int
}

func (r *repeated) Read(p []byte) (int, error) {
	n := copy(p, r.block[r.at:])
	r.at = (r.at + n) % len(r.block)
	return n, nil
}
