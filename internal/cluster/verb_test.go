package cluster_test

import (
	"context"
	"fmt"
	"strings"
	"testing"

	"github.com/droverhq/drover/internal/cluster"
	"github.com/droverhq/drover/internal/fault"
	"github.com/droverhq/drover/internal/ledger"
	"github.com/droverhq/drover/internal/operation"
	"github.com/droverhq/drover/internal/provider/standalone"
)

// guests are instances on a cluster.
type guests []string

func (g guests) On(context.Context, string, int) ([]string, int64, error) {
	return g, int64(len(g)), nil
}

func TestProfilesAreCheckedAsAWhole(t *testing.T) {
	f := newFleet(t)
	good := fmt.Appendf(nil, profileOf, "small", steps("one"))
	if _, changed, err := f.ApplyProfile(byOps(), "p.yaml", good); err != nil || !changed {
		t.Fatal(changed, err)
	}
	before := head(t, f.l)
	if _, changed, err := f.ApplyProfile(byOps(), "p.yaml", good); err != nil || changed || head(t, f.l) != before {
		t.Errorf("the same again: %v, %v", changed, err)
	}
	_, _, err := f.ApplyProfile(byOps(), "p.yaml", []byte(`apiVersion: drover.dev/v1
kind: ClusterProfile
metadata: {name: small}
spec:
  maker: magic
  serves: [{provider: aws}]
  taints: [gpu, gpu]
  agent: nobody
  noodles: 3
  scaling: {mode: on, min: 3, max: 2}
  steps:
    - {name: a, needs: [a], manifests: [{apiVersion: v1, kind: ConfigMap, metadata: {name: "${cluster.idd}"}}]}
`))
	if !fault.Is(err, fault.Invalid) || fault.Reason(err) != "profile" || head(t, f.l) != before {
		t.Fatalf("a broken one: %v", err)
	}
	for _, want := range []string{"p.yaml:5:10: spec.maker: must be one of cloud", "p.yaml:6:", "spec.taints[1]", "p.yaml:8:", "p.yaml:9:3: spec.noodles: there is no such field", "spec.scaling.max", "a → a", "p.yaml:12:"} {
		if !strings.Contains(err.Error(), want) {
			t.Errorf("nothing says %q in\n%v", want, err)
		}
	}
	_, _, err = f.ApplyProfile(byOps(), "p.yaml", []byte(`apiVersion: drover.dev/v1
kind: ClusterProfile
metadata: {name: small}
spec: {maker: standalone, serves: [{provider: aws, regions: [east]}], scaling: {mode: on}}
`))
	if !fault.Is(err, fault.Invalid) || !strings.Contains(err.Error(), "spec.scaling.mode: cannot be on") {
		t.Errorf("a fleet that is to grow by what makes nothing: %v", err)
	}
}

func TestCreateRefuses(t *testing.T) {
	f := newFleet(t)
	if _, _, err := f.ApplyProfile(byOps(), "p.yaml", fmt.Appendf(nil, profileOf, "small", "[]")); err != nil {
		t.Fatal(err)
	}
	if _, err := f.Create(byOps(), cluster.Request{ID: "there", Profile: "small"}); err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		reason string
		want   cluster.Request
		code   string
	}{
		{"a profile that is not there", cluster.Request{ID: "c", Profile: "large"}, "profile"},
		{"a place that the profile does not serve", cluster.Request{ID: "c", Profile: "small", Region: "west"}, "field"},
		{"no place at all", cluster.Request{ID: "c"}, "field"},
		{"a name that is taken", cluster.Request{ID: "there", Profile: "small"}, "cluster-taken"},
		{"a label that is none", cluster.Request{ID: "c", Profile: "small", Labels: map[string]string{"a b": "c"}}, "field"},
		{"a domain that is none", cluster.Request{ID: "c", Profile: "small", Domain: "no name"}, "dns-name"},
	} {
		before := head(t, f.l)
		if _, err := f.Create(byOps(), c.want); fault.Reason(err) != c.code || head(t, f.l) != before {
			t.Errorf("%s: %v (%s)", c.reason, err, fault.Reason(err))
		}
	}
}

// A kubeconfig that leads nowhere is refused before it is kept, without what it holds.
func TestAKubeconfigIsReadWhenItIsGiven(t *testing.T) {
	f := newFleet(t)
	f.Makers["standalone"] = standalone.Provider{}
	before := head(t, f.l)
	for reason, text := range map[string]string{
		"no YAML":    "\ttoken: s3cr3t {",
		"no lists":   "s3cr3t",
		"no context": "apiVersion: v1\nkind: Config\nusers: [{name: u, user: {token: s3cr3t}}]\n",
	} {
		_, err := f.Create(byOps(), cluster.Request{ID: "near", Provider: "aws", Region: "east", Kubeconfig: []byte(text)})
		if !fault.Is(err, fault.Invalid) || fault.Reason(err) != "field" || strings.Contains(err.Error(), "s3cr3t") || head(t, f.l) != before {
			t.Errorf("%s: %v", reason, err)
		}
	}
}

