package httpapi

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"strings"
	"time"

	"github.com/danielgtaylor/huma/v2"

	v1 "github.com/droverhq/drover/api/v1"
	"github.com/droverhq/drover/internal/access"
	"github.com/droverhq/drover/internal/audit"
	"github.com/droverhq/drover/internal/fault"
	"github.com/droverhq/drover/internal/ledger"
)

type auditInput struct {
	Since      string `query:"since" maxLength:"64" doc:"At or after this time"`
	Until      string `query:"until" maxLength:"64" doc:"Before this time"`
	Org        string `query:"org" maxLength:"256"`
	Actor      string `query:"actor" maxLength:"256"`
	Kind       string `query:"kind" maxLength:"64"`
	ID         string `query:"id" maxLength:"256" doc:"Id or name of what it was done to"`
	Verb       string `query:"verb" maxLength:"64"`
	Outcome    string `query:"outcome" maxLength:"16" enum:"done,refused,hidden,failed,started"`
	Everything bool   `query:"everything" doc:"Also what Drover did of its own accord"`
	Oldest     bool   `query:"oldest" doc:"The oldest first"`
	After      int64  `query:"after" minimum:"0" doc:"With oldest: behind this change"`
	Before     int64  `query:"before" minimum:"0" doc:"Without: before this change"`
	Limit      int    `query:"limit" default:"100" minimum:"1" maximum:"1000"`
}

func (o *own) routesAudit() {
	if o.Audit == nil {
		return
	}
	huma.Register(o.api, huma.Operation{
		OperationID: "list-audit", Method: http.MethodGet, Path: "/api/v1/audit", Tags: []string{"audit"},
		Summary: "Who did what, when, from where, and with which outcome",
		Description: "Operators see everything, administrators of an organisation what was done in it. The newest come first. " +
			"One request goes through a bounded part of the log: go on with next, also where nothing was found.",
	}, o.auditList)
	huma.Register(o.api, huma.Operation{
		OperationID: "get-heads", Method: http.MethodGet, Path: "/api/v1/ledger/heads", Tags: []string{"audit"},
		Summary: "The newest heads of the sealed log, and its keys, for safe-keeping elsewhere; operators only",
	}, o.ledgerHeads)
	huma.Register(o.api, huma.Operation{
		OperationID: "erase-change", Method: http.MethodPost, Path: "/api/v1/ledger/changes/{seq}/erase", Tags: []string{"audit"},
		Summary: "Take the content of a change out of the log, for good; operators only",
		Description: "Who wrote it, when and about what stays, and the ledger still verifies. A later change of the same object must be there, " +
			"and the change must be sealed, which takes up to a minute. Who erased it and why is in the audit.",
		DefaultStatus: http.StatusOK,
	}, o.eraseChange)
	o.raw(huma.Operation{
		OperationID: "verify-ledger", Method: http.MethodPost, Path: "/api/v1/ledger/verify", Tags: []string{"audit"},
		Summary: "Verify the whole ledger; operators only",
		Description: "Answers with server-sent events: progress with a VerifyProgress now and then, then done with a Verification, or error with an Error. " +
			"It proves what the server says of itself: `drover ledger verify --data-dir` or `--database` needs no server.",
		RequestBody: &huma.RequestBody{Content: o.content("application/json", v1.VerifyRequest{})},
		Responses:   map[string]*huma.Response{"200": {Description: "A stream of events", Content: o.told()}},
	}, o.ledgerVerify)
}

// told describes the events of a verification: their data, in JSON, is as the
// description says for each of them.
func (o *own) told() map[string]*huma.MediaType {
	return map[string]*huma.MediaType{"text/event-stream": {Schema: &huma.Schema{Type: "object", Properties: map[string]*huma.Schema{
		"event": {Type: "string", Enum: []any{"progress", "done", "error"}}, "data": {Type: "string"},
	}}}}
}

