// Package route53 keeps records in hosted zones of Amazon Route 53.
//
// It owns the calls: reading no more of a zone than is asked for, and change
// batches that create and delete but never overwrite, so that the service itself
// refuses what somebody else made. It must not know marks, nor who owns what.
package route53

import (
	"context"
	"errors"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/config"
	"github.com/aws/aws-sdk-go-v2/credentials"
	"github.com/aws/aws-sdk-go-v2/service/route53"
	"github.com/aws/aws-sdk-go-v2/service/route53/types"
	"github.com/aws/smithy-go"
	"golang.org/x/time/rate"

	"github.com/droverhq/drover/internal/dns"
	"github.com/droverhq/drover/internal/fault"
)

// Config of a Provider.
type Config struct {
	HostedZone  string // id; empty: the public zone of the name is looked for
	Region      string // default "us-east-1": the service is a global one
	Endpoint    string // URL of an emulator; empty: the service itself
	AccessKeyID string // empty: as the AWS tools do, from the environment, files, or the machine's role
	Secret      string // of the access key
}

// Provider is an account's hosted zones.
type Provider struct {
	client   *route53.Client
	fixed    string // id of the hosted zone, if configured
	emulated bool

	pace *rate.Limiter

	mu    sync.Mutex
	ids   map[string]string // by zone
	large map[string]int    // pages of a zone that was too large to be read as a whole
}

const (
	perSecond = 5   // requests that the service takes of an account
	page      = 300 // record sets that it gives at a time
)

// New makes a provider of settings: hosted-zone-id, region, endpoint,
// access-key-id and secret-access-key-file or secret-access-key-env.
func New(s dns.Settings) (dns.Provider, error) {
	if err := s.Check("route53", "hosted-zone-id", "region", "endpoint", "access-key-id", "secret-access-key-file", "secret-access-key-env"); err != nil {
		return nil, err
	}
	secret, err := s.Secret("secret-access-key")
	if err != nil {
		return nil, err
	}
	return Open(Config{
		HostedZone: s["hosted-zone-id"], Region: s["region"], Endpoint: s["endpoint"],
		AccessKeyID: s["access-key-id"], Secret: secret,
	})
}

// Open makes a provider. The service is not asked yet.
func Open(c Config) (*Provider, error) {
	if (c.AccessKeyID == "") != (c.Secret == "") {
		return nil, fault.New(fault.Invalid, "the DNS provider route53 needs both the id and the secret of an access key, or neither").Because("dns-setting")
	}
	var options []func(*config.LoadOptions) error
	if c.AccessKeyID != "" {
		options = append(options, config.WithCredentialsProvider(credentials.NewStaticCredentialsProvider(c.AccessKeyID, c.Secret, "")))
	}
	if c.Region != "" {
		options = append(options, config.WithRegion(c.Region))
	}
	settings, err := config.LoadDefaultConfig(context.Background(), options...)
	if err != nil {
		return nil, fault.New(fault.Invalid, "the DNS provider route53 cannot read the AWS configuration: %w", err).Because("dns-setting")
	}
	if settings.Region == "" {
		settings.Region = "us-east-1"
	}
	client := route53.NewFromConfig(settings, func(o *route53.Options) {
		o.RetryMaxAttempts = 2 // the caller has a policy of its own
		if c.Endpoint != "" {
			o.BaseEndpoint = &c.Endpoint
		}
	})
	p := &Provider{
		client: client, fixed: strings.TrimPrefix(c.HostedZone, "/hostedzone/"), emulated: c.Endpoint != "",
		pace: rate.NewLimiter(perSecond, perSecond), ids: map[string]string{}, large: map[string]int{},
	}
	if p.emulated {
		p.pace.SetLimit(rate.Inf)
	}
	return p, nil
}

// Pace implements dns.Paced: a batch may need two requests for each host.
func (p *Provider) Pace() (batch int, timeout time.Duration) { return 20, 30 * time.Second }

// Servers are the name servers of the hosted zone. Emulators have none.
func (p *Provider) Servers(ctx context.Context, zone string) ([]string, error) {
	if p.emulated {
		return nil, nil
	}
	id, err := p.id(ctx, zone)
	if err != nil {
		return nil, err
	}
	out, err := p.client.GetHostedZone(ctx, &route53.GetHostedZoneInput{Id: &id})
	if err != nil {
		return nil, problem(zone, err)
	}
	if out.DelegationSet == nil {
		return nil, nil // a private zone
	}
	return out.DelegationSet.NameServers, nil
}

// Lookup implements dns.Provider.
func (p *Provider) Lookup(ctx context.Context, zone string, names []string) ([]dns.RR, error) {
	id, err := p.id(ctx, zone)
	if err != nil {
		return nil, err
	}
	// Whichever takes fewer requests: all pages of the zone, or one for each name.
	p.mu.Lock()
	pages := p.large[zone]
	p.mu.Unlock()
	if pages < len(names) {
		out, whole, err := p.list(ctx, zone, route53.ListResourceRecordSetsInput{HostedZoneId: &id, MaxItems: aws.Int32(page)}, len(names), func(string) bool { return true })
		if err != nil {
			return nil, err
		}
		if whole {
			return slices.DeleteFunc(out, func(r dns.RR) bool { return !slices.Contains(names, r.Name) }), nil
		}
		p.mu.Lock()
		p.large[zone] = len(names)
		p.mu.Unlock()
	}
	var out []dns.RR
	for _, n := range names {
		if slices.ContainsFunc(out, func(r dns.RR) bool { return r.Name == n }) {
			continue // a name that is below another comes right after it
		}
		found, _, err := p.list(ctx, zone, route53.ListResourceRecordSetsInput{HostedZoneId: &id, StartRecordName: aws.String(n + "."), MaxItems: aws.Int32(5)}, page, func(name string) bool { return name == n })
		if err != nil {
			return nil, err
		}
		for _, r := range found {
			if slices.Contains(names, r.Name) && !slices.Contains(out, r) {
				out = append(out, r)
			}
		}
	}
	return out, nil
}

