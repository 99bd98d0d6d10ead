package doctor_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"github.com/droverhq/drover/internal/doctor"
)

var noon = time.Date(2030, 1, 31, 12, 0, 0, 0, time.UTC)

// well is a server that nothing is wrong with.
func well(change func(*doctor.Facts)) doctor.Facts {
	f := doctor.Facts{
		Now: noon, Version: "1.2", Disk: &doctor.Disk{Path: "/data", Free: 50 << 30, Total: 100 << 30},
		Ledger: doctor.Ledger{Engine: "PostgreSQL", Took: time.Millisecond, Schema: 5, Knows: 5, Clock: noon.Add(time.Second), Unsealed: 3, Since: noon.Add(-30 * time.Second)},
		Work:   []doctor.Work{{Kind: "instance", Due: 3, Oldest: time.Second}}, Bus: doctor.Bus{Name: "rabbitmq"},
		Sides:       []doctor.Side{{Name: "the identity provider", Answered: noon, Failed: noon, Full: noon.Add(-time.Hour)}},
		Clusters:    []doctor.Cluster{{ID: "edge", Phase: "ready", Version: "1.2"}},
		Certificate: &doctor.Certificate{Path: "/tls.crt", Ends: noon.Add(60 * 24 * time.Hour)},
		Credentials: []doctor.Credential{{Door: "the database", From: "vault:database/creds/drover", Ends: noon.Add(time.Minute)}},
	}
	if change != nil {
		change(&f)
	}
	return f
}

