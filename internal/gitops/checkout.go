package gitops

import (
	"context"
	"encoding/json"
	"fmt"
	"path"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/droverhq/drover/internal/fault"
	"github.com/droverhq/drover/internal/ledger"
	"github.com/droverhq/drover/internal/runtime"
	"github.com/droverhq/drover/internal/source"
)

// Checkout is what the control plane read of a repository for an engine without
// Argo CD.
type Checkout struct {
	Head   string // commit that the revision is now
	Commit string // that Body is of
	Made   string // what Body was made of
	Body   []byte // for the agent; nil: what it has is right
	// Trouble is why it could not be read, for the user; Passing: it may be gone
	// by itself.
	Trouble string
	Passing bool
	Again   time.Duration // when to look again
}

// looks is since when deployments want to know what their repositories have now, in
// this process. Losing it costs another look, nothing else.
type looks struct {
	mu sync.Mutex
	by map[string]look
}

type look struct {
	key string
	at  time.Time
}

const maxLooks = 100_000

// since is when the deployment was first seen to want to know this.
func (l *looks) since(id, key string, now time.Time) time.Time {
	l.mu.Lock()
	defer l.mu.Unlock()
	if seen, ok := l.by[id]; ok && seen.key == key {
		return seen.at
	}
	if l.by == nil || len(l.by) >= maxLooks {
		l.by = map[string]look{}
	}
	l.by[id] = look{key, now}
	return now
}

// checkout asks what the revision is now, and reads the files where the agent has
// others. Git's trouble is told to the user and removes nothing.
func (s *Service) checkout(ctx context.Context, d Deployment, f *Facts) error {
	c := &Checkout{Again: s.Poll}
	f.Checkout = c
	if s.Prober == nil || s.Source == nil {
		c.Trouble = "this server cannot read repositories: deploy to a cluster with Argo CD"
		return nil
	}
	with, err := s.credential(ctx, f.Credential)
	if err != nil {
		return err
	}
	err = s.read(ctx, d, f, c, with)
	if ctx.Err() != nil {
		return ctx.Err()
	}
	if err != nil {
		c.Trouble, c.Body = err.Error(), nil
		c.Passing = !fault.Is(err, fault.Invalid) && !fault.Is(err, fault.NotFound) && !fault.Is(err, fault.Denied)
	}
	return nil
}

