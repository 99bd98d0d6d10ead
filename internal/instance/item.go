package instance

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"

	"github.com/droverhq/drover/internal/ledger"
)

// Item is an instance as the data plane must have it.
type Item struct {
	ID         string
	Cluster    string
	Generation int64
	Token      int64
	Delete     bool
	Digest     string // of the body
	Body       json.RawMessage
	Seen       uint64 // leaf of what the agent last said of it in this place; 0: nothing
}

// told is the part of a status that says what the data plane must have. Whole
// fleets are read through it, so it leaves out all that costs time to decode.
type told struct {
	Cluster   string          `json:"cluster"`
	Placement string          `json:"placement"`
	Lost      string          `json:"lost"`
	Desired   json.RawMessage `json:"desired"`
	Digest    string          `json:"digest"`
	Rendered  int64           `json:"rendered"`
	Issued    int64           `json:"issued"`
	Token     int64           `json:"token"`
	Observed  *struct {
		Placement string `json:"placement"`
		State     string `json:"state"`
		Leaf      uint64 `json:"leaf,string"`
	} `json:"observed"`
}

// DesiredItem tells what the data plane must have of an object; ok is false for
// what it need not know (yet, or any more).
func DesiredItem(o ledger.Object) (item Item, ok bool) {
	if o.Kind != Kind.Name || o.Phase == Accepted || o.Phase == Preparing {
		return Item{}, false
	}
	ended := !o.Deleted.IsZero() || o.Phase == Deleting
	if ended && !bytes.Contains(o.Status, lostMark) {
		return Item{}, false
	}
	var t told
	if len(o.Status) == 0 || json.Unmarshal(o.Status, &t) != nil || len(t.Desired) == 0 || t.Cluster == "" {
		return Item{}, false
	}
	if t.Lost != "" {
		return t.tombstone(o)
	}
	if ended {
		return Item{}, false
	}
	item = Item{
		ID: o.ID, Cluster: t.Cluster, Generation: t.Issued, Token: t.Token,
		Delete: o.Phase == Deprovision, Digest: t.Digest, Body: t.Desired,
	}
	if item.Generation == 0 { // written before this was told apart
		item.Generation = t.Rendered
	}
	if item.Digest == "" { // written before it was kept
		item.Digest = digestOf(t.Desired)
	}
	if t.Observed != nil && t.Observed.Placement == t.Placement {
		item.Seen = t.Observed.Leaf
	}
	return item, true
}

// DesiredItems tells what data planes must have of an object: of one that moves
// two of them have a copy.
func DesiredItems(o ledger.Object) (out []Item) {
	if item, ok := DesiredItem(o); ok {
		out = append(out, item)
	}
	if o.Kind != Kind.Name || !o.Deleted.IsZero() || !bytes.Contains(o.Status, otherMark) {
		return out
	}
	var t struct {
		Other *Copy `json:"other"`
	}
	if json.Unmarshal(o.Status, &t) != nil || t.Other == nil || len(t.Other.Desired) == 0 {
		return out
	}
	c := t.Other
	item := Item{ID: o.ID, Cluster: c.Cluster, Generation: c.Generation, Token: c.Token, Delete: c.Role == Leaving, Digest: c.Digest, Body: c.Desired}
	if c.Observed != nil && c.Observed.Placement == c.Placement {
		item.Seen = c.Observed.Leaf
	}
	return append(out, item)
}

// ItemOn is what one data plane must have of an object.
func ItemOn(o ledger.Object, clusterID string) (Item, bool) {
	for _, item := range DesiredItems(o) {
		if item.Cluster == clusterID {
			return item, true
		}
	}
	return Item{}, false
}

// otherMark is in the status of whatever moves.
var otherMark = []byte(`"other":`)

// lostMark is in the status of whatever was lost: nearly nothing was, and what
// is gone need not be decoded to tell.
var lostMark = []byte(`"lost":`)

// tombstone is what a data plane that was given up must do if it returns after
// all: remove what was deleted meanwhile, until it has said so. What nobody
// deleted is not spoken of.
func (t *told) tombstone(o ledger.Object) (Item, bool) {
	if !gone(o.Phase) || t.Observed != nil && t.Observed.State == stateDeleted {
		return Item{}, false
	}
	return Item{ID: o.ID, Cluster: t.Cluster, Generation: o.Generation, Token: t.Token, Delete: true, Digest: digestOf(t.Desired), Body: t.Desired}, true
}

// digestOf is the digest of a document as it travels: of its compact and escaped
// form, which is what encoding/json makes of a raw message.
func digestOf(doc json.RawMessage) string {
	data, err := json.Marshal(doc)
	if err != nil {
		data = doc // nobody can read it, but it is the same everywhere
	}
	sum := sha256.Sum256(data)
	return hex.EncodeToString(sum[:])
}
