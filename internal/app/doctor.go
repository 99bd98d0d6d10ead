package app

import (
	"cmp"
	"context"
	"slices"
	"sync"
	"time"

	"github.com/droverhq/drover/internal/bus"
	"github.com/droverhq/drover/internal/cluster"
	"github.com/droverhq/drover/internal/doctor"
	"github.com/droverhq/drover/internal/environment"
	"github.com/droverhq/drover/internal/fault"
	"github.com/droverhq/drover/internal/gitops"
	"github.com/droverhq/drover/internal/hook"
	"github.com/droverhq/drover/internal/instance"
	"github.com/droverhq/drover/internal/ledger"
	"github.com/droverhq/drover/internal/sqlledger"
	"github.com/droverhq/drover/internal/subscription"
)

// Bounds of one examination, whatever there is.
const (
	examineTime = 3 * time.Second // for each look at something
	examineRest = time.Second     // between two: who asks sooner reads the last one
	failingAt   = 5               // failures in a row that are worth telling
	failingMost = 200
	exampleMost = 5
	tellMost    = 200
	// A gap is told of for a month, or until the subscription is enabled anew: the
	// broker's own cannot be, and would be trouble for ever.
	gapTime = 30 * 24 * time.Hour
)

// theirs are those who are called that tenants name.
var theirs = []string{toRepositories, toTenants, hook.Receivers, environment.Probed}

// examiner gathers what the doctor decides upon. It reads counters, a handful of
// indexed pages and what this process remembers.
type examiner struct {
	*Server
	store   *sqlledger.Ledger
	commits *ledgerMetrics
	runs    *loopMetrics

	mu   sync.Mutex
	last doctor.Facts
	at   time.Time
}

// Examine implements httpapi.Doctor.
func (e *examiner) Examine(ctx context.Context) doctor.Facts {
	e.mu.Lock()
	defer e.mu.Unlock()
	if time.Since(e.at) < examineRest {
		return e.last
	}
	f := doctor.Facts{Now: time.Now(), Version: e.cfg.Version, Disk: diskOf(e.cfg.DataDir), Sides: e.calls.Calls()}
	for i := range f.Sides {
		f.Sides[i].Theirs = slices.Contains(theirs, f.Sides[i].Name)
		f.Sides[i].Answered = answered(f.Sides[i], e.bus)
	}
	if e.controllers != nil {
		f.Resources = e.controllers.Trouble()
		for _, s := range e.controllers.Strays() {
			f.Strays = append(f.Strays, doctor.Stray{Namespace: s.Namespace, Label: s.Label, By: s.Engine})
		}
	}
	e.own.facts(ctx, &f)
	e.ledgerFacts(ctx, &f)
	e.look(ctx, &f, "the bus", e.busFacts)
	if ends, ok := e.outside.certificates.(interface{ Ends() (time.Time, error) }); ok {
		f.Certificate = &doctor.Certificate{Path: e.cfg.CertFile}
		var err error
		if f.Certificate.Ends, err = ends.Ends(); err != nil {
			f.Certificate.Wrong = err.Error()
		}
	}
	if f.Ledger.Away == "" {
		for _, part := range []struct {
			what string
			look func(context.Context, *doctor.Facts) error
		}{
			{"the log's seals", e.sealFacts}, {"due work", e.workFacts}, {"subscriptions", e.subscriptionFacts},
			{"clusters", e.clusterFacts}, {"instances", e.instanceFacts}, {"environments", e.environmentFacts}, {"deployments", e.deploymentFacts},
		} {
			e.look(ctx, &f, part.what, part.look)
		}
	}
	if ctx.Err() == nil { // one who left has seen half of it
		e.last, e.at = f, time.Now()
	}
	return f
}

// look finds something out within its time. What cannot be is told as that.
func (e *examiner) look(ctx context.Context, f *doctor.Facts, what string, look func(context.Context, *doctor.Facts) error) {
	ctx, cancel := context.WithTimeout(ctx, examineTime)
	defer cancel()
	if err := look(ctx, f); err != nil {
		f.Unknown = append(f.Unknown, doctor.Unknown{What: what, Why: err.Error()})
	}
}

func (e *examiner) ledgerFacts(ctx context.Context, f *doctor.Facts) {
	ctx, cancel := context.WithTimeout(ctx, examineTime)
	defer cancel()
	l := &f.Ledger
	l.Engine = databaseName(e.cfg.Database)
	if err := e.commits.writable(); err != nil {
		l.Unwritable = err.Error()
	}
	began := time.Now()
	if _, err := e.store.Head(ctx); err != nil {
		l.Away = err.Error()
		return
	}
	l.Took = time.Since(began)
	found, err := e.store.Examine(ctx, failingAt, failingMost)
	if err != nil {
		l.Away = err.Error()
		return
	}
	f.Now = time.Now() // beside the database's: the rest takes its time
	l.Schema, l.Knows, l.Clock = found.Schema, found.Knows, found.Clock
	for _, w := range found.Failing {
		f.Failing = append(f.Failing, doctor.Failing{Kind: w.Kind, ID: w.ID, Tries: w.Attempts, Cause: e.runs.cause(w.Kind)})
	}
}

// answered is when a side was heard last: calls of the broker are connections to it, over which
// it answers for as long as they last.
func answered(s doctor.Side, b bus.Bus) time.Time {
	if h, ok := b.(interface{ Heard() time.Time }); ok && s.Name == doorBroker && h.Heard().After(s.Answered) {
		return h.Heard()
	}
	return s.Answered
}

