package gitops

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strings"

	"github.com/droverhq/drover/internal/fault"
	"github.com/droverhq/drover/internal/runtime"
)

// render makes the body for the agent. One that has not changed is not issued
// anew: the data plane need not hear of every wish.
func (r *run) render(ctx context.Context, a Render) error {
	s := &r.d.Status
	var body []byte
	var err error
	if r.facts.Engine.Runtime == kubernetes {
		c := r.facts.Checkout
		s.Read = NormaliseRepository(r.d.Spec.Repository)
		if s.Head = c.Head; c.Body == nil {
			return nil // what was handed over is still right
		}
		body = c.Body
		s.Commit, s.Made, s.Looked, s.Target, s.Named, s.Credential = c.Commit, c.Made, r.now, "", "", ""
		s.Detached = false
	} else {
		if id := r.targetID(a.Detached); s.Target != "" && s.Target != id && r.facts.Orphaned {
			s.Abandoned = s.Target
		}
		if body, err = encodeBody(r.body(a.Detached)); err != nil {
			return err
		}
		s.Credential = ""
		if c := r.facts.Credential; c != nil {
			s.Credential = c.ID
		}
		if s.Detached = a.Detached; !a.Detached {
			s.Target, s.Named = r.targetID(false), r.d.Spec.To.Target
		}
	}
	s.Runtime = r.facts.Engine.Runtime
	return r.issue(ctx, body)
}

// targetID is the id of the target that the body is to have; one that is detached
// has its last one still.
func (r *run) targetID(detached bool) string {
	switch t := r.facts.Target; {
	case detached:
		return r.d.Status.Target
	case t != nil:
		return t.ID
	}
	return ""
}

// detach hands over what was handed over last, without the target that is gone and
// without all that nothing is to be done with any more.
func (r *run) detach(ctx context.Context) error {
	raw, err := r.Keeper.Blob(ctx, r.d.Status.Desired)
	if err != nil {
		return fmt.Errorf("cannot read what was handed over: %w", err)
	}
	var last runtime.Deployment
	if err := json.Unmarshal(raw, &last); err != nil {
		return fault.New(fault.Internal, "what was handed over of %s cannot be read: %w", r.d.Ref, err)
	}
	unarm(&last)
	last.Detached, last.Kept = true, r.d.Spec.Keep
	body, err := encodeBody(last)
	if err != nil {
		return err
	}
	r.d.Status.Detached = true
	return r.issue(ctx, body)
}

// unarm takes from a deployment what it is opened with, and what is to be done.
func unarm(d *runtime.Deployment) {
	d.Target, d.Credential, d.Opened, d.Refused, d.Sync, d.Automated = nil, nil, nil, nil, nil, false
}

// issue hands a body over, if it is another.
func (r *run) issue(ctx context.Context, body []byte) (err error) {
	s := &r.d.Status
	digest := digestOfBody(body)
	if digest == s.Digest && s.Desired != "" && s.Issued > 0 && !s.Remove {
		return nil
	}
	if s.Desired, err = r.Keeper.PutBlob(ctx, body); err != nil {
		return fmt.Errorf("cannot keep what the agent is to have: %w", err)
	}
	s.Digest, s.Token, s.Remove = digest, r.task.Token, false
	s.Issued++
	return nil
}