func TestDrainAndDeleteSayWhatIsInTheWay(t *testing.T) {
	f := newFleet(t)
	if _, err := f.Register(byOps(), "edge", local); err != nil {
		t.Fatal(err)
	}
	use := func(units int64) {
		t.Helper()
		set := ledger.Set{Actor: "test", Cause: ledger.BySchedule("test"), Counts: []ledger.Count{{Name: cluster.CapacityCounter("edge"), Delta: units, Max: 9}}}
		if _, err := f.l.Commit(t.Context(), set); err != nil {
			t.Fatal(err)
		}
	}
	use(2)
	f.Hosted = guests{"dinosaur rex", "dinosaur tim"}
	for verb, do := range map[string]func() error{
		"drain":  func() error { _, err := f.Drain(byOps(), "edge", false); return err },
		"delete": func() error { _, err := f.Delete(byOps(), "edge"); return err },
	} {
		before := head(t, f.l)
		err := do()
		if !fault.Is(err, fault.Conflict) || fault.Reason(err) != "not-empty" || !strings.Contains(err.Error(), "2 instances (dinosaur rex, dinosaur tim)") || head(t, f.l) != before {
			t.Errorf("%s: %v", verb, err)
		}
	}
	if _, err := f.Drain(byOps(), "edge", true); err != nil {
		t.Fatal(err)
	}
	c := f.see(t, "edge")
	running := c.Status.Operation
	if !c.Spec.Unschedulable || !c.Spec.Draining || running == "" {
		t.Fatalf("%+v", c.Spec)
	}
	yes := true
	if _, err := f.Update(byOps(), "edge", cluster.Edit{Schedulable: &yes}); fault.Reason(err) != "draining" {
		t.Errorf("a draining cluster takes orders: %v", err)
	}
	if r, err := runOn(t, f.Service, f.l, "edge"); err != nil || !r.Next {
		t.Errorf("while something runs there: %+v, %v", r, err)
	}
	use(-2)
	f.Hosted = guests{}
	f.rest(t, "edge")
	op, err := f.l.Get(t.Context(), ledger.Ref{Kind: "operation", ID: running})
	if err != nil || op.Phase != operation.Succeeded {
		t.Errorf("once it is empty the drain is %s, %v", op.Phase, err)
	}
	if _, err := f.Undrain(byOps(), "edge"); err != nil {
		t.Fatal(err)
	}
	if c := f.see(t, "edge"); c.Spec.Unschedulable || c.Spec.Draining {
		t.Errorf("undrained it is %+v", c.Spec)
	}
	if _, err := f.Delete(byOps(), "edge"); err != nil {
		t.Fatal(err)
	}
	f.rest(t, "edge")
	if _, err := f.Get(t.Context(), "edge"); !fault.Is(err, fault.NotFound) {
		t.Errorf("it is not gone: %v", err)
	}
}

func TestUpdateChangesWhatMayBePlaced(t *testing.T) {
	f := newFleet(t)
	if _, err := f.Register(byOps(), "edge", local); err != nil {
		t.Fatal(err)
	}
	zone, limit, no := "a", int64(5), false
	capped := &limit
	if _, err := f.Update(byOps(), "edge", cluster.Edit{Labels: map[string]*string{"zone": &zone}, Taints: &[]string{"gpu"}, Limit: &capped, Schedulable: &no}); err != nil {
		t.Fatal(err)
	}
	c := f.see(t, "edge")
	if c.Spec.Zone() != "a" || len(c.Spec.Taints) != 1 || *c.Spec.Limit != 5 || !c.Spec.Unschedulable || c.Phase != cluster.Waiting {
		t.Errorf("%+v", c.Spec)
	}
	var none *int64
	if _, err := f.Update(byOps(), "edge", cluster.Edit{Labels: map[string]*string{"zone": nil}, Limit: &none}); err != nil {
		t.Fatal(err)
	}
	if c = f.see(t, "edge"); c.Spec.Zone() != "" || c.Spec.Limit != nil || len(c.Spec.Taints) != 1 {
		t.Errorf("%+v", c.Spec)
	}
	yes := true
	for _, e := range []cluster.Edit{{Schedulable: &yes}, {Taints: &[]string{}}} {
		if _, err := f.Update(byOps(), "edge", e); err != nil {
			t.Fatal(err)
		}
	}
	changes, err := f.l.Changes(t.Context(), ledger.ChangeQuery{Kind: "cluster", ID: "edge"})
	var verbs []string
	for _, c := range changes {
		verbs = append(verbs, c.Op)
	}
	if err != nil || strings.Join(verbs, " ") != "register update update uncordon taint" {
		t.Errorf("the log has %v, %v", verbs, err)
	}
	negative := int64(-3)
	bad := &negative
	if _, err := f.Update(byOps(), "edge", cluster.Edit{Limit: &bad}); !fault.Is(err, fault.Invalid) {
		t.Errorf("a negative limit: %v", err)
	}
}

// What people should know of a place that nothing is sold in is a warning: an
// offering may come later.
func TestPlacesThatNoOfferingKnows(t *testing.T) {
	f := newFleet(t)
	in := func(provider, region string) ledger.Object {
		o, err := f.Register(byOps(), provider+"-"+region, cluster.Spec{Provider: provider, Region: region})
		if err != nil {
			t.Fatal(err)
		}
		return o
	}
	if got := f.Unsold(in("mars", "north")); got != "" {
		t.Errorf("nobody knows what is sold, and it is said: %s", got)
	}
	f.Offerings = shelf{dinosaur(t, "")}
	if got := f.Unsold(in("local", "local")); got != "" {
		t.Errorf("it is sold there: %s", got)
	}
	if got := f.Unsold(in("aws", "nowhere")); !strings.Contains(got, "region nowhere of aws") {
		t.Errorf("it is not sold there: %q", got)
	}
	made, _, err := f.ApplyProfile(byOps(), "p.yaml", fmt.Appendf(nil, profileOf, "small", "[]"))
	if got := f.Unsold(made); err != nil || !strings.Contains(got, "no offering is sold in region ") {
		t.Errorf("of a profile: %q, %v", got, err)
	}
}