func TestDiagnose(t *testing.T) {
	for _, c := range []struct {
		reason string
		change func(*doctor.Facts)
		want   []string // severity, id
		says   string   // somewhere in what is told
	}{
		{"a server that is well", nil, nil, ""},
		{"nothing is known: nothing is said", func(f *doctor.Facts) { *f = doctor.Facts{} }, nil, ""},
		{"the database is away", func(f *doctor.Facts) { f.Ledger.Away = "cannot connect" }, []string{"critical ledger-away"}, "cannot connect"},
		{"it is full", func(f *doctor.Facts) { f.Ledger.Unwritable = "no space" }, []string{"critical ledger-unwritable"}, "no space"},
		{"away and full is one trouble", func(f *doctor.Facts) { f.Ledger.Away, f.Ledger.Unwritable = "x", "y" }, []string{"critical ledger-away"}, ""},
		{"it is slow", func(f *doctor.Facts) { f.Ledger.Took = time.Second }, []string{"warning ledger-slow"}, "1s"},
		{"a newer replica has migrated", func(f *doctor.Facts) { f.Ledger.Schema = 6 }, []string{"warning schema-newer"}, "version 6"},
		{"clocks apart", func(f *doctor.Facts) { f.Ledger.Clock = noon.Add(-10 * time.Second) }, []string{"warning clock"}, "10s"},
		{"clocks far apart", func(f *doctor.Facts) { f.Ledger.Clock = noon.Add(time.Hour) }, []string{"critical clock"}, ""},
		{"an Argo CD that evaluates Jsonnet", func(f *doctor.Facts) { f.Clusters[0].Jsonnet = true }, []string{"warning argocd-jsonnet"}, "jsonnet.enable"},
		{"an Argo CD that keeps the health of resources to itself", func(f *doctor.Facts) { f.Clusters[0].NoHealth = true }, []string{"note argocd-health"}, "controller.resource.health.persist"},
		{"an Argo CD with what is left of dead deployments", func(f *doctor.Facts) { f.Clusters[0].Left = "gitops-1, gitops-2" }, []string{"warning argocd-leftover"}, "gitops-1, gitops-2"},
		{"what a silent agent said of that is no news", func(f *doctor.Facts) { f.Clusters[0].Left, f.Clusters[0].Silent = "gitops-1", true }, []string{"critical agent-silent"}, ""},
		{"SQLite has no clock of its own", func(f *doctor.Facts) { f.Ledger.Clock = time.Time{} }, nil, ""},
		{"nobody seals", func(f *doctor.Facts) { f.Ledger.Since = noon.Add(-time.Hour) }, []string{"warning sealing-late"}, "drover ledger verify"},
		{"an old change that is sealed", func(f *doctor.Facts) { f.Ledger.Unsealed, f.Ledger.Since = 0, noon.Add(-time.Hour) }, nil, ""},
		{"little room", func(f *doctor.Facts) { f.Disk.Free = 900 << 20 }, []string{"warning disk"}, "900 MiB"},
		{"no room", func(f *doctor.Facts) { f.Disk.Free = 1 << 20 }, []string{"critical disk"}, "df -h /data"},
		{"a twentieth of a large disk is enough", func(f *doctor.Facts) { f.Disk.Free, f.Disk.Total = 40<<30, 1<<40 }, nil, ""},
		{"work lies about", func(f *doctor.Facts) {
			f.Work = []doctor.Work{{Kind: "instance", Due: 3, Oldest: 2 * time.Minute}, {Kind: "cluster", Due: 1, Oldest: time.Second}}
		}, []string{"warning work-overdue"}, "3 pieces"},
		{"work stands still", func(f *doctor.Facts) {
			f.Work = append(f.Work, doctor.Work{Kind: "plan", Due: 1, Oldest: time.Hour})
		}, []string{"critical work-overdue"}, "of kind plan"},
		{"the kind that fails most comes first", func(f *doctor.Facts) {
			f.Failing = []doctor.Failing{{Kind: "plan", ID: "p", Tries: 50}, {Kind: "instance", ID: "a", Tries: 5, Cause: "no route"}, {Kind: "instance", ID: "b", Tries: 9, Cause: "no route"}}
		}, []string{"warning work-failing", "warning work-failing"}, "drover describe instance b"},
		{"the log is not sealed, which is work without an object", func(f *doctor.Facts) {
			f.Failing = []doctor.Failing{{Kind: "sealkey", ID: "log", Tries: 9}}
		}, []string{"warning work-failing"}, "drover ledger verify"},
		{"a service of the operator's rests", func(f *doctor.Facts) { f.Sides[0].Open = 1 }, []string{"critical call-breaker"}, "--sso-options"},
		{"it is being tried", func(f *doctor.Facts) { f.Sides[0].HalfOpen = 1 }, []string{"warning call-breaker"}, ""},
		{"what tenants name is theirs", func(f *doctor.Facts) {
			f.Sides = []doctor.Side{{Name: "the Git repository", Theirs: true, Open: 3}}
		}, []string{"note call-breaker"}, "3 do not answer"},
		{"too many at once, just now", func(f *doctor.Facts) { f.Sides[0].Full = noon.Add(-time.Minute) }, []string{"warning call-bulkhead"}, ""},
		{"no budget left", func(f *doctor.Facts) { f.Sides[0].Spent = noon.Add(-time.Minute) }, []string{"note call-budget"}, ""},
		{"no broker", func(f *doctor.Facts) { f.Bus.Trouble = "connection refused" }, []string{"critical bus-away"}, "connection refused"},
		{"a broker with an alarm", func(f *doctor.Facts) { f.Bus.Trouble, f.Bus.Blocked = "low on disk", true }, []string{"critical bus-blocked"}, "alarms"},
		{"messages that nobody takes", func(f *doctor.Facts) { f.Bus.Aside = 20 }, []string{"warning bus-aside"}, "20 messages"},
		{"so many that they fill the broker's disk", func(f *doctor.Facts) { f.Bus.Aside = 10_000 }, []string{"critical bus-aside"}, "drover bus dlq list"},
		{"a queue that was deleted", func(f *doctor.Facts) {
			f.Bus.Lost = []doctor.Loss{{Queue: "drover.commands", At: f.Now.Add(-59 * time.Minute)}}
		}, []string{"warning bus-queue-deleted"}, "with the same id"},
		{"one that was deleted long ago", func(f *doctor.Facts) {
			f.Bus.Lost = []doctor.Loss{{Queue: "drover.commands", At: f.Now.Add(-61 * time.Minute)}}
		}, nil, ""},
		{"no room for them", func(f *doctor.Facts) { f.Bus.Aside, f.Bus.Full = 3, true }, []string{"critical bus-aside-full", "warning bus-aside"}, "nothing is lost"},
		{"a follower's queue is full", func(f *doctor.Facts) {
			f.Subscriptions = []doctor.Subscription{{ID: "bus", Name: "bus", Phase: "failing", Broker: true, Why: "a queue that follows it is full"}}
		}, []string{"critical bus-held-up"}, "reject-publish"},
		{"the broker is away, which says it all of its followers", func(f *doctor.Facts) {
			f.Bus.Trouble = "connection refused"
			f.Subscriptions = []doctor.Subscription{{ID: "bus", Name: "bus", Phase: "failing", Broker: true, Why: "connection refused"}}
		}, []string{"critical bus-away", "warning subscription-failing"}, ""},
		{"a webhook was given up, another is about to be, a third is off on purpose", func(f *doctor.Facts) {
			f.Subscriptions = []doctor.Subscription{{ID: "s1", Name: "a", Phase: "disabled", Why: "410"}, {ID: "s2", Name: "b", Phase: "failing", Why: "502"}, {ID: "s3", Name: "c", Phase: "disabled", Off: true}}
		}, []string{"warning subscription-disabled", "warning subscription-failing"}, "drover subscription enable s1"},
		{"one has missed something for good", func(f *doctor.Facts) {
			f.Subscriptions = []doctor.Subscription{{ID: "s1", Name: "a", Phase: "failing", Lost: 7}}
		}, []string{"warning subscription-failing", "warning subscription-lost"}, "7 changes"},
		{"one has, and goes on; whoever has seen to it can say so", func(f *doctor.Facts) {
			f.Subscriptions = []doctor.Subscription{{ID: "s1", Name: "a", Phase: "active", Lost: 7}}
		}, []string{"warning subscription-lost"}, "drover subscription enable s1"},
		{"an agent is silent, a cluster failed, one is being made fit", func(f *doctor.Facts) {
			f.Clusters = []doctor.Cluster{{ID: "a", Phase: "waiting", Silent: true, Message: "its agent has been silent"}, {ID: "b", Phase: "failed", Message: "no such region"}, {ID: "c", Phase: "cluster_provisioned", Message: "step x"}, {ID: "d", Phase: "accepted"}}
		}, []string{"critical cluster-failed", "critical agent-silent", "warning cluster-unready"}, "drover describe cluster b"},
		{"an agent gives a service a rest", func(f *doctor.Facts) { f.Clusters[0].Resting = "the agent's Kubernetes API" }, []string{"warning agent-call-breaker"}, "edge: the agent's Kubernetes API"},
		{"what a silent one said of that is old", func(f *doctor.Facts) {
			f.Clusters[0].Resting, f.Clusters[0].Silent = "the agent's Kubernetes API", true
		}, []string{"critical agent-silent"}, ""},
		{"an old agent", func(f *doctor.Facts) { f.Clusters[0].Version = "1.1" }, []string{"note agent-version"}, "edge: 1.1"},
		{"instances failed", func(f *doctor.Facts) {
			f.Troubled = []doctor.Troubled{{Kind: "instance", Title: "instances", Count: 12, Examples: []doctor.Example{{ID: "i1", Name: "orders", Org: "acme"}}}, {Kind: "environment", Title: "environments"}}
		}, []string{"warning instance-failed"}, "orders (i1) of acme"},
		{"the certificate ends in two weeks", func(f *doctor.Facts) { f.Certificate.Ends = noon.Add(14 * 24 * time.Hour) }, []string{"warning certificate"}, "in 14 days"},
		{"tomorrow", func(f *doctor.Facts) { f.Certificate.Ends = noon.Add(24 * time.Hour) }, []string{"critical certificate"}, ""},
		{"it has ended", func(f *doctor.Facts) { f.Certificate.Ends = noon.Add(-time.Hour) }, []string{"critical certificate"}, "has ended"},
		{"it is none", func(f *doctor.Facts) { f.Certificate.Wrong = "no PEM" }, []string{"critical certificate"}, "no PEM"},
		{"the database's credential cannot be renewed", func(f *doctor.Facts) { f.Credentials[0].Trouble = "it does not answer" }, []string{"warning credential"}, "in 1m0s"},
		{"because Vault is sealed", func(f *doctor.Facts) { f.Credentials[0].Trouble, f.Credentials[0].Sealed = "it is sealed", true }, []string{"warning credential"}, "operator unseal"},
		{"and it has ended", func(f *doctor.Facts) {
			f.Credentials[0].Trouble, f.Credentials[0].Ends = "it does not answer", noon.Add(-time.Second)
		}, []string{"critical credential"}, "has ended"},
		{"one that does not end by itself", func(f *doctor.Facts) {
			f.Credentials[0].Trouble, f.Credentials[0].Ends = "it does not answer", time.Time{}
		}, []string{"warning credential"}, "database/creds/drover"},
		{"a name is old", func(f *doctor.Facts) {
			f.Names = []doctor.OldName{{Name: "pg.service.consul", Why: "away", Since: noon}}
		}, []string{"warning name-old"}, "pg.service.consul"},
		{"nobody finds this replica", func(f *doctor.Facts) { f.Unregistered = "permission denied" }, []string{"warning unregistered"}, "permission denied"},
		{"custom resources are not followed", func(f *doctor.Facts) { f.Resources = "namespaces is forbidden" }, []string{"critical custom-resources"}, "drover deploy manifests"},
		{"a namespace names a cluster that carries out nothing", func(f *doctor.Facts) {
			f.Strays = []doctor.Stray{{Namespace: "team-a", Label: "west", By: "edge"}}
		}, []string{"warning engine-unknown"}, "team-a: drover.dev/engine is west, carried out by edge"},
		{"and nobody does instead", func(f *doctor.Facts) {
			f.Strays = []doctor.Stray{{Namespace: "team-a", Label: "west"}, {Namespace: "team-b", Label: "west"}}
		}, []string{"warning engine-unknown"}, "2 namespaces"},
		{"something could not be looked at", func(f *doctor.Facts) { f.Unknown = []doctor.Unknown{{"clusters", "too slow"}} }, []string{"warning unknown"}, "clusters could not be looked at"},
		{"the worst comes first", func(f *doctor.Facts) {
			f.Clusters[0].Version, f.Bus.Aside, f.Certificate.Wrong = "1.1", 1, "no PEM"
		}, []string{"critical certificate", "warning bus-aside", "note agent-version"}, ""},
	} {
		t.Run(c.reason, func(t *testing.T) {
			found := doctor.Diagnose(well(c.change))
			var got []string
			for _, f := range found {
				got = append(got, f.Severity+" "+f.ID)
			}
			if diff := cmp.Diff(c.want, got); diff != "" {
				t.Error(diff)
			}
			if text := fmt.Sprintf("%+v", found); !strings.Contains(text, c.says) {
				t.Errorf("nothing says %q: %s", c.says, text)
			}
			notes := !slices.ContainsFunc(found, func(f doctor.Finding) bool { return f.Severity != doctor.Note })
			if doctor.Wrong(found) == notes {
				t.Errorf("wrong is %v of %v", doctor.Wrong(found), got)
			}
		})
	}
}

