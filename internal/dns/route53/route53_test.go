package route53_test

import (
	"context"
	"fmt"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/credentials"
	sdk "github.com/aws/aws-sdk-go-v2/service/route53"
	"github.com/aws/aws-sdk-go-v2/service/route53/types"

	"github.com/droverhq/drover/internal/dns"
	"github.com/droverhq/drover/internal/dns/dnstest"
	"github.com/droverhq/drover/internal/dns/route53"
	"github.com/droverhq/drover/internal/fault"
	"github.com/droverhq/drover/test/moto"
)

const zone = "drover.test"

func TestOnMoto(t *testing.T) {
	emulator := moto.Start(t)
	client := sdk.New(sdk.Options{BaseEndpoint: &emulator, Region: "us-east-1", Credentials: credentials.NewStaticCredentialsProvider("a", "b", "")})
	service := strict(t, emulator, func(id string) *owner { return &owner{client, id} })
	dnstest.Run(t, func(t *testing.T) dnstest.World {
		hand := &owner{client: client}
		made, err := hand.client.CreateHostedZone(t.Context(), &sdk.CreateHostedZoneInput{Name: aws.String(zone + "."), CallerReference: aws.String(time.Now().String())})
		if err != nil {
			t.Fatal(err)
		}
		hand.id = strings.TrimPrefix(*made.HostedZone.Id, "/hostedzone/")
		p, err := route53.Open(route53.Config{HostedZone: hand.id, Endpoint: service, AccessKeyID: "a", Secret: "b"})
		if err != nil {
			t.Fatal(err)
		}
		return dnstest.World{Zone: zone, Provider: p, Records: hand.records, Add: hand.add, Delete: hand.delete, Guarded: true}
	})
}

// owner is who has the zone, besides Drover.
type owner struct {
	client *sdk.Client
	id     string
}

