package environment

import (
	"cmp"
	"context"
	"encoding/json"
	"maps"
	"regexp"
	"slices"
	"sync"
	"time"

	"github.com/droverhq/drover/internal/access"
	"github.com/droverhq/drover/internal/executor"
	"github.com/droverhq/drover/internal/fault"
	"github.com/droverhq/drover/internal/ledger"
	"github.com/droverhq/drover/internal/reconcile"
	"github.com/droverhq/drover/internal/resilience"
)

// Store is what the room needs of the ledger.
type Store interface {
	ledger.Committer
	ledger.Reader
}

// Config of a Service. Store, Keeper, Templates and Executors are needed.
type Config struct {
	Store     Store
	Keeper    ledger.Keeper // of secrets, states, changes of plans and logs
	Templates Templates
	// Executors by name.
	Executors map[string]executor.Executor
	// Connections of executors that need one; nil: there are none.
	Connections Connections
	// Approvals that policies demand; nil: what needs one is denied.
	Approvals Approvals
	// Finder of what depends on what, across kinds; nil: nobody can say.
	Finder Finder
	// Runner of actions; nil: none can be run.
	Runner Runner
	// Health of services in Consul; nil: checks of it fail.
	Health Health
	// Observer of the calls to executors; nil: none.
	Observer resilience.Observer
	Now      func() time.Time // default: time.Now
}

// Service holds the verbs on environments, and what their reconcilers share.
type Service struct {
	Config
	layouts layouts
	parents parents
	gates   gates
	logs    logs
	calls   calls
	slow    time.Duration // a call that takes longer is told as under way
	rest    time.Duration // of the breaker of an executor; 0: as usual
	glance  time.Duration // between looks whether a resource is still wanted while it is worked on

	mu    sync.Mutex
	looks map[string]look // by environment
	marks map[string]mark // by resource
	// tallies are how many resources are left to work on, by environment.
	tallies map[string]tally
	// sights is when resources were last looked at.
	sights map[string]time.Time

	rests  rests
	prober prober
	runs   chan struct{} // room for those that are under way
}

// NewService makes the service.
func NewService(c Config) *Service {
	if c.Now == nil {
		c.Now = time.Now
	}
	return &Service{Config: c, slow: slowAfter, glance: 3 * time.Second, looks: map[string]look{}, marks: map[string]mark{}, tallies: map[string]tally{},
		sights: map[string]time.Time{}, prober: newProber(c.Observer), runs: make(chan struct{}, runsAtOnce),
		rests: rests{vigils: map[string]*vigil{}, strays: map[string]strayed{}}}
}

// Reconcilers of the room by kind, for the loop.
func (s *Service) Reconcilers() map[string]reconcile.Reconciler {
	return map[string]reconcile.Reconciler{
		Kind.Name: &Environments{s}, KindResource.Name: &Resources{s}, KindPlan.Name: &Plans{s}, KindRun.Name: &Runs{s},
		KindDrift.Name: &Drifts{s},
	}
}

// PlanOrder asks for a plan.
type PlanOrder struct {
	Environment string // name of one that is to be, or name or id of one that is there
	Template    string // "shop", "shop@1.2.0", ...; default: the version that it has
	Parameters  map[string]any
	// Keep the present parameters, and override them by Parameters.
	Keep        bool
	Description string   // default: as it is
	Tags        []string // likewise
	TTL         time.Duration
	Destroy     bool
}

var validName = regexp.MustCompile(`^[a-z0-9]([-a-z0-9]{0,61}[a-z0-9])?$`)

// MaxTTL bounds how far away an end may be.
const MaxTTL = 10 * 365 * 24 * time.Hour

// maxParameters is what an object has room for besides everything else, twice: an
// environment remembers those before the present ones.
const maxParameters = 32 << 10

// attempts at a commit that somebody else's commit came before.
const attempts = 20