// auditor tells what a caller may see of what was done.
func auditor(who access.Principal, org string) (string, error) {
	switch {
	case who.Admin:
		return org, nil
	case who.Org == "" || !who.OrgAdmin:
		return "", fault.New(fault.Denied, "only operators, and administrators of an organisation, may see what others did")
	case org != "" && org != who.Org:
		return "", fault.New(fault.Denied, "only an operator may see what was done in other organisations")
	}
	return who.Org, nil
}

func (o *own) auditList(ctx context.Context, in *auditInput) (*body[v1.AuditRecords], error) {
	who := access.From(ctx)
	org, err := auditor(who, in.Org)
	if err != nil {
		return nil, err
	}
	page := audit.Page{After: in.After, Before: in.Before, Oldest: in.Oldest, Limit: in.Limit, Filter: audit.Filter{
		Org: org, Actor: in.Actor, Kind: in.Kind, ID: in.ID, Verb: in.Verb, Outcome: in.Outcome, Asked: !in.Everything,
	}}
	if in.After > 0 && !in.Oldest || in.Before > 0 && in.Oldest {
		return nil, fault.New(fault.Invalid, "after goes with oldest, and before without").Because("list")
	}
	for _, t := range []struct {
		text string
		into *time.Time
	}{{in.Since, &page.Since}, {in.Until, &page.Until}} {
		if t.text == "" {
			continue
		}
		if *t.into, err = time.Parse(time.RFC3339Nano, t.text); err != nil {
			return nil, fault.New(fault.Invalid, "since and until are times such as 2030-01-31T12:00:00Z").Because("list")
		}
	}
	found, err := o.Audit.List(ctx, page)
	if err != nil {
		return nil, err
	}
	out := v1.AuditRecords{Items: make([]v1.AuditRecord, 0, len(found.Items)), Next: found.Next, History: found.History}
	for _, r := range found.Items {
		if !who.Admin && r.Kind != "" && !visible(who, &ledger.Object{Ref: ledger.Ref{Kind: r.Kind, ID: r.ID}, Org: r.Org, Owner: who.User, Fields: ledger.Fields{"use": tenantUse}}) {
			continue // what only operators know is theirs, whomever it is about
		}
		out.Items = append(out.Items, v1.AuditRecord(r))
	}
	return &body[v1.AuditRecords]{out}, nil
}

type eraseInput struct {
	Seq  int64 `path:"seq" minimum:"1" doc:"Number of the change"`
	Body v1.EraseChange
}

func (o *own) eraseChange(ctx context.Context, in *eraseInput) (*body[v1.Erasure], error) {
	if !access.From(ctx).Admin {
		return nil, fault.New(fault.Denied, "only an operator may erase what is in the log")
	}
	reason := plainText(strings.TrimSpace(in.Body.Reason), maxText)
	if reason == "" {
		return nil, fault.New(fault.Invalid, "say why it is erased: that stays in the audit").Because("field")
	}
	if note := traceOf(ctx).note; note != nil {
		if err := note(plainText(fmt.Sprintf("change %d: %s", in.Seq, reason), maxText)); err != nil {
			return nil, err
		}
	}
	of, err := o.Audit.Erase(ctx, in.Seq)
	traceOf(ctx).about = plainText(fmt.Sprintf("change %d of %s: %s", in.Seq, of, reason), maxText)
	if err != nil {
		return nil, err
	}
	return &body[v1.Erasure]{v1.Erasure{Seq: in.Seq, Of: of.String()}}, nil
}

type headsInput struct {
	Limit int `query:"limit" default:"1" minimum:"1" maximum:"1000" doc:"How many, the newest"`
}

