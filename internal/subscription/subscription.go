package subscription

import (
	"encoding/json"
	"fmt"
	"net/url"
	"slices"
	"strings"
	"time"

	"github.com/droverhq/drover/internal/fault"
	"github.com/droverhq/drover/internal/ledger"
	"github.com/droverhq/drover/internal/resilience"
)

// Phases of a subscription.
const (
	Active   = "active"
	Failing  = "failing"  // the receiver does not take what is sent; it is sent again
	Disabled = "disabled" // it has not for too long, or somebody said so; nothing is sent
)

// Where a subscription tells.
const (
	ToBus     = "bus"
	ToAnswers = "answers" // of commands, to the queues that their senders named
	ToWebhook = "webhook"
)

// BusID is the one subscription of the broker, and AnswersID that of those who sent
// commands by it.
const (
	BusID     = "bus"
	AnswersID = "answers"
)

// Moved is the operation of a change that only moved a cursor. Nobody is told of
// it: a reader that made news by reading would never rest.
const Moved = "move"

// Kind declares subscriptions to the ledger.
var Kind = ledger.Kind{
	Name:   "subscription",
	Fields: []ledger.Field{{Name: "receiver", Type: ledger.Text}},
	Totals: [][]string{{}, {"org"}},
}

// Spec says who is told of what.
type Spec struct {
	To          string `json:"to"` // bus, answers or webhook
	Description string `json:"description,omitempty"`
	URL         string `json:"url,omitempty"`    // of a webhook
	Secret      string `json:"secret,omitempty"` // reference to what deliveries are signed with
	// Kinds of objects that it is told of; none: all that it may see.
	Kinds []string `json:"kinds,omitempty"`
	// All: of every organisation. Operators' alone.
	All bool `json:"all,omitempty"`
	Off bool `json:"off,omitempty"` // somebody wants nothing sent
}

// Status says how far it got.
type Status struct {
	// Cursor is the sequence up to which everything was told, of this ledger in this
	// epoch: another one counts anew.
	Cursor int64  `json:"cursor"`
	Ledger string `json:"ledger,omitempty"`
	Epoch  int64  `json:"epoch,omitempty"`

	Lost    int64     `json:"lost,omitempty"`     // changes that retention removed before they were told
	LostAt  time.Time `json:"lost_at,omitzero"`   // when that was seen last
	Told    int64     `json:"told,omitempty"`     // events, over its whole life
	Last    time.Time `json:"last_told,omitzero"` // when
	Since   time.Time `json:"failing_since,omitzero"`
	Tries   int       `json:"tries,omitempty"` // that failed since
	Message string    `json:"message,omitempty"`
}

// Subscription is one, decoded.
type Subscription struct {
	ledger.Object
	Spec   Spec
	Status Status
}

// Decode reads a subscription.
func Decode(o ledger.Object) (Subscription, error) {
	s := Subscription{Object: o}
	if err := json.Unmarshal(o.Spec, &s.Spec); err != nil {
		return s, fmt.Errorf("cannot read %s: %w", o.Ref, err)
	}
	if len(o.Status) > 0 {
		if err := json.Unmarshal(o.Status, &s.Status); err != nil {
			return s, fmt.Errorf("cannot read the status of %s: %w", o.Ref, err)
		}
	}
	return s, nil
}

// put writes the subscription as it stands now.
func (s Subscription) put(op string) (ledger.Put, error) {
	var err error
	o := s.Object
	if o.Spec, err = json.Marshal(s.Spec); err != nil {
		return ledger.Put{}, err
	}
	if o.Status, err = json.Marshal(s.Status); err != nil {
		return ledger.Put{}, err
	}
	return ledger.Put{Object: o, Expect: o.Version, Op: op}, nil
}

// Validate finds what is wrong with a spec that somebody asks for.
func (s *Spec) Validate(kinds []string) error {
	u, err := url.Parse(s.URL)
	switch {
	case s.To != ToWebhook:
		return fault.New(fault.Invalid, "a subscription that can be made is a webhook: the broker's is there by itself")
	case err != nil || u.Host == "" || u.Scheme != "https" && u.Scheme != "http":
		return fault.New(fault.Invalid, "url: write one such as https://hooks.example.org/drover")
	case resilience.LinkLocal(u.Hostname()):
		return fault.New(fault.Invalid, "url: %w", resilience.ErrLinkLocal)
	case u.User != nil:
		return fault.New(fault.Invalid, "url: leave user and password out; deliveries are signed with the subscription's secret")
	case u.Fragment != "":
		return fault.New(fault.Invalid, "url: what is after # is never sent")
	case len(s.URL) > 2048:
		return fault.New(fault.Invalid, "url: at most 2048 characters")
	case len(s.Description) > 256:
		return fault.New(fault.Invalid, "description: at most 256 characters")
	}
	for _, k := range s.Kinds {
		if !slices.Contains(kinds, k) {
			return fault.New(fault.Invalid, "kinds: there is no %.64q; there are %s", k, strings.Join(kinds, ", "))
		}
	}
	return nil
}

// moved tells whether a change is only that of a cursor.
func moved(c *ledger.Change) bool { return c.Object.Kind == Kind.Name && c.Op == Moved }

// Wants tells whether a change is one that the subscription may be about. Whether
// it may be seen is the Encoder's.
func (s *Subscription) Wants(c *ledger.Change) bool {
	o := &c.Object
	if moved(c) {
		return false
	}
	return (s.Spec.All || o.Org == s.Org) && (len(s.Spec.Kinds) == 0 || slices.Contains(s.Spec.Kinds, o.Kind))
}