// list reads on while the next name is one to go on to, for at most so many
// pages; whole says that nothing was left out.
func (p *Provider) list(ctx context.Context, zone string, in route53.ListResourceRecordSetsInput, pages int, on func(name string) bool) (out []dns.RR, whole bool, err error) {
	for range pages {
		if err := p.pace.Wait(ctx); err != nil {
			return nil, false, problem(zone, err)
		}
		got, err := p.client.ListResourceRecordSets(ctx, &in)
		if err != nil {
			return nil, false, problem(zone, err)
		}
		for _, set := range got.ResourceRecordSets {
			out = append(out, records(dns.Canonical(unescape(aws.ToString(set.Name))), set)...)
		}
		if !got.IsTruncated || !on(dns.Canonical(unescape(aws.ToString(got.NextRecordName)))) {
			return out, true, nil
		}
		in.StartRecordName, in.StartRecordType, in.StartRecordIdentifier = got.NextRecordName, got.NextRecordType, got.NextRecordIdentifier
	}
	return out, false, nil
}

// Edit sends one change batch, of which the service makes all or nothing. A set
// that changes is deleted as it was seen and created anew.
func (p *Provider) Edit(ctx context.Context, zone string, edits []dns.Edit) error {
	id, err := p.id(ctx, zone)
	if err != nil {
		return err
	}
	var gone, added []types.Change
	for _, e := range edits {
		had, want := sets(e.Had), sets(e.Want)
		for _, s := range had {
			if !slices.ContainsFunc(want, s.same) {
				gone = append(gone, types.Change{Action: types.ChangeActionDelete, ResourceRecordSet: s.wire()})
			}
		}
		for _, s := range want {
			if !slices.ContainsFunc(had, s.same) {
				added = append(added, types.Change{Action: types.ChangeActionCreate, ResourceRecordSet: s.wire()})
			}
		}
	}
	if err := p.pace.Wait(ctx); err != nil {
		return problem(zone, err)
	}
	_, err = p.client.ChangeResourceRecordSets(ctx, &route53.ChangeResourceRecordSetsInput{
		HostedZoneId: &id, ChangeBatch: &types.ChangeBatch{Changes: append(gone, added...)},
	})
	return problem(zone, err)
}

// id finds the hosted zone of a name.
func (p *Provider) id(ctx context.Context, zone string) (string, error) {
	if p.fixed != "" {
		return p.fixed, nil
	}
	p.mu.Lock()
	id := p.ids[zone]
	p.mu.Unlock()
	if id != "" {
		return id, nil
	}
	out, err := p.client.ListHostedZonesByName(ctx, &route53.ListHostedZonesByNameInput{DNSName: aws.String(zone + ".")})
	if err != nil {
		return "", problem(zone, err)
	}
	for _, z := range out.HostedZones {
		if dns.Canonical(aws.ToString(z.Name)) != zone || z.Config != nil && z.Config.PrivateZone {
			continue
		}
		if id != "" {
			return "", fault.New(fault.Unavailable, "there are several hosted zones %s: choose one with hosted-zone-id", zone).Because("dns-setting")
		}
		id = strings.TrimPrefix(aws.ToString(z.Id), "/hostedzone/")
	}
	if id == "" {
		return "", fault.New(fault.Unavailable, "there is no public hosted zone %s in this account", zone).Because("dns-refused")
	}
	p.mu.Lock()
	p.ids[zone] = id
	p.mu.Unlock()
	return id, nil
}

// problem gives the service's errors their kinds. Only what it says of a change
// can be the fault of a record; all else says nothing about records.
func problem(zone string, err error) error {
	var said smithy.APIError
	var batch *types.InvalidChangeBatch
	switch {
	case err == nil:
		return nil
	case errors.Is(err, context.Canceled):
		return err
	case errors.As(err, &batch):
		return fault.New(fault.Conflict, "Route 53 refuses the change: %s %s", batch.ErrorMessage(), strings.Join(batch.Messages, "; "))
	case errors.As(err, &said) && (said.ErrorCode() == "InvalidChangeBatch" || said.ErrorCode() == "InvalidInput"):
		return fault.New(fault.Conflict, "Route 53 refuses the change: %s", said.ErrorMessage())
	case errors.As(err, &said):
		return fault.New(fault.Unavailable, "Route 53 says %s about zone %s: %s", said.ErrorCode(), zone, said.ErrorMessage()).Because("dns-refused")
	}
	return fault.New(fault.Unavailable, "Route 53 does not answer for zone %s: %w", zone, err).Because("dns-away")
}
