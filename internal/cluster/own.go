package cluster

import (
	"context"
	"regexp"
	"strings"

	"github.com/droverhq/drover/internal/access"
	"github.com/droverhq/drover/internal/fault"
	"github.com/droverhq/drover/internal/ledger"
)

// Accounts of clusters' agents at the identity provider.
type Accounts interface {
	// EnsureAgent makes the account of a cluster's agent where it is not there,
	// and returns what the agent logs in with.
	EnsureAgent(ctx context.Context, clusterID string) (clientID, secret string, err error)
	// RemoveAgent removes it; one that is not there is fine.
	RemoveAgent(ctx context.Context, clusterID string) error
}

// Logins are clients at the identity provider through which people log in to
// clusters.
type Logins interface {
	EnsureLogin(ctx context.Context, clusterID, redirectURL string) (clientID, secret string, err error)
	// RemoveLogin removes it; one that is not there is fine.
	RemoveLogin(ctx context.Context, clusterID string) error
}

// Own is a cluster that a tenant brings along.
type Own struct {
	ID       string // 32 lower-case letters and digits, or a UUID
	External string // the same; default: ID
	Domain   string // of its ingress
	Offering string // that it is to host
	Provider string
	Region   string
	MultiAZ  bool
	Private  bool
	Nodes    int64
}

var (
	ownID   = regexp.MustCompile(`^([a-z0-9]{32}|[0-9a-f]{8}-([0-9a-f]{4}-){3}[0-9a-f]{12})$`)
	dnsName = regexp.MustCompile(`^([a-z0-9]([a-z0-9-]{0,61}[a-z0-9])?\.)+[a-z]([a-z0-9-]{0,61}[a-z0-9])?$`)
)

func (o Own) check() error {
	switch {
	case !ownID.MatchString(o.ID):
		return fault.New(fault.Invalid, "cluster_id must have 32 lower-case letters and digits, or be a UUID").Because("cluster-id")
	case !ownID.MatchString(o.External):
		return fault.New(fault.Invalid, "the external cluster id must be a UUID").Because("external-id")
	case len(o.Domain) > 253 || !dnsName.MatchString(o.Domain):
		return fault.New(fault.Invalid, "cluster_ingress_dns_name must be a DNS name in lower case").Because("dns-name")
	case o.Nodes < 1 || o.Nodes > 1_000_000:
		return fault.New(fault.Invalid, "the node count must be between 1 and 1000000").Because("field")
	}
	return nil
}

// RegisterOwn makes a tenant's own cluster known. Only an organisation's admin
// may. Faults: Invalid, reasons "cluster-id", "external-id", "dns-name";
// Conflict, reason "cluster-taken".
//
// The agent's account is made at once if the identity provider can be reached,
// and by the reconciler otherwise.
func (s *Service) RegisterOwn(ctx context.Context, own Own) (ledger.Object, error) {
	who, err := orgAdmin(ctx)
	if err != nil {
		return ledger.Object{}, err
	}
	if own.External == "" {
		own.External = own.ID
	}
	own.Domain = strings.TrimSuffix(own.Domain, ".")
	if err := own.check(); err != nil {
		return ledger.Object{}, err
	}
	before, err := s.store.Get(ctx, ledger.Ref{Kind: Kind.Name, ID: own.ID})
	if err != nil && !fault.Is(err, fault.NotFound) {
		return ledger.Object{}, err
	}
	if err == nil && before.Deleted.IsZero() {
		return ledger.Object{}, taken(own.ID)
	}
	o, err := s.add(ctx, own.ID, Spec{
		Provider: own.Provider, Region: own.Region, MultiAZ: &own.MultiAZ, Offering: own.Offering,
		Domain: own.Domain, External: own.External, Private: own.Private, Nodes: own.Nodes, Org: who.Org,
	}, before.Version)
	switch fault.Reason(err) {
	case "exists", "version", "name-taken":
		return ledger.Object{}, taken(own.ID)
	}
	if err != nil {
		return ledger.Object{}, err
	}
	if s.Accounts != nil {
		if client, _, err := s.Accounts.EnsureAgent(ctx, o.ID); err == nil {
			// It is registered, whatever becomes of this: the reconciler sees to it.
			if known, err := s.know(ctx, o.ID, client); err == nil {
				return known, nil
			}
		}
	}
	return o, nil
}

