package command

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"net/http"
	"strings"
	"time"

	"github.com/droverhq/drover/internal/access"
	"github.com/droverhq/drover/internal/bus"
	"github.com/droverhq/drover/internal/fault"
	"github.com/droverhq/drover/internal/ledger"
	"github.com/droverhq/drover/internal/trace"
)

// Queue is where commands are sent to.
const Queue = "drover.commands"

// Bus is what commands need of one.
type Bus interface {
	Send(ctx context.Context, queue string, message bus.Message) error
	Consume(ctx context.Context, queue string, handle func(ctx context.Context, d bus.Delivery) error) error
}

// Store is what commands need of the ledger.
type Store interface {
	Commit(ctx context.Context, set ledger.Set) (ledger.Result, error)
	Get(ctx context.Context, ref ledger.Ref) (ledger.Object, error)
	List(ctx context.Context, query ledger.Query) ([]ledger.Object, error)
}

// Authenticator finds out whose a token is.
type Authenticator interface {
	Authenticate(ctx context.Context, token string) (access.Principal, error)
}

// Config of a Service.
type Config struct {
	Store         Store
	Bus           Bus
	Authenticator Authenticator
	API           http.Handler // carries commands out
	Feed          Follower
	Key           []byte           // of digests, the same on every replica and for good; default: none
	Observer      Observer         // default: nobody looks
	Tracer        *trace.Tracer    // default: commands are not followed
	Now           func() time.Time // default: time.Now
}

// Observer sees what became of messages: accepted, rejected, twice, reused, denied,
// malformed, key-lost, failed.
type Observer interface {
	// Taken is for metrics.
	Taken(command, outcome string, took time.Duration)
	// Refused is for the log. It is called once for each message of which neither the
	// API nor the ledger knows: denied, reused, malformed, key-lost, failed.
	Refused(ctx context.Context, r Refusal)
}

type unobserved struct{}

func (unobserved) Taken(string, string, time.Duration) {}
func (unobserved) Refused(context.Context, Refusal)    {}

// Service takes commands.
type Service struct {
	Config
	open   index
	missed chan time.Time // when a queue was found to be deleted
}

// NewService makes a service.
func NewService(c Config) *Service {
	if c.Now == nil {
		c.Now = time.Now
	}
	if c.Observer == nil {
		c.Observer = unobserved{}
	}
	return &Service{Config: c, open: newIndex(), missed: make(chan time.Time, 1)}
}

// Run takes commands until ctx ends.
func (s *Service) Run(ctx context.Context) error { return s.Bus.Consume(ctx, Queue, s.take) }

// errKeyLost is of a message that can be carried out once its key is back, or with a token.
var errKeyLost = fault.New(fault.Unavailable, "its token was sealed when it was put aside, with another master key than the control plane has now: nothing was done, and it is put aside again; send it again with its id and a token, or bring the key back and retry it").Because("key-lost")

// errNotLeading is of a command that came to a site which does not lead, as one does that
// hands over just then: whoever leads has it later.
var errNotLeading = fault.New(fault.Unavailable, "this site does not lead: the command waits for the one that does")

