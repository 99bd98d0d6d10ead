package site_test

import (
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/droverhq/drover/internal/site"
)

var noon = time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)

func TestPlan(t *testing.T) {
	standby := site.Database{Known: true, Recovering: true, Epoch: 3}
	plain := site.Database{Known: true, Epoch: 3}
	for _, tc := range []struct {
		reason string
		view   site.View
		want   site.Decision
	}{
		{"there is no other site", site.View{Role: site.Standalone}, site.Decision{State: site.Leading}},
		{"a primary that nobody is known beside", site.View{Role: site.Primary, Database: plain}, site.Decision{State: site.Leading}},
		{"its database is away", site.View{Role: site.Primary}, site.Decision{State: site.Waiting}},
		{"the other site was not heard", site.View{Role: site.Primary, Database: plain, Peer: site.Peer{Wanted: true}}, site.Decision{State: site.Waiting}},
		{"it was not, and an operator says that it is gone", site.View{Role: site.Primary, Database: plain, Peer: site.Peer{Wanted: true}, Word: true}, site.Decision{State: site.Leading}},
		{"a promoted secondary asks once before it leads", site.View{Role: site.Secondary, Site: "b", Database: site.Database{Known: true, Epoch: 4, Begun: "b"}, Peer: site.Peer{Named: true}}, site.Decision{State: site.Waiting}},
		{"and leads where nobody answers", site.View{Role: site.Secondary, Site: "b", Database: site.Database{Known: true, Epoch: 4, Begun: "b"}, Peer: site.Peer{Named: true, Asked: true}}, site.Decision{State: site.Leading}},
		{"unless somebody has followed it", site.View{Role: site.Secondary, Site: "b", Database: site.Database{Known: true, Epoch: 4, Begun: "b"}, Peer: site.Peer{Named: true, Asked: true, Wanted: true}}, site.Decision{State: site.Waiting}},
		{"the other site has the same name", site.View{Role: site.Primary, Site: "a", Database: plain, Witness: true, Until: noon.Add(1), Peer: site.Peer{Heard: true, Twin: true}}, site.Decision{State: site.Waiting}},
		{"and is not promoted beside it", site.View{Role: site.Secondary, Site: "a", Database: standby, Word: true, Peer: site.Peer{Heard: true, Twin: true}}, site.Decision{State: site.Following}},
		{"the other site follows", site.View{Role: site.Primary, Database: plain, Peer: site.Peer{Wanted: true, Heard: true, Epoch: 3}}, site.Decision{State: site.Leading}},
		{"the other site has led since", site.View{Role: site.Primary, Database: plain, Peer: site.Peer{Wanted: true, Heard: true, Epoch: 4}, Word: true}, site.Decision{State: site.Fenced}},
		{"somebody has told of a higher epoch, in an earlier life of the process", site.View{Role: site.Primary, Database: plain, Seen: 4}, site.Decision{State: site.Fenced}},
		{"both were started as primaries", site.View{Role: site.Primary, Database: plain, Peer: site.Peer{Heard: true, Epoch: 3, Leads: true}}, site.Decision{State: site.Fenced}},
		{"an old primary that was made a standby", site.View{Role: site.Primary, Database: standby, Seen: 4}, site.Decision{State: site.Following}},
		{"a secondary", site.View{Role: site.Secondary, Site: "b", Database: standby}, site.Decision{State: site.Following}},
		{"an operator has it promoted", site.View{Role: site.Secondary, Site: "b", Database: standby, Word: true}, site.Decision{State: site.Following, Promote: true, Epoch: 4}},
		{"but the primary leads", site.View{Role: site.Secondary, Site: "b", Database: standby, Word: true, Peer: site.Peer{Heard: true, Leads: true, Epoch: 3}}, site.Decision{State: site.Following}},
		{"or somebody has led since this copy was made", site.View{Role: site.Secondary, Site: "b", Database: standby, Word: true, Seen: 4}, site.Decision{State: site.Following}},
		{"a word is not enough where there is a witness", site.View{Role: site.Secondary, Site: "b", Database: standby, Word: true, Witness: true}, site.Decision{State: site.Following, Acquire: true}},
		{"the lease is had", site.View{Role: site.Secondary, Site: "b", Database: standby, Word: true, Witness: true, Until: noon.Add(1)}, site.Decision{State: site.Following, Acquire: true, Promote: true, Epoch: 4}},
		{"it was promoted here", site.View{Role: site.Secondary, Site: "b", Database: site.Database{Known: true, Epoch: 4, Begun: "b"}}, site.Decision{State: site.Leading}},
		{"somebody else promoted its database", site.View{Role: site.Secondary, Site: "b", Database: plain}, site.Decision{State: site.Following}},
		{"a primary whose database was promoted by the other site", site.View{Role: site.Primary, Site: "a", Database: site.Database{Known: true, Epoch: 4, Begun: "b"}}, site.Decision{State: site.Following}},
		{"which an operator has lead", site.View{Role: site.Primary, Site: "a", Word: true, Database: site.Database{Known: true, Epoch: 4, Begun: "b"}}, site.Decision{State: site.Following, Promote: true, Epoch: 5}},
		{"a primary that was promoted when it was the secondary", site.View{Role: site.Primary, Site: "b", Database: site.Database{Known: true, Epoch: 4, Begun: "b"}}, site.Decision{State: site.Leading}},
		{"a lease that is had", site.View{Role: site.Primary, Database: plain, Witness: true, Until: noon.Add(1), Peer: site.Peer{Wanted: true}}, site.Decision{State: site.Leading, Acquire: true}},
		{"a lease that has ended", site.View{Role: site.Primary, Database: plain, Witness: true, Until: noon}, site.Decision{State: site.Waiting, Acquire: true}},
	} {
		t.Run(tc.reason, func(t *testing.T) {
			got := site.Plan(tc.view, noon)
			if got.State != site.Leading && got.Why == "" && !got.Promote && got.State != site.Following {
				t.Errorf("it does not say why it is %s", got.State)
			}
			got.Why = ""
			if got != tc.want {
				t.Errorf("got %+v, want %+v", got, tc.want)
			}
		})
	}
}

