// Package cluster owns the data planes that host instances: what they are, what
// they can hold, and what their agents say of them.
//
// It must not know instances, nor how a cluster comes to be.
package cluster

import (
	"encoding/json"

	"github.com/droverhq/drover/internal/fault"
	"github.com/droverhq/drover/internal/ledger"
)

// Phases of a registered cluster.
const (
	Waiting = "waiting_for_fleetshard_operator" // its agent has not said that it is ready
	Ready   = "ready"
)

// Kind declares clusters to the ledger.
var Kind = ledger.Kind{
	Name: "cluster",
	Fields: []ledger.Field{
		{Name: "provider", Type: ledger.Text},
		{Name: "region", Type: ledger.Text},
	},
	Totals: [][]string{{}},
}

// Spec is what is wanted of a cluster.
type Spec struct {
	Provider string `json:"provider"`
	Region   string `json:"region"`
}

// Status is what its agent reports. Heartbeats without news are not written.
type Status struct {
	Capacity int64 `json:"capacity"` // units that fit in all
	// Installation is the one agent installation that may run the cluster's
	// instances, whichever replica it connects to; empty: the next that connects.
	Installation string `json:"installation,omitempty"`
}

// CapacityCounter is the ledger's counter of the units in use on a cluster.
func CapacityCounter(id string) string { return "capacity/" + id }

// Candidate is a cluster as placement sees it.
type Candidate struct {
	ID       string
	Capacity int64 // in all
	Used     int64
}

// Free units.
func (c Candidate) Free() int64 { return c.Capacity - c.Used }

func decode(o ledger.Object) (Spec, Status, error) {
	var spec Spec
	var status Status
	if err := json.Unmarshal(o.Spec, &spec); err != nil {
		return spec, status, fault.New(fault.Internal, "cannot read %s: %w", o.Ref, err)
	}
	if len(o.Status) > 0 {
		if err := json.Unmarshal(o.Status, &status); err != nil {
			return spec, status, fault.New(fault.Internal, "cannot read %s: %w", o.Ref, err)
		}
	}
	return spec, status, nil
}