// take carries one out. It returns nil when the ledger has it, so that the broker may
// forget it. What failed comes again, for as long as the bus has patience with it.
func (s *Service) take(ctx context.Context, d bus.Delivery) error {
	began := s.Now()
	e, err := Parse(&d.Message)
	if d.Large > 0 {
		err = tooLarge(d.Large)
	}
	outcome := "malformed"
	if err == nil && d.KeyLost {
		outcome, err = "key-lost", errKeyLost
	}
	if err != nil {
		s.Observer.Taken(e.name, outcome, s.Now().Sub(began))
		if untold := s.refuse(ctx, &d.Message, e, err); untold != nil {
			return untold
		}
		s.refused(ctx, &d.Message, e, outcome)
		return bus.Reject(err)
	}
	var span *trace.Span
	if s.Tracer != nil {
		ctx, span = s.Tracer.Start(ctx, e.Trace, "command "+e.name, trace.Consumer)
		span.Set(trace.Text("messaging.destination.name", Queue), trace.Text("messaging.message.id", e.ID), trace.Text("drover.command", e.name))
		e.Trace = cmp.Or(trace.Parent(ctx), e.Trace)
	}
	outcome, err = s.carry(ctx, &d.Message, e)
	if span != nil {
		span.Set(trace.Text("drover.outcome", cmp.Or(outcome, "failed")))
	}
	if err == nil {
		span.End("")
		s.Observer.Taken(e.name, outcome, s.Now().Sub(began))
		if outcome == "denied" || outcome == "reused" {
			s.refused(ctx, &d.Message, e, outcome)
		}
		return nil
	}
	span.Done(err)
	if verdict, _ := bus.Later(err, d); verdict == bus.PutAway {
		s.Observer.Taken(e.name, "failed", s.Now().Sub(began))
		s.refused(ctx, &d.Message, e, "failed")
		_ = s.refuse(ctx, &d.Message, e, fault.New(fault.Internal, "it failed %d times and is put aside: whoever runs the control plane sees why, and can have it tried again", d.Try).Because("failed"))
	}
	return err
}

// carry has the API do what the command asks for.
func (s *Service) carry(ctx context.Context, m *bus.Message, e envelope) (outcome string, err error) {
	token := tokenOf(m)
	who, err := s.Authenticator.Authenticate(ctx, token)
	if errors.Is(err, access.ErrIssuerAway) {
		return "", fault.New(fault.Unavailable, "the token cannot be verified: %w", access.ErrIssuerAway)
	}
	if fault.Is(err, fault.Denied) || token == "" {
		// Whose it is nobody knows, so nobody's record can be made of it.
		return "denied", s.refuse(ctx, m, e, fault.New(fault.Denied, "the token in the message's header authorization is missing, has expired or is nobody's").Because("token"))
	}
	if err != nil {
		return "", err
	}
	ref, digest := ledger.Ref{Kind: Kind.Name, ID: ID(who.Org, who.User, e.Source, e.ID)}, e.digest(s.Key)
	if o, err := s.Store.Get(ctx, ref); err == nil {
		return s.repeat(ctx, m, e, digest, o)
	} else if !fault.Is(err, fault.NotFound) {
		return "", err
	}
	c := Command{
		Object: ledger.Object{Ref: ref, Org: who.Org, Owner: who.User, Name: e.ID, Phase: Accepted},
		Spec:   Spec{Type: e.name, Message: e.ID, Source: e.Source, Target: e.Subject, ReplyTo: m.ReplyTo, Trace: e.Trace, Digest: digest},
	}
	if e.Time != nil {
		c.Spec.Sent = e.Time.UTC()
	}
	o := &once{command: c}
	answer, err := s.call(with(ctx, o), m, e, token)
	if err != nil {
		return "", err
	}
	if o.written {
		return Accepted, nil // the answer goes out from the log
	}
	if _, err := s.Store.Get(ctx, ref); fault.Is(err, fault.NotFound) {
		if outcome, err = s.settle(ledger.WithOrigin(ctx, fromBus), who, c, answer, ledger.ByRequest(requestID(m, e))); fault.Reason(err) != "exists" {
			return outcome, err
		}
	}
	taken, err := s.Store.Get(ctx, ref) // by another delivery, at the same time
	if err != nil {
		return "", err
	}
	return s.repeat(ctx, m, e, digest, taken)
}

