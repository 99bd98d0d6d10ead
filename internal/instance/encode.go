package instance

import (
	"context"
	"encoding/json"
	"maps"
	"time"

	"github.com/droverhq/drover/internal/ledger"
	"github.com/droverhq/drover/internal/offering"
)

// encode makes the put of an instance: documents, columns, and what the public
// API will show, rendered now so that lists need not.
func encode(ctx context.Context, off *offering.Offering, in *Instance, op string) (ledger.Put, error) {
	o := in.Object
	var err error
	if o.Spec, err = json.Marshal(in.Spec); err != nil {
		return ledger.Put{}, err
	}
	if o.Status, err = json.Marshal(in.Status); err != nil {
		return ledger.Put{}, err
	}
	view, err := off.Present(ctx, facts(in, off))
	switch {
	case err == nil:
		o.View = located(&in.Spec, view)
	case in.Version == 0:
		return ledger.Put{}, err
	}
	// What exists must be able to go its way, and in the end to go, even if its
	// offering can no longer say how to show it: the last view stays.
	o.Fields = ledger.Fields{
		"offering": in.Spec.Offering, "region": in.Spec.Region, "provider": in.Spec.Provider,
		"instance_type": in.Spec.Type, "size": in.Spec.Size, "version": in.wanted()[off.Spec.Components[0].Name], "multi_az": in.Spec.MultiAZ,
		"cluster": in.Status.Cluster, "host": in.host(), "rank": off.Rank(ctx, facts(in, off)),
	}
	if in.Status.Approval != "" {
		o.Fields["approval"] = in.Status.Approval
	}
	if end := in.Status.Expires; !end.IsZero() {
		o.Fields["ends"] = end.UTC().Truncate(time.Hour)
	}
	o.Parent = in.Status.Cluster
	if in.waiting() {
		o.Parent = waitingRoom(in.Spec.Provider, in.Spec.Region)
	}
	return ledger.Put{Object: o, Expect: in.Version, Op: op}, nil
}

// located puts in front of what the offering shows what every instance shows
// and a brief list would not have.
func located(spec *Spec, view json.RawMessage) json.RawMessage {
	buf, _ := json.Marshal(struct { // texts and a truth value
		Provider string `json:"cloud_provider,omitempty"`
		MultiAZ  bool   `json:"multi_az"`
		Region   string `json:"region,omitempty"`
	}{spec.Provider, spec.MultiAZ, spec.Region})
	if len(view) <= len("{}") {
		return buf
	}
	return append(append(buf[:len(buf)-1], ','), view[1:]...)
}

// wanted are the versions of all components, as far as they are known.
func (in *Instance) wanted() map[string]string {
	out := maps.Clone(in.Status.Versions)
	if out == nil {
		out = map[string]string{}
	}
	maps.Copy(out, in.Spec.Versions)
	return out
}

func (in *Instance) host() string {
	if len(in.Status.Routes) == 0 {
		return ""
	}
	return in.Status.Routes[0].Host
}

// waiting reports whether the instance waits for room: the message says for what.
func (in *Instance) waiting() bool {
	return in.Status.Cluster == "" && in.Status.Message != "" && (in.Phase == Accepted || in.Phase == Provisioning)
}

// waitingRoom stands for the cluster of those that have none yet, so that they
// can be found by their parent.
func waitingRoom(provider, region string) string { return "waiting/" + provider + "/" + region }

// facts are what the offering's expressions see.
func facts(in *Instance, off *offering.Offering) offering.Facts {
	versions := in.wanted()
	f := offering.Facts{
		ID: in.ID, Name: in.Name, Owner: in.Owner, Org: in.Org, Account: in.Spec.Account,
		Phase: in.Phase, Reason: in.Status.Reason,
		Provider: in.Spec.Provider, Region: in.Spec.Region, MultiAZ: in.Spec.MultiAZ,
		Type: in.Spec.Type, Size: in.Spec.Size, Version: versions[off.Spec.Components[0].Name], Versions: versions,
		Cluster: in.Status.Cluster, Namespace: in.Status.Namespace, Placement: in.Status.Placement,
		Host: in.host(), Parameters: in.Spec.Parameters, Client: in.Status.Client,
		Billing: in.Status.Paid.Model, Market: in.Status.Paid.Marketplace, Payer: in.Status.Paid.Account,
		Promotion: in.Status.Promotion, Promoting: in.Status.PromotionDetails,
		Quota: in.Status.Source, Ticket: in.Status.Ticket,
		Deleted: in.Spec.Deleted, Suspended: in.Spec.Suspended, Created: in.Created, Expires: in.Status.Expires,
	}
	for _, r := range in.Status.Routes {
		if r.Router != "" {
			f.RoutesDone = !in.Status.Named || in.published()
			f.Routes = append(f.Routes, map[string]any{"domain": r.Host, "router": r.Router})
		}
	}
	if in.Status.Certified {
		f.Certificate = "ready" // it was waited for before the data plane heard of the instance
	}
	if o := in.Status.Observed; o != nil {
		f.Actual, f.Upgrading, f.Admin = o.Versions, o.Upgrading, o.AdminURL
	}
	return f
}

// names are what an instance claims: its name within its tenant, and its hosts
// within the whole fleet. They are free again only after cleanup.
func names(in *Instance) []ledger.Claim {
	claims := []ledger.Claim{{
		Name:   ledger.Name{Space: nameSpace(in.Spec.Offering, in.Org, in.Owner), Name: in.Name},
		Holder: in.Ref,
	}}
	for _, r := range in.Status.Routes {
		claims = append(claims, ledger.Claim{Name: ledger.Name{Space: "host", Name: r.Host}, Holder: in.Ref})
	}
	return claims
}

// nameSpace is where a tenant's names are unique: its organisation, or the
// user alone where the token knows no organisation.
func nameSpace(offeringName, org, owner string) string {
	if org != "" {
		return "instance/" + offeringName + "/org/" + org
	}
	return "instance/" + offeringName + "/owner/" + owner
}
