package cluster_test

import (
	"testing"
	"time"

	"github.com/droverhq/drover/internal/cluster"
	"github.com/droverhq/drover/internal/offering"
)

// pool is a place with one instance type whose largest size has four units, on
// clusters of ten.
func pool(edit func(*cluster.Place), hosts ...cluster.Host) cluster.Place {
	p := cluster.Place{
		Profile: "small", Provider: "aws", Region: "east", Units: 10, Hosts: hosts,
		Needs: []cluster.Need{{Offering: "kafka", Type: "standard", Ours: true, Largest: 4}},
	}
	if edit != nil {
		edit(&p)
	}
	return p
}

func host(id string, stand cluster.Stand, free int64) cluster.Host {
	return cluster.Host{ID: id, Profile: "small", Fleet: true, Stand: stand, Free: []int64{free}, Created: day, Since: day, Empty: free == 10}
}

func spare(h cluster.Host, since time.Duration) cluster.Host {
	h.Spare = day.Add(-since)
	return h
}

func TestScale(t *testing.T) {
	slack := func(n int64) func(*cluster.Place) { return func(p *cluster.Place) { p.Needs[0].Slack = n } }
	long := time.Hour
	for _, c := range []struct {
		reason string
		place  cluster.Place
		policy cluster.Scaling
		do     string
		which  string
		code   string
	}{
		{"what fits is enough", pool(nil, host("a", cluster.Serving, 4)), cluster.Scaling{}, cluster.Stay, "", "enough"},
		{"the largest size must fit", pool(nil, host("a", cluster.Serving, 3), host("b", cluster.Serving, 3)), cluster.Scaling{}, cluster.Up, "", "short"},
		{"nothing is there at all", pool(nil), cluster.Scaling{}, cluster.Up, "", "short"},
		{"the slack is kept", pool(slack(9), host("a", cluster.Serving, 4), host("b", cluster.Serving, 4)), cluster.Scaling{}, cluster.Up, "", "short"},
		{"whoever waits needs room besides the slack", pool(func(p *cluster.Place) {
			p.Needs[0].Slack, p.Needs[0].Queued = 4, []int64{2, 1}
		}, host("a", cluster.Serving, 6)), cluster.Scaling{}, cluster.Up, "", "short"},
		{"a reached limit of the region is no reason", pool(func(p *cluster.Place) { p.Needs[0].Largest = 0 }, host("a", cluster.Serving, 0)), cluster.Scaling{}, cluster.Stay, "", "enough"},
		{"but those who were sold something before it must get it", pool(func(p *cluster.Place) {
			p.Needs[0].Largest, p.Needs[0].Queued = 0, []int64{1}
		}, host("a", cluster.Serving, 0)), cluster.Scaling{}, cluster.Up, "", "short"},
		{"one that comes counts as what is expected of it", pool(nil, host("a", cluster.Coming, 10)), cluster.Scaling{}, cluster.Stay, "", "enough"},
		{"one at a time", pool(slack(30), host("a", cluster.Coming, 10)), cluster.Scaling{}, cluster.Stay, "", "coming"},
		{"one that does not come is not waited for", pool(nil, host("a", cluster.Broken, 10)), cluster.Scaling{}, cluster.Up, "", "short"},
		{"three that do not come are enough", pool(nil, host("a", cluster.Broken, 0), host("b", cluster.Broken, 0), host("c", cluster.Broken, 0)), cluster.Scaling{}, cluster.Stay, "", "broken"},
		{"never more than the most", pool(nil, host("a", cluster.Serving, 0)), cluster.Scaling{Max: 1}, cluster.Stay, "", "max"},
		{"never fewer than the least", pool(nil, host("a", cluster.Serving, 5)), cluster.Scaling{Min: 2}, cluster.Up, "", "short"},
		{"the least is kept", pool(nil, spare(host("a", cluster.Serving, 10), long), spare(host("b", cluster.Serving, 10), long)), cluster.Scaling{Min: 2}, cluster.Stay, "", "enough"},
		{"not again at once", pool(func(p *cluster.Place) { p.Last = day.Add(-time.Minute) }), cluster.Scaling{}, cluster.Stay, "", "cooldown"},
		{"a size that no new cluster could hold", pool(func(p *cluster.Place) { p.Units = 3 }), cluster.Scaling{}, cluster.Stay, "", "too-small"},
		{"an empty one shows that the profile promises too much", pool(nil, cluster.Host{ID: "a", Profile: "small", Empty: true, Free: []int64{2}}), cluster.Scaling{}, cluster.Stay, "", "too-small"},
		{"one that somebody has limited shows nothing of the kind", pool(nil, cluster.Host{ID: "a", Profile: "small", Empty: true, Limited: true, Free: []int64{2}}), cluster.Scaling{}, cluster.Up, "", "short"},
		{"a profile must say what a cluster holds", pool(func(p *cluster.Place) { p.Units = 0 }), cluster.Scaling{}, cluster.Stay, "", "units"},
		{"an empty one goes after a while", pool(nil, host("a", cluster.Serving, 9), spare(host("b", cluster.Serving, 10), long)), cluster.Scaling{}, cluster.Down, "b", "spare"},
		{"not before", pool(nil, host("a", cluster.Serving, 9), spare(host("b", cluster.Serving, 10), time.Minute)), cluster.Scaling{}, cluster.Stay, "", "idle"},
		{"not if what is left would be too little", pool(nil, host("a", cluster.Serving, 3), spare(host("b", cluster.Serving, 10), long)), cluster.Scaling{}, cluster.Stay, "", "enough"},
		{"nor if the slack would be", pool(slack(10), host("a", cluster.Serving, 9), spare(host("b", cluster.Serving, 10), long)), cluster.Scaling{}, cluster.Stay, "", "enough"},
		{"what only may come back counts for nothing then", pool(nil, host("a", cluster.Silent, 9), spare(host("b", cluster.Serving, 10), long)), cluster.Scaling{}, cluster.Stay, "", "enough"},
		{"nor what is being made", pool(nil, host("a", cluster.Coming, 10), spare(host("b", cluster.Serving, 10), long)), cluster.Scaling{}, cluster.Stay, "", "enough"},
		{"a silent one is never taken away", pool(nil, host("a", cluster.Serving, 10), spare(host("b", cluster.Silent, 10), long)), cluster.Scaling{}, cluster.Stay, "", "enough"},
		{"one that somebody registered stays", pool(nil, host("a", cluster.Serving, 9), func() cluster.Host {
			h := spare(host("b", cluster.Serving, 10), long)
			h.Fleet = false
			return h
		}()), cluster.Scaling{}, cluster.Stay, "", "enough"},
		{"not at once after another decision", pool(func(p *cluster.Place) { p.Last = day.Add(-time.Minute) }, host("a", cluster.Serving, 9), spare(host("b", cluster.Serving, 10), long)), cluster.Scaling{}, cluster.Stay, "", "cooldown"},
		{"for a moment the silent one is waited for", pool(nil, host("a", cluster.Silent, 9)), cluster.Scaling{}, cluster.Stay, "", "enough"},
		{"what others need keeps a cluster, and makes none", pool(func(p *cluster.Place) {
			p.Needs = append(p.Needs, cluster.Need{Offering: "dinosaur", Type: "big", Largest: 6})
			p.Hosts[0].Free, p.Hosts[1].Free = []int64{9, -1}, []int64{10, 10}
		}, host("a", cluster.Serving, 9), spare(host("b", cluster.Serving, 10), long)), cluster.Scaling{}, cluster.Stay, "", "enough"},
	} {
		t.Run(c.reason, func(t *testing.T) {
			d := cluster.Scale(c.place, c.policy, day)
			if d.Do != c.do || d.Cluster != c.which || d.Code != c.code || d.Reason == "" {
				t.Errorf("got %+v", d)
			}
		})
	}
	late := pool(nil, host("a", cluster.Silent, 9))
	if d := cluster.Scale(late, cluster.Scaling{Cooldown: offering.Duration(time.Minute)}, day.Add(time.Hour)); d.Do != cluster.Up {
		t.Errorf("one that stays silent is not waited for: %+v", d)
	}
}