// settle writes down what became of a command that changed nothing: it was refused,
// or there was nothing to change.
func (s *Service) settle(ctx context.Context, who access.Principal, c Command, a answer, why ledger.Cause) (string, error) {
	now := s.Now().UTC()
	c.Fields = ledger.Fields{"type": c.Spec.Type}
	c.Phase, c.Status = Done, Status{Message: "nothing had to be changed", Finished: now}
	if a.status >= 400 {
		c.Phase, c.Status = Rejected, Status{Code: a.Code, Message: a.Reason, Finished: now}
	}
	put, err := c.put(c.Phase)
	if err != nil {
		return "", err
	}
	_, err = s.Store.Commit(ctx, ledger.Set{Actor: who.Actor(), Cause: why, Puts: []ledger.Put{put}})
	if fault.Reason(err) == "secondary" {
		err = errNotLeading
	}
	return c.Phase, err
}

// fromBus is where whoever sent a message is: nobody knows more.
const fromBus = "bus"

// answer is what the API said.
type answer struct {
	status int
	Code   string `json:"code"`
	Reason string `json:"reason"`
}

// call makes the request. An answer that says that the API could not, and not that it
// would not, is an error: Unavailable where another time is all that it takes, and else
// one that may have to do with the command.
func (s *Service) call(ctx context.Context, m *bus.Message, e envelope, token string) (answer, error) {
	path, _ := e.route.path(e.Subject)
	req, err := http.NewRequestWithContext(ctx, e.route.Method, path, bytes.NewReader(e.body()))
	if err != nil {
		return answer{}, fault.New(fault.Invalid, "the subject makes no path")
	}
	req.RemoteAddr = fromBus
	req.Header.Set("Authorization", "Bearer "+token)
	req.Header.Set("Content-Type", "application/json")
	req.Header.Set("X-Request-ID", requestID(m, e))
	if e.Trace != "" {
		req.Header.Set(trace.Header, e.Trace)
	}
	w := &recorder{header: http.Header{}}
	s.API.ServeHTTP(w, req)
	a := answer{status: w.status}
	_ = json.Unmarshal(w.body.Bytes(), &a) // whatever it is, the status counts
	if a.Reason == "" && w.status >= 400 {
		a.Reason = http.StatusText(w.status)
	}
	switch {
	case w.status == http.StatusMisdirectedRequest:
		return a, errNotLeading
	case w.status == http.StatusTooManyRequests, w.status == http.StatusBadGateway, w.status == http.StatusServiceUnavailable, w.status == http.StatusGatewayTimeout,
		w.status >= 500 && w.header.Get("Retry-After") != "", // somebody whom the API depends on is away
		(w.status >= 500 || w.status == 0) && ctx.Err() != nil:
		return a, fault.New(fault.Unavailable, "the API answered with status %d", w.status)
	case w.status >= 500 || w.status == 0:
		return a, fault.New(fault.Internal, "the API answered with status %d", w.status)
	}
	return a, nil
}

// requestID is how the command is found in logs and in the log.
func requestID(m *bus.Message, e envelope) string {
	if id := header(m, "x-request-id"); nameable(id) {
		return id
	}
	return ID("", "", e.Source, e.ID)
}

// parentOf is the trace that a command came in: a header of the message, as brokers'
// clients send it, or an attribute of the CloudEvent.
func parentOf(m *bus.Message, e envelope) string {
	return cmp.Or(trace.Good(header(m, trace.Header)), trace.Good(e.Trace))
}

func header(m *bus.Message, name string) string {
	for k, v := range m.Headers {
		if strings.EqualFold(k, name) {
			return v
		}
	}
	return ""
}

func pause(ctx context.Context, d time.Duration) bool {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-ctx.Done():
		return false
	case <-t.C:
		return true
	}
}

// recorder keeps an answer.
type recorder struct {
	header http.Header
	status int
	body   bytes.Buffer
}

func (r *recorder) Header() http.Header { return r.header }

func (r *recorder) WriteHeader(status int) {
	if r.status == 0 {
		r.status = status
	}
}

func (r *recorder) Write(p []byte) (int, error) {
	r.WriteHeader(http.StatusOK)
	return r.body.Write(p)
}
