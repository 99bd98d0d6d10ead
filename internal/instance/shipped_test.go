package instance_test

import (
	"context"
	"os"
	"path/filepath"
	"testing"

	"github.com/droverhq/drover/internal/cluster"
	"github.com/droverhq/drover/internal/entitlement"
	"github.com/droverhq/drover/internal/instance"
	"github.com/droverhq/drover/internal/offering"
)

// anything grants whatever is asked for.
type anything struct{ quotas }

func (anything) Grant(context.Context, entitlement.Who, entitlement.Product) (entitlement.Grant, error) {
	return entitlement.Grant{Units: 10, Holder: "org/acme"}, nil
}

// Every offering that is shipped can be ordered in every type and comes to be
// ready, with everything outside there is, and goes again.
func TestShippedOfferingsLive(t *testing.T) {
	files, err := filepath.Glob("../../offerings/*.yaml")
	if err != nil || len(files) < 2 {
		t.Fatalf("%v, %v", files, err)
	}
	for _, file := range files {
		source, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		off, err := offering.Parse(file, source)
		if err != nil {
			t.Fatal(err)
		}
		for _, typ := range off.Spec.Types {
			t.Run(off.Metadata.Name+"/"+typ.Name, func(t *testing.T) {
				out := newOutside()
				w := &world{t: t, dir: t.TempDir(), registry: offerings{off.Metadata.Name: off}, routed: true, room: 10, ports: func(c *instance.Config) {
					clusters := c.Clusters
					out.ports(c)
					c.Clusters = clusters
					if c.Quota = (anything{quotas{out}}); typ.Quota == offering.QuotaTrial {
						c.Quota = quotas{out}
					}
				}}
				w.begin()
				t.Cleanup(func() { w.ledger.Close() })
				provider, region, err := off.Place("", "")
				w.must(err)
				_, err = w.clusters.Register(alice, "there", cluster.Spec{Provider: provider.Name, Region: region.Name})
				w.must(err)
				components := map[string][]string{}
				for _, c := range off.Spec.Components {
					components[c.Name] = []string{"2.7.0", "2.8.0"}
				}
				w.must(w.clusters.Report(context.Background(), "there", cluster.Report{
					Agent: "b", Number: 1, Ready: true, Capacity: 10, Offering: off.Metadata.Name,
					Operators: []cluster.Operator{{Name: "operator", Version: "2.8.0", Ready: true, Components: components}},
				}))
				o, err := w.service.Create(alice, off, instance.Create{Name: "rex", Plan: typ.Name + "." + typ.Sizes[0].Name})
				w.must(err)
				w.at = "there"
				if provider.Name == "local" {
					w.at = ""
				}
				w.rounds()
				in := w.one()
				if in.Phase != instance.Ready {
					t.Fatalf("%s: %q %q", in.Phase, in.Status.Message, in.Status.Reason)
				}
				if _, err := w.service.Reveal(context.Background(), in.Object, in.Status.Desired); err != nil {
					t.Error(err)
				}
				if _, err := w.service.Admin(context.Background(), in.Object); err != nil {
					t.Error(err)
				}
				_, err = w.service.Delete(alice, off.Metadata.Name, o.ID)
				w.must(err)
				w.rounds()
				if n := len(w.instances(false)); n > 0 {
					t.Errorf("it does not go: %s %q", w.one().Phase, w.one().Status.Message)
				}
				out.nothingLeft(w)
			})
		}
	}
}
