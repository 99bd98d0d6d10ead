// Package cluster owns the data planes that host instances: what they are, what
// they can hold, whose they are, and what their agents say of them.
//
// It must not know instances. What makes clusters is behind the port provider.
package cluster

import (
	"encoding/json"
	"maps"
	"slices"
	"time"

	"github.com/droverhq/drover/internal/fault"
	"github.com/droverhq/drover/internal/ledger"
)

// Phases of a cluster.
const (
	Accepted       = "cluster_accepted"
	Provisioning   = "cluster_provisioning"            // its provider makes it
	Provisioned    = "cluster_provisioned"             // it is there, and is being made fit: its steps are applied
	Waiting        = "waiting_for_fleetshard_operator" // its agent has not said that it is ready, or has fallen silent
	Ready          = "ready"
	Deprovisioning = "deprovisioning" // its provider takes it away
	Cleanup        = "cleanup"        // it is gone, and its accounts go
	Failed         = "failed"         // it cannot be made; the reason says why
	Abandoned      = "abandoned"      // an operator has given it up as lost
)

// Transition is one row of the table of all moves between phases.
type Transition struct {
	From, To string
	Who      string // user, worker, agent, clock
	When     string
}

// Transitions is the only place that says which moves there are.
// docs/states.md is drawn from it.
var Transitions = []Transition{
	{Accepted, Provisioning, "worker", "its profile says what makes it, and that is written down"},
	{Accepted, Failed, "worker", "its profile is gone, or names a maker that this server does not have"},
	{Provisioning, Provisioned, "worker", "its maker has made it"},
	{Provisioning, Failed, "worker", "its maker says that it cannot be made like this"},
	{Failed, Provisioning, "user", "its profile was changed, so that it is worth another try"},
	{Provisioned, Waiting, "worker", "all steps are ready"},
	{Waiting, Ready, "agent", "the agent reports ready"},
	{Ready, Waiting, "agent, clock", "the agent reports that it is not ready, or has fallen silent"},
	{Accepted, Deprovisioning, "user", "deleted"},
	{Provisioning, Deprovisioning, "user", "deleted"},
	{Provisioned, Deprovisioning, "user", "deleted"},
	{Waiting, Deprovisioning, "user", "deleted, or spare"},
	{Ready, Deprovisioning, "user", "deleted, or spare"},
	{Failed, Deprovisioning, "user", "deleted"},
	{Accepted, Abandoned, "user", "given up as lost"},
	{Provisioning, Abandoned, "user", "given up as lost"},
	{Provisioned, Abandoned, "user", "given up as lost"},
	{Waiting, Abandoned, "user", "given up as lost"},
	{Failed, Abandoned, "user", "given up as lost"},
	{Abandoned, Deprovisioning, "user, worker", "deleted once all that ran there is deleted, or its maker is to take away what is left of it"},
	{Deprovisioning, Ready, "worker", "an instance was being placed there when it was deleted: it stays"},
	{Deprovisioning, Waiting, "worker", "the same, and its agent is not there"},
	{Deprovisioning, Cleanup, "worker", "its maker has taken it away"},
}

var moves = func() map[[2]string]bool {
	m := map[[2]string]bool{}
	for _, t := range Transitions {
		m[[2]string{t.From, t.To}] = true
	}
	return m
}()

// CanMove reports whether the table has the move.
func CanMove(from, to string) bool { return moves[[2]string{from, to}] }

