package subscription

import (
	"encoding/json"
	"strconv"
	"strings"
	"time"

	"github.com/droverhq/drover/internal/ledger"
)

// Event is a change as it is told: CloudEvents 1.0 in JSON. Field names are those of
// the specification, extension attributes included, so they are lower case letters
// and digits.
type Event struct {
	SpecVersion string          `json:"specversion"`
	ID          string          `json:"id"`      // the same whenever the same change is told
	Source      string          `json:"source"`  // the ledger; changes of one source have a sequence
	Type        string          `json:"type"`    // dev.drover.<kind>.<what>
	Subject     string          `json:"subject"` // <kind>/<id>
	Time        time.Time       `json:"time"`
	ContentType string          `json:"datacontenttype"`
	Schema      string          `json:"dataschema,omitempty"`
	Sequence    string          `json:"sequence"`     // in the order of the log, as decimal digits
	Partition   string          `json:"partitionkey"` // what is in order: the subject
	Org         string          `json:"org,omitempty"`
	Actor       string          `json:"actor,omitempty"`
	Cause       string          `json:"cause,omitempty"`
	Trace       string          `json:"traceparent,omitempty"`
	Data        json.RawMessage `json:"data"`
}

// Encoder shows a change to whoever is told: nothing of it (false) if that may not
// see it. All: as an operator; else as the admin of an organisation.
type Encoder interface {
	Encode(c *ledger.Change, org string, all bool) (Shown, bool)
}

// Shown is a change as somebody may see it.
type Shown struct {
	What string          // happened, in one word; default: What of the change
	Data json.RawMessage // none: it cannot be written, and its event says so
}

// TypePrefix is before the kind in the type of every event.
const TypePrefix = "dev.drover."

// NewEvent makes the event of a change.
func NewEvent(head ledger.Head, c *ledger.Change, shown Shown) Event {
	o := &c.Object
	what := shown.What
	if what == "" {
		what = What(c)
	}
	e := Event{
		SpecVersion: "1.0", Source: "/ledgers/" + head.Ledger, ID: EventID(head, c.Seq), Type: TypePrefix + o.Kind + "." + what,
		Subject: o.Ref.String(), Time: c.At.UTC(), ContentType: "application/json", Schema: "/api/v1/schemas/" + o.Kind,
		Sequence: strconv.FormatInt(c.Seq, 10), Partition: o.Ref.String(), Org: o.Org, Actor: c.Actor, Cause: string(c.Cause), Trace: c.Trace, Data: shown.Data,
	}
	return e.whole()
}

// whole is the event, which names no schema of data that it has not.
func (e Event) whole() Event {
	if len(e.Data) == 0 {
		e.Data, e.Schema = nil, ""
	}
	return e
}

// encode writes the event as JSON. An encoder has just made its data, which is most of
// it, and nobody has to look at each byte of that again.
func (e *Event) encode() ([]byte, error) {
	bare := *e
	bare.Data = nil
	around, err := json.Marshal(&bare)
	if err != nil || len(e.Data) == 0 {
		return around, err
	}
	around = around[:len(around)-len("null}")]
	return append(append(append(make([]byte, 0, len(around)+len(e.Data)+1), around...), e.Data...), '}'), nil
}

// EventID names a change for ever, by the epoch that it was written in: sequences of one
// epoch are never given twice, and what was there before a restore is told by the same name.
func EventID(head ledger.Head, seq int64) string {
	return head.Ledger + "-" + strconv.FormatInt(head.EpochOf(seq), 10) + "-" + strconv.FormatInt(seq, 10)
}

// What happened to the object, in one of four words: the log's own verb is in the data.
func What(c *ledger.Change) string {
	switch {
	case c.Object.Version == 1:
		return "created"
	case !c.Object.Deleted.IsZero():
		return "deleted"
	case c.Op == c.Object.Phase || c.Op == "phase":
		return "moved" // it entered a phase
	}
	return "updated"
}

// Topic is where followers of a broker find the event: <org>.<kind>.<id>.<what>.
// Who belongs to no organisation is "_".
func (e *Event) Topic() string {
	kind, id, _ := strings.Cut(e.Subject, "/")
	what := e.Type[strings.LastIndexByte(e.Type, '.')+1:]
	org := e.Org
	if org == "" {
		org = "_"
	}
	return strings.Join([]string{Word(org), Word(kind), Word(id), what}, ".")
}

// Word makes a text one word of a topic: what would end or widen it is written as
// %XX, as in URLs, so that no two texts become one word.
func Word(text string) string {
	var b strings.Builder
	for i := range len(text) {
		switch c := text[i]; c {
		case '.', '*', '#', '%', ' ':
			b.WriteString("%" + strings.ToUpper(strconv.FormatInt(int64(c)+0x100, 16)[1:]))
		default:
			b.WriteByte(c)
		}
	}
	return b.String()
}
