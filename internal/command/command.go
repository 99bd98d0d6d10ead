package command

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"time"

	"github.com/droverhq/drover/internal/ledger"
)

// Phases of a command.
const (
	Accepted = "accepted" // what it asks for is written down
	Rejected = "rejected"
	Done     = "done"
	Failed   = "failed" // it was begun, and did not succeed
)

// Kind declares commands to the ledger.
var Kind = ledger.Kind{
	Name: "command",
	Fields: []ledger.Field{
		{Name: "type", Type: ledger.Text},
		{Name: "operation", Type: ledger.Text}, // id of what tells how the work goes
		{Name: "subject", Type: ledger.Text},   // <kind>/<id> of what it is about
	},
	Totals: [][]string{{}, {"org"}, {"phase"}},
	Lookup: []string{"operation", "subject", "phase"}, // few are open, of very many
}

// Spec is what was asked for. The body is not in it: what came of it is in the log.
type Spec struct {
	Type    string    `json:"type"`
	Message string    `json:"message"` // the sender's id
	Source  string    `json:"source"`
	Target  string    `json:"target,omitempty"` // the message's subject
	ReplyTo string    `json:"reply_to,omitempty"`
	Sent    time.Time `json:"sent,omitzero"`
	Trace   string    `json:"trace,omitempty"`
	// Digest is that of what was asked for, with a key that nobody can guess data by: by it
	// an id that was used for something else is known. Empty: written by a version without.
	Digest string `json:"digest,omitempty"`
}

// Status is how it goes.
type Status struct {
	Code     string     `json:"code,omitempty"`    // of a refusal, as the API has it
	Message  string     `json:"message,omitempty"` // for people
	Progress string     `json:"progress,omitempty"`
	Object   ledger.Ref `json:"object,omitzero"` // what it is about
	Finished time.Time  `json:"finished,omitzero"`
}

// Command is one, decoded.
type Command struct {
	ledger.Object
	Spec   Spec
	Status Status
}

// Decode reads a command.
func Decode(o ledger.Object) (Command, error) {
	c := Command{Object: o}
	if err := json.Unmarshal(o.Spec, &c.Spec); err != nil {
		return c, fmt.Errorf("cannot read %s: %w", o.Ref, err)
	}
	if len(o.Status) > 0 {
		if err := json.Unmarshal(o.Status, &c.Status); err != nil {
			return c, fmt.Errorf("cannot read the status of %s: %w", o.Ref, err)
		}
	}
	return c, nil
}

// Ended tells whether nothing more comes of it.
func (c *Command) Ended() bool { return c.Phase != Accepted }

func (c Command) put(op string) (ledger.Put, error) {
	var err error
	o := c.Object
	if o.Spec, err = json.Marshal(c.Spec); err != nil {
		return ledger.Put{}, err
	}
	if o.Status, err = json.Marshal(c.Status); err != nil {
		return ledger.Put{}, err
	}
	return ledger.Put{Object: o, Expect: o.Version, Op: op}, nil
}

// ID is that of the command which a sender's message is, the same whenever it comes.
// Organisations have their own: one cannot take another's ids. Without one, it is the
// user's.
func ID(org, owner, source, message string) string {
	if org != "" {
		owner = ""
	}
	h := sha256.New()
	for _, part := range []string{org, owner, source, message} {
		fmt.Fprintf(h, "%d:%s", len(part), part)
	}
	return hex.EncodeToString(h.Sum(nil))[:32]
}
