package terraform

// What is read of plans and states, for tests that need no OpenTofu.
var (
	ReadChange = change
	ReadDrift  = drift
	ReadMark   = mark
	ReadState  = func(state []byte) (made []string, outputs map[string]any) {
		c := contents(state)
		return c.made, c.outputs
	}
	Unmoved      = unmoved
	LocalPath    = local
	HoldFile     = hold
	IsHeld       = held
	ExistsByPlan = there
)