func taken(id string) error {
	return fault.New(fault.Conflict, "cluster %s is registered already", id).Because("cluster-taken")
}

// know writes down the account of a cluster's agent.
func (s *Service) know(ctx context.Context, id, client string) (ledger.Object, error) {
	return s.edit(ctx, id, note{op: "account"}, func(_ *ledger.Object, status *Status) bool {
		changed := status.Client != client
		status.Client = client
		return changed
	})
}

// orgAdmin returns the caller if it may speak for its organisation.
func orgAdmin(ctx context.Context) (access.Principal, error) {
	who := access.From(ctx)
	if who.Org == "" || !who.OrgAdmin {
		return who, fault.New(fault.Denied, "only an admin of the organisation may do that")
	}
	return who, nil
}

// Owned lists the clusters of the caller's organisation, oldest first.
func (s *Service) Owned(ctx context.Context) ([]ledger.Object, error) {
	who := access.From(ctx)
	if who.Org == "" {
		return nil, nil
	}
	return s.store.List(ctx, ledger.Query{
		Kind: Kind.Name, Scope: map[string]any{"org": who.Org}, Order: []ledger.Order{{Column: "created"}}, Limit: 1000,
	})
}

// OwnedByID returns a cluster of the caller's organisation.
func (s *Service) OwnedByID(ctx context.Context, id string) (ledger.Object, error) {
	who := access.From(ctx)
	missing := fault.New(fault.NotFound, "there is no cluster %.64q", id)
	if who.Org == "" || !ownID.MatchString(id) {
		return ledger.Object{}, missing
	}
	o, err := s.Get(ctx, id)
	if fault.Is(err, fault.NotFound) || err == nil && o.Org != who.Org {
		return ledger.Object{}, missing
	}
	return o, err
}

// Agent returns what the agent of a cluster logs in with; only for operators
// and, if it is the organisation's own, the organisation's admins. Both are
// empty where agents have no accounts.
func (s *Service) Agent(ctx context.Context, id string) (client, secret string, err error) {
	if access.From(ctx).Admin {
		_, err = s.Get(ctx, id)
	} else if _, err = s.OwnedByID(ctx, id); err == nil {
		_, err = orgAdmin(ctx)
	}
	if err != nil || s.Accounts == nil {
		return "", "", err
	}
	if client, secret, err = s.Accounts.EnsureAgent(ctx, id); err == nil {
		_, err = s.know(ctx, id, client)
	}
	return client, secret, err
}

// DeleteOwn takes the organisation's own cluster away. Only its admin may, and
// only while nothing runs there.
func (s *Service) DeleteOwn(ctx context.Context, id string) (ledger.Object, error) {
	o, err := s.OwnedByID(ctx, id)
	if err != nil {
		return o, err
	}
	if _, err := orgAdmin(ctx); err != nil {
		return o, err
	}
	for range attempts {
		c, err := load(o)
		if err != nil || c.Spec.Deleted {
			return o, err
		}
		used, err := s.store.Counter(ctx, CapacityCounter(id))
		if err != nil {
			return o, err
		}
		if InUse(used) > 0 {
			return o, fault.New(fault.Conflict, "cluster %s still hosts instances: delete them first", id)
		}
		what, err := s.deployed(ctx, id)
		if err != nil {
			return o, err
		}
		if what != "" {
			return o, fault.New(fault.Conflict, "cluster %s still hosts %s: delete them first", id, what).Because("not-empty")
		}
		o, err = s.depart(ctx, c)
		if fault.Reason(err) != "version" {
			return o, err
		}
		if o, err = s.OwnedByID(ctx, id); err != nil {
			return o, err
		}
	}
	return o, fault.New(fault.Unavailable, "cluster %q changes all the time; try again", id)
}

// Room is what a cluster holds, in units.
type Room struct {
	Max, Remaining, Consumed int64
	Nodes                    int64
}

// Room tells what a cluster holds.
func (s *Service) Room(ctx context.Context, o ledger.Object) (Room, error) {
	spec, status, err := Decode(o)
	if err != nil {
		return Room{}, err
	}
	used, err := s.store.Counter(ctx, CapacityCounter(o.ID))
	if err != nil {
		return Room{}, err
	}
	used = InUse(used)
	return Room{Max: status.Capacity, Remaining: max(status.Capacity-used, 0), Consumed: used, Nodes: spec.Nodes}, nil
}