// Whatever a site sees, it neither leads nor is promoted where somebody is known to
// have a higher epoch, or without the lease where there is a witness.
func TestPlanNeverLeadsBehind(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		flag := func(name string) bool { return rapid.Bool().Draw(t, name) }
		number := func(name string) int64 { return rapid.Int64Range(0, 4).Draw(t, name) }
		v := site.View{
			Role: rapid.SampledFrom([]site.Role{site.Primary, site.Secondary}).Draw(t, "role"), Site: "here",
			Database: site.Database{Known: flag("known"), Recovering: flag("recovering"), Epoch: number("epoch"), Begun: rapid.SampledFrom([]string{"", "here", "there"}).Draw(t, "begun")},
			Peer:     site.Peer{Wanted: flag("wanted"), Heard: flag("heard"), Epoch: number("peer"), Leads: flag("leads"), Twin: flag("twin"), Named: flag("named"), Asked: flag("asked")},
			Seen:     number("seen"), Witness: flag("witness"), Word: flag("word"),
			Until: noon.Add(time.Duration(rapid.IntRange(-2, 2).Draw(t, "until"))),
		}
		d := site.Plan(v, noon)
		acts := d.State == site.Leading || d.Promote
		highest := max(v.Seen, v.Peer.Epoch)
		switch {
		case acts && highest > v.Database.Epoch:
			t.Fatalf("acts behind epoch %d: %+v", highest, d)
		case acts && v.Witness && !noon.Before(v.Until):
			t.Fatalf("acts without the lease: %+v", d)
		case acts && v.Peer.Twin:
			t.Fatalf("acts beside one of its name: %+v", d)
		case d.State == site.Leading && v.Peer.Named && !v.Peer.Asked && !v.Witness && !v.Word:
			t.Fatalf("leads without having asked: %+v", d)
		case acts && v.Peer.Leads && v.Peer.Epoch == v.Database.Epoch:
			t.Fatalf("acts beside the other: %+v", d)
		case d.State == site.Leading && v.Database.Recovering:
			t.Fatalf("leads on a standby: %+v", d)
		case d.Promote && (!v.Word || d.Epoch <= max(highest, v.Database.Epoch)):
			t.Fatalf("is promoted without a word, or to no new epoch: %+v", d)
		case d.State == site.Leading && v.Database.Begun == "there":
			t.Fatalf("leads in an epoch that the other site has begun: %+v", d)
		case d.State == site.Leading && v.Role == site.Secondary && v.Database.Begun != v.Site:
			t.Fatalf("leads as a secondary that nobody promoted: %+v", d)
		}
	})
}
