package command

import (
	"cmp"
	"context"
	"encoding/json"
	"slices"
	"strings"
	"time"

	"github.com/droverhq/drover/internal/bus"
	"github.com/droverhq/drover/internal/fault"
	"github.com/droverhq/drover/internal/ledger"
	"github.com/droverhq/drover/internal/trace"
)

// Progress is what a change of a command tells that ends nothing.
const Progress = "progress"

// Answer is what the sender of a command hears, as the data of a CloudEvent whose type
// ends with what happened: accepted, rejected, progress, done, failed; or lost, of whatever
// was not answered.
type Answer struct {
	Command   string    `json:"command"` // what it was, such as instance.create
	Message   string    `json:"message"` // the sender's id
	Phase     string    `json:"phase"`
	Operation string    `json:"operation,omitempty"`
	Object    string    `json:"object,omitempty"` // <kind>/<id> of what it is about
	Code      string    `json:"code,omitempty"`
	Reason    string    `json:"reason,omitempty"` // for people
	Progress  string    `json:"progress,omitempty"`
	At        time.Time `json:"at"`
}

// AnswerOf is what there is to say of a command now.
func AnswerOf(c Command) Answer {
	a := Answer{Command: c.Spec.Type, Message: c.Spec.Message, Phase: c.Phase, Code: c.Status.Code, Reason: c.Status.Message, Progress: c.Status.Progress, At: c.Updated.UTC()}
	if c.Status.Object != (ledger.Ref{}) {
		a.Object = c.Status.Object.String()
	}
	a.Operation, _ = c.Fields["operation"].(string)
	return a
}

// Deleted is what a change tells by which the record of a command is taken off. Its sender
// has heard all before.
const Deleted = "deleted"

// Words are all that changes of commands tell.
var Words = []string{Accepted, Rejected, Progress, Done, Failed, Deleted}

// What a change of a command tells, in one of Words. The log's own verb says so also where
// the content was erased.
func What(c *ledger.Change) string {
	if !c.Object.Deleted.IsZero() {
		return Deleted
	}
	if slices.Contains(Words, c.Op) {
		return c.Op
	}
	return c.Object.Phase
}

// Reply sends the sender what an event tells of its command. An address where nobody
// listens any more, or reads what is there, is no failure: the topic has it too.
func (s *Service) Reply(ctx context.Context, c Command, id, what string) error {
	if c.Spec.ReplyTo == "" {
		return nil
	}
	return s.send(ctx, c.Spec.ReplyTo, c.Spec.Message, c.Spec.Trace, envelopeOf(id, what, AnswerOf(c)))
}

// repeat answers a command that came again with what became of it: where this message
// wants it, for whoever sent the first may have gone. One that asks for something else than
// the first with its id did was not carried out, and its sender must not think so.
func (s *Service) repeat(ctx context.Context, m *bus.Message, e envelope, digest string, o ledger.Object) (outcome string, err error) {
	c, err := Decode(o)
	if err != nil {
		return "", err
	}
	if c.Spec.Digest != "" && c.Spec.Digest != digest {
		return "reused", s.refuse(ctx, m, e, fault.New(fault.Conflict, "another command of this source had the id %q before (%s): nothing was done; give every command an id of its own", e.ID, c.Spec.Type).Because("id-reused"))
	}
	c.Spec.ReplyTo = cmp.Or(m.ReplyTo, c.Spec.ReplyTo)
	return "twice", s.Reply(ctx, c, ledger.NewID(), c.Phase)
}

// refuse tells the sender of a message of which no record can be made. What has no id
// that an answer can name is answered with the correlation that the broker's own
// properties have. It fails only where ctx ended before: then the message comes again.
func (s *Service) refuse(ctx context.Context, m *bus.Message, e envelope, why error) error {
	id := cmp.Or(fit(e.ID), fit(m.ID))
	if m.ReplyTo == "" || own(m.ReplyTo) {
		return nil
	}
	a := Answer{Command: fit(strings.TrimPrefix(e.Type, TypePrefix)), Message: id, Phase: Rejected, Code: fault.Reason(why), Reason: why.Error(), At: s.Now().UTC()}
	if err := s.send(ctx, m.ReplyTo, cmp.Or(id, fit(m.Correlation)), parentOf(m, e), envelopeOf(ledger.NewID(), Rejected, a)); ctx.Err() != nil {
		return err
	}
	return nil // it is put aside with its reason, or is worth nothing
}

type outgoing struct {
	SpecVersion string    `json:"specversion"`
	ID          string    `json:"id"`
	Source      string    `json:"source"`
	Type        string    `json:"type"`
	Subject     string    `json:"subject,omitempty"`
	Time        time.Time `json:"time"`
	ContentType string    `json:"datacontenttype"`
	Trace       string    `json:"traceparent,omitempty"`
	Data        Answer    `json:"data"`
}

func envelopeOf(id, what string, a Answer) outgoing {
	return outgoing{SpecVersion: "1.0", ID: id, Source: "/commands", Type: TypePrefix + what, Subject: a.Object, Time: a.At, ContentType: "application/json", Data: a}
}

func (s *Service) send(ctx context.Context, to, correlation, parent string, e outgoing) error {
	e.Trace = parent
	body, err := json.Marshal(e)
	if err != nil {
		return err
	}
	m := bus.Message{ID: e.ID, Topic: to, Type: e.Type, ContentType: "application/cloudevents+json", Time: e.Time, Correlation: correlation, Body: body}
	var span *trace.Span
	if parent != "" {
		m.Headers = map[string]string{trace.Header: parent}
		_, span = s.Tracer.Start(ctx, parent, "answer "+strings.TrimPrefix(e.Type, TypePrefix), trace.Producer)
		span.Set(trace.Text("messaging.message.id", e.ID), trace.Text("messaging.message.conversation_id", correlation))
	}
	err = s.Bus.Send(ctx, to, m)
	if fault.Is(err, fault.NotFound) || fault.Is(err, fault.Invalid) || ctx.Err() == nil && fault.Reason(err) == bus.ReasonFull { // nobody waits for one who does not read
		span.Done(err)
		return nil
	}
	if err == nil { // else it is sent again
		span.End("")
	}
	return err
}