func (e *examiner) sealFacts(ctx context.Context, f *doctor.Facts) error {
	head, err := e.ledger.Head(ctx)
	if err != nil {
		return err
	}
	blocks, err := e.ledger.Blocks(ctx, 0, -1)
	if err != nil {
		return err
	}
	sealed := int64(0)
	if len(blocks) > 0 {
		sealed = blocks[0].Last
	}
	if f.Ledger.Unsealed = head.Seq - sealed; f.Ledger.Unsealed <= 0 {
		return nil
	}
	first, err := e.ledger.Changes(ctx, ledger.ChangeQuery{After: sealed, Limit: 1})
	if len(first) > 0 {
		f.Ledger.Since = first[0].At
	}
	return err
}

func (e *examiner) workFacts(ctx context.Context, f *doctor.Facts) error {
	backlog, err := e.ledger.Backlog(ctx)
	for _, b := range backlog {
		f.Work = append(f.Work, doctor.Work{Kind: b.Kind, Due: b.Due, Oldest: b.Oldest})
	}
	return err
}

func (e *examiner) busFacts(ctx context.Context, f *doctor.Facts) error {
	f.Bus.Name = e.cfg.Bus
	if l, ok := e.bus.(interface{ Losses() map[string]time.Time }); ok {
		for queue, at := range l.Losses() {
			f.Bus.Lost = append(f.Bus.Lost, doctor.Loss{Queue: queue, At: at})
		}
	}
	if t, ok := e.bus.(interface{ Trouble() error }); ok {
		if err := t.Trouble(); err != nil {
			f.Bus.Trouble, f.Bus.Blocked = err.Error(), fault.Reason(err) == "broker-blocked"
			return nil // there is no use in asking what it has
		}
	}
	if full, ok := e.bus.(interface{ AsideFull() bool }); ok {
		f.Bus.Full = full.AsideFull()
	}
	var err error
	f.Bus.Aside, err = e.bus.Aside().Count(ctx)
	return err
}

func (e *examiner) subscriptionFacts(ctx context.Context, f *doctor.Facts) error {
	found, err := e.ledger.List(ctx, ledger.Query{Kind: subscription.Kind.Name, Limit: tellMost,
		Where: ledger.Compare{Column: "phase", Op: ledger.In, Values: []any{subscription.Failing, subscription.Disabled}}})
	if err != nil {
		return err
	}
	told := map[string]bool{}
	tell := func(s subscription.Subscription) {
		told[s.ID] = true
		f.Subscriptions = append(f.Subscriptions, doctor.Subscription{ID: s.ID, Name: s.Name, Phase: s.Phase, Why: s.Status.Message, Off: s.Spec.Off, Broker: s.Spec.To == subscription.ToBus, Since: s.Status.Since, Lost: s.Status.Lost})
	}
	for _, o := range found {
		s, err := subscription.Decode(o)
		if err != nil {
			return err
		}
		tell(s)
	}
	// One that has missed something goes on as if it had not, and is found nowhere else.
	lost := e.subscriptions.Lost(f.Now.Add(-gapTime))
	for _, s := range lost[:min(len(lost), tellMost)] {
		if !told[s.ID] {
			tell(s)
		}
	}
	return nil
}

func (e *examiner) clusterFacts(ctx context.Context, f *doctor.Facts) error {
	all, err := e.clusters.All(ctx)
	for _, k := range all {
		switch k.Phase {
		case cluster.Deprovisioning, cluster.Cleanup, cluster.Abandoned:
			continue // somebody is rid of it
		}
		f.Clusters = append(f.Clusters, doctor.Cluster{
			ID: k.ID, Phase: k.Phase, Message: cmp.Or(k.Status.Reason, k.Status.Message), Version: k.Status.Version, Jsonnet: k.Status.Platform.Jsonnet, NoHealth: k.Status.Platform.NoHealth, Left: k.Status.Platform.Left, Resting: k.Status.Platform.Resting,
			Silent: k.Phase == cluster.Waiting && k.Status.Session == "" && k.Status.Installation != "",
		})
	}
	return err
}

func (e *examiner) instanceFacts(ctx context.Context, f *doctor.Facts) error {
	totals, err := e.ledger.Totals(ctx, instance.Kind.Name, instance.Census)
	if err != nil {
		return err
	}
	n := int64(0)
	for _, t := range totals {
		if t.Values[0] == instance.Failed {
			n += t.N
		}
	}
	if n == 0 {
		return nil
	}
	return e.examples(ctx, f, doctor.Troubled{Kind: instance.Kind.Name, Title: "instances", Count: n}, instance.Failed)
}

func (e *examiner) environmentFacts(ctx context.Context, f *doctor.Facts) error {
	return e.examples(ctx, f, doctor.Troubled{Kind: environment.Kind.Name, Title: "environments"}, environment.Fail)
}

func (e *examiner) deploymentFacts(ctx context.Context, f *doctor.Facts) error {
	return e.examples(ctx, f, doctor.Troubled{Kind: gitops.KindDeployment.Name, Title: "deployments"}, gitops.Failed)
}

// examples finds a few of a kind in a phase, and counts them where nobody has.
func (e *examiner) examples(ctx context.Context, f *doctor.Facts, t doctor.Troubled, phase string) error {
	query := ledger.Query{Kind: t.Kind, Where: ledger.Compare{Column: "phase", Op: ledger.Eq, Values: []any{phase}}, Limit: exampleMost, Brief: true}
	found, err := e.ledger.List(ctx, query)
	if err != nil {
		return err
	}
	for _, o := range found {
		t.Examples = append(t.Examples, doctor.Example{ID: o.ID, Name: o.Name, Org: o.Org})
	}
	if t.Count == 0 {
		t.Count = int64(len(found))
		if len(found) == exampleMost {
			if t.Count, err = e.ledger.Total(ctx, query); err != nil {
				return err
			}
		}
	}
	f.Troubled = append(f.Troubled, t)
	return nil
}
