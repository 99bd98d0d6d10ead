// Package doctor says what is wrong with a control plane, why, and what to do.
//
// It owns the decision: facts in, findings out, nothing else. It must not know how
// facts are gathered, nor how findings are shown.
package doctor

import "time"

// Severities of findings, the worst first.
const (
	Critical = "critical" // something does not work now
	Warning  = "warning"  // something will not for long, or not for somebody
	Note     = "note"     // worth knowing; nothing is wrong
)

// Finding is one thing that is not as it should be.
type Finding struct {
	ID       string // the same for the same trouble, for whoever filters
	Severity string
	What     string
	Why      string
	Do       []string // what helps: commands first
	Examples []string // of many, the first few
	Count    int64    // how many there are; 0: it is one thing
}

// Facts are what was found out. What is missing was not asked, and says nothing.
type Facts struct {
	Now           time.Time // by the clock of the replica that was asked
	Version       string    // of its program
	Ledger        Ledger
	Disk          *Disk // of the data directory
	Work          []Work
	Failing       []Failing
	Sides         []Side
	Bus           Bus
	Subscriptions []Subscription
	Clusters      []Cluster
	Troubled      []Troubled
	Certificate   *Certificate
	Credentials   []Credential // that the server itself opens doors with
	Names         []OldName
	Unregistered  string // why others do not find this replica by its name; empty: they do, or nobody asked for it
	Resources     string // why custom resources of Kubernetes are not followed; empty: they are, or nobody asked for it
	Strays        []Stray
	Unknown       []Unknown
}

// Ledger is how the database is.
type Ledger struct {
	Engine     string        // SQLite, PostgreSQL
	Away       string        // why it cannot be read; empty: it can
	Unwritable string        // why it takes no writes; empty: it does
	Took       time.Duration // to answer one small question
	Schema     int64         // version in the database
	Knows      int64         // that this program knows
	Clock      time.Time     // of the database; zero: it has none of its own
	Unsealed   int64         // changes that no sealed block holds yet
	Since      time.Time     // of the oldest of them
}

// Disk is the file system of the data directory.
type Disk struct {
	Path        string
	Free, Total uint64
}

// Work is the due work of one kind.
type Work struct {
	Kind   string
	Due    int64
	Oldest time.Duration
}

// Failing is an object whose reconciler has failed many times in a row.
type Failing struct {
	Kind, ID string
	Tries    int
	Cause    string // of the newest failure of the kind, as far as this replica knows
}

// Side is another service that this replica calls.
type Side struct {
	Name     string
	Theirs   bool // it has many, and tenants name them
	Open     int  // breakers
	HalfOpen int
	// When a call was last refused because too many were under way, when a retry
	// was because too many were made, and when it last failed and answered. Zero: never.
	Full, Spent, Failed, Answered time.Time
}

// Bus is the broker.
type Bus struct {
	Name    string // empty or inprocess: there is none
	Trouble string
	Blocked bool // it is there and takes nothing
	Aside   int  // messages that were put aside
	Full    bool // there is no room for more of them
	Lost    []Loss
}

// Loss is a queue that somebody has deleted, with what was in it.
type Loss struct {
	Queue string
	At    time.Time // when that was seen
}

// Subscription is one that does not get on.
type Subscription struct {
	ID, Name, Phase, Why string
	Off                  bool // somebody said so
	Broker               bool // it is that of all followers of the broker
	Since                time.Time
	Lost                 int64
}

// Cluster is a data plane.
type Cluster struct {
	ID, Phase, Message string
	Silent             bool   // nobody hears of its agent
	Jsonnet            bool   // its Argo CD evaluates it
	NoHealth           bool   // its Argo CD does not tell the health of single resources
	Left               string // Applications in its Argo CD that no deployment is about
	Version            string
	Resting            string // services that its agent gives a rest, because they failed
}

// Troubled are the objects of a kind that have failed.
type Troubled struct {
	Kind, Title string // as the command line names one, and as people name many
	Count       int64
	Examples    []Example
}

// Example is one of many.
type Example struct{ ID, Name, Org string }

// Certificate is that of the instances' hosts.
type Certificate struct {
	Path  string
	Wrong string // why it cannot be used
	Ends  time.Time
}

// Credential opens a door until it ends.
type Credential struct {
	Door, From string
	Trouble    string // why it cannot be renewed or read anew; empty: it can
	Sealed     bool   // the vault that it comes from is
	Ends       time.Time
}

// OldName is one of a service whose addresses are those of some time ago.
type OldName struct {
	Name, Why string
	Since     time.Time
}

// Stray is a namespace whose label names a cluster that is not among those that carry out
// custom resources.
type Stray struct {
	Namespace, Label string
	By               string // that carries them out instead; empty: none does
}

// Unknown is what could not be found out.
type Unknown struct{ What, Why string }

// Wrong tells whether anything among the findings is more than a note.
func Wrong(findings []Finding) bool {
	for _, f := range findings {
		if f.Severity != Note {
			return true
		}
	}
	return false
}
