package httpapi

import (
	"context"
	"net/http"
	"slices"

	"github.com/danielgtaylor/huma/v2"

	v1 "github.com/droverhq/drover/api/v1"
	"github.com/droverhq/drover/internal/access"
	"github.com/droverhq/drover/internal/account"
	"github.com/droverhq/drover/internal/fault"
	"github.com/droverhq/drover/internal/instance"
	"github.com/droverhq/drover/internal/ledger"
	"github.com/droverhq/drover/internal/operation"
)

// filter selects changes by what they are about.
type filter struct {
	kind     string
	offering string
	id       string
}

// newFilter reads kind, resource and id of a request; empty ones select everything.
func (s *server) newFilter(kind, name, id string) (filter, error) {
	f := filter{kind: kind, id: id}
	if kind != "" {
		if _, ok := kindOf(kind); !ok {
			return f, fault.New(fault.Invalid, "there is no kind %.64q", kind).Because("list")
		}
	}
	if name != "" {
		r, err := s.resource(name)
		if err != nil {
			return f, err
		}
		if kind != "" && kind != r.Kind {
			return f, fault.New(fault.Invalid, "resource %q is not of kind %q", name, kind).Because("list")
		}
		f.kind, f.offering = r.Kind, r.Offering
	}
	if id != "" && f.kind == "" {
		return f, fault.New(fault.Invalid, "an id goes with a kind or a resource").Because("list")
	}
	return f, nil
}

func (f filter) matches(o *ledger.Object) bool {
	return (f.kind == "" || o.Kind == f.kind) && (f.id == "" || o.ID == f.id) &&
		(f.offering == "" || o.Fields["offering"] == f.offering)
}

// query narrows a read of the log to what can be visible at all.
func (f filter) query(who access.Principal) ledger.ChangeQuery {
	q := ledger.ChangeQuery{Kind: f.kind, ID: f.id}
	if !who.Admin && (f.kind == instance.Kind.Name || f.kind == operation.Kind.Name || f.kind == account.Kind.Name) {
		q.Org = who.Org
	}
	return q
}

// sight decides which changes a caller may see under today's authorisation. A
// change up to the head that was there when the caller came is judged by the
// present state of its object; a later one tells the present state itself.
type sight struct {
	store   ledger.Reader
	who     access.Principal
	head    int64
	verdict map[ledger.Ref]bool
}

// maxVerdicts bounds what one reader of the log remembers.
const maxVerdicts = 10_000

func (g *sight) sees(ctx context.Context, c *ledger.Change) (bool, error) {
	o := &c.Object
	if _, ok := kindOf(o.Kind); !ok {
		return false, nil
	}
	if g.who.Admin || forAll(o.Kind) || c.Seq > g.head {
		return visible(g.who, o), nil
	}
	if g.who.Org != "" && g.who.Org != o.Org {
		return false, nil // objects never change their organisation
	}
	if v, ok := g.verdict[o.Ref]; ok {
		return v, nil
	}
	now, err := g.store.Get(ctx, o.Ref)
	if err != nil && !fault.Is(err, fault.NotFound) {
		return false, err
	}
	if len(g.verdict) >= maxVerdicts || g.verdict == nil {
		g.verdict = map[ledger.Ref]bool{}
	}
	v := err == nil && visible(g.who, &now)
	g.verdict[o.Ref] = v
	return v, nil
}

// picks reports whether a change is asked for, and seen.
func (g *sight) picks(ctx context.Context, f filter, c *ledger.Change) (bool, error) {
	if !f.matches(&c.Object) {
		return false, nil
	}
	return g.sees(ctx, c)
}

type changesInput struct {
	After    int64  `query:"after" minimum:"0" doc:"Only changes after this sequence"`
	Limit    int    `query:"limit" default:"100" minimum:"1" maximum:"1000"`
	Newest   int    `query:"newest" minimum:"0" maximum:"1000" doc:"That many of the newest ones, oldest first; in place of after and limit"`
	Kind     string `query:"kind" maxLength:"64"`
	Resource string `query:"resource" maxLength:"128"`
	ID       string `query:"id" maxLength:"256" doc:"With kind or resource"`
}

