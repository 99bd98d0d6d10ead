package ledger

import "time"

// Set is one caller's write: all of it happens or nothing. Its guards (expected
// versions, names, counters, the lease) are checked against the state at commit.
// It holds no callbacks, so that many sets can share one database commit.
type Set struct {
	Actor string // who: a user, "system", "agent:<cluster>"
	Cause Cause  // why
	// From is the address that it was asked for from, at most MaxOrigin bytes; empty:
	// nobody outside did. Default: what the context of the commit says.
	From string
	// Trace is the traceparent that the set's changes, and the runs that it wakes, are
	// part of; empty: none. Default: that of the commit's context.
	Trace string

	// Lease guards the set: if it was lost, nothing is written.
	Lease *Lease
	Puts  []Put
	// Claims takes names, Frees gives names back that Holder holds. Both by
	// constraint: two sets can never hold one name. Claiming a name that the
	// same holder has already is no conflict, and freeing one that it does not
	// hold does nothing. Whoever frees a name writes its holder in the same set:
	// that is what keeps a claim and a free of one holder in order.
	Claims []Claim
	Frees  []Claim
	Counts []Count
	Wakes  []Wake
	// Finish ends the leased work. It needs Lease.
	Finish *Finish
	// Take claims, of the set's own wakes, those that are due now and that nobody
	// has, in their order: whoever ends a piece of work goes on with what that made
	// due without a claim of its own. It needs Finish.
	Take *ClaimRequest
}

// Put writes an object. A put that would change nothing writes nothing: no
// change is logged and the version stays.
type Put struct {
	Object Object
	// Expect is the version that the writer has read; 0 if the object must not exist yet.
	Expect int64
	// Op is the verb for the log: "create", "update", "delete", "report", or
	// the phase that was entered.
	Op string
}

// Name is unique within its space: {"host", "rex.example.org"}.
type Name struct{ Space, Name string }

// Claim is a name with its holder.
type Claim struct {
	Name
	Holder Ref
}

// Count moves a bounded counter. The set fails with Exhausted where the sum
// would be more than Max, and never below zero.
type Count struct {
	Name  string
	Delta int64
	Max   int64 // applies when Delta > 0; negative = no bound
}

// Wake leaves work: the object's dirty count goes up by one and it is due After
// from now, or sooner if it was due sooner.
type Wake struct {
	Ref
	Org   string // whose turn it uses; default: the organisation of the object in the same set
	After time.Duration
	// IfIdle leaves alone what has work already: for the slow resync.
	IfIdle bool
	// Trace that the run is part of; default: the set's.
	Trace string
}

// Lease is the right to work on an object. Tokens only ever grow, over all
// objects, so an effect can be fenced by remembering the highest one seen.
type Lease struct {
	Ref
	Token int64
}

// Finish says what is left after a run. If the dirty count has moved past what
// was claimed, the work is due again at once, whatever else is said here.
type Finish struct {
	Dirty    int64         // the count that was claimed
	Next     bool          // another run is wanted ...
	After    time.Duration // ... this much later
	Attempts int           // failed runs so far, kept for the back-off
	Note     string        // what it waits for, for people
}

// Result is what a set did.
type Result struct {
	Objects []Object // as stored, in the order of Puts
	Seq     int64    // of the set's last change; 0 if nothing changed
	Taken   []Work   // what Take asked for
}

// Work is a leased piece of due work. It carries an id, never an event: the
// worker looks at the object to see what is to be done.
type Work struct {
	Lease
	Org      string
	Dirty    int64
	Attempts int
	Cause    Cause     // of the set that woke it last
	Trace    string    // that the run continues: of whoever last woke it in one; empty: none
	Due      time.Time // by the store's clock
}

// ClaimRequest asks for work.
type ClaimRequest struct {
	Holder string        // for people: which replica
	Kinds  []string      // kinds this replica can work on
	Limit  int           // at most this many
	Lease  time.Duration // how long
}

// Claimed is the answer: leased work, and how long until the next piece is due
// or the next lease runs out (0 if more is due now, negative if nothing is known).
type Claimed struct {
	Work []Work
	Next time.Duration
}

// Backlog counts the work of a kind.
type Backlog struct {
	Kind    string
	Due     int64
	Running int64
	Waiting int64
	Oldest  time.Duration // how long the oldest due piece has waited
}