// Plan asks what would be done, and touches nothing. The plan is made by the loop:
// its phase tells when. Faults: Invalid, NotFound, Denied, Conflict.
func (s *Service) Plan(ctx context.Context, order PlanOrder) (ledger.Object, error) {
	p, _, err := s.draft(ctx, order)
	if err != nil {
		return ledger.Object{}, err
	}
	put, err := p.put("create")
	if err != nil {
		return ledger.Object{}, err
	}
	return s.commit(ctx, ledger.Set{Puts: []ledger.Put{put}, Wakes: []ledger.Wake{{Ref: p.Ref, Org: p.Org}}})
}

// commit writes on behalf of the caller and returns the first object.
func (s *Service) commit(ctx context.Context, set ledger.Set) (ledger.Object, error) {
	set.Actor, set.Cause = cmp.Or(access.From(ctx).Actor(), "system"), ledger.CauseOf(ctx)
	done, err := s.Store.Commit(ctx, set)
	if err != nil {
		return ledger.Object{}, err
	}
	return done.Objects[0], nil
}

// draft checks an order and drafts its plan; e is nil where there is no such
// environment yet.
func (s *Service) draft(ctx context.Context, order PlanOrder) (p Plan, e *Environment, err error) {
	who := access.From(ctx)
	org, owner := who.Org, who.User
	there, err := s.Get(ctx, order.Environment)
	switch {
	case err == nil && !there.Deleted.IsZero():
		return p, nil, fault.New(fault.NotFound, "environment %s is gone", there.Name)
	case err == nil:
		found, err := Decode(there)
		if err != nil {
			return p, nil, err
		}
		e, org, owner = &found, there.Org, there.Owner
	case !fault.Is(err, fault.NotFound) || order.Destroy:
		return p, nil, err
	case !validName.MatchString(order.Environment):
		return p, nil, fault.New(fault.Invalid, "%.80q is no name of an environment: want up to 63 lower-case letters, digits and hyphens", order.Environment).Because("name")
	}
	p = Plan{Object: ledger.Object{Ref: ledger.Ref{Kind: KindPlan.Name, ID: ledger.NewID()}, Org: org, Owner: owner, Phase: Planning},
		Spec: PlanSpec{Environment: order.Environment, ID: ledger.NewID(), Parameters: order.Parameters,
			Description: order.Description, Tags: order.Tags, Describes: order.Description != "", Tagged: order.Tags != nil, TTL: order.TTL, Destroy: order.Destroy, Operator: who.Admin}}
	ref := order.Template
	if e != nil {
		p.Spec.Environment, p.Spec.ID, p.Spec.Operator = e.Name, e.ID, e.Spec.Operator
		p.Spec.Description = cmp.Or(order.Description, e.Spec.Description)
		if order.Tags == nil {
			p.Spec.Tags = e.Spec.Tags
		}
		if order.Destroy {
			ref, p.Spec.Parameters = e.Spec.Version, e.Spec.Parameters
		} else if order.Keep {
			p.Spec.Parameters = maps.Clone(e.Spec.Parameters)
			if p.Spec.Parameters == nil {
				p.Spec.Parameters = map[string]any{}
			}
			maps.Copy(p.Spec.Parameters, order.Parameters)
		}
		ref = cmp.Or(ref, e.Spec.Version)
	}
	p.Name, p.Parent = p.Spec.Environment, p.Spec.ID
	if ref == "" {
		return p, e, fault.New(fault.Invalid, "say which template environment %s is made of (--template)", order.Environment).Because("template")
	}
	if order.TTL < 0 || order.TTL > MaxTTL {
		return p, e, fault.New(fault.Invalid, "an environment lives for up to ten years").Because("ttl")
	}
	if err := checkTags(p.Spec.Tags); err != nil {
		return p, e, err
	}
	b, err := s.Templates.Blueprint(ctx, ref)
	if err != nil {
		return p, e, err
	}
	about := b.About()
	p.Spec.Template, p.Spec.Version = about.Name, about.ID
	if !may(b, "plan", who, org, owner) {
		return p, e, denied(who, "plan", p.Spec.Environment)
	}
	if e != nil {
		if e.Spec.Operator && !who.Admin && !order.Destroy { // it may use connections that are for operators
			return p, e, fault.New(fault.Denied, "environment %s was made by an operator: only they plan changes of it", e.Name).Because("permission")
		}
		if err := e.takes(p.Spec); err != nil {
			return p, e, err
		}
	}
	if !order.Destroy {
		if p.Spec.Parameters, err = b.Check(p.Spec.Parameters); err != nil {
			return p, e, err
		}
		if raw, err := json.Marshal(p.Spec.Parameters); err != nil || len(raw) > maxParameters {
			return p, e, fault.New(fault.Invalid, "the parameters of an environment have at most %d KiB: keep what is larger in a file beside the template", maxParameters>>10).Because("parameters")
		}
	}
	return p, e, nil
}