// Whatever the facts, each finding says what, why and what to do, on one line each
// and no more than fits; and the same facts give the same.
func TestFindingsAreReadable(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		text := rapid.SampledFrom([]string{"", "x", "two\nlines", strings.Repeat("long ", 500)})
		at := rapid.Custom(func(t *rapid.T) time.Time {
			if rapid.Bool().Draw(t, "never") {
				return time.Time{}
			}
			return noon.Add(time.Duration(rapid.Int64Range(-1e13, 1e13).Draw(t, "at")))
		})
		n := func(name string) int { return rapid.IntRange(0, 30).Draw(t, name) }
		f := doctor.Facts{Now: noon, Version: text.Draw(t, "version"),
			Ledger: doctor.Ledger{Away: text.Draw(t, "away"), Unwritable: text.Draw(t, "full"), Took: time.Duration(n("took")) * 100 * time.Millisecond,
				Schema: int64(n("schema")), Knows: int64(n("knows")), Clock: at.Draw(t, "clock"), Unsealed: int64(n("unsealed")), Since: at.Draw(t, "since")},
			Disk:         &doctor.Disk{Path: "/", Free: uint64(n("free")) << 28, Total: uint64(n("total")) << 30},
			Bus:          doctor.Bus{Trouble: text.Draw(t, "trouble"), Blocked: rapid.Bool().Draw(t, "blocked"), Aside: n("aside")},
			Certificate:  &doctor.Certificate{Path: "/c", Wrong: text.Draw(t, "wrong"), Ends: at.Draw(t, "ends")},
			Unregistered: text.Draw(t, "unregistered"),
			Credentials:  []doctor.Credential{{Door: "the broker", From: "file:/x", Trouble: text.Draw(t, "unrenewed"), Sealed: rapid.Bool().Draw(t, "sealed"), Ends: at.Draw(t, "over")}},
			Names:        []doctor.OldName{{Name: "x.service.consul", Why: "away " + text.Draw(t, "old"), Since: at.Draw(t, "known")}},
		}
		for i := range n("many") {
			id := fmt.Sprint("id", i)
			f.Work = append(f.Work, doctor.Work{Kind: id, Due: int64(n("due")), Oldest: time.Duration(n("oldest")) * time.Minute})
			f.Failing = append(f.Failing, doctor.Failing{Kind: fmt.Sprint("kind", i%3), ID: id, Tries: n("tries"), Cause: text.Draw(t, "cause")})
			f.Sides = append(f.Sides, doctor.Side{Name: "side " + id, Theirs: rapid.Bool().Draw(t, "theirs"), Open: n("open"), HalfOpen: n("half"), Full: at.Draw(t, "f"), Spent: at.Draw(t, "s")})
			f.Subscriptions = append(f.Subscriptions, doctor.Subscription{ID: id, Name: id, Phase: rapid.SampledFrom([]string{"failing", "disabled"}).Draw(t, "phase"), Why: text.Draw(t, "why"), Lost: int64(n("lost"))})
			f.Clusters = append(f.Clusters, doctor.Cluster{ID: id, Phase: rapid.SampledFrom([]string{"failed", "ready", "waiting"}).Draw(t, "cluster"), Message: text.Draw(t, "message"), Silent: rapid.Bool().Draw(t, "silent"), Version: text.Draw(t, "agent"), Resting: text.Draw(t, "resting")})
			f.Strays = append(f.Strays, doctor.Stray{Namespace: id, Label: text.Draw(t, "label"), By: rapid.SampledFrom([]string{"", "edge"}).Draw(t, "by")})
			f.Troubled = append(f.Troubled, doctor.Troubled{Kind: id, Title: id, Count: int64(n("count")), Examples: []doctor.Example{{ID: id}}})
		}
		found := doctor.Diagnose(f)
		if diff := cmp.Diff(found, doctor.Diagnose(f)); diff != "" {
			t.Fatalf("the same facts, another time: %s", diff)
		}
		order := []string{doctor.Critical, doctor.Warning, doctor.Note}
		for i, x := range found {
			if i > 0 && slices.Index(order, found[i-1].Severity) > slices.Index(order, x.Severity) {
				t.Errorf("%s comes before %s", found[i-1].Severity, x.Severity)
			}
			if x.ID == "" || x.What == "" || x.Why == "" || len(x.Do) == 0 || !slices.Contains(order, x.Severity) || len(x.Examples) > 6 {
				t.Errorf("not whole: %+v", x)
			}
			for _, line := range append(append([]string{x.What, x.Why}, x.Do...), x.Examples...) {
				if strings.Contains(line, "\n") || len(line) > 3000 {
					t.Errorf("not one line: %q", line)
				}
			}
		}
	})
}
