package template

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/droverhq/drover/internal/access"
	"github.com/droverhq/drover/internal/executor"
	"github.com/droverhq/drover/internal/fault"
	"github.com/droverhq/drover/internal/ledger"
	"github.com/droverhq/drover/internal/source"
)

// Kind declares templates to the ledger: the id is the template's name.
var Kind = ledger.Kind{
	Name: "template", Fields: []ledger.Field{{Name: "version", Type: ledger.Text}, {Name: "tags", Type: ledger.Text}},
	Totals: [][]string{{}}, Text: []string{"name", "tags"}, Searched: true,
}

// KindVersion declares their versions: the id is "<template>@<12 digits of the
// commit>", the parent the template.
var KindVersion = ledger.Kind{
	Name: "templateversion", Fields: []ledger.Field{
		{Name: "template", Type: ledger.Text}, {Name: "version", Type: ledger.Text}, {Name: "commit", Type: ledger.Text},
	},
	Totals: [][]string{{}, {"template"}}, Lookup: []string{"template"}, Searched: true,
}

// Kinds declares both.
func Kinds() []ledger.Kind { return []ledger.Kind{Kind, KindVersion} }

// Summary is the spec of a version, and of a template that of its newest.
type Summary struct {
	Template    string            `json:"template"`
	Version     string            `json:"version"` // for people
	ID          string            `json:"id"`      // of the version
	Commit      string            `json:"commit"`
	Source      string            `json:"source,omitempty"`
	Author      string            `json:"author,omitempty"`
	Time        time.Time         `json:"time,omitzero"` // of the commit
	Description string            `json:"description,omitempty"`
	Tags        []string          `json:"tags,omitempty"`
	Parameters  map[string]any    `json:"parameters,omitempty"`
	Resources   []string          `json:"resources,omitempty"` // up to 100 names
	Executors   []string          `json:"executors,omitempty"`
	Outputs     []string          `json:"outputs,omitempty"`
	Actions     []string          `json:"actions,omitempty"`
	Permissions Permissions       `json:"permissions,omitzero"`
	Pins        map[string]string `json:"pins,omitempty"`
	Files       string            `json:"files"` // digest of a blob
}

// Status of a version.
type Status struct {
	Added time.Time `json:"added"` // last
}

// Store is what the service needs of the ledger.
type Store interface {
	Commit(ctx context.Context, set ledger.Set) (ledger.Result, error)
	Get(ctx context.Context, ref ledger.Ref) (ledger.Object, error)
	List(ctx context.Context, query ledger.Query) ([]ledger.Object, error)
}

// Files keeps trees.
type Files interface {
	PutBlob(ctx context.Context, data []byte) (digest string, err error)
	Blob(ctx context.Context, digest string) ([]byte, error)
}

// Users tells whether a template is in use.
type Users interface {
	// Used counts the environments of a template that are not gone.
	Used(ctx context.Context, template string) (int64, error)
}

// Config of a Service.
type Config struct {
	Store     Store
	Files     Files
	Source    source.Source // nil: only files that come along
	Executors map[string]executor.Description
	Users     Users            // nil: nothing is in use
	Now       func() time.Time // default: time.Now
	Keep      int              // compiled versions in memory; default 64
}

// Service keeps templates in the ledger, and compiled versions in memory.
type Service struct {
	Config

	mu     sync.Mutex
	made   map[string]*Template // by id of the version
	recent []string             // ids, the last used last
}

// NewService makes a service.
func NewService(c Config) *Service {
	if c.Now == nil {
		c.Now = time.Now
	}
	c.Keep = cmp.Or(c.Keep, 64)
	return &Service{Config: c, made: map[string]*Template{}}
}

// attempts at a commit that somebody else's commit came before.
const attempts = 5

// VersionID is the id of a template's version.
func VersionID(name, commit string) string {
	commit = strings.TrimPrefix(commit, dirPrefix)
	return name + "@" + commit[:min(12, len(commit))]
}