// Kind declares clusters to the ledger.
var Kind = ledger.Kind{
	Name: "cluster",
	Fields: []ledger.Field{
		{Name: "provider", Type: ledger.Text},
		{Name: "region", Type: ledger.Text},
	},
	Totals:   [][]string{{}},
	Searched: true,
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

	// Profile says what makes it and what makes it fit; empty: it is there
	// already, only its agent reaches it, and offerings alone say what it needs.
	Profile string            `json:"profile,omitempty"`
	Labels  map[string]string `json:"labels,omitempty"` // "zone" is its failure domain
	Taints  []string          `json:"taints,omitempty"` // orders are placed there only if they tolerate all of them
	// Unschedulable clusters take no new orders; Draining ones are being emptied besides.
	Unschedulable bool   `json:"unschedulable,omitempty"`
	Draining      bool   `json:"draining,omitempty"`
	Limit         *int64 `json:"limit,omitempty"`      // units that may be placed there, whatever the agent says; nil: as many as fit
	Kubeconfig    string `json:"kubeconfig,omitempty"` // reference of the sealed one that it was registered with
	// Abandoned is why an operator gave it up as lost; empty: nobody did. Destroy:
	// its maker is to take away what is left of it all the same.
	Abandoned string `json:"abandoned,omitempty"`
	Destroy   bool   `json:"destroy,omitempty"`
	Fleet     bool   `json:"fleet,omitempty"` // the fleet made it for lack of room, and may remove it
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
	// Anew is when the cluster took the place of one of the same id that is
	// gone: tokens of that one's agents are not good for this one.
	Anew time.Time `json:"anew,omitzero"`

	Reason    string    `json:"reason,omitempty"`    // why it failed
	Message   string    `json:"message,omitempty"`   // what it waits for, or its agent's trouble
	Since     time.Time `json:"since,omitzero"`      // when the phase was entered
	Operation string    `json:"operation,omitempty"` // the running one
	// Maker is what makes it, or has made it, written down before it begins: a
	// profile may change or go meanwhile.
	Maker *Maker `json:"maker,omitempty"`
	// Refused is the digest of the maker that said that it cannot be made.
	Refused string `json:"refused,omitempty"`
	// Leaving: its end has begun, and there is no way back.
	Leaving bool `json:"leaving,omitempty"`
	// Login is the id of the client through which people log in to it.
	Login string `json:"login,omitempty"`
	// State is the reference of what its provider keeps, Kubeconfig of how it is reached.
	State      string   `json:"state,omitempty"`
	Kubeconfig string   `json:"kubeconfig,omitempty"`
	Steps      []Step   `json:"steps,omitempty"`    // of making it fit, in the order in which they are done
	Platform   Platform `json:"platform,omitzero"`  // what the agent says that it runs on
	Strays     []string `json:"strays,omitempty"`   // items that run there and that the ledger does not know
	Protocol   int      `json:"protocol,omitempty"` // that its agent speaks
	Version    string   `json:"version,omitempty"`  // of its agent's program
}

// Step of making a cluster fit, as far as it has come.
type Step struct {
	Name       string   `json:"name"` // "<profile or offering>/<step>"
	Needs      []string `json:"needs,omitempty"`
	State      string   `json:"state"` // waiting, applying, ready, error; removing
	Message    string   `json:"message,omitempty"`
	Generation int64    `json:"generation,omitempty"` // of what is wanted; only ever grows
	Token      int64    `json:"token,omitempty"`      // of the lease under which it was made
	Digest     string   `json:"digest,omitempty"`     // of what is wanted
	Objects    int      `json:"objects,omitempty"`    // that it has
	// Inventory is what it applied, where the control plane itself did.
	Inventory []string `json:"inventory,omitempty"`
	// Held is what of it is to go and may not before an approval, which is named.
	Held     []string `json:"held,omitempty"`
	Approval string   `json:"approval,omitempty"`
	// Awaits is the digest of the body that is to take the place of the one that
	// the agent goes by, once approved; "none": it is to be removed.
	Awaits string `json:"awaits,omitempty"`
	// Cleared is what of it may go, and was counted, however often it is tried.
	Cleared []string `json:"cleared,omitempty"`
}

// Maker is a provider with its options.
type Maker struct {
	Name    string            `json:"name"`
	Options map[string]string `json:"options,omitempty"`
}

func (m *Maker) digest() string {
	if m == nil {
		return ""
	}
	encoded, _ := json.Marshal(m) // text to text, in the order of the keys
	return ledger.Digest(encoded)
}

// Cluster is one with what is known of it.
type Cluster struct {
	ledger.Object
	Spec   Spec
	Status Status
}

func load(o ledger.Object) (Cluster, error) {
	spec, status, err := Decode(o)
	return Cluster{Object: o, Spec: spec, Status: status}, err
}

// Platform is what a data plane is made of.
type Platform struct {
	Kind    string `json:"kind,omitempty"` // process, kubernetes, simulated
	Version string `json:"version,omitempty"`
	Nodes   int64  `json:"nodes,omitempty"`
	Routes  string `json:"routes,omitempty"`
	// Figures of an Argo CD, which its agent counts every few minutes.
	Applications int64  `json:"applications,omitempty"`
	Reconciled   int64  `json:"reconciled,omitempty"`
	Operations   int64  `json:"operations,omitempty"`
	Jsonnet      bool   `json:"jsonnet,omitempty"`
	NoHealth     bool   `json:"no_health,omitempty"`
	Left         string `json:"left,omitempty"`    // Applications that no deployment is about
	Resting      string `json:"resting,omitempty"` // services that the agent gives a rest, because they failed
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