// takes refuses plans that an environment could never carry out.
func (e *Environment) takes(p PlanSpec) error {
	switch {
	case e.Spec.Handed != nil:
		return handed(e)
	case e.Spec.Template != p.Template:
		return fault.New(fault.Conflict, "environment %s is made of template %s, and stays so: destroy it and create another, or name a version of %s", e.Name, e.Spec.Template, e.Spec.Template).Because("template")
	case p.Destroy && e.Spec.Protected:
		return fault.New(fault.Conflict, "environment %s is protected: take that back first (drover env protect %s --off)", e.Name, e.Name).Because("protected")
	case e.Spec.Destroy && !p.Destroy:
		return fault.New(fault.Conflict, "environment %s is being destroyed: wait for that, or create another", e.Name).Because("destroying")
	}
	return nil
}

// may asks a template, and lets operators.
func may(b Blueprint, verb string, who access.Principal, org, owner string) bool {
	return who.Admin || who.Sees(org, owner) && b.May(verb, "", who, org, owner)
}

func denied(who access.Principal, verb, name string) error {
	return fault.New(fault.Denied, "%s may not %s environment %s: its template says who may", cmp.Or(who.User, "nobody"), verb, name).Because("permission")
}

func checkTags(tags []string) error {
	for _, t := range tags {
		if !validTag.MatchString(t) {
			return fault.New(fault.Invalid, "%.80q is no tag: want up to 63 letters, digits and ._:-", t).Because("tags")
		}
	}
	if len(tags) > 50 || len(slices.Compact(slices.Sorted(slices.Values(tags)))) != len(tags) {
		return fault.New(fault.Invalid, "at most 50 tags, each once").Because("tags")
	}
	return nil
}

var validTag = regexp.MustCompile(`^[A-Za-z0-9][A-Za-z0-9._:-]{0,62}$`)

// ApplyOrder asks for a plan to be carried out.
type ApplyOrder struct {
	Environment string // name or id; default: the plan's
	Plan        string // hash, its beginning (8 letters or more), or id
}

// Apply carries a plan out that was looked at. It returns the environment and the
// id of the operation. Nothing is touched if something has moved since: the
// operation says what. Faults: NotFound, Denied, Conflict (reasons "phase",
// "protected", "destroying").
func (s *Service) Apply(ctx context.Context, order ApplyOrder) (ledger.Object, string, error) {
	o, err := s.PlanOf(ctx, order.Environment, order.Plan)
	if err != nil {
		return ledger.Object{}, "", err
	}
	p, err := DecodePlan(o)
	if err != nil {
		return ledger.Object{}, "", err
	}
	verb := verbOf(p.Spec)
	if err := s.allowed(ctx, verb, p.Spec.Version, p.Object, p.Spec.Environment); err != nil {
		return ledger.Object{}, "", err
	}
	switch p.Phase {
	case Planned:
	case Asking:
		return ledger.Object{}, "", fault.New(fault.Conflict, "plan %s waits for an approval: `drover approve %s`", short(p.Status.Hash), p.Status.Approval).Because("phase")
	case Planning:
		return ledger.Object{}, "", fault.New(fault.Conflict, "plan %s is still being made: try again in a moment", p.ID).Because("phase")
	default:
		return ledger.Object{}, "", fault.New(fault.Conflict, "plan %s cannot be applied, it is %s: plan again (drover env plan %s)", cmp.Or(short(p.Status.Hash), p.ID), p.Phase, p.Spec.Environment).Because("phase")
	}
	return s.next(ctx, p, Next{Plan: p.ID, Hash: p.Status.Hash}, verb)
}

