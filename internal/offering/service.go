package offering

import (
	"context"
	"encoding/json"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/droverhq/drover/internal/access"
	"github.com/droverhq/drover/internal/document"
	"github.com/droverhq/drover/internal/fault"
	"github.com/droverhq/drover/internal/ledger"
)

// Kind declares offerings to the ledger: the id is the offering's name, the
// spec its document, the status a Status.
var Kind = ledger.Kind{Name: "offering", Totals: [][]string{{}}, Searched: true}

// Status is the status of an offering in the ledger.
type Status struct {
	Source string `json:"source"` // of the version in force
	Digest string `json:"digest"`
	// Said holds the digest that each file has brought last. A file that says
	// what it said before is not applied again, so that a restart does not undo
	// what somebody has applied since.
	Said map[string]string `json:"said,omitempty"`
}

// Store is what the service needs of the ledger.
type Store interface {
	Commit(ctx context.Context, set ledger.Set) (ledger.Result, error)
	Get(ctx context.Context, ref ledger.Ref) (ledger.Object, error)
	List(ctx context.Context, query ledger.Query) ([]ledger.Object, error)
	Head(ctx context.Context) (ledger.Head, error)
}

// Instances tells whether an offering is in use.
type Instances interface {
	// Live counts the instances of an offering that are not gone.
	Live(ctx context.Context, offering string) (int64, error)
}

// Config of a Service.
type Config struct {
	Store     Store
	Instances Instances        // nil: nothing is in use
	Log       *slog.Logger     // of Follow and WatchDir; default: slog.Default()
	Now       func() time.Time // default: time.Now
}

// Service keeps the offerings in the ledger and those in force in a Registry.
type Service struct {
	Config
	registry Registry

	follower document.Follower

	mu   sync.Mutex
	seen map[string]int64 // version of each offering's object that was looked at last
}

// NewService makes a service whose registry is empty until Load.
func NewService(c Config) *Service {
	if c.Log == nil {
		c.Log = slog.Default()
	}
	if c.Now == nil {
		c.Now = time.Now
	}
	return &Service{Config: c, follower: document.Follower{Kinds: []string{Kind.Name}, Noun: "offerings"}, seen: map[string]int64{}}
}

// Registry of the offerings in force.
func (s *Service) Registry() *Registry { return &s.registry }

// attempts at a commit that somebody else's commit came before.
const attempts = 5

// Apply makes a file the offering's version in force. It tells whether that
// changed anything. On any error the last good version stays in force. Faults:
// Invalid (wraps Mistakes), Conflict (reasons "name-taken", "in-use").
func (s *Service) Apply(ctx context.Context, source string, data []byte) (ledger.Object, bool, error) {
	o, err := Parse(source, data)
	if err != nil {
		return ledger.Object{}, false, err
	}
	return s.apply(ctx, o, func(ledger.Object, Status) bool { return true })
}

// apply writes a compiled offering if the version in force lets it.
func (s *Service) apply(ctx context.Context, o *Offering, may func(ledger.Object, Status) bool) (ledger.Object, bool, error) {
	for attempt := 1; ; attempt++ {
		object, changed, err := s.try(ctx, o, may)
		reason := fault.Reason(err)
		if err == nil || attempt == attempts || reason != "version" && reason != "exists" {
			return object, changed, err
		}
	}
}

func (s *Service) try(ctx context.Context, o *Offering, may func(ledger.Object, Status) bool) (ledger.Object, bool, error) {
	before, old, err := s.stored(ctx, o.Metadata.Name)
	if err != nil {
		return ledger.Object{}, false, err
	}
	var status Status
	op := "create"
	if before.Version > 0 {
		_ = json.Unmarshal(before.Status, &status) // an unreadable status says nothing
		op = "update"
		live := before.Deleted.IsZero()
		if live && status.Digest == o.Digest {
			return before, false, s.settle(before, o)
		}
		if !may(before, status) {
			return before, false, nil
		}
		if live {
			if err := s.compatible(ctx, old, &o.Document); err != nil {
				return ledger.Object{}, false, err
			}
		}
	}
	if err := s.clash(o); err != nil {
		return ledger.Object{}, false, err
	}
	status.Source, status.Digest = o.Source, o.Digest
	if isFile(o.Source) {
		said := map[string]string{o.Source: o.Digest}
		for k, v := range status.Said {
			if k != o.Source && len(said) < 32 {
				said[k] = v
			}
		}
		status.Said = said
	}
	encoded, err := document.Encode(status)
	if err != nil {
		return ledger.Object{}, false, fmt.Errorf("cannot encode the status: %w", err)
	}
	ref := ledger.Ref{Kind: Kind.Name, ID: o.Metadata.Name}
	set := s.set(ctx, ledger.Put{Expect: before.Version, Op: op, Object: ledger.Object{
		Ref: ref, Name: o.Metadata.Name, Labels: o.Metadata.Labels, Spec: o.data, Status: encoded,
	}})
	set.Claims = claims(ref, &o.Document)
	for _, c := range claims(ref, old) {
		if !slices.Contains(set.Claims, c) {
			set.Frees = append(set.Frees, c)
		}
	}
	result, err := s.Store.Commit(ctx, set)
	if err != nil {
		return ledger.Object{}, false, fmt.Errorf("cannot store offering %s: %w", o.Metadata.Name, err)
	}
	return result.Objects[0], result.Seq > 0, s.settle(result.Objects[0], o)
}