func (o *own) routesChange() {
	huma.Register(o.api, huma.Operation{
		OperationID: "list-changes", Method: http.MethodGet, Path: "/api/v1/changes", Tags: []string{"changes"},
		Summary: "A piece of the log, as far as the caller may see it", Description: "Resume after next. It may move although nothing was found: the rest was not the caller's. " +
			"One request goes through a bounded part of the log: where that was too little for newest, since says how far back it looked.",
	}, o.changes)
	o.raw(huma.Operation{
		OperationID: "watch-changes", Method: http.MethodGet, Path: "/api/v1/watch", Tags: []string{"changes"},
		Summary: "Follow the log as server-sent events",
		Description: "Each event has the change's sequence as its id, the name change, and a Change as its data. " +
			"A client that comes back with the header Last-Event-ID, or after, misses nothing and gets nothing twice. " +
			"Comments keep the connection alive; a client that does not read is disconnected.",
		Parameters: []*huma.Param{
			queryParam("after", "Start after this sequence; default: now", "integer"),
			queryParam("kind", "Only changes of this kind", "string"),
			queryParam("resource", "Only changes of this resource", "string"),
			queryParam("id", "Only changes of this object; with kind or resource", "string"),
			{Name: "Last-Event-ID", In: "header", Description: "Resume after this sequence", Schema: &huma.Schema{Type: "string"}},
		},
		Responses: map[string]*huma.Response{"200": {Description: "A stream of changes", Content: o.content("text/event-stream", v1.Change{})}},
	}, o.watch)
}

// scanned bounds how much of the log one request goes through.
const scanned = 20_000

func (o *own) changes(ctx context.Context, in *changesInput) (*body[v1.Changes], error) {
	f, err := o.newFilter(in.Kind, in.Resource, in.ID)
	if err != nil {
		return nil, err
	}
	head, err := o.Ledger.Head(ctx)
	if err != nil {
		return nil, err
	}
	who := access.From(ctx)
	g := &sight{store: o.Ledger, who: who, head: head.Seq}
	out := v1.Changes{Items: []v1.Change{}, Next: in.After}
	if in.Newest > 0 {
		if in.After > 0 {
			return nil, fault.New(fault.Invalid, "after goes with limit, not with newest").Because("list")
		}
		out.Items, out.Since, err = o.newest(ctx, g, f, in.Newest)
		out.Next = head.Seq
		return &body[v1.Changes]{out}, err
	}
	for seen := 0; len(out.Items) < in.Limit && seen < scanned; {
		q := f.query(who)
		q.After, q.Until, q.Limit = out.Next, head.Seq, 1000
		if q.After >= q.Until {
			break
		}
		changes, err := o.Ledger.Changes(ctx, q)
		if err != nil {
			return nil, err
		}
		for i := range changes {
			if len(out.Items) == in.Limit {
				break
			}
			out.Next = changes[i].Seq
			ok, err := g.picks(ctx, f, &changes[i])
			if err != nil {
				return nil, err
			}
			if ok {
				out.Items = append(out.Items, wireChange(&changes[i], o.Offerings, who))
			}
		}
		if seen += len(changes); len(changes) < q.Limit && len(out.Items) < in.Limit {
			out.Next = head.Seq
			break
		}
	}
	return &body[v1.Changes]{out}, nil
}

// newest looks back from the head for the last n changes that the caller sees.
// It gives up after a bounded way, and says then where.
func (o *own) newest(ctx context.Context, g *sight, f filter, n int) (found []v1.Change, since int64, err error) {
	found = []v1.Change{}
	until := g.head
	head, err := o.Ledger.Head(ctx)
	if err != nil {
		return nil, 0, err
	}
	whole := head.Whole
	for seen := 0; until > 0 && len(found) < n; {
		if seen >= scanned {
			since = until
			break
		}
		q := f.query(g.who)
		q.Until, q.Limit, q.Reverse = until, 1000, true
		changes, err := o.Ledger.Changes(ctx, q)
		if err != nil {
			return nil, 0, err
		}
		for i := range changes {
			if len(found) == n {
				break
			}
			ok, err := g.picks(ctx, f, &changes[i])
			if err != nil {
				return nil, 0, err
			}
			if ok {
				found = append(found, wireChange(&changes[i], o.Offerings, g.who))
			}
		}
		if len(changes) < q.Limit {
			if len(found) < n {
				since = whole // 0, unless the log was truncated
			}
			break
		}
		seen += len(changes)
		until = changes[len(changes)-1].Seq - 1
	}
	slices.Reverse(found)
	return found, since, nil
}