func verbOf(p PlanSpec) string {
	if p.Destroy {
		return "destroy"
	}
	return "apply"
}

// allowed asks the template of a version.
func (s *Service) allowed(ctx context.Context, verb, version string, of ledger.Object, name string) error {
	who := access.From(ctx)
	if who.Admin {
		return nil
	}
	b, err := s.Templates.Blueprint(ctx, version)
	if err != nil {
		return err
	}
	if !may(b, verb, who, of.Org, of.Owner) {
		return denied(who, verb, name)
	}
	return nil
}

// Create makes an environment of a plan that nobody looks at first: it is applied
// as soon as it is made. Faults as of Plan and Apply; Conflict (reason
// "name-taken").
func (s *Service) Create(ctx context.Context, order PlanOrder) (ledger.Object, string, error) {
	order.Destroy = false
	p, e, err := s.draft(ctx, order)
	if err != nil {
		return ledger.Object{}, "", err
	}
	if e != nil {
		return ledger.Object{}, "", taken(p.Spec.Environment)
	}
	if err := s.allowed(ctx, "apply", p.Spec.Version, p.Object, p.Spec.Environment); err != nil {
		return ledger.Object{}, "", err
	}
	return s.straight(ctx, p, "create")
}

func taken(name string) error {
	return fault.New(fault.Conflict, "there is an environment %s already: plan a change of it, or take another name", name).Because("name-taken")
}

// Change plans and applies at once what Plan and Apply do one after the other, for
// an environment that is there.
func (s *Service) Change(ctx context.Context, order PlanOrder) (ledger.Object, string, error) {
	p, e, err := s.draft(ctx, order)
	if err != nil {
		return ledger.Object{}, "", err
	}
	if e == nil {
		return ledger.Object{}, "", fault.New(fault.NotFound, "there is no environment %.80q", order.Environment)
	}
	verb := verbOf(p.Spec)
	if err := s.allowed(ctx, verb, p.Spec.Version, p.Object, p.Spec.Environment); err != nil {
		return ledger.Object{}, "", err
	}
	return s.straight(ctx, p, verb)
}

// straight writes a plan that is applied as it is made.
func (s *Service) straight(ctx context.Context, p Plan, verb string) (ledger.Object, string, error) {
	p.Spec.Apply = true
	put, err := p.put("create")
	if err != nil {
		return ledger.Object{}, "", err
	}
	return s.next(ctx, p, Next{Plan: p.ID}, verb, put)
}

// Destroy takes an environment away: by the plan of a hash, or by one that is made
// for it. Faults as of Apply.
func (s *Service) Destroy(ctx context.Context, environment, plan string) (ledger.Object, string, error) {
	if plan == "" {
		return s.Change(ctx, PlanOrder{Environment: environment, Destroy: true})
	}
	o, err := s.PlanOf(ctx, environment, plan)
	if err != nil {
		return ledger.Object{}, "", err
	}
	p, err := DecodePlan(o)
	if err != nil {
		return ledger.Object{}, "", err
	}
	if !p.Spec.Destroy {
		return ledger.Object{}, "", fault.New(fault.Invalid, "plan %s does not destroy environment %s: plan that (drover env plan %s --destroy), or apply it", short(p.Status.Hash), p.Spec.Environment, p.Spec.Environment).Because("plan")
	}
	return s.Apply(ctx, ApplyOrder{Environment: environment, Plan: p.ID})
}

// Rollback plans the version and parameters before the last change.
func (s *Service) Rollback(ctx context.Context, environment string) (ledger.Object, error) {
	o, err := s.Get(ctx, environment)
	if err != nil {
		return ledger.Object{}, err
	}
	e, err := Decode(o)
	if err != nil {
		return ledger.Object{}, err
	}
	if e.Spec.Previous == nil {
		return ledger.Object{}, fault.New(fault.Conflict, "environment %s was never changed: there is nothing to go back to", e.Name).Because("phase")
	}
	return s.Plan(ctx, PlanOrder{Environment: e.ID, Template: e.Spec.Previous.Version, Parameters: e.Spec.Previous.Parameters})
}