func (s *Service) read(ctx context.Context, d Deployment, f *Facts, c *Checkout, with source.Credential) error {
	revision, run := d.Spec.Revision, "-"
	at := source.Location{Repository: strings.TrimRight(d.Spec.Repository, "/"), Revision: revision}
	var err error
	if c.Head, err = s.probe(ctx, d, f, at, with); err != nil {
		return err
	}
	c.Commit = c.Head
	if next := f.Next; !d.Spec.Automated {
		switch {
		case next != nil && d.Status.Run == next.ID && strings.HasSuffix(d.Status.Made, " "+next.ID) && !next.stops():
			return nil // it is under way
		case next == nil || next.stops():
			run = comparing // nothing is asked for
		default:
			if run = next.ID; next.Spec.Revision != "" {
				at.Revision = next.Spec.Revision
				if c.Commit, err = s.Prober.Probe(ctx, at, with); err != nil {
					return err
				}
			}
		}
	}
	parts := []any{d.Spec.Repository, d.Spec.Path, d.Spec.Revision, d.Spec.To.Namespace, d.Spec.SyncOptions, f.Workspace.Spec.ClusterResources}
	named := d.named(*f.Workspace, *f.Engine)
	if len(named) > 0 {
		parts = append(parts, named)
	}
	if slices.Contains(d.Spec.SyncOptions, namespaceNotMade) { // bodies of before did not say so
		parts = append(parts, namespaceNotMade)
	}
	key, _ := json.Marshal(parts)
	c.Made = fmt.Sprintf("%s %s %s", c.Commit, ledger.Digest(key)[7:23], run)
	if c.Made == d.Status.Made && d.Status.Engine == f.Wanted && d.Status.Issued > 0 && !d.Status.Remove {
		return nil
	}
	at.Revision = c.Commit
	if at.Path = path.Clean(d.Spec.Path); at.Path == "." {
		at.Path = ""
	}
	again := fmt.Sprintf("%s %d", c.Made, d.Status.Refresh)
	if err := s.heavy.known(d.ID, again, s.Now()); err != nil {
		return err
	}
	tree, err := s.Source.Read(ctx, at, with, source.Limits{})
	if err != nil {
		return s.heavy.found(d.ID, again, s.Now(), err)
	}
	s.commits.put(commitKey(d, c.Commit), commit{author: cut(tree.Author, maxMessage), message: cut(tree.Message, maxMessage)})
	objects, err := manifestsOf(tree.Files, bounds{
		Namespace: d.Spec.To.Namespace, Namespaces: f.Workspace.namespacesOn(f.Wanted), ClusterResources: f.Workspace.Spec.ClusterResources,
	})
	if err != nil {
		return err
	}
	from := runtimeOrigin{UID: d.ID, Repository: d.Spec.Repository, Path: d.Spec.Path, Revision: d.Spec.Revision, Commit: c.Commit, Namespace: d.Spec.To.Namespace,
		ClusterResources: f.Workspace.Spec.ClusterResources, Named: named, Manual: !d.Spec.Automated, NoNamespace: !d.Spec.makesNamespace()}
	if from.Manual && run != comparing {
		from.Run, from.Prune, from.Retries = run, f.Next.Spec.Prune, runRetries
	}
	c.Body, err = encodeBody(kubernetesBody{Metadata: placeOf{Namespace: d.Spec.To.Namespace}, Manifests: objects, Deployment: from})
	return err
}

// giveUp ends a sync run that was taken up and is in no body, where it cannot come
// into one, or was taken out of it: those after it have waited long enough.
func (r *run) giveUp(lasting bool, why string) {
	s := &r.d.Status
	if s.Lost != nil && s.Lost.ID != s.Run {
		s.Lost = nil
	}
	if r.facts.Checkout == nil || s.Run == "" || s.Lost != nil || s.Sync == nil || s.Sync.ID != s.Run || strings.HasSuffix(s.Made, " "+s.Run) {
		return
	}
	switch {
	case s.Sync.Terminate:
		s.Lost = r.stopped()
	case r.d.Spec.Automated:
		s.Lost = &runtime.SyncRun{ID: s.Run, Phase: "Failed", Message: "the deployment became automated before it ended", Finished: r.now}
	case lasting:
		s.Lost = &runtime.SyncRun{ID: s.Run, Phase: "Failed", Message: why, Finished: r.now}
	default:
		return
	}
	r.set.Wakes = append(r.set.Wakes, ledger.Wake{Ref: ledger.Ref{Kind: KindSyncRun.Name, ID: s.Run}, Org: r.d.Org})
}

// kubernetesBody is the document of the kubernetes runtime.
type kubernetesBody struct {
	Metadata   placeOf          `json:"metadata"`
	Deployment runtimeOrigin    `json:"deployment"`
	Manifests  []map[string]any `json:"manifests"`
}

// runtimeOrigin is where the manifests are from: the runtime tells it again.
type runtimeOrigin struct {
	UID        string `json:"uid"`
	Repository string `json:"repository"`
	Path       string `json:"path"`
	Revision   string `json:"revision,omitempty"`
	Commit     string `json:"commit"`
	Kept       bool   `json:"kept,omitempty"` // it is to be let go of
	Namespace  string `json:"namespace"`
	// NoNamespace: it is not made for it.
	NoNamespace bool `json:"no_namespace,omitempty"`
	// ClusterResources: objects without a namespace may be among them. The agent
	// knows best which these are.
	ClusterResources bool `json:"cluster_resources,omitempty"`
	// Named are namespaces that an operator gave it by their names.
	Named []string `json:"named,omitempty"`
	// Manual: the manifests are compared with what is there, and applied for the
	// sync Run alone.
	Manual bool   `json:"manual,omitempty"`
	Run    string `json:"run,omitempty"`
	Prune  bool   `json:"prune,omitempty"`
	// Retries is how often Run is tried again after it failed.
	Retries int64 `json:"retries,omitempty"`
}

