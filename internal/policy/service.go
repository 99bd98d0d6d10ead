package policy

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/droverhq/drover/internal/access"
	"github.com/droverhq/drover/internal/document"
	"github.com/droverhq/drover/internal/fault"
	"github.com/droverhq/drover/internal/ledger"
)

// Store is what the service needs of the ledger.
type Store interface {
	Commit(ctx context.Context, set ledger.Set) (ledger.Result, error)
	Get(ctx context.Context, ref ledger.Ref) (ledger.Object, error)
	List(ctx context.Context, query ledger.Query) ([]ledger.Object, error)
	Head(ctx context.Context) (ledger.Head, error)
}

// Config of a Service.
type Config struct {
	Store Store
	// Review is asked whether a user must accept terms, where the ledger has no
	// acceptance; nil: the ledger alone decides.
	Review Reviewer
	// ReviewFor is how long its yes holds; default 5 min.
	ReviewFor time.Duration
	Log       *slog.Logger     // of Follow and WatchFiles; default: slog.Default()
	Now       func() time.Time // default: time.Now
}

// Service keeps the policies in the ledger, and those in force in memory: what
// it decides costs no query.
type Service struct {
	Config

	mu     sync.Mutex // one writer of the tables at a time
	known  map[ledger.Ref]known
	tables atomic.Pointer[tables]

	follower document.Follower
	accepted remembered
}

// NewService makes a service that knows no policies until Load.
func NewService(c Config) *Service {
	if c.ReviewFor <= 0 {
		c.ReviewFor = 5 * time.Minute
	}
	if c.Log == nil {
		c.Log = slog.Default()
	}
	if c.Now == nil {
		c.Now = time.Now
	}
	s := &Service{Config: c, known: map[ledger.Ref]known{}, follower: document.Follower{Noun: "policies"}}
	for _, k := range Kinds() {
		if blank(k.Name) != nil {
			s.follower.Kinds = append(s.follower.Kinds, k.Name)
		}
	}
	s.tables.Store(&tables{})
	return s
}

// attempts at a commit that somebody else's commit came before.
const attempts = 5

// Applied is what became of one document.
type Applied struct {
	Object  ledger.Object
	Changed bool
}

// Apply brings the documents of a file into force, all or none. Faults: Invalid
// (all mistakes with their lines), Conflict (reason "name-taken": another quota
// is for the same organisation or account).
func (s *Service) Apply(ctx context.Context, source string, data []byte) ([]Applied, error) {
	documents, err := Parse(source, data)
	if err != nil {
		return nil, err
	}
	return s.apply(ctx, source, documents, func(Status, string) bool { return true })
}

// ApplyOne is Apply for a file that holds one document of a kind.
func (s *Service) ApplyOne(ctx context.Context, kind, source string, data []byte) (ledger.Object, bool, error) {
	documents, err := Parse(source, data)
	if err != nil {
		return ledger.Object{}, false, err
	}
	if len(documents) != 1 || documents[0].Kind != kind {
		return ledger.Object{}, false, fault.New(fault.Invalid, "%s:1:1: this takes one %s at a time, and nothing else", source, kind)
	}
	applied, err := s.apply(ctx, source, documents, func(Status, string) bool { return true })
	if err != nil {
		return ledger.Object{}, false, err
	}
	return applied[0].Object, applied[0].Changed, nil
}

// apply writes the documents that the versions in force let in.
func (s *Service) apply(ctx context.Context, source string, documents []Document, may func(before Status, digest string) bool) ([]Applied, error) {
	for attempt := 1; ; attempt++ {
		applied, err := s.try(ctx, source, documents, may)
		reason := fault.Reason(err)
		if err == nil || attempt == attempts || reason != "version" && reason != "exists" {
			return applied, err
		}
	}
}

func (s *Service) try(ctx context.Context, source string, documents []Document, may func(Status, string) bool) ([]Applied, error) {
	set := s.set(ctx)
	out := make([]Applied, len(documents))
	at := make([]int, 0, len(documents)) // which document a put is for
	for i := range documents {
		d := &documents[i]
		before, err := s.stored(ctx, ledger.Ref{Kind: d.Kind, ID: d.Name})
		if err != nil {
			return nil, err
		}
		var status Status
		_ = json.Unmarshal(before.Status, &status) // an unreadable status says nothing
		sum := digest(d)
		out[i].Object = before
		live := before.Version > 0 && before.Deleted.IsZero()
		if live && status.Digest == sum && sayAgain(source, status, sum) || before.Version > 0 && !may(status, sum) {
			continue
		}
		put, tell, err := s.put(before, status, d, source)
		if err != nil {
			return nil, err
		}
		if tell {
			set.Wakes = append(set.Wakes, ledger.Wake{Ref: put.Object.Ref})
		}
		claims(&set, put.Object.Ref, d.value, before)
		set.Puts, at = append(set.Puts, put), append(at, i)
	}
	if len(set.Puts) == 0 {
		return out, nil
	}
	result, err := s.Store.Commit(ctx, set)
	if fault.Reason(err) == "name-taken" {
		return nil, fault.New(fault.Conflict, "%s: another quota is for the same organisation or account already: %w", source, err).Because("name-taken")
	}
	if err != nil {
		return nil, fmt.Errorf("cannot store the policies of %s: %w", source, err)
	}
	for i, o := range result.Objects {
		out[at[i]] = Applied{Object: o, Changed: o.Version != set.Puts[i].Expect}
	}
	s.settle(ctx, result.Objects...)
	return out, nil
}

// sayAgain reports whether nothing is new even about who said it.
func sayAgain(source string, status Status, sum string) bool {
	return !strings.HasPrefix(source, onDisk) || status.Said[source] == sum
}

