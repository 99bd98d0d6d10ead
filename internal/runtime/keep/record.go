package keep

import (
	"bytes"
	"compress/gzip"
	"context"
	"encoding/json"
	"io"

	"github.com/droverhq/drover/internal/fault"
	"github.com/droverhq/drover/internal/runtime"
)

// Record is everything that outlives the agent about one item.
type Record struct {
	ID         string          `json:"id"`
	Kind       string          `json:"kind,omitempty"`
	Epoch      int64           `json:"epoch"`
	Generation int64           `json:"generation"`
	Token      int64           `json:"token"`
	Delete     bool            `json:"delete,omitempty"`
	Body       json.RawMessage `json:"body,omitempty"`
	Proof      string          `json:"proof,omitempty"`
	Cause      string          `json:"cause,omitempty"` // what wanted it, and ...
	Org        string          `json:"org,omitempty"`   // ... whose it is: for the log
	// Inventory lists what may be there because of this item. It is written
	// before what it lists is made, and shortened after what it listed is gone.
	Inventory []string `json:"inventory,omitempty"`
	Gone      bool     `json:"gone,omitempty"`    // removed; kept until it is forgotten
	Settled   bool     `json:"settled,omitempty"` // it was ready once
	Term      int64    `json:"term"`              // of the lease under which it was written
	// Farewell is what a removal says besides that it is one.
	Farewell json.RawMessage `json:"farewell,omitempty"`
	// Own is what the runtime itself has to remember about it.
	Own json.RawMessage `json:"own,omitempty"`
	// Seen is what was last told, so that a restart tells the same until it has
	// looked.
	Seen runtime.Observed `json:"seen"`
}

// About returns a context of work on the item, for what is logged in it.
func (r *Record) About(ctx context.Context) context.Context {
	return runtime.About(ctx, r.Cause, r.Org)
}

// fence decides about an item that comes in: an older one is refused, the same
// one is nothing new.
func (r *Record) fence(it runtime.Item) (same bool, err error) {
	if it.Epoch < r.Epoch {
		return false, fault.New(fault.Conflict, "an item of a newer epoch than %d is applied already", it.Epoch).Because("fenced")
	}
	if it.Epoch == r.Epoch && it.Token < r.Token {
		return false, fault.New(fault.Conflict, "an item with a newer token than %d is applied already", it.Token).Because("fenced")
	}
	return it.Epoch == r.Epoch && it.Token == r.Token && it.Proof == r.Proof && r.wants(it), nil
}

// wants reports whether the record asks for the same as the item.
func (r *Record) wants(it runtime.Item) bool {
	return it.Generation == r.Generation && it.Delete == r.Delete && (it.Delete || bytes.Equal(it.Body, r.Body))
}

// take makes the record ask for the item.
func (r *Record) take(it runtime.Item) {
	if !r.wants(it) {
		r.Gone = r.Gone && it.Delete
		r.Seen = runtime.Observed{ID: it.ID, Kind: it.Kind, Generation: it.Generation, State: runtime.Installing,
			Versions: r.Seen.Versions, Routes: r.Seen.Routes, Detail: r.Seen.Detail}
		if it.Delete {
			r.Seen.Versions, r.Seen.Routes = nil, nil
		}
		if r.Gone {
			r.Seen.State, r.Seen.Detail = runtime.Deleted, nil
		}
	}
	r.ID, r.Kind, r.Epoch, r.Generation, r.Token, r.Delete, r.Proof = it.ID, it.Kind, it.Epoch, it.Generation, it.Token, it.Delete, it.Proof
	r.Cause, r.Org = it.Cause, it.Org
	r.Body, r.Farewell = nil, nil
	switch {
	case !it.Delete:
		r.Body = bytes.Clone(it.Body)
	case len(it.Body) > 0: // which may also be the last one that was wanted
		var f struct{ Farewell json.RawMessage }
		if json.Unmarshal(it.Body, &f) == nil && len(f.Farewell) <= maxFarewell {
			r.Farewell = f.Farewell
		}
	}
}

const (
	partBytes = 700 << 10 // of one Secret; a cluster takes one MiB with everything around
	maxRecord = 64 << 20  // unpacked

	maxFarewell = 4 << 10
)

// pack compresses a record and cuts it into parts that fit into a Secret each.
func pack(r Record) ([][]byte, error) {
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
func unpack(parts [][]byte) (Record, error) {
	var r Record
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
	if string(r.Seen.Detail) == "null" {
		r.Seen.Detail = nil
	}
	return r, nil
}