// dirPrefix begins the commit of files that are in no repository.
const dirPrefix = "dir-"

// ID of the version.
func (t *Template) ID() string { return VersionID(t.Metadata.Name, t.Commit) }

// Add reads a version and keeps it; it says whether it is new. The same commit is
// the same version. No environment changes. Everybody may have files of theirs looked
// at (DryRun). Faults: Denied, Invalid (wraps
// document.Mistakes), Conflict (reason "version-taken"), those of the source.
func (s *Service) Add(ctx context.Context, a Addition) (ledger.Object, bool, error) {
	who, around := access.From(ctx), s.around(nil)
	switch {
	case who.Admin:
	case a.DryRun && a.Repository == "" && who.User != "" && who.Cluster == "":
		around.Template = s.onlyVisible(around.Template)
	case a.DryRun && who.User != "":
		return ledger.Object{}, false, fault.New(fault.Denied, "this server reads repositories for operators alone: check a directory of yours")
	default:
		return ledger.Object{}, false, fault.New(fault.Denied, "only an operator may add templates")
	}
	tree, from, err := s.read(ctx, a)
	if fault.Is(err, fault.Unavailable) {
		// It is the repository's server that is away: this one is well.
		err = fault.New(fault.Invalid, "the template cannot be read: %w", err).Because("source")
	}
	if err != nil {
		return ledger.Object{}, false, err
	}
	if a.DryRun {
		t, err := Parse(ctx, tree, from, around)
		if err != nil {
			return ledger.Object{}, false, err
		}
		o, err := t.summary(tree, "").object()
		return o, false, err
	}
	return s.AddTree(ctx, tree, from)
}

// AddTree keeps the version that a tree holds.
func (s *Service) AddTree(ctx context.Context, tree source.Tree, from string) (ledger.Object, bool, error) {
	if !access.From(ctx).Admin {
		return ledger.Object{}, false, fault.New(fault.Denied, "only an operator may add templates")
	}
	t, err := Parse(ctx, tree, from, s.around(nil))
	if err != nil {
		return ledger.Object{}, false, err
	}
	data, err := pack(tree)
	if err != nil {
		return ledger.Object{}, false, err
	}
	digest, err := s.Files.PutBlob(ctx, data)
	if err != nil {
		return ledger.Object{}, false, fmt.Errorf("cannot keep the files of template %s: %w", t.Ref(), err)
	}
	summary := t.summary(tree, digest)
	for attempt := 1; ; attempt++ {
		made, fresh, err := s.put(ctx, summary)
		if reason := fault.Reason(err); err == nil || attempt == attempts || reason != "version" && reason != "exists" {
			return made, fresh, err
		}
	}
}

