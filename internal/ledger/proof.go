package ledger

import (
	"bytes"
	"crypto/rand"
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"hash"
	"strings"
	"time"

	"github.com/droverhq/drover/internal/fault"
)

// Entry is one change as it lies in the log, byte by byte. Proof is about
// these bytes and not about what a program reads in them: they are the same in
// every store, and no later program writes them anew.
type Entry struct {
	Seq     int64
	At      int64 // microseconds since 1970
	Actor   string
	Cause   string
	Op      string
	Kind    string
	ID      string
	Org     string
	Version int64
	From    string
	State   []byte // the object as it was written
}

// Ref of the object that it is about.
func (e *Entry) Ref() Ref { return Ref{Kind: e.Kind, ID: e.ID} }

// Hash is a SHA-256 sum.
type Hash [sha256.Size]byte

func (h Hash) String() string { return "sha256:" + hex.EncodeToString(h[:]) }

// ParseHash reads what String writes.
func ParseHash(text string) (Hash, error) {
	var h Hash
	digits, ok := strings.CutPrefix(text, "sha256:")
	raw, err := hex.DecodeString(digits)
	// Whatever else could be read as the same sum would be another text.
	if !ok || err != nil || len(raw) != len(h) || strings.ToLower(digits) != digits {
		return Hash{}, fault.New(fault.Invalid, "%.80q is not a SHA-256 sum", text)
	}
	copy(h[:], raw)
	return h, nil
}

// SaltSize is the length of a salt: enough that what was erased cannot be
// guessed from its digest.
const SaltSize = 16

// Salt is mixed into the digest of a change's content; all zero: it was erased.
type Salt [SaltSize]byte

// Seal is what is kept of one change to prove it by: its salt, and its digest.
type Seal struct {
	Seq    int64
	Salt   Salt
	Digest Hash
}

// erased begins what is left in place of a content: the digest that it had. With
// the salt gone it proves that something was there, and who wrote it when, and
// lets nobody guess what it was. Contents begin with a brace.
const erased = "erased:"

// NewSeal seals a change with a salt of its own.
func NewSeal(e *Entry) Seal {
	s := Seal{Seq: e.Seq}
	rand.Read(s.Salt[:]) //nolint:errcheck // never fails
	s.Digest = digest(e, content(s.Salt, e.State))
	return s
}

// Erase returns what a change and its seal are without the content.
func (s Seal) Erase(e Entry) (Seal, Entry) {
	if !e.Erased() {
		e.State = []byte(erased + content(s.Salt, e.State).String())
		s.Salt = Salt{}
	}
	return s, e
}

// Erased reports whether a change's content was taken away.
func (e *Entry) Erased() bool { return bytes.HasPrefix(e.State, []byte(erased)) }

// Holds reports whether a change is the one that was sealed, with or without
// its content.
func (s *Seal) Holds(e *Entry) bool {
	if s.Seq != e.Seq || e.Erased() != (s.Salt == Salt{}) {
		return false
	}
	of := content(s.Salt, e.State)
	if e.Erased() {
		var err error
		if of, err = ParseHash(string(e.State[len(erased):])); err != nil {
			return false
		}
	}
	return digest(e, of) == s.Digest
}

func content(salt Salt, state []byte) Hash {
	w := begin("drover content 1")
	w.Write(salt[:])
	w.Write(state)
	return sum(w)
}

// digest of a change: of everything in its row, the content by its own digest.
func digest(e *Entry, content Hash) Hash {
	w := begin("drover change 1")
	w.Write(layout(e))
	w.Write(content[:])
	return sum(w)
}

// layout is a change's row without its content. It is fixed for ever: integers
// have eight bytes, texts their length in front.
func layout(e *Entry) []byte {
	b := make([]byte, 0, 128)
	for _, n := range [...]int64{e.Seq, e.At, e.Version} {
		b = binary.BigEndian.AppendUint64(b, uint64(n))
	}
	for _, t := range [...]string{e.Actor, e.Cause, e.Op, e.Kind, e.ID, e.Org, e.From} {
		b = binary.BigEndian.AppendUint64(b, uint64(len(t)))
		b = append(b, t...)
	}
	return b
}

// Block is a stretch of the log that was sealed at once.
type Block struct {
	Number      int64 // the first is 1
	First, Last int64 // sequences
	Root        Hash  // of its changes' digests
	Previous    Hash  // of the block before; zero for the first
	Epoch       int64
	At          time.Time // when it was sealed
	Key         string    // id of the key that signed it
	Signature   []byte
	// Seals of its changes, in their order: of all, or of those that truncation has kept.
	Seals []Seal
}