func (o *owner) sets(t testing.TB) []types.ResourceRecordSet {
	t.Helper()
	var out []types.ResourceRecordSet
	pages := sdk.NewListResourceRecordSetsPaginator(o.client, &sdk.ListResourceRecordSetsInput{HostedZoneId: &o.id})
	for pages.HasMorePages() {
		page, err := pages.NextPage(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		out = append(out, page.ResourceRecordSets...)
	}
	return out
}

func (o *owner) records(t testing.TB) []string {
	var out []string
	for _, s := range o.sets(t) {
		for _, r := range s.ResourceRecords {
			if s.Type == types.RRTypeSoa || s.Type == types.RRTypeNs {
				continue
			}
			data := strings.Trim(dns.Canonical(*r.Value), `"`)
			out = append(out, dns.Canonical(*s.Name)+" "+string(s.Type)+" "+data)
		}
	}
	return out
}

func (o *owner) add(t testing.TB, name, kind, data string) {
	t.Helper()
	switch kind {
	case "TXT":
		data = `"` + data + `"`
	case "CNAME":
		data += "."
	}
	set := &types.ResourceRecordSet{Name: aws.String(name + "."), Type: types.RRType(kind), TTL: aws.Int64(60)}
	for _, s := range o.sets(t) {
		if dns.Canonical(*s.Name) == name && s.Type == set.Type {
			set.ResourceRecords = s.ResourceRecords
		}
	}
	set.ResourceRecords = append(set.ResourceRecords, types.ResourceRecord{Value: &data})
	o.change(t, types.ChangeActionUpsert, set)
}

func (o *owner) delete(t testing.TB, name, kind string) {
	t.Helper()
	for _, s := range o.sets(t) {
		if dns.Canonical(*s.Name) == name && string(s.Type) == kind {
			o.change(t, types.ChangeActionDelete, &s)
		}
	}
}

func (o *owner) change(t testing.TB, action types.ChangeAction, set *types.ResourceRecordSet) {
	t.Helper()
	_, err := o.client.ChangeResourceRecordSets(t.Context(), &sdk.ChangeResourceRecordSetsInput{
		HostedZoneId: &o.id, ChangeBatch: &types.ChangeBatch{Changes: []types.Change{{Action: action, ResourceRecordSet: set}}},
	})
	if err != nil {
		t.Fatal(err)
	}
}

func TestFindsItsZone(t *testing.T) {
	url := moto.Start(t)
	client := sdk.New(sdk.Options{BaseEndpoint: &url, Region: "us-east-1", Credentials: credentials.NewStaticCredentialsProvider("a", "b", "")})
	t.Setenv("AWS_ACCESS_KEY_ID", "a")
	t.Setenv("AWS_SECRET_ACCESS_KEY", "b")
	p, err := route53.New(dns.Settings{"endpoint": url})
	if err != nil {
		t.Fatal(err)
	}
	look := func() error { _, err := p.Lookup(context.Background(), zone, []string{"x." + zone}); return err }
	if err := look(); !fault.Is(err, fault.Unavailable) {
		t.Errorf("a zone that is not there is not an empty one, but got %v", err)
	}
	create := func(ref string) {
		if _, err := client.CreateHostedZone(t.Context(), &sdk.CreateHostedZoneInput{Name: aws.String(zone + "."), CallerReference: &ref}); err != nil {
			t.Fatal(err)
		}
	}
	create("1")
	if err := look(); err != nil {
		t.Errorf("with one zone: %v", err)
	}
	create("2")
	if p, err = route53.New(dns.Settings{"endpoint": url}); err != nil {
		t.Fatal(err)
	}
	if err := look(); !fault.Is(err, fault.Unavailable) || !strings.Contains(err.Error(), "hosted-zone-id") {
		t.Errorf("with two zones one must be chosen, but got %v", err)
	}
}

// In a zone of many pages a few names are read without reading all of it.
func TestALargeZoneIsNotReadAsAWhole(t *testing.T) {
	emulator := moto.Start(t)
	client := sdk.New(sdk.Options{BaseEndpoint: &emulator, Region: "us-east-1", Credentials: credentials.NewStaticCredentialsProvider("a", "b", "")})
	made, err := client.CreateHostedZone(t.Context(), &sdk.CreateHostedZoneInput{Name: aws.String(zone + "."), CallerReference: aws.String("1")})
	if err != nil {
		t.Fatal(err)
	}
	id := strings.TrimPrefix(*made.HostedZone.Id, "/hostedzone/")
	var changes []types.Change
	for i := range 900 {
		changes = append(changes, types.Change{Action: types.ChangeActionUpsert, ResourceRecordSet: &types.ResourceRecordSet{
			Name: aws.String(fmt.Sprintf("h%d.%s.", i, zone)), Type: "CNAME", TTL: aws.Int64(60), ResourceRecords: []types.ResourceRecord{{Value: aws.String("there.test.")}},
		}})
	}
	for some := range slices.Chunk(changes, 450) {
		if _, err := client.ChangeResourceRecordSets(t.Context(), &sdk.ChangeResourceRecordSetsInput{HostedZoneId: &id, ChangeBatch: &types.ChangeBatch{Changes: some}}); err != nil {
			t.Fatal(err)
		}
	}
	var asked atomic.Int32
	to, err := url.Parse(emulator)
	if err != nil {
		t.Fatal(err)
	}
	pass := httputil.NewSingleHostReverseProxy(to)
	counting := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		asked.Add(1)
		pass.ServeHTTP(w, r)
	}))
	defer counting.Close()
	p, err := route53.Open(route53.Config{HostedZone: id, Endpoint: counting.URL, AccessKeyID: "a", Secret: "b"})
	if err != nil {
		t.Fatal(err)
	}
	for _, tc := range []struct {
		reason string
		names  []string
		most   int32
	}{
		{"two names, once it was seen to be large", []string{"h899." + zone, "nobody." + zone}, 4},
		{"two names, now that it is known", []string{"h5." + zone, "nobody." + zone}, 2},
		{"more names than pages", []string{"h1." + zone, "h2." + zone, "h3." + zone, "h4." + zone, "h450." + zone, "h899." + zone, "nobody." + zone}, 4},
	} {
		asked.Store(0)
		got, err := p.Lookup(t.Context(), zone, tc.names)
		if err != nil {
			t.Fatal(err)
		}
		if len(got) != len(tc.names)-1 {
			t.Errorf("%s: found %v", tc.reason, got)
		}
		if n := asked.Load(); n > tc.most {
			t.Errorf("%s: took %d requests, want at most %d", tc.reason, n, tc.most)
		}
	}
}
