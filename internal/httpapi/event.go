package httpapi

import (
	"github.com/droverhq/drover/internal/access"
	"github.com/droverhq/drover/internal/command"
	"github.com/droverhq/drover/internal/ledger"
	"github.com/droverhq/drover/internal/subscription"
)

// Events shows changes to subscriptions exactly as the API shows them to whoever may
// see everything that the subscription is about.
type Events struct{ Offerings Offerings }

// Encode implements subscription.Encoder.
func (e Events) Encode(c *ledger.Change, org string, all bool) (subscription.Shown, bool) {
	who := access.Principal{User: "system", Org: org, OrgAdmin: true}
	if all {
		who = access.Principal{User: "system", Admin: true}
	}
	if _, ok := kindOf(c.Object.Kind); !ok || !visible(who, &c.Object) {
		return subscription.Shown{}, false
	}
	var shown subscription.Shown
	if data, err := encodeChange(c, e.Offerings, who); err == nil {
		shown.Data = data // else it is told that there is a change, and not which
	}
	if c.Object.Kind == command.Kind.Name {
		shown.What = command.What(c)
	}
	return shown, true
}

// EventKinds are the kinds of objects that there can be news of.
func EventKinds() (out []string) {
	for _, r := range fixed {
		out = append(out, r.Kind)
	}
	return out
}
