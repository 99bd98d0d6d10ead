package kubernetes

import (
	"bytes"
	"compress/gzip"
	"encoding/json"
	"io"

	"github.com/droverhq/drover/internal/fault"
	"github.com/droverhq/drover/internal/runtime"
)

// record is everything that outlives the agent about one item.
type record struct {
	ID         string          `json:"id"`
	Kind       string          `json:"kind,omitempty"`
	Epoch      int64           `json:"epoch"`
	Generation int64           `json:"generation"`
	Token      int64           `json:"token"`
	Delete     bool            `json:"delete,omitempty"`
	Body       json.RawMessage `json:"body,omitempty"`
	Proof      string          `json:"proof,omitempty"`
	// Inventory lists what may be there because of this item. It is written
	// before what it lists is made, and shortened after what it listed is gone.
	Inventory []string `json:"inventory,omitempty"`
	Gone      bool     `json:"gone,omitempty"`    // removed; kept until it is forgotten
	Settled   bool     `json:"settled,omitempty"` // it was ready once
	Term      int64    `json:"term"`              // of the lease under which it was written
	// Seen is what was last told, so that a restart tells the same until it has
	// looked.
	Seen runtime.Observed `json:"seen"`
}

// fence decides about an item that comes in: an older one is refused, the same
// one is nothing new.
func (r *record) fence(it runtime.Item) (same bool, err error) {
	if it.Epoch < r.Epoch {
		return false, fault.New(fault.Conflict, "an item of a newer epoch than %d is applied already", it.Epoch).Because("fenced")
	}
	if it.Epoch == r.Epoch && it.Token < r.Token {
		return false, fault.New(fault.Conflict, "an item with a newer token than %d is applied already", it.Token).Because("fenced")
	}
	return it.Epoch == r.Epoch && it.Token == r.Token && it.Proof == r.Proof && r.wants(it), nil
}

// wants reports whether the record asks for the same as the item.
func (r *record) wants(it runtime.Item) bool {
	return it.Generation == r.Generation && it.Delete == r.Delete && (it.Delete || bytes.Equal(it.Body, r.Body))
}

// take makes the record ask for the item.
func (r *record) take(it runtime.Item) {
	if !r.wants(it) {
		r.Gone = r.Gone && it.Delete
		r.Seen = runtime.Observed{ID: it.ID, Kind: it.Kind, Generation: it.Generation, State: runtime.Installing,
			Versions: r.Seen.Versions, Routes: r.Seen.Routes}
		if it.Delete {
			r.Seen.Versions, r.Seen.Routes = nil, nil
		}
		if r.Gone {
			r.Seen.State = runtime.Deleted
		}
	}
	r.ID, r.Kind, r.Epoch, r.Generation, r.Token, r.Delete, r.Proof = it.ID, it.Kind, it.Epoch, it.Generation, it.Token, it.Delete, it.Proof
	r.Body = nil
	if !it.Delete {
		r.Body = bytes.Clone(it.Body)
	}
}

const (
	partBytes = 700 << 10 // of one Secret; a cluster takes one MiB with everything around
	maxRecord = 64 << 20  // unpacked
)

// pack compresses a record and cuts it into parts that fit into a Secret each.
func pack(r record) ([][]byte, error) {
	b, err := json.Marshal(r)
	if err != nil {
		return nil, err
	}
	var out bytes.Buffer
	z := gzip.NewWriter(&out)
	if _, err := z.Write(b); err == nil {
		err = z.Close()
	}
	if err != nil {
		return nil, err
	}
	var parts [][]byte
	for all := out.Bytes(); len(all) > 0; {
		n := min(len(all), partBytes)
		parts = append(parts, all[:n])
		all = all[n:]
	}
	return parts, nil
}

// unpack is the way back.
func unpack(parts [][]byte) (record, error) {
	var r record
	z, err := gzip.NewReader(bytes.NewReader(bytes.Join(parts, nil)))
	if err != nil {
		return r, fault.New(fault.Internal, "a kept item is damaged")
	}
	b, err := io.ReadAll(io.LimitReader(z, maxRecord))
	if err == nil {
		err = json.Unmarshal(b, &r)
	}
	if err != nil || r.ID == "" {
		return r, fault.New(fault.Internal, "a kept item is damaged")
	}
	return r, nil
}