// put is the write of a document, and whether somebody is to be told of it.
func (s *Service) put(before ledger.Object, status Status, d *Document, source string) (ledger.Put, bool, error) {
	op := "create"
	if before.Version > 0 {
		op = "update"
	}
	sum := digest(d)
	status.Pending, status.Everybody = pending(before, status, d.value)
	status.Told = false
	status.Source, status.Digest, status.Message = source, sum, inShort(d.value)
	if strings.HasPrefix(source, onDisk) {
		said := map[string]string{source: sum}
		for k, v := range status.Said {
			if k != source && len(said) < 32 {
				said[k] = v
			}
		}
		status.Said = said
	}
	encoded, err := document.Encode(status)
	if err != nil {
		return ledger.Put{}, false, fmt.Errorf("cannot encode the status: %w", err)
	}
	o := ledger.Object{
		Ref: ledger.Ref{Kind: d.Kind, ID: d.Name}, Name: d.Name, Labels: d.Labels, Spec: d.Spec, Status: encoded,
	}
	if q, ok := d.value.(*Quota); ok {
		o.Org, o.Owner = q.Organisation, q.Account
	}
	return ledger.Put{Object: o, Expect: before.Version, Op: op}, status.Everybody || len(status.Pending) > 0, nil
}

// stored returns an object, one of version 0 if there never was any.
func (s *Service) stored(ctx context.Context, ref ledger.Ref) (ledger.Object, error) {
	o, err := s.Store.Get(ctx, ref)
	if fault.Is(err, fault.NotFound) {
		return ledger.Object{}, nil
	}
	if err != nil {
		return ledger.Object{}, fmt.Errorf("cannot read %s: %w", ref, err)
	}
	return o, nil
}

func (s *Service) set(ctx context.Context) ledger.Set {
	actor := access.From(ctx).Actor()
	if actor == "" {
		actor = "system"
	}
	return ledger.Set{Actor: actor, Cause: ledger.CauseOf(ctx)}
}

// claims lets no two quotas be for the same holder.
func claims(set *ledger.Set, ref ledger.Ref, value any, before ledger.Object) {
	name := func(holder string) ledger.Claim {
		return ledger.Claim{Name: ledger.Name{Space: "quota", Name: holder}, Holder: ref}
	}
	q, ok := value.(*Quota)
	if ok {
		set.Claims = append(set.Claims, name(q.holder()))
	}
	if was, had := decode(before).(*Quota); had && (!ok || was.holder() != q.holder()) {
		set.Frees = append(set.Frees, name(was.holder()))
	}
}

// digest of what a document says.
func digest(d *Document) string {
	labels, _ := json.Marshal(d.Labels) // text to text
	sum := sha256.Sum256(slices.Concat([]byte(d.Kind+"/"+d.Name+"\n"), labels, []byte("\n"), d.Spec))
	return "sha256:" + hex.EncodeToString(sum[:])
}

// decode returns the spec of a live object, nil if there is none that can be read.
func decode(o ledger.Object) any {
	v := blank(o.Kind)
	if v == nil || o.Version == 0 || !o.Deleted.IsZero() || json.Unmarshal(o.Spec, v) != nil {
		return nil
	}
	return v
}

// Get returns a policy's object. Faults: NotFound.
func (s *Service) Get(ctx context.Context, kind, name string) (ledger.Object, error) {
	o, err := s.stored(ctx, ledger.Ref{Kind: kind, ID: name})
	if err == nil && (o.Version == 0 || !o.Deleted.IsZero()) {
		err = fault.New(fault.NotFound, "there is no %s %.64q", kind, name)
	}
	return o, err
}

// List returns the policies of a kind after a name, at most limit.
func (s *Service) List(ctx context.Context, kind, after string, limit int) ([]ledger.Object, error) {
	return s.Store.List(ctx, ledger.Query{Kind: kind, AfterID: after, Limit: limit})
}

// Delete takes a policy out of force. Faults: NotFound.
func (s *Service) Delete(ctx context.Context, kind, name string) (ledger.Object, error) {
	if blank(kind) == nil {
		return ledger.Object{}, fault.New(fault.Invalid, "%.64q is no kind of policy", kind)
	}
	o, err := s.Get(ctx, kind, name)
	if err != nil {
		return ledger.Object{}, err
	}
	var status Status
	_ = json.Unmarshal(o.Status, &status) // an unreadable status says nothing
	was := decode(o)
	// Of a quota something may be lost; of a deny list, what was to go and waits
	// for an approval may stay.
	if status.Everybody, status.Told = kind == KindQuota.Name || kind == KindDenyList.Name, false; !status.Everybody {
		status.Pending = nil // nobody is told of anything
	}
	if o.Status, err = document.Encode(status); err != nil {
		return ledger.Object{}, fmt.Errorf("cannot encode the status: %w", err)
	}
	expect := o.Version
	o.Deleted = s.Now()
	set := s.set(ctx)
	set.Puts = []ledger.Put{{Object: o, Expect: expect, Op: "delete"}}
	if q, ok := was.(*Quota); ok {
		set.Frees = []ledger.Claim{{Name: ledger.Name{Space: "quota", Name: q.holder()}, Holder: o.Ref}}
	}
	if status.Everybody {
		set.Wakes = []ledger.Wake{{Ref: o.Ref}}
	}
	result, err := s.Store.Commit(ctx, set)
	if err != nil {
		return ledger.Object{}, fmt.Errorf("cannot delete %s %s: %w", kind, name, err)
	}
	s.settle(ctx, result.Objects...)
	return result.Objects[0], nil
}
