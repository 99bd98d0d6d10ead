package gitops

import "time"

// Action is one thing that Plan wants done. All of a plan's are done in one run,
// in their order, and written down together.
type Action interface{ action() }

type (
	// Claim takes the name, which is free.
	Claim struct{}
	// Hold hands nothing new over. Why is for the user; Told is what a custom resource
	// says in its place, where users know other words; Patient: it is only waited for.
	// What is deployed stays as it is.
	Hold struct {
		Why     string
		Told    string
		Patient bool
	}
	// Place hands it to the agent of an engine from now on. What another engine
	// has of it is to go.
	Place struct{ Engine Engine }
	// Retreat takes it from an engine that is being removed.
	Retreat struct{}
	// Unplace forgets an engine that has nothing of it any more.
	Unplace struct{}
	// Begin takes a sync run up, End lets one go that is over.
	Begin struct{ Run SyncRun }
	End   struct{}
	// Stop has one ended that is under way, by what was handed over last.
	Stop struct{ Run SyncRun }
	// Render hands over what is wanted, if it differs from what was handed over.
	Render struct{ Detached bool }
	// Unread tells that the repository could not be read. What runs stays. Lasting:
	// it does not become readable by itself.
	Unread struct {
		Why     string
		Lasting bool
	}
	// Conclude ends the running operation.
	Conclude struct{ Phase, Reason string }
	// Detach tells the agent that the target is gone, and nothing else.
	Detach struct{}
	// Release has the agent let go of it, and leave what was deployed as it is.
	Release struct{}
	// Withdraw has the agent remove it.
	Withdraw struct{}
	// Vanish ends it: all that there was is gone.
	Vanish struct{}
	// Spread makes and changes the deployments of a selector, Gather wants those
	// of them gone that are named.
	Spread struct{ Engines []Engine }
	Gather struct{ Children []string }
	// Oust wants a deployment gone that has the name of this one's resource: no
	// two have one name at a time, so it is gone already.
	Oust struct{ ID string }
	// Come looks again later.
	Come struct {
		After time.Duration
		Why   string
	}
)

func (Claim) action()    {}
func (Hold) action()     {}
func (Place) action()    {}
func (Retreat) action()  {}
func (Unplace) action()  {}
func (Begin) action()    {}
func (End) action()      {}
func (Stop) action()     {}
func (Render) action()   {}
func (Unread) action()   {}
func (Conclude) action() {}
func (Detach) action()   {}
func (Release) action()  {}
func (Withdraw) action() {}
func (Vanish) action()   {}
func (Spread) action()   {}
func (Gather) action()   {}
func (Oust) action()     {}
func (Come) action()     {}