// put writes a version and makes it the newest of its template. Both are in one
// set, so that two who add at once come one after the other.
func (s *Service) put(ctx context.Context, sum Summary) (ledger.Object, bool, error) {
	template, err := s.stored(ctx, ledger.Ref{Kind: Kind.Name, ID: sum.Template})
	if err != nil {
		return ledger.Object{}, false, err
	}
	version, err := s.stored(ctx, ledger.Ref{Kind: KindVersion.Name, ID: sum.ID})
	if err != nil {
		return ledger.Object{}, false, err
	}
	if !strings.HasPrefix(sum.Commit, dirPrefix) {
		others, err := s.labelled(ctx, sum.Template, sum.Version)
		if err != nil {
			return ledger.Object{}, false, err
		}
		for _, o := range others {
			if o.ID != sum.ID {
				return ledger.Object{}, false, fault.New(fault.Conflict, "%s@%s is commit %.12v already: give this one another spec.version", sum.Template, sum.Version, o.Fields["commit"]).Because("version-taken")
			}
		}
	}
	fresh := version.Version == 0 || !version.Deleted.IsZero()
	if !fresh {
		var before Summary
		if err := json.Unmarshal(version.Spec, &before); err != nil {
			return ledger.Object{}, false, fault.New(fault.Internal, "cannot read %s: %w", version.Ref, err)
		}
		if before.Commit != sum.Commit {
			return ledger.Object{}, false, fault.New(fault.Conflict, "two commits begin with %s: give the second one another content", sum.ID).Because("version-taken")
		}
		sum = before // what it was read with stays, and where it was read first
	}
	kept, err := sum.object()
	if err != nil {
		return ledger.Object{}, false, err
	}
	status, err := json.Marshal(Status{Added: s.Now().UTC()})
	if err != nil {
		return ledger.Object{}, false, err
	}
	op := func(o ledger.Object) string {
		if o.Version == 0 {
			return "create"
		}
		return "update"
	}
	kept.Status, kept.Words = status, strings.Join(append([]string{sum.Description}, sum.Tags...), " ")
	set := ledger.Set{Actor: cmp.Or(access.From(ctx).Actor(), "system"), Cause: ledger.CauseOf(ctx), Puts: []ledger.Put{
		{Expect: version.Version, Op: op(version), Object: kept},
		{Expect: template.Version, Op: op(template), Object: ledger.Object{
			Ref: ledger.Ref{Kind: Kind.Name, ID: sum.Template}, Name: sum.Template, Spec: kept.Spec, Status: status, Words: kept.Words,
			Fields: ledger.Fields{"version": sum.Version, "tags": "," + strings.Join(sum.Tags, ",") + ","},
		}},
	}}
	r, err := s.Store.Commit(ctx, set)
	if err != nil {
		return ledger.Object{}, false, fmt.Errorf("cannot store template %s: %w", sum.ID, err)
	}
	return r.Objects[0], fresh, nil
}

// stored returns an object, of version 0 if there never was one.
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

// Delete takes a template out of use with all its versions. Faults: Denied,
// NotFound, Conflict (reason "in-use") while an environment is made of it.
func (s *Service) Delete(ctx context.Context, name string) (ledger.Object, error) {
	if !access.From(ctx).Admin {
		return ledger.Object{}, fault.New(fault.Denied, "only an operator may delete templates")
	}
	o, err := s.template(ctx, name)
	if err != nil {
		return ledger.Object{}, err
	}
	if err := s.unused(ctx, name); err != nil {
		return ledger.Object{}, err
	}
	versions, err := s.versions(ctx, name, nil)
	if err != nil {
		return ledger.Object{}, err
	}
	set := ledger.Set{Actor: cmp.Or(access.From(ctx).Actor(), "system"), Cause: ledger.CauseOf(ctx)}
	for _, gone := range slices.Concat([]ledger.Object{o}, versions) {
		expect := gone.Version
		gone.Deleted = s.Now().UTC()
		set.Puts = append(set.Puts, ledger.Put{Object: gone, Expect: expect, Op: "delete"})
	}
	r, err := s.Store.Commit(ctx, set)
	if err != nil {
		return ledger.Object{}, fmt.Errorf("cannot delete template %s: %w", name, err)
	}
	return r.Objects[0], nil
}

// unused refuses while environments, or other templates, need the template.
func (s *Service) unused(ctx context.Context, name string) error {
	if s.Users != nil {
		n, err := s.Users.Used(ctx, name)
		if err != nil {
			return fmt.Errorf("cannot count the environments of template %s: %w", name, err)
		}
		if n > 0 {
			return fault.New(fault.Conflict, "%d environments are made of template %s: destroy them first", n, name).Because("in-use")
		}
	}
	all, err := s.pages(ctx, ledger.Query{Kind: KindVersion.Name})
	if err != nil {
		return err
	}
	for _, o := range all {
		var sum Summary
		if json.Unmarshal(o.Spec, &sum) != nil || sum.Template == name {
			continue
		}
		for _, id := range sum.Pins {
			if of, _, _ := strings.Cut(id, "@"); of == name {
				return fault.New(fault.Conflict, "template %s is a part of %s: delete that first", name, o.ID).Because("in-use")
			}
		}
	}
	return nil
}