// comparing stands in Status.Made for the sync run of a body that is only compared.
const comparing = "="

// compares reports whether the agent is told nothing but what to compare with.
func (s *Status) compares() bool { return strings.HasSuffix(s.Made, " "+comparing) }

type placeOf struct {
	Namespace string `json:"namespace"`
}

// probe resolves the revision. A repository is asked at most once per Poll for all who
// open it alike, unless somebody says that it has changed, or asks for a sync run.
func (s *Service) probe(ctx context.Context, d Deployment, f *Facts, at source.Location, with source.Credential) (string, error) {
	if err := at.Check(); err != nil {
		return "", err
	}
	run := d.Status.Run
	if f.Next != nil {
		run = f.Next.ID
	}
	now := s.Now()
	since := s.looks.since(d.ID, fmt.Sprintf("%s@%s#%d/%s", at.Repository, at.Revision, d.Status.Refresh, run), now)
	if oldest := now.Add(-s.Poll); since.Before(oldest) {
		since = oldest
	}
	key := lookKey(at.Repository, f.Credential)
	lister, all := s.Prober.(Lister)
	if !all {
		key += "\x00" + at.Revision
	}
	return s.heads.head(ctx, key, at.Revision, since, s.Now, func(ctx context.Context) (func(string) (string, error), error) {
		if all {
			return lister.Refs(ctx, source.Location{Repository: at.Repository}, with)
		}
		return func(revision string) (string, error) { return s.Prober.Probe(ctx, at, with) }, nil
	})
}

// credential opens what was found good last.
func (s *Service) credential(ctx context.Context, c *Repository) (source.Credential, error) {
	out := source.Credential{KnownHosts: s.KnownHosts}
	if c == nil {
		return out, nil
	}
	good := c.Status.Good
	out.Username = good.Username
	if good.KnownHosts != "" {
		out.KnownHosts = []byte(good.KnownHosts)
	}
	if good.Password != "" {
		plain, err := s.Keeper.Unseal(ctx, good.Password)
		if err != nil {
			return out, fmt.Errorf("cannot open the credential %s: %w", c.ID, err)
		}
		out.Password = string(plain)
	}
	if good.SSHKey != "" {
		plain, err := s.Keeper.Unseal(ctx, good.SSHKey)
		if err != nil {
			return out, fmt.Errorf("cannot open the credential %s: %w", c.ID, err)
		}
		out.SSHKey = plain
	}
	return out, nil
}

// handed lists the objects that were handed over, for a runtime that tells of the
// whole alone.
func (s *Service) handed(ctx context.Context, d Deployment, seen *runtime.Deployed) error {
	raw, err := s.Keeper.Blob(ctx, d.Status.Desired)
	if err != nil {
		return fmt.Errorf("cannot read what was handed over: %w", err)
	}
	var body kubernetesBody
	if err := json.Unmarshal(raw, &body); err != nil {
		return fault.New(fault.Internal, "what was handed over of %s cannot be read: %w", d.Ref, err)
	}
	for _, o := range body.Manifests {
		r := identify(o)
		if api, _ := o["apiVersion"].(string); api != "" {
			r.Version = api[strings.LastIndexByte(api, '/')+1:]
		}
		r.Status = unknown
		if seen.Sync.Status == synced {
			r.Status = synced
		}
		seen.Resources = append(seen.Resources, r)
	}
	if s := &d.Status; seen.Compared == nil && s.Commit != "" {
		seen.Compared = &runtime.Compared{Repository: d.Spec.Repository, Path: d.Spec.Path, Revision: d.Spec.Revision, Namespace: d.Spec.To.Namespace}
	}
	return nil
}
