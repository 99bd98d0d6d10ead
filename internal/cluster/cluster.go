// Package cluster owns the data planes that host instances: what they are, what
// they can hold, whose they are, and what their agents say of them.
//
// It must not know instances, nor how a cluster comes to be.
package cluster

import (
	"encoding/json"
	"maps"
	"slices"

	"github.com/droverhq/drover/internal/fault"
	"github.com/droverhq/drover/internal/ledger"
)

// Phases of a registered cluster.
const (
	Waiting        = "waiting_for_fleetshard_operator" // its agent has not said that it is ready, or has fallen silent
	Ready          = "ready"
	Deprovisioning = "deprovisioning" // its tenant takes it away
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
	Provider string   `json:"provider"`
	Region   string   `json:"region"`
	MultiAZ  *bool    `json:"multi_az,omitempty"` // nil: it takes orders of both kinds
	Types    []string `json:"types,omitempty"`    // instance types that it hosts; default: all
	Offering string   `json:"offering,omitempty"` // the one that it hosts; default: all
	Domain   string   `json:"domain,omitempty"`   // base domain of its routes
	External string   `json:"external,omitempty"` // what others call it
	Private  bool     `json:"private,omitempty"`  // reached through a private network only
	Nodes    int64    `json:"nodes,omitempty"`    // that carry instances
	Org      string   `json:"org,omitempty"`      // the tenant whose own it is; empty: the fleet's
	Deleted  bool     `json:"deleted,omitempty"`  // it is to go
}

// Status is what its agent reports. Heartbeats without news are not written.
type Status struct {
	Capacity int64 `json:"capacity"` // units that fit in all
	// Units that fit by "<offering>/<instance type>"; a type that is missing is
	// bounded by Capacity alone.
	Units map[string]Units `json:"units,omitempty"`
	// Operators that run instances there, by offering, oldest version first.
	Operators map[string][]Operator `json:"operators,omitempty"`
	// Client is the id of its agent's account at the identity provider.
	Client string `json:"client,omitempty"`
	// Installation is the one agent installation that may run the cluster's
	// instances, whichever replica it connects to; empty: the next that connects.
	Installation string `json:"installation,omitempty"`
	// Session is the connection that the agent was last known to speak over,
	// and the replica that watches it; empty: nobody does.
	Session string `json:"session,omitempty"`
}

// Units of one instance type, as the agent counts them.
type Units struct {
	Max       int64 `json:"max"`
	Remaining int64 `json:"remaining"`
}

// Operator is what runs instances on a cluster.
type Operator struct {
	Name    string `json:"name"`
	Version string `json:"version"`
	Ready   bool   `json:"ready"`
	// Components are the versions that it can run, by component, oldest first.
	Components map[string][]string `json:"components,omitempty"`
}

func (o Operator) equal(p Operator) bool {
	return o.Name == p.Name && o.Version == p.Version && o.Ready == p.Ready &&
		maps.EqualFunc(o.Components, p.Components, slices.Equal[[]string])
}

// CapacityCounter is the ledger's counter of the units in use on a cluster.
func CapacityCounter(id string) string { return "capacity/" + id }

// TypeCounter is the ledger's counter of the units in use by one instance type
// of an offering.
func TypeCounter(id, offeringName, instanceType string) string {
	return CapacityCounter(id) + "/" + unitsOf(offeringName, instanceType)
}

// unitsOf is the key of a type in Status.Units.
func unitsOf(offeringName, instanceType string) string { return offeringName + "/" + instanceType }

// Decode reads what is wanted of a cluster and what is known of it.
func Decode(o ledger.Object) (Spec, Status, error) {
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
