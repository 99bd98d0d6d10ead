package v1

import (
	"crypto/sha256"
	"encoding/base64"
	"encoding/binary"
	"encoding/json"
	"errors"
	"maps"
	"slices"
)

// Buckets that items are spread over by their ids.
const Buckets = 64

// Tree is a digest of a set of items that has the same size however many there
// are: two sides that hold the same have the same tree, and where they differ
// it says in which buckets. Each leaf is the sum of the digests of its items,
// so a change to one item moves one leaf. The zero Tree is that of nothing.
type Tree [Buckets]uint64

// BucketOf is the bucket of an item.
func BucketOf(id string) int {
	sum := sha256.Sum256([]byte(id))
	return int(sum[0]) % Buckets
}

// Add counts an item in; Sub takes it out again.
func (t *Tree) Add(id string, leaf uint64) { t[BucketOf(id)] += leaf }

// Sub takes out what Add counted in.
func (t *Tree) Sub(id string, leaf uint64) { t[BucketOf(id)] -= leaf }

// Differ lists the buckets in which two trees differ, in order.
func (t *Tree) Differ(o *Tree) []int {
	var out []int
	for i := range t {
		if t[i] != o[i] {
			out = append(out, i)
		}
	}
	return out
}

// MarshalText implements encoding.TextMarshaler: base64 of the leaves.
func (t Tree) MarshalText() ([]byte, error) {
	var raw [8 * Buckets]byte
	for i, leaf := range t {
		binary.BigEndian.PutUint64(raw[8*i:], leaf)
	}
	return base64.StdEncoding.AppendEncode(nil, raw[:]), nil
}

// UnmarshalText implements encoding.TextUnmarshaler.
func (t *Tree) UnmarshalText(text []byte) error {
	var raw [8*Buckets + 3]byte
	if base64.StdEncoding.DecodedLen(len(text)) > len(raw) {
		return errTree
	}
	n, err := base64.StdEncoding.Decode(raw[:], text)
	if err != nil || n != 8*Buckets {
		return errTree
	}
	for i := range t {
		t[i] = binary.BigEndian.Uint64(raw[8*i:])
	}
	return nil
}

var errTree = errors.New("a digest tree is 64 leaves of 8 bytes in base64")

// Leaf is an item's share in a tree of desired state: over kind, id,
// generation, body digest and deletion. The token is left out: a new one alone
// is not news.
func (it Item) Leaf() uint64 {
	var l leaf
	l.text(it.Kind)
	l.text(it.ID)
	l.number(it.Generation)
	l.text(it.Digest)
	l.flag(it.Delete)
	return l.sum()
}

// Leaf is an item's share in a tree of observed state, over everything it says.
func (o ObservedItem) Leaf() uint64 {
	var l leaf
	l.text(o.Kind)
	l.text(o.ID)
	l.number(o.Generation)
	l.text(o.State)
	l.text(o.Message)
	l.pairs(o.Versions)
	l.pairs(o.Routes)
	l.number(int64(len(o.Conditions)))
	for _, c := range o.Conditions {
		text, _ := json.Marshal(c) // of four strings; cannot fail
		l.text(string(text))
	}
	if len(o.Detail) > 0 { // older agents have none, and their leaves stay as they are
		l.text(string(o.Detail))
	}
	return l.sum()
}

// leaf gathers what a leaf is the digest of. Lengths are written before texts,
// so that no two items share the bytes.
type leaf struct{ buf []byte }

func (l *leaf) text(s string) {
	l.buf = append(binary.AppendUvarint(l.buf, uint64(len(s))), s...)
}

func (l *leaf) number(n int64) { l.buf = binary.AppendVarint(l.buf, n) }

func (l *leaf) flag(b bool) {
	if b {
		l.buf = append(l.buf, 1)
	} else {
		l.buf = append(l.buf, 0)
	}
}

func (l *leaf) pairs(m map[string]string) {
	l.number(int64(len(m)))
	for _, k := range slices.Sorted(maps.Keys(m)) {
		l.text(k)
		l.text(m[k])
	}
}

func (l *leaf) sum() uint64 {
	sum := sha256.Sum256(l.buf)
	return binary.BigEndian.Uint64(sum[:])
}

// SignedBytes is what the control plane signs of an item, for one cluster and
// one life of its ledger: an agent that cannot reach anybody may go on with
// what it kept, if the signature fits. sent is the digest of the body as it was
// sent, which differs from Digest where secrets were filled in; it is empty where
// no body was.
func (it Item) SignedBytes(ledger string, epoch int64, cluster, sent string) []byte {
	var l leaf
	l.text("drover item")
	l.text(ledger)
	l.number(epoch)
	l.text(cluster)
	l.text(it.Kind)
	l.text(it.ID)
	l.number(it.Generation)
	l.number(it.Token)
	l.text(it.Digest)
	l.text(sent)
	l.flag(it.Delete)
	return l.buf
}