// MaxBlock bounds the changes of a block.
const MaxBlock = 4096

// NewBlock seals the changes that follow a block (nil: there is none yet). They
// are dense, at least one and at most MaxBlock. It is yet to be signed.
func NewBlock(ledger Head, before *Block, entries []Entry, now time.Time) Block {
	b := Block{Number: 1, First: entries[0].Seq, Last: entries[len(entries)-1].Seq, Epoch: ledger.Epoch, At: now.UTC().Truncate(time.Microsecond)}
	if before != nil {
		b.Number, b.Previous = before.Number+1, before.Hash(ledger.Ledger)
	}
	for i := range entries {
		b.Seals = append(b.Seals, NewSeal(&entries[i]))
	}
	b.Root = b.sealed()
	return b
}

// sealed is the root of a block by its seals.
func (b *Block) sealed() Hash {
	root := begin("drover block 1")
	for i := range b.Seals {
		root.Write(b.Seals[i].Digest[:])
	}
	return sum(root)
}

// whole reports whether truncation has left all its seals.
func (b *Block) whole() bool { return int64(len(b.Seals)) == b.Last-b.First+1 }

// Hash of a block: of everything about it but its seals, which its root stands
// for, and the signature. It is the head of the chain that ends with it.
func (b *Block) Hash(ledger string) Hash {
	w := begin("drover head 1")
	text(w, ledger)
	numbers(w, b.Number, b.First, b.Last, b.Epoch, b.At.UnixMicro())
	w.Write(b.Root[:])
	w.Write(b.Previous[:])
	text(w, b.Key)
	return sum(w)
}

// Checkpoint is what truncation leaves: up to the end of a block, the last
// change of each object is kept and sealed anew, and the rest is gone.
type Checkpoint struct {
	Block     int64     // up to the end of this one
	Last      int64     // its last sequence
	LastAt    time.Time // of that change: from then on there is history
	Head      Hash      // of the chain there
	Count     int64     // changes that are kept
	Root      Hash      // of their digests, in the order of their sequences
	At        time.Time // when it was made
	Key       string
	Signature []byte
	// Pruned: what it drops is gone. Nothing proves that, and nothing needs to: whoever
	// denies it has it dropped once more.
	Pruned bool
}

// Hash of a checkpoint: of everything about it but the signature and what was done since.
func (c *Checkpoint) Hash(ledger string) Hash {
	w := begin("drover checkpoint 1")
	text(w, ledger)
	numbers(w, c.Block, c.Last, c.LastAt.UnixMicro(), c.Count, c.At.UnixMicro())
	w.Write(c.Head[:])
	w.Write(c.Root[:])
	text(w, c.Key)
	return sum(w)
}

// begin starts a sum that cannot be mistaken for one of anything else.
func begin(of string) hash.Hash {
	w := sha256.New()
	text(w, of)
	return w
}

func text(w hash.Hash, t string) {
	numbers(w, int64(len(t)))
	w.Write([]byte(t))
}

func numbers(w hash.Hash, ns ...int64) {
	var b [8]byte
	for _, n := range ns {
		binary.BigEndian.PutUint64(b[:], uint64(n))
		w.Write(b[:])
	}
}

func sum(w hash.Hash) (h Hash) {
	w.Sum(h[:0])
	return h
}

const sealSize = 8 + SaltSize + sha256.Size

// PackSeals writes seals for a store: of a fixed size each.
func PackSeals(seals []Seal) []byte {
	out := make([]byte, 0, sealSize*len(seals))
	for i := range seals {
		out = binary.BigEndian.AppendUint64(out, uint64(seals[i].Seq))
		out = append(out, seals[i].Salt[:]...)
		out = append(out, seals[i].Digest[:]...)
	}
	return out
}

// UnpackSeals is the way back. What is cut off in the middle is left out: the
// seal that it was is missing then.
func UnpackSeals(data []byte) []Seal {
	out := make([]Seal, 0, len(data)/sealSize)
	for ; len(data) >= sealSize; data = data[sealSize:] {
		s := Seal{Seq: int64(binary.BigEndian.Uint64(data))}
		copy(s.Salt[:], data[8:])
		copy(s.Digest[:], data[8+SaltSize:])
		out = append(out, s)
	}
	return out
}
