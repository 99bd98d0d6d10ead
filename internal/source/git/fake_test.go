package git_test

import (
	"bytes"
	"compress/zlib"
	"crypto/sha1"
	"encoding/binary"
	"encoding/hex"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/droverhq/drover/internal/source"
)

// pack builds packs by hand, as a stranger could.
type pack struct {
	body  bytes.Buffer
	count uint32
	at    []int64 // offsets of the objects
}

const (
	commitKind = 1
	treeKind   = 2
	blobKind   = 3
	offsetKind = 6
	refKind    = 7
)

// raw adds an object that claims a length.
func (p *pack) raw(kind int, length int64, extra, deflated []byte) {
	p.at = append(p.at, int64(12+p.body.Len()))
	b := byte(kind<<4) | byte(length&0xf)
	for length >>= 4; length > 0; length >>= 7 {
		p.body.WriteByte(b | 0x80)
		b = byte(length & 0x7f)
	}
	p.body.WriteByte(b)
	p.body.Write(extra)
	p.body.Write(deflated)
	p.count++
}

func deflate(data []byte) []byte {
	var b bytes.Buffer
	w := zlib.NewWriter(&b)
	w.Write(data)
	w.Close()
	return b.Bytes()
}

func hashOf(kind int, data []byte) string {
	name := map[int]string{commitKind: "commit", treeKind: "tree", blobKind: "blob"}[kind]
	h := sha1.New()
	fmt.Fprintf(h, "%s %d\x00", name, len(data))
	h.Write(data)
	return hex.EncodeToString(h.Sum(nil))
}

func (p *pack) add(kind int, data []byte) string {
	p.raw(kind, int64(len(data)), nil, deflate(data))
	return hashOf(kind, data)
}

func (p *pack) blob(text string) string { return p.add(blobKind, []byte(text)) }

// entry of a tree.
type entry struct{ mode, name, hash string }

func (p *pack) tree(entries ...entry) string { return p.add(treeKind, treeOf(entries...)) }

func treeOf(entries ...entry) []byte {
	var b bytes.Buffer
	for _, e := range entries {
		raw, _ := hex.DecodeString(e.hash)
		fmt.Fprintf(&b, "%s %s\x00", e.mode, e.name)
		b.Write(raw)
	}
	return b.Bytes()
}

func (p *pack) commit(tree string) string {
	return p.add(commitKind, []byte("tree "+tree+"\nauthor Eve \x1b[31m<eve@example.org> 1700000000 +0000\ncommitter Eve <eve@example.org> 1700000000 +0000\n\nhello\n"))
}

// delta adds an object that is told as a difference to an earlier one.
func (p *pack) delta(base int, data []byte) {
	distance := int64(12+p.body.Len()) - p.at[base]
	extra := []byte{byte(distance & 0x7f)}
	for distance >>= 7; distance > 0; distance >>= 7 {
		distance--
		extra = append([]byte{0x80 | byte(distance&0x7f)}, extra...)
	}
	p.raw(offsetKind, int64(len(data)), extra, deflate(data))
}

func varint(n uint64) []byte { return binary.AppendUvarint(nil, n) }

func (p *pack) bytes() []byte {
	out := append([]byte("PACK\x00\x00\x00\x02"), binary.BigEndian.AppendUint32(nil, p.count)...)
	out = append(out, p.body.Bytes()...)
	sum := sha1.Sum(out)
	return append(out, sum[:]...)
}

func pkt(text string) string { return fmt.Sprintf("%04x%s", len(text)+4, text) }

// serve is a server that says what it is told to.
func serve(t *testing.T, tip string, pack io.Reader) source.Location {
	t.Helper()
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if strings.HasSuffix(r.URL.Path, "/info/refs") {
			w.Header().Set("Content-Type", "application/x-git-upload-pack-advertisement")
			io.WriteString(w, pkt("# service=git-upload-pack\n")+"0000"+pkt(tip+" HEAD\x00ofs-delta agent=eve\n")+pkt(tip+" refs/heads/main\n")+"0000")
			return
		}
		io.Copy(io.Discard, r.Body)
		io.WriteString(w, pkt("NAK\n"))
		io.Copy(w, pack)
	}))
	t.Cleanup(s.Close)
	return source.Location{Repository: s.URL + "/repo"}
}