// stored returns the offering's object and document; an object of version 0
// if there never was one.
func (s *Service) stored(ctx context.Context, name string) (ledger.Object, *Document, error) {
	object, err := s.Store.Get(ctx, ledger.Ref{Kind: Kind.Name, ID: name})
	if fault.Is(err, fault.NotFound) {
		return ledger.Object{}, nil, nil
	}
	if err != nil {
		return ledger.Object{}, nil, fmt.Errorf("cannot read offering %s: %w", name, err)
	}
	var d Document
	if err := json.Unmarshal(object.Spec, &d); err != nil {
		return ledger.Object{}, nil, fmt.Errorf("cannot decode offering %s: %w", name, err)
	}
	return object, &d, nil
}

func (s *Service) set(ctx context.Context, put ledger.Put) ledger.Set {
	actor := access.From(ctx).Actor()
	if actor == "" {
		actor = "system"
	}
	return ledger.Set{Actor: actor, Cause: ledger.CauseOf(ctx), Puts: []ledger.Put{put}}
}

// exclusive are the names that no two offerings may share.
func exclusive(d *Document) map[string][]string {
	if d == nil {
		return nil
	}
	n, a := d.Spec.Names, d.Spec.API
	resources := []string{n.Plural}
	if n.Singular != n.Plural {
		resources = append(resources, n.Singular)
	}
	return map[string][]string{
		"api path": {a.Group + "/" + a.Version}, "resource name": resources, "kind": {n.Kind}, "error prefix": {a.ErrorPrefix},
	}
}

func claims(holder ledger.Ref, d *Document) []ledger.Claim {
	var out []ledger.Claim
	for space, words := range exclusive(d) {
		for _, w := range words {
			out = append(out, ledger.Claim{Name: ledger.Name{Space: "offering " + space, Name: w}, Holder: holder})
		}
	}
	slices.SortFunc(out, func(a, b ledger.Claim) int { return strings.Compare(a.Space+a.Name.Name, b.Space+b.Name.Name) })
	return out
}

// clash says in words what the claims would refuse anyway.
func (s *Service) clash(o *Offering) error {
	mine := exclusive(&o.Document)
	for _, other := range s.registry.List() {
		if other.Metadata.Name == o.Metadata.Name {
			continue
		}
		for space, words := range exclusive(&other.Document) {
			for _, w := range words {
				if slices.Contains(mine[space], w) {
					return fault.New(fault.Conflict, "%s: offering %s has the %s %q already", o.Source, other.Metadata.Name, space, w).Because("name-taken")
				}
			}
		}
	}
	return nil
}

// compatible refuses changes that would leave instances without an address or
// a plan.
func (s *Service) compatible(ctx context.Context, old, new *Document) error {
	var lost []string
	if old.Spec.API.Group != new.Spec.API.Group || old.Spec.API.Version != new.Spec.API.Version || old.Spec.Names.Plural != new.Spec.Names.Plural {
		lost = append(lost, "the API path")
	}
	kept := map[string]bool{}
	for _, t := range new.Spec.Types {
		for _, size := range t.Sizes {
			kept[t.Name+"."+size.Name] = true
		}
	}
	for _, t := range old.Spec.Types {
		for _, size := range t.Sizes {
			if !kept[t.Name+"."+size.Name] {
				lost = append(lost, "plan "+t.Name+"."+size.Name)
			}
		}
	}
	if len(lost) == 0 {
		return nil
	}
	n, err := s.live(ctx, new.Metadata.Name)
	if err != nil || n == 0 {
		return err
	}
	return fault.New(fault.Conflict, "offering %s has %d instances: keep %s until they are gone",
		new.Metadata.Name, n, strings.Join(lost, ", ")).Because("in-use")
}

func (s *Service) live(ctx context.Context, name string) (int64, error) {
	if s.Instances == nil {
		return 0, nil
	}
	n, err := s.Instances.Live(ctx, name)
	if err != nil {
		return 0, fmt.Errorf("cannot count the instances of offering %s: %w", name, err)
	}
	return n, nil
}

// Delete takes an offering out of force. Faults: NotFound, Conflict (reason
// "in-use") while it has instances.
func (s *Service) Delete(ctx context.Context, name string) (ledger.Object, error) {
	object, document, err := s.stored(ctx, name)
	if err != nil {
		return ledger.Object{}, err
	}
	if object.Version == 0 || !object.Deleted.IsZero() {
		return ledger.Object{}, fault.New(fault.NotFound, "there is no offering %.64q", name)
	}
	n, err := s.live(ctx, name)
	if err != nil {
		return ledger.Object{}, err
	}
	if n > 0 {
		return ledger.Object{}, fault.New(fault.Conflict, "offering %s has %d instances: delete them first", name, n).Because("in-use")
	}
	expect := object.Version
	object.Deleted = s.Now()
	set := s.set(ctx, ledger.Put{Object: object, Expect: expect, Op: "delete"})
	set.Frees = claims(object.Ref, document)
	result, err := s.Store.Commit(ctx, set)
	if err != nil {
		return ledger.Object{}, fmt.Errorf("cannot delete offering %s: %w", name, err)
	}
	return result.Objects[0], s.settle(result.Objects[0], nil)
}
