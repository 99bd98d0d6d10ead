package instance

import "time"

// Action is one step. Plan returns them in the order they are to be done. Those
// that reach outside (Call, Reserve, Account, Certify, Publish, Look, Release,
// Withdraw) can be done twice; everything else is only written, together, in
// one commit.
type Action interface{ action() }

type (
	// Move enters a phase.
	Move struct{ To, Reason string }
	// Place reserves the units on a cluster, and takes the versions it offers.
	Place struct {
		Cluster  string
		Why      string            // there and not elsewhere, for users
		Versions map[string]string // of components that were left open
	}
	// Unplace gives the units back after the cluster had no room.
	Unplace struct{}
	// Vacate gives the units back of what was lost with its cluster.
	Vacate struct{ Reason string }
	// Furnish makes the document of the other copy, Swap lets that serve, Recall
	// has it removed (Rejected: its cluster is not to be asked again), and Forget
	// gives its room back.
	Furnish struct{}
	Swap    struct{}
	Recall  struct{ Rejected bool }
	Forget  struct{}
	// Render makes the data plane's document for the present generation.
	Render struct{}
	// Call calls the hooks of the present phase.
	Call struct{ Within time.Duration }
	// Finish ends the running operation.
	Finish struct{ Phase, Reason string }
	// Expire turns the end of the lifespan, or the owner's, into the wish to delete.
	Expire struct{ Why string }
	// Until sets the end, or takes it away. Ruled: a changed rule sets it.
	Until struct {
		Expires time.Time
		Ruled   bool
	}
	// Granted notes that the grant ends later than was known.
	Granted struct{ Ends time.Time }
	// Spare keeps what a rule would take until somebody approves; empty: nothing
	// is in its way any more, or no rule would take it.
	Spare struct{ Approval, Why string }
	// Rest turns a near end into the wish to suspend, and back.
	Rest struct{ On bool }
	// Clean gives names, counters and units back and soft-deletes the object.
	Clean struct{}
	// Queue waits for room.
	Queue struct{ Why string }
	// Come comes back later.
	Come struct {
		After time.Duration
		Why   string
	}

	// Reserve takes the units at the source of quota.
	Reserve struct{}
	// Promote moves it to the wanted billing model.
	Promote struct{}
	// Demote gives the wish for another billing model up.
	Demote struct{ Why string }
	// Release gives reservations back that are not in force.
	Release struct{}
	// Seal makes up an account with its secret, before anybody outside hears of it.
	Seal struct{}
	// Account makes the account be there.
	Account struct{}
	// Certify asks for the certificates of the hosts.
	Certify struct{}
	// Publish makes the hosts known.
	Publish struct{}
	// Look sees after everything outside that could have been changed by hand.
	Look struct{}
	// Withdraw removes everything outside.
	Withdraw struct{}
)

func (Move) action()     {}
func (Place) action()    {}
func (Unplace) action()  {}
func (Vacate) action()   {}
func (Furnish) action()  {}
func (Swap) action()     {}
func (Recall) action()   {}
func (Forget) action()   {}
func (Render) action()   {}
func (Call) action()     {}
func (Finish) action()   {}
func (Expire) action()   {}
func (Until) action()    {}
func (Granted) action()  {}
func (Spare) action()    {}
func (Rest) action()     {}
func (Clean) action()    {}
func (Queue) action()    {}
func (Come) action()     {}
func (Reserve) action()  {}
func (Promote) action()  {}
func (Demote) action()   {}
func (Release) action()  {}
func (Seal) action()     {}
func (Account) action()  {}
func (Certify) action()  {}
func (Publish) action()  {}
func (Look) action()     {}
func (Withdraw) action() {}
