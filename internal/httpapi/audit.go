package httpapi

import (
	"bytes"
	"context"
	"net"
	"net/http"
	"strings"
	"time"

	"github.com/droverhq/drover/internal/access"
	"github.com/droverhq/drover/internal/fault"
	"github.com/droverhq/drover/internal/ledger"
	"github.com/droverhq/drover/internal/operation"
)

// Every call of an operators' API is a change in the ledger before its answer
// goes out. A call that changes something leaves an entry before it is worked
// on, so that nothing is changed that is not on record, and its outcome after;
// whatever only looks leaves one entry with its outcome. Whoever may not call
// at all is on record, too, but does not wait for it: by the time it takes the
// answer could be told from that of a path where nothing is.

// maxBehind bounds the entries of hidden calls that are being written; callers
// beyond that wait for theirs.
var maxBehind = 1024

// Behind is what is written behind answers.
type Behind struct{ room chan struct{} }

// NewBehind is one of which nothing is written yet.
func NewBehind() *Behind { return &Behind{make(chan struct{}, maxBehind)} }

// Wait returns when everything is written, or ctx ends, whichever is first. It is for
// whoever closes the ledger next: callers that come after it wait for their entries.
func (b *Behind) Wait(ctx context.Context) error {
	for n := range cap(b.room) {
		select {
		case b.room <- struct{}{}:
		case <-ctx.Done():
			for range n {
				<-b.room
			}
			return ctx.Err()
		}
	}
	return nil
}

// waysIn are the calls of operators on Drover's own API that give somebody a
// way in and change nothing: only an entry tells who did. Those that let others'
// things go are on record besides what they change, and so is what takes a content out
// of the log. What is decided about messages that were put aside changes the broker alone.
var waysIn = map[string]bool{"POST /api/v1/approvals/{id}/approve": true, "POST /api/v1/approvals/{id}/refuse": true, "POST /api/v1/tokens": true, "POST /api/v1/clusters/{id}/abandon": true, "POST /api/v1/clusters/{id}/join": true, "POST /api/v1/ledger/changes/{seq}/erase": true,
	"POST /api/v1/rejected/{key}/retry": true, "DELETE /api/v1/rejected/{key}": true}

// held keeps an answer back until it may go out. Headers go to where they will
// be sent from.
type held struct {
	http.ResponseWriter
	status int
	body   bytes.Buffer
}

func (h *held) WriteHeader(status int) {
	if h.status == 0 {
		h.status = status
	}
}

func (h *held) Write(p []byte) (int, error) {
	h.WriteHeader(http.StatusOK)
	return h.body.Write(p)
}

func (h *held) send() {
	h.ResponseWriter.WriteHeader(max(h.status, http.StatusOK))
	_, _ = h.ResponseWriter.Write(h.body.Bytes()) // the client has gone: nobody is left to tell
}

// auditOf describes the call.
func auditOf(r *http.Request) operation.Audit {
	who := access.From(r.Context())
	remote, _, err := net.SplitHostPort(r.RemoteAddr)
	if err != nil {
		remote = r.RemoteAddr
	}
	user := who.User
	if user == "" {
		user = who.Actor()
	}
	return operation.Audit{
		User: user, Issuer: who.Issuer, Roles: who.Roles,
		Method: plainText(r.Method, 16), Path: plainText(r.URL.Path, maxText), Remote: plainText(remote, 64),
		Forwarded: plainText(r.Header.Get("X-Forwarded-For"), maxText), Request: traceOf(r.Context()).id,
	}
}

// plainText cuts what a client sent down to what the ledger takes as a column.
func plainText(s string, most int) string {
	out := make([]rune, 0, min(len(s), most))
	size := 0
	for _, c := range s {
		if c < 0x20 || c == 0x7f || c == 0xfffd {
			c = '?'
		}
		if size += len(string(c)); size > most {
			break
		}
		out = append(out, c)
	}
	return string(out)
}

// audited answers a call with what serve says, and keeps the record of it.
// hidden calls are answered as if there were nothing.
func (s *server) audited(w http.ResponseWriter, r *http.Request, hidden bool, serve http.HandlerFunc) {
	out := &held{ResponseWriter: w}
	call := auditOf(r)
	traceOf(r.Context()).recorded = true
	if hidden {
		s.fail(out, r, nothingAt(r))
		s.recordHidden(r, call, out.status)
		out.send()
		return
	}
	if r.Method == http.MethodGet || r.Method == http.MethodHead {
		serve(out, r)
		if err := s.record(r, call, operation.AuditPhase(out.status), out.status); err != nil {
			s.fail(w, r, notRecorded(err))
			return
		}
		out.send()
		return
	}
	entry, err := s.begin(r, call)
	if err != nil {
		s.fail(w, r, notRecorded(err))
		return
	}
	traceOf(r.Context()).note = func(about string) error {
		noted, err := s.note(r, entry, about)
		if err != nil {
			return notRecorded(err)
		}
		entry = noted
		return nil
	}
	serve(out, r)
	if err := s.conclude(r, entry, out.status); err != nil {
		s.Log.ErrorContext(r.Context(), "the outcome of an operator's call is not on record", "request", call.Request, "audit", entry.ID, "status", out.status, "error", err)
	}
	out.send()
}

