package instance

import (
	"encoding/json"
	"maps"
	"regexp"
	"slices"
	"time"

	"github.com/droverhq/drover/internal/fault"
	"github.com/droverhq/drover/internal/ledger"
)

// Phases of an instance.
const (
	Accepted     = "accepted"
	Preparing    = "preparing"
	Provisioning = "provisioning"
	Ready        = "ready"
	Failed       = "failed"
	Suspending   = "suspending"
	Suspended    = "suspended"
	Resuming     = "resuming"
	Deprovision  = "deprovision"
	Deleting     = "deleting" // the last one; deleted_at is set when cleanup is done
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
	{Accepted, Preparing, "worker", "its quota is reserved; a data plane with room and all versions was found, and its units are reserved"},
	{Accepted, Failed, "worker", "no data plane had room for an hour, or the wanted versions for five minutes; the quota was refused; or a hook refused"},
	{Preparing, Provisioning, "worker", "hooks have answered, its account and certificate are there, and the data plane's document is made"},
	{Preparing, Failed, "worker", "a hook or the identity provider refused, or could not be reached for five minutes"},
	{Provisioning, Ready, "agent", "the agent reports ready for what it was told last, and its hosts are published"},
	{Provisioning, Failed, "agent", "the agent reports an error, a hook refused, or its hosts cannot be published"},
	{Provisioning, Suspending, "clock", "its end is within the grace period"},
	{Ready, Failed, "agent", "the agent reports an error, or a hook refused"},
	{Ready, Suspending, "user, clock", "an operator suspends it, or its end is within the grace period"},
	{Failed, Ready, "agent", "the agent reports ready again, unless a hook refused what is wanted"},
	{Suspending, Suspended, "agent", "the agent reports suspended"},
	{Suspending, Failed, "worker", "an operator has given up its data plane as lost"},
	{Suspended, Failed, "worker", "an operator has given up its data plane as lost"},
	{Suspended, Resuming, "user, worker", "an operator resumes it, or its end is far again"},
	{Resuming, Ready, "agent", "the agent reports ready"},
	{Resuming, Failed, "agent", "the agent reports an error, or a hook refused"},
	{Resuming, Suspending, "clock", "its end is within the grace period"},
	{Accepted, Deprovision, "user, clock", "deleted, past its end, or its owner was denied"},
	{Preparing, Deprovision, "user, clock", "deleted, past its end, or its owner was denied"},
	{Provisioning, Deprovision, "user, clock", "deleted, past its end, or its owner was denied"},
	{Ready, Deprovision, "user, clock", "deleted, past its end, or its owner was denied"},
	{Failed, Deprovision, "user, clock", "deleted, past its end, or its owner was denied"},
	{Suspending, Deprovision, "user, clock", "deleted, past its end, or its owner was denied"},
	{Suspended, Deprovision, "user, clock", "deleted, past its end, or its owner was denied"},
	{Resuming, Deprovision, "user, clock", "deleted, past its end, or its owner was denied"},
	{Deprovision, Deleting, "agent", "the agent reports that it is gone, it never reached a data plane, or that was given up as lost"},
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

// Kind declares instances to the ledger.
var Kind = ledger.Kind{
	Name: "instance",
	Fields: []ledger.Field{
		{Name: "offering", Type: ledger.Text},
		{Name: "cluster", Type: ledger.Text},
		{Name: "region", Type: ledger.Text},
		{Name: "provider", Type: ledger.Text},
		{Name: "instance_type", Type: ledger.Text},
		{Name: "size", Type: ledger.Text},
		{Name: "host", Type: ledger.Text},
		{Name: "version", Type: ledger.Text},
		{Name: "multi_az", Type: ledger.Bool},
		{Name: "ends", Type: ledger.Time},     // the hour in which its lifespan ends
		{Name: "rank", Type: ledger.Text},     // what the offering says its lists can be sorted by besides
		{Name: "approval", Type: ledger.Text}, // that its removal waits for
	},
	Scope:  []string{"offering", "org"},
	Totals: [][]string{{"offering"}, {"offering", "org"}, Census, Ends},
	Lookup: []string{"cluster", "owner"}, // by its agent; by users who belong to no organisation
	Text:   []string{"name", "owner"},    // not the phase: every transition would rewrite the index
}

// Scopes of totals that tell of the whole fleet.
var (
	Census = []string{"phase", "offering", "instance_type", "provider", "region"}
	Ends   = []string{"ends", "offering"}
)

// Spec is what the tenant wants.
type Spec struct {
	Offering string `json:"offering"`
	Provider string `json:"provider"`
	Region   string `json:"region"`
	MultiAZ  bool   `json:"multi_az"`
	Type     string `json:"type"`
	Size     string `json:"size"`
	// Versions wanted by component. A component that is missing gets the newest
	// that its cluster offers, when it is placed.
	Versions   map[string]string `json:"versions,omitempty"`
	Parameters map[string]any    `json:"parameters,omitempty"`
	Billing    Billing           `json:"billing,omitzero"`
	Cluster    string            `json:"cluster,omitempty"` // the tenant's own, where it is to be
	Account    string            `json:"account,omitempty"` // of whoever ordered it
	Owner      string            `json:"owner,omitempty"`   // if it was handed on: intent, which the data plane must hear of
	Moves      int64             `json:"moves,omitempty"`   // counts what was wanted of its copies: each is a wish of its own
	Suspended  bool              `json:"suspended,omitempty"`
	Deleted    bool              `json:"deleted,omitempty"`
}

// Billing is how it is paid for.
type Billing struct {
	Model       string `json:"model,omitempty"`
	Marketplace string `json:"marketplace,omitempty"`
	Account     string `json:"account,omitempty"` // at the marketplace
}

// Status is what has become of it.
type Status struct {
	Reason  string    `json:"reason,omitempty"`  // why it failed, for the user
	Message string    `json:"message,omitempty"` // what it waits for
	Since   time.Time `json:"since,omitzero"`    // when the phase was entered
	Expires time.Time `json:"expires,omitzero"`
	// GrantEnds is when its grant was to end, as was known when it was ordered,
	// or later by what was said since. Ruled: its end is not that one, nor its
	// own lifespan's, but that of a rule which was changed for many.
	GrantEnds time.Time `json:"grant_ends,omitzero"`
	Ruled     bool      `json:"ruled,omitempty"`
	Approval  string    `json:"approval,omitempty"`  // that its removal waits for
	Operation string    `json:"operation,omitempty"` // the running one
	Routes    []Route   `json:"routes,omitempty"`
	Hooked    []string  `json:"hooked,omitempty"`  // phases whose hooks have answered since they were entered
	Refused   int64     `json:"refused,omitempty"` // the generation that a hook has refused

	Cluster   string            `json:"cluster,omitempty"`
	Placed    string            `json:"placed,omitempty"`   // why there, for users
	Units     int64             `json:"units,omitempty"`    // reserved on the cluster
	Room      []Hold            `json:"room,omitempty"`     // the cluster's counters that they are counted in
	Rejected  []string          `json:"rejected,omitempty"` // clusters that had no room after all
	Sought    time.Time         `json:"sought,omitzero"`    // since when it is sent from one to another, or back
	Namespace string            `json:"namespace,omitempty"`
	Placement string            `json:"placement,omitempty"` // new for every placing
	Other     *Copy             `json:"other,omitempty"`     // on another cluster, while it moves
	Lost      string            `json:"lost,omitempty"`      // why its cluster was given up for good; empty: it was not
	Versions  map[string]string `json:"versions,omitempty"`  // chosen for components that the spec leaves open

	// Held are the ledger's counters that it counts in; they are given back
	// exactly as they were taken, whatever the offering says by then.
	Held []Hold `json:"held,omitempty"`
	// Source granted its quota. Tickets are the reservations that may be there,
	// written down before they are asked for; the one with the id Reserved is in
	// force, under the source's own number Ticket.
	Source   string   `json:"source,omitempty"`
	Tickets  []Ticket `json:"tickets,omitempty"`
	Reserved string   `json:"reserved,omitempty"`
	Ticket   string   `json:"ticket,omitempty"`
	// Resting: it was suspended by the clock, not by an operator.
	Resting bool `json:"resting,omitempty"`
	// Paid is the billing that is in force; the spec has the wanted one.
	Paid             Billing `json:"paid,omitzero"`
	Promotion        string  `json:"promotion,omitempty"` // promoting, failed
	PromotionDetails string  `json:"promotion_details,omitempty"`

	// Client is its account at the identity provider, with its sealed secret.
	Client string `json:"client,omitempty"`
	Secret string `json:"secret,omitempty"` // reference into the ledger's vault
	// Named and Certified: its hosts may be at the name servers, and have
	// certificates. Both are written down before anything is asked for.
	Named     bool `json:"named,omitempty"`
	Certified bool `json:"certified,omitempty"`
	// Published is what the name servers were last seen to have: host to target.
	Published map[string]string `json:"published,omitempty"`

	// Desired is the document for the data plane, made for the generation
	// Rendered under the lease Token. Issued is the generation that changed it
	// last: a wish that the data plane need not hear of leaves it alone.
	Desired  json.RawMessage `json:"desired,omitempty"`
	Digest   string          `json:"digest,omitempty"` // of Desired, as digestOf makes it
	Rendered int64           `json:"rendered,omitempty"`
	Issued   int64           `json:"issued,omitempty"`
	Token    int64           `json:"token,omitempty"`
	Observed *Observed       `json:"observed,omitempty"`
}

// Hold is a share in a counter of the ledger.
type Hold struct {
	Counter string `json:"counter"`
	Units   int64  `json:"units"`
}

// Ticket is a reservation at a source of quota.
type Ticket struct {
	ID     string `json:"id"`               // ours
	Number string `json:"number,omitempty"` // the source's
}

// Route is a host of the instance.
type Route struct {
	Name   string `json:"name"`
	Host   string `json:"host"`
	Router string `json:"router,omitempty"` // what it is to point at, once the agent has told
}

// Observed is the agent's last word.
type Observed struct {
	Generation int64             `json:"generation"`
	State      string            `json:"state"` // as package runtime names them
	Message    string            `json:"message,omitempty"`
	Versions   map[string]string `json:"versions,omitempty"`
	Upgrading  []string          `json:"upgrading,omitempty"` // components, sorted
	Placement  string            `json:"placement,omitempty"` // the placing that it speaks of
	AdminURL   string            `json:"admin_url,omitempty"`
	Conditions []Condition       `json:"conditions,omitempty"`
	// Leaf is the digest that the agent made of all that it said, so that the two
	// sides need not repeat themselves to find that they agree.
	Leaf uint64 `json:"leaf,omitempty,string"`
}

// Condition is one of the things that an agent says of an instance, as
// Kubernetes words them.
type Condition struct {
	Type    string `json:"type"`
	Status  string `json:"status"`
	Reason  string `json:"reason,omitempty"`
	Message string `json:"message,omitempty"`
}

// says reports whether two words mean the same, whatever they were made of.
func (o *Observed) says(p *Observed) bool {
	if o == nil || p == nil {
		return o == p
	}
	return o.Generation == p.Generation && o.State == p.State && o.Message == p.Message &&
		o.Placement == p.Placement && o.AdminURL == p.AdminURL &&
		maps.Equal(o.Versions, p.Versions) && slices.Equal(o.Upgrading, p.Upgrading) && slices.Equal(o.Conditions, p.Conditions)
}

func (o *Observed) equal(p *Observed) bool {
	return o.says(p) && (o == nil || o.Leaf == p.Leaf)
}

// States that agents report, as package runtime names them.
const (
	stateInstalling = "installing"
	stateReady      = "ready"
	stateSuspended  = "suspended"
	stateDeleted    = "deleted"
	stateError      = "error"
	stateRejected   = "rejected"
)

var states = []string{stateInstalling, stateReady, stateSuspended, stateDeleted, stateError, stateRejected}

// Instance is an object with its documents decoded.
type Instance struct {
	ledger.Object
	Spec   Spec
	Status Status
}

// Decode reads an instance out of its object.
func Decode(o ledger.Object) (Instance, error) {
	in := Instance{Object: o}
	if err := json.Unmarshal(o.Spec, &in.Spec); err != nil {
		return in, fault.New(fault.Internal, "cannot read the spec of %s: %w", o.Ref, err)
	}
	if len(o.Status) > 0 {
		if err := json.Unmarshal(o.Status, &in.Status); err != nil {
			return in, fault.New(fault.Internal, "cannot read the status of %s: %w", o.Ref, err)
		}
	}
	return in, nil
}

var namePattern = regexp.MustCompile(`^[a-z]([-a-z0-9]*[a-z0-9])?$`)

const maxName = 32

// ValidateName checks a name that a tenant chose.
func ValidateName(name string) error {
	switch {
	case name == "":
		return fault.New(fault.Invalid, "name is not valid. Minimum length 1 is required.").Because("name-short")
	case len(name) > maxName:
		return fault.New(fault.Invalid, "name is not valid. Maximum length %d is required", maxName).Because("name-long")
	case !namePattern.MatchString(name):
		return fault.New(fault.Invalid, "name does not match %s", namePattern).Because("name-invalid")
	}
	return nil
}

// placed reports whether a data plane may hold something of the instance.
func (in *Instance) placed() bool { return in.Status.Cluster != "" && len(in.Status.Desired) > 0 }

// seen returns the agent's last word on the present placing, and whether it is
// about the generation that was rendered last.
func (in *Instance) seen() (state, message string, current bool) {
	o := in.Status.Observed
	if o == nil || o.Placement != in.Status.Placement {
		return "", "", false
	}
	return o.State, o.Message, o.Generation >= in.issued()
}

// issued is the generation that changed the data plane's document last.
func (in *Instance) issued() int64 {
	if in.Status.Issued == 0 { // written before this was told apart
		return in.Status.Rendered
	}
	return in.Status.Issued
}

func (in *Instance) hooked(phase string) bool { return slices.Contains(in.Status.Hooked, phase) }