// body is the deployment as an agent with Argo CD is told it, with references in
// place of secrets.
func (r *run) body(detached bool) runtime.Deployment {
	d, f := &r.d, &r.facts
	name := d.Name
	if d.Spec.Origin != nil {
		name = d.Spec.Origin.Namespace + "/" + d.Name
	}
	out := runtime.Deployment{
		UID: d.ID, Name: name, Workspace: d.workspace(),
		Namespaces: f.Workspace.namespacesOn(d.Status.Engine), ClusterResources: f.Workspace.Spec.ClusterResources,
		Repository: d.Spec.Repository, Path: d.Spec.Path, Revision: d.Spec.Revision,
		Namespace: d.Spec.To.Namespace, Detached: detached, Abandoned: d.Status.Abandoned,
		Automated: d.Spec.Automated, SyncOptions: d.Spec.SyncOptions,
		Sync: d.Status.Sync, Operation: shownBy(d.Status.Shown, d.Status.Engine),
	}
	if d.Status.Refresh > 0 {
		out.Refresh = fmt.Sprint(d.Status.Refresh)
	}
	covered := slices.ContainsFunc(out.Namespaces, func(n string) bool { return fits(n, out.Namespace) })
	switch reached := f.Workspace.reaches(*f.Engine, out.Namespace); {
	case d.Spec.To.Target != "" || covered && reached:
	case reached: // all of the organisation's own cluster
		out.Namespaces = append(slices.Clone(out.Namespaces), out.Namespace)
		slices.Sort(out.Namespaces)
	case d.Spec.Operator:
		// An operator may deploy anywhere. That is kept apart, or all of the
		// workspace could follow there.
		out.Workspace, out.Namespaces = out.Workspace+"-operators", []string{out.Namespace}
	default: // out of reach by now: Argo CD refuses it, and leaves what there is
	}
	if f.Credential != nil {
		good := f.Credential.Status.Good
		out.Credential = &runtime.RepositoryCredential{
			ID: f.Credential.ID, Username: good.Username, Password: good.Password, SSHKey: good.SSHKey, KnownHosts: good.KnownHosts,
		}
		if good.KnownHosts == "" && good.SSHKey != "" {
			out.Credential.KnownHosts = string(r.KnownHosts)
		}
		out.Credential.KnownHosts = provenHosts(out.Credential.KnownHosts, f.Credential.Status.HostKey)
		out.Credential.Since = f.Credential.Status.Since
		out.Opened = appendShown(out.Opened, f.Credential.Status.Shown, d.Status.Engine)
		out.Refused = appendShown(out.Refused, f.Credential.Status.Refused, d.Status.Engine)
	}
	if t := f.Target; t != nil && !detached {
		out.Target = &runtime.Target{
			ID: t.ID, Name: t.Name, Server: t.Status.Access.Server, Token: t.Status.Access.Token, CA: t.Status.Access.CA,
			Insecure: t.Status.Access.Insecure, Namespaces: t.Status.Access.Namespaces, ClusterResources: t.Status.Access.ClusterResources,
			Since: t.Status.Since,
		}
		out.Opened = appendShown(out.Opened, t.Status.Shown, d.Status.Engine)
		out.Refused = appendShown(out.Refused, t.Status.Refused, d.Status.Engine)
	}
	if k := keysOf(out); k != "" {
		out.Refresh += "." + k
	}
	return out
}

// shownBy is an operation as the agent of an engine shows it.
func shownBy(op *runtime.DeploymentOperation, engine string) *runtime.DeploymentOperation {
	if op == nil {
		return nil
	}
	by := *op
	by.Instance = engine
	return &by
}

// appendShown adds an operation as the agent of an engine shows it, if there is one.
func appendShown(all []runtime.DeploymentOperation, op *runtime.DeploymentOperation, engine string) []runtime.DeploymentOperation {
	if op == nil {
		return all
	}
	return append(all, *shownBy(op, engine))
}

// keysOf is another text whenever the repository or the cluster is opened with
// something else: Argo CD does not look again by itself at what it could not
// read. It says nothing of the keys, which are references here; empty: there are none.
func keysOf(d runtime.Deployment) string {
	var all []string
	if c := d.Credential; c != nil {
		all = append(all, c.ID, c.Username, c.Password, c.SSHKey, c.KnownHosts)
	}
	if t := d.Target; t != nil {
		all = append(all, t.ID, t.Server, t.Token, t.CA)
	}
	if all == nil {
		return ""
	}
	return digestOfBody([]byte(strings.Join(all, "\x00")))[:12]
}

// namespacesOn are the namespaces of a cluster that the workspace may deploy into.
func (w *Workspace) namespacesOn(cluster string) []string {
	var out []string
	if w.Spec.Home != "" && cluster == w.Spec.Engine && w.Spec.Namespace != system {
		out = append(out, w.Spec.Namespace)
	}
	for _, r := range w.Spec.Reach {
		if r.Cluster == cluster || r.Cluster == "*" {
			out = append(out, r.Namespaces...)
		}
	}
	slices.Sort(out)
	return slices.Compact(out)
}

// provenHosts are the lines of known_hosts that have the key that the host showed.
// Argo CD has one list for all: what a tenant says beside it, of this host or others,
// is not for there. Without a key they are all that is known.
func provenHosts(lines, key string) string {
	if key == "" {
		return lines
	}
	var out strings.Builder
	for line := range strings.Lines(lines) {
		if f := strings.Fields(line); len(f) >= 3 && f[1]+" "+f[2] == key {
			out.WriteString(strings.Join(f[:3], " ") + "\n")
		}
	}
	return out.String()
}