// recordRefused puts on record that somebody wanted to change something and was
// refused, on Drover's own API or an offering's: what was done tells itself, and what
// was not leaves nothing else. Calls that nobody can read, without a token, of agents
// and beyond the rate are in the server's log alone: everybody could fill the ledger
// with them.
func (s *server) recordRefused(r *http.Request, who access.Principal, status int) {
	t := traceOf(r.Context())
	// There is no such verb, it only asks, or it is the agents' own.
	nowhere := t.route == "/api/v1/" || strings.HasSuffix(t.route, "(unknown)") || strings.HasSuffix(t.route, "/agent-clusters") || t.route == "POST /api/v1/placement/explain" || t.route == "POST /api/v1/clusters/{id}/sync"
	changes := r.Method != http.MethodGet && r.Method != http.MethodHead && r.Method != http.MethodOptions
	refused := status == http.StatusForbidden || status == http.StatusNotFound || status == http.StatusConflict || status == http.StatusGone
	if !changes || !refused || !strings.HasPrefix(r.URL.Path, "/api/v1/") && t.compat == nil || who.User == "" || who.Cluster != "" || t.recorded || nowhere {
		return
	}
	call := auditOf(r)
	if !who.Admin {
		call.Org = who.Org
	}
	s.recordBehind(r, call, operation.AuditRefused, status)
}

// recordHidden writes the entry of a call that was answered as if there were
// nothing.
func (s *server) recordHidden(r *http.Request, call operation.Audit, status int) {
	s.recordBehind(r, call, operation.AuditHidden, status)
}

// recordBehind writes an entry that nobody waits for. At most maxBehind goroutines
// do that, each for five seconds at most; Behind waits for them.
func (s *server) recordBehind(r *http.Request, call operation.Audit, phase string, status int) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(r.Context()), 5*time.Second)
	r = r.WithContext(ctx)
	write := func() {
		defer cancel()
		if err := s.record(r, call, phase, status); err != nil {
			// Nothing was done or shown, and an outage must not show that there
			// is something to hide.
			s.Log.ErrorContext(ctx, "a "+phase+" call is not on record", "request", call.Request, "user", call.User, "path", call.Path, "error", err)
		}
	}
	select {
	case s.Behind.room <- struct{}{}:
		go func() {
			defer func() { <-s.Behind.room }()
			write()
		}()
	default:
		write()
	}
}

func notRecorded(err error) error {
	return fault.New(fault.Unavailable, "the call cannot be put on record: %w", err).Because(noRecord)
}

func (s *server) record(r *http.Request, call operation.Audit, phase string, status int) error {
	put, err := call.Entry(phase, status, s.Clock())
	if err == nil {
		_, err = s.keep(r.Context(), put)
	}
	return err
}

func (s *server) begin(r *http.Request, call operation.Audit) (ledger.Object, error) {
	put, err := call.Entry(operation.AuditStarted, 0, s.Clock())
	if err != nil {
		return ledger.Object{}, err
	}
	return s.keep(r.Context(), put)
}

// note writes what a call is about that has begun, so that it is on record whatever
// becomes of the server meanwhile.
func (s *server) note(r *http.Request, entry ledger.Object, about string) (ledger.Object, error) {
	traceOf(r.Context()).about = about
	put, err := operation.Conclude(entry, operation.AuditStarted, operation.AuditStatus{About: about})
	if err != nil {
		return ledger.Object{}, err
	}
	return s.keep(r.Context(), put)
}

// conclude writes the outcome even if the caller has hung up meanwhile.
func (s *server) conclude(r *http.Request, entry ledger.Object, status int) error {
	put, err := operation.Conclude(entry, operation.AuditPhase(status), operation.AuditStatus{Status: status, Finished: s.Clock(), About: traceOf(r.Context()).about})
	if err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(r.Context()), 5*time.Second)
	defer cancel()
	_, err = s.keep(ctx, put)
	return err
}

func (s *server) keep(ctx context.Context, put ledger.Put) (ledger.Object, error) {
	done, err := s.Ledger.Commit(ctx, ledger.Set{
		Actor: access.From(ctx).Actor(), Cause: ledger.CauseOf(ctx), Puts: []ledger.Put{put},
	})
	if err != nil {
		return ledger.Object{}, err
	}
	return done.Objects[0], nil
}
