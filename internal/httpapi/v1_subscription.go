package httpapi

import (
	"context"
	"net/http"
	"strings"

	"github.com/danielgtaylor/huma/v2"

	v1 "github.com/droverhq/drover/api/v1"
	"github.com/droverhq/drover/internal/access"
	"github.com/droverhq/drover/internal/fault"
	"github.com/droverhq/drover/internal/ledger"
	"github.com/droverhq/drover/internal/subscription"
)

// routesSubscription serves the subscriptions that tenants make.
func (o *own) routesSubscription() {
	if o.Subscriptions == nil {
		return
	}
	op := func(id, method, path, summary, description string, status int) huma.Operation {
		return huma.Operation{OperationID: id, Method: method, Path: "/api/v1/subscriptions" + path, Tags: []string{"events"},
			Summary: summary, Description: description, DefaultStatus: status, MaxBodyBytes: -1}
	}
	huma.Register(o.api, op("create-subscription", http.MethodPost, "", "Have a URL told of every change",
		"Each change is one POST of a CloudEvent, in order, signed as Standard Webhooks describes. One that fails for a day is disabled.", http.StatusCreated),
		func(ctx context.Context, in *struct{ Body v1.CreateSubscription }) (*body[v1.Subscription], error) {
			sub, secret, err := o.Subscriptions.Create(ctx, in.Body.Name, subscription.Spec{URL: in.Body.URL, Description: in.Body.Description, Kinds: in.Body.Kinds})
			return o.subscribed(ctx, sub.Object, secret, err)
		})
	huma.Register(o.api, op("update-subscription", http.MethodPatch, "/{id}", "Change a subscription, switch it on or off, or give it a new secret", "", http.StatusOK),
		func(ctx context.Context, in *named[v1.UpdateSubscription]) (*body[v1.Subscription], error) {
			was, err := o.findSubscription(ctx, in.ID)
			if err != nil {
				return nil, err
			}
			c := subscription.Change{URL: in.Body.URL, Description: in.Body.Description, Kinds: in.Body.Kinds, Rotate: in.Body.Rotate}
			if in.Body.Enabled != nil {
				off := !*in.Body.Enabled
				c.Off = &off
			}
			sub, secret, err := o.Subscriptions.Update(ctx, was.ID, c)
			return o.subscribed(ctx, sub.Object, secret, err)
		})
	huma.Register(o.api, op("delete-subscription", http.MethodDelete, "/{id}", "Take a subscription away", "", http.StatusOK),
		func(ctx context.Context, in *deploymentPath) (*body[v1.Object], error) {
			return o.taken(ctx, subscription.Kind.Name, in.ID, o.Subscriptions.Delete)
		})
}

func (o *own) findSubscription(ctx context.Context, id string) (ledger.Object, error) {
	r, _ := kindOf(subscription.Kind.Name)
	return o.find(ctx, r, id)
}

func (o *own) subscribed(ctx context.Context, obj ledger.Object, secret string, err error) (*body[v1.Subscription], error) {
	if err != nil {
		return nil, err
	}
	return &body[v1.Subscription]{v1.Subscription{Object: wire(&obj, o.Offerings, access.From(ctx)), Secret: secret}}, nil
}

// Rejected is what was put aside of the messages on the bus.
type Rejected interface {
	List(ctx context.Context, limit int) ([]RejectedMessage, error) // with the beginnings of their bodies
	Show(ctx context.Context, key string) (RejectedMessage, error)
	Count(ctx context.Context) (int, error)
	Retry(ctx context.Context, key string) error
	Drop(ctx context.Context, key string) error
}

// RejectedMessage is one, with its body or the beginning of that.
type RejectedMessage struct {
	v1.RejectedMessage
	Content []byte
}

// rejectedBody is how much of a body is shown: more than brokers take by default.
const rejectedBody = 20 << 20

type rejectedPath struct {
	Key string `path:"key" maxLength:"256"`
}

// routesBus serves what was put aside.
func (o *own) routesBus() {
	if o.Rejected == nil {
		return
	}
	op := func(id, method, path, summary string) huma.Operation {
		return huma.Operation{OperationID: id, Method: method, Path: "/api/v1/rejected" + path, Tags: []string{"events"},
			Summary: summary, Description: "Headers are not told: tokens travel in them.", DefaultStatus: http.StatusOK}
	}
	huma.Register(o.api, op("list-rejected", http.MethodGet, "", "Messages that nobody could take, and why; operators only"),
		func(ctx context.Context, in *struct {
			Limit int `query:"limit" default:"100" minimum:"1" maximum:"1000"`
		}) (*body[v1.RejectedMessages], error) {
			if err := mayDecide(ctx); err != nil {
				return nil, err
			}
			out := v1.RejectedMessages{Items: []v1.RejectedMessage{}, NoBroker: o.NoBroker}
			all, err := o.Rejected.List(ctx, in.Limit)
			if err != nil {
				return nil, err
			}
			for i := range all {
				out.Items = append(out.Items, all[i].shown())
			}
			if out.Count, err = o.Rejected.Count(ctx); err != nil {
				return nil, err
			}
			out.Count = max(out.Count, len(all)) // a broker's own count may be a moment behind
			return &body[v1.RejectedMessages]{out}, nil
		})
	huma.Register(o.api, op("get-rejected", http.MethodGet, "/{key}", "One of them, with its body; operators only"),
		func(ctx context.Context, in *rejectedPath) (*body[v1.RejectedMessage], error) {
			if err := mayDecide(ctx); err != nil {
				return nil, err
			}
			m, err := o.Rejected.Show(ctx, in.Key)
			if err != nil {
				return nil, err
			}
			return &body[v1.RejectedMessage]{m.shown()}, nil
		})
	huma.Register(o.api, op("retry-rejected", http.MethodPost, "/{key}/retry", "Bring one back to its queue; operators only"), o.handled(func(ctx context.Context, key string) error { return o.Rejected.Retry(ctx, key) }))
	huma.Register(o.api, op("drop-rejected", http.MethodDelete, "/{key}", "Remove one for good; operators only"), o.handled(func(ctx context.Context, key string) error { return o.Rejected.Drop(ctx, key) }))
}

// shown is one as text, whatever was sent.
func (m *RejectedMessage) shown() v1.RejectedMessage {
	m.Body = strings.Map(func(c rune) rune {
		if c < 0x20 && c != '\n' && c != '\t' || c == 0x7f || c == 0xfffd {
			return '?'
		}
		return c
	}, string(m.Content[:min(len(m.Content), rejectedBody)]))
	return m.RejectedMessage
}

func mayDecide(ctx context.Context) error {
	if access.From(ctx).Admin {
		return nil
	}
	return fault.New(fault.Denied, "only an operator may look at what was put aside, and decide about it")
}

func (o *own) handled(do func(ctx context.Context, key string) error) func(ctx context.Context, in *rejectedPath) (*struct{}, error) {
	return func(ctx context.Context, in *rejectedPath) (*struct{}, error) {
		if err := mayDecide(ctx); err != nil {
			return nil, err
		}
		traceOf(ctx).about = plainText("message "+in.Key, maxText)
		return nil, do(ctx, in.Key)
	}
}