func (o *own) ledgerHeads(ctx context.Context, in *headsInput) (*body[v1.Heads], error) {
	if !access.From(ctx).Admin {
		return nil, fault.New(fault.Denied, "only an operator may see the heads of the log")
	}
	found, err := o.Audit.Heads(ctx, in.Limit)
	if err != nil {
		return nil, err
	}
	out := v1.Heads{Ledger: found.Ledger, Keys: []v1.SealKey{}, Heads: []v1.SealedHead{}, Text: found.String()}
	for _, k := range found.Keys {
		out.Keys = append(out.Keys, v1.SealKey{ID: k.ID, Public: k.Public, Since: k.Since, By: k.By, Signature: k.Signature})
	}
	for _, h := range found.Heads {
		out.Heads = append(out.Heads, WireHead(h))
	}
	return &body[v1.Heads]{out}, nil
}

// WireHead is a head as clients read it.
func WireHead(h ledger.SealedHead) v1.SealedHead {
	return v1.SealedHead{Block: h.Block, Seq: h.Seq, Epoch: h.Epoch, At: h.At, Hash: h.Hash.String(), Key: h.Key, Signature: h.Signature}
}

// WireReport is a verification as clients read it.
func WireReport(r ledger.Report) v1.Verification {
	out := v1.Verification{
		Ledger: r.Ledger, Blocks: r.Blocks, Changes: r.Changes, Erased: r.Erased, Unsealed: r.Unsealed, Objects: r.Objects,
		Unknown: r.Unknown, Heads: r.Heads, History: r.History, Truncated: r.Truncated, Leftover: r.Leftover,
	}
	for _, e := range r.Erasures {
		out.Erasures = append(out.Erasures, v1.Erasure{Seq: e.Seq, Of: e.Ref.String()})
	}
	if r.Last != nil {
		last := WireHead(*r.Last)
		out.Last = &last
	}
	if f := r.Flaw; f != nil {
		out.Flaw = &v1.Flaw{Kind: string(f.Kind), Block: f.Block, Seq: f.Seq, Text: f.Text}
		if f.Ref.Kind != "" {
			out.Flaw.Of = f.Ref.String()
		}
	}
	return out
}

// maxHeads bounds what is sent to verify against.
const maxHeads = 1 << 20

// ledgerVerify looks at everything. It takes long, and one at a time does.
func (o *own) ledgerVerify(w http.ResponseWriter, r *http.Request) {
	ctx := r.Context()
	var in v1.VerifyRequest
	var kept ledger.Heads
	err := func() error {
		if !access.From(ctx).Admin {
			return fault.New(fault.Denied, "only an operator may have the ledger verified")
		}
		if r.ContentLength != 0 {
			if err := json.NewDecoder(http.MaxBytesReader(w, r.Body, maxHeads)).Decode(&in); err != nil {
				return fault.New(fault.Invalid, "the body is a JSON object with heads as a text: %w", err).Because("body")
			}
		}
		if in.Heads == "" {
			return nil
		}
		var err error
		kept, err = ledger.ParseHeads([]byte(in.Heads))
		return err
	}()
	if err != nil {
		o.fail(w, r, err)
		return
	}
	select {
	case o.verifying <- struct{}{}:
		defer func() { <-o.verifying }()
	default:
		o.fail(w, r, fault.New(fault.Exhausted, "the ledger is being verified: wait until that has ended").Because("rate"))
		return
	}
	st, err := o.openStream(w, r)
	if err != nil {
		return
	}
	gone, cancel := context.WithCancel(ctx)
	defer cancel()
	tell := func(name string, v any) {
		if data, err := json.Marshal(v); err == nil {
			st.event(name, "", data)
		}
		if st.flush() != nil {
			cancel() // nobody listens any more
		}
	}
	report, err := o.Audit.Verify(gone, kept, func(changes, of int64) {
		if time.Since(st.last) >= time.Second {
			tell("progress", v1.VerifyProgress{Changes: changes, Of: of})
		}
	})
	if err != nil {
		a := answerTo(err, nil)
		tell("error", ownFace.object(a.code, a.reason, traceOf(ctx).id))
		return
	}
	tell("done", WireReport(report))
}
