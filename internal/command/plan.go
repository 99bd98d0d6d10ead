package command

import (
	"encoding/json"
	"time"

	"github.com/droverhq/drover/internal/ledger"
	"github.com/droverhq/drover/internal/operation"
)

// ends are the phases in which what a command began is over, of kinds whose objects
// tell so without an operation: true if it went well.
var ends = map[string]map[string]bool{
	"plan":    {"planned": true, "applied": true, "moved": true, "failed": false, "denied": false, "approval": true},
	"syncrun": {"succeeded": true, "failed": false, "terminated": false},
}

// Observed is what there is of the work that a command began; nil: nothing of the kind.
type Observed struct {
	Operation *ledger.Object
	Subject   *ledger.Object
}

// Plan is the command as it should be by what is observed, and the word for the log;
// none: it is as it should be. It is pure.
func Plan(c Command, o Observed, now time.Time) (Command, string) {
	before := c.Status
	finish := func(phase, message string) (Command, string) {
		c.Phase, c.Status.Message, c.Status.Finished = phase, message, now
		return c, phase
	}
	if o.Subject != nil {
		c.Status.Progress = o.Subject.Phase
	}
	if op := o.Operation; op != nil {
		var st operation.Status
		_ = json.Unmarshal(op.Status, &st) // an outcome without a reason is one
		switch op.Phase {
		case operation.Succeeded:
			return finish(Done, "")
		case operation.Failed, operation.Superseded:
			if st.Reason == "" {
				st.Reason = op.Phase
			}
			return finish(Failed, st.Reason)
		}
	} else if o.Subject == nil {
		return finish(Done, "") // what it wrote was all
	} else if phases, ok := ends[o.Subject.Kind]; !ok {
		return finish(Done, "")
	} else if well, over := phases[o.Subject.Phase]; over {
		if well {
			return finish(Done, "")
		}
		return finish(Failed, said(o.Subject))
	}
	if c.Status == before {
		return c, ""
	}
	return c, Progress
}

// said is what an object says of itself.
func said(o *ledger.Object) string {
	var st struct {
		Message string `json:"message"`
		Reason  string `json:"reason"`
	}
	_ = json.Unmarshal(o.Status, &st) // its phase says enough
	switch {
	case st.Message != "":
		return st.Message
	case st.Reason != "":
		return st.Reason
	}
	return o.Phase
}
