package ledger

import "time"

// FlawKind says in which way a ledger is not what was written.
type FlawKind string

const (
	FlawContent    FlawKind = "content"    // a change is not the one that was sealed
	FlawMissing    FlawKind = "missing"    // a change is not there
	FlawExtra      FlawKind = "extra"      // a change is there that nobody wrote
	FlawChain      FlawKind = "chain"      // blocks do not follow each other
	FlawSignature  FlawKind = "signature"  // a block was not signed by the ledger's key
	FlawKey        FlawKind = "key"        // the keys are not the ledger's
	FlawHead       FlawKind = "head"       // it is not the head that somebody has kept
	FlawCheckpoint FlawKind = "checkpoint" // what truncation kept is not what it sealed
	FlawObject     FlawKind = "object"     // an object is not what its last change says
)

// Flaw is the first place where a ledger is not what was written.
type Flaw struct {
	Kind  FlawKind `json:"kind"`
	Block int64    `json:"block,omitempty"`
	Seq   int64    `json:"seq,omitempty"`
	Ref   Ref      `json:"object,omitzero"`
	Text  string   `json:"text"` // for people
}

func (f *Flaw) Error() string { return string(f.Kind) + ": " + f.Text }

// Report is what a verification went through, up to the flaw if there is one.
type Report struct {
	Ledger    string      `json:"ledger"`
	Blocks    int64       `json:"blocks"`
	Changes   int64       `json:"changes"`  // that are sealed
	Erased    int64       `json:"erased"`   // of them, without their content
	Unsealed  int64       `json:"unsealed"` // newer ones, which nothing proves yet
	Objects   int64       `json:"objects"`
	Unknown   int64       `json:"unknown"` // objects of kinds that this program does not know
	Heads     int         `json:"heads"`   // that were kept elsewhere, and found
	History   time.Time   `json:"history,omitzero"`
	Last      *SealedHead `json:"last,omitempty"`
	Flaw      *Flaw       `json:"flaw,omitempty"`
	Truncated int64       `json:"truncated,omitempty"` // up to this change only what each object was is there
	Leftover  int64       `json:"leftover,omitempty"`  // changes that truncation is yet to drop, and that nothing proves any more
	Erasures  []Erasure   `json:"erasures,omitempty"`  // the first of those that were erased
}

// Erasure is a change whose content was taken away.
type Erasure struct {
	Seq int64 `json:"seq"`
	Ref Ref   `json:"object"`
}

// maxErasures bounds how many of them a report names.
const maxErasures = 1000
