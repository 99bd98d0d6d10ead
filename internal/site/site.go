package site

import "time"

// Role is what the settings make of a site.
type Role string

const (
	Standalone Role = "standalone" // there is no other site
	Primary    Role = "primary"
	Secondary  Role = "secondary"
)

// State is what a site does.
type State string

const (
	Leading   State = "leading"   // it acts, and acknowledges writes
	Following State = "following" // it serves reads of what the primary has replicated
	Waiting   State = "waiting"   // it may come to lead, and something is missing yet
	Fenced    State = "fenced"    // the other site leads in a higher epoch: reads alone, for good
)

// Database is what a site's database says of itself.
type Database struct {
	Known      bool // it answers, and holds a ledger
	Recovering bool // it is a standby
	Epoch      int64
	// Begun names the site that began the epoch by a promotion; empty: nobody did.
	Begun string
}

// Peer is the other site as it was heard of.
type Peer struct {
	Wanted bool // there is one that must have answered
	Heard  bool // it has answered in this life of the process
	Named  bool // the settings say where it is: it is asked once, at least
	Asked  bool // in this life of the process, whether it has answered or not
	Twin   bool // it has this site's name, and another database
	Site   string
	Epoch  int64
	Leads  bool // as it said last
}

// View is everything that a decision is made of.
type View struct {
	Role     Role
	Site     string // its name
	Database Database
	Peer     Peer
	// Seen is the highest epoch that anybody has told of, in whichever life of whichever
	// replica.
	Seen int64
	// Witness says that nobody leads without the lease; Until is when the site's own
	// ends, the margin for clocks already taken off; zero: it has none.
	Witness bool
	Until   time.Time
	// Word is an operator's, that the other site does not lead.
	Word bool
}

// Decision is what a site is to do.
type Decision struct {
	State State
	Why   string // for people; empty where there is nothing to say
	// Acquire has the site try to get or keep the lease.
	Acquire bool
	// Promote has the database promoted, where it is a standby, and Epoch begun.
	Promote bool
	Epoch   int64
}
