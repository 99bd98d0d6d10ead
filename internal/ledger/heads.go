package ledger

import (
	"bufio"
	"bytes"
	"crypto/ed25519"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/droverhq/drover/internal/fault"
)

// SealedHead is the end of the chain at one time: whoever keeps one elsewhere
// can tell whether anything before it was changed since.
type SealedHead struct {
	Block     int64     `json:"block"`
	Seq       int64     `json:"seq"` // the last change before it
	Epoch     int64     `json:"epoch"`
	At        time.Time `json:"at"`
	Hash      Hash      `json:"-"`
	Key       string    `json:"key"`
	Signature []byte    `json:"signature"`
}

type headJSON struct {
	plainHead
	Hash string `json:"hash"`
}

type plainHead SealedHead

// MarshalJSON writes the hash as people read it.
func (h SealedHead) MarshalJSON() ([]byte, error) {
	return json.Marshal(headJSON{plainHead(h), h.Hash.String()})
}

// UnmarshalJSON is the way back.
func (h *SealedHead) UnmarshalJSON(data []byte) error {
	var j headJSON
	if err := json.Unmarshal(data, &j); err != nil {
		return err
	}
	*h = SealedHead(j.plainHead)
	var err error
	h.Hash, err = ParseHash(j.Hash)
	return err
}

// Heads is what is kept elsewhere: heads of a ledger, and the keys that they are
// signed with. It is printed as lines of words, and read from these or from JSON.
type Heads struct {
	Ledger string       `json:"ledger"`
	Keys   []SealKey    `json:"keys"`
	Heads  []SealedHead `json:"heads"`
}

// String prints them.
func (h Heads) String() string {
	var b strings.Builder
	fmt.Fprintf(&b, "ledger %s\n", h.Ledger)
	for _, k := range h.Keys {
		fmt.Fprintf(&b, "key %s ed25519:%s since %s\n", k.ID, base64.StdEncoding.EncodeToString(k.Public), k.Since.UTC().Format(time.RFC3339Nano))
	}
	for _, s := range h.Heads {
		fmt.Fprintf(&b, "head %d change %d epoch %d at %s %s key %s signature %s\n", s.Block, s.Seq, s.Epoch,
			s.At.UTC().Format(time.RFC3339Nano), s.Hash, s.Key, base64.StdEncoding.EncodeToString(s.Signature))
	}
	return b.String()
}

// ParseHeads reads what String printed, any number of times one after the other,
// or the same as JSON. Lines that begin with # are left out.
func ParseHeads(data []byte) (Heads, error) {
	var h Heads
	if trimmed := bytes.TrimSpace(data); len(trimmed) > 0 && trimmed[0] == '{' {
		if err := json.Unmarshal(trimmed, &h); err != nil {
			return Heads{}, fault.New(fault.Invalid, "these are no heads: %w", err)
		}
		return h, h.check()
	}
	lines := bufio.NewScanner(bytes.NewReader(data))
	lines.Buffer(nil, 1<<20)
	for n := 1; lines.Scan(); n++ {
		words := strings.Fields(lines.Text())
		if len(words) == 0 || strings.HasPrefix(words[0], "#") {
			continue
		}
		if err := h.line(words); err != nil {
			return Heads{}, fault.New(fault.Invalid, "line %d is no line of heads: %w", n, err)
		}
	}
	if err := lines.Err(); err != nil {
		return Heads{}, fault.New(fault.Invalid, "cannot read the heads: %w", err)
	}
	return h, h.check()
}

func (h *Heads) check() error {
	if h.Ledger == "" {
		return fault.New(fault.Invalid, "it does not say of which ledger: keep what `drover ledger heads` prints as a whole")
	}
	for _, k := range h.Keys {
		if len(k.Public) != ed25519.PublicKeySize || k.ID != KeyID(k.Public) {
			return fault.New(fault.Invalid, "%.40q is not the name of that key", k.ID)
		}
	}
	return nil
}

func (h *Heads) line(words []string) error {
	switch {
	case words[0] == "ledger" && len(words) == 2:
		if h.Ledger != "" && h.Ledger != words[1] {
			return fault.New(fault.Invalid, "there are two ledgers in it")
		}
		h.Ledger = words[1]
		return nil
	case words[0] == "key" && len(words) == 5 && words[3] == "since":
		return h.key(words)
	case words[0] == "head" && len(words) == 13:
		return h.head(words)
	}
	return fault.New(fault.Invalid, "%.40q", strings.Join(words, " "))
}

func (h *Heads) key(words []string) error {
	k := SealKey{ID: words[1]}
	text, ok := strings.CutPrefix(words[2], "ed25519:")
	var err error
	if k.Public, err = base64.StdEncoding.DecodeString(text); !ok || err != nil {
		return fault.New(fault.Invalid, "%.80q is not a key", words[2])
	}
	if k.Since, err = time.Parse(time.RFC3339Nano, words[4]); err != nil {
		return err
	}
	h.Keys = append(h.Keys, k)
	return nil
}

func (h *Heads) head(words []string) (err error) {
	var s SealedHead
	for _, f := range []struct {
		name  int
		word  string
		value int
		into  *int64
	}{{0, "head", 1, &s.Block}, {2, "change", 3, &s.Seq}, {4, "epoch", 5, &s.Epoch}} {
		if words[f.name] != f.word {
			return fault.New(fault.Invalid, "%.40q is not %q", words[f.name], f.word)
		}
		if *f.into, err = strconv.ParseInt(words[f.value], 10, 64); err != nil {
			return err
		}
	}
	if words[6] != "at" || words[9] != "key" || words[11] != "signature" {
		return fault.New(fault.Invalid, "it has other words")
	}
	if s.At, err = time.Parse(time.RFC3339Nano, words[7]); err != nil {
		return err
	}
	if s.Hash, err = ParseHash(words[8]); err != nil {
		return err
	}
	s.Key = words[10]
	if s.Signature, err = base64.StdEncoding.DecodeString(words[12]); err != nil {
		return err
	}
	h.Heads = append(h.Heads, s)
	return nil
}
